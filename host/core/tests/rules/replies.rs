//! Replies of strategies, from the whole output to the validated compactions. Two turns are requested.

use std::collections::BTreeMap;
use std::path::Path;

use jp_compact_core::reply::{self, Terminal};
use jp_compact_core::validate::{ValidationContext, validate};
use jp_compact_core::{Pairs, TurnRange};
use jp_compact_schema::ContentKind::{Reasoning, Summary, ToolCalls};
use jp_compact_schema::{Answer, NeedRequest, Needs};
use serde::Deserialize;

use crate::build::Build;

/// Returns the number of compactions, or the reason to reject the output. The number is 0 for replies without a result.
fn outcome(output: &[u8]) -> Result<usize, String> {
    let reply = reply::read(output, "c1").map_err(|violation| violation.to_string())?;
    let Terminal::Result(result) = reply.terminal else { return Ok(0) };
    let stream = Build::turns(2).stream();
    let range = TurnRange::new(0, 1).unwrap();
    let pairs = Pairs::new(&stream);
    let context = ValidationContext {
        allows_steps: true,
        ..ValidationContext::new(&stream, &pairs, range, &[Summary, Reasoning, ToolCalls])
    };
    validate(&context, result.compactions)
        .map(|compactions| compactions.len())
        .map_err(|error| error.to_string())
}

#[derive(Deserialize)]
struct Expected {
    verdict: String,
    why: String,
}

