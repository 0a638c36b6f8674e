//! Sidecars: the overlays of another agent's transcript are in a file next to it. The transcript itself is never
//! written to.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::agent_formats::{sample, session, strip_tools};
use crate::support::{CommandOutput, World, plugin_script};

/// The sidecar of the transcript, and its name in version 0.1.0.
const SIDECAR: &str = ".s.jsonl.jp-compact";
const OLD_SIDECAR: &str = "s.jsonl.jp-compact.json";

fn read_sidecar(world: &World) -> Value {
    serde_json::from_slice(&fs::read(world.path(SIDECAR)).unwrap()).unwrap()
}

fn show_json(world: &World) -> Value {
    world.run(&["show", "s.jsonl", "--json"]).exits(0).line()
}

#[test]
fn writes_overlays_to_sidecar_and_leaves_transcript_untouched() {
    let (world, transcript) = session();
    let modified = fs::metadata(&transcript.path).unwrap().modified().unwrap();
    let output =
        world.run(&["s.jsonl", "--strategy", "strip-tools", "--keep-last", "1", "--json"]).exits(0).line();
    assert_eq!(output["format"], "claude-code");
    assert!(output["written_to"].as_str().unwrap().ends_with(SIDECAR), "{output}");
    assert_eq!(transcript.current_bytes(), transcript.original_bytes());
    assert_eq!(
        fs::metadata(&transcript.path).unwrap().modified().unwrap(),
        modified,
        "the transcript was written to"
    );
    assert_eq!(fs::metadata(world.path(SIDECAR)).unwrap().permissions().mode() & 0o777, 0o640);
    let sidecar = read_sidecar(&world);
    assert_eq!(sidecar["format"], "claude-code");
    assert_eq!(sidecar["source"]["bytes"], transcript.original_bytes().len());
    assert_eq!(sidecar["overlays"][0]["type"], "compaction");
    assert_eq!(sidecar["overlays"][1]["strategy"], "strip-tools");
    assert_eq!(sidecar["overlays"][1]["range_xxh3"].as_str().unwrap().len(), 32);
}

#[test]
fn second_run_appends_to_sidecar() {
    let (world, _) = session();
    strip_tools(&world);
    let first = fs::read(world.path(SIDECAR)).unwrap();
    world
        .run(&["s.jsonl", "--strategy", "strip-reasoning", "--keep-last", "1"])
        .exits(0)
        .reports("  2  strip-reasoning");
    let second = fs::read(world.path(SIDECAR)).unwrap();
    let prefix = first.strip_suffix(b"\n]\n}\n").unwrap();
    assert!(second.starts_with(prefix), "the bytes of the first overlay must be kept");
    let output = show_json(&world);
    assert_eq!(output["overlays"].as_array().unwrap().len(), 2);
    assert_eq!(output["format"], "claude-code");
    assert!(output["tokens"]["view_after"].as_u64() < output["tokens"]["raw"].as_u64());
}

#[test]
fn reset_of_last_overlay_removes_sidecar() {
    let (world, transcript) = session();
    strip_tools(&world);
    world.run(&["s.jsonl", "--strategy", "strip-reasoning", "--keep-last", "1"]).exits(0);
    world.run(&["s.jsonl", "--reset=3"]).exits(2).reports("has no overlay 3; it has 2 overlays");
    world.run(&["s.jsonl", "--reset=1", "--dry-run"]).exits(0).reports("1 overlay would be removed");
    world.run(&["s.jsonl", "--reset=1"]).exits(0).reports("1 overlay removed");
    assert_eq!(read_sidecar(&world)["overlays"][0]["reasoning"], "strip");
    world.run(&["s.jsonl", "--reset"]).exits(0).reports("1 overlay removed");
    transcript.assert_untouched();
    world.run(&["s.jsonl", "--reset"]).exits(0).reports("no overlay to remove");
}

