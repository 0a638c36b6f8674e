//! `jp-compact print`: text, JSON and the format of the transcript.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Conversation, World};

/// Returns a turn with all kinds of events, and a turn with only a message.
fn conversation() -> Conversation {
    Conversation::new()
        .turn("Read it.")
        .reasoning("I shall.")
        .call("fs_read_file", json!({"path": "a"}), "one\ntwo\n")
        .message("Done.")
        .turn("Thanks!")
        .message("Welcome.")
}

#[test]
fn text_shows_turns_roles_and_messages() {
    let world = World::new();
    world.write_conversation("conversation", &conversation());
    let output = world.run(&["print", "conversation"]).exits(0);
    assert_eq!(output.stderr, "");
    insta::assert_snapshot!(output.text(), @r#"
    --- turn 0 ---
    user:
      Read it.
    assistant, reasoning:
      I shall.
    tool call fs_read_file:
      {"path":"a"}
    tool result:
      one
      two
    assistant:
      Done.
    --- turn 1 ---
    user:
      Thanks!
    assistant:
      Welcome.
    "#);
}

#[test]
fn text_marks_changes_of_overlays() {
    let world = World::new();
    world.write_conversation("conversation", &conversation());
    world
        .run(&["conversation", "--profile", "default", "--to", "0", "--now", "2026-11-21T07:40:00Z"])
        .exits(0);
    let compacted = world.run(&["print", "conversation", "--compacted"]).exits(0);
    insta::assert_snapshot!(compacted.text(), @r"
    --- turn 0 ---
    user:
      Read it.
    [overlay 1: 1 event, 8 characters removed]
    tool call fs_read_file [overlay 1: 7 characters removed]:
      {}
    tool result [overlay 1: 25 characters added]:
      [compacted] fs_read_file: success
    assistant:
      Done.
    --- turn 1 ---
    user:
      Thanks!
    assistant:
      Welcome.
    ");
    let history = world.run(&["print", "conversation"]).exits(0);
    let overlay = "[overlay 1, 2026-11-21 07:40:00.0: turn 0, reasoning, tool_calls; --compacted applies it]";
    assert_eq!(history.text().lines().last(), Some(overlay));
}

#[test]
fn history_names_overlays_without_an_effect() {
    for (from, to) in [(2, 0), (7, 9)] {
        let world = World::new();
        let overlay = json!({"from_turn": from, "to_turn": to, "reasoning": "strip"});
        world.write_conversation("conversation", &Conversation::with_turns(3).compaction(overlay));
        let history = world.run(&["print", "conversation"]).exits(0);
        let line = history.text().lines().last().unwrap();
        assert!(line.starts_with("[overlay 1, ") && line.ends_with("; it has no effect]"), "{line}");
    }
}

#[test]
fn json_is_array_of_events_sent_to_provider() {
    let world = World::new();
    world.write_conversation("conversation", &conversation());
    let json = world.run(&["print", "conversation", "--as", "json"]).exits(0);
    let events: Vec<Value> = serde_json::from_str(json.text()).unwrap();
    assert_eq!(events.len(), 7, "all events except `turn_start`");
    assert_eq!(
        events[2],
        json!({"turn": 0, "origin": {"kept": 0}, "event": {"timestamp": "2026-03-18 11:58:04.0",
               "type": "tool_call_request", "id": "call_1", "name": "fs_read_file", "arguments": {"path": "a"}}})
    );
    let json_option = world.run(&["print", "conversation", "--json"]).exits(0);
    assert_eq!(json_option.stdout, json.stdout);

    world.run(&["conversation", "--profile", "default", "--to", "0"]).exits(0);
    let history = world.run(&["print", "conversation", "--json"]).exits(0);
    assert_eq!(history.stdout, json.stdout, "overlays are applied only with --compacted");
    let compacted = world.run(&["print", "conversation", "--json", "--compacted"]).exits(0);
    let events: Vec<Value> = serde_json::from_str(compacted.text()).unwrap();
    assert_eq!(events[1]["event"]["arguments"], json!({}));
    assert_eq!(events[2]["event"]["content"], "[compacted] fs_read_file: success");
}

#[test]
fn source_preserves_bytes_of_unchanged_events() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &conversation());
    let source = ["print", "conversation", "--as", "source"];
    let view = [&source[..], &["--compacted"]].concat();
    assert_eq!(world.run(&source).exits(0).stdout, transcript.original_bytes());
    assert_eq!(world.run(&view).exits(0).stdout, transcript.original_bytes());

    world.run(&["conversation", "--profile", "default", "--to", "0"]).exits(0);
    assert_eq!(world.run(&source).exits(0).stdout, transcript.current_bytes());
    let view = world.run(&view).exits(0);
    let elements: Vec<Value> = serde_json::from_str(view.text()).unwrap();
    assert_eq!(elements.len(), conversation().elements().len() - 1, "reasoning and overlays must be removed");
    for element in conversation().elements().iter().filter(|element| element["type"] == "chat_request") {
        let bytes = serde_json::to_string_pretty(element).unwrap().replace('\n', "\n  ");
        assert!(view.text().contains(&bytes), "{bytes}");
    }
    world.write_file("view/events.json", &view.stdout);
    let view_of = |name| world.run(&["print", name, "--json", "--compacted"]).exits(0).stdout;
    assert_eq!(view_of("view"), view_of("conversation"), "the view of a view must be the same");
}

