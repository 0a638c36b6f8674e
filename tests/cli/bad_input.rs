//! Input that is broken, hostile or out of reach: one clear error that names the file, and the file as it was.
//! And what only looks so.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use serde_json::json;

use crate::support::{Conversation, World, grown, is_root};

/// Nothing can be made of these bytes.
#[track_caller]
fn unreadable(bytes: &[u8], says: &str) {
    let world = World::new();
    let transcript = world.raw("conversation", bytes);
    for arguments in [
        &["conversation"][..],
        &["conversation", "--dry-run"],
        &["conversation", "--reset"],
        &["print", "conversation"],
        &["print", "conversation", "--as", "source"],
        &["show", "conversation", "--json"],
    ] {
        let ran = world.run(arguments).exits(4).says("failed to read ");
        assert!(ran.stderr.contains("conversation/events.json\n\nCaused by:\n  "), "{}", ran.stderr);
        assert!(ran.stderr.contains(says), "`{says}` is not in:\n{}", ran.stderr);
        assert_eq!(ran.stderr.matches("error: ").count(), 1, "{}", ran.stderr);
        assert_eq!(ran.text(), "", "{arguments:?}");
    }
    transcript.assert_untouched();
}

/// These bytes are not compacted, and can be read.
#[track_caller]
fn only_readable(bytes: &[u8], says: &str) {
    let world = World::new();
    let transcript = world.raw("conversation", bytes);
    world.run(&["print", "conversation"]).exits(0);
    world.run(&["show", "conversation"]).exits(0);
    world.run(&["conversation", "--dry-run"]).exits(4).says(says);
    let source = world.run(&["print", "conversation", "--as", "source", "--compacted"]).exits(0);
    assert!(source.stdout == bytes, "what is unknown is kept");
    world.run(&["conversation"]).exits(4).says(says);
    transcript.assert_untouched();
}

#[test]
fn what_is_not_json_is_refused() {
    unreadable(b"hello", "byte 0: ");
    unreadable(b"[hello]", "element 0 (byte 1): ");
    unreadable(b"\x1f\x8b\x08\x00", "byte 0: ");
    unreadable(b"[] []", "byte 3: text after the closing `]`");
}

#[test]
fn what_was_cut_off_is_refused_wherever_that_was() {
    let bytes = Conversation::of(5).bytes();
    for cut in [1, 2, 10, bytes.len() / 2, bytes.len() - 20, bytes.len() - 2] {
        unreadable(&bytes[..cut], "byte ");
    }
}

