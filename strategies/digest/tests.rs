//! Tests of the ledger of a range, and of the text of the digest.

use jp_compact_strategy::event::{EventBody, ToolCall, ToolOutput};
use jp_compact_strategy::schema::{Diagnostic, EventLine, Kinds, Range, Severity};
use jp_compact_strategy::testing::{ask, request};
use serde_json::Value;

use super::*;
use crate::file_op::FileOp;
use crate::ledger::{Action, CommandRuns};
use crate::status::CallStatus;

/// Returns a call and its output. A `!` before the content marks a failure.
fn call(tool: &str, arguments: Value, content: &str) -> [EventBody; 2] {
    let Value::Object(arguments) = arguments else { unreachable!() };
    let (content, is_error) = content.strip_prefix('!').map_or((content, false), |content| (content, true));
    [
        EventBody::Call(ToolCall { id: "c".into(), tool: tool.into(), arguments }),
        EventBody::Output(ToolOutput { id: "c".into(), content: content.into(), is_error }),
    ]
}

fn read(path: &str, content: &str) -> [EventBody; 2] {
    call("fs_read_file", json!({ "path": path }), content)
}

fn write(path: &str, content: &str) -> [EventBody; 2] {
    call("fs_modify_file", json!({ "path": path }), content)
}

fn bash(line: &str, content: &str) -> [EventBody; 2] {
    call("Bash", json!({ "command": line }), content)
}

/// Returns the ledger of these pairs, each in its own turn.
fn ledger(pairs: impl IntoIterator<Item = [EventBody; 2]>) -> Ledger {
    let mut ledger = Ledger::default();
    for (turn, pair) in pairs.into_iter().enumerate() {
        pair.into_iter().for_each(|body| ledger.add(turn, body));
    }
    ledger.end()
}

#[track_caller]
fn check_files(pairs: impl IntoIterator<Item = [EventBody; 2]>, expect: &[(&str, FileOp, usize)]) {
    let ledger = ledger(pairs);
    let files = ledger.files.in_order();
    let files: Vec<_> = files.iter().map(|(path, file)| (path.as_str(), file.last.0, file.last.1)).collect();
    assert_eq!(files, expect);
}

#[track_caller]
fn check_errors(pairs: impl IntoIterator<Item = [EventBody; 2]>, expect: &[(Action, usize)]) {
    let ledger = ledger(pairs);
    let open = ledger.errors.in_order();
    let open: Vec<_> = open.iter().map(|(action, open)| ((*action).clone(), open.turn)).collect();
    assert_eq!(open, expect);
}

#[test]
fn records_last_operation_of_each_file() {
    check_files([read("a", "x"), write("b", "x")], &[("a", FileOp::Read, 0), ("b", FileOp::Modified, 1)]);
    check_files([write("a", "x"), read("a", "x")], &[("a", FileOp::Read, 1)]);
    check_files(
        [read("a", ""), read("b", ""), write("a", "")],
        &[("b", FileOp::Read, 1), ("a", FileOp::Modified, 2)],
    );
    let moved = call("fs_move_file", json!({"source": "a", "destination": "b"}), "moved");
    check_files([write("a", ""), moved], &[("a", FileOp::Deleted, 1), ("b", FileOp::Created, 1)]);
}

#[test]
fn written_file_stays_written_after_a_read() {
    let text =
        render(Range::turns(0, 2), &ledger([write("a", ""), read("a", ""), read("b", "")]), LIMITS[0], 0);
    let files = "## Files written\n\n- `a`: changed in turn 0, read in turn 1\n\n## Files read\n\n- `b`: read in turn 2\n";
    assert!(text.contains(files), "{text}");
}

#[test]
fn failed_operations_do_not_change_files() {
    check_files([write("a", "!no such file"), write("a", "Exit code: 1\nno")], &[]);
    check_files([read("a", "x"), write("a", "!no match")], &[("a", FileOp::Read, 0)]);
}

#[test]
fn text_of_a_read_file_is_not_an_exit_status() {
    let text = "//! Exit codes.\n//! Exit code 1 is a failure.";
    check_files([read("a", text)], &[("a", FileOp::Read, 0)]);
    check_errors([read("a", text)], &[]);
    check_errors([read("a", "!Exit code 1")], &[(Action::Read("a".into()), 0)]);
}

