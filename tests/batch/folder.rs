//! What is found, in which order, how often, and what a nightly run does with what is done already.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use jp_compact_schema::report::Status::{Compacted, Skipped, Unchanged};
use serde_json::json;

use crate::set::{Set, name, read, statuses};
use crate::support::{Conversation, Transcript, World, grown};

#[test]
fn every_conversation_of_a_folder_is_compacted_and_told_of_in_order() {
    let set = Set::of(12);
    let ran = set.batch(&["--report", "r.json", "--jobs", "3"]).exits(0);
    assert_eq!(ran.text(), "");
    let report = set.report("r.json");
    let names: Vec<_> = report.transcripts.iter().map(name).collect();
    assert_eq!(names, ["a0", "a1", "a10", "a11", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"]);
    for transcript in &set.transcripts {
        assert_eq!(transcript.overlays().len(), 1);
    }
    let total = &report.total;
    assert_eq!((total.transcripts, total.compacted, total.overlays, total.failed), (12, 12, 12, 0));
    assert!(report.complete && !report.dry_run);
    let all = total.size.all;
    let sum: u64 = report.transcripts.iter().map(|told| told.size.all.tokens.after).sum();
    assert_eq!(all.tokens.after, sum);
    assert!(all.tokens.before > sum && all.bytes.before > all.bytes.after);
    let by_type: u64 = total.size.by_type.values().map(|of| of.bytes.before).sum();
    assert_eq!(by_type, all.bytes.before);
    assert_eq!(total.size.by_tool.keys().collect::<Vec<_>>(), ["fs_read_file"]);
    let overlay = &report.transcripts[0].overlays[0];
    assert_eq!((&*overlay.strategy, &*overlay.version), ("strip-tools", env!("CARGO_PKG_VERSION")));
    assert_eq!((overlay.from_turn, overlay.to_turn, overlay.executable_sha256.len()), (0, 1, 64));
    assert!(ran.stderr.starts_with("12 transcripts: 12 compacted; JP sends a model "), "{}", ran.stderr);
    assert_eq!(set.files("").iter().filter(|name| name.contains(".part")).count(), 0);
}

#[test]
fn threads_do_not_change_what_is_written() {
    let bytes = |jobs: &str| {
        let set = Set::of(7);
        set.batch(&["--strategy", "micro:min_bytes=10", "--jobs", jobs]).exits(0);
        set.transcripts.iter().map(Transcript::now).collect::<Vec<_>>()
    };
    assert_eq!(bytes("1"), bytes("4"));
}

#[test]
fn a_dry_run_tells_the_same_and_writes_nothing() {
    let set = Set::of(3);
    set.batch(&["--dry-run", "--report", "dry.json"]).exits(0).says("(a dry run)");
    set.assert_untouched();
    set.batch(&["--report", "wet.json"]).exits(0);
    let (dry, wet) = (set.report("dry.json"), set.report("wet.json"));
    assert!(dry.dry_run);
    assert_eq!(dry.total.size, wet.total.size);
    assert_eq!(statuses(&dry), statuses(&wet));
}

#[test]
fn a_nightly_run_stacks_nothing_and_does_again_what_has_grown() {
    let set = Set::of(3);
    set.batch(&[]).exits(0);
    let after = set.transcripts[0].now();
    let event = json!({"timestamp": "2026-07-01 00:00:00.0", "type": "turn_start"});
    let ask = json!({"timestamp": "2026-07-01 00:00:01.0", "type": "chat_request", "content": "More?"});
    let say = json!({"timestamp": "2026-07-01 00:00:02.0", "type": "chat_response", "message": "No."});
    let more = [event, ask, say].iter().fold(set.transcripts[1].now(), |bytes, event| grown(&bytes, event));
    fs::write(&set.transcripts[1].path, &more).unwrap();

    let ran = set.batch(&["--report", "r.json"]).exits(0).says("1 compacted, 2 skipped");
    assert_eq!(ran.text(), "");
    let report = set.report("r.json");
    assert_eq!(statuses(&report), [("a0", Skipped), ("a1", Compacted), ("a2", Skipped)]);
    assert!(report.transcripts[0].declines[0].reason.contains("overlay 1"));
    assert_eq!(set.transcripts[0].now(), after);
    assert!(set.transcripts[1].now().len() > more.len());
    // And the night after that there is nothing left at all.
    set.batch(&[]).exits(0).says("3 skipped");
}

#[test]
fn other_turns_or_options_are_no_reason_to_skip() {
    let set = Set::of(1);
    set.batch(&[]).exits(0).says("1 compacted");
    set.batch(&["--keep-last", "1"]).exits(0).says("1 compacted");
    set.batch(&["--keep-last", "1"]).exits(0).says("1 skipped");
    let omit = ["batch", "set", "--strategy", "strip-tools:mode=omit", "--keep-last", "1"];
    set.world.run(&omit).exits(0).says("1 compacted");
    set.world.run(&omit).exits(0).says("1 skipped");
}

#[test]
fn what_was_declined_is_asked_again_and_costs_nothing() {
    let set = Set::of(1);
    let both = ["--strategy", "strip-reasoning", "--report", "r.json"];
    set.batch(&both).exits(0).says("1 compacted");
    let after = set.transcripts[0].now();
    set.batch(&both).exits(0).says("1 skipped");
    assert_eq!(set.transcripts[0].now(), after);
    let report = set.report("r.json");
    let strategies: Vec<_> = report.transcripts[0].declines.iter().map(|told| &*told.strategy).collect();
    assert_eq!(strategies, ["strip-tools", "strip-reasoning"]);
}

#[test]
fn a_transcript_that_is_named_twice_counts_once() {
    let set = Set::of(2);
    symlink("set", set.path("link")).unwrap();
    let words = ["batch", "set", "set/a0", "./set/a1/events.json", "link", "--strategy", "strip-tools"];
    set.world.run(&words).exits(0).says("2 transcripts: 2 compacted");
    assert!(set.transcripts.iter().all(|transcript| transcript.overlays().len() == 1));
}

#[test]
fn folders_are_searched_as_git_sees_them() {
    let set = Set::of(2);
    set.world.conversation("set/ignored/x", &Conversation::bulky(6));
    set.world.conversation("set/.hidden/x", &Conversation::bulky(6));
    set.world.file("set/.gitignore", b"ignored/\n");
    for beside in ["events.json.jp-compact.json", ".events.json.jp-compact"] {
        set.world.file(&format!("set/a0/{beside}"), b"{}");
    }
    set.batch(&["-n"]).exits(0).says("2 transcripts");
}

#[test]
fn a_workspace_gives_its_conversations_though_git_does_not_see_them() {
    let world = World::new();
    world.file("ws/.gitignore", b".jp\n");
    for number in 0..3 {
        world.conversation(&format!("ws/.jp/conversations/1773839946{number}-c"), &Conversation::bulky(6));
    }
    let words = ["batch", "ws", "--strategy", "strip-tools", "--json"];
    let ran = world.run(&words).exits(0);
    let report = read(&ran.stdout);
    let ids: Vec<_> =
        report.transcripts.iter().map(|told| told.conversation_id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["17738399460", "17738399461", "17738399462"]);
}

#[test]
fn a_pattern_is_a_path_for_a_shell_that_leaves_it_alone() {
    let set = Set::of(3);
    let found = |pattern: &str| {
        let ran = set.world.run(&["batch", pattern, "-n", "--strategy", "strip-tools", "--json"]).exits(0);
        read(&ran.stdout).transcripts.iter().map(|told| name(told).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("set/a[01]"), ["a0", "a1"]);
    assert_eq!(found("set/*/events.json"), ["a0", "a1", "a2"]);
    assert_eq!(found("**/a2/*.json"), ["a2"]);
}

#[test]
fn a_missing_folder_is_one_failure() {
    let world = World::new();
    fs::create_dir(world.path("set")).unwrap();
    let ran = world.run(&["batch", "set", "gone", "--strategy", "strip-tools", "--json"]).exits(19);
    let report = read(&ran.says("failed: gone: ").stdout);
    assert_eq!((report.total.transcripts, report.total.failed), (1, 1));
}

#[test]
fn the_parts_are_all_of_it_each_once() {
    let set = Set::of(9);
    let mut found = BTreeSet::new();
    let mut count = 0;
    for part in ["0/3", "1/3", "2/3"] {
        let ran = set.batch(&["-n", "--json", "--shard", part]).exits(0);
        let report = read(&ran.stdout);
        assert_eq!(report.shard.unwrap().of, 3);
        count += report.transcripts.len();
        found.extend(report.transcripts.iter().map(|told| told.path.clone()));
    }
    assert_eq!((count, found.len()), (9, 9));
    set.batch(&["--shard", "3/3"]).exits(2).says("3 is not below 3");
}

#[test]
fn names_may_be_anything_that_a_file_may_be_called() {
    let world = World::new();
    let names: [&[u8]; 3] = [b"new\nline", b"not \xff utf-8", b"\x1b[2J <&\">"];
    for name in names {
        let folder = world.path("set").join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("events.json"), Conversation::bulky(6).bytes()).unwrap();
    }
    let bad = world.path("set").join(std::ffi::OsStr::from_bytes(b"bad \x07\xfe"));
    fs::create_dir_all(&bad).unwrap();
    fs::write(bad.join("events.json"), "{").unwrap();
    let words = [
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
    let ran = world.run(&words).exits(19);
    assert!(!ran.stderr.contains(['\x07', '\x1b']), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
    let report = read(&fs::read(world.path("r.json")).unwrap());
    assert_eq!((report.total.compacted, report.total.failed), (3, 1));
    let odd = report.transcripts.iter().find(|told| told.path.contains("utf-8")).unwrap();
    assert_eq!(odd.path_base64.as_deref(), Some("c2V0L25vdCD/IHV0Zi04L2V2ZW50cy5qc29u"));
    let junit = fs::read_to_string(world.path("j.xml")).unwrap();
    assert!(junit.contains(r#"name="set/\u{1b}[2J &lt;&amp;&quot;&gt;/events.json""#), "{junit}");
    assert!(!junit.contains(['\x07', '\x1b']));
    let view = Path::new("views").join(std::ffi::OsStr::from_bytes(names[1])).join("events.json");
    assert!(world.path("here").parent().unwrap().join(view).is_file());
    // And again: what could not be told apart as text is told apart.
    world.run(&[&words[..], &["--resume"]].concat()).exits(19).says("3 of them before");
}

#[test]
fn a_profile_is_that_of_each_transcript_s_workspace() {
    let world = World::new();
    for (workspace, keep) in [("one", 0), ("two", 9)] {
        let folder = format!("set/{workspace}/.jp/conversations/17738399468-c");
        world.conversation(&folder, &Conversation::bulky(6));
        let config = format!("[conversation.compaction]\nkeep_last = {keep}\n");
        world.file(&format!("set/{workspace}/.jp-compact.toml"), config.as_bytes());
    }
    let ran = world.run(&["batch", "set", "--json"]).exits(0);
    let report = read(&ran.stdout);
    let told: Vec<_> = report.transcripts.iter().map(|told| told.status).collect();
    assert_eq!(told, [Compacted, Unchanged]);
    assert!(report.transcripts[1].notes[0].contains('9'), "{:?}", report.transcripts[1].notes);
}

#[test]
fn transcripts_of_other_agents_are_found_by_what_they_hold() {
    let set = Set::of(1);
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("host/core/tests/formats/samples");
    let session = fs::read(samples.join("claude-code.jsonl")).unwrap();
    let path = set.world.file("set/project/session.jsonl", &session);
    for (name, text) in [("package.json", "{\"a\": 1}"), ("list.json", "[1, 2]"), ("log.jsonl", "{}\n{}\n")] {
        set.world.file(&format!("set/{name}"), text.as_bytes());
    }
    set.batch(&["--keep-last", "1", "--report", "r.json"]).exits(0).says("2 transcripts: 2 compacted");
    assert_eq!(fs::read(&path).unwrap(), session);
    assert!(set.path("set/project/.session.jsonl.jp-compact").is_file());
    set.batch(&["--keep-last", "1"]).exits(0).says("2 skipped");
    set.batch(&["--keep-last", "1", "--out", "views"]).exits(0);
    let view = fs::read(set.path("views/project/session.jsonl")).unwrap();
    let ran =
        set.world.run(&["print", "set/project/session.jsonl", "--compacted", "--as", "source"]).exits(0);
    assert!(ran.stdout == view);
}
