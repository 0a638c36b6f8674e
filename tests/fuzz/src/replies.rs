//! Replies of strategies: what is read is what was written, and what is accepted can be appended and taken back.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use jp_compact_core::reply::{self, Answer, Terminal};
use jp_compact_core::validate::{Asked, validate};
use jp_compact_core::{Overlap, Stream, Survey};
use jp_compact_schema::{Answer as Answered, ContentKind, Reply, ToolHint, catalog};
use jsonschema::Validator;
use serde_json::Value;

use crate::{Choices, holds, stream};

/// The request that is answered.
const ID: &str = "c1";
/// More of an output than this is never quoted. A message has a few words of its own.
const QUOTED_MAX: usize = 2_000;

static STREAMS: LazyLock<Vec<Stream>> = LazyLock::new(|| {
    let files: [&[u8]; 4] = [
        include_bytes!("../../sample/events.json"),
        include_bytes!("../../../host/core/tests/cases/answered-in-a-later-turn/events.json"),
        include_bytes!("../../../host/core/tests/cases/ids-used-again/events.json"),
        include_bytes!("../../../host/core/tests/cases/a-summary-inside-another/events.json"),
    ];
    files.map(|file| Stream::parse(Bytes::from_static(file)).expect("a sample can be read")).into()
});
static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let schema = catalog::get("reply").expect("it is published").json();
    jsonschema::draft202012::new(&schema).expect("it is a schema")
});

/// Looks at the whole output of a strategy.
pub fn check(input: &[u8]) {
    let (output, mut choices) = Choices::split(input);
    let answer = match reply::read(output, ID) {
        Ok(answer) => answer,
        Err(violation) => {
            let message = violation.to_string();
            assert!(message.len() < QUOTED_MAX, "a violation of {} bytes", message.len());
            return;
        }
    };
    again(output, &answer);
    let stream = &STREAMS[choices.below(STREAMS.len())];
    match &answer.terminal {
        Terminal::Result(result) => proposed(stream, result.compactions.clone(), &mut choices),
        Terminal::Needs(needs) => {
            let known = needs.requests.keys().next().filter(|_| choices.flag()).cloned();
            let answers: BTreeMap<String, Answered> =
                known.into_iter().map(|key| (key, Answered::Ok(serde_json::Map::new()))).collect();
            let checked = reply::check_needs(needs, u32::from(choices.byte()), &answers);
            assert!(answers.is_empty() || checked.is_err(), "a key is used once");
        }
        Terminal::Decline(_) | Terminal::Error(_) => {}
    }
}

/// Every line is as the schema says, and the same when it is written again.
fn again(output: &[u8], answer: &Answer) {
    let text = std::str::from_utf8(output).expect("it was read");
    let mut written = String::new();
    for line in text.lines().filter(|line| !reply::is_blank(line)) {
        let reply = Reply::parse(line).expect("it was read");
        if matches!(reply, Reply::Unknown) {
            continue;
        }
        let value: Value = serde_json::from_str(line).expect("it was read");
        assert!(SCHEMA.is_valid(&value), "the types take what the schema does not: {line}");
        let line = serde_json::to_string(&reply).expect("a reply can be written");
        assert_eq!(Reply::parse(&line).expect("what is written can be read"), reply);
        written += &format!("{line}\r\n\n");
    }
    assert_eq!(reply::read(written.as_bytes(), ID).as_ref(), Ok(answer), "it says the same written again");
}

/// What is accepted lies in the range that was asked for, and can be appended.
fn proposed(stream: &Stream, proposal: Vec<jp_compact_schema::Payload>, choices: &mut Choices<'_>) {
    let survey = Survey::of(stream);
    let Some(range) = holds::range(&survey, choices) else { return };
    let all = [ContentKind::Summary, ContentKind::Reasoning, ContentKind::ToolCalls];
    let which = choices.byte();
    let produces: Vec<ContentKind> = (0..3).filter(|bit| which >> bit & 1 == 0).map(|bit| all[bit]).collect();
    let hints: BTreeMap<String, ToolHint> = BTreeMap::new();
    let asked = Asked {
        produces: &produces,
        overlap: choices.of(&[Overlap::Partial, Overlap::Union]),
        by_model: choices.flag(),
        ..holds::asked(&survey, range, &hints)
    };
    let checked = validate(&asked, proposal.clone());
    assert_eq!(checked, validate(&asked, proposal.clone()), "a proposal is judged the same each time");
    let compactions = match checked {
        Ok(compactions) => compactions,
        Err(refusal) => {
            assert!(refusal.to_string().len() < QUOTED_MAX, "a refusal says little");
            return;
        }
    };
    assert_eq!(compactions.len(), proposal.len(), "all of a reply is taken, or nothing");
    for compaction in &compactions {
        assert!(range.covers(compaction.range()), "{} leaves {range}", compaction.range());
        assert_eq!(survey.pairs.split_by(compaction.range()), None);
    }
    stream::appended_of(stream, compactions, choices);
}
