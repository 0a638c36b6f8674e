//! Transcripts of other agents: their overlays lie beside them, and the transcript itself is never written to.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Ran, STRIP, Transcript, World};

/// The file beside the transcript, and what version 0.1.0 called it.
const BESIDE: &str = ".s.jsonl.jp-compact";
const OLD: &str = "s.jsonl.jp-compact.json";

/// A sample of a format, as the core has it.
fn sample(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("host/core/tests/formats/samples");
    fs::read(folder.join(name)).unwrap()
}

fn session() -> (World, Transcript) {
    let world = World::new();
    let path = world.file("s.jsonl", &sample("claude-code.jsonl"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    (world, Transcript::at(path))
}

fn strip(world: &World) {
    world.run(&["s.jsonl", "--strategy", "strip-tools", "--keep-last", "1"]).exits(0);
}

fn beside(world: &World) -> Value {
    serde_json::from_slice(&fs::read(world.path(BESIDE)).unwrap()).unwrap()
}

fn shown(world: &World) -> Value {
    world.run(&["show", "s.jsonl", "--json"]).exits(0).line()
}

#[test]
fn overlays_lie_beside_the_transcript_and_the_transcript_stays_as_it_was() {
    let (world, transcript) = session();
    let written = fs::metadata(&transcript.path).unwrap().modified().unwrap();
    let ran =
        world.run(&["s.jsonl", "--strategy", "strip-tools", "--keep-last", "1", "--json"]).exits(0).line();
    assert_eq!(ran["format"], "claude-code");
    assert!(ran["written_to"].as_str().unwrap().ends_with(BESIDE), "{ran}");
    assert_eq!(transcript.now(), transcript.before());
    assert_eq!(fs::metadata(&transcript.path).unwrap().modified().unwrap(), written, "it was written to");
    assert_eq!(fs::metadata(world.path(BESIDE)).unwrap().permissions().mode() & 0o777, 0o640);
    let beside = beside(&world);
    assert_eq!(beside["format"], "claude-code");
    assert_eq!(beside["source"]["bytes"], transcript.before().len());
    assert_eq!(beside["overlays"][0]["type"], "compaction");
    assert_eq!(beside["overlays"][1]["strategy"], "strip-tools");
    assert_eq!(beside["overlays"][1]["range_xxh3"].as_str().unwrap().len(), 32);
}

#[test]
fn a_second_run_is_put_behind_the_first() {
    let (world, _) = session();
    strip(&world);
    let first = fs::read(world.path(BESIDE)).unwrap();
    world
        .run(&["s.jsonl", "--strategy", "strip-reasoning", "--keep-last", "1"])
        .exits(0)
        .says("  2  strip-reasoning");
    let second = fs::read(world.path(BESIDE)).unwrap();
    let kept = first.strip_suffix(b"\n]\n}\n").unwrap();
    assert!(second.starts_with(kept), "the bytes of the first overlay are kept");
    let ran = shown(&world);
    assert_eq!(ran["overlays"].as_array().unwrap().len(), 2);
    assert_eq!(ran["format"], "claude-code");
    assert!(ran["totals"]["all"]["view"].as_u64() < ran["totals"]["all"]["raw"].as_u64());
}

#[test]
fn a_reset_removes_them_and_with_the_last_the_file() {
    let (world, transcript) = session();
    strip(&world);
    world.run(&["s.jsonl", "--strategy", "strip-reasoning", "--keep-last", "1"]).exits(0);
    world.run(&["s.jsonl", "--reset=3"]).exits(2).says("has no overlay 3, it has 2");
    world.run(&["s.jsonl", "--reset=1", "--dry-run"]).exits(0).says("1 overlay would be removed");
    world.run(&["s.jsonl", "--reset=1"]).exits(0).says("1 overlay removed");
    assert_eq!(beside(&world)["overlays"][0]["reasoning"], "strip");
    world.run(&["s.jsonl", "--reset"]).exits(0).says("1 overlay removed");
    transcript.assert_untouched();
    world.run(&["s.jsonl", "--reset"]).exits(0).says("no overlay to remove");
}

#[test]
fn overlays_hold_while_the_log_grows() {
    let (world, _) = session();
    strip(&world);
    let before = shown(&world);
    let line = String::from_utf8(sample("claude-code.jsonl")).unwrap();
    let last: Value = serde_json::from_str(line.lines().last().unwrap()).unwrap();
    let mut next = last.clone();
    next["parentUuid"] = last["uuid"].clone();
    next["uuid"] = json!("00000000-0000-4000-8000-999999999999");
    world.file("s.jsonl", format!("{line}{next}\n").as_bytes());
    let ran = world.run(&["show", "s.jsonl", "--json"]).exits(0);
    assert_eq!(ran.stderr, "");
    assert_eq!(ran.line()["overlays"][0]["remarks"], before["overlays"][0]["remarks"]);
    assert!(ran.line()["totals"]["all"]["view"].as_u64() < ran.line()["totals"]["all"]["raw"].as_u64());
}

#[test]
fn an_overlay_whose_events_were_edited_is_not_applied_and_that_is_said() {
    let (world, transcript) = session();
    strip(&world);
    let edited =
        String::from_utf8(transcript.before().to_vec()).unwrap().replace("ls: no such file", "ls: nothing");
    world.file("s.jsonl", edited.as_bytes());
    let ran = world.run(&["print", "s.jsonl", "--compacted", "--as", "source"]).exits(0);
    assert_eq!(ran.text(), edited);
    assert_eq!(
        ran.stderr,
        "warning: s.jsonl: 1 overlay is not applied: the events in the range have changed since; `jp-compact show` \
         lists them\n"
    );
    let row = &shown(&world)["overlays"][0];
    assert_eq!(row["remarks"], json!(["not applied: the events in its range have changed since"]));
    assert_eq!(row["tokens"]["before"], row["tokens"]["after"]);
    // It is kept, and holds again when the events are what they were.
    world.file("s.jsonl", transcript.before());
    assert_ne!(
        shown(&world)["overlays"][0]["tokens"]["before"],
        shown(&world)["overlays"][0]["tokens"]["after"]
    );
}

#[test]
fn an_overlay_of_turns_that_were_rewound_is_not_applied() {
    let (world, transcript) = session();
    strip(&world);
    let lines: Vec<&[u8]> = transcript.before().split_inclusive(|byte| *byte == b'\n').take(11).collect();
    world.file("s.jsonl", &lines.concat());
    world.run(&["show", "s.jsonl"]).exits(0).says("1 overlay is not applied");
    // Quiet is quiet.
    assert_eq!(world.run(&["show", "s.jsonl", "--quiet"]).exits(0).stderr, "");
    // A new one stands beside it.
    let ran =
        world.run(&["s.jsonl", "--strategy", "strip-tools", "--keep-last", "0", "--json"]).exits(0).line();
    assert_eq!(ran["overlays"][0]["number"], 2);
}

#[test]
fn the_view_is_written_in_the_form_of_the_transcript() {
    let (world, transcript) = session();
    strip(&world);
    let ran = world.run(&["print", "s.jsonl", "--compacted", "--as", "source", "-o", "small.jsonl"]).exits(0);
    assert_eq!((ran.text(), ran.stderr.as_str()), ("", ""));
    let small = fs::read_to_string(world.path("small.jsonl")).unwrap();
    assert_eq!(fs::metadata(world.path("small.jsonl")).unwrap().permissions().mode() & 0o777, 0o640);
    let before = String::from_utf8(transcript.before().to_vec()).unwrap();
    assert_eq!(small.lines().count(), before.lines().count());
    let changed: Vec<_> = small.lines().zip(before.lines()).filter(|(new, old)| new != old).collect();
    assert!(!changed.is_empty());
    for (new, old) in changed {
        assert!(old.contains("tool_use") || old.contains("tool_result"), "{old}");
        assert!(new.contains("\"input\":{}") || new.contains("[compacted] "), "{new}");
    }
    // It is a transcript like any other.
    world.run(&["lint", "small.jsonl", "--provider", "all"]).exits(0);
    world
        .run(&["print", "s.jsonl", "--compacted", "--as", "source", "-o", "small.jsonl"])
        .exits(4)
        .says("there is something at /here/small.jsonl already");
    assert_eq!(fs::read_to_string(world.path("small.jsonl")).unwrap(), small);
    world
        .run(&["print", "s.jsonl", "--as", "source", "-o", "no/such.jsonl"])
        .exits(4)
        .says("failed to write");
    assert!(!world.path("no").exists());
}

#[test]
fn what_lies_beside_and_cannot_be_read_is_named_and_a_reset_mends_it() {
    let (world, transcript) = session();
    strip(&world);
    let whole = fs::read(world.path(BESIDE)).unwrap();
    let newer = String::from_utf8(whole.clone())
        .unwrap()
        .replace("\"jp_compact_sidecar\": 1", "\"jp_compact_sidecar\": 2");
    for bad in [&whole[..whole.len() / 2], b"", b"[]", b"{}", newer.as_bytes()] {
        world.file(BESIDE, bad);
        let ran = world.run(&["s.jsonl", "--strategy", "strip-tools"]).exits(4);
        let ran = ran
            .says("failed to read /here/.s.jsonl.jp-compact")
            .says("hint: `--reset` removes what lies beside");
        assert_eq!(fs::read(world.path(BESIDE)).unwrap(), bad, "{}", ran.stderr);
    }
    world.run(&["s.jsonl", "--reset"]).exits(0);
    transcript.assert_untouched();
}

#[test]
fn a_link_beside_is_not_written_through() {
    let (world, _) = session();
    let elsewhere = world.file("elsewhere", b"mine");
    std::os::unix::fs::symlink(&elsewhere, world.path(BESIDE)).unwrap();
    world.run(&["s.jsonl", "--strategy", "strip-tools"]).exits(4).says("is a symlink");
    assert_eq!(fs::read(&elsewhere).unwrap(), b"mine");
}

#[test]
fn through_a_link_the_same_overlays_are_found() {
    let (world, _) = session();
    std::os::unix::fs::symlink(world.path("s.jsonl"), world.path("link.jsonl")).unwrap();
    world.run(&["link.jsonl", "--strategy", "strip-tools", "--keep-last", "1"]).exits(0);
    assert!(!world.path(".link.jsonl.jp-compact").exists());
    assert_eq!(shown(&world)["overlays"].as_array().unwrap().len(), 1);
}

#[test]
fn locks_the_folder_of_the_real_file_and_names_who_has_it() {
    let (world, transcript) = session();
    std::os::unix::fs::symlink(world.path("s.jsonl"), world.home("link.jsonl")).unwrap();
    let held = fs::File::open(transcript.folder()).unwrap();
    held.lock().unwrap();
    let arguments =
        ["../home/link.jsonl", "--strategy", "strip-reasoning", "--keep-last", "1", "--lock-timeout", "10ms"];
    let holder = format!("is locked by process {} (", std::process::id());
    world.run(&arguments).exits(5).says(&holder).says("no lock on /here in 0.01 s").says("--lock-timeout");
    transcript.assert_untouched();
    drop(held);
    world.run(&arguments).exits(0);
    assert!(!world.home(".local/state/jp-compact/locks").exists());
}

/// All have read the transcript before anyone writes, each with a state folder of its own.
#[test]
fn loses_no_overlay_of_writers_with_different_state_folders() {
    const WRITERS: usize = 16;
    let (world, transcript) = session();
    let pipe = |name: &str| {
        let path = world.path(name);
        assert!(Command::new("/bin/mkfifo").arg(&path).status().unwrap().success());
        fs::File::options().read(true).write(true).open(path).unwrap()
    };
    let (mut here, mut gate) = (pipe("here"), pipe("gate"));
    let (at, go) = (world.path("here"), world.path("gate"));
    world.plugin("meets", &format!("echo >> {}\nread line < {}\n{STRIP}", at.display(), go.display()));
    let arguments = "s.jsonl --strategy meets --trust-dir plugins --sandbox=contained --keep-last 0";
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let mut command = world.command(&arguments.split(' ').collect::<Vec<_>>());
            world.spawn(command.env("XDG_STATE_HOME", world.path(&format!("state{writer}"))))
        })
        .collect();
    here.read_exact(&mut [0; WRITERS]).unwrap();
    gate.write_all(&[b'\n'; WRITERS]).unwrap();
    let ran: Vec<Ran> =
        writers.into_iter().map(|writer| Ran::of(&world, writer.wait_with_output().unwrap())).collect();
    let told = ran.iter().map(|ran| format!("{:?} {}", ran.code, ran.stderr)).collect::<Vec<_>>().join("\n");
    let done = ran.iter().filter(|ran| ran.code == Some(0)).count();
    assert_eq!(shown(&world)["overlays"].as_array().map(Vec::len), Some(done), "{told}");
    // Who could not have the lock in time says so.
    assert!(done > 0 && ran.iter().all(|ran| matches!(ran.code, Some(0 | 5))), "{told}");
    assert_eq!(transcript.now(), transcript.before());
}