#[test]
fn dash_reads_stdin() {
    let world = World::new();
    let bytes = conversation().bytes();
    let transcript = world.write_events("conversation", &bytes);
    for arguments in
        [&["print"][..], &["print", "--json"], &["print", "--as", "source"], &["print", "--compacted"]]
    {
        let arguments_for = |name| [arguments, &[name]].concat();
        let from_stdin = world.run_with_stdin(&arguments_for("-"), &bytes).exits(0);
        assert_eq!(from_stdin.stdout, world.run(&arguments_for("conversation")).exits(0).stdout);
    }
    let show_output = world.run_with_stdin(&["show", "-"], &bytes).exits(0);
    assert!(show_output.text().starts_with("standard input: 2 turns"), "{}", show_output.text());
    world.run_with_stdin(&["print", "-"], b"{").exits(4).reports("standard input");
    transcript.assert_untouched();
}

#[test]
fn stdin_cannot_be_compacted() {
    let world = World::new();
    for arguments in [&["-"][..], &["-", "--reset"], &["-", "--dry-run"]] {
        world
            .run_with_stdin(arguments, &conversation().bytes())
            .exits(2)
            .reports("cannot append to stdin (`-`)");
    }
}

/// A text with terminal escape sequences and invisible characters.
const HOSTILE: &str = "\u{1b}[2J\u{9b}31m\u{202e}evil\u{2066}\r\u{7}\u{e0041}\u{7f}";

/// Asserts that a text contains no control characters except newline and tab, and no bidirectional or tag characters.
#[track_caller]
fn assert_harmless(text: &str) {
    let is_harmful = |c: &char| {
        c.is_control() && *c != '\n' && *c != '\t'
            || ('\u{202a}'..='\u{202e}').contains(c)
            || ('\u{2066}'..='\u{2069}').contains(c)
            || ('\u{e0000}'..='\u{e007f}').contains(c)
    };
    assert_eq!(text.chars().find(is_harmful), None, "{text:?}");
}

#[test]
fn escapes_terminal_sequences_in_transcripts() {
    let world = World::new();
    let hostile = Conversation::new()
        .turn(HOSTILE)
        .reasoning(HOSTILE)
        .call(HOSTILE, json!({HOSTILE: HOSTILE}), HOSTILE)
        .message(HOSTILE)
        .event("chat_response", json!({"data": {"a": HOSTILE}}))
        .compaction(json!({"from_turn": 9, "to_turn": 9, "summary": {"summary": HOSTILE}}));
    let transcript = world.write_conversation(&format!("conversation {HOSTILE}"), &hostile);
    let name = transcript.folder().to_str().unwrap();
    for arguments in [
        &["print"][..],
        &["print", "--compacted"],
        &["show"],
        &["--keep-last", "0"],
        &["--keep-last", "0"],
        &["--reset"],
    ] {
        let output = world.run(&[arguments, &[name]].concat()).exits(0);
        assert_harmless(output.text());
        assert_harmless(&output.stderr);
        assert!(
            format!("{}{}", output.text(), output.stderr).contains("\\u{1b}[2J"),
            "the sequence must be shown escaped"
        );
    }
    let json = world.run(&["print", name, "--json"]).exits(0);
    let events: Vec<Value> = serde_json::from_str(json.text()).unwrap();
    assert_eq!(events[0]["event"]["content"], HOSTILE, "JSON must be unescaped");
    assert_eq!(world.run(&["print", name, "--as", "source"]).exits(0).stdout, transcript.current_bytes());
}

