//! Batches without a transcript: gates fail, unless `--allow-empty` is given or another shard has the
//! transcripts.

use std::fs;

use jp_compact_schema::report::BatchReport;

use crate::set::{Set, parse_report};
use crate::support::World;

const GATES: [&[&str]; 5] = [
    &["--require-saving", "0"],
    &["--require-valid", "all"],
    &["--require-fit", "1000"],
    &["--forbid-growth"],
    &["--max-failures", "9"],
];

/// Creates a folder of files that are not transcripts.
fn world_without_transcripts() -> World {
    let world = World::new();
    world.write_file("set/package.json", b"{\"name\": \"garden\"}");
    world.write_file("set/notes.txt", b"nothing\n");
    world
}

/// Runs a batch over `set` and checks the exit code, the message, and the outcome of the gates.
#[track_caller]
fn check(world: &World, extra: &[&str], code: i32, message: &str, gates: &[(bool, &str)]) -> BatchReport {
    let args = [&["batch", "set", "-n", "-s", "strip-tools", "--json"], extra].concat();
    let output = world.run(&args).exits(code).reports(message);
    let report = parse_report(&output.stdout);
    let findings: Vec<_> = report.gates.iter().map(|gate| (gate.met, &*gate.found)).collect();
    assert_eq!(findings, gates, "{extra:?}");
    report
}

#[test]
fn gates_fail_without_a_transcript() {
    let world = world_without_transcripts();
    for gate in GATES {
        let report = check(&world, gate, 3, "not met: wanted", &[(false, "no transcript")]);
        assert!(report.complete && report.transcripts.is_empty());
        world.run(&[&["batch", "set", "--junit", "j.xml"], gate].concat()).exits(3);
        let junit = fs::read_to_string(world.path("j.xml")).unwrap();
        assert!(junit.contains(r#"failures="1""#) && junit.contains("found no transcript"), "{junit}");
    }
}

#[test]
fn missing_paths_without_another_path_exit_with_4() {
    let set = Set::new(1);
    for arguments in
        [&["batch", "undo"][..], &["batch", "gone", "undo", "--allow-empty"], &["batch", "gone", "-n"]]
    {
        set.world
            .run(&[arguments, &["-s", "strip-tools"]].concat())
            .exits(4)
            .reports("failed: ")
            .reports(arguments[1])
            .reports(
                "hint: give a folder, a transcript, a pattern such as '*.jsonl', or the id of a conversation",
            );
    }
    // A path that exists is compacted, and the missing one is reported.
    set.world.run(&["batch", "undo", "set", "-s", "strip-tools"]).exits(19).reports("1 compacted, 1 failed");
}

#[test]
fn gates_fail_for_a_missing_path() {
    let world = World::new();
    for gate in GATES {
        let output = world.run(&[&["batch", "gone", "-n", "-s", "strip-tools"], gate].concat()).exits(3);
        output.reports("failed: gone: ").reports("found no transcript");
    }
}

#[test]
fn empty_batch_without_a_gate_is_an_error() {
    let world = world_without_transcripts();
    check(&world, &[], 4, "error: found no transcript in set", &[]);
    fs::create_dir(world.path("none")).unwrap();
    world.run(&["batch", "none", "set", "-s", "strip-tools"]).exits(4).reports("in none, set");
}

#[test]
fn allow_empty_accepts_an_empty_batch() {
    let world = world_without_transcripts();
    check(&world, &["--allow-empty"], 0, "0 transcripts", &[]);
    for gate in GATES {
        check(&world, &[gate, &["--allow-empty"]].concat(), 0, "0 transcripts", &[(true, "no transcript")]);
    }
}

#[test]
fn empty_shard_passes_when_another_shard_has_transcripts() {
    let set = Set::new(1);
    let empty_shard = ["0/2", "1/2"].into_iter().find(|shard| {
        let output = set.batch(&["-n", "--json", "--shard", shard]).exits(0);
        parse_report(&output.stdout).transcripts.is_empty()
    });
    let empty_shard = empty_shard.unwrap();
    for gate in GATES {
        let args = [gate, &["--shard", empty_shard]].concat();
        check(&set.world, &args, 0, "0 transcripts", &[(true, "nothing in this shard")]);
    }
}

#[test]
fn every_shard_of_an_empty_batch_fails() {
    let world = world_without_transcripts();
    for shard in ["0/3", "1/3", "2/3"] {
        check(&world, &["--shard", shard], 4, "found no transcript", &[]);
        let args = ["--shard", shard, "--require-saving", "0"];
        check(&world, &args, 3, "gate require-saving not met", &[(false, "no transcript")]);
    }
}

#[test]
fn saving_gate_fails_when_every_transcript_failed() {
    let world = World::new();
    world.write_events("set/a", b"{}");
    let findings = [(false, "no successful transcript"), (true, "1 transcript failed")];
    check(&world, &["--require-saving", "0", "--max-failures", "1"], 3, "require-saving not met", &findings);
    check(&world, &["--max-failures", "1"], 0, "1 failed", &[(true, "1 transcript failed")]);
}

#[test]
fn stream_without_records_is_an_error_like_an_empty_folder() {
    let world = World::new();
    let args = ["batch", "--ndjson", "-s", "strip-tools"];
    for input in [&b""[..], b"\n\n  \n"] {
        let run =
            |extra: &[&str], code: i32| world.run_with_stdin(&[&args[..], extra].concat(), input).exits(code);
        run(&[], 4).reports("stdin has no record");
        run(&["--fail-on-error"], 3).reports("stdin has no record");
        run(&["--allow-empty"], 0);
        run(&["--allow-empty", "--fail-on-error"], 0);
    }
    // An error answer counts as an answer.
    world.run_with_stdin(&args, b"x\n").exits(0);
}

#[test]
fn missing_path_is_a_failure_even_if_an_empty_batch_is_allowed() {
    let world = world_without_transcripts();
    let args = ["batch", "missing", "-s", "strip-tools", "--max-failures", "0"];
    for extra in [&[][..], &["--allow-empty"]] {
        let output = world.run(&[&args[..], extra].concat());
        output.exits(3).reports("gate max-failures not met: wanted 0, found 1 transcript failed");
    }
}
