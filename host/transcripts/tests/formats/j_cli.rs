//! J-CLI's transcripts: `clear` and `restore`, and the forms of a call.

use jp_compact_transcripts::Format::JCli;

use crate::event_kinds::Change::{Omit, Strip, StripReasoning, Summarize};
use crate::event_kinds::{kinds, with_changes};

const BODY: &str = include_str!("samples/j-cli.jsonl");

fn line(text: &str, number: usize) -> &str {
    text.lines().nth(number).unwrap_or_default()
}

#[test]
fn messages_before_the_last_clear_or_restore_are_not_sent() {
    assert_eq!(
        kinds(JCli, BODY),
        [
            "request message",
            "request call result message",
            "request thought message call call result result message",
            "request call",
        ]
    );
    let summarized = with_changes(JCli, BODY, &[Summarize(0, 3)]);
    let expected: String = BODY.lines().take(3).map(|line| format!("{line}\n")).collect();
    assert!(summarized.starts_with(&expected), "{summarized}");
}

#[test]
fn summary_of_restored_and_later_messages_is_one_pair() {
    let summarized = with_changes(JCli, BODY, &[Summarize(1, 2)]);
    assert_eq!(summarized.matches("In short.").count(), 1, "{summarized}");
    assert!(
        line(&summarized, 3).ends_with(
            r#"Continuing."},{"role":"user","content":"[Summary of previous conversation]"},{"role":"assistant","content":"In short."}]}"#
        ),
        "{summarized}"
    );
    assert_eq!(line(&summarized, 4), line(BODY, 8), "what the system said stays");
    let summarized = with_changes(JCli, BODY, &[Summarize(2, 2)]);
    assert_eq!(
        line(&summarized, 4),
        r#"{"type":"msg","role":"user","content":"[Summary of previous conversation]","timestamp_ms":1760000003000}"#
    );
}

#[test]
fn calls_are_flat_and_emptied_as_strings() {
    let stripped = with_changes(JCli, BODY, &[Strip, StripReasoning]);
    assert_eq!(
        line(&stripped, 5),
        r#"{"type":"msg","role":"assistant","content":"I mend it.","tool_calls":[{"id":"call_1","name":"Bash","arguments":"{}"},{"id":"call_2","name":"Read","arguments":"{}"}],"timestamp_ms":1760000004000}"#
    );
    let omitted = with_changes(JCli, BODY, &[Omit]);
    assert_eq!(
        line(&omitted, 5),
        r#"{"type":"msg","role":"assistant","content":"I mend it.","reasoning_content":"Caulk first.","timestamp_ms":1760000004000}"#
    );
}
