//! Faults during a batch: a strategy, a file, the disk, or the reader of the output fails. Finished work is
//! kept, no file is partial, and no process remains.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

use jp_compact_schema::report::{Status, TranscriptReport};

use crate::processes;
use crate::set::{Set, folder_name};
use crate::support::{CommandOutput, Conversation, World};

/// Shell code that declines every request.
const DECLINE: &str =
    r#"sed -n 's/^{"type":"compact","id":"\([^"]*\)".*/{"type":"decline","id":"\1","reason":"no"}/p'"#;

/// Options that run the strategies in `plugins/` without a jail.
const TRUSTED_UNCONFINED: [&str; 3] = ["--trust-dir", "plugins", "--sandbox=contained"];

/// Returns the folder, the exit code, and the error of each failed transcript.
fn failures(entries: &[TranscriptReport]) -> Vec<(&str, u8, String)> {
    let mut failures = Vec::new();
    for entry in entries {
        if let Some(error) = &entry.error {
            failures.push((folder_name(entry), error.code, format!("{error:?}")));
        }
    }
    failures
}

#[test]
fn faulty_strategy_fails_only_the_transcripts_it_breaks_on() {
    let set = Set::new(4);
    for (folder, turns) in [("crash", 9), ("hang", 10), ("nonsense", 11), ("flood", 12)] {
        set.world.write_conversation(&format!("set/{folder}"), &Conversation::bulky(turns));
    }
    let pipe = set.path("never");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    // The number of turns selects the fault.
    let run = format!(
        "line=$(cat)\ncase \"$line\" in\n*'\"turns\":9,'*) kill -9 $$ ;;\n*'\"turns\":10,'*) exec cat '{}' ;;\n\
         *'\"turns\":11,'*) echo what; exit 0 ;;\n*'\"turns\":12,'*) exec yes ;;\nesac\necho \"$line\" | {DECLINE}",
        pipe.display()
    );
    set.world.write_plugin("fragile", &run);
    let args = [&["-s", "fragile", "--deadline=10s", "--report", "r.json"], &TRUSTED_UNCONFINED[..]].concat();
    let output =
        set.batch(&args).exits(19).reports("failed: set/crash/events.json: strategy `fragile` failed");
    assert_eq!(output.stderr.lines().count(), 5, "{}", output.stderr);
    let report = set.report("r.json");
    let failures = failures(&report.transcripts);
    let codes: Vec<_> = failures.iter().map(|(name, code, _)| (*name, *code)).collect();
    // The flood may exceed the limit of output or the deadline first.
    let flood = codes.iter().find(|(name, _)| *name == "flood").unwrap().1;
    assert!((13..=15).contains(&flood), "{failures:?}");
    assert_eq!(codes, [("crash", 13), ("flood", flood), ("hang", 14), ("nonsense", 15)]);
    assert_eq!(report.total.compacted, 4);
    assert_eq!(processes::running_below(&set.path("")), Vec::<String>::new());
}

#[test]
fn vanished_file_is_reported_and_the_others_are_compacted() {
    // A batch does not open 60 transcripts at the same time. The strategy removes the first file, which is
    // open, and the last one, which is not.
    let set = Set::new(60);
    let run = format!(
        "if mkdir '{0}.begun' 2>/dev/null; then rm '{0}/a0/events.json' '{0}/a9/events.json'; fi\n{DECLINE}",
        set.path("set").display()
    );
    set.world.write_plugin("removes", &run);
    let args = [&["-s", "removes", "-j", "1", "--report", "r.json"], &TRUSTED_UNCONFINED[..]].concat();
    let output = set.batch(&args).exits(19);
    assert_eq!(output.stderr.lines().count(), 3, "{}", output.stderr);
    let report = set.report("r.json");
    let failures = failures(&report.transcripts);
    let [(a0, 5, open_error), (a9, 4, unopened_error)] = failures.as_slice() else { panic!("{failures:?}") };
    assert_eq!((*a0, *a9), ("a0", "a9"));
    assert!(
        open_error.contains("removed") && unopened_error.contains("failed to find a transcript"),
        "{failures:?}"
    );
    assert_eq!(report.total.compacted, 58);
    assert_eq!(set.files("set/a0"), ["base_config.json"]);
}

#[test]
fn skipped_parts_of_a_transcript_are_reported_as_warnings() {
    let world = World::new();
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/host/transcripts/tests/formats/samples");
    let session = fs::read(format!("{samples}/claude-code.jsonl")).unwrap();
    world.write_file("set/torn.jsonl", &session[..session.len() - 20]);
    let rewound = world.write_file("set/rewound.jsonl", &session);
    let args = ["batch", "set", "--strategy", "strip-tools", "--keep-last", "1", "--report", "r.json"];
    let truncation_warning = "warning: set/torn.jsonl: line 30 is cut off and was skipped";
    assert_eq!(world.run(&args).exits(0).reports(truncation_warning).stderr.lines().count(), 2);
    let text = String::from_utf8(session).unwrap();
    fs::write(rewound, text.replacen("\"content\":\"", "\"content\":\"Please: ", 1)).unwrap();
    let output = world
        .run(&args)
        .exits(0)
        .reports(truncation_warning)
        .reports("warning: set/rewound.jsonl: 1 overlay is not applied");
    assert_eq!(output.stderr.lines().count(), 3, "{}", output.stderr);
    let report = crate::set::parse_report(&fs::read(world.path("r.json")).unwrap());
    let warnings: Vec<_> = report.transcripts.iter().map(|entry| entry.warnings.len()).collect();
    assert_eq!(warnings, [1, 1]);
    assert!(report.transcripts[1].warnings[0].starts_with("line 30 is cut off"));
    let quiet = [&args[..], &["--quiet"]].concat();
    assert_eq!(world.run(&quiet).exits(0).stderr, "");
}