/// What lies beside the transcript, under its names.
fn lying(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.path(".")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.contains("jp")).collect();
    names.sort();
    names
}

#[test]
fn reads_the_old_name_and_moves_it_with_the_next_write() {
    let (world, transcript) = session();
    strip(&world);
    fs::rename(world.path(BESIDE), world.path(OLD)).unwrap();
    assert_eq!(shown(&world)["overlays"].as_array().map(Vec::len), Some(1));
    assert_eq!(lying(&world), [OLD], "who reads writes nothing");
    world.run(&["s.jsonl", "--strategy", "strip-reasoning", "--keep-last", "1"]).exits(0).says("  2  strip");
    assert_eq!(lying(&world), [BESIDE]);
    assert_eq!(shown(&world)["overlays"].as_array().map(Vec::len), Some(2));

    fs::rename(world.path(BESIDE), world.path(OLD)).unwrap();
    world.run(&["s.jsonl", "--reset=1"]).exits(0);
    assert_eq!(lying(&world), [BESIDE]);
    fs::rename(world.path(BESIDE), world.path(OLD)).unwrap();
    world.run(&["s.jsonl", "--reset"]).exits(0).says("1 overlay removed");
    transcript.assert_untouched();
}

#[test]
fn the_new_name_counts_where_there_are_both() {
    let (world, transcript) = session();
    strip(&world);
    let one = fs::read(world.path(BESIDE)).unwrap();
    world.run(&["s.jsonl", "--strategy", "strip-reasoning", "--keep-last", "1"]).exits(0);
    for old in [&one[..], b"no overlays"] {
        world.file(OLD, old);
        assert_eq!(shown(&world)["overlays"].as_array().map(Vec::len), Some(2));
    }
    world.run(&["s.jsonl", "--reset"]).exits(0).says("2 overlays removed");
    transcript.assert_untouched();
}