#[test]
fn overlays_apply_after_transcript_grows() {
    let (world, _) = session();
    strip_tools(&world);
    let before = show_json(&world);
    let text = String::from_utf8(sample("claude-code.jsonl")).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let mut next = last.clone();
    next["parentUuid"] = last["uuid"].clone();
    next["uuid"] = json!("00000000-0000-4000-8000-999999999999");
    world.write_file("s.jsonl", format!("{text}{next}\n").as_bytes());
    let output = world.run(&["show", "s.jsonl", "--json"]).exits(0);
    assert_eq!(output.stderr, "");
    assert_eq!(output.line()["overlays"][0]["remarks"], before["overlays"][0]["remarks"]);
    assert!(output.line()["tokens"]["view_after"].as_u64() < output.line()["tokens"]["raw"].as_u64());
}

#[test]
fn reports_unapplied_overlay_of_edited_events() {
    let (world, transcript) = session();
    strip_tools(&world);
    let edited = String::from_utf8(transcript.original_bytes().to_vec())
        .unwrap()
        .replace("ls: no such file", "ls: nothing");
    world.write_file("s.jsonl", edited.as_bytes());
    let output = world.run(&["print", "s.jsonl", "--compacted", "--as", "source"]).exits(0);
    assert_eq!(output.text(), edited);
    assert_eq!(
        output.stderr,
        "warning: s.jsonl: 1 overlay is not applied, because events in its range have changed; `jp-compact show` \
         lists the overlays\n"
    );
    let overlay = &show_json(&world)["overlays"][0];
    assert_eq!(overlay["remarks"], json!(["not applied, because the events in its range have changed"]));
    assert_eq!(overlay["tokens"]["view_before"], overlay["tokens"]["view_after"]);
    // The overlay is kept. It applies again after the original events were restored.
    world.write_file("s.jsonl", transcript.original_bytes());
    assert_ne!(
        show_json(&world)["overlays"][0]["tokens"]["view_before"],
        show_json(&world)["overlays"][0]["tokens"]["view_after"]
    );
}

#[test]
fn auto_warns_once_about_an_unapplied_overlay() {
    let (world, transcript) = session();
    strip_tools(&world);
    let edited = String::from_utf8(transcript.original_bytes().to_vec()).unwrap();
    world.write_file("s.jsonl", edited.replace("ls: no such file", "ls: nothing").as_bytes());
    let config = "--set=conversation.compaction.auto";
    let options = ["always=[\"light\"]", "token_threshold=1", "min_turns=0", "profile=default"];
    let options = options.map(|option| format!("{config}.{option}"));
    let [always, threshold, min_turns, profile] = &options;
    let arguments = ["auto", "s.jsonl", always, threshold, min_turns, profile];
    let output = world.run(&arguments).exits(0).reports("1 overlay appended");
    let output = output.reports("with profile `light`");
    assert_eq!(output.stderr.matches("1 overlay is not applied").count(), 1, "{}", output.stderr);
}

#[test]
fn skips_overlay_of_rewound_turns() {
    let (world, transcript) = session();
    strip_tools(&world);
    let lines: Vec<&[u8]> =
        transcript.original_bytes().split_inclusive(|byte| *byte == b'\n').take(11).collect();
    world.write_file("s.jsonl", &lines.concat());
    world.run(&["show", "s.jsonl"]).exits(0).reports("1 overlay is not applied");
    // `--quiet` suppresses the warning.
    assert_eq!(world.run(&["show", "s.jsonl", "--quiet"]).exits(0).stderr, "");
    // A new overlay gets the next number.
    let output =
        world.run(&["s.jsonl", "--strategy", "strip-tools", "--keep-last", "0", "--json"]).exits(0).line();
    assert_eq!(output["overlays"][0]["number"], 2);
}

