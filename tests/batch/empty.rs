//! A batch over nothing: no gate is met, unless there may be nothing, or another shard has it.

use std::fs;

use jp_compact_schema::report::BatchReport;

use crate::set::{Set, read};
use crate::support::World;

const GATES: [&[&str]; 5] = [
    &["--require-saving", "0"],
    &["--require-valid", "all"],
    &["--require-fit", "1000"],
    &["--forbid-growth"],
    &["--max-failures", "9"],
];

/// A folder with files in it, none of which is a transcript.
fn nothing() -> World {
    let world = World::new();
    world.file("set/package.json", b"{\"name\": \"garden\"}");
    world.file("set/notes.txt", b"nothing\n");
    world
}

/// Runs a batch over `set`: the exit code, what is reported, and how its gates came out.
#[track_caller]
fn check(world: &World, more: &[&str], code: i32, says: &str, gates: &[(bool, &str)]) -> BatchReport {
    let words = [&["batch", "set", "-n", "-s", "strip-tools", "--json"], more].concat();
    let ran = world.run(&words).exits(code).says(says);
    let report = read(&ran.stdout);
    let found: Vec<_> = report.gates.iter().map(|gate| (gate.met, &*gate.found)).collect();
    assert_eq!(found, gates, "{more:?}");
    report
}

#[test]
fn a_gate_over_nothing_is_not_met() {
    let world = nothing();
    for gate in GATES {
        let report = check(&world, gate, 3, "is not met: wanted", &[(false, "no transcript")]);
        assert!(report.complete && report.transcripts.is_empty());
        world.run(&[&["batch", "set", "--junit", "j.xml"], gate].concat()).exits(3);
        let junit = fs::read_to_string(world.path("j.xml")).unwrap();
        assert!(junit.contains(r#"failures="1""#) && junit.contains("found no transcript"), "{junit}");
    }
}

#[test]
fn a_path_that_is_not_there_meets_no_gate() {
    let world = World::new();
    for gate in GATES {
        let ran = world.run(&[&["batch", "gone", "-n", "-s", "strip-tools"], gate].concat()).exits(3);
        ran.says("failed: gone: ").says("found no transcript");
    }
}

#[test]
fn nothing_without_a_gate_is_an_error() {
    let world = nothing();
    check(&world, &[], 4, "error: there is no transcript in set", &[]);
    fs::create_dir(world.path("none")).unwrap();
    world.run(&["batch", "none", "set", "-s", "strip-tools"]).exits(4).says("in none, set");
}

#[test]
fn nothing_may_be_allowed() {
    let world = nothing();
    check(&world, &["--allow-empty"], 0, "0 transcripts", &[]);
    for gate in GATES {
        check(&world, &[gate, &["--allow-empty"]].concat(), 0, "0 transcripts", &[(true, "no transcript")]);
    }
}

#[test]
fn a_shard_may_be_empty_where_the_whole_is_not() {
    let set = Set::of(1);
    let empty = ["0/2", "1/2"].into_iter().find(|shard| {
        let ran = set.batch(&["-n", "--json", "--shard", shard]).exits(0);
        read(&ran.stdout).transcripts.is_empty()
    });
    let empty = empty.unwrap();
    for gate in GATES {
        let words = [gate, &["--shard", empty]].concat();
        check(&set.world, &words, 0, "0 transcripts", &[(true, "nothing in this shard")]);
    }
}

#[test]
fn every_shard_of_nothing_is_empty() {
    let world = nothing();
    for shard in ["0/3", "1/3", "2/3"] {
        check(&world, &["--shard", shard], 4, "there is no transcript", &[]);
        let words = ["--shard", shard, "--require-saving", "0"];
        check(&world, &words, 3, "gate require-saving is not met", &[(false, "no transcript")]);
    }
}

#[test]
fn a_gate_over_failures_alone_is_not_met() {
    let world = World::new();
    world.raw("set/a", b"{}");
    let found = [(false, "no transcript that did not fail"), (true, "1 transcript failed")];
    check(&world, &["--require-saving", "0", "--max-failures", "1"], 3, "require-saving is not met", &found);
    check(&world, &["--max-failures", "1"], 0, "1 failed", &[(true, "1 transcript failed")]);
}

#[test]
fn a_stream_without_a_record_is_like_a_folder_without_a_transcript() {
    let world = World::new();
    let words = ["batch", "--ndjson", "-s", "strip-tools"];
    for stream in [&b""[..], b"\n\n  \n"] {
        let pipe = |more: &[&str], code: i32| world.pipe(&[&words[..], more].concat(), stream).exits(code);
        pipe(&[], 4).says("there is no record on stdin");
        pipe(&["--fail-on-error"], 3).says("there is no record on stdin");
        pipe(&["--allow-empty"], 0);
        pipe(&["--allow-empty", "--fail-on-error"], 0);
    }
    // An answer that is an error is an answer.
    world.pipe(&words, b"x\n").exits(0);
}