#[test]
fn an_old_file_that_cannot_be_read_is_named_by_its_own_name() {
    let (world, _) = session();
    world.file(OLD, b"[]");
    world.run(&["show", "s.jsonl"]).exits(4).says("failed to read /here/s.jsonl.jp-compact.json");
    std::fs::remove_file(world.path(OLD)).unwrap();
    let elsewhere = world.file("elsewhere", b"mine");
    std::os::unix::fs::symlink(&elsewhere, world.path(OLD)).unwrap();
    world.run(&["s.jsonl", "--strategy", "strip-tools"]).exits(4).says("is a symlink");
    assert_eq!(fs::read(&elsewhere).unwrap(), b"mine");
}

#[test]
fn the_overlays_are_no_transcript() {
    let (world, _) = session();
    strip(&world);
    fs::copy(world.path(BESIDE), world.path(OLD)).unwrap();
    for name in [BESIDE, OLD] {
        world
            .run(&["print", name])
            .exits(4)
            .says("holds the overlays of a transcript, and is none")
            .says("hint: give the transcript itself");
        world.run(&["batch", name, "--dry-run"]).exits(19);
    }
}

#[test]
fn what_is_written_by_nobody_known_is_said_with_the_names_of_those_who_are() {
    let world = World::new();
    let cut_off = "Caused by:\n  byte 19: the input ends in the middle of a value";
    for (name, bytes, place) in [
        ("a.json", &b"{\"a\": 1}"[..], ""),
        (
            "a.jsonl",
            b"{\"a\": 1}\n{\"a\"",
            "Caused by:\n  byte 13: line 2: the input ends in the middle of a value",
        ),
        ("b.bin", b"\x7fELF\x02\x01", "Caused by:\n  byte 0: not a JSON value"),
        ("c.txt", b"hello", "Caused by:\n  byte 0: not a JSON value"),
        ("d.jsonl", b"{\"type\":\"summary\", ", cut_off),
    ] {
        world.file(name, bytes);
        let ran =
            world.run(&["show", name]).exits(4).says(&format!("/here/{name} is in no format that is known"));
        let ran = ran.says("claude-code").says("--format NAME").says(place);
        assert_eq!(ran.stderr.contains("Caused by"), !place.is_empty(), "{}", ran.stderr);
    }
    world.file("empty", b"");
    world.run(&["show", "empty"]).exits(4).says("failed to read /here/empty");
}

