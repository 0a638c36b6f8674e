//! `--resume`: a run that continues an earlier one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use jp_compact_schema::report::BatchReport;
use jp_compact_schema::report::Status::{Compacted, Failed};

use serde_json::json;

use crate::set::{Set, statuses};
use crate::support::{CommandOutput, Conversation};

/// Clears the fields that differ between runs.
fn without_times(mut report: BatchReport) -> BatchReport {
    report.total.elapsed_ms = 0.0;
    report.total.resumed = 0;
    report.transcripts.iter_mut().for_each(|entry| entry.elapsed_ms = 0.0);
    report
}

#[test]
fn resume_skips_finished_work_and_writes_a_complete_report() {
    let set = Set::new(4);
    set.world.write_events("set/b", b"{}");
    let args = ["--out", "views", "--report", "r.json"];
    set.batch(&args).exits(19);
    let before = set.report("r.json");
    let resume = [&args[..], &["--resume"]].concat();
    set.batch(&resume).exits(19).reports("4 compacted, 1 failed, 4 of them in an earlier run");
    assert_eq!(without_times(set.report("r.json")), without_times(before.clone()));

    // Repaired and changed transcripts are compacted. A missing view is written again. A changed view is
    // kept.
    fs::write(set.path("set/b/events.json"), set.transcripts[0].original_bytes()).unwrap();
    fs::write(&set.transcripts[1].path, set.transcripts[0].original_bytes()).unwrap();
    fs::remove_file(set.path("views/a2/events.json")).unwrap();
    fs::write(set.path("views/a3/events.json"), "mine").unwrap();
    set.batch(&resume).exits(19).reports("4 compacted, 1 failed, 1 of them in an earlier run");
    let report = set.report("r.json");
    let expected =
        [("a0", Compacted), ("a1", Compacted), ("a2", Compacted), ("a3", Failed), ("b", Compacted)];
    assert_eq!(statuses(&report), expected);
    let read_view = |name: &str| fs::read(set.path(&format!("views/{name}/events.json"))).unwrap();
    assert_eq!(read_view("a1"), read_view("a0"));
    assert_eq!(read_view("a3"), b"mine");
}

#[test]
fn resume_replaces_the_view_of_a_transcript_that_failed_once() {
    let set = Set::new(2);
    let options = ["--out", "views", "--report", "r.json", "--resume"];
    set.batch(&options).exits(0);
    let view = set.report("r.json").transcripts[0].out.clone();
    fs::write(&set.transcripts[0].path, "{}").unwrap();
    set.batch(&options).exits(19).reports("1 compacted, 1 failed, 1 of them in an earlier run");
    assert_eq!(set.report("r.json").transcripts[0].out, view);
    fs::write(&set.transcripts[0].path, set.transcripts[1].original_bytes()).unwrap();
    set.batch(&options).exits(0).reports("2 compacted, 1 of them in an earlier run");
    let read_view = |name: &str| fs::read(set.path(&format!("views/{name}/events.json"))).unwrap();
    assert_eq!(read_view("a0"), read_view("a1"));
}

