//! Conversations that JP also writes: the files that JP requires, the two copies of a conversation, and the race
//! between JP's load and its save.

use std::fs::{self, File};
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Conversation, Transcript, World, append_event};

const ID: &str = "17738399468";

/// Checks a folder against the rules of JP's validation and loader.
#[track_caller]
pub(crate) fn assert_jp_loads(folder: &Path) {
    let read = |name: &str| serde_json::from_slice::<Value>(&fs::read(folder.join(name)).unwrap()).unwrap();
    let digits = folder.file_name().unwrap().to_str().unwrap().split('-').next().unwrap();
    let id: i64 = digits.parse().unwrap();
    assert!(id.checked_mul(100_000_000).is_some(), "{id} in nanoseconds overflows");
    let metadata = read("metadata.json");
    assert!(has_jp_time_format(&metadata["last_activated_at"]), "{metadata}");
    assert!(metadata["title"].is_string() || metadata.get("title").is_none(), "{metadata}");
    let events = read("events.json");
    for event in events.as_array().unwrap() {
        assert!(event["type"].is_string() && event["timestamp"].is_string(), "{event}");
    }
    let base = match folder.join("base_config.json").exists() {
        true => read("base_config.json"),
        false => {
            assert_eq!(events[0]["type"], "config_delta");
            events[0]["delta"].clone()
        }
    };
    // JP's configuration has no default for these.
    for required in [
        "/assistant/model/id/provider",
        "/assistant/model/id/name",
        "/conversation/title/generate/auto",
        "/conversation/tools/*/run",
    ] {
        assert!(base.pointer(required).is_some(), "no {required} in {base}");
    }
}

/// Returns whether a time has JP's form, such as `2026-03-18 11:58:01.2358`.
fn has_jp_time_format(time: &Value) -> bool {
    let pattern: String =
        time.as_str().unwrap_or_default().chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    pattern.trim_end_matches('9') == "9999-99-99 99:99:99."
}

fn sample(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("host/transcripts/tests/formats/samples").join(name))
        .unwrap()
}

fn metadata(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("metadata.json")).unwrap()).unwrap()
}

#[test]
fn imported_conversation_meets_jp_requirements() {
    let world = World::new();
    world.write_file(".jp/.id", b"otvo8\n");
    fs::create_dir_all(world.path(".jp/conversations")).unwrap();
    let mut session = sample("claude-code.jsonl");
    session.extend_from_slice(
        b"{\"type\":\"custom-title\",\"customTitle\":\"Water\\n the garden\",\"sessionId\":\"s\"}\n",
    );
    world.write_file("s.jsonl", &session);
    world.write_file("chat.json", &sample("openai-chat.json"));
    for (source, folder_name, title) in [
        ("s.jsonl", "17738399471-imported", json!("Water the garden")),
        ("chat.json", "17738399472", Value::Null),
    ] {
        let destination = format!(".jp/conversations/{folder_name}");
        world.run(&["import", source, "--to", &destination]).exits(0);
        let folder = world.path(&destination);
        assert_jp_loads(&folder);
        assert_eq!(names(&folder), ["base_config.json", "events.json", "metadata.json"]);
        let metadata = metadata(&folder);
        assert_eq!(metadata["title"], title);
        let events: Vec<Value> =
            serde_json::from_slice(&fs::read(folder.join("events.json")).unwrap()).unwrap();
        assert_eq!(metadata["last_activated_at"], events.last().unwrap()["timestamp"]);
    }
}

#[test]
fn sample_meets_jp_requirements() {
    let world = World::new();
    let folder = world.path("17738399468-sample");
    fs::create_dir_all(&folder).unwrap();
    for file in ["events.json", "base_config.json", "metadata.json"] {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample").join(file), folder.join(file))
            .unwrap();
    }
    assert_jp_loads(&folder);
}