#[test]
fn what_is_cut_off_before_it_says_whose_it_is_is_refused_by_its_place() {
    let world = World::new();
    for (name, bytes, says) in [
        ("a.json", &b"{\"messages\": [{\"role\": \"user\", "[..], "byte 31: "),
        ("b.jsonl", b"{\"a\": 1}\n{\"a\": \n{\"a\": 1}\n", "byte 16: line 2: "),
        ("c.json", b"\xef\xbb\xbf{\"a\": nul}", "byte 12: "),
    ] {
        world.file(name, bytes);
        world
            .run(&["show", name])
            .exits(4)
            .says(&format!("/here/{name} is in no format that is known"))
            .says(says);
    }
}

#[test]
fn a_format_that_is_named_is_believed_and_checked() {
    let (world, transcript) = session();
    world.run(&["show", "s.jsonl", "--format", "claude-code"]).exits(0);
    let ran = world.run(&["show", "s.jsonl", "--format", "openai-chat"]).exits(4);
    ran.says("failed to read /here/s.jsonl").says("byte 0: line 1: no transcript of OpenAI's chat");
    world.run(&["show", "s.jsonl", "--format", "cobol"]).exits(2).says("claude-code");
    // A name says more than what a file looks like.
    world.file("odd/events.json", transcript.before());
    world.run(&["show", "odd"]).exits(4);
    world.run(&["show", "odd", "--format", "claude-code"]).exits(0);
}

