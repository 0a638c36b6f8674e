//! Broken, hostile and inaccessible input. Each case prints one error that names the file, and leaves the file
//! unchanged. Unusual input that is valid is accepted.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use serde_json::json;

use crate::support::{Conversation, World, append_event, is_root};

/// Checks that every command rejects these bytes with this message.
#[track_caller]
fn check_rejected(bytes: &[u8], message: &str) {
    let world = World::new();
    let transcript = world.write_events("conversation", bytes);
    for arguments in [
        &["conversation"][..],
        &["conversation", "--dry-run"],
        &["conversation", "--reset"],
        &["print", "conversation"],
        &["print", "conversation", "--as", "source"],
        &["show", "conversation", "--json"],
    ] {
        let output = world.run(arguments).exits(4).reports("failed to read ");
        assert!(output.stderr.contains("conversation/events.json\n\nCaused by:\n  "), "{}", output.stderr);
        assert!(output.stderr.contains(message), "`{message}` is not in:\n{}", output.stderr);
        assert_eq!(output.stderr.matches("error: ").count(), 1, "{}", output.stderr);
        // With `--json` the error is also a document.
        let documents = usize::from(arguments.contains(&"--json"));
        assert_eq!(output.text().lines().count(), documents, "{arguments:?}");
    }
    transcript.assert_untouched();
}

/// Checks that these bytes can be printed but not compacted.
#[track_caller]
fn check_read_only(bytes: &[u8], message: &str) {
    let world = World::new();
    let transcript = world.write_events("conversation", bytes);
    world.run(&["print", "conversation"]).exits(0);
    world.run(&["show", "conversation"]).exits(0);
    world.run(&["conversation", "--dry-run"]).exits(4).reports(message);
    let source = world.run(&["print", "conversation", "--as", "source", "--compacted"]).exits(0);
    assert!(source.stdout == bytes, "unknown elements must be kept");
    world.run(&["conversation"]).exits(4).reports(message);
    transcript.assert_untouched();
}

#[test]
fn rejects_input_that_is_not_json() {
    check_rejected(b"hello", "byte 0: ");
    check_rejected(b"[hello]", "element 0 (byte 1): ");
    check_rejected(b"\x1f\x8b\x08\x00", "byte 0: ");
    check_rejected(b"[] []", "byte 3: text after the closing `]`");
}

#[test]
fn rejects_input_truncated_at_any_byte() {
    let bytes = Conversation::with_turns(5).bytes();
    for length in [1, 2, 10, bytes.len() / 2, bytes.len() - 20, bytes.len() - 2] {
        check_rejected(&bytes[..length], "byte ");
    }
}

#[test]
fn rejects_json_that_is_not_an_array() {
    check_rejected(b"{}", "byte 0: expected a JSON array of events");
    check_rejected(br#""events""#, "byte 0: expected a JSON array of events");
    check_rejected(b"null", "byte 0: expected a JSON array of events");
}

#[test]
fn rejects_empty_file() {
    check_rejected(b"", "the file is empty");
    check_rejected(b" \n", "the file is empty");
}

#[test]
fn rejects_known_event_without_required_members() {
    let one_event = |kind, members| Conversation::new().event(kind, members).bytes();
    check_rejected(
        &one_event("chat_request", json!({})),
        "element 0 (byte 4): the `content` of the `chat_request` is missing",
    );
    check_rejected(&one_event("chat_response", json!({})), "a `chat_response` has no");
    check_rejected(
        &one_event("tool_call_request", json!({"id": "a"})),
        "the `name` of the `tool_call_request` is missing",
    );
    check_rejected(
        &one_event("tool_call_response", json!({"id": "a", "content": ""})),
        "the `is_error` of the `tool_call_response` is missing",
    );
    check_rejected(
        &one_event("turn_start", json!({"timestamp": "yesterday"})),
        "is not a valid time: `yesterday`",
    );
}

#[test]
fn rejects_invalid_utf8() {
    let mut bytes = Conversation::with_turns(5).bytes();
    let index = bytes.windows(8).position(|window| window == b"greeting").unwrap();
    bytes[index] = 0xff;
    check_rejected(&bytes, &format!("byte {index}"));
}

#[test]
fn rejects_deeply_nested_json() {
    let nested = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    check_rejected(nested.as_bytes(), "element 0 (byte ");
    let members = format!(r#"[{{"type":"unknown","timestamp":"2026-01-01 00:00:00.0","a":{nested}}}]"#);
    check_rejected(members.as_bytes(), "element 0 (byte ");
}

#[test]
fn symlinked_transcript_is_read_only() {
    let world = World::new();
    let transcript = world.write_conversation("real", &Conversation::with_turns(5));
    fs::create_dir(world.path("conversation")).unwrap();
    symlink("../real/events.json", world.path("conversation/events.json")).unwrap();
    world.run(&["print", "conversation"]).exits(0);
    for arguments in [&["conversation"][..], &["conversation", "--reset"], &["conversation/events.json"]] {
        world.run(arguments).exits(4).reports("conversation/events.json is a symlink");
    }
    transcript.assert_untouched();
    assert!(world.path("conversation/events.json").is_symlink());
}

#[test]
fn follows_symlink_to_conversation_folder() {
    let world = World::new();
    let transcript = world.write_conversation("real", &Conversation::with_turns(5));
    symlink("real", world.path("conversation")).unwrap();
    world.run(&["conversation"]).exits(0);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn rejects_folder_without_events() {
    let world = World::new();
    world.write_file("conversation/metadata.json", b"{}");
    for arguments in [&["conversation"][..], &["print", "conversation"], &["conversation", "--reset"]] {
        world
            .run(arguments)
            .exits(4)
            .reports("/here/conversation is not a conversation: it has no events.json");
    }
    fs::create_dir(world.path("conversation/events.json")).unwrap();
    world.run(&["print", "conversation"]).exits(4).reports("is a folder, not a regular file");
}

#[test]
fn reports_missing_path() {
    let world = World::new();
    for arguments in
        [&["no/where"][..], &["print", "no/where"], &["show", "nowhere"], &["no.where", "--reset"]]
    {
        world.run(arguments).exits(4).reports("failed to find a transcript at /here/no");
    }
    world.run(&[""]).exits(4);
}

#[test]
fn reports_missing_permissions() {
    if is_root() {
        eprintln!("skipped: permissions do not apply to root");
        return;
    }
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    let set_mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(&transcript.path, 0o000);
    for arguments in [&["conversation"][..], &["print", "conversation"]] {
        let output = world.run(arguments).exits(4).reports("/here/conversation/events.json");
        assert!(output.stderr.contains("Permission denied"), "{}", output.stderr);
    }
    set_mode(&transcript.path, 0o644);
    set_mode(transcript.folder(), 0o555);
    world.run(&["print", "conversation"]).exits(0);
    let output = world.run(&["conversation"]).exits(4).reports("/here/conversation/events.json");
    assert!(output.stderr.contains("Permission denied"), "{}", output.stderr);
    transcript.assert_untouched();
    set_mode(transcript.folder(), 0o755);
}

#[test]
fn file_size_limit_keeps_old_file() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(200));
    let kilobytes = transcript.original_bytes().len() / 1024;
    // Shells count in blocks of 512 or 1024 bytes. The new file is too large in both cases.
    for limit in ["1", &(kilobytes / 2).to_string()] {
        let mut command = Command::new("/bin/sh");
        let limited = format!("ulimit -f {limit}; exec \"$0\" conversation");
        world.isolate(&mut command).args(["-c", &limited]).arg(cargo_bin!("jp-compact"));
        world.finish(&mut command).exits(4).reports("/here/conversation/events.json would have ");
        transcript.assert_untouched();
    }
}

#[test]
fn runtime_that_cannot_start_is_named() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(1));
    let mut command = Command::new("/bin/sh");
    let limited = "ulimit -n 8; exec \"$0\" batch . -n -s strip-reasoning";
    world.isolate(&mut command).args(["-c", limited]).arg(cargo_bin!("jp-compact"));
    let output = world.finish(&mut command);
    assert!(output.stderr.starts_with("error: failed to start the runtime"), "{}", output.stderr);
}