#[test]
fn fork_meets_jp_requirements_and_does_not_expire() {
    let world = World::new();
    world.write_file(".jp/.id", b"otvo8\n");
    fs::create_dir_all(world.path(".jp/conversations")).unwrap();
    world.write_file("bare/events.json", &Conversation::with_turns(3).bytes());
    let destination = ".jp/conversations/17738399470-fork";
    world.run(&["fork", "bare", destination]).exits(0);
    assert_jp_loads(&world.path(destination));

    let source_metadata = json!({
        "title": "t", "last_activated_at": "2026-03-18 11:58:01.0", "pinned_at": "2026-03-18 11:58:01.0",
        "expires_at": "2026-03-19 11:58:01.0", "archived_at": "2026-03-18 11:58:01.0", "labels": {"a": ""},
    });
    world.write_file("bare/metadata.json", source_metadata.to_string().as_bytes());
    world.write_file("bare/base_config.json", b"{\"mine\":1}");
    let destination = ".jp/conversations/17738399471";
    world.run(&["fork", "bare", destination, "--last", "1"]).exits(0);
    let copied = metadata(&world.path(destination));
    let expected = json!({
        "title": "t", "last_activated_at": "2026-03-18 11:58:01.0", "pinned_at": "2026-03-18 11:58:01.0",
        "labels": {"a": ""},
    });
    assert_eq!(copied, expected);
    assert_eq!(fs::read(world.path(destination).join("base_config.json")).unwrap(), b"{\"mine\":1}");
}

#[test]
fn rejects_ids_that_jp_cannot_read_or_distinguish() {
    let world = World::new();
    world.write_file(".jp/.id", b"otvo8\n");
    world.write_conversation(".jp/conversations/17738399468-review", &Conversation::with_turns(3));
    let fork =
        |destination: &str| world.run(&["fork", ID, &format!(".jp/conversations/{destination}")]).exits(4);
    for id in ["99999999999", "017738399469", "92233720368547758070"] {
        fork(id).reports("does not begin with a valid id");
    }
    // JP uses the first folder whose name begins with the id.
    fork("1773839946").reports("JP would confuse conversation 1773839946 with ");
    world.write_conversation(".jp/conversations/1-old", &Conversation::with_turns(3));
    fork("17738399469").reports("JP would confuse conversation 17738399469 with ");
}

/// Writes a conversation to both storages, like JP.
fn two_copies(world: &World) -> (Transcript, Transcript) {
    world.write_file(".jp/.id", b"otvo8\n");
    let conversation = Conversation::with_turns(5);
    let workspace_copy = world.write_conversation(&format!(".jp/conversations/{ID}-a-slug"), &conversation);
    let folder = world.home(&format!(".local/share/jp/workspace/work-otvo8/conversations/{ID}-a-slug"));
    let user_copy = world.write_conversation(folder.to_str().unwrap(), &conversation);
    (workspace_copy, user_copy)
}

#[test]
fn two_copies_stay_equal_through_appends_and_resets() {
    let world = World::new();
    let (workspace_copy, user_copy) = two_copies(&world);
    let shown_path = || world.run(&["show", ID, "--json"]).exits(0).line()["path"].clone();
    let first_path = shown_path();
    for round in 0..3 {
        world.run(&[ID, "--strategy", "strip-tools"]).exits(0);
        world.run(&[ID, "--strategy", "strip-reasoning", "--keep-last", "1"]).exits(0);
        assert_eq!(user_copy.overlays().len(), 2, "round {round}");
        assert_eq!(workspace_copy.current_bytes(), user_copy.current_bytes());
        assert_eq!(shown_path(), first_path, "JP must load the same copy");
        world.run(&[ID, "--reset=1"]).exits(0);
        assert_eq!(workspace_copy.current_bytes(), user_copy.current_bytes());
        world.run(&[ID, "--reset"]).exits(0);
        assert_eq!(
            (workspace_copy.current_bytes(), user_copy.current_bytes()),
            (workspace_copy.original_bytes().to_vec(), user_copy.original_bytes().to_vec())
        );
    }
}

#[test]
fn overlays_in_only_one_copy_are_not_a_conflict() {
    // Version 0.1.0 wrote overlays only to the copy that JP loads.
    for newer_has_overlays in [true, false] {
        let world = World::new();
        let (workspace_copy, user_copy) = two_copies(&world);
        world.run(&[ID, "--strategy", "strip-tools"]).exits(0);
        let copy_without_overlays = if newer_has_overlays { &workspace_copy } else { &user_copy };
        fs::write(&copy_without_overlays.path, copy_without_overlays.original_bytes()).unwrap();
        // JP loads the newer copy.
        let (old, new) =
            if newer_has_overlays { (workspace_copy, user_copy) } else { (user_copy, workspace_copy) };
        let hour = std::time::Duration::from_secs(3_600);
        let long_ago = std::time::SystemTime::now() - hour;
        for path in
            [&old.path, &old.folder().join("base_config.json"), &new.folder().join("base_config.json")]
        {
            File::options().append(true).open(path).unwrap().set_modified(long_ago).unwrap();
        }
        let line = world.run(&[ID, "--strategy", "strip-reasoning", "--json"]).exits(0).line();
        assert_eq!(line["path"], new.path.to_str().unwrap());
        assert_eq!(new.overlays().len(), 2);
        assert_eq!(old.current_bytes(), new.current_bytes());
    }
}

