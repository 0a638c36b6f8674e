//! The bundled strategies as a host runs them: executables with a cleared environment and three pipes. Their
//! decisions are tested in their own crates.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;
use jp_compact_schema::{ContentKind, Description, Determinism, Input, Reply, Scope, from_line};
use serde_json::{Value, json};

/// Returns the strategies that read only the turn table.
fn strategies() -> [&'static Path; 2] {
    [cargo_bin!("compact-strategy-strip-reasoning"), cargo_bin!("compact-strategy-strip-tools")]
}

/// Returns the strategies that read events and write a summary.
fn summarizers() -> [&'static Path; 2] {
    [cargo_bin!("compact-strategy-digest"), cargo_bin!("compact-strategy-summarize")]
}

fn start(strategy: &Path, verb: &str) -> Command {
    let mut command = Command::new(strategy);
    command.env_clear().env("JP_COMPACT_PROTOCOL", "1").arg(verb);
    command
}

/// Returns a request for turns 1 and 2 whose view contains `kinds`.
fn request(id: &str, options: &Value, kinds: &Value) -> String {
    let row = |turn: usize| json!({"turn": turn, "events": 4, "tokens": 40, "view_tokens": 40, "complete": true, "kinds": kinds});
    let header = json!({
        "type": "compact", "id": id, "protocol": 1, "strategy": "s",
        "conversation": {"id": "17738399468", "format": "jp", "turns": 4, "events": 16, "bytes": 4096},
        "range": {"from_turn": 1, "to_turn": 2}, "requested_range": {"from_turn": 1, "to_turn": 2},
        "range_exact": false, "options": options,
        "context": {
            "now": "2026-01-01T00:00:00Z", "estimator": "pieces",
            "tokens": {"raw": 160, "view": 160, "in_range": 80},
            "turns": [row(1), row(2)], "compactions": [], "tool_hints": {},
        },
        "outline": null, "events": null, "limits": {"deadline_ms": 60_000, "result_bytes_max": 8_388_608},
        "answers": {}, "state": null, "dry_run": false,
    });
    format!("{header}\n")
}

fn kinds_with_content() -> Value {
    json!({"reasoning": 1, "reasoning_tokens": 9, "tool_calls": 1, "tool_errors": 0, "tool_request_tokens": 9, "tool_response_tokens": 9})
}

fn kinds_without_content() -> Value {
    json!({"reasoning": 0, "reasoning_tokens": 0, "tool_calls": 0, "tool_errors": 0, "tool_request_tokens": 0, "tool_response_tokens": 0})
}

fn replies_of(strategy: &Path, verb: &str, input: &str) -> Vec<Reply> {
    let output =
        start(strategy, verb).write_stdin(input).assert().success().stderr("").get_output().stdout.clone();
    String::from_utf8(output).unwrap().lines().map(|line| Reply::parse(line).unwrap()).collect()
}

#[track_caller]
fn check(strategy: &Path, options: &Value, expect: &Value) {
    let replies = replies_of(strategy, "run", &request("c1", options, &kinds_with_content()));
    let expect = json!({"type": "result", "id": "c1", "compactions": [expect]});
    assert_eq!(serde_json::to_value(&replies).unwrap(), json!([expect]));
}

fn description(strategy: &Path) -> Description {
    let output = start(strategy, "describe").assert().success().stderr("").get_output().stdout.clone();
    from_line(&output).unwrap()
}

#[test]
fn description_has_the_name_of_the_executable() {
    let other_strategies = [
        cargo_bin!("compact-strategy-collapse"),
        cargo_bin!("compact-strategy-extract"),
        cargo_bin!("compact-strategy-micro"),
        cargo_bin!("compact-strategy-trim"),
    ];
    for strategy in strategies().into_iter().chain(summarizers()).chain(other_strategies) {
        let description = description(strategy);
        let stem = strategy.file_stem().unwrap().to_str().unwrap();
        assert_eq!(stem, format!("compact-strategy-{}", description.name));
        assert_eq!(description.version, env!("CARGO_PKG_VERSION"));
        assert_eq!(description.protocols, [1]);
        assert!(description.has_feature("worker"));
    }
}

