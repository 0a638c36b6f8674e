//! What is listed of a range, as data; and the text that comes of it.

use jp_compact_strategy::event::{Call, Output};
use jp_compact_strategy::schema::{EventLine, Kinds, Range};
use jp_compact_strategy::testing::{ask, request};
use serde_json::Value;

use super::*;
use crate::ledger::Deed;
use crate::status::Status;
use crate::tools::Op;

/// A call and its answer. `!` before the content: it failed.
fn call(tool: &str, arguments: Value, content: &str) -> [Said; 2] {
    let Value::Object(arguments) = arguments else { unreachable!() };
    let (content, is_error) = content.strip_prefix('!').map_or((content, false), |content| (content, true));
    [
        Said::Call(Call { id: "c".into(), tool: tool.into(), arguments }),
        Said::Output(Output { id: "c".into(), content: content.into(), is_error }),
    ]
}

fn read(path: &str, content: &str) -> [Said; 2] {
    call("fs_read_file", json!({ "path": path }), content)
}

fn write(path: &str, content: &str) -> [Said; 2] {
    call("fs_modify_file", json!({ "path": path }), content)
}

fn bash(line: &str, content: &str) -> [Said; 2] {
    call("Bash", json!({ "command": line }), content)
}

/// Every pair in a turn of its own.
fn ledger(pairs: impl IntoIterator<Item = [Said; 2]>) -> Ledger {
    let mut ledger = Ledger::default();
    for (turn, pair) in pairs.into_iter().enumerate() {
        pair.into_iter().for_each(|said| ledger.add(turn, said));
    }
    ledger.end()
}

#[track_caller]
fn check_files(pairs: impl IntoIterator<Item = [Said; 2]>, expect: &[(&str, Op, usize)]) {
    let ledger = ledger(pairs);
    let files = ledger.files.in_order();
    let files: Vec<_> = files.iter().map(|(path, file)| (path.as_str(), file.last.0, file.last.1)).collect();
    assert_eq!(files, expect);
}

#[track_caller]
fn check_errors(pairs: impl IntoIterator<Item = [Said; 2]>, expect: &[(Deed, usize)]) {
    let ledger = ledger(pairs);
    let open = ledger.errors.in_order();
    let open: Vec<_> = open.iter().map(|(deed, open)| ((*deed).clone(), open.turn)).collect();
    assert_eq!(open, expect);
}

#[test]
fn of_each_file_the_last_operation_counts() {
    check_files([read("a", "x"), write("b", "x")], &[("a", Op::Read, 0), ("b", Op::Modified, 1)]);
    check_files([write("a", "x"), read("a", "x")], &[("a", Op::Read, 1)]);
    check_files(
        [read("a", ""), read("b", ""), write("a", "")],
        &[("b", Op::Read, 1), ("a", Op::Modified, 2)],
    );
    let moved = call("fs_move_file", json!({"source": "a", "destination": "b"}), "moved");
    check_files([write("a", ""), moved], &[("a", Op::Deleted, 1), ("b", Op::Created, 1)]);
}

#[test]
fn a_file_that_was_written_is_so_although_it_was_read_later() {
    let text = render(
        Range { from_turn: 0, to_turn: 2 },
        &ledger([write("a", ""), read("a", ""), read("b", "")]),
        LIMITS[0],
    );
    let files = "## Files written\n\n- `a`: changed in turn 0, read in turn 1\n\n## Files read\n\n- `b`: read in turn 2\n";
    assert!(text.contains(files), "{text}");
}

#[test]
fn what_failed_did_nothing_to_a_file() {
    check_files([write("a", "!no such file"), read("a", "Exit code: 1\nno")], &[]);
    check_files([read("a", "x"), write("a", "!no match")], &[("a", Op::Read, 0)]);
}

#[test]
fn commands_are_listed_once_with_their_last_end() {
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
            ("ls", 1, 1, Some(Status::Done)),
            ("make", 2, 2, Some(Status::Exit(0))),
            ("cargo_test package=p", 3, 1, Some(Status::Failed)),
        ]
    );
}

#[test]
fn an_error_is_open_until_the_same_succeeds() {
    let make = || Deed::Command("make".into());
    check_errors([bash("make", "!no")], &[(make(), 0)]);
    check_errors([bash("make", "!no"), bash("make", "ok")], &[]);
    check_errors([bash("make", "!no"), bash("make test", "ok")], &[(make(), 0)]);
    check_errors([bash("make", "ok"), bash("make", "!no"), bash("make", "!again")], &[(make(), 2)]);
    check_errors([bash("make", "Exit code: 2")], &[(make(), 0)]);
    let (reading, writing) = (|| Deed::Read("a".into()), || Deed::Write("a".into()));
    check_errors([read("a", "!no such file")], &[(reading(), 0)]);
    check_errors([read("a", "!no such file"), write("a", "ok")], &[]);
    check_errors([write("a", "!no match"), read("a", "x")], &[(writing(), 0)]);
    check_errors([write("a", "!no match"), write("b", "ok")], &[(writing(), 0)]);
    check_errors([write("a", "!no match"), call("Write", json!({"file_path": "a"}), "ok")], &[]);
    let grep = |content| call("fs_grep_files", json!({"pattern": "x"}), content);
    let greps = Deed::Other("fs_grep_files {\"pattern\":\"x\"}".into());
    check_errors([grep("!bad pattern")], &[(greps, 0)]);
    check_errors([grep("!bad pattern"), grep("a.rs")], &[]);
}

