//! `jp-compact stats`: token counts of one or several conversations.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Conversation, World};

/// Returns two turns. An overlay strips the long tool result of the first one.
fn stripped() -> Conversation {
    let policy = json!({"policy": "strip", "request": false, "response": true});
    Conversation::bulky(1)
        .whole_turn()
        .compaction(json!({"from_turn": 0, "to_turn": 0, "tool_calls": policy}))
}

#[test]
fn tables_show_raw_and_view_tokens() {
    let world = World::new();
    world.write_conversation("conversation", &stripped());
    let output = world.run(&["stats", "conversation"]).exits(0);
    assert_eq!(output.stderr, "");
    insta::assert_snapshot!(output.text(), @r"
    conversation/events.json: 2 turns, 11 events, 1 overlay
    JP sends about 254 of 825 tokens, 216 of 2,583 bytes of text

    tokens by type                   raw        view
    tool_responses                   644          73  -89 %      ██▏░░░░░░░░░░░░░░░░
    tool_requests                     75          75  unchanged  ██▏
    assistant                         40          40  unchanged  █▏
    user                              40          40  unchanged  █▏
    reasoning                         29          29  unchanged  ▊

    tokens by tool                   raw        view
    fs_read_file                     719         148  -79 %      ███▉░░░░░░░░░░░░░░░

    total                            raw        view
    tokens, estimated                825         254  -69 %      █████▊░░░░░░░░░░░░░
    ");
}

#[test]
fn several_transcripts_have_one_row_each_and_a_total() {
    let world = World::new();
    world.write_conversation("one", &stripped());
    world.write_conversation("a-folder-with-a-long-name/and-another-one", &Conversation::with_turns(4));
    let output = world.run(&["stats", "one", "a-folder-with-a-long-name/and-another-one"]).exits(0);
    insta::assert_snapshot!(output.text(), @r"
    2 conversations: 6 turns, 35 events, 1 overlay
    JP sends about 827 of 1,398 tokens, 812 of 3,179 bytes of text

    tokens by type                   raw        view
    tool_responses                   791         220  -72 %      █████▎░░░░░░░░░░░░░
    tool_requests                    225         225  unchanged  █████▍
    reasoning                        142         142  unchanged  ███▍
    user                             124         124  unchanged  ██▉
    assistant                        121         121  unchanged  ██▉

    tokens by tool                   raw        view
    fs_read_file                   1,015         444  -56 %      ████████▎░░░░░░░░░░

    total                            raw        view
    tokens, estimated              1,398         827  -41 %      ███████████▏░░░░░░░

    tokens by conversation           raw        view
    one                              825         254  -69 %      █████▊░░░░░░░░░░░░░
    …ng-name/and-another-one         573         573  unchanged  █████████████▏
    ");
}

#[test]
fn json_prints_one_line_per_transcript_and_total() {
    let world = World::new();
    let transcript = world.write_conversation(".jp/conversations/17738399468", &stripped());
    world.write_conversation("other", &Conversation::with_turns(4));
    let lines = world.run(&["stats", "17738399468", "other", "--json"]).exits(0).lines();
    let [one, other, total] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(one["path"], transcript.path.to_str().unwrap());
    assert_eq!((&one["conversation_id"], &one["estimator"]), (&json!("17738399468"), &json!("pieces")));
    let response = &one["by_type"]["tool_responses"];
    let bytes =
        "a line of no importance\n".len() as u64 * 100 + "fn main() { println!(\"hello\"); }".len() as u64;
    assert_eq!(response["bytes"]["raw"], bytes, "{response}");
    assert!(response["bytes"]["view_after"].as_u64().unwrap() < bytes / 10, "{response}");
    assert_eq!(one["by_tool"]["fs_read_file"]["tokens"]["raw"].as_u64(), Some(719));
    assert_eq!(total["transcripts"], 2);
    let sum = |pointer: &str| {
        let value_at = |line: &Value| line.pointer(pointer).unwrap().as_u64().unwrap();
        value_at(one) + value_at(other)
    };
    for pointer in
        ["/turns", "/events", "/overlays", "/tokens/view_after", "/saved/tokens", "/by_type/user/bytes/raw"]
    {
        assert_eq!(total.pointer(pointer).unwrap().as_u64(), Some(sum(pointer)), "{pointer}");
    }
    // `show` prints the same numbers.
    let show_report = world.run(&["show", "other", "--json"]).exits(0).line();
    for member in ["tokens", "saved", "bytes", "by_type", "by_tool"] {
        assert_eq!(show_report[member], other[member], "{member}");
    }
}

#[test]
fn unreadable_transcript_does_not_stop_others() {
    let world = World::new();
    world.write_conversation("conversation", &stripped());
    world.write_events("broken", b"[{]");
    let output = world.run(&["stats", "conversation", "broken", "--json"]).exits(19);
    let lines = output.lines();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[1]["path"], &lines[1]["error"]["code"]), (&json!("broken"), &json!(4)));
    assert_eq!(lines[2]["transcripts"], 1);
    let output =
        world.run(&["stats", "broken", "conversation"]).exits(19).reports("1 of 2 transcripts failed");
    assert!(output.text().starts_with("1 conversation: 2 turns"), "{}", output.text());
    world.run(&["stats", "broken"]).exits(4);
    world.run(&["stats"]).exits(2);
}