#[test]
fn a_log_whose_last_line_is_torn_is_read_with_a_warning() {
    let (world, transcript) = session();
    let torn = &transcript.before()[..transcript.before().len() - 20];
    world.file("s.jsonl", torn);
    let ran = world.run(&["print", "s.jsonl", "--compacted", "--as", "source"]).exits(0);
    assert_eq!(ran.stdout, torn);
    assert!(ran.stderr.contains("is cut off and was left out: it may still be written"), "{}", ran.stderr);
    strip(&world);
    let ran = world.run(&["print", "s.jsonl", "--compacted", "--as", "source"]).exits(0);
    assert!(ran.stdout.len() < torn.len() && ran.stdout.ends_with(&torn[torn.len() - 100..]));
}

#[test]
fn standard_input_may_be_of_any_format() {
    let world = World::new();
    let bytes = sample("openai-chat.json");
    let ran = world.pipe(&["print", "-", "--as", "source"], &bytes).exits(0);
    assert_eq!(ran.stdout, bytes);
    assert_eq!(world.pipe(&["show", "-", "--json"], &bytes).exits(0).line()["format"], "openai-chat");
}

#[test]
fn a_strategy_is_told_the_format_and_reads_events_like_jps() {
    let (world, _) = session();
    let keep = "cat > seen; echo '{\"type\":\"decline\",\"id\":\"1\",\"reason\":\"seen\"}'";
    let keep = keep.replace("seen;", &format!("{};", world.path("seen").display()));
    let described = crate::support::described("look", &json!({ "input": "full" }), &keep);
    world.script("plugins/look", &described);
    world.run(&[
        "s.jsonl",
        "--strategy",
        "look",
        "--trust-dir",
        "plugins",
        "--sandbox=contained",
        "--keep-last",
        "0",
    ]);
    let seen = fs::read_to_string(world.path("seen")).unwrap();
    let mut lines = seen.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(lines.next().unwrap()["conversation"]["format"], "claude-code");
    let events: Vec<Value> =
        lines.filter(|line| line["type"] == "event").map(|mut line| line["event"].take()).collect();
    let call = events.iter().find(|event| event["type"] == "tool_call_request").unwrap();
    assert_eq!(call["arguments"], json!({ "file_path": "/home/ada/garden/tap.log" }));
    let answer = events.iter().find(|event| event["is_error"] == true).unwrap();
    assert_eq!(answer["content"], "ls: no such file");
}

