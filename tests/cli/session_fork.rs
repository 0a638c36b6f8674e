//! `fork`, `resume`, and `list` for the sessions of other agents.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};

use crate::agent_formats::sample;
use crate::support::{Transcript, World, file_names};

const CLAUDE: &str = "3dee0fbb-c3af-4b3b-a570-dde5a25a4336";
const CODEX: &str = "01a206c7-5456-7963-9d02-3eda7702011e";
const PI: &str = "01a206c7-8054-76ac-8be4-909bf4178ba7";

/// Writes a file in the home folder, and captures its state.
fn write_home(world: &World, name: &str, bytes: &[u8]) -> Transcript {
    let path = world.home(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    Transcript::capture(path)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns a session of Claude Code with two turns. The first one has a result of 4,000 bytes.
fn claude_session() -> Vec<u8> {
    let line = |uuid: &str, parent: Value, kind: &str, message: Value| {
        json!({
            "parentUuid": parent, "isSidechain": false, "sessionId": CLAUDE, "cwd": "/work/app", "version": "2.1.330",
            "type": kind, "message": message, "uuid": uuid, "timestamp": "2026-11-23T05:00:00.000Z",
        })
    };
    let call = json!([{ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": { "command": "u1" } }]);
    let result =
        json!([{ "type": "tool_result", "tool_use_id": "toolu_1", "content": "line\n".repeat(800) }]);
    let said = |id: &str, content: Value| json!({ "id": id, "role": "assistant", "content": content });
    let text = |text: &str| json!([{ "type": "text", "text": text }]);
    let lines = [
        json!({ "type": "file-history-snapshot", "messageId": "u1", "snapshot": { "messageId": "u1" } }),
        line("u1", Value::Null, "user", json!({ "role": "user", "content": "Read the file" })),
        line("u2", json!("u1"), "assistant", said("msg_1", call)),
        line("u3", json!("u2"), "user", json!({ "role": "user", "content": result })),
        line("u4", json!("u3"), "assistant", said("msg_2", text("It has 800 lines."))),
        line("u5", json!("u4"), "user", json!({ "role": "user", "content": "Thanks" })),
        line("u6", json!("u5"), "assistant", said("msg_3", text("Bye."))),
        json!({ "type": "api-request-blob", "sessionId": CLAUDE, "hash": "h", "message": { "content": "line\n".repeat(800) } }),
        json!({ "type": "last-prompt", "leafUuid": "u6", "sessionId": CLAUDE }),
    ];
    lines.map(|line| format!("{line}\n")).concat().into_bytes()
}

fn write_claude(world: &World) -> Transcript {
    write_home(world, &format!(".claude/projects/-work-app/{CLAUDE}.jsonl"), &claude_session())
}

#[test]
fn fork_of_claude_code_has_new_ids_in_the_same_folder() {
    let world = World::new();
    let source = write_claude(&world);
    let belonging = format!(".claude/projects/-work-app/{CLAUDE}/subagents/agent-a1.jsonl");
    write_home(&world, &belonging, format!("{{\"sessionId\":\"{CLAUDE}\",\"uuid\":\"s1\"}}\n").as_bytes());
    let output =
        world.run(&["fork", &CLAUDE[..8], "--compact=default", "--keep-last", "1", "--json"]).exits(0);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let session = &document["session"];
    let id = session["id"].as_str().unwrap();
    let path = PathBuf::from(document["path"].as_str().unwrap());
    assert_eq!(path, world.home(&format!(".claude/projects/-work-app/{id}.jsonl")));
    assert_eq!(session["resume"], format!("cd /work/app && claude --resume {id}"));
    assert_eq!(
        (&session["agent"], &session["title"]),
        (&json!("claude-code"), &json!("Read the file (compacted)"))
    );
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(source.current_bytes(), source.original_bytes());
    let copy = lines(&path);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("\"u2\"") && !text.contains("line\\nline"), "{text}");
    assert!(copy.iter().all(|line| line.get("sessionId").is_none_or(|session| session == id)));
    // The links lead to the same lines as before, and the ids of the provider stay.
    let uuids: Vec<&Value> = copy.iter().filter_map(|line| line.get("uuid")).collect();
    let parents: Vec<&Value> = copy.iter().filter_map(|line| line.get("parentUuid")).collect();
    assert_eq!(uuids[..uuids.len() - 1], parents[1..]);
    assert_eq!((&copy[1]["messageId"], &copy[1]["snapshot"]["messageId"]), (uuids[0], uuids[0]));
    assert_eq!(copy[3]["message"]["id"], "msg_1");
    assert_eq!(copy[3]["message"]["content"][0]["id"], "toolu_1");
    assert_eq!(copy[8]["leafUuid"], **uuids.last().unwrap());
    assert_eq!(copy[9]["customTitle"], copy[0]["customTitle"]);
    let origin = &copy[0]["jp_compact_origin"];
    assert_eq!(origin["source"], *source.path.to_str().unwrap());
    assert_eq!(lines(&path.with_file_name(format!("{id}/subagents/agent-a1.jsonl")))[0]["sessionId"], id);
    // The smaller session is a transcript without overlays, and has the reported size.
    let stats = world.run(&["stats", path.to_str().unwrap(), "--json"]).exits(0).line();
    let view = document["report"]["tokens"]["view_after"].as_u64().unwrap();
    assert_eq!(stats["tokens"]["raw"], view);
    let listed = world.run(&["list", "--forks", "--json"]).exits(0).line();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(listed["sessions"][0]["fork_of"], *source.path.to_str().unwrap());
    assert_eq!(
        listed["sessions"][0]["counts"],
        json!({ "turns": 2, "steps": 3, "tokens": view, "overlays": 0 })
    );
    let shown = world.run(&["show", path.to_str().unwrap(), "--json"]).exits(0).line();
    let origin = &shown["origin"];
    assert_eq!((&origin["command"], &origin["overlays"]), (&json!("fork"), &json!(1)));
    assert_eq!(origin["source"], *source.path.to_str().unwrap());
    assert_eq!(
        (&origin["applied"][0]["from_turn"], &origin["applied"][0]["to_turn"]),
        (&json!(0), &json!(0))
    );
    assert!(origin["applied"][0]["strategies"].as_array().is_some_and(|names| !names.is_empty()), "{origin}");
    let shown = world.run(&["show", source.path.to_str().unwrap(), "--json"]).exits(0).line();
    assert_eq!(shown["origin"], Value::Null);
}

#[test]
fn fork_of_claude_code_copies_nothing_through_a_link() {
    let world = World::new();
    write_home(&world, ".ssh/id_rsa", b"secret");
    world.write_file("x.jsonl", &claude_session());
    std::os::unix::fs::symlink(world.home(".ssh"), world.path("x")).unwrap();
    let output = world.run(&["fork", "x.jsonl", "copy.jsonl"]).exits(0);
    output.reports("x are not copied, because it is a symbolic link");
    assert_eq!(file_names(&world.path("")), ["copy.jsonl", "x", "x.jsonl"]);
}

#[test]
fn replaced_fork_is_hidden_and_its_bytes_stay() {
    let world = World::new();
    let source = write_claude(&world);
    let fork = |options: &[&str]| world.run(&[&["fork", CLAUDE, "--json"], options].concat());
    let path_of = |document: &Value| PathBuf::from(document["path"].as_str().unwrap());
    let first = path_of(&fork(&[]).exits(0).line());
    let id = first.file_stem().unwrap().to_str().unwrap().to_owned();
    let bytes = fs::read(&first).unwrap();
    let shown = world.run(&["show", first.to_str().unwrap()]).exits(0).text().to_owned();
    assert!(shown.contains(&format!("a fork of {}, made at ", source.path.display())), "{shown}");
    assert!(shown.contains(" by `fork`, 0 applied overlays"), "{shown}");
    let later = ["--now", "2100-01-01T00:00:00Z"];
    let sessions =
        || world.run(&["list", "--agent", "claude-code", "--json"]).exits(0).line()["sessions"].clone();
    fork(&["--replace", &id]).exits(4).reports("its agent may still run");
    fork(&[&["--replace", CLAUDE], &later[..]].concat()).exits(4).reports("it is not a fork by jp-compact");
    fork(&[&["--replace", &id, "--dry-run"], &later[..]].concat()).exits(0);
    world
        .run(&[&["fork", &id, "--replace", &id], &later[..]].concat())
        .exits(4)
        .reports("it is the session to copy");
    assert_eq!(sessions().as_array().unwrap().len(), 2, "no refused call wrote or removed anything");
    let document = fork(&[&["--replace", &id], &later[..]].concat()).exits(0).line();
    let hidden = first.with_file_name(format!(".{id}.jsonl.replaced"));
    assert!(!first.exists() && path_of(&document).exists());
    assert_eq!(fs::read(&hidden).unwrap(), bytes);
    let note = format!("to restore it: mv {} {}", hidden.display(), first.display());
    assert!(document["session"]["notes"][0].as_str().unwrap().ends_with(&note), "{document}");
    assert_eq!(sessions().as_array().unwrap().len(), 2, "the agent does not find the hidden file");
    assert_eq!(source.current_bytes(), source.original_bytes());
}

#[test]
fn fork_that_cannot_be_printed_has_a_hint() {
    let world = World::new();
    write_claude(&world);
    let mut command = world.command(&["fork", CLAUDE, "--json"]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    world.finish(command.stdout(full)).exits(4).reports("hint: `jp-compact list --forks` lists the forks");
}

#[test]
fn fork_prints_only_the_command_on_stdout() {
    let world = World::new();
    let source = write_claude(&world);
    let output = world.run(&["fork", CLAUDE]).exits(0);
    let text = output.text();
    assert!(text.starts_with("cd /work/app && claude --resume ") && text.lines().count() == 1, "{text}");
    assert!(output.stderr.contains("2 turns copied"), "{}", output.stderr);
    assert_eq!(source.current_bytes(), source.original_bytes());
    let dry = world.run(&["fork", CLAUDE, "--dry-run"]).exits(0);
    assert_eq!(dry.text(), "", "there is no session to resume");
    let before = world.run(&["fork", CLAUDE, "--dry-run", "--json"]).exits(0).line();
    assert!(!Path::new(before["path"].as_str().unwrap()).exists());
}

#[test]
fn fork_to_a_file_is_resumed_by_its_path() {
    let world = World::new();
    write_claude(&world);
    let output = world.run(&["fork", CLAUDE, "copy.jsonl"]).exits(0);
    let resume = format!("cd /work/app && claude --resume {}\n", world.path("copy.jsonl").display());
    assert_eq!(output.text(), resume);
    world.run(&["fork", CLAUDE, "copy.jsonl"]).exits(4).reports("/here/copy.jsonl already exists");
    world.run(&["fork", CLAUDE, "--last", "1"]).exits(2).reports("--last is only for JP's conversations");
}

#[test]
fn fork_of_codex_changes_id_in_name_and_records() {
    let world = World::new();
    let meta = json!({ "type": "session_meta", "payload": { "id": CODEX, "session_id": CODEX, "cwd": "/work/app" } });
    let item = |role: &str, kind: &str, text: &str| {
        let content = json!([{ "type": kind, "text": text }]);
        json!({ "type": "response_item", "payload": { "type": "message", "id": "msg_1", "role": role, "content": content } })
    };
    let records = [
        meta,
        json!({ "type": "event_msg", "payload": { "type": "task_started", "thread_id": CODEX, "turn_id": "t1" } }),
        item("user", "input_text", CODEX),
        item("assistant", "output_text", "Hi."),
    ];
    let bytes = records.map(|line| format!("{line}\n")).concat();
    let name = format!(".codex/sessions/2026/11/23/rollout-2026-11-23T05-00-00-{CODEX}.jsonl");
    let source = write_home(&world, &name, bytes.as_bytes());
    let now = "2026-12-24T18:00:00Z";
    let document = world.run(&["fork", CODEX, "--now", now, "--json"]).exits(0).line();
    let id = document["session"]["id"].as_str().unwrap();
    let name = format!(".codex/sessions/2026/12/24/rollout-2026-12-24T18-00-00-{id}.jsonl");
    assert_eq!(document["path"], *world.home(&name).to_str().unwrap());
    assert_eq!(document["session"]["resume"], format!("cd /work/app && codex resume {id}"));
    let copy = lines(&world.home(&name));
    assert_eq!((&copy[0]["payload"]["id"], &copy[0]["payload"]["session_id"]), (&json!(id), &json!(id)));
    assert_eq!(copy[1]["payload"]["thread_id"], id);
    // The user's own text is content.
    assert_eq!(copy[2]["payload"]["content"][0]["text"], CODEX);
    assert_eq!(source.current_bytes(), source.original_bytes());
}

#[test]
fn fork_of_kimi_cli_is_a_folder_with_a_state() {
    const ID: &str = "cf53a400-f17d-4d14-99ce-d08ea508015c";
    let world = World::new();
    let folder = format!(".kimi/sessions/17920fd594ae0b9840682310132eae66/{ID}");
    let source = write_home(&world, &format!("{folder}/context.jsonl"), &sample("kimi-cli.jsonl"));
    write_home(&world, &format!("{folder}/state.json"), br#"{"version":1,"custom_title":"The tap"}"#);
    let folders = json!({ "work_dirs": [{ "path": "/work/app", "kaos": "local", "last_session_id": ID }] });
    write_home(&world, ".kimi/kimi.json", folders.to_string().as_bytes());
    let document = world.run(&["fork", &ID[..8], "--json"]).exits(0).line();
    let id = document["session"]["id"].as_str().unwrap();
    let path = world.home(&folder.replace(ID, id)).join("context.jsonl");
    assert_eq!(document["path"], *path.to_str().unwrap());
    assert_eq!(document["session"]["resume"], format!("cd /work/app && kimi --resume {id}"));
    let state = &lines(&path.with_file_name("state.json"))[0];
    assert_eq!(*state, json!({ "version": 1, "custom_title": "The tap (compacted)" }));
    let copy = lines(&path);
    assert_eq!(copy[0]["jp_compact_origin"]["source"], *source.path.to_str().unwrap());
    assert_eq!(copy.len(), 16);
    assert_eq!(source.current_bytes(), source.original_bytes());
    let listed = world.run(&["list", "--agent", "kimi-cli", "--json"]).exits(0).line();
    let titles: Vec<&Value> =
        listed["sessions"].as_array().unwrap().iter().map(|row| &row["title"]).collect();
    assert!(
        titles.contains(&&json!("The tap")) && titles.contains(&&json!("The tap (compacted)")),
        "{titles:?}"
    );
}

#[test]
fn fork_of_qwen_code_has_new_ids_in_each_line() {
    const ID: &str = "70aa2fb9-5d46-4ff3-83e0-64469a2e46f7";
    let world = World::new();
    let bytes = String::from_utf8(sample("qwen-code.jsonl")).unwrap();
    let bytes = bytes.replace("5d1e7c52-0000-4000-8000-000000000001", ID);
    let name = format!(".qwen/projects/-home-ada-garden/chats/{ID}.jsonl");
    let source = write_home(&world, &name, bytes.as_bytes());
    let document = world.run(&["fork", ID, "--json"]).exits(0).line();
    let id = document["session"]["id"].as_str().unwrap();
    let path = world.home(&format!(".qwen/projects/-home-ada-garden/chats/{id}.jsonl"));
    assert_eq!(document["path"], *path.to_str().unwrap());
    assert_eq!(document["session"]["resume"], format!("cd /home/ada/garden && qwen --resume {id}"));
    let copy = lines(&path);
    assert!(
        copy.iter()
            .all(|line| line["sessionId"] == id && !line["uuid"].as_str().unwrap().starts_with("00000000-"))
    );
    let [title, last] = [copy.len() - 1, copy.len() - 2].map(|index| &copy[index]);
    assert_eq!((&title["parentUuid"], &title["subtype"]), (&last["uuid"], &json!("custom_title")));
    assert_eq!(title["systemPayload"]["customTitle"], "The tap (compacted)");
    assert_eq!(copy[0]["jp_compact_origin"]["source"], *source.path.to_str().unwrap());
    assert_eq!(source.current_bytes(), source.original_bytes());
    let listed = world.run(&["list", "--agent", "qwen-code", "--forks", "--json"]).exits(0).line();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn fork_of_pi_names_the_original_and_links_its_entries() {
    let world = World::new();
    let entry = |id: &str, parent: Value, role: &str| {
        let message = json!({ "role": role, "content": [{ "type": "text", "text": "aaaaaaaa" }] });
        json!({ "type": "message", "id": id, "parentId": parent, "timestamp": "2026-11-23T05:00:00.000Z", "message": message })
    };
    let records = [
        json!({ "type": "session", "version": 3, "id": PI, "timestamp": "2026-11-23T05:00:00.000Z", "cwd": "/work/app" }),
        entry("aaaaaaaa", Value::Null, "user"),
        entry("bbbbbbbb", json!("aaaaaaaa"), "assistant"),
    ];
    let bytes = records.map(|line| format!("{line}\n")).concat();
    let folder = ".pi/agent/sessions/--work-app--";
    let source =
        write_home(&world, &format!("{folder}/2026-11-23T05-00-00-000Z_{PI}.jsonl"), bytes.as_bytes());
    let document = world.run(&["fork", PI, "--json"]).exits(0).line();
    let path = PathBuf::from(document["path"].as_str().unwrap());
    assert_eq!(path.parent(), Some(&*world.home(folder)));
    let copy = lines(&path);
    assert_eq!(copy[0]["id"], document["session"]["id"]);
    assert_eq!(copy[0]["parentSession"], *source.path.to_str().unwrap());
    assert_eq!(copy[1]["message"]["content"][0]["text"], "aaaaaaaa");
    assert_eq!((&copy[2]["parentId"], &copy[3]["parentId"]), (&copy[1]["id"], &copy[2]["id"]));
    assert_ne!(copy[1]["id"], "aaaaaaaa");
    assert_eq!(copy[3]["name"], "aaaaaaaa (compacted)");
    assert_eq!(source.current_bytes(), source.original_bytes());
}

#[test]
fn fork_of_gemini_cli_stays_in_its_chats() {
    let world = World::new();
    let name = ".gemini/tmp/0abc/chats/session-2026-11-21T07-57-d8f03c33.jsonl";
    let source = write_home(&world, name, &sample("gemini-cli.jsonl"));
    let now = "2026-12-24T18:00:00Z";
    let document = world.run(&["fork", "d8f03c33", "--now", now, "--json"]).exits(0).line();
    let id = document["session"]["id"].as_str().unwrap();
    let name = format!("session-2026-12-24T18-00-{}.jsonl", &id[..8]);
    assert_eq!(document["path"], *source.path.with_file_name(name).to_str().unwrap());
    assert_eq!(source.current_bytes(), source.original_bytes());
}

#[test]
fn fork_of_an_opencode_export_has_ids_in_the_same_order() {
    let world = World::new();
    let source = Transcript::capture(world.write_file("export.json", &sample("opencode.json")));
    let output = world.run(&["fork", "export.json", "copy.json", "--json"]).exits(0);
    let document = output.line();
    let notes = document["session"]["notes"].as_array().unwrap();
    assert_eq!(notes[0], *format!("import it first: opencode import {}", world.path("copy.json").display()));
    let [old, new]: [Value; 2] = [&source.path, &world.path("copy.json")]
        .map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap());
    let ids = |session: &Value| -> Vec<String> {
        let messages = session["messages"].as_array().unwrap().iter();
        messages.map(|message| message["info"]["id"].as_str().unwrap().to_owned()).collect()
    };
    let (old_ids, new_ids) = (ids(&old), ids(&new));
    assert!(new_ids.is_sorted() && old_ids.iter().all(|id| !new_ids.contains(id)), "{new_ids:?}");
    for message in new["messages"].as_array().unwrap() {
        assert_eq!(message["info"]["sessionID"], new["info"]["id"]);
        assert!(
            message["parts"]
                .as_array()
                .unwrap()
                .iter()
                .all(|part| part["messageID"] == message["info"]["id"])
        );
    }
    assert_eq!(source.current_bytes(), source.original_bytes());
}

#[test]
fn exported_session_is_not_imported_into_the_folder_that_it_names() {
    let world = World::new();
    let mut export: Value = serde_json::from_slice(&sample("opencode.json")).unwrap();
    export["info"]["directory"] = "evil".into();
    world.write_file("export.json", export.to_string().as_bytes());
    fs::create_dir(world.path("evil")).unwrap();
    world.write_script("bin/opencode", &format!("#!/bin/sh\ntouch {}\n", world.path("STARTED").display()));
    fs::create_dir(world.path("tmp")).unwrap();
    for (arguments, code) in [
        (&["fork", "export.json", "copy.json", "--json"][..], 0),
        (&["fork", "export.json", "--json"], 0),
        (&["resume", "export.json", "--json"], 4),
    ] {
        let mut command = world.command(arguments);
        command.env("PATH", format!("{}:/usr/bin:/bin", world.path("bin").display()));
        let output = world.finish(command.env("TMPDIR", world.path("tmp"))).exits(code);
        assert!(!world.path("STARTED").exists(), "{arguments:?}");
        if code != 0 {
            output.reports("OpenCode has not imported it");
            continue;
        }
        let document = output.line();
        let path = document["path"].as_str().unwrap();
        let note = format!("import it first: cd evil && opencode import {path}");
        assert_eq!(document["session"]["notes"], json!([note]));
        assert!(Path::new(path).exists());
    }
}

#[test]
fn failed_import_into_opencode_keeps_the_session() {
    let world = World::new();
    let export = world.write_file("export.json", &sample("opencode.json"));
    for folder in ["bin", "tmp"] {
        fs::create_dir(world.path(folder)).unwrap();
    }
    let no_plugins = "test \"$OPENCODE_DISABLE_PROJECT_CONFIG$OPENCODE_PURE\" = 11 || exit 2";
    let script = format!("#!/bin/sh\n{no_plugins}\ntest $1 = export || exit 1\ncat {}\n", export.display());
    world.write_script("bin/opencode", &script);
    let mut command = world.command(&["fork", "ses_ddd299785fffTxE7Hn9g7lMzhT"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", world.path("bin").display()));
    command.env("TMPDIR", world.path("tmp"));
    let output = world.finish(&mut command).exits(4).reports("`opencode import` ended with exit status: 1");
    let [file] = <[_; 1]>::try_from(fs::read_dir(world.path("tmp")).unwrap().collect::<Vec<_>>()).unwrap();
    let path = file.unwrap().path();
    assert!(fs::read_to_string(&path).unwrap().contains("(compacted)"));
    output.reports(&world.normalize(&format!("`opencode import {}`", path.display())));
}

#[test]
fn destination_is_checked_before_the_compaction() {
    let world = World::new();
    write_claude(&world);
    world.write_file("taken.jsonl", b"");
    world
        .run(&["fork", CLAUDE, "taken.jsonl", "--compact=no-such-profile"])
        .exits(4)
        .reports("taken.jsonl already exists");
}

#[test]
fn failing_compaction_leaves_no_fork() {
    let world = World::new();
    write_claude(&world);
    world.run(&["fork", CLAUDE, "--compact=no-such-profile"]).exits(2);
    let folder = world.home(".claude/projects/-work-app");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
}

#[test]
fn unknown_and_ambiguous_ids_are_refused() {
    let world = World::new();
    world
        .run(&["fork", "3dee0fbb"])
        .exits(4)
        .reports("no session has the id `3dee0fbb`")
        .reports("jp-compact list");
    for id in ["aaaaaaaa-c3af-4b3b-a570-dde5a25a4336", "aaaaaaaa-c3af-4b3b-a570-dde5a25a4337"] {
        write_home(&world, &format!(".claude/projects/p/{id}.jsonl"), &claude_session());
    }
    world.run(&["fork", "aaaaaaaa"]).exits(4).reports("is the beginning of several ids");
}

#[test]
fn list_has_sessions_of_agents_and_of_jp() {
    let world = World::new();
    write_claude(&world);
    let folder = ".jp/conversations/17738399468-review";
    world.write_file(&format!("{folder}/events.json"), b"[]");
    world.write_file(&format!("{folder}/metadata.json"), b"{\"title\": \"Review\"}");
    let listed = world.run(&["list", "--json"]).exits(0).line();
    let row = |agent: &str| {
        listed["sessions"].as_array().unwrap().iter().find(|row| row["agent"] == agent).unwrap()
    };
    let claude = row("claude-code");
    assert_eq!((&claude["id"], &claude["title"]), (&json!(CLAUDE), &json!("Read the file")));
    assert_eq!((&claude["folder"], &claude["bytes"]), (&json!("/work/app"), &json!(claude_session().len())));
    assert_eq!((&row("jp")["id"], &row("jp")["title"]), (&json!("17738399468"), &json!("Review")));
    let text = world.run(&["list", "--agent", "claude-code"]).exits(0).text().to_owned();
    assert!(text.contains("3dee0fbb  ") && !text.contains("Review"), "{text}");
}

#[test]
fn resume_becomes_the_agent_with_a_fork() {
    let world = World::new();
    let source = write_claude(&world);
    fs::create_dir_all(world.path("bin")).unwrap();
    world.write_script("bin/claude", "#!/bin/sh\necho \"$PWD $*\"\n");
    let session =
        fs::read_to_string(&source.path).unwrap().replace("/work/app", world.path("").to_str().unwrap());
    fs::write(&source.path, session).unwrap();
    let mut command = world.command(&["resume", CLAUDE, "--keep-last", "1"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", world.path("bin").display()));
    let output = world.finish(&mut command).exits(0);
    let start = format!("{} --resume ", world.path("").display().to_string().trim_end_matches('/'));
    assert!(output.text().starts_with(&start), "{}", output.text());
    assert!(output.stderr.contains("  resumed by: claude --resume "), "{}", output.stderr);
    let id = output.text().trim().rsplit(' ').next().unwrap().to_owned();
    assert!(source.path.with_file_name(format!("{id}.jsonl")).exists());
    // Without the agent or its folder, no fork is made.
    let forks = || fs::read_dir(source.path.parent().unwrap()).unwrap().count();
    let before = forks();
    let mut command = world.command(&["resume", CLAUDE]);
    let output = world.finish(command.env("PATH", "/nowhere")).exits(4);
    output.reports("failed to resume a session: `claude` is not in PATH").reports("jp-compact fork SESSION");
    write_claude(&world);
    let output = world.run(&["resume", CLAUDE]).exits(4);
    output.reports("its agent worked in /work/app, which does not exist");
    assert_eq!(forks(), before);
    world.run(&["fork", "no.jsonl"]).exits(4).reports("no.jsonl");
}

#[test]
fn other_commands_name_the_file_of_a_session() {
    let world = World::new();
    write_claude(&world);
    let path = format!("/home/.claude/projects/-work-app/{CLAUDE}.jsonl");
    let hint = format!("hint: this is the id of a session of claude-code; give its file: {path}");
    for (arguments, code) in [
        (&["show", &CLAUDE[..8]][..], 4),
        (&["print", CLAUDE], 4),
        (&["stats", CLAUDE], 4),
        (&[&CLAUDE[..8]], 2),
    ] {
        world.run(arguments).exits(code).reports(&hint);
    }
}

#[test]
fn listed_ids_are_accepted_if_others_are_not_listed() {
    let world = World::new();
    for end in ["25ed-4671-90cc-5ecb92e14c45", "eacc-4671-90cc-5ecb92e14c45"] {
        let id = format!("01a1fd18-{end}");
        let session = String::from_utf8(claude_session()).unwrap().replace(CLAUDE, &id);
        write_home(&world, &format!(".claude/projects/-work-app/{id}.jsonl"), session.as_bytes());
    }
    let table = world.run(&["list", "-n", "1"]).exits(0).text().to_owned();
    let id = table.lines().nth(1).unwrap().split("  ").find(|cell| cell.starts_with("01a1fd18")).unwrap();
    world.run(&["fork", id, "-n"]).exits(0);
}

#[test]
fn source_path_of_a_fork_may_be_non_utf8() {
    let world = World::new();
    let path = world.path("").join(OsStr::from_bytes(b"a\xff.jsonl"));
    fs::write(&path, claude_session()).unwrap();
    let mut command = world.command(&["fork"]);
    world.finish(command.arg(&path).arg("copy.jsonl")).exits(0);
    assert!(world.path("copy.jsonl").exists());
}

#[test]
fn fork_of_claude_code_is_listed_as_a_fork_after_it_has_grown() {
    let world = World::new();
    let lines = |name: &str| {
        let line = |number: usize| {
            let message = json!({"role": "user", "content": "x".repeat(1000)});
            let id = format!("{name}{number}");
            json!({"type": "user", "sessionId": CLAUDE, "uuid": id, "message": message}).to_string() + "\n"
        };
        (0..150).map(line).collect::<String>().into_bytes()
    };
    let session = [claude_session(), lines("a")].concat();
    let source = write_home(&world, &format!(".claude/projects/-work-app/{CLAUDE}.jsonl"), &session);
    let document = world.run(&["fork", source.path.to_str().unwrap(), "--json"]).exits(0).line();
    let path = document["path"].as_str().unwrap();
    fs::write(path, [fs::read(path).unwrap(), lines("b")].concat()).unwrap();
    let listed = world.run(&["list", "--forks", "--json"]).exits(0).line();
    assert_eq!(listed["sessions"][0]["fork_of"], *source.path.to_str().unwrap());
    assert_eq!(listed["sessions"][0]["title"], "Read the file (compacted)");
}

#[test]
fn broken_list_of_opencode_is_a_note() {
    let world = World::new();
    let list = |output: &str| {
        world.write_script("bin/opencode", &format!("#!/bin/sh\nprintf '%s' '{output}'\n"));
        let mut command = world.command(&["list", "--json"]);
        let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
        world.finish(command.env("PATH", path)).exits(0).line()["notes"].clone()
    };
    let notes = list("[{\"id\": \"ses_1\", \"ti");
    assert!(
        notes[0].as_str().unwrap().contains("`opencode session list` printed an invalid list"),
        "{notes}"
    );
    assert_eq!((list(""), list("[]")), (json!([]), json!([])));
}

#[test]
fn fork_of_a_fork_has_its_own_origin_and_the_title_of_the_original() {
    let world = World::new();
    let source = write_claude(&world);
    let mut path = source.path;
    for _ in 0..3 {
        let file = path.to_str().unwrap().to_owned();
        let document =
            world.run(&["fork", &file, "--compact=offline", "--keep-last", "1", "--json"]).exits(0);
        let document = document.line();
        assert_eq!(document["session"]["title"], "Read the file (compacted)");
        path = PathBuf::from(document["path"].as_str().unwrap());
        let origins = lines(&path).iter().filter(|line| line.get("jp_compact_origin").is_some()).count();
        let shown = world.run(&["show", path.to_str().unwrap(), "--json"]).exits(0).line();
        assert_eq!((&shown["origin"]["source"], origins), (&json!(file), 1));
        assert!(fs::read_to_string(&path).unwrap().contains("## Commands"));
    }
}

/// Checks a command of the plugin for Claude Code with the id of a session, as without function hooks.
#[track_caller]
fn check_plugin_command(command: &str, session: &str, expected: &str) {
    let world = World::new();
    write_claude(&world);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins/claude-code/hooks/command.sh");
    let mut shell = Command::new("sh");
    let words = [script.as_os_str(), OsStr::new(command), OsStr::new(session)];
    let words = words.into_iter().chain([cargo_bin!("jp-compact").as_os_str(), OsStr::new("agent")]);
    let output = world.finish(world.isolate(&mut shell).args(words)).exits(0);
    assert!(output.text().contains(expected), "{}", output.text());
}

#[test]
fn commands_of_the_claude_code_plugin_accept_an_id() {
    check_plugin_command("stats", CLAUDE, "CLAUDE_CODE_ENABLE_FUNCTION_HOOKS=1");
    check_plugin_command("stats", CLAUDE, "Bash");
    check_plugin_command("diff", CLAUDE, "turn");
    check_plugin_command("fork", CLAUDE, "claude --resume");
    for command in ["stats", "diff", "fork", "undo"] {
        check_plugin_command(command, "no-such-id", "The transcript of session no-such-id was not found.");
    }
}