#[test]
#[expect(clippy::print_stderr, reason = "prints that cases are missing")]
fn verdicts_match_the_shared_collection() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/replies");
    let Ok(verdicts) = std::fs::read(folder.join("verdicts.json")) else {
        eprintln!("the collection of replies is missing; only the project's own are checked");
        return;
    };
    let verdicts: BTreeMap<String, Expected> = serde_json::from_slice(&verdicts).unwrap();
    let mut failures = Vec::new();
    for (name, expected) in &verdicts {
        let output = replace(&std::fs::read(folder.join(name)).unwrap(), b"@ID@", b"c1");
        let outcome = outcome(&output);
        if outcome.is_ok() != (expected.verdict != "reject") {
            failures.push(format!("{name} ({}): {outcome:?}", expected.why));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(index) = rest.windows(from.len()).position(|window| window == from) {
        replaced.extend_from_slice(&rest[..index]);
        replaced.extend_from_slice(to);
        rest = &rest[index + from.len()..];
    }
    replaced.extend_from_slice(rest);
    replaced
}

const STRIP: &str =
    r#"{"type":"result","id":"c1","compactions":[{"from_turn":0,"to_turn":1,"reasoning":"strip"}]}"#;
const LOG: &str = r#"{"type":"log","id":"c1","level":"info","message":"m"}"#;
const PROGRESS: &str = r#"{"type":"progress","id":"c1","done":1}"#;
const DECLINE: &str = r#"{"type":"decline","id":"c1","reason":"r"}"#;

#[track_caller]
fn accepts(output: &str, compactions: usize) {
    assert_eq!(outcome(output.as_bytes()), Ok(compactions));
}

#[test]
fn accepts_one_terminal_line() {
    accepts(STRIP, 1);
    accepts(&format!("{STRIP}\n"), 1);
    accepts(&format!("\n \t\r\n{STRIP}\r\n\n  \n"), 1);
    accepts(&format!("{PROGRESS}\n{LOG}\n{PROGRESS}\n{STRIP}\n"), 1);
    accepts(&format!("{}\n{STRIP}\n", r#"{"type":"telemetry","id":7,"x":[[]]}"#), 1);
    accepts(&format!("  {STRIP}  "), 1);
    accepts(DECLINE, 0);
    accepts(r#"{"type":"error","id":"c1","code":"internal","message":"m"}"#, 0);
    accepts(r#"{"type":"needs","id":"c1","requests":{"k":{"kind":"tokens.count","text":"t"}}}"#, 0);
    accepts(
        r#"{"type":"result","id":"c1","later":1,"compactions":[{"from_turn":1,"to_turn":1,"tool_calls":{"policy":"omit"}}]}"#,
        1,
    );
}

#[test]
fn keeps_logs_in_order() {
    let output = format!("{LOG}\n{}\n{DECLINE}", LOG.replace("\"m\"", "\"n\""));
    let reply = reply::read(output.as_bytes(), "c1").unwrap();
    assert_eq!(reply.logs.iter().map(|log| log.message.as_str()).collect::<Vec<_>>(), ["m", "n"]);
}

#[track_caller]
fn rejects(output: impl AsRef<[u8]>, expected: &str) {
    let violation = reply::read(output.as_ref(), "c1").unwrap_err().to_string();
    assert!(violation.starts_with(expected), "{violation}");
}

#[test]
fn rejects_all_other_output() {
    rejects("", "its output ended without a result, decline, needs or error");
    rejects("\n\n", "its output ended without");
    rejects(format!("{PROGRESS}\n{LOG}"), "its output ended without");
    rejects(
        format!("{STRIP}\n{STRIP}"),
        "it sent another line after its terminal reply: {\"type\":\"result\"",
    );
    rejects(format!("{DECLINE}\n{LOG}"), "it sent another line after its terminal reply: {\"type\":\"log\"");
    rejects(format!("{DECLINE}\nbye"), "it sent another line after its terminal reply: bye");
    rejects(format!("hello\n{STRIP}"), "line 1 of its output is not a valid message (");
    rejects(format!("{LOG}\n\n[{STRIP}]"), "line 3 of its output is not a valid message (");
    rejects(format!("{STRIP}{STRIP}"), "line 1 of its output is not a valid message (");
    rejects(STRIP.replace("c1", "c2"), "it replied to request `c2`, but the request is `c1`");
    rejects(LOG.replace("c1", "c2"), "it replied to request `c2`");
    rejects(
        STRIP.replace(r#""id":"c1","#, ""),
        "line 1 of its output is not a valid message (missing field `id`",
    );
    rejects(STRIP.replace("strip", "stirp"), "line 1 of its output is not a valid message (");
    rejects(
        STRIP.replace("reasoning", "raesoning"),
        "line 1 of its output is not a valid message (unknown field `raesoning`",
    );
    rejects(b"\xff", "its output is not UTF-8 at byte 0");
    rejects(
        [STRIP.as_bytes(), b"\n\xc3"].concat(),
        &format!("its output is not UTF-8 at byte {}", STRIP.len() + 1),
    );
    rejects(format!("\u{feff}{STRIP}"), "line 1 of its output is not a valid message (");
}

#[test]
fn unknown_members_must_be_valid_json() {
    let with_member = |value: &str| format!(r#"{},"later":{value}}}"#, STRIP.strip_suffix('}').unwrap());
    let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    accepts(&with_member(&nested(100)), 1);
    accepts(&with_member("1e300"), 1);
    rejects(
        with_member(&nested(127)),
        "line 1 of its output is not a valid message (values nest deeper than 127 \
         levels)",
    );
    rejects(with_member(&nested(100_000)), "line 1 of its output is not a valid message (values nest deeper");
    rejects(with_member("1e400"), "line 1 of its output is not a valid message (a number out of range)");
    rejects(with_member(r#""\ud800""#), "line 1 of its output is not a valid message (");
}

#[test]
fn quotes_at_most_200_bytes_of_whole_characters() {
    let long = format!("a{}", "\u{e9}".repeat(500));
    let reply::ReplyViolation::NotAMessage { quote, .. } = reply::read(long.as_bytes(), "c1").unwrap_err()
    else {
        panic!("expected an invalid message");
    };
    assert_eq!(quote, format!("a{}...", "\u{e9}".repeat(99)));
}

#[track_caller]
fn check_needs(keys: &[&str], state_bytes: usize, rounds_before: u32, expected: Result<(), &str>) {
    let requests = keys.iter().map(|key| ((*key).to_owned(), NeedRequest::Unknown)).collect();
    let needs = Needs { id: "c1".into(), requests, state: Some("s".repeat(state_bytes)), remaining: None };
    let answers = BTreeMap::from([("used".to_owned(), Answer::Ok(serde_json::Map::new()))]);
    let result =
        reply::check_needs(&needs, rounds_before, &answers, false).map_err(|error| error.to_string());
    assert_eq!(result, expected.map_err(str::to_owned));
}

#[test]
fn limits_needs_in_rounds_number_keys_and_state() {
    check_needs(&["new"], 64 << 10, 7, Ok(()));
    check_needs(&[], 0, 0, Ok(()));
    check_needs(&["new"], 0, 8, Err("it replied `needs` more than 8 times"));
    check_needs(&["new", "used"], 0, 1, Err("its `needs` reuse the key `used` of an earlier round"));
    check_needs(&["new"], (64 << 10) + 1, 0, Err("its `state` has 65537 bytes; at most 65536 are allowed"));
    let keys: Vec<String> = (0..256).map(|number| number.to_string()).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    // One key was answered before.
    check_needs(&keys[1..], 0, 1, Ok(()));
    check_needs(&keys, 0, 1, Err("it has 257 needs for one request; at most 256 are allowed"));
}

#[test]
fn limits_number_of_compactions() {
    let strip = r#"{"from_turn":0,"to_turn":1,"reasoning":"strip"}"#;
    let result = |count: usize| {
        format!(r#"{{"type":"result","id":"c1","compactions":[{}]}}"#, vec![strip; count].join(","))
    };
    assert_eq!(outcome(result(1_024).as_bytes()), Ok(1_024));
    let error = outcome(result(1_025).as_bytes()).unwrap_err();
    assert_eq!(error, "the result has 1025 compactions; at most 1024 are allowed");
}

#[test]
fn counts_logs_and_diagnostics_over_the_limit() {
    let log = r#"{"type":"log","id":"c1","level":"info","message":"l"}"#;
    let diagnostic = r#"{"severity":"info","code":"c","message":"m"}"#;
    let strip = r#"{"from_turn":0,"to_turn":1,"reasoning":"strip"}"#;
    let result = format!(
        r#"{{"type":"result","id":"c1","compactions":[{strip}],"diagnostics":[{}]}}"#,
        vec![diagnostic; 1_007].join(",")
    );
    let output = format!("{}\n{result}\n", vec![log; 5_000].join("\n"));
    let reply = reply::read(output.as_bytes(), "c1").unwrap();
    assert_eq!(reply.logs.len(), 1_001);
    assert_eq!(reply.logs[1_000].message, "4000 more log lines");
    let Terminal::Result(result) = reply.terminal else { panic!("expected a result") };
    assert_eq!(result.diagnostics.len(), 1_001);
    assert_eq!(result.diagnostics[1_000].message, "7 more diagnostics");
}

#[test]
fn truncates_long_texts() {
    let long = "x".repeat(5_000);
    let error = format!(r#"{{"type":"error","id":"c1","code":"{long}","message":"{long}","hint":"{long}"}}"#);
    let Terminal::Error(error) = reply::read(error.as_bytes(), "c1").unwrap().terminal else {
        panic!("expected an error")
    };
    for text in [Some(error.code), Some(error.message), error.hint] {
        assert_eq!(text.unwrap(), format!("{} ... (904 bytes more)", &long[..4_096]));
    }
    let decline = format!(r#"{{"type":"decline","id":"c1","reason":"{long}"}}"#);
    let Terminal::Decline(decline) = reply::read(decline.as_bytes(), "c1").unwrap().terminal else {
        panic!("expected a decline")
    };
    assert!(decline.reason.ends_with("x ... (904 bytes more)"));
}
