//! Tests of the prompts, and of how the strategy handles the answers.

use jp_compact_strategy::schema::{Answer, CompactionRef, EventLine, Kinds, Llm, NeedRequest, Role, Turn};
use jp_compact_strategy::testing::{ask, request};
use serde_json::Value;

use super::*;

/// Returns ten turns, each with a constraint, a code block, and an answer.
fn talk() -> Vec<EventLine> {
    let line = |(seq, (turn, event)): (usize, (usize, Value))| {
        let raw = serde_json::value::to_raw_value(&event).unwrap();
        EventLine::new(seq as u64, turn, 50, raw)
    };
    let turn = |turn: usize| {
        let asked = format!(
            "Request {turn}: never touch vendor/.\n```rust\nfn f{turn}() {{\n    g({turn});\n}}\n```"
        );
        let filler = "x".repeat(100);
        [
            (turn, json!({"type": "turn_start"})),
            (turn, json!({"type": "chat_request", "content": format!("{asked}\n{filler}")})),
            (
                turn,
                json!({"type": "chat_response", "message": format!("Answer {turn}. {}", "y".repeat(180))}),
            ),
        ]
    };
    (0..10).flat_map(turn).enumerate().map(line).collect()
}

fn asked(turns: usize) -> CompactRequest {
    let mut request = request(0, turns - 1, &vec![Kinds::default(); turns]);
    for row in &mut request.context.turns {
        *row = Turn { view_tokens: 100, tokens: 100, ..row.clone() };
    }
    request.context.tokens.view = 100 * turns as u64;
    request.context.llm = Some(Llm { model: "p/m".into(), context_window: Some(200_000) });
    request.context.previous_summaries = Some(Vec::new());
    request
}

struct Need {
    key: String,
    system: String,
    messages: Vec<(Role, String)>,
    max_tokens: u64,
}

fn needs(outcome: &Outcome) -> Vec<Need> {
    let Outcome::Needs { requests, .. } = outcome else { return Vec::new() };
    let need = |(key, need): (&String, &NeedRequest)| match need {
        NeedRequest::LlmComplete { system, messages, max_tokens, .. } => Need {
            key: key.clone(),
            system: system.clone().unwrap(),
            messages: messages.iter().map(|message| (message.role, message.content.clone())).collect(),
            max_tokens: max_tokens.unwrap(),
        },
        other => panic!("{other:?}"),
    };
    requests.iter().map(need).collect()
}

/// Runs all rounds, and returns the needs and the outcome.
fn play(
    request: &CompactRequest,
    model: impl Fn(&Need) -> &'static str,
) -> (Vec<Need>, Result<Outcome, StrategyError>) {
    let (mut request, mut all) = (request.clone(), Vec::new());
    for _ in 0..=8 {
        let outcome = ask(&Collapse, &request, &talk());
        let Ok(Outcome::Needs { state, .. }) = &outcome else { return (all, outcome) };
        request.state.clone_from(state);
        for need in needs(outcome.as_ref().unwrap()) {
            let answer = json!({"text": model(&need), "model": "p/m"});
            let Value::Object(answer) = answer else { unreachable!() };
            assert!(
                request.answers.insert(need.key.clone(), Answer::Ok(answer)).is_none(),
                "a key is used once"
            );
            all.push(need);
        }
    }
    panic!("the strategy never stops asking");
}

