//! Failing strategies and invalid replies. Each case prints one error, has the exit code of its kind, and leaves the
//! transcript unchanged.

use std::fs;

use serde_json::json;

use crate::support::{CommandOutput, Conversation, DECLINE, STRIP, World, plugin_script};

/// Checks that a strategy with these lines fails with this exit code and message.
#[track_caller]
fn check_failure(run: &str, code: i32, message: &str) -> CommandOutput {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(2));
    world.write_plugin("odd", run);
    let output = world.run_plugin("odd", &["--deadline", "60s"]).exits(code).reports(message);
    let first = output.stderr.lines().next().unwrap_or_default();
    assert!(first.starts_with("error: ") && first.contains("strategy `odd` "), "{}", output.stderr);
    assert_eq!(output.stderr.matches("error: ").count(), 1, "{}", output.stderr);
    assert!(!output.stderr.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{:?}", output.stderr);
    transcript.assert_untouched();
    output
}

/// Checks that a result with these compactions is rejected.
#[track_caller]
fn check_rejected(compactions: &str, message: &str) {
    check_failure(
        &format!(r#"echo '{{"type":"result","id":"c1","compactions":{compactions}}}'"#),
        17,
        message,
    );
}

/// Checks that a result with this compaction is not a valid message.
#[track_caller]
fn check_violation(compaction: &str) {
    let line = format!(r#"{{"type":"result","id":"c1","compactions":[{compaction}]}}"#);
    check_failure(&format!("echo '{line}'"), 15, "is not a valid message");
}

#[test]
fn crash_prints_stderr() {
    check_failure("echo first words >&2; echo last words >&2; exit 3", 13, "last words");
    check_failure("exit 3", 13, "it ended with exit code 3 without an answer");
}

#[test]
fn crash_prints_last_lines_of_long_stderr() {
    let output = check_failure(
        "i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo line $i. >&2; done; exit 1",
        13,
        "line 60.",
    );
    assert!(output.stderr.contains("line 21.") && !output.stderr.contains("line 20."), "{}", output.stderr);
}

#[test]
fn death_by_signal_is_a_crash() {
    check_failure("kill -9 $$", 13, "it ended with signal 9 without an answer");
    check_failure(&format!("{STRIP}; kill -9 $$"), 13, "it answered, but then ended with signal 9");
}

#[test]
fn discards_answer_of_failed_process() {
    check_failure(&format!("{STRIP}; exit 1"), 13, "it answered, but then ended with exit code 1");
    check_failure(&format!("{DECLINE}; exit 1"), 13, "it answered, but then ended with exit code 1");
}

#[test]
fn strategy_is_stopped_at_its_deadline() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(2));
    world.write_plugin("odd", "echo still thinking >&2; exec sleep 1000");
    let output =
        world.run_plugin("odd", &["--deadline", "10s"]).exits(14).reports("it did not end within 10s");
    assert!(output.stderr.contains("still thinking"), "{}", output.stderr);
    transcript.assert_untouched();
}

