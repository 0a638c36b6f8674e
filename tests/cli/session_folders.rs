//! Conversations that an agent keeps in many files: one for each event (`OpenHands`), or one for each message and part
//! (`OpenCode` before version 1.2).

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{World, file_names};

const ID: &str = "5d1e00dd-1c9e-4011-b6aa-690d39d3ef85";
const HEX: &str = "5d1e00dd1c9e4011b6aa690d39d3ef85";

fn event_id(number: usize) -> String {
    format!("c4da44d2-0000-4000-8000-{number:012}")
}

fn text(text: &str) -> Value {
    json!([{ "cache_prompt": false, "type": "text", "text": text }])
}

/// Returns the events of two turns, with the members that `openhands` 1.16.0 writes.
fn events() -> Vec<Value> {
    let message = |source: &str, role: &str, said: &str| {
        json!({
            "source": source, "llm_message": { "role": role, "content": text(said), "thinking_blocks": [] },
            "activated_skills": [], "extended_content": [], "kind": "MessageEvent",
        })
    };
    let call = json!({
        "source": "agent", "thought": text("I read it."), "thinking_blocks": [],
        "action": { "command": "cat tap.log", "is_input": false, "kind": "TerminalAction" },
        "tool_name": "terminal", "tool_call_id": "call_1",
        "tool_call": { "id": "call_1", "name": "terminal", "arguments": "{\"command\": \"cat tap.log\"}", "origin": "completion" },
        "llm_response_id": "chatcmpl-1", "security_risk": "LOW", "kind": "ActionEvent",
    });
    let result = json!({
        "source": "environment", "tool_name": "terminal", "tool_call_id": "call_1", "action_id": event_id(2),
        "observation": { "content": text(&"drip\n".repeat(800)), "is_error": false, "command": "cat tap.log", "kind": "TerminalObservation" },
        "kind": "ObservationEvent",
    });
    let mut events = vec![
        json!({ "source": "agent", "system_prompt": { "type": "text", "text": "You are." }, "tools": [], "kind": "SystemPromptEvent" }),
        message("user", "user", "Why does the tap drip?"),
        call,
        result,
        message("agent", "assistant", "The washer is worn."),
        message("user", "user", "Thanks."),
        message("agent", "assistant", "Bye."),
    ];
    for (number, event) in events.iter_mut().enumerate() {
        event["id"] = event_id(number).into();
        event["timestamp"] = format!("2026-11-23T12:12:{:02}.000000", 10 + number).into();
    }
    events
}

/// Writes a conversation below `conversations`. Returns the folder of its events.
fn write_conversation(conversations: &Path) -> PathBuf {
    let folder = conversations.join(HEX);
    let state = json!({
        "id": ID, "workspace": { "working_dir": "/work/app", "kind": "LocalWorkspace" },
        "persistence_dir": folder.to_str(), "last_user_message_id": event_id(5),
    });
    let path = folder.join("events");
    fs::create_dir_all(&path).unwrap();
    fs::write(folder.join("base_state.json"), state.to_string()).unwrap();
    fs::write(path.join(".eventlog.lock"), "").unwrap();
    for (number, event) in events().iter().enumerate() {
        fs::write(path.join(format!("event-{number:05}-{}.json", event_id(number))), event.to_string())
            .unwrap();
    }
    path
}

/// Returns the file name and the JSON of each event.
fn read_events(path: &Path) -> Vec<(String, Value)> {
    let names = file_names(path).into_iter().filter(|name| name.starts_with("event-"));
    let read = |name: String| {
        let event = serde_json::from_slice(&fs::read(path.join(&name)).unwrap()).unwrap();
        (name, event)
    };
    names.map(read).collect()
}