#[test]
fn only_conversations_of_jps_are_continued_or_forked() {
    let (world, transcript) = session();
    let ran = world.run(&["fork", "s.jsonl", "copy"]).exits(4);
    ran.says("only JP's conversations can be forked").says("jp-compact import FILE --to DIR");
    transcript.assert_untouched();
}

#[test]
fn an_imported_transcript_is_a_conversation_of_jps() {
    let (world, _) = session();
    // JP strips what is short as well.
    let mut text = String::from_utf8(sample("claude-code.jsonl")).unwrap();
    let long = "Nothing of this is left when it is stripped";
    for short in [r"1\tdrip\n2\tdrip ö", "ls: no such file", "12 mm", ""] {
        for before in [r#""content":"#, r#""text":"#] {
            text = text.replace(&format!(r#"{before}"{short}""#), &format!(r#"{before}"{long}""#));
        }
    }
    let transcript = Transcript::at(world.file("s.jsonl", text.as_bytes()));
    strip(&world);
    let ran = world.run(&["import", "s.jsonl", "--to", "imported", "--json"]).exits(0).line();
    assert_eq!(ran["overlays"], 1);
    let imported = Transcript::at(world.path("imported/events.json"));
    let elements: Vec<Value> = serde_json::from_slice(imported.before()).unwrap();
    assert!(elements.iter().all(|element| element["timestamp"].is_string() && element["type"].is_string()));
    let view = |transcript: &str| {
        let events = world.run(&["print", transcript, "--compacted", "--json"]).exits(0);
        serde_json::from_slice::<Value>(&events.stdout).unwrap()
    };
    assert_eq!(view("imported"), view("s.jsonl"));
    let base: Value =
        serde_json::from_slice(&fs::read(world.path("imported/base_config.json")).unwrap()).unwrap();
    assert_eq!(
        base["assistant"]["model"]["id"],
        json!({ "provider": "anthropic", "name": "claude-sonnet-4-5" })
    );
    world.run(&["imported", "--strategy", "strip-reasoning", "--keep-last", "0"]).exits(0);
    assert_eq!(imported.overlays().len(), 1);
    world.run(&["import", "s.jsonl", "--to", "imported"]).exits(4).says("there is something at");
    world
        .run(&["import", "imported/events.json", "--to", "other"])
        .exits(2)
        .says("is a conversation of JP's already");
    assert_eq!(transcript.now(), transcript.before());
}

#[test]
fn a_body_that_is_the_providers_own_stays_that_body() {
    let world = World::new();
    let bytes = sample("openai-chat.json");
    world.file("body.json", &bytes);
    assert_eq!(world.run(&["print", "body.json", "--as", "openai"]).exits(0).stdout, bytes);
    world.run(&["body.json", "--strategy", "strip-tools", "--keep-last", "1"]).exits(0);
    let source = world.run(&["print", "body.json", "--compacted", "--as", "source"]).exits(0).stdout;
    let own = world.run(&["print", "body.json", "--compacted", "--as", "openai"]).exits(0).stdout;
    assert!(own == source && own != bytes);
    let body: Value = serde_json::from_slice(&own).unwrap();
    assert_eq!(body["model"], "gpt-5");
    // Another provider's is rendered, and so is what is no body but its messages alone.
    let other = world.run(&["print", "body.json", "--compacted", "--as", "anthropic"]).exits(0).stdout;
    assert!(serde_json::from_slice::<Value>(&other).unwrap()["model"].is_null());
    let list = sample("openai-chat.json");
    let list = serde_json::from_slice::<Value>(&list).unwrap()["messages"].to_string();
    world.file("list.json", list.as_bytes());
    let body = world.run(&["print", "list.json", "--as", "openai"]).exits(0).stdout;
    assert!(serde_json::from_slice::<Value>(&body).unwrap()["messages"].is_array());
}

#[test]
fn a_file_of_an_unsupported_program_is_refused_by_name() {
    let world = World::new();
    for (name, program) in [
        ("qwen-code.jsonl", "Qwen Code"),
        ("cursor.jsonl", "Cursor"),
        ("factory-droid.jsonl", "Factory Droid"),
        ("vercel-ai-sdk.json", "the Vercel AI SDK"),
        ("vercel-ai-sdk-chat.json", "the Vercel AI SDK"),
        ("opentelemetry-genai.json", "OpenTelemetry GenAI"),
        ("langchain.json", "LangChain"),
        ("sharegpt.json", "ShareGPT"),
        ("sharegpt.jsonl", "ShareGPT"),
        ("cline-ui.json", "Cline"),
    ] {
        world.file(name, &sample(&format!("../unsupported/{name}")));
        for command in [&["show", name][..], &["stats", name], &[name, "--strategy", "strip-tools"]] {
            world.run(command).exits(4).says(&format!("looks like a transcript of {program}"));
        }
        // As JP's own file it is refused as well.
        world.file("jp/events.json", &sample(&format!("../unsupported/{name}")));
        world.run(&["show", "jp/events.json"]).exits(4);
    }
    world.file("numbers.json", b"[1,2,3]");
    world.run(&["show", "numbers.json"]).exits(4).says("is in no format that is known");
    world.file("jp/events.json", b"[1,2,3]");
    world.run(&["show", "jp/events.json"]).exits(4).says("it holds no message of a conversation");
}

#[test]
fn a_format_that_was_named_wrongly_loses_no_conversation() {
    let world = World::new();
    world.file("s.jsonl", &sample("../unsupported/cursor.jsonl"));
    let ran = world.run(&["show", "s.jsonl", "--format", "j-cli"]).exits(4);
    ran.says("are in records that the reader of `j-cli` understands")
        .says("it looks like a transcript of Cursor");
}

#[test]
fn what_holds_a_conversation_on_each_line_is_refused_with_the_way_to_read_it() {
    let world = World::new();
    world.file("rows.jsonl", &sample("../several/openai-chat-tuning.jsonl"));
    let ran = world.run(&["show", "rows.jsonl"]).exits(4);
    ran.says("line 2: another conversation begins")
        .says("`jp-compact batch --ndjson` reads one conversation a line");
}

#[test]
fn a_malformed_line_inside_a_log_stays_with_a_warning() {
    let world = World::new();
    let text = String::from_utf8(sample("claude-code.jsonl")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(5, "{\"type\":\"user\",\"uuid");
    let torn = lines.join("\n") + "\n";
    world.file("s.jsonl", torn.as_bytes());
    let ran = world.run(&["print", "s.jsonl", "--as", "source"]).exits(0);
    assert_eq!(ran.text(), torn);
    ran.says("line 6 is not JSON").says("passed over");
    strip(&world);
    let ran = world.run(&["print", "s.jsonl", "--compacted", "--as", "source"]).exits(0);
    assert!(ran.text().lines().any(|line| line == lines[5]), "{}", ran.text());
}