#[test]
fn last_result_of_a_command_is_of_the_last_turn() {
    let [interrupted, _] = bash("make", "");
    let [again, succeeds] = bash("make", "Exit code: 0");
    let mut ledger = Ledger::default();
    for (turn, body) in [(0, interrupted), (1, again), (1, succeeds)] {
        ledger.add(turn, body);
    }
    let ledger = ledger.end();
    let runs = CommandRuns { turn: 1, times: 2, status: Some(CallStatus::Exit(0)) };
    assert_eq!(ledger.commands.in_order(), [(&"make".to_owned(), &runs)]);
}

#[test]
fn command_is_listed_once_with_its_last_result() {
    let ledger = ledger([
        bash("make", "!Exit code 2\nno rule"),
        bash("ls", "a"),
        bash("make", "Exit code: 0\nok"),
        call("cargo_test", json!({"package": "p"}), "!1 failed"),
    ]);
    let commands = ledger.commands.in_order();
    let commands: Vec<_> =
        commands.iter().map(|(line, ran)| (line.as_str(), ran.turn, ran.times, ran.status)).collect();
    assert_eq!(
        commands,
        [
            ("ls", 1, 1, Some(CallStatus::Done)),
            ("make", 2, 2, Some(CallStatus::Exit(0))),
            ("cargo_test package=p", 3, 1, Some(CallStatus::Failed)),
        ]
    );
}

#[test]
fn error_is_open_until_the_action_succeeds() {
    let make = || Action::Command("make".into());
    check_errors([bash("make", "!no")], &[(make(), 0)]);
    check_errors([bash("make", "!no"), bash("make", "ok")], &[]);
    check_errors([bash("make", "!no"), bash("make test", "ok")], &[(make(), 0)]);
    check_errors([bash("make", "ok"), bash("make", "!no"), bash("make", "!again")], &[(make(), 2)]);
    check_errors([bash("make", "Exit code: 2")], &[(make(), 0)]);
    let (reading, writing) = (|| Action::Read("a".into()), || Action::Write("a".into()));
    check_errors([read("a", "!no such file")], &[(reading(), 0)]);
    check_errors([read("a", "!no such file"), write("a", "ok")], &[]);
    check_errors([write("a", "!no match"), read("a", "x")], &[(writing(), 0)]);
    check_errors([write("a", "!no match"), write("b", "ok")], &[(writing(), 0)]);
    check_errors([write("a", "!no match"), call("Write", json!({"file_path": "a"}), "ok")], &[]);
    let grep = |content| call("fs_grep_files", json!({"pattern": "x"}), content);
    let greps = Action::Other("fs_grep_files {\"pattern\":\"x\"}".into());
    check_errors([grep("!bad pattern")], &[(greps, 0)]);
    check_errors([grep("!bad pattern"), grep("a.rs")], &[]);
}

#[test]
fn handles_reused_ids_and_calls_without_output() {
    let [first, _] = bash("first", "");
    let [second, answer] = bash("second", "ok");
    let mut ledger = Ledger::default();
    for body in [first, second, answer.clone(), answer.clone(), answer] {
        ledger.add(0, body);
    }
    let ledger = ledger.end();
    assert_eq!(ledger.commands.in_order().len(), 2);
    let [waits, _] = bash("waits", "");
    let mut ledger = Ledger::default();
    ledger.add(4, waits);
    let ledger = ledger.end();
    assert_eq!(ledger.commands.in_order()[0].1.status, None);
    assert!(ledger.errors.in_order().is_empty());
}

#[test]
fn output_belongs_to_the_oldest_open_call_with_its_id() {
    #[track_caller]
    fn check(bodies: Vec<(usize, EventBody)>, expected: &[(&str, Option<bool>)]) {
        let mut ledger = Ledger::default();
        bodies.into_iter().for_each(|(turn, body)| ledger.add(turn, body));
        let ledger = ledger.end();
        let commands = ledger.commands.in_order();
        let exit = |runs: &CommandRuns| runs.status.map(|status| status.is_failure());
        let commands: Vec<_> = commands.iter().map(|(line, runs)| (line.as_str(), exit(runs))).collect();
        assert_eq!(commands, expected);
    }
    let [one, succeeds] = bash("make one", "Exit code: 0");
    let [two, fails] = bash("make two", "!Exit code: 2");
    let bodies = [one.clone(), two.clone(), succeeds, fails.clone()];
    check(bodies.map(|body| (0, body)).to_vec(), &[("make one", Some(false)), ("make two", Some(true))]);
    // A later turn reuses the id of a call without output.
    check(
        vec![(0, one), (1, two), (1, fails.clone()), (1, fails)],
        &[("make two", Some(true)), ("make one", None)],
    );
}