#[test]
fn ids_come_again_and_some_calls_are_never_answered() {
    let [first, _] = bash("first", "");
    let [second, answer] = bash("second", "ok");
    let mut ledger = Ledger::default();
    for said in [first, second, answer.clone(), answer.clone(), answer] {
        ledger.add(0, said);
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
fn the_last_words_are_those_of_the_assistant() {
    let mut ledger = Ledger::default();
    for said in [
        Said::Assistant("First.".into()),
        Said::Assistant("Last.".into()),
        Said::Assistant(" \n".into()),
        Said::Reasoning("Hm.".into()),
        Said::User("Thanks.".into()),
    ] {
        ledger.add(0, said);
    }
    assert_eq!(ledger.last.as_deref(), Some("Last."));
}

fn events(said: &[(usize, Value)]) -> Vec<EventLine> {
    let line = |(seq, (turn, event)): (usize, &(usize, Value))| {
        EventLine::new(seq as u64, *turn, 1, serde_json::value::to_raw_value(event).unwrap())
    };
    said.iter().enumerate().map(line).collect()
}

fn digest(turns: usize, in_range: u64, said: &[(usize, Value)]) -> Result<String, String> {
    let mut request = request(0, turns - 1, &vec![Kinds::default(); turns]);
    request.context.tokens.in_range = in_range;
    match ask(&Digest, &request, &events(said)).unwrap() {
        Outcome::Result { mut compactions, diagnostics } => {
            assert!(compactions.len() == 1 && diagnostics.is_empty());
            let payload = compactions.remove(0);
            assert_eq!((payload.from_turn, payload.to_turn), (0, turns - 1));
            Ok(payload.summary.unwrap().summary)
        }
        Outcome::Decline(reason) => Err(reason),
        Outcome::Needs { .. } => panic!("it needs nobody"),
    }
}

fn user(text: &str) -> Value {
    json!({"type": "chat_request", "content": text})
}

#[test]
fn requests_are_verbatim_whatever_they_hold() {
    let odd = "Fix it:\n```rust\nfn main() {}\n````\n## Commands\n- `rm`: done\r\n\u{2028}`";
    let text = digest(1, 1_000, &[(0, user(odd))]).unwrap();
    assert!(text.contains(&format!("\n`````\n{odd}\n`````\n")), "{text}");
    let long = "word ".repeat(400);
    assert!(digest(1, 1_000_000, &[(0, user(&long))]).unwrap().contains(&long));
}

#[test]
fn what_would_not_be_shorter_is_declined() {
    let said = [(0, user("Hello."))];
    let text = digest(1, 1_000, &said).unwrap();
    let tokens = (text.chars().count() as u64).div_ceil(4);
    assert!(digest(1, tokens + 1, &said).is_ok());
    let reason = "the digest would not be shorter than what it stands for".to_owned();
    assert_eq!(digest(1, tokens, &said), Err(reason));
}

#[test]
fn it_stays_below_the_limit_of_a_summary_and_says_what_was_cut() {
    let said: Vec<_> = (0..80)
        .flat_map(|turn| {
            let run = json!({"type": "tool_call_request", "id": "c", "name": "Bash", "arguments": {"command": format!("run {turn}")}});
            let ran = json!({"type": "tool_call_response", "id": "c", "content": "e".repeat(90_000), "is_error": true});
            [(turn, user(&"word ".repeat(3_000))), (turn, run), (turn, ran)]
        })
        .collect();
    let text = digest(80, 10_000_000, &said).unwrap();
    assert!(text.len() <= 256 * 1024, "{}", text.len());
    assert!(
        text.contains(" characters left out ...]") && text.contains("earlier errors left out."),
        "{text}"
    );
    let endless: Vec<_> = (0..4_000).map(|turn| (turn, user(&"word ".repeat(100)))).collect();
    let reason = "the digest would be longer than a summary may be".to_owned();
    assert_eq!(digest(4_000, 10_000_000, &endless), Err(reason));
}

#[test]
fn an_unknown_event_is_passed_over() {
    let odd = [(0, json!({"type": "later", "content": "unheard"})), (0, user("Hello."))];
    assert!(!digest(1, 1_000, &odd).unwrap().contains("unheard"));
}

#[test]
fn a_request_is_quoted_up_to_2000_characters_and_an_attachment_is_named() {
    let ask = |content: &str| json!({"type": "chat_request", "content": content});
    let mut file = ask(&"let x = 1;\n".repeat(1_000));
    file["metadata"] = json!({"attachment": "/home/ada/a.rs"});
    let text = digest(1, 9_000, &[(0, ask(&"word ".repeat(4_000))), (0, file)]).unwrap();
    assert!(text.contains("## Attachments\n\n- `/home/ada/a.rs`: in turn 0\n"), "{text}");
    assert!(!text.contains("let x"), "{text}");
    let quoted = text.matches("word").count() * 5;
    assert!((1_500..=2_000).contains(&quoted), "{quoted}");
}
