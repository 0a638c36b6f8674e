//! Gates. Each gate is tested when it is met and when it is not. The report names it, and a gate
//! that is not met undoes no work.

use serde_json::json;

use crate::set::{NOW, Set, parse_report};
use crate::support::{Conversation, Transcript};

/// Runs with one gate and checks the exit code, whether the gate is met, and the reported finding.
#[track_caller]
fn check(set: &Set, flags: &[&str], code: i32, finding: &str) {
    let output = set.batch(&[flags, &["--json", "-n"]].concat()).exits(code);
    let gates = parse_report(&output.stdout).gates;
    assert_eq!(gates.len(), 1, "{gates:?}");
    let gate = &gates[0];
    assert_eq!((gate.met, &*gate.found), (code != 3, finding));
    assert_eq!(format!("--{}", gate.gate), flags[0]);
    let line = format!("gate {} not met: wanted {}, found {finding}\n", gate.gate, gate.wanted);
    assert_eq!(output.stderr.ends_with(&line), code == 3, "{}", output.stderr);
}

#[test]
fn saving_is_measured_over_all_transcripts() {
    let set = Set::new(3);
    let saved = parse_report(&set.batch(&["--json", "-n"]).stdout).total.saved.percent;
    assert!((20.0..80.0).contains(&saved), "{saved}");
    let finding = format!("{saved:.1} %");
    check(&set, &["--require-saving", "20"], 0, &finding);
    check(&set, &["--require-saving", "80"], 3, &finding);
    set.batch(&["--require-saving", "101"]).exits(2);
}

#[test]
fn saving_is_not_rounded() {
    let set = Set::new(3);
    let total = parse_report(&set.batch(&["--json", "-n"]).stdout).total;
    let exact = total.saved.tokens as f64 * 100.0 / total.size.tokens.raw as f64;
    set.batch(&["-n", "--require-saving", &format!("{:.6}", exact - 1e-5)]).exits(0);
    set.batch(&["-n", "--require-saving", &format!("{:.6}", exact + 1e-5)]).exits(3);
}

#[test]
fn saving_of_an_earlier_run_counts() {
    let set = Set::new(2);
    set.batch(&["--require-saving", "20"]).exits(0).reports("2 compacted");
    set.batch(&["--require-saving", "20"]).exits(0).reports("2 skipped");
}

#[test]
fn require_fit_checks_each_view() {
    let set = Set::new(3);
    let report = parse_report(&set.batch(&["--json", "-n"]).stdout);
    let mut sizes: Vec<_> = report.transcripts.iter().map(|entry| entry.size.tokens.view_after).collect();
    sizes.sort_unstable();
    check(&set, &["--require-fit", &sizes[2].to_string()], 0, "0 failing transcripts");
    check(&set, &["--require-fit", &sizes[1].to_string()], 3, "1 failing transcript");
    set.batch(&["-n", "--require-fit", "1"])
        .exits(3)
        .reports("gate require-fit: set/a0/events.json: the view has ");
}

#[test]
fn failed_gate_undoes_nothing() {
    let set = Set::new(2);
    set.batch(&["--require-fit", "1"]).exits(3);
    assert!(set.transcripts.iter().all(|transcript| transcript.overlays().len() == 1));
}

#[test]
fn require_valid_checks_each_view() {
    let set = Set::new(2);
    check(&set, &["--require-valid", "anthropic"], 0, "0 failing transcripts");
    let conversation = Conversation::bulky(5).turn("And?").message("So.");
    let response = json!({"id": "unknown", "content": "", "is_error": false});
    set.world
        .write_conversation("set/b", &conversation.event("tool_call_response", response).message("Yes."));
    check(&set, &["--require-valid", "anthropic"], 3, "1 failing transcript");
    set.batch(&["-n", "--require-valid", "openai"])
        .exits(3)
        .reports("gate require-valid: set/b/events.json: G1");
}

/// A strategy whose summary is longer than the events that it replaces.
const LONG: &str = r#"text=$(head -c 60000 /dev/zero | tr '\0' x)
sed -n 's/^{"type":"compact","id":"\([^"]*\)".*"requested_range":\({[^}]*\)}.*/{"type":"result","id":"\1","compactions":[\2,"summary":{"summary":"'$text'"}}]}/p' | head -n 1"#;

#[test]
fn forbid_growth_fails_for_a_longer_view() {
    let set = Set::new(1);
    check(&set, &["--forbid-growth"], 0, "0 failing transcripts");
    set.world.write_script("plugins/long", &long_summary_strategy());
    let args = ["batch", "set", "--strategy", "long", "--trust-dir", "plugins", "--sandbox=contained"];
    let output =
        set.world.run(&[&args[..], &["--restore", "--forbid-growth", "--now", NOW]].concat()).exits(3);
    let output = output.reports("gate forbid-growth: set/a0/events.json: the view grew from ");
    output.reports("gate forbid-growth not met: wanted no growth, found 1 failing transcript");
    assert_eq!(Transcript::capture(set.path("set/a0/events.json")).current_bytes().len() / 10_000, 7);
}

fn long_summary_strategy() -> String {
    crate::support::plugin_script("long", &json!({"produces": ["summary"], "input": "none"}), LONG)
}

#[test]
fn max_failures_limits_the_number_of_failures() {
    let set = Set::new(3);
    set.world.write_events("set/b", b"{}");
    set.world.write_events("set/c", b"");
    set.batch(&["-n"]).exits(19).reports("3 compacted, 2 failed");
    check(&set, &["--max-failures", "2"], 0, "2 transcripts failed");
    check(&set, &["--max-failures", "1"], 3, "2 transcripts failed");
    // A failed gate takes precedence over failed transcripts in the exit code.
    set.batch(&["-n", "--require-saving", "99"]).exits(3);
    set.batch(&["-n", "--require-saving", "10"]).exits(19);
}