#[test]
fn counts_exact_tokens_of_stdin() {
    let world = World::new();
    let events = r#"[{"timestamp": "2026-04-02 09:00:00.0", "type": "turn_start"},
        {"timestamp": "2026-04-02 09:00:01.0", "type": "chat_request", "content": "internationalization of antidisestablishmentarianism"}]"#;
    let output =
        world.run_with_stdin(&["stats", "-", "--json", "--tokens", "exact"], events.as_bytes()).exits(0);
    let line = output.line();
    assert_eq!((&line["path"], &line["estimator"]), (&json!("standard input"), &json!("o200k")));
    assert_eq!(line["tokens"]["raw"], 24);
}

/// `compact-tokenizer` is not in the folder of the copied executable.
#[test]
fn exact_count_without_the_tokenizer_fails_with_a_hint() {
    let world = World::new();
    world.write_conversation("conversation", &stripped());
    let copy = world.write_program("jp-compact", &fs::read(env!("CARGO_BIN_EXE_jp-compact")).unwrap());
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&copy);
        world.finish(world.isolate(command.args(arguments)))
    };
    run(&["stats", "conversation", "--tokens", "exact"])
        .exits(10)
        .reports("`compact-tokenizer` is missing from")
        .reports("keep them in one folder");
    run(&["stats", "conversation"]).exits(0);
}

#[test]
fn escapes_terminal_sequences_in_tool_names() {
    let world = World::new();
    let conversation = Conversation::new().turn("x").call("\u{1b}[2J\u{202e}x", json!({}), "y");
    world.write_conversation("conversation", &conversation);
    let output = world.run(&["stats", "conversation"]).exits(0);
    assert!(output.text().contains("\\u{1b}[2J\\u{202e}x"), "{}", output.text());
    assert!(!output.text().contains(['\u{1b}', '\u{202e}']));
}

#[test]
fn finds_transcripts_in_folder() {
    let world = World::new();
    world.write_conversation("logs/one", &Conversation::with_turns(3));
    world.write_conversation("logs/two", &Conversation::with_turns(2));
    world.write_file("logs/chat.json", br#"{"messages":[{"role":"user","content":"Hello."}]}"#);
    world.write_file("logs/package.json", br#"{"name":"garden"}"#);
    let lines = world.run(&["stats", "logs", "--json"]).exits(0).lines();
    let paths: Vec<_> = lines.iter().filter_map(|line| line["path"].as_str()).collect();
    let names: Vec<_> = paths.iter().map(|path| path.rsplit_once("logs/").unwrap().1).collect();
    assert_eq!(names, ["chat.json", "one/events.json", "two/events.json"]);
    assert_eq!(lines.last().unwrap()["turns"], 6);
    world.write_file("empty/x.txt", b"x");
    world.run(&["stats", "empty"]).exits(4).reports("empty");
}