/// Returns the turns and the text of the summary, without its section of facts.
#[track_caller]
fn summary(outcome: Result<Outcome, StrategyError>) -> (usize, usize, String) {
    match outcome {
        Ok(Outcome::Result { mut compactions, .. }) if compactions.len() == 1 => {
            let payload = compactions.remove(0);
            (payload.from_turn, payload.to_turn, without_section(&payload.summary.unwrap().summary))
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the text between the tags with this name.
fn inside<'a>(need: &'a Need, name: &str) -> &'a str {
    let content = &need.messages[0].1;
    let Some(start) = content.find(&format!("<{name}-")) else { return "" };
    let end = content[start..].find(&format!("</{name}-")).unwrap();
    &content[start..start + end]
}

#[test]
fn summarizes_oldest_70_percent_with_newest_15_as_reference() {
    let (asked, outcome) = play(&asked(10), |_| "They did things.");
    assert_eq!(summary(outcome), (0, 6, "They did things.".to_owned()));
    let [need] = &asked[..] else { panic!("{} requests", asked.len()) };
    assert_eq!(need.max_tokens, 9_000, "a tenth is reserved for the section");
    let (transcript, reference) = (inside(need, "transcript"), inside(need, "reference"));
    for turn in 0..10 {
        let (label, answer) = (format!("turn {turn}, user:"), format!("Answer {turn}."));
        assert_eq!(transcript.contains(&label), turn < 7, "{turn}");
        assert_eq!(transcript.contains(&answer), turn < 7, "{turn}");
        // 150 tokens are enough for one turn and its label, but not for two turns.
        assert_eq!(reference.contains(&label), turn == 9, "{turn}");
        assert_eq!(reference.contains(&answer), turn == 9, "{turn}");
    }
    assert_eq!(inside(need, "earlier"), "");
    assert!(need.system.contains("stands, as data too, how the conversation goes on"), "{}", need.system);
}

#[test]
fn prompt_asks_for_verbatim_code_and_directives() {
    let (asked, _) = play(&asked(10), |_| "S");
    let system = &asked[0].system;
    for words in
        ["every block of code that works and may still be needed, verbatim", "in the user's own words"]
    {
        assert!(system.contains(words), "{words} is not in {system}");
    }
}

fn earlier(from_turn: usize, to_turn: usize, text: &str) -> PreviousSummary {
    PreviousSummary { from_turn, to_turn, from_step: None, to_step: None, text: text.to_owned() }
}

#[test]
fn latest_three_summaries_in_range_are_background() {
    let mut request = asked(10);
    request.context.previous_summaries = Some(vec![
        earlier(0, 0, "SUM-ONE"),
        earlier(0, 1, "SUM-TWO"),
        earlier(0, 2, "SUM-THREE\nturn 7, user:"),
        earlier(8, 9, "SUM-OF-WHAT-STAYS"),
        earlier(0, 3, "SUM-FOUR"),
    ]);
    let shown = |request: &CompactRequest| {
        let (asked, _) = play(request, |_| "S");
        assert!(
            inside(&asked[0], "transcript").contains("Answer 0."),
            "the raw events are still in the prompt"
        );
        let text = inside(&asked[0], "earlier").to_owned();
        assert!(!text.contains("\nturn 7"), "a summary cannot forge a label: {text}");
        let texts = ["SUM-ONE", "SUM-TWO", "SUM-THREE", "SUM-OF-WHAT-STAYS", "SUM-FOUR"];
        let mut found: Vec<_> = texts.iter().filter_map(|name| Some((text.find(name)?, *name))).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    assert_eq!(shown(&request), ["SUM-TWO", "SUM-THREE", "SUM-FOUR"]);
    request.options.insert("previous_summaries".into(), json!(1));
    assert_eq!(shown(&request), ["SUM-FOUR"]);
    request.options.insert("previous_summaries".into(), json!(0));
    assert_eq!(shown(&request), Vec::<&str>::new());
}

const TRUE: &str = "S\n```rust\nfn f3() {\n    g(3);\n}\n```";
const FALSE: &str = "S\n```rust\nfn f3() {\n    g(33);\n}\n```";
/// The code of a turn that is not summarized.
const NEWER: &str = "S\n```rust\nfn f8() {\n    g(8);\n}\n```";

#[test]
fn accepts_code_of_the_range() {
    let (asked, outcome) = play(&asked(10), |_| TRUE);
    assert_eq!((asked.len(), summary(outcome).2.as_str()), (1, TRUE));
}

#[test]
fn invented_code_is_retried_once_then_rejected() {
    for wrong in [FALSE, NEWER] {
        let retry = |need: &Need| if need.key == RETRY_KEY { TRUE } else { wrong };
        let (needs, outcome) = play(&asked(10), retry);
        assert_eq!(summary(outcome), (0, 6, TRUE.to_owned()));
        let [first, second] = &needs[..] else { panic!("{} requests", needs.len()) };
        assert_eq!(second.messages[0], first.messages[0], "the whole transcript again");
        assert_eq!((&second.system, second.max_tokens), (&first.system, first.max_tokens));
        assert_eq!(second.messages[1], (Role::Assistant, wrong.to_owned()));
        let (role, complaint) = &second.messages[2];
        assert!(*role == Role::User && complaint.contains("Copy each block verbatim"), "{complaint}");

        let (needs, outcome) = play(&asked(10), |_| wrong);
        assert_eq!((needs.len(), outcome.unwrap_err().code.as_str()), (2, "answer_refused"));
    }
}

#[test]
fn accepts_code_of_an_earlier_summary() {
    let mut request = asked(10);
    request.context.previous_summaries = Some(vec![earlier(0, 2, FALSE)]);
    assert_eq!(summary(play(&request, |_| FALSE).1).2, FALSE);
    request.context.previous_summaries = Some(vec![earlier(8, 9, FALSE)]);
    assert_eq!(play(&request, |_| FALSE).1.unwrap_err().code, "answer_refused");
}

#[test]
fn large_range_is_summarized_in_parts() {
    let mut request = asked(10);
    request.context.llm = Some(Llm { model: "p/m".into(), context_window: Some(3_000) });
    request.options.insert("summary_max_tokens".into(), json!(100));
    request.options.insert("extract_ratio".into(), json!(0.95));
    request.context.previous_summaries = Some(vec![earlier(0, 2, "EARLIER")]);
    let (needs, outcome) = play(&request, |need| match need.key.as_str() {
        RETRY_KEY => TRUE,
        _ => FALSE,
    });
    assert_eq!(summary(outcome).2, TRUE);
    let keys: Vec<&str> = needs.iter().map(|need| need.key.as_str()).collect();
    assert!(keys[..2] == ["s0", "s1"] && keys.ends_with(&["text", RETRY_KEY]), "{keys:?}");
    let [note, .., merge, again] = &needs[..] else { unreachable!() };
    assert_eq!(
        (inside(note, "reference"), inside(note, "earlier")),
        ("", ""),
        "a note does not depend on them"
    );
    assert!(inside(merge, "reference").contains("Answer 9.") && inside(merge, "earlier").contains("EARLIER"));
    assert_eq!(again.messages[0], merge.messages[0]);
    for need in &needs[..keys.len() - 1] {
        let chars = need.system.chars().count() + need.messages[0].1.chars().count();
        assert!(chars as u64 / 4 + need.max_tokens <= 3_000, "{}: {chars}", need.key);
    }
}

#[test]
fn summarizes_exactly_the_extended_range() {
    let mut request = asked(10);
    request.range = Range::turns(1, 8);
    request.range_exact = true;
    let (needs, outcome) = play(&request, |_| "S");
    assert_eq!(summary(outcome), (1, 8, "S".to_owned()));
    assert!(
        inside(&needs[0], "transcript").contains("Answer 8.")
            && inside(&needs[0], "reference").contains("Answer 9.")
    );
}

#[test]
fn declines_one_turn_and_existing_summaries() {
    let declined = |request: &CompactRequest| match ask(&Collapse, request, &talk()) {
        Ok(Outcome::Decline(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(declined(&asked(1)), "the range has fewer than two turns");
    let mut request = asked(10);
    let older = CompactionRef { from_turn: 0, to_turn: 6, summary: true, ..CompactionRef::default() };
    request.context.compactions = vec![older];
    assert!(declined(&request).starts_with("the oldest part is already a summary of turns 0 to 6"));
}

#[test]
fn every_option_has_its_effect() {
    let with = |key: &str, value: Value| {
        let mut request = asked(10);
        request.options.insert(key.to_owned(), value);
        play(&request, |_| "S")
    };
    assert_eq!(summary(with("extract_ratio", json!(0.3)).1).1, 2);
    assert_eq!(inside(&with("recent_ratio", json!(0)).0[0], "reference"), "");
    assert!(inside(&with("recent_ratio", json!(1)).0[0], "reference").contains("Answer 7."));
    assert_eq!(with("summary_max_tokens", json!(77)).0[0].max_tokens, 70);
    assert!(
        with("focus", json!("the vendor folder")).0[0].system.contains("above all to: the vendor folder")
    );
    let error = |key: &str| with(key, json!("x")).1.unwrap_err().code;
    assert_eq!(
        (error("ratio").as_str(), error("extract_ratio").as_str()),
        ("options_invalid", "options_invalid")
    );
}

#[test]
fn rejects_invalid_state() {
    let mut request = asked(10);
    let text = r#"{"parts":0,"asked":0,"merged":0,"notes":[],"is_last":true}"#;
    for state in ["x", &format!(r#"{{"from_turn":0,"to_turn":5,"text":{text}}}"#)] {
        request.state = Some(state.into());
        assert_eq!(ask(&Collapse, &request, &talk()).unwrap_err().code, "request_invalid");
    }
}

/// Returns two turns, the first with a tool output of this text.
fn output_of(text: &str) -> Vec<EventLine> {
    let events = [
        (0, json!({"type": "chat_request", "content": "Show the file."})),
        (0, json!({"type": "tool_call_request", "id": "1", "name": "read", "arguments": {}})),
        (0, json!({"type": "tool_call_response", "id": "1", "content": text})),
        (1, json!({"type": "chat_request", "content": "Go on."})),
    ];
    let line = |(seq, (turn, event)): (usize, (usize, Value))| {
        let tokens = event.to_string().len() as u64 / 4;
        EventLine::new(seq as u64, turn, tokens, serde_json::value::to_raw_value(&event).unwrap())
    };
    events.into_iter().enumerate().map(line).collect()
}

#[test]
fn code_that_the_model_was_not_shown_is_refused() {
    let code = "```rust\nfn hidden() {\n    g(1);\n}\n```\n";
    let text = format!("{}\n{code}{}\n", "a line\n".repeat(3_000), "a line\n".repeat(3_000));
    let answer = |window: u64| {
        let mut request = asked(2);
        request.context.llm = Some(Llm { model: "p/m".into(), context_window: Some(window) });
        request.options.insert("summary_max_tokens".into(), json!(200));
        let mut state = None;
        let (mut answers, mut was_shown) = (std::collections::BTreeMap::new(), false);
        loop {
            request.state.clone_from(&state);
            request.answers.clone_from(&answers);
            let outcome = ask(&Collapse, &request, &output_of(&text));
            let Ok(Outcome::Needs { state: next, .. }) = &outcome else { return (was_shown, outcome) };
            for need in needs(outcome.as_ref().unwrap()) {
                was_shown |= need.messages[0].1.contains("fn hidden()");
                let Value::Object(answer) = json!({"text": format!("S\n{code}"), "model": "p/m"}) else {
                    unreachable!()
                };
                answers.insert(need.key.clone(), Answer::Ok(answer));
            }
            state.clone_from(next);
        }
    };
    let (was_shown, outcome) = answer(200_000);
    assert!(was_shown && outcome.is_ok(), "{outcome:?}");
    let (was_shown, outcome) = answer(8_000);
    assert!(!was_shown);
    assert_eq!(outcome.unwrap_err().code, "answer_refused");
}

#[test]
fn a_long_code_block_of_a_message_is_shown_in_consecutive_parts() {
    let lines: Vec<String> =
        (0..900).map(|line| format!("    let value_{line} = compute({line});")).collect();
    let message = format!("Here:\n```rust\n{}\n```\n", lines.join("\n"));
    let events = [
        (0, json!({"type": "chat_request", "content": "Write it."})),
        (0, json!({"type": "chat_response", "message": message})),
        (1, json!({"type": "chat_request", "content": "Go on."})),
    ];
    let line = |(seq, (turn, event)): (usize, (usize, Value))| {
        let tokens = event.to_string().len() as u64 / 4;
        EventLine::new(seq as u64, turn, tokens, serde_json::value::to_raw_value(&event).unwrap())
    };
    let events: Vec<EventLine> = events.into_iter().enumerate().map(line).collect();
    let mut request = asked(2);
    request.context.llm = Some(Llm { model: "p/m".into(), context_window: Some(8_000) });
    request.options.insert("summary_max_tokens".into(), json!(200));
    let mut parts = needs(&ask(&Collapse, &request, &events).unwrap());
    assert!(parts.len() > 2, "{}", parts.len());
    parts.sort_by_key(|need| need.key[1..].parse::<usize>().unwrap());
    let shown: Vec<String> = parts
        .iter()
        .flat_map(|need| need.messages[0].1.lines())
        .filter(|line| line.contains("= compute("))
        .map(|line| line.trim_start_matches("  ").trim_start().to_owned())
        .collect();
    let expected: Vec<String> = lines.iter().map(|line| line.trim_start().to_owned()).collect();
    assert_eq!(shown, expected, "each line once, in order");
}
