//! Folders as arguments: the transcripts that are found, their order, and those that a later run skips.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use jp_compact_schema::report::Status::{Compacted, Skipped, Unchanged};
use serde_json::json;

use crate::set::{Set, folder_name, parse_report, statuses};
use crate::support::{Conversation, Transcript, World, append_event};

#[test]
fn compacts_and_reports_every_conversation_in_order() {
    let set = Set::new(12);
    let output = set.batch(&["--report", "r.json", "--jobs", "3"]).exits(0);
    assert_eq!(output.text(), "");
    let report = set.report("r.json");
    let names: Vec<_> = report.transcripts.iter().map(folder_name).collect();
    assert_eq!(names, ["a0", "a1", "a10", "a11", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"]);
    for transcript in &set.transcripts {
        assert_eq!(transcript.overlays().len(), 1);
    }
    let total = &report.total;
    assert_eq!((total.transcripts, total.compacted, total.overlays, total.failed), (12, 12, 12, 0));
    assert!(report.complete && !report.dry_run);
    let size = &total.size;
    let tokens_after: u64 = report.transcripts.iter().map(|entry| entry.size.tokens.view_after).sum();
    assert_eq!(size.tokens.view_after, tokens_after);
    assert!(size.tokens.raw > tokens_after && size.bytes.raw > size.bytes.view_after);
    let bytes_by_type: u64 = total.size.by_type.values().map(|size| size.bytes.raw).sum();
    assert_eq!(bytes_by_type, size.bytes.raw);
    assert_eq!(total.size.by_tool.keys().collect::<Vec<_>>(), ["fs_read_file"]);
    let overlay = &report.transcripts[0].overlays[0];
    assert_eq!((&*overlay.strategy, &*overlay.version), ("strip-tools", env!("CARGO_PKG_VERSION")));
    assert_eq!((overlay.from_turn, overlay.to_turn, overlay.executable_sha256.len()), (0, 1, 64));
    assert!(output.stderr.starts_with("12 transcripts: 12 compacted; JP sends "), "{}", output.stderr);
    assert_eq!(set.files("").iter().filter(|name| name.contains(".part")).count(), 0);
}

#[test]
fn number_of_jobs_does_not_change_the_bytes() {
    let compacted_bytes = |jobs: &str| {
        let set = Set::new(7);
        set.batch(&["--strategy", "micro:min_bytes=10", "--jobs", jobs]).exits(0);
        set.transcripts.iter().map(Transcript::current_bytes).collect::<Vec<_>>()
    };
    assert_eq!(compacted_bytes("1"), compacted_bytes("4"));
}

#[test]
fn dry_run_reports_the_same_and_writes_nothing() {
    let set = Set::new(3);
    set.batch(&["--dry-run", "--report", "dry_run.json"]).exits(0).reports("(dry run)");
    set.assert_untouched();
    set.batch(&["--report", "real_run.json"]).exits(0);
    let (dry_run, real_run) = (set.report("dry_run.json"), set.report("real_run.json"));
    assert!(dry_run.dry_run);
    assert_eq!(dry_run.total.size, real_run.total.size);
    assert_eq!(statuses(&dry_run), statuses(&real_run));
}

#[test]
fn repeated_run_skips_compacted_and_redoes_grown_transcripts() {
    let set = Set::new(3);
    set.batch(&[]).exits(0);
    let after = set.transcripts[0].current_bytes();
    let event = json!({"timestamp": "2026-07-01 00:00:00.0", "type": "turn_start"});
    let request = json!({"timestamp": "2026-07-01 00:00:01.0", "type": "chat_request", "content": "More?"});
    let response = json!({"timestamp": "2026-07-01 00:00:02.0", "type": "chat_response", "message": "No."});
    let grown = [event, request, response]
        .iter()
        .fold(set.transcripts[1].current_bytes(), |bytes, event| append_event(&bytes, event));
    fs::write(&set.transcripts[1].path, &grown).unwrap();

    let output = set.batch(&["--report", "r.json"]).exits(0).reports("1 compacted, 2 skipped");
    assert_eq!(output.text(), "");
    let report = set.report("r.json");
    assert_eq!(statuses(&report), [("a0", Skipped), ("a1", Compacted), ("a2", Skipped)]);
    assert!(report.transcripts[0].declines[0].reason.contains("overlay 1"));
    assert_eq!(set.transcripts[0].current_bytes(), after);
    assert!(set.transcripts[1].current_bytes().len() > grown.len());
    // A third run finds nothing to do.
    set.batch(&[]).exits(0).reports("3 skipped");
}

#[test]
fn compacts_again_with_other_turns_or_options() {
    let set = Set::new(1);
    set.batch(&[]).exits(0).reports("1 compacted");
    set.batch(&["--keep-last", "1"]).exits(0).reports("1 compacted");
    set.batch(&["--keep-last", "1"]).exits(0).reports("1 skipped");
    let omit = ["batch", "set", "--strategy", "strip-tools:mode=omit", "--keep-last", "1"];
    set.world.run(&omit).exits(0).reports("1 compacted");
    set.world.run(&omit).exits(0).reports("1 skipped");
}

#[test]
fn declined_strategy_is_asked_again() {
    let set = Set::new(1);
    let options = ["--strategy", "strip-reasoning", "--report", "r.json"];
    set.batch(&options).exits(0).reports("1 compacted");
    let after = set.transcripts[0].current_bytes();
    set.batch(&options).exits(0).reports("1 skipped");
    assert_eq!(set.transcripts[0].current_bytes(), after);
    let report = set.report("r.json");
    let strategies: Vec<_> =
        report.transcripts[0].declines.iter().map(|decline| &*decline.strategy).collect();
    assert_eq!(strategies, ["strip-tools", "strip-reasoning"]);
}

#[test]
fn transcript_given_twice_is_compacted_once() {
    let set = Set::new(2);
    symlink("set", set.path("link")).unwrap();
    let args = ["batch", "set", "set/a0", "./set/a1/events.json", "link", "--strategy", "strip-tools"];
    set.world.run(&args).exits(0).reports("2 transcripts: 2 compacted");
    assert!(set.transcripts.iter().all(|transcript| transcript.overlays().len() == 1));
}

#[test]
fn search_respects_gitignore_and_hidden_folders() {
    let set = Set::new(2);
    set.world.write_conversation("set/ignored/x", &Conversation::bulky(6));
    set.world.write_conversation("set/.hidden/x", &Conversation::bulky(6));
    set.world.write_file("set/.gitignore", b"ignored/\n");
    for sidecar in ["events.json.jp-compact.json", ".events.json.jp-compact"] {
        set.world.write_file(&format!("set/a0/{sidecar}"), b"{}");
    }
    set.batch(&["-n"]).exits(0).reports("2 transcripts");
}

#[test]
fn conversations_in_a_gitignored_jp_folder_are_found() {
    let world = World::new();
    world.write_file("ws/.gitignore", b".jp\n");
    for number in 0..3 {
        world.write_conversation(
            &format!("ws/.jp/conversations/1773839946{number}-c"),
            &Conversation::bulky(6),
        );
    }
    let args = ["batch", "ws", "--strategy", "strip-tools", "--json"];
    let output = world.run(&args).exits(0);
    let report = parse_report(&output.stdout);
    let ids: Vec<_> =
        report.transcripts.iter().map(|entry| entry.conversation_id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["17738399460", "17738399461", "17738399462"]);
}

#[test]
fn glob_pattern_is_expanded() {
    let set = Set::new(3);
    let matching_folders = |pattern: &str| {
        let output = set.world.run(&["batch", pattern, "-n", "--strategy", "strip-tools", "--json"]).exits(0);
        parse_report(&output.stdout)
            .transcripts
            .iter()
            .map(|entry| folder_name(entry).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(matching_folders("set/a[01]"), ["a0", "a1"]);
    assert_eq!(matching_folders("set/*/events.json"), ["a0", "a1", "a2"]);
    assert_eq!(matching_folders("**/a2/*.json"), ["a2"]);
}

#[test]
fn missing_folder_is_one_failure() {
    let world = World::new();
    fs::create_dir(world.path("set")).unwrap();
    let output = world.run(&["batch", "set", "gone", "--strategy", "strip-tools", "--json"]).exits(4);
    let report = parse_report(&output.reports("failed: gone: ").stdout);
    assert_eq!((report.total.transcripts, report.total.failed), (1, 1));
}

#[test]
fn shards_partition_the_transcripts() {
    let set = Set::new(9);
    let mut paths = BTreeSet::new();
    let mut count = 0;
    for shard in ["0/3", "1/3", "2/3"] {
        let output = set.batch(&["-n", "--json", "--shard", shard]).exits(0);
        let report = parse_report(&output.stdout);
        assert_eq!(report.shard.unwrap().of, 3);
        count += report.transcripts.len();
        paths.extend(report.transcripts.iter().map(|entry| entry.path.clone()));
    }
    assert_eq!((count, paths.len()), (9, 9));
    set.batch(&["--shard", "3/3"]).exits(2).reports("3 is not below 3");
}

#[test]
fn arbitrary_file_names_are_handled() {
    let world = World::new();
    let names: [&[u8]; 3] = [b"new\nline", b"not \xff utf-8", b"\x1b[2J <&\">"];
    for name in names {
        let folder = world.path("set").join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("events.json"), Conversation::bulky(6).bytes()).unwrap();
    }
    let invalid = world.path("set").join(std::ffi::OsStr::from_bytes(b"bad \x07\xfe"));
    fs::create_dir_all(&invalid).unwrap();
    fs::write(invalid.join("events.json"), "{").unwrap();
    let args = [
        "batch",
        "set",
        "--strategy",
        "strip-tools",
        "--report",
        "r.json",
        "--junit",
        "j.xml",
        "--out",
        "views",
    ];
    let output = world.run(&args).exits(19);
    assert!(!output.stderr.contains(['\x07', '\x1b']), "{}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 2, "{}", output.stderr);
    let report = parse_report(&fs::read(world.path("r.json")).unwrap());
    assert_eq!((report.total.compacted, report.total.failed), (3, 1));
    let not_utf_8 = report.transcripts.iter().find(|entry| entry.path.contains("utf-8")).unwrap();
    assert_eq!(not_utf_8.path_base64.as_deref(), Some("c2V0L25vdCD/IHV0Zi04L2V2ZW50cy5qc29u"));
    let junit = fs::read_to_string(world.path("j.xml")).unwrap();
    assert!(junit.contains(r#"name="set/\u{1b}[2J &lt;&amp;&quot;&gt;/events.json""#), "{junit}");
    assert!(!junit.contains(['\x07', '\x1b']));
    let view = Path::new("views").join(std::ffi::OsStr::from_bytes(names[1])).join("events.json");
    assert!(world.path("here").parent().unwrap().join(view).is_file());
    // The next run compares names as bytes, because different names can be equal as text.
    world.run(&[&args[..], &["--resume"]].concat()).exits(19).reports("3 of them in an earlier run");
}

#[test]
fn each_transcript_uses_the_profile_of_its_workspace() {
    let world = World::new();
    for (workspace, keep_last) in [("one", 0), ("two", 9)] {
        let folder = format!("set/{workspace}/.jp/conversations/17738399468-c");
        world.write_conversation(&folder, &Conversation::bulky(6));
        let config = format!("[conversation.compaction]\nkeep_last = {keep_last}\n");
        world.write_file(&format!("set/{workspace}/.jp-compact.toml"), config.as_bytes());
    }
    let output = world.run(&["batch", "set", "--json"]).exits(0);
    let report = parse_report(&output.stdout);
    let statuses: Vec<_> = report.transcripts.iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [Compacted, Unchanged]);
    assert!(report.transcripts[1].notes[0].contains('9'), "{:?}", report.transcripts[1].notes);
}

#[test]
fn transcripts_of_other_agents_are_detected_by_content() {
    let set = Set::new(1);
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("host/transcripts/tests/formats/samples");
    let session = fs::read(samples.join("claude-code.jsonl")).unwrap();
    let path = set.world.write_file("set/project/session.jsonl", &session);
    for (name, text) in [("package.json", "{\"a\": 1}"), ("list.json", "[1, 2]"), ("log.jsonl", "{}\n{}\n")] {
        set.world.write_file(&format!("set/{name}"), text.as_bytes());
    }
    set.batch(&["--keep-last", "1", "--report", "r.json"]).exits(0).reports("2 transcripts: 2 compacted");
    assert_eq!(fs::read(&path).unwrap(), session);
    assert!(set.path("set/project/.session.jsonl.jp-compact").is_file());
    set.batch(&["--keep-last", "1"]).exits(0).reports("2 skipped");
    set.batch(&["--keep-last", "1", "--out", "views"]).exits(0);
    let view = fs::read(set.path("views/project/session.jsonl")).unwrap();
    let output =
        set.world.run(&["print", "set/project/session.jsonl", "--compacted", "--as", "source"]).exits(0);
    assert!(output.stdout == view);
}

#[test]
fn files_that_are_not_transcripts_are_named_and_counted() {
    let set = Set::new(1);
    for name in ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl"] {
        fs::write(set.path("set").join(name), "{\"id\":1}\n").unwrap();
    }
    // A `.json` file without messages is not counted, because a folder may have many of them.
    fs::write(set.path("set/package.json"), "{}").unwrap();
    let output = set.batch(&["--dry-run"]).exits(0);
    let line = "skipped 4 files that are not transcripts: set/a.jsonl, set/b.jsonl, set/c.jsonl, and 1 more";
    output.reports(line).reports("1 transcript: 1 compacted");
    let quiet = set.batch(&["--dry-run", "-q"]).exits(0);
    assert_eq!(quiet.stderr, "");
    for name in ["b.jsonl", "c.jsonl", "d.jsonl"] {
        fs::remove_file(set.path("set").join(name)).unwrap();
    }
    set.batch(&["--dry-run"]).exits(0).reports("skipped 1 file that is not a transcript: set/a.jsonl");
}

/// A session with a damaged line is a transcript. The line is reported.
#[test]
fn damaged_session_is_not_skipped() {
    let set = Set::new(1);
    let session =
        concat!(env!("CARGO_MANIFEST_DIR"), "/host/transcripts/tests/formats/samples/claude-code.jsonl");
    let bytes = fs::read(session).unwrap();
    let damaged = [&bytes[..], b"{\"type\":\"user\",\"mess\n{}\n"].concat();
    fs::write(set.path("set/session.jsonl"), damaged).unwrap();
    set.batch(&["--dry-run"])
        .exits(0)
        .reports("warning: set/session.jsonl: line ")
        .reports("2 transcripts: 2 compacted");
}