#[test]
fn reset_removes_unreadable_sidecar() {
    let (world, transcript) = session();
    strip_tools(&world);
    let valid = fs::read(world.path(SIDECAR)).unwrap();
    let newer = String::from_utf8(valid.clone())
        .unwrap()
        .replace("\"jp_compact_sidecar\": 1", "\"jp_compact_sidecar\": 2");
    for invalid in [&valid[..valid.len() / 2], b"", b"[]", b"{}", newer.as_bytes()] {
        world.write_file(SIDECAR, invalid);
        let output = world.run(&["s.jsonl", "--strategy", "strip-tools"]).exits(4);
        let output = output
            .reports("failed to read /here/.s.jsonl.jp-compact")
            .reports("hint: `--reset` removes the sidecar file");
        assert_eq!(fs::read(world.path(SIDECAR)).unwrap(), invalid, "{}", output.stderr);
    }
    world.run(&["s.jsonl", "--reset"]).exits(0);
    transcript.assert_untouched();
}

#[test]
fn rejects_symlinked_sidecar() {
    let (world, _) = session();
    let elsewhere = world.write_file("elsewhere", b"mine");
    std::os::unix::fs::symlink(&elsewhere, world.path(SIDECAR)).unwrap();
    world.run(&["s.jsonl", "--strategy", "strip-tools"]).exits(4).reports("is a symlink");
    assert_eq!(fs::read(&elsewhere).unwrap(), b"mine");
}

#[test]
fn symlink_and_target_share_one_sidecar() {
    let (world, _) = session();
    std::os::unix::fs::symlink(world.path("s.jsonl"), world.path("link.jsonl")).unwrap();
    world.run(&["link.jsonl", "--strategy", "strip-tools", "--keep-last", "1"]).exits(0);
    assert!(!world.path(".link.jsonl.jp-compact").exists());
    assert_eq!(show_json(&world)["overlays"].as_array().unwrap().len(), 1);
}

#[test]
fn locks_folder_of_symlink_target_and_reports_lock_holder() {
    let (world, transcript) = session();
    std::os::unix::fs::symlink(world.path("s.jsonl"), world.home("link.jsonl")).unwrap();
    let lock = fs::File::open(transcript.folder()).unwrap();
    lock.lock().unwrap();
    let arguments =
        ["../home/link.jsonl", "--strategy", "strip-reasoning", "--keep-last", "1", "--lock-timeout", "10ms"];
    let holder = format!("is locked by process {} (", std::process::id());
    world
        .run(&arguments)
        .exits(5)
        .reports(&holder)
        .reports("failed to lock /here within 0.01 s")
        .reports("--lock-timeout");
    transcript.assert_untouched();
    drop(lock);
    world.run(&arguments).exits(0);
    assert!(!world.home(".local/state/jp-compact/locks").exists());
}

/// Each writer has its own state folder. All of them read the transcript before the first one writes.
#[test]
fn concurrent_writers_with_own_state_folders_lose_nothing() {
    const WRITERS: usize = 16;
    let (world, transcript) = session();
    let create_pipe = |name: &str| {
        let path = world.path(name);
        assert!(Command::new("/bin/mkfifo").arg(&path).status().unwrap().success());
        fs::File::options().read(true).write(true).open(path).unwrap()
    };
    let (mut arrivals, mut gate) = (create_pipe("here"), create_pipe("gate"));
    let (arrivals_path, gate_path) = (world.path("here"), world.path("gate"));
    // The summaries differ, because a repetition would be declined.
    let run = format!(
        r#"echo >> {}
read line < {}
echo '{{"type":"result","id":"c1","compactions":[{{"from_turn":0,"to_turn":0,"summary":{{"summary":"'$$'"}}}}]}}'"#,
        arrivals_path.display(),
        gate_path.display()
    );
    world.write_script("plugins/meets", &plugin_script("meets", &json!({"produces": ["summary"]}), &run));
    let arguments = "s.jsonl --strategy meets --trust-dir plugins --sandbox=contained --keep-last 0";
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let mut command = world.command(&arguments.split(' ').collect::<Vec<_>>());
            world.spawn(command.env("XDG_STATE_HOME", world.path(&format!("state{writer}"))))
        })
        .collect();
    arrivals.read_exact(&mut [0; WRITERS]).unwrap();
    gate.write_all(&[b'\n'; WRITERS]).unwrap();
    let outputs: Vec<CommandOutput> = writers
        .into_iter()
        .map(|writer| CommandOutput::new(&world, writer.wait_with_output().unwrap()))
        .collect();
    let printed = outputs
        .iter()
        .map(|output| format!("{:?} {}", output.code, output.stderr))
        .collect::<Vec<_>>()
        .join("\n");
    let succeeded = outputs.iter().filter(|output| output.code == Some(0)).count();
    assert_eq!(show_json(&world)["overlays"].as_array().map(Vec::len), Some(succeeded), "{printed}");
    // A writer may time out on the lock. It then fails with exit code 5.
    assert!(succeeded > 0 && outputs.iter().all(|output| matches!(output.code, Some(0 | 5))), "{printed}");
    assert_eq!(transcript.current_bytes(), transcript.original_bytes());
}