#[test]
fn reset_removes_receipts_left_by_jp() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    world.run(&["conversation", "--strategy", "strip-tools"]).exits(0);
    // `jp c compact --reset` removes compactions, and keeps elements of unknown types.
    let mut elements: Vec<Value> = serde_json::from_slice(&transcript.current_bytes()).unwrap();
    elements.retain(|element| element["type"] != "compaction");
    fs::write(&transcript.path, format!("{:#}\n", Value::from(elements))).unwrap();
    let output = world.run(&["conversation", "--reset"]).exits(0);
    output.reports("no overlay to remove");
    let remaining: Vec<Value> = serde_json::from_slice(&transcript.current_bytes()).unwrap();
    assert!(remaining.iter().all(|element| element["type"] != "jp_compact_receipt"));
}

#[test]
fn compaction_members_follow_jp_order() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    world.run(&["conversation", "--strategy", "strip-tools"]).exits(0);
    let text = String::from_utf8(transcript.current_bytes()).unwrap();
    let compaction = &text[text.find("    \"type\": \"compaction\"").unwrap()..];
    let keys: Vec<&str> =
        compaction.lines().take(5).map(|line| line.trim().split('"').nth(1).unwrap()).collect();
    assert_eq!(keys, ["type", "timestamp", "from_turn", "to_turn", "tool_calls"]);
}

fn compactions(transcript: &Transcript) -> usize {
    let elements: Vec<Value> = serde_json::from_slice(&transcript.current_bytes()).unwrap();
    elements.iter().filter(|element| element["type"] == "compaction").count()
}

/// Imitates a save by JP: under its lock, it writes the loaded events and one more turn.
fn jp_save(world: &World, transcript: &Transcript, loaded: &[u8]) {
    fs::create_dir_all(world.path(".jp/locks")).unwrap();
    let path = world.path(&format!(".jp/locks/jp-c{ID}.lock"));
    let lock = File::options().create(true).truncate(false).write(true).open(&path).unwrap();
    lock.lock().unwrap();
    let turn = json!({"timestamp": "2026-06-01 00:00:00.0", "type": "chat_request", "content": "JP's turn"});
    fs::write(&transcript.path, append_event(loaded, &turn)).unwrap();
    drop(lock);
    fs::remove_file(path).unwrap();
}

#[test]
fn jp_save_of_older_state_loses_overlay_but_no_event() {
    let world = World::new();
    world.write_file(".jp/.id", b"otvo8\n");
    let transcript =
        world.write_conversation(&format!(".jp/conversations/{ID}"), &Conversation::with_turns(5));
    // JP loads the file before it takes its lock, and does not read it again.
    let loaded = transcript.current_bytes();
    world.run(&[ID, "--strategy", "strip-tools"]).exits(0);
    jp_save(&world, &transcript, &loaded);
    assert_eq!(compactions(&transcript), 0, "expected the overlay to be lost");
    let text = String::from_utf8(transcript.current_bytes()).unwrap();
    assert!(text.contains("JP's turn"), "an event was lost");
    // The next run appends the overlay again.
    world.run(&[ID, "--strategy", "strip-tools"]).exits(0);
    assert_eq!(compactions(&transcript), 1);
}

#[test]
fn keeps_turn_that_jp_saved_before_append() {
    let world = World::new();
    world.write_file(".jp/.id", b"otvo8\n");
    let transcript =
        world.write_conversation(&format!(".jp/conversations/{ID}"), &Conversation::with_turns(5));
    jp_save(&world, &transcript, &transcript.current_bytes());
    world.run(&[ID, "--strategy", "strip-tools"]).exits(0);
    assert_eq!(compactions(&transcript), 1);
    assert!(String::from_utf8(transcript.current_bytes()).unwrap().contains("JP's turn"));
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