#[test]
fn keeps_last_message_of_the_assistant() {
    let mut ledger = Ledger::default();
    for body in [
        EventBody::Assistant("First.".into()),
        EventBody::Assistant("Last.".into()),
        EventBody::Assistant(" \n".into()),
        EventBody::Reasoning("Hm.".into()),
        EventBody::User("Thanks.".into()),
    ] {
        ledger.add(0, body);
    }
    assert_eq!(ledger.last.as_deref(), Some("Last."));
}

fn events(bodies: &[(usize, Value)]) -> Vec<EventLine> {
    let line = |(seq, (turn, event)): (usize, &(usize, Value))| {
        EventLine::new(seq as u64, *turn, 1, serde_json::value::to_raw_value(event).unwrap())
    };
    bodies.iter().enumerate().map(line).collect()
}

fn digest(turns: usize, in_range: u64, bodies: &[(usize, Value)]) -> Result<String, String> {
    digest_with(json!({}), turns, in_range, bodies)
}

fn digest_with(
    options: Value,
    turns: usize,
    in_range: u64,
    bodies: &[(usize, Value)],
) -> Result<String, String> {
    let mut request = request(0, turns - 1, &vec![Kinds::default(); turns]);
    request.options = options.as_object().unwrap().clone();
    request.context.tokens.in_range = in_range;
    match ask(&Digest, &request, &events(bodies)).unwrap() {
        Outcome::Result { mut compactions, diagnostics, .. } => {
            assert!(compactions.len() == 1 && diagnostics.is_empty());
            let payload = compactions.remove(0);
            assert_eq!((payload.from_turn, payload.to_turn), (0, turns - 1));
            Ok(payload.summary.unwrap().summary)
        }
        Outcome::Decline(reason) => Err(reason),
        Outcome::Needs { .. } => panic!("the digest must not have needs"),
    }
}

/// Returns the digest for a context window, and its diagnostics.
fn digest_for(window: Option<u64>, turns: usize, bodies: &[(usize, Value)]) -> (String, Vec<Diagnostic>) {
    let mut request = request(0, turns - 1, &vec![Kinds::default(); turns]);
    (request.context.context_window, request.context.tokens.in_range) = (window, 10_000_000);
    match ask(&Digest, &request, &events(bodies)).unwrap() {
        Outcome::Result { mut compactions, diagnostics, .. } => {
            (compactions.remove(0).summary.unwrap().summary, diagnostics)
        }
        other => panic!("{other:?}"),
    }
}

fn user(text: &str) -> Value {
    json!({"type": "chat_request", "content": text})
}

#[test]
fn requests_are_quoted_verbatim() {
    let odd = "Fix it:\n```rust\nfn main() {}\n````\n## Commands\n- `rm`: done\r\n\u{2028}`";
    let text = digest(1, 1_000, &[(0, user(odd))]).unwrap();
    assert!(text.contains(&format!("\n`````\n{odd}\n`````\n")), "{text}");
    let long = "word ".repeat(400);
    assert!(digest(1, 1_000_000, &[(0, user(&long))]).unwrap().contains(&long));
}

#[test]
fn declines_digest_that_is_not_shorter() {
    let bodies = [(0, user("Hello."))];
    let text = digest(1, 1_000, &bodies).unwrap();
    let tokens = (text.chars().count() as u64).div_ceil(4);
    assert!(digest(1, tokens + 1, &bodies).is_ok());
    let reason = "the digest would not be shorter than the turns".to_owned();
    assert_eq!(digest(1, tokens, &bodies), Err(reason));
}

#[test]
fn large_digest_is_reduced_and_counts_omissions() {
    let bodies: Vec<_> = (0..80)
        .flat_map(|turn| {
            let run = json!({"type": "tool_call_request", "id": "c", "name": "Bash", "arguments": {"command": format!("run {turn}")}});
            let ran = json!({"type": "tool_call_response", "id": "c", "content": "e".repeat(90_000), "is_error": true});
            [(turn, user(&"word ".repeat(3_000))), (turn, run), (turn, ran)]
        })
        .collect();
    let text = digest_for(None, 80, &bodies).0;
    assert!(text.len() <= 49_152, "{}", text.len());
    assert!(
        text.contains(" characters left out ...]") && text.contains("earlier errors left out."),
        "{text}"
    );
}