#[test]
fn folder_of_events_is_one_transcript_with_a_sidecar() {
    let world = World::new();
    let path = write_conversation(&world.path("c"));
    let before = read_events(&path);
    for name in [format!("c/{HEX}"), format!("c/{HEX}/events")] {
        let stats = world.run(&["stats", &name, "--json"]).exits(0).line();
        assert_eq!((&stats["turns"], &stats["events"]), (&json!(2), &json!(9)), "{name}: {stats}");
    }
    world.run(&[&format!("c/{HEX}"), "--strategy", "strip-tools", "--keep-last", "0"]).exits(0);
    assert!(path.with_file_name(".events.jp-compact").is_file());
    let view = world.run(&["print", &format!("c/{HEX}"), "--compacted"]).exits(0);
    assert!(view.text().contains("[compacted] terminal: success"), "{}", view.text());
    world.run(&[&format!("c/{HEX}"), "--reset"]).exits(0);
    assert!(!path.with_file_name(".events.jp-compact").exists());
    assert!(before == read_events(&path), "the events were changed");
}

#[test]
fn batch_takes_a_folder_of_events_as_one_transcript() {
    let world = World::new();
    write_conversation(&world.path("c"));
    for root in ["c", &format!("c/{HEX}/events")] {
        let output =
            world.run(&["batch", root, "--strategy", "strip-tools", "--out", "views", "--report", "report"]);
        output.exits(0);
        let report = fs::read_to_string(world.path("report")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!((&report["total"]["transcripts"], &report["total"]["failed"]), (&json!(1), &json!(0)));
        fs::remove_dir_all(world.path("views")).unwrap();
        fs::remove_file(world.path("report")).unwrap();
    }
}

#[test]
fn view_of_private_events_is_private() {
    let world = World::new();
    let path = write_conversation(&world.path("c"));
    let set_mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    set_mode(&path, 0o755);
    for name in file_names(&path) {
        set_mode(&path.join(name), 0o600);
    }
    world.run(&["batch", "c", "--strategy", "strip-tools", "--out", "views"]).exits(0);
    let source = format!("c/{HEX}");
    world.run(&["print", &source, "--compacted", "--as", "source", "--output", "view"]).exits(0);
    for view in [format!("views/{HEX}/events"), "view".to_owned()] {
        let mode = fs::metadata(world.path(&view)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{view}");
    }
}

#[test]
fn file_with_an_empty_array_has_nothing_to_compact() {
    let world = World::new();
    let path = world.write_file("storage/session_diff/ses_1.json", b"[]");
    let batch = world.run(&["batch", "storage", "--strategy", "strip-tools", "--json"]).exits(0);
    let report: Value = serde_json::from_slice(&batch.stdout).unwrap();
    assert_eq!(report["transcripts"][0].get("error").cloned().unwrap_or_default(), Value::Null, "{report}");
    world.run(&["storage/session_diff/ses_1.json", "--strategy", "strip-tools"]).exits(0);
    assert_eq!(fs::read(&path).unwrap(), b"[]");
    assert_eq!(file_names(path.parent().unwrap()), ["ses_1.json"]);
}

#[test]
fn fork_of_openhands_refuses_an_existing_folder() {
    let world = World::new();
    let source = write_conversation(&world.path("conversations"));
    let (source, dest) = (source.parent().unwrap(), world.path("taken"));
    fs::create_dir(&dest).unwrap();
    fs::write(dest.join("note"), "keep").unwrap();
    let words = ["fork", source.to_str().unwrap(), "taken"];
    world.run(&words).exits(4).reports("/here/taken already exists");
    assert_eq!(file_names(&dest), ["note"]);
}

#[test]
fn fork_of_openhands_is_a_folder_with_new_ids() {
    let world = World::new();
    let path = write_conversation(&world.home(".openhands/conversations"));
    let before = read_events(&path);
    let listed = world.run(&["list", "--agent", "openhands", "--json"]).exits(0).line();
    let session = &listed["sessions"][0];
    assert_eq!((&session["id"], &session["folder"]), (&json!(HEX), &json!("/work/app")));
    assert_eq!(session["title"], "Why does the tap drip?");
    // `openhands` prints ids with hyphens.
    let document =
        world.run(&["fork", ID, "--compact=default", "--keep-last", "1", "--json"]).exits(0).line();
    let id = document["session"]["id"].as_str().unwrap();
    let fork = world.home(&format!(".openhands/conversations/{}/events", id.replace('-', "")));
    assert_eq!(document["path"], *fork.to_str().unwrap());
    assert_eq!(document["session"]["resume"], format!("cd /work/app && openhands --resume {id}"));
    let state: Value =
        serde_json::from_slice(&fs::read(fork.with_file_name("base_state.json")).unwrap()).unwrap();
    assert_eq!(
        (&state["id"], &state["persistence_dir"]),
        (&json!(id), &json!(fork.parent().unwrap().to_str()))
    );
    let copied = read_events(&fork);
    for (number, (name, event)) in copied.iter().enumerate() {
        assert_eq!(*name, format!("event-{number:05}-{}.json", event["id"].as_str().unwrap()));
        assert!(before.iter().all(|(_, old)| old["id"] != event["id"]), "{event}");
    }
    let result = copied.iter().find(|(_, event)| event["kind"] == "ObservationEvent").unwrap();
    let call = copied.iter().find(|(_, event)| event["kind"] == "ActionEvent").unwrap();
    assert_eq!(result.1["action_id"], call.1["id"]);
    assert_eq!(result.1["tool_call_id"], "call_1");
    let user = copied.iter().rfind(|(_, event)| event["source"] == "user").unwrap();
    assert_eq!(state["last_user_message_id"], user.1["id"]);
    assert!(before == read_events(&path), "the events were changed");
    let forks = world.run(&["list", "--forks", "--json"]).exits(0).line();
    assert_eq!(forks["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(forks["sessions"][0]["fork_of"], *path.to_str().unwrap());
}

#[test]
fn fork_to_another_folder_names_it_in_the_command() {
    let world = World::new();
    write_conversation(&world.path("c"));
    let document = world.run(&["fork", &format!("c/{HEX}"), "--json"]).exits(0).line();
    let id = document["session"]["id"].as_str().unwrap();
    let conversations = world.path("c");
    let resume = format!(
        "cd /work/app && env OPENHANDS_CONVERSATIONS_DIR={} openhands --resume {id}",
        conversations.display()
    );
    assert_eq!(document["session"]["resume"], resume);
    assert!(conversations.join(id.replace('-', "")).join("events").is_dir());
    fs::remove_file(world.path(&format!("c/{HEX}/base_state.json"))).unwrap();
    world.run(&["fork", &format!("c/{HEX}")]).exits(4).reports("it has no `base_state.json`");
}

#[test]
fn fork_to_a_named_folder_has_a_note() {
    let world = World::new();
    write_conversation(&world.path("c"));
    let note = "OpenHands finds a conversation only in a folder that has its id as the name";
    world.run(&["fork", &format!("c/{HEX}"), "f"]).exits(0).reports(note);
    let unnamed = world.run(&["fork", &format!("c/{HEX}")]).exits(0);
    assert!(!unnamed.stderr.contains(note), "{}", unnamed.stderr);
}

/// Writes a session in the storage of `OpenCode` 1.1. Returns the path of its file.
fn write_stored_session(storage: &Path) -> PathBuf {
    let message = |id: &str, role: &str, more: Value| {
        let mut info = json!({ "id": id, "sessionID": "ses_1", "role": role, "time": { "created": 1_795_435_748_847_u64 } });
        info.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        (format!("message/ses_1/{id}.json"), info)
    };
    let part = |id: &str, message: &str, more: Value| {
        let mut part = json!({ "id": id, "sessionID": "ses_1", "messageID": message });
        part.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        (format!("part/{message}/{id}.json"), part)
    };
    let state = json!({ "status": "completed", "input": { "command": "cat tap.log" }, "output": "drip\n".repeat(800) });
    let files = [
        (
            "session/global/ses_1.json".to_owned(),
            json!({ "id": "ses_1", "version": "1.1.65", "title": "The tap" }),
        ),
        message(
            "msg_1",
            "user",
            json!({ "agent": "build", "model": { "providerID": "mock", "modelID": "m1" } }),
        ),
        part("prt_1", "msg_1", json!({ "type": "text", "text": "Why does the tap drip?" })),
        message("msg_2", "assistant", json!({ "parentID": "msg_1", "providerID": "mock", "modelID": "m1" })),
        part("prt_2", "msg_2", json!({ "type": "step-start" })),
        part("prt_3", "msg_2", json!({ "type": "tool", "callID": "call_1", "tool": "bash", "state": state })),
        part("prt_4", "msg_2", json!({ "type": "text", "text": "The washer is worn." })),
    ];
    for (name, value) in &files {
        let path = storage.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value:#}")).unwrap();
    }
    storage.join(&files[0].0)
}

#[test]
fn stored_session_of_opencode_is_read_with_its_messages() {
    let world = World::new();
    let path = write_stored_session(&world.path("storage"));
    let name = path.to_str().unwrap();
    let stats = world.run(&["stats", name, "--json"]).exits(0).line();
    assert_eq!((&stats["turns"], &stats["events"]), (&json!(1), &json!(5)), "{stats}");
    world.run(&[name, "--strategy", "strip-tools", "--keep-last", "0"]).exits(0);
    assert!(path.with_file_name(".ses_1.json.jp-compact").is_file());
    let view = world.run(&["print", name, "--compacted", "--as", "source"]).exits(0);
    let view: Value = serde_json::from_slice(&view.stdout).unwrap();
    assert_eq!(view["info"]["title"], "The tap");
    assert_eq!(view["messages"][1]["parts"][1]["state"]["output"], "[compacted] bash: success");
    let output =
        world.run(&["batch", "storage", "--strategy", "strip-tools", "--report", "report", "--dry-run"]);
    output.exits(0);
    let report: Value = serde_json::from_str(&fs::read_to_string(world.path("report")).unwrap()).unwrap();
    assert_eq!(report["total"]["transcripts"], 1, "{report}");
}

#[test]
fn settings_of_a_conversation_in_a_folder_can_be_approved() {
    for child in ["", "/events"] {
        let world = World::new();
        write_conversation(&world.path("sessions"));
        let folder = format!("sessions/{HEX}{child}");
        world.run(&["config", "set", "--conversation", &folder, "llm.model=openai/gpt-x"]).exits(0);
        let approve = || world.run(&["config", "trust", &folder, "--yes"]).exits(0);
        approve().reports(&format!("approved; `jp-compact config untrust /here/sessions/{HEX}` "));
        world.run(&["config", "trust", &folder]).exits(0).reports("already approved");
        for path in [&format!("sessions/{HEX}"), &folder] {
            world.run(&["config", "untrust", path]).exits(0).reports("withdrew the approval of");
            assert_eq!(world.run(&["config", "trust", "--list"]).exits(0).text(), "");
            approve();
        }
    }
}

#[test]
fn configuration_of_a_folder_with_a_conversation_can_be_approved() {
    let world = World::new();
    write_conversation(&world.path("sessions"));
    let folder = format!("sessions/{HEX}");
    world.write_file(&format!("{folder}/.jp-compact.toml"), b"[llm]\nmodel = \"openai/of-folder\"\n");
    world
        .run(&["config", "trust", &folder, "--yes"])
        .exits(0)
        .reports("openai/of-folder")
        .reports("approved; ");
    let mut command = world.command(&["config", "trust"]);
    world.finish(command.current_dir(world.path(&folder))).exits(0).reports("already approved");
    // The settings of the conversation are approved together with those of the folder.
    world.run(&["config", "set", "--conversation", &folder, "llm.model=openai/of-conversation"]).exits(0);
    world.run(&["config", "trust", &folder, "--yes"]).exits(0).reports("openai/of-conversation");
}
