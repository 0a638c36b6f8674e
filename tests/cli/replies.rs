//! What becomes of a strategy that fails, or answers wrongly: one clear message, its own code, and not a byte of
//! the transcript.

use std::fs;

use serde_json::json;

use crate::support::{Conversation, DECLINE, Ran, STRIP, World, described};

/// A strategy that runs these lines fails with this code and these words.
#[track_caller]
fn fails(run: &str, code: i32, says: &str) -> Ran {
    let world = World::new();
    let transcript = world.conversation("conversation", &Conversation::of(2));
    world.plugin("odd", run);
    let ran = world.run_plugin("odd", &["--deadline", "60s"]).exits(code).says(says);
    assert!(ran.stderr.starts_with("error: strategy `odd` "), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("error: ").count(), 1, "{}", ran.stderr);
    assert!(!ran.stderr.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{:?}", ran.stderr);
    transcript.assert_untouched();
    ran
}

/// A strategy that proposes this is refused.
#[track_caller]
fn refused(compactions: &str, says: &str) {
    fails(&format!(r#"echo '{{"type":"result","id":"c1","compactions":{compactions}}}'"#), 17, says);
}

/// What is no payload at all is no message either.
#[track_caller]
fn violates(compaction: &str) {
    let line = format!(r#"{{"type":"result","id":"c1","compactions":[{compaction}]}}"#);
    fails(&format!("echo '{line}'"), 15, "is no message");
}

#[test]
fn a_crash_shows_its_last_words() {
    fails("echo first words >&2; echo last words >&2; exit 3", 13, "last words");
    fails("exit 3", 13, "it ended with exit code 3 and no answer");
}

#[test]
fn of_much_said_before_a_crash_the_end_is_shown() {
    let ran =
        fails("i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo line $i. >&2; done; exit 1", 13, "line 60.");
    assert!(ran.stderr.contains("line 21.") && !ran.stderr.contains("line 20."), "{}", ran.stderr);
}

#[test]
fn killed_by_a_signal_is_a_crash() {
    fails("kill -9 $$", 13, "it ended with signal 9 and no answer");
    fails(&format!("{STRIP}; kill -9 $$"), 13, "it answered, and then ended with signal 9");
}

#[test]
fn nothing_is_taken_from_a_process_that_failed() {
    fails(&format!("{STRIP}; exit 1"), 13, "it answered, and then ended with exit code 1");
    fails(&format!("{DECLINE}; exit 1"), 13, "it answered, and then ended with exit code 1");
}

#[test]
fn a_deadline_is_one() {
    let world = World::new();
    let transcript = world.conversation("conversation", &Conversation::of(2));
    world.plugin("odd", "echo still thinking >&2; exec sleep 1000");
    let ran = world.run_plugin("odd", &["--deadline", "3s"]).exits(14).says("it did not end within 3s");
    assert!(ran.stderr.contains("still thinking"), "{}", ran.stderr);
    transcript.assert_untouched();
}

#[test]
fn a_strategy_is_told_what_it_may_use() {
    let world = World::new();
    world.conversation("conversation", &Conversation::of(2));
    world.plugin("odd", r#"sed 's/.*\("limits":{[^}]*}\).*/\1/' >&2; exit 1"#);
    let says = r#""limits":{"deadline_ms":60000,"result_bytes_max":8388608}"#;
    world.run_plugin("odd", &[]).exits(13).says(says);
    world.run_plugin("odd", &["--deadline", "2m"]).exits(13).says(r#""limits":{"deadline_ms":120000,"#);
}

#[test]
fn what_is_left_on_the_pipes_is_killed() {
    fails(&format!("sleep 1000 & {STRIP}"), 15, "kept its output open");
}

#[test]
fn more_or_less_than_one_answer_violates_the_protocol() {
    fails("true", 15, "without a result, decline, needs or error");
    fails(&format!("{STRIP}; {STRIP}"), 15, "it went on after its answer");
    fails(&format!("{STRIP}; {DECLINE}"), 15, "it went on after its answer");
    fails(&format!("{STRIP}; echo bye"), 15, "it went on after its answer: bye");
}

#[test]
fn text_that_is_no_message_violates_the_protocol() {
    fails(&format!("echo thinking...; {STRIP}"), 15, "line 1 of its output is no message");
    fails("printf '{\"type\":\"result\",\"id\":\"c1\",\"compac'", 15, "line 1 of its output is no message");
    fails(&format!("printf '\\357\\273\\277'; {STRIP}"), 15, "line 1 of its output is no message");
    fails("echo '[\"result\",\"c1\"]'", 15, "is no message");
}

#[test]
fn an_answer_to_something_else_violates_the_protocol() {
    fails(&STRIP.replace("c1", "c2"), 15, "it answered the request `c2`, and was asked `c1`");
    fails(
        &format!("echo '{{\"type\":\"log\",\"id\":\"x\",\"level\":\"info\",\"message\":\"\"}}'; {STRIP}"),
        15,
        "`x`",
    );
}

#[test]
fn what_is_not_utf_8_violates_the_protocol() {
    fails(&format!("printf '\\377\\n'; {STRIP}"), 15, "is not UTF-8 at byte 0");
    let sneaky = r#"printf '{"type":"decline","id":"c1","reason":"\377"}\n'"#;
    fails(sneaky, 15, "is not UTF-8 at byte 38");
}

#[test]
fn too_much_output_violates_the_protocol() {
    fails("exec yes", 15, "it wrote more than 8388608 bytes to stdout");
}

#[test]
fn an_error_reply_is_the_strategys_own_word() {
    let error = r#"echo '{"type":"error","id":"c1","code":"no_luck","message":"the moon is wrong","transient":true,"hint":"wait"}'"#;
    let ran = fails(error, 16, "the moon is wrong (no_luck)");
    assert!(ran.stderr.ends_with("\nhint: `odd` suggests: wait\n"), "{}", ran.stderr);
    fails(&format!("{error}; exit 7"), 16, "the moon is wrong");
}

#[test]
fn what_nobody_grants_is_not_answered() {
    let needs = r#"echo '{"type":"needs","id":"c1","requests":{"s0":{"kind":"llm.complete","messages":[],"max_tokens":1}},"state":""}'"#;
    fails(needs, 11, "which was not granted");
}

#[test]
fn ranges_outside_of_what_was_asked_are_refused() {
    let strip = r#""tool_calls":{"policy":"omit"}"#;
    refused("[]", "strategy `odd` was rejected");
    refused(
        &format!(r#"[{{"from_turn":1,"to_turn":0,{strip}}}]"#),
        "turn range ends at 0, before it starts at 1",
    );
    refused(&format!(r#"[{{"from_turn":0,"to_turn":2,{strip}}}]"#), "turns 0-2");
    refused(&format!(r#"[{{"from_turn":0,"to_turn":18446744073709551615,{strip}}}]"#), "turns 0-1844");
}

#[test]
fn kinds_that_were_not_announced_are_refused() {
    refused(r#"[{"from_turn":0,"to_turn":0}]"#, "policy");
    refused(r#"[{"from_turn":0,"to_turn":0,"reasoning":"strip"}]"#, "reasoning");
    refused(r#"[{"from_turn":0,"to_turn":0,"summary":{"summary":"x"}}]"#, "summary");
}

#[test]
fn calls_that_are_none_are_refused() {
    let selective = |calls: &str| {
        format!(r#"[{{"from_turn":0,"to_turn":0,"tool_calls":{{"policy":"selective","calls":[{calls}]}}}}]"#)
    };
    refused(&selective(""), "a selective policy without calls");
    refused(&selective(r#"{"seq":1,"omit":true}"#), "event 1 is no half of a tool call");
    refused(&selective(r#"{"seq":10,"omit":true}"#), "event 10 lies outside the range");
    refused(&selective(r#"{"seq":99,"omit":true}"#), "event 99 does not exist");
    refused(&selective(r#"{"seq":3}"#), "event 3 is named without a policy");
}

#[test]
fn summaries_that_say_nothing_are_refused() {
    let world = World::new();
    let transcript = world.conversation("conversation", &Conversation::of(2));
    for (text, says) in [("", "blank"), (" \\n\\t", "blank"), ("a\\u0000b", "NUL")] {
        let line = format!(
            r#"{{"type":"result","id":"c1","compactions":[{{"from_turn":0,"to_turn":0,"summary":{{"summary":"{text}"}}}}]}}"#
        );
        let run = format!("cat <<'END'\n{line}\nEND");
        world.script("plugins/odd", &described("odd", &json!({"produces": ["summary"]}), &run));
        world.run_plugin("odd", &[]).exits(17).says(says);
    }
    transcript.assert_untouched();
}

#[test]
fn a_payload_with_a_key_of_its_own_is_no_message() {
    violates(r#"{"from_turn":0,"to_turn":0,"tool_call":{"policy":"omit"}}"#);
    violates(
        r#"{"from_turn":0,"to_turn":0,"tool_calls":{"policy":"omit"},"timestamp":"2099-01-01 00:00:00.0"}"#,
    );
    violates(r#"{"from_turn":-1,"to_turn":0,"tool_calls":{"policy":"omit"}}"#);
    violates(r#"{"from_turn":0.0,"to_turn":0,"tool_calls":{"policy":"omit"}}"#);
    violates(r#"{"from_turn":0,"to_turn":0,"tool_calls":{"policy":"shred"}}"#);
}

#[test]
fn harmless_habits_do_no_harm() {
    for run in [
        format!("exec <&-; {STRIP}"),
        format!("{STRIP}; cat > /dev/null"),
        STRIP.replace("echo", "printf %s"),
        format!("echo; echo '  '; {STRIP}; echo"),
        format!("{STRIP}; echo all is well >&2"),
    ] {
        let world = World::new();
        let transcript = world.conversation("conversation", &Conversation::of(2));
        world.plugin("odd", &run);
        world.run_plugin("odd", &[]).exits(0);
        assert_eq!(transcript.overlays().len(), 1, "{run}");
    }
}

#[test]
fn a_strategy_that_changes_its_own_file_changes_nothing_else() {
    let world = World::new();
    let transcript = world.conversation("conversation", &Conversation::of(2));
    let path = world.path("plugins/odd");
    world.plugin("odd", &format!("echo '# later' >> {}\n{STRIP}", path.display()));
    let before = fs::read(&path).unwrap();
    world.run_plugin("odd", &[]).exits(0);
    assert!(fs::read(&path).unwrap().len() > before.len());
    assert_eq!(transcript.overlays().len(), 1);
}