#[test]
fn descriptions_declare_inputs_and_needs() {
    for strategy in strategies() {
        let description = description(strategy);
        assert_eq!((description.input, description.determinism), (Input::None, Determinism::Pure));
        assert_eq!(description.needs, Vec::<String>::new());
    }
    let [digest, summarize] = summarizers().map(description);
    for description in [&digest, &summarize] {
        assert_eq!(
            (description.input, &description.produces[..]),
            (Input::Full, &[ContentKind::Summary][..])
        );
        assert!(description.has_feature("events.file"));
        // Neither strategy requests previous summaries.
        assert_eq!(description.wants, Vec::<String>::new());
    }
    let collapse = description(cargo_bin!("compact-strategy-collapse"));
    assert_eq!(
        (collapse.scope, collapse.wants),
        (Scope::Conversation, vec!["previous_summaries".to_owned()])
    );
    assert_eq!((digest.determinism, digest.needs), (Determinism::Pure, vec![]));
    assert_eq!((summarize.determinism, summarize.needs), (Determinism::Stochastic, vec!["llm".to_owned()]));
}

#[test]
fn strip_reasoning_proposes_the_requested_range() {
    let [strategy, _] = strategies();
    check(strategy, &json!({}), &json!({"from_turn": 1, "to_turn": 2, "reasoning": "strip"}));
}

#[test]
fn strip_tools_proposes_the_policy_of_its_mode() {
    let [_, strategy] = strategies();
    let strip = |request: bool, response: bool| json!({"from_turn": 1, "to_turn": 2, "tool_calls": {"policy": "strip", "request": request, "response": response}});
    check(strategy, &json!({}), &strip(true, true));
    check(strategy, &json!({"mode": "strip"}), &strip(true, true));
    check(strategy, &json!({"mode": "strip-requests"}), &strip(true, false));
    check(strategy, &json!({"mode": "strip-responses"}), &strip(false, true));
    check(
        strategy,
        &json!({"mode": "omit"}),
        &json!({"from_turn": 1, "to_turn": 2, "tool_calls": {"policy": "omit"}}),
    );
}

#[test]
fn strategies_decline_if_the_view_has_nothing_to_strip() {
    for strategy in strategies() {
        let replies = replies_of(strategy, "run", &request("c1", &json!({}), &kinds_without_content()));
        assert!(matches!(&replies[..], [Reply::Decline(decline)] if decline.id == "c1"), "{replies:?}");
    }
}

#[test]
fn workers_answer_until_stdin_closes() {
    for strategy in strategies() {
        let input = request("a", &json!({}), &kinds_with_content())
            + "\n"
            + &request("b", &json!({}), &kinds_without_content());
        let replies = replies_of(strategy, "worker", &input);
        assert!(matches!(&replies[..], [Reply::Result(_), Reply::Decline(_)]), "{replies:?}");
        assert_eq!(replies.iter().map(Reply::id).collect::<Vec<_>>(), [Some("a"), Some("b")]);
    }
}

#[test]
fn strip_tools_rejects_an_unknown_mode() {
    let [_, strategy] = strategies();
    let replies =
        replies_of(strategy, "run", &request("c1", &json!({"mode": "shred"}), &kinds_with_content()));
    assert!(matches!(&replies[..], [Reply::Error(error)] if error.code == "options_invalid"), "{replies:?}");
}

#[test]
fn strategies_started_by_hand_print_a_usage_hint() {
    for strategy in strategies().into_iter().chain(summarizers()) {
        for verb in ["run", "--help", "describe"] {
            let assert = start(strategy, verb).env_remove("JP_COMPACT_PROTOCOL").assert().code(64).stdout("");
            let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
            let name = description(strategy).name;
            assert!(text.contains(&format!("jp-compact --strategy {name}")), "{text}");
        }
        start(strategy, "unknown").assert().code(64).stdout("");
    }
}