#[test]
fn element_without_type_or_time_is_readable_but_blocks_append() {
    let bytes = Conversation::with_turns(5).bytes();
    let message = "element 30 (byte ";
    check_read_only(
        &append_event(&bytes, &json!({"timestamp": "2026-01-01 00:00:00.0", "note": "mine"})),
        message,
    );
    check_read_only(&append_event(&bytes, &json!({"type": "note"})), message);
    check_read_only(&append_event(&bytes, &json!({"type": "turn_start"})), message);
    check_read_only(&append_event(&bytes, &json!({"type": "turn_start", "timestamp": 7})), message);
    check_read_only(&append_event(&bytes, &json!("a lone string")), message);
    check_read_only(&append_event(&bytes, &json!(null)), message);
}

#[test]
fn accepts_empty_array() {
    let world = World::new();
    let transcript = world.write_events("conversation", b"[]");
    assert_eq!(world.run(&["print", "conversation"]).exits(0).text(), "");
    assert_eq!(
        world
            .run(&["print", "conversation", "--json"])
            .exits(0)
            .text()
            .split_whitespace()
            .collect::<String>(),
        "[]"
    );
    world.run(&["show", "conversation"]).exits(0);
    world.run(&["conversation"]).exits(0);
    world.run(&["conversation", "--reset"]).exits(0);
    transcript.assert_untouched();
}

#[test]
fn accepts_one_line_of_several_megabytes() {
    let world = World::new();
    let conversation = Conversation::with_turns(4).turn(&"long ".repeat(1 << 20)).message("x");
    let bytes = serde_json::to_vec(conversation.elements()).unwrap();
    assert!(bytes.len() > 5 << 20 && !bytes.contains(&b'\n'));
    let transcript = world.write_events("conversation", &bytes);
    world.run(&["conversation", "--keep-last", "0"]).exits(0);
    assert_eq!(transcript.overlays().len(), 1);
    world.run(&["conversation", "--reset"]).exits(0);
    transcript.assert_same_bytes();
}

#[test]
fn preserves_bytes_of_unknown_events() {
    let world = World::new();
    let conversation =
        Conversation::with_turns(5).event("a_later_type", json!({"a": 1.5, "b": ["\u{1f600}", null]}));
    let transcript = world.write_conversation("conversation", &conversation);
    world.run(&["conversation", "--keep-last", "0"]).exits(0);
    assert_eq!(transcript.overlays().len(), 1);
    let source = world.run(&["print", "conversation", "--as", "source", "--compacted"]).exits(0);
    let event = serde_json::to_string_pretty(&conversation.elements()[30]).unwrap().replace('\n', "\n  ");
    assert!(source.text().contains(&event), "{event}");
}

#[test]
fn empty_file_is_not_a_wrong_format() {
    let world = World::new();
    world.write_file("session.jsonl", b"");
    for command in [&["session.jsonl"][..], &["stats", "session.jsonl"], &["print", "session.jsonl"]] {
        let output = world.run(command).exits(4).reports("the file is empty");
        output.reports("hint: nothing was recorded in it yet; `jp-compact list` lists the sessions");
    }
}
