//! The rule for signed thinking: the open turn keeps it, and older turns lose it from the first changed turn on. The
//! rule is the same in a fork, in `print --as source`, and in `print --as anthropic`.

use std::fs;

use serde_json::{Value, json};

use crate::support::World;

const ID: &str = "3dee0fbb-c3af-4b3b-a570-dde5a25a4336";

/// Returns a session of Claude Code. Each letter of the script is a line: a prompt `P`, a thought `T`, a redacted
/// thought `X`, a text `S`, a call `C`, a result `R`, or an attachment `A`.
fn session(script: &str) -> Vec<u8> {
    let (mut lines, mut calls) = (String::new(), 0);
    for (number, letter) in script.chars().filter(|letter| *letter != ' ').enumerate() {
        let call = format!("toolu_{calls}");
        let block = match letter {
            'T' => {
                json!({ "type": "thinking", "thinking": format!("t{number}"), "signature": format!("s{number}") })
            }
            'X' => json!({ "type": "redacted_thinking", "data": format!("t{number}") }),
            'C' => {
                calls += 1;
                json!({ "type": "tool_use", "id": format!("toolu_{calls}"), "name": "Bash", "input": { "command": "ls" } })
            }
            'R' => json!({ "type": "tool_result", "tool_use_id": call, "content": "line\n".repeat(50) }),
            _ => json!({ "type": "text", "text": format!("text {number}") }),
        };
        let role = if "PR".contains(letter) { "user" } else { "assistant" };
        let parent = number.checked_sub(1).map(|number| format!("u{number}"));
        let mut line = json!({
            "parentUuid": parent, "isSidechain": false, "sessionId": ID, "cwd": "/work/app", "version": "2.1.330",
            "uuid": format!("u{number}"), "timestamp": "2026-11-23T05:00:00.000Z",
        });
        if letter == 'A' {
            line["type"] = "attachment".into();
            line["attachment"] = json!({ "type": "queued_command", "prompt": "a reminder" });
            line["rendered"] =
                json!([{ "role": "user", "content": "<system-reminder>\na reminder\n</system-reminder>" }]);
        } else {
            line["type"] = role.into();
            line["message"] = json!({ "id": format!("msg_{number}"), "role": role, "content": [block] });
        }
        lines += &format!("{line}\n");
    }
    lines.into_bytes()
}

/// Returns the numbers of the thoughts in a text.
fn thoughts(text: &str) -> Vec<usize> {
    (0..40).filter(|number| text.contains(&format!("\"t{number}\""))).collect()
}

/// Strips the results of some turns, and compares the thoughts that remain in all three forms.
#[track_caller]
fn check(script: &str, changed: &[&str], expected: &[usize]) {
    let world = World::new();
    let path = world.home(&format!(".claude/projects/-work-app/{ID}.jsonl"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, session(script)).unwrap();
    let path = path.to_str().unwrap();
    if !changed.is_empty() {
        world.run(&[&[path, "-s", "strip-tools"], changed].concat()).exits(0);
    }
    let printed = |form: &str| {
        let output = world.run(&["print", path, "--compacted", "--as", form]).exits(0);
        thoughts(&String::from_utf8(output.stdout).unwrap())
    };
    let document: Value = world.run(&["fork", ID, "--json"]).exits(0).line();
    let fork = fs::read_to_string(document["path"].as_str().unwrap()).unwrap();
    let found = [thoughts(&fork), printed("source"), printed("anthropic")];
    assert_eq!(found, [expected, expected, expected], "{script} {changed:?}: fork, source, anthropic");
    world.run(&["lint", document["path"].as_str().unwrap(), "--provider", "anthropic"]).exits(0);
}

#[test]
fn signed_thinking_follows_one_rule() {
    const CLOSED: &str = "PTCRTS PXCRTS PTCRTS";
    const OPEN: &str = "PTCRTS PTCRTCR";
    check(CLOSED, &[], &[1, 4, 7, 10, 13, 16]);
    // Turns before the change keep their thoughts. A closed last turn is an older turn of the next request.
    check(CLOSED, &["--from", "0", "--to", "0"], &[]);
    check(CLOSED, &["--from", "1", "--to", "1"], &[1, 4]);
    check(CLOSED, &["--from", "2", "--to", "2"], &[1, 4, 7, 10]);
    // The open turn keeps its thoughts, even if the change is in it.
    check(OPEN, &["--from", "0", "--to", "0"], &[7, 10]);
    check(OPEN, &["--from", "1", "--to", "1"], &[1, 4, 7, 10]);
    check("PTCRTS PXCR", &["--from", "0", "--to", "0"], &[7]);
    // A reminder after results does not end the turn.
    check("PTCRTS PTCRA", &["--from", "0", "--to", "0"], &[7]);
    // The last results of an interrupted turn are sent in one message with the next request.
    check("PTCRTS PTCR P", &["--from", "0", "--to", "0"], &[7]);
    check("PTCRTS PTSCRTCR", &["--from", "0", "--to", "0"], &[7, 11]);
    check("PTCRTS PTCR PP", &["--from", "0", "--to", "0"], &[7]);
    check("PTCRTS PTCRTS P", &["--from", "0", "--to", "0"], &[]);
}

#[test]
fn request_body_follows_the_rule_of_signed_thinking() {
    let world = World::new();
    let thought = |text: &str| json!({ "type": "thinking", "thinking": text, "signature": "c2ln" });
    let call =
        |id: &str| json!({ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": "ls" } });
    let result =
        |id: &str| json!([{ "type": "tool_result", "tool_use_id": id, "content": "line\n".repeat(50) }]);
    let messages = json!([
        { "role": "user", "content": "read" },
        { "role": "assistant", "content": [thought("t1"), call("a")] },
        { "role": "user", "content": result("a") },
        { "role": "assistant", "content": [thought("t2"), { "type": "text", "text": "done" }] },
        { "role": "user", "content": "again" },
        { "role": "assistant", "content": [thought("t3"), call("b")] },
        { "role": "user", "content": result("b") },
    ]);
    let body = json!({ "model": "claude-sonnet-4-5", "max_tokens": 1, "messages": messages });
    world.write_file("body.json", body.to_string().as_bytes());
    world.run(&["body.json", "-s", "strip-tools", "--from", "0", "--to", "0"]).exits(0);
    for form in ["source", "anthropic"] {
        let output = world.run(&["print", "body.json", "--compacted", "--as", form]).exits(0);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(thoughts(&text), [3], "{form}: {text}");
    }
}