#[test]
fn what_is_no_array_is_refused() {
    unreadable(b"{}", "byte 0: expected a JSON array of events");
    unreadable(br#""events""#, "byte 0: expected a JSON array of events");
    unreadable(b"null", "byte 0: expected a JSON array of events");
}

#[test]
fn an_empty_file_is_refused() {
    unreadable(b"", "the file is empty");
    unreadable(b" \n", "the file is empty");
}

#[test]
fn a_known_event_without_its_members_is_refused() {
    let of = |kind, members| Conversation::new().event(kind, members).bytes();
    unreadable(&of("chat_request", json!({})), "element 0 (byte 4): a `chat_request` without `content`");
    unreadable(&of("chat_response", json!({})), "a `chat_response` without");
    unreadable(&of("tool_call_request", json!({"id": "a"})), "a `tool_call_request` without `name`");
    unreadable(&of("tool_call_response", json!({"id": "a", "content": ""})), "without `is_error`");
    unreadable(&of("turn_start", json!({"timestamp": "yesterday"})), "is no point in time: `yesterday`");
}

#[test]
fn what_is_not_utf_8_is_refused() {
    let mut bytes = Conversation::of(5).bytes();
    let at = bytes.windows(8).position(|window| window == b"greeting").unwrap();
    bytes[at] = 0xff;
    unreadable(&bytes, &format!("byte {at}"));
}

#[test]
fn what_nests_too_deep_is_refused() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    unreadable(deep.as_bytes(), "element 0 (byte ");
    let members = format!(r#"[{{"type":"unknown","timestamp":"2026-01-01 00:00:00.0","a":{deep}}}]"#);
    unreadable(members.as_bytes(), "element 0 (byte ");
}

#[test]
fn a_symlink_is_read_and_never_written_through() {
    let world = World::new();
    let transcript = world.conversation("real", &Conversation::of(5));
    fs::create_dir(world.path("conversation")).unwrap();
    symlink("../real/events.json", world.path("conversation/events.json")).unwrap();
    world.run(&["print", "conversation"]).exits(0);
    for arguments in [&["conversation"][..], &["conversation", "--reset"], &["conversation/events.json"]] {
        world.run(arguments).exits(4).says("conversation/events.json is a symlink");
    }
    transcript.assert_untouched();
    assert!(world.path("conversation/events.json").is_symlink());
}

#[test]
fn a_folder_behind_a_symlink_is_a_folder() {
    let world = World::new();
    let transcript = world.conversation("real", &Conversation::of(5));
    symlink("real", world.path("conversation")).unwrap();
    world.run(&["conversation"]).exits(0);
    assert_eq!(transcript.overlays().len(), 2);
}

#[test]
fn a_folder_without_events_is_no_conversation() {
    let world = World::new();
    world.file("conversation/metadata.json", b"{}");
    for arguments in [&["conversation"][..], &["print", "conversation"], &["conversation", "--reset"]] {
        world.run(arguments).exits(4).says("/here/conversation is no conversation: it holds no events.json");
    }
    fs::create_dir(world.path("conversation/events.json")).unwrap();
    world.run(&["print", "conversation"]).exits(4).says("is a folder, not a file");
}

#[test]
fn a_path_that_is_not_there_is_said_so() {
    let world = World::new();
    for arguments in
        [&["no/where"][..], &["print", "no/where"], &["show", "nowhere"], &["no.where", "--reset"]]
    {
        world.run(arguments).exits(4).says("there is no transcript at /here/no");
    }
    world.run(&[""]).exits(4);
}

#[test]
fn what_may_not_be_read_or_written_is_said_so() {
    if is_root() {
        eprintln!("nothing can be forbidden to root: missing permissions are not tested");
        return;
    }
    let world = World::new();
    let transcript = world.conversation("conversation", &Conversation::of(5));
    let forbid = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    forbid(&transcript.path, 0o000);
    for arguments in [&["conversation"][..], &["print", "conversation"]] {
        let ran = world.run(arguments).exits(4).says("/here/conversation/events.json");
        assert!(ran.stderr.contains("Permission denied"), "{}", ran.stderr);
    }
    forbid(&transcript.path, 0o644);
    forbid(transcript.folder(), 0o555);
    world.run(&["print", "conversation"]).exits(0);
    let ran = world.run(&["conversation"]).exits(4).says("/here/conversation/events.json");
    assert!(ran.stderr.contains("Permission denied"), "{}", ran.stderr);
    transcript.assert_untouched();
    forbid(transcript.folder(), 0o755);
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let world = World::new();
    let transcript = world.conversation("conversation", &Conversation::of(200));
    let kilobytes = transcript.before().len() / 1024;
    // In blocks of 512 or of 1024 bytes, as the shell has it: the new file is too large either way.
    for limit in ["1", &(kilobytes / 2).to_string()] {
        let mut command = Command::new("/bin/sh");
        let limited = format!("ulimit -f {limit}; exec \"$0\" conversation");
        world.enter(&mut command).args(["-c", &limited]).arg(cargo_bin!("jp-compact"));
        world.finish(&mut command).exits(4).says("/here/conversation/events.json would hold ");
        transcript.assert_untouched();
    }
}

#[test]
fn an_element_without_type_or_time_is_kept_and_not_appended_to() {
    let bytes = Conversation::of(5).bytes();
    let says = "element 30 (byte ";
    only_readable(&grown(&bytes, &json!({"timestamp": "2026-01-01 00:00:00.0", "note": "mine"})), says);
    only_readable(&grown(&bytes, &json!({"type": "note"})), says);
    only_readable(&grown(&bytes, &json!({"type": "turn_start"})), says);
    only_readable(&grown(&bytes, &json!({"type": "turn_start", "timestamp": 7})), says);
    only_readable(&grown(&bytes, &json!("a lone string")), says);
    only_readable(&grown(&bytes, &json!(null)), says);
}

#[test]
fn an_empty_array_is_a_conversation_without_a_turn() {
    let world = World::new();
    let transcript = world.raw("conversation", b"[]");
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
fn one_long_line_of_megabytes_is_a_conversation() {
    let world = World::new();
    let long = Conversation::of(4).turn(&"long ".repeat(1 << 20)).message("x");
    let bytes = serde_json::to_vec(long.elements()).unwrap();
    assert!(bytes.len() > 5 << 20 && !bytes.contains(&b'\n'));
    let transcript = world.raw("conversation", &bytes);
    world.run(&["conversation", "--keep-last", "0"]).exits(0);
    assert_eq!(transcript.overlays().len(), 2);
    world.run(&["conversation", "--reset"]).exits(0);
    transcript.assert_same_bytes();
}

#[test]
fn events_of_unknown_types_survive_to_the_byte() {
    let world = World::new();
    let strange = Conversation::of(5).event("a_later_type", json!({"a": 1.5, "b": ["\u{1f600}", null]}));
    let transcript = world.conversation("conversation", &strange);
    world.run(&["conversation", "--keep-last", "0"]).exits(0);
    assert_eq!(transcript.overlays().len(), 2);
    let source = world.run(&["print", "conversation", "--as", "source", "--compacted"]).exits(0);
    let event = serde_json::to_string_pretty(&strange.elements()[30]).unwrap().replace('\n', "\n  ");
    assert!(source.text().contains(&event), "{event}");
}