/// Runs the command with `disk` mounted as a full disk that contains the files of `template`. Copies its
/// final files to `after`.
fn run_on_full_disk(set: &Set, args: &[&str]) -> Option<CommandOutput> {
    let probe = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no disk can be mounted here\n");
        return None;
    }
    fs::create_dir_all(set.path("disk")).unwrap();
    fs::create_dir_all(set.path("template")).unwrap();
    let script = "mount -t tmpfs -o size=1m none disk && cp -r template/. disk && { cat /dev/zero > disk/filler; \"$@\"; \
                  code=$?; rm disk/filler; cp -r disk after; exit $code; } 2>&1 | grep -v '^cat: ' >&2";
    let script = format!("set -o pipefail; {script}");
    let mut command = Command::new("unshare");
    command.args(["-rm", "bash", "-c", &script, "bash"]);
    command.arg(assert_cmd::cargo::cargo_bin!("jp-compact")).args(args);
    Some(set.world.finish(set.world.isolate(&mut command)))
}

#[test]
fn full_disk_leaves_every_transcript_unchanged() {
    let set = Set::new(3);
    fs::create_dir(set.path("template")).unwrap();
    fs::rename(set.path("set"), set.path("template/set")).unwrap();
    let args = ["batch", "disk/set", "-s", "strip-tools", "--report", "r.json"];
    let Some(output) = run_on_full_disk(&set, &args) else { return };
    assert_eq!(output.exits(19).stderr.matches("No space left on device").count(), 3);
    assert_eq!(set.report("r.json").total.failed, 3);
    assert_eq!(set.files("after/set"), set.files("template/set"));
    for transcript in &set.transcripts {
        let folder = transcript.folder().file_name().unwrap();
        let after = set.path("after/set").join(folder).join("events.json");
        assert!(fs::read(after).unwrap() == transcript.original_bytes());
    }
}

#[test]
fn full_disk_leaves_no_partial_view() {
    let set = Set::new(3);
    let args = Set::arguments(&["--out", "disk/views", "--report", "r.json"]);
    let Some(output) = run_on_full_disk(&set, &args) else { return };
    assert_eq!(output.exits(19).stderr.matches("No space left on device").count(), 3);
    let statuses = set.report("r.json").transcripts.into_iter().map(|entry| entry.status);
    assert!(statuses.into_iter().all(|status| status == Status::Failed));
    assert_eq!(set.files("after"), Vec::<String>::new());
    set.assert_untouched();
}

#[test]
fn full_disk_leaves_no_partial_report_and_the_next_run_resumes() {
    let set = Set::new(3);
    for flag in ["--report", "--junit"] {
        let Some(output) = run_on_full_disk(&set, &Set::arguments(&[flag, "disk/r"])) else { return };
        output.exits(4).reports("disk/r").reports("No space left on device");
        assert!(!set.path("after/r").exists());
        set.batch(&["--report", "after/r", "--resume"]).exits(0);
        assert_eq!(set.report("after/r").transcripts.len(), 3);
        fs::remove_dir_all(set.path("after")).unwrap();
    }
    assert!(set.transcripts.iter().all(|transcript| transcript.overlays().len() == 1));
}

#[test]
fn report_that_does_not_fit_on_the_disk_is_an_error() {
    let set = Set::new(2);
    for flag in ["--report", "--junit"] {
        let output = set.batch(&[flag, "/dev/full"]).exits(4);
        output.reports("/dev/full").reports("No space left on device");
    }
    set.batch(&["--report", "gone/r.json"]).exits(4).reports("gone/r.json");
    assert!(set.transcripts.iter().all(|transcript| transcript.overlays().len() == 1));
}

#[test]
fn reader_that_closes_the_pipe_does_not_stop_the_batch() {
    // Enough transcripts that their report does not fit into a pipe.
    let set = Set::new(160);
    let args = Set::arguments(&["--json"]);
    let mut child = set.world.spawn(set.world.command(&args).stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut first_byte = [0; 1];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first_byte).unwrap();
    assert!(!processes::running_below(&set.path("")).is_empty(), "it must still be writing");
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(processes::running_below(&set.path("")), Vec::<String>::new());
    assert!(set.transcripts.iter().all(|transcript| transcript.overlays().len() == 1));
}

#[test]
fn closed_stdout_does_not_stop_the_batch() {
    let set = Set::new(2);
    let mut shell = Command::new("/bin/sh");
    let bin = assert_cmd::cargo::cargo_bin("jp-compact");
    shell.args(["-c", &format!("exec {} {} | true", bin.display(), Set::arguments(&["--json"]).join(" "))]);
    set.world.finish(set.world.isolate(&mut shell)).exits(0);
    assert!(set.transcripts.iter().all(|transcript| transcript.overlays().len() == 1));
}
