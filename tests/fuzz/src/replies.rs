//! Fuzz target for replies of strategies. A reply is unchanged after writing and reading. An accepted reply
//! can be appended and removed again.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use jp_compact_core::reply::{self, CompleteReply, Terminal};
use jp_compact_core::validate::{ValidationContext, validate};
use jp_compact_core::{Overlap, Stream, Survey};
use jp_compact_schema::{Answer, ContentKind, Reply, ToolHint, catalog};
use jsonschema::Validator;
use serde_json::Value;

use crate::{Choices, invariants, stream};

/// The id of the request.
const ID: &str = "c1";
/// The message of an error has fewer bytes than this, although it quotes the output.
const QUOTED_MAX: usize = 2_000;

static STREAMS: LazyLock<Vec<Stream>> = LazyLock::new(|| {
    let files: [&[u8]; 4] = [
        include_bytes!("../../sample/events.json"),
        include_bytes!("../../../host/core/tests/cases/answered-in-a-later-turn/events.json"),
        include_bytes!("../../../host/core/tests/cases/ids-used-again/events.json"),
        include_bytes!("../../../host/core/tests/cases/a-summary-inside-another/events.json"),
    ];
    files.map(|file| Stream::parse(Bytes::from_static(file)).expect("the samples are readable")).into()
});
static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let schema = catalog::get("reply").expect("the schema exists").json();
    jsonschema::draft202012::new(&schema).expect("the schema is valid")
});

/// Checks the whole output of a strategy.
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
    check_round_trip(output, &answer);
    let stream = &STREAMS[choices.below(STREAMS.len())];
    match &answer.terminal {
        Terminal::Result(result) => check_proposal(stream, result.compactions.clone(), &mut choices),
        Terminal::Needs(needs) => {
            let answered_key = needs.requests.keys().next().filter(|_| choices.flag()).cloned();
            let answers: BTreeMap<String, Answer> =
                answered_key.into_iter().map(|key| (key, Answer::Ok(serde_json::Map::new()))).collect();
            let needs_many = choices.flag();
            let result = reply::check_needs(needs, u32::from(choices.byte()), &answers, needs_many);
            assert!(
                needs_many || answers.is_empty() || result.is_err(),
                "a key of an earlier answer must be rejected"
            );
        }
        Terminal::Decline(_) | Terminal::Error(_) => {}
    }
}

/// Checks that every line is valid by the schema, and equal after writing and reading.
fn check_round_trip(output: &[u8], answer: &CompleteReply) {
    let text = std::str::from_utf8(output).expect("the output was read before");
    let mut written = String::new();
    for line in text.lines().filter(|line| !reply::is_blank(line)) {
        let reply = Reply::parse(line).expect("the output was read before");
        if matches!(reply, Reply::Unknown) {
            continue;
        }
        let value: Value = serde_json::from_str(line).expect("the output was read before");
        assert!(SCHEMA.is_valid(&value), "the types accept a reply that the schema rejects: {line}");
        let line = serde_json::to_string(&reply).expect("a reply can be written");
        assert_eq!(Reply::parse(&line).expect("a written reply is readable"), reply);
        written += &format!("{line}\r\n\n");
    }
    assert_eq!(
        reply::read(written.as_bytes(), ID).as_ref(),
        Ok(answer),
        "the reply differs after a round trip"
    );
}

/// Checks that an accepted proposal is in the requested range, and can be appended.
fn check_proposal(stream: &Stream, proposal: Vec<jp_compact_schema::Payload>, choices: &mut Choices<'_>) {
    let survey = Survey::new(stream);
    let Some(range) = invariants::range(&survey, choices) else { return };
    let kinds = [ContentKind::Summary, ContentKind::Reasoning, ContentKind::ToolCalls];
    let kind_mask = choices.byte();
    let produces: Vec<ContentKind> =
        (0..3).filter(|bit| kind_mask >> bit & 1 == 0).map(|bit| kinds[bit]).collect();
    let hints: BTreeMap<String, ToolHint> = BTreeMap::new();
    let context = ValidationContext {
        produces: &produces,
        overlap: choices.pick(&[Overlap::Partial, Overlap::Union]),
        written_by_model: choices.flag(),
        ..invariants::asked(&survey, range, &hints)
    };
    let result = validate(&context, proposal.clone());
    assert_eq!(result, validate(&context, proposal.clone()), "validation must be reproducible");
    let compactions = match result {
        Ok(compactions) => compactions,
        Err(refusal) => {
            assert!(refusal.to_string().len() < QUOTED_MAX, "an error must be short");
            return;
        }
    };
    assert_eq!(compactions.len(), proposal.len(), "a reply must be accepted as a whole");
    for compaction in &compactions {
        assert!(range.covers(compaction.range()), "{} leaves {range}", compaction.range());
        assert_eq!(survey.pairs.split_by(stream, compaction.range()), None);
    }
    stream::check_appended(stream, compactions, choices);
}