#[test]
fn strategy_receives_its_limits() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(2));
    world.write_plugin("odd", r#"sed 's/.*\("limits":{[^}]*}\).*/\1/' >&2; exit 1"#);
    let message = r#""limits":{"deadline_ms":60000,"result_bytes_max":8388608}"#;
    world.run_plugin("odd", &[]).exits(13).reports(message);
    world.run_plugin("odd", &["--deadline", "2m"]).exits(13).reports(r#""limits":{"deadline_ms":120000,"#);
}

#[test]
fn child_holding_stdout_violates_protocol() {
    check_failure(&format!("sleep 1000 & {STRIP}"), 15, "kept its output open");
}

#[test]
fn requires_exactly_one_answer() {
    check_failure("true", 15, "without a result, decline, needs or error");
    check_failure(&format!("{STRIP}; {STRIP}"), 15, "it sent another line after its terminal reply");
    check_failure(&format!("{STRIP}; {DECLINE}"), 15, "it sent another line after its terminal reply");
    check_failure(&format!("{STRIP}; echo bye"), 15, "it sent another line after its terminal reply: bye");
}

#[test]
fn rejects_text_that_is_not_a_message() {
    check_failure(&format!("echo thinking...; {STRIP}"), 15, "line 1 of its output is not a valid message");
    check_failure(
        "printf '{\"type\":\"result\",\"id\":\"c1\",\"compac'",
        15,
        "line 1 of its output is not a valid message",
    );
    check_failure(
        &format!("printf '\\357\\273\\277'; {STRIP}"),
        15,
        "line 1 of its output is not a valid message",
    );
    check_failure("echo '[\"result\",\"c1\"]'", 15, "is not a valid message");
}

#[test]
fn rejects_answer_with_wrong_id() {
    check_failure(&STRIP.replace("c1", "c2"), 15, "it replied to request `c2`, but the request is `c1`");
    check_failure(
        &format!("echo '{{\"type\":\"log\",\"id\":\"x\",\"level\":\"info\",\"message\":\"\"}}'; {STRIP}"),
        15,
        "`x`",
    );
}

#[test]
fn rejects_invalid_utf8() {
    check_failure(&format!("printf '\\377\\n'; {STRIP}"), 15, "is not UTF-8 at byte 0");
    let invalid_byte = r#"printf '{"type":"decline","id":"c1","reason":"\377"}\n'"#;
    check_failure(invalid_byte, 15, "is not UTF-8 at byte 38");
}

#[test]
fn rejects_too_much_output() {
    // Four million short lines would take a debug build ten seconds.
    let flood = format!("exec yes {}", "y".repeat(4_000));
    check_failure(&flood, 15, "it wrote more than 8388608 bytes to stdout");
}

#[test]
fn error_reply_prints_message_and_hint() {
    let error = r#"echo '{"type":"error","id":"c1","code":"no_luck","message":"the moon is wrong","transient":true,"hint":"wait"}'"#;
    let output = check_failure(error, 16, "the moon is wrong (no_luck)");
    assert!(output.stderr.ends_with("\nhint: `odd` suggests: wait\n"), "{}", output.stderr);
    check_failure(&format!("{error}; exit 7"), 16, "the moon is wrong");
}

#[test]
fn rejects_needs_without_grant() {
    let needs = r#"echo '{"type":"needs","id":"c1","requests":{"s0":{"kind":"llm.complete","messages":[],"max_tokens":1}},"state":""}'"#;
    check_failure(needs, 11, "which was not granted");
}

#[test]
fn rejects_ranges_outside_request() {
    let strip = r#""tool_calls":{"policy":"omit"}"#;
    check_rejected("[]", "strategy `odd` was rejected");
    check_rejected(
        &format!(r#"[{{"from_turn":1,"to_turn":0,{strip}}}]"#),
        "the turn range ends at 0, before its start 1",
    );
    check_rejected(&format!(r#"[{{"from_turn":0,"to_turn":2,{strip}}}]"#), "turns 0-2");
    check_rejected(&format!(r#"[{{"from_turn":0,"to_turn":18446744073709551615,{strip}}}]"#), "turns 0-1844");
}

#[test]
fn rejects_undeclared_kinds() {
    check_rejected(r#"[{"from_turn":0,"to_turn":0}]"#, "policy");
    check_rejected(r#"[{"from_turn":0,"to_turn":0,"reasoning":"strip"}]"#, "reasoning");
    check_rejected(r#"[{"from_turn":0,"to_turn":0,"summary":{"summary":"x"}}]"#, "summary");
}

#[test]
fn rejects_invalid_call_references() {
    let selective = |calls: &str| {
        format!(r#"[{{"from_turn":0,"to_turn":0,"tool_calls":{{"policy":"selective","calls":[{calls}]}}}}]"#)
    };
    check_rejected(&selective(""), "the selective policy lists no calls");
    check_rejected(&selective(r#"{"seq":1,"omit":true}"#), "event 1 is not half of a tool call");
    check_rejected(&selective(r#"{"seq":10,"omit":true}"#), "event 10 is outside the range");
    check_rejected(&selective(r#"{"seq":99,"omit":true}"#), "event 99 does not exist");
    check_rejected(&selective(r#"{"seq":3}"#), "event 3 has no policy");
}

#[test]
fn rejects_blank_summaries() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(2));
    for (text, message) in [("", "blank"), (" \\n\\t", "blank"), ("a\\u0000b", "NUL")] {
        let line = format!(
            r#"{{"type":"result","id":"c1","compactions":[{{"from_turn":0,"to_turn":0,"summary":{{"summary":"{text}"}}}}]}}"#
        );
        let run = format!("cat <<'END'\n{line}\nEND");
        world.write_script("plugins/odd", &plugin_script("odd", &json!({"produces": ["summary"]}), &run));
        world.run_plugin("odd", &[]).exits(17).reports(message);
    }
    transcript.assert_untouched();
}

#[test]
fn rejects_unknown_or_invalid_members() {
    check_violation(r#"{"from_turn":0,"to_turn":0,"tool_call":{"policy":"omit"}}"#);
    check_violation(
        r#"{"from_turn":0,"to_turn":0,"tool_calls":{"policy":"omit"},"timestamp":"2099-01-01 00:00:00.0"}"#,
    );
    check_violation(r#"{"from_turn":-1,"to_turn":0,"tool_calls":{"policy":"omit"}}"#);
    check_violation(r#"{"from_turn":0.0,"to_turn":0,"tool_calls":{"policy":"omit"}}"#);
    check_violation(r#"{"from_turn":0,"to_turn":0,"tool_calls":{"policy":"shred"}}"#);
}

#[test]
fn tolerates_harmless_io_habits() {
    for run in [
        format!("exec <&-; {STRIP}"),
        format!("{STRIP}; cat > /dev/null"),
        STRIP.replace("echo", "printf %s"),
        format!("echo; echo '  '; {STRIP}; echo"),
        format!("{STRIP}; echo all is well >&2"),
    ] {
        let world = World::new();
        let transcript = world.write_conversation("conversation", &Conversation::with_turns(2));
        world.write_plugin("odd", &run);
        world.run_plugin("odd", &[]).exits(0);
        assert_eq!(transcript.overlays().len(), 1, "{run}");
    }
}

#[test]
fn strategy_may_modify_its_own_file() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(2));
    let path = world.path("plugins/odd");
    world.write_plugin("odd", &format!("echo '# later' >> {}\n{STRIP}", path.display()));
    let before = fs::read(&path).unwrap();
    world.run_plugin("odd", &[]).exits(0);
    assert!(fs::read(&path).unwrap().len() > before.len());
    assert_eq!(transcript.overlays().len(), 1);
}