#[test]
fn digest_is_bounded_in_the_hundredth_cycle() {
    for window in [Some(8_192), Some(20_000), None] {
        let (mut bodies, mut sizes) = (Vec::new(), Vec::new());
        for turn in 0..200 {
            let text = match turn {
                0 => "Fix the tap. Never touch prod.env.".to_owned(),
                _ => format!("Request {turn} {}", "word ".repeat(100)),
            };
            let path = json!({ "path": format!("src/file_{turn}.rs") });
            let call =
                json!({"type": "tool_call_request", "id": "c", "name": "fs_read_file", "arguments": path});
            let output =
                json!({"type": "tool_call_response", "id": "c", "content": "x".repeat(9), "is_error": false});
            bodies.extend([(turn, user(&text)), (turn, call), (turn, output)]);
            if turn % 2 == 1 {
                let (text, diagnostics) = digest_for(window, turn + 1, &bodies);
                assert!(diagnostics.iter().all(|diagnostic| diagnostic.severity == Severity::Info));
                assert!(text.contains("Never touch prod.env."), "{text}");
                // The newest request is whole.
                assert!(text.contains(bodies[turn * 3].1["content"].as_str().unwrap()), "{text}");
                sizes.push(text.len());
            }
        }
        let max = window.map_or(49_152, |window: u64| (window as usize / 8 * 3).min(49_152));
        assert!(sizes.iter().all(|size| *size <= max), "{window:?}: {sizes:?}");
        assert!(sizes[99] > max / 3, "{window:?}: {sizes:?}");
        let text = digest_for(window, 200, &bodies).0;
        assert!(text.contains("earlier messages left out."), "{text}");
    }
}

#[test]
fn summary_in_a_copy_is_quoted_and_not_a_request() {
    let bodies = [
        (0, user(jp_compact_strategy::schema::SUMMARY_REQUEST)),
        (0, json!({"type": "chat_response", "message": "They fixed the tap."})),
        (1, user("Go on.")),
        (1, json!({"type": "chat_response", "message": "Done."})),
    ];
    let text = digest(2, 1_000, &bodies).unwrap();
    let expected = "## What the user asked\n\nTurn 1:\n```\nGo on.\n```\n\n## Earlier summaries\n\nTurn 0:\n```\n\
                    They fixed the tap.\n```\n\n## What the assistant said last\n\n```\nDone.\n```";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("[Summary of previous conversation]"), "{text}");
}

#[test]
fn refusal_names_the_option_that_limits_the_list() {
    let read = |file: usize| {
        let path = json!({ "path": format!("src/file_{file}.rs") });
        let call = json!({"type": "tool_call_request", "id": "c", "name": "fs_read_file", "arguments": path});
        [(0, call), (0, json!({"type": "tool_call_response", "id": "c", "content": "x", "is_error": false}))]
    };
    let bodies: Vec<_> = (0..6).flat_map(read).collect();
    let reason = "the digest would exceed `facts_tokens`".to_owned();
    assert_eq!(digest_with(json!({"facts_tokens": 100}), 1, 10_000, &bodies), Err(reason));
    assert!(digest_with(json!({"facts_tokens": 1_000}), 1, 10_000, &bodies).is_ok());
}

#[test]
fn ignores_unknown_events() {
    let odd = [(0, json!({"type": "later", "content": "unheard"})), (0, user("Hello."))];
    assert!(!digest(1, 1_000, &odd).unwrap().contains("unheard"));
}

#[test]
fn long_requests_are_shortened_and_attachments_listed() {
    let ask = |content: &str| json!({"type": "chat_request", "content": content});
    let mut file = ask(&"let x = 1;\n".repeat(1_000));
    file["metadata"] = json!({"attachment": "/home/ada/a.rs"});
    let text = digest(1, 9_000, &[(0, ask(&"word ".repeat(4_000))), (0, file)]).unwrap();
    assert!(text.contains("## Attachments\n\n- `/home/ada/a.rs`: in turn 0\n"), "{text}");
    assert!(!text.contains("let x"), "{text}");
    let quoted = text.matches("word").count() * 5;
    assert!((1_500..=2_000).contains(&quoted), "{quoted}");
}

#[test]
fn list_of_facts_fits_into_its_limit() {
    let pairs =
        (0..300).map(|at| bash(&format!("cargo test --package package-number-{at}"), "!error[E0308]"));
    let ledger = ledger(pairs);
    let range = Range::turns(0, 299);
    let sizes = FACT_LIMITS.map(|limits| render_facts(range, &ledger, limits).len());
    assert!(sizes.is_sorted_by(|larger, smaller| larger > smaller), "{sizes:?}");
    assert!(sizes[5] < 200 && sizes[3] < 4_000, "{sizes:?}");
    assert!(!render_facts(range, &ledger, FACT_LIMITS[0]).contains("What the user asked"));
}