/// Returns the names of the sidecar files.
fn sidecar_names(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.path(".")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.contains("jp")).collect();
    names.sort();
    names
}

#[test]
fn reads_old_sidecar_name_and_renames_on_write() {
    let (world, transcript) = session();
    strip_tools(&world);
    fs::rename(world.path(SIDECAR), world.path(OLD_SIDECAR)).unwrap();
    assert_eq!(show_json(&world)["overlays"].as_array().map(Vec::len), Some(1));
    assert_eq!(sidecar_names(&world), [OLD_SIDECAR], "a reading command must not write");
    world
        .run(&["s.jsonl", "--strategy", "strip-reasoning", "--keep-last", "1"])
        .exits(0)
        .reports("  2  strip");
    assert_eq!(sidecar_names(&world), [SIDECAR]);
    assert_eq!(show_json(&world)["overlays"].as_array().map(Vec::len), Some(2));

    fs::rename(world.path(SIDECAR), world.path(OLD_SIDECAR)).unwrap();
    world.run(&["s.jsonl", "--reset=1"]).exits(0);
    assert_eq!(sidecar_names(&world), [SIDECAR]);
    fs::rename(world.path(SIDECAR), world.path(OLD_SIDECAR)).unwrap();
    world.run(&["s.jsonl", "--reset"]).exits(0).reports("1 overlay removed");
    transcript.assert_untouched();
}

#[test]
fn new_sidecar_name_takes_precedence() {
    let (world, transcript) = session();
    strip_tools(&world);
    let one_overlay = fs::read(world.path(SIDECAR)).unwrap();
    world.run(&["s.jsonl", "--strategy", "strip-reasoning", "--keep-last", "1"]).exits(0);
    for old in [&one_overlay[..], b"no overlays"] {
        world.write_file(OLD_SIDECAR, old);
        assert_eq!(show_json(&world)["overlays"].as_array().map(Vec::len), Some(2));
    }
    world.run(&["s.jsonl", "--reset"]).exits(0).reports("2 overlays removed");
    transcript.assert_untouched();
}

#[test]
fn folder_with_the_old_name_does_not_fail_an_append() {
    let (world, _) = session();
    strip_tools(&world);
    fs::create_dir(world.path(OLD_SIDECAR)).unwrap();
    world.run(&["s.jsonl", "--strategy", "strip-reasoning", "--keep-last", "1"]).exits(0);
    assert_eq!(show_json(&world)["overlays"].as_array().map(Vec::len), Some(2));
    assert!(world.path(OLD_SIDECAR).is_dir());
}

#[test]
fn reports_unreadable_sidecar_by_its_old_name() {
    let (world, _) = session();
    world.write_file(OLD_SIDECAR, b"[]");
    world.run(&["show", "s.jsonl"]).exits(4).reports("failed to read /here/s.jsonl.jp-compact.json");
    std::fs::remove_file(world.path(OLD_SIDECAR)).unwrap();
    let elsewhere = world.write_file("elsewhere", b"mine");
    std::os::unix::fs::symlink(&elsewhere, world.path(OLD_SIDECAR)).unwrap();
    world.run(&["s.jsonl", "--strategy", "strip-tools"]).exits(4).reports("is a symlink");
    assert_eq!(fs::read(&elsewhere).unwrap(), b"mine");
}