#[test]
fn resume_continues_the_partial_report_of_a_killed_run() {
    let set = Set::new(3);
    set.batch(&["--report", "r.json"]).exits(0);
    // The partial file as a killed run leaves it, with an incomplete last line.
    let text = fs::read_to_string(set.path("r.json")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let head = lines[0].strip_suffix(",\"transcripts\":[").unwrap();
    let part = format!("{head}}}\n{}\n{}", lines[1].trim_end_matches(','), &lines[2][..100]);
    fs::remove_file(set.path("r.json")).unwrap();
    fs::write(set.path("r.json.part"), part).unwrap();
    set.batch(&["--report", "r.json", "--resume"])
        .exits(0)
        .reports("1 compacted, 2 skipped, 1 of them in an earlier run");
    assert!(set.report("r.json").complete);
    assert!(!set.path("r.json.part").exists());
}

#[test]
fn resume_rejects_a_file_that_is_not_a_batch_report() {
    let set = Set::new(1);
    set.world.write_file("r.json", b"{\"mine\": true}\n");
    set.batch(&["--report", "r.json", "--resume"]).exits(4).reports("it is not a batch report");
    assert_eq!(fs::read(set.path("r.json")).unwrap(), b"{\"mine\": true}\n");
    set.assert_untouched();
    set.batch(&["--report", "dry.json", "-n"]).exits(0);
    set.batch(&["--report", "dry.json", "--resume"]).exits(4).reports("cannot resume from a dry-run report");
    set.batch(&["--resume"]).exits(2);
}

#[test]
fn resume_without_out_appends_what_a_run_with_out_did_not() {
    let set = Set::new(2);
    set.batch(&["--out", "views", "--report", "r.json"]).exits(0);
    set.assert_untouched();
    set.batch(&["--report", "r.json", "--resume"]).exits(0).reports("2 transcripts: 2 compacted");
    assert!(set.transcripts.iter().all(|transcript| transcript.overlays().len() == 1));
}

#[test]
fn resume_skips_finished_work_of_a_dry_run_with_out() {
    let set = Set::new(2);
    let options = ["--out", "views", "--report", "r.json", "--resume", "-n"];
    set.batch(&options).exits(0);
    set.batch(&options).exits(0).reports("2 of them in an earlier run");
    assert!(!set.path("views").exists());
}

#[test]
fn resume_evaluates_the_gates_of_the_new_run() {
    let set = Set::new(2);
    let report = ["--report", "r.json"];
    let resume = |gate: &[&str]| set.batch(&[&report[..], &["--resume"], gate].concat());
    set.batch(&report).exits(0);
    resume(&["--require-fit", "1"])
        .exits(3)
        .reports("2 of them in an earlier run")
        .reports("found 2 failing transcripts");
    assert_eq!(set.report("r.json").transcripts[0].gates[0].gate, "require-fit");
    resume(&["--require-fit", "100000", "--forbid-growth"]).exits(0).reports("2 of them in an earlier run");
    assert!(set.report("r.json").transcripts[0].gates.is_empty());
}

#[test]
fn resume_repeats_a_run_that_did_not_make_the_checks() {
    let set = Set::new(1);
    let report = ["--report", "r.json", "-n"];
    let resume = |gate: &[&str]| set.batch(&[&report[..], &["--resume"], gate].concat()).exits(0);
    let assert_resumed = |output: CommandOutput, resumed: bool| {
        assert_eq!(output.stderr.contains("in an earlier run"), resumed, "{}", output.stderr);
    };
    set.batch(&report).exits(0);
    assert_resumed(resume(&["--require-valid", "all"]), false);
    assert_resumed(resume(&["--require-valid", "gemini"]), true);
    assert_resumed(resume(&["--require-constraints"]), false);
    assert_resumed(resume(&["--require-constraints"]), true);
}

#[test]
fn resume_counts_the_violations_of_the_earlier_run() {
    let set = Set::new(1);
    let response = json!({"id": "unknown", "content": "", "is_error": false});
    let conversation = Conversation::bulky(5).turn("And?").message("So.");
    let invalid = conversation.event("tool_call_response", response).message("Yes.");
    set.world.write_conversation("set/a0", &invalid);
    let batch = |extra: &[&str]| set.batch(&[&["--report", "r.json", "-n"], extra].concat());
    batch(&["--require-valid", "all"]).exits(3);
    let common = batch(&["--resume"]).exits(0).stderr;
    assert!(common.contains("1 of them in an earlier run"), "{common}");
    batch(&["--resume", "--require-valid", "openai"]).exits(3).reports("1 of them in an earlier run");
}

#[test]
fn only_the_user_may_read_reports() {
    let set = Set::new(1);
    set.batch(&["--report", "r.json", "--junit", "j.xml"]).exits(0);
    for name in ["r.json", "j.xml"] {
        assert_eq!(fs::metadata(set.path(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
}