#[test]
fn escapes_terminal_sequences_in_errors() {
    let world = World::new();
    let invalid_timestamp = json!([{"type": "turn_start", "timestamp": HOSTILE}]);
    world.write_events("bad", &serde_json::to_vec(&invalid_timestamp).unwrap());
    world.write_conversation("good", &Conversation::with_turns(2));
    let decline = json!({"type": "decline", "id": "c1", "reason": HOSTILE});
    let error = json!({"type": "error", "id": "c1", "code": HOSTILE, "message": HOSTILE, "transient": false, "hint": HOSTILE});
    for (name, answer) in
        [("declines", decline.to_string()), ("errs", error.to_string()), ("talks", HOSTILE.into())]
    {
        world.write_plugin(name, &format!("cat <<'END'\n{answer}\nEND\ncat <<'END' >&2\n{HOSTILE}\nEND"));
    }
    let strategy_arguments = |name| {
        ["good", "-v", "--strategy", name, "--trust-dir", "plugins", "--sandbox=contained", "--to", "0"]
    };
    for (arguments, code) in [
        (&["print", "bad"][..], 4),
        (&["bad"], 4),
        (&["print", HOSTILE], 4),
        (&["good", "--strategy", HOSTILE], 10),
        (&["good", "--strategy", &format!("strip-tools:{HOSTILE}=1")], 2),
        (&["good", "--from", HOSTILE], 2),
        (&["schema", HOSTILE], 2),
        (&strategy_arguments("declines"), 0),
        (&strategy_arguments("errs"), 16),
        (&strategy_arguments("talks"), 15),
    ] {
        let output = world.run(arguments).exits(code);
        assert_harmless(&output.stderr);
        assert_harmless(output.text());
    }
}

#[test]
fn closed_stdout_is_not_an_error() {
    let world = World::new();
    let conversation = Conversation::with_turns(3000);
    world.write_conversation("conversation", &conversation);
    for arguments in [&["print", "conversation"][..], &["print", "conversation", "--json"], &["--help"]] {
        let mut command = world.command(arguments);
        let mut child = world.spawn(&mut command);
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{arguments:?}");
    }
}

/// Returns a conversation of more than 4 MiB, which is not read into memory.
fn large_conversation() -> Conversation {
    let text = "let value = compute(7); caf\u{e9}\n".repeat(80_000);
    let large =
        conversation().turn("Again.").call("fs_read_file", json!({"path": "b"}), &text).message(&text);
    let strip = json!({"policy": "strip", "request": true, "response": true});
    large.compaction(json!({"from_turn": 0, "to_turn": 2, "reasoning": "strip", "tool_calls": strip}))
}

#[test]
fn large_transcript_is_printed_as_if_it_were_small() {
    let world = World::new();
    let bytes = world.write_conversation("conversation", &large_conversation()).current_bytes();
    assert!(bytes.len() > 4 << 20, "{} bytes", bytes.len());
    let arguments = ["print", "conversation", "--compacted", "--as", "source"];
    let print = |extra: &[&str]| world.run(&[&arguments, extra].concat());
    let compacted = print(&[]).exits(0);
    assert_eq!(compacted.stderr, "");
    // Stdin is read completely.
    let whole = world.run_with_stdin(&["print", "-", "--compacted", "--as", "source"], &bytes).exits(0);
    assert!(compacted.stdout == whole.stdout);
    assert!(compacted.stdout.len() < bytes.len() / 2);
    assert!(print(&["--format", "jp"]).exits(0).stdout == whole.stdout);
    print(&["--output", "smaller.json"]).exits(0);
    assert!(fs::read(world.path("smaller.json")).unwrap() == whole.stdout);
    print(&["--output", "smaller.json"]).exits(4).reports("exists");
    print(&["--format", "codex"]).exits(4);
}

#[test]
fn large_malformed_transcript_has_the_error_of_a_small_one() {
    let world = World::new();
    let mut bytes = world.write_conversation("conversation", &large_conversation()).current_bytes();
    let end = bytes.len() - 10;
    bytes[end] = 1;
    world.write_events("conversation", &bytes);
    let error =
        |form: &str| world.run(&["print", "conversation", "--compacted", "--as", form]).exits(4).stderr;
    assert_eq!(error("source"), error("text"));
    for (unreadable, message) in [(b"[".repeat(5 << 20), "deeper"), (b"[1,2,".repeat(1 << 20), "byte")] {
        world.write_events("conversation", &unreadable);
        assert_eq!(error("source"), error("text"));
        assert!(error("source").contains(message), "{}", error("source"));
    }
    // An array without a known event is rejected, too.
    world.write_events("conversation", format!("[{}1]", "1,".repeat(3 << 20)).as_bytes());
    assert_eq!(error("source"), error("text"));
}

#[test]
fn option_no_continue_leaves_out_the_added_message() {
    let world = World::new();
    world.write_conversation("closed", &Conversation::new().turn("Hello").message("Hello."));
    world
        .write_conversation("typed", &Conversation::new().turn("Hello").message("Hello.").turn("[Continue]"));
    for (provider, member) in [("anthropic", "messages"), ("openai", "messages"), ("gemini", "contents")] {
        let messages = |name: &str, options: &[&str]| {
            let output = world.run(&[&["print", name, "--as", provider], options].concat()).exits(0);
            let body: Value = serde_json::from_slice(&output.stdout).unwrap();
            body[member].as_array().unwrap().len()
        };
        assert_eq!((messages("closed", &[]), messages("closed", &["--no-continue"])), (3, 2), "{provider}");
        assert_eq!((messages("typed", &[]), messages("typed", &["--no-continue"])), (3, 3), "{provider}");
    }
}