#[test]
fn rejects_sidecar_as_transcript() {
    let (world, _) = session();
    strip_tools(&world);
    fs::copy(world.path(SIDECAR), world.path(OLD_SIDECAR)).unwrap();
    for name in [SIDECAR, OLD_SIDECAR] {
        world
            .run(&["print", name])
            .exits(4)
            .reports("is a sidecar file, not a transcript")
            .reports("hint: give the transcript itself");
        world.run(&["batch", name, "--dry-run"]).exits(19);
    }
}

/// Returns a line of a session of Claude Code. `previous` is the number of lines before it.
fn session_line(previous: usize, role: &str, content: Value) -> String {
    let parent = previous.checked_sub(1).map(|parent| format!("u{parent}"));
    let message = match role {
        "user" => json!({"role": "user", "content": content}),
        _ => json!({"id": format!("msg_{previous}"), "role": "assistant", "content": content}),
    };
    let line = json!({
        "parentUuid": parent, "isSidechain": false, "sessionId": "s", "version": "2.1.0", "type": role,
        "message": message, "uuid": format!("u{previous}"), "timestamp": "2026-03-01T09:00:00.120Z",
    });
    format!("{line}\n")
}

/// Returns a session whose turns have these numbers of calls.
fn session_with_calls(calls_by_turn: &[usize]) -> Vec<u8> {
    let mut lines: Vec<String> = Vec::new();
    let mut push = |role: &str, content: Value| lines.push(session_line(lines.len(), role, content));
    for (turn, calls) in calls_by_turn.iter().enumerate() {
        push("user", json!(format!("Request {turn}.")));
        for call in 0..*calls {
            let (id, path) = (format!("toolu_{turn}_{call}"), format!("src/{turn}_{call}.rs"));
            push(
                "assistant",
                json!([{"type": "tool_use", "id": id, "name": "Read", "input": {"path": path}}]),
            );
            let content = format!("content {turn}.{call} {}", "fn parse() {} ".repeat(50));
            push("user", json!([{"type": "tool_result", "tool_use_id": id, "content": content}]));
        }
        push("assistant", json!([{"type": "text", "text": "Done."}]));
    }
    lines.concat().into_bytes()
}

#[test]
fn step_overlay_of_an_early_turn_applies_in_later_runs() {
    // The last turn has fewer steps than the first, or more.
    for calls_by_turn in [[6, 1], [2, 9]] {
        let world = World::new();
        world.write_file("s.jsonl", &session_with_calls(&calls_by_turn));
        let last_step = calls_by_turn[0] - 1;
        let to = format!("0.{last_step}");
        let arguments = ["s.jsonl", "-s", "strip-tools:mode=strip-responses", "--from", "0.1", "--to", &to];
        let report = world.run(&[&arguments[..], &["--json"]].concat()).exits(0).line();
        let shown = show_json(&world);
        assert_eq!(shown["tokens"]["view_after"], report["tokens"]["view_after"], "{shown:#}");
        let view = world.run(&["print", "s.jsonl", "--compacted"]).exits(0);
        for call in 0..=last_step {
            let is_shown = view.text().contains(&format!("content 0.{call} "));
            assert_eq!(is_shown, call == 0, "step 0.{call} in\n{}", view.text());
        }
        assert!(view.text().contains("content 1.0 "), "{}", view.text());
        let second = ["s.jsonl", "-s", "strip-tools:mode=strip-requests", "--from", "0.0", "--to", &to];
        world.run(&second).exits(0).reports("1 overlay appended");
        assert_eq!(show_json(&world)["overlays"].as_array().map(Vec::len), Some(2));
    }
}
