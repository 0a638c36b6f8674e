//! Claude Code's sessions: paths, side chains, and links after an edit.

use jp_compact_transcripts::Format;
use jp_compact_transcripts::Transcript;

use crate::check::{check, read};
use crate::event_text;
use crate::samples::Sample;

fn line(uuid: &str, parent: Option<&str>, members: &str) -> String {
    let parent = parent.map_or("null".into(), |parent| format!("\"{parent}\""));
    format!(
        r#"{{"parentUuid":{parent},"sessionId":"s","version":"2.1.0",{members},"uuid":"{uuid}","timestamp":"2026-03-01T09:00:00.120Z"}}"#
    )
}

fn user_line(uuid: &str, parent: Option<&str>, text: &str) -> String {
    line(uuid, parent, &format!(r#""type":"user","message":{{"role":"user","content":"{text}"}}"#))
}

fn block_line(uuid: &str, parent: &str, block: &str) -> String {
    let message = format!(r#"{{"id":"msg_{uuid}","role":"assistant","content":[{block}]}}"#);
    line(uuid, Some(parent), &format!(r#""type":"assistant","message":{message}"#))
}

fn text_line(uuid: &str, parent: &str, text: &str) -> String {
    block_line(uuid, parent, &format!(r#"{{"type":"text","text":"{text}"}}"#))
}

fn thinking_line(uuid: &str, parent: &str) -> String {
    block_line(uuid, parent, r#"{"type":"thinking","thinking":"Let me see.","signature":"c2ln"}"#)
}

fn call_line(uuid: &str, parent: &str, id: &str) -> String {
    block_line(
        uuid,
        parent,
        &format!(r#"{{"type":"tool_use","id":"{id}","name":"Read","input":{{"path":"x"}}}}"#),
    )
}

fn result_line(uuid: &str, parent: &str, id: &str) -> String {
    let block = format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":"text of {id}"}}"#);
    line(uuid, Some(parent), &format!(r#""type":"user","message":{{"role":"user","content":[{block}]}}"#))
}

#[track_caller]
fn check_events(lines: &[String], expected: &str) -> Transcript {
    let bytes = format!("{}\n", lines.join("\n")).into_bytes();
    let stream = read(Format::ClaudeCode, "lines", &bytes);
    assert_eq!(event_text::events(&stream), expected);
    check(Format::ClaudeCode, &Sample { name: "lines".into(), bytes });
    stream
}

#[test]
fn subagent_session_in_its_own_file_is_a_conversation() {
    let lines = [
        user_line("a1", None, "Look it up"),
        thinking_line("a2", "a1"),
        call_line("a3", "a2", "t1"),
        result_line("a4", "a3", "t1"),
        text_line("a5", "a4", "Done."),
        user_line("a6", Some("a5"), "Once more"),
        text_line("a7", "a6", "Done again."),
    ];
    let lines = lines.map(|line| line.replacen('{', r#"{"isSidechain":true,"agentId":"c3","#, 1));
    let stream = check_events(
        &lines,
        "0 asks Look it up\n0 thinks Let me see.\n0 calls Read {\"path\":\"x\"}\n0 answers text of t1\n0 says Done.\n\
         1 asks Once more\n1 says Done again.",
    );
    // The lines of a summary belong to the subagent's session too.
    let summarized = event_text::summarized(&stream, 0, 0);
    assert_eq!(summarized.lines().count(), 4);
    assert!(
        summarized.lines().all(|line| line.contains(r#""isSidechain":true"#) && line.contains("c3")),
        "{summarized}"
    );
}

#[test]
fn side_chain_is_not_part_of_a_session() {
    let side = user_line("s1", None, "Look it up").replacen('{', r#"{"isSidechain":true,"#, 1);
    check_events(
        &[user_line("a1", None, "Hello"), text_line("a2", "a1", "Hi."), side],
        "0 asks Hello\n0 says Hi.",
    );
}

#[test]
fn model_is_that_of_the_newest_answer_on_the_path() {
    #[track_caller]
    fn check(lines: &[String], model: &str) {
        let stream = read(Format::ClaudeCode, "lines", lines.join("\n").as_bytes());
        assert_eq!(stream.model(), Some(("anthropic", model)));
    }
    let of_model = |line: String, model: &str| {
        line.replacen(r#""role":"assistant""#, &format!(r#""role":"assistant","model":"{model}""#), 1)
    };
    let hello = user_line("a1", None, "Hello");
    let answer = of_model(text_line("a2", "a1", "Hi."), "claude-opus-4-5");
    let of_side_chain = |line: String| line.replacen('{', r#"{"isSidechain":true,"#, 1);
    let side = [
        of_side_chain(user_line("s1", None, "Look it up")),
        of_side_chain(of_model(text_line("s2", "s1", "Found."), "claude-haiku-4-5")),
    ];
    check(&[&[hello.clone(), answer.clone()][..], &side].concat(), "claude-opus-4-5");
    check(&side, "claude-haiku-4-5");
    let rewound = of_model(text_line("a4", "a3", "Bye."), "claude-haiku-4-5");
    let again = [user_line("a3", Some("a2"), "Bye"), rewound, user_line("a5", Some("a2"), "And now?")];
    check(&[&[hello, answer][..], &again].concat(), "claude-opus-4-5");
}

#[test]
fn duplicate_lines_are_one_event() {
    let once = [
        user_line("a1", None, "Hello"),
        thinking_line("a2", "a1"),
        call_line("a3", "a2", "t1"),
        result_line("a4", "a3", "t1"),
        text_line("a5", "a4", "Hi."),
    ];
    let twice =
        [&once[..], &once[..], &[user_line("a6", Some("a5"), "And now?"), text_line("a7", "a6", "Bye.")]]
            .concat();
    check_events(
        &twice,
        "0 asks Hello\n0 thinks Let me see.\n0 calls Read {\"path\":\"x\"}\n0 answers text of t1\n0 says Hi.\n\
         1 asks And now?\n1 says Bye.",
    );
}

#[test]
fn uuids_are_compared_without_their_escapes() {
    let lines = [
        user_line("a1", None, "Hello"),
        thinking_line("ä2", r"\u00611"),
        user_line("b1", Some("a1"), "rewound"),
        text_line("a3", r"\u00e42", "Hi."),
    ];
    let stream = check_events(&lines, "0 asks Hello\n0 thinks Let me see.\n0 says Hi.");
    assert!(
        event_text::without_reasoning(&stream)
            .contains(r#"{"parentUuid":"\u00611","sessionId":"s","version":"2.1.0","type":"assistant""#)
    );
}

#[test]
fn trailing_lines_without_events_do_not_change_the_path() {
    let attachment = line("c1", Some("a1"), r#""type":"attachment","attachment":{"type":"hook_success"}"#);
    let lines = [
        user_line("a1", None, "Hello"),
        text_line("a2", "a1", "Hi."),
        user_line("a3", Some("a2"), "And now?"),
        text_line("a4", "a3", "Bye."),
        attachment,
    ];
    check_events(&lines, "0 asks Hello\n0 says Hi.\n1 asks And now?\n1 says Bye.");
}

#[test]
fn links_to_deleted_reasoning_lead_to_the_line_before_it() {
    let boundary = line(
        "a4",
        None,
        r#""type":"system","subtype":"compact_boundary","logicalParentUuid":"a3","compactMetadata":{"trigger":"auto","preservedSegment":{"headUuid":"a3","anchorUuid":"a5","tailUuid":"a3"},"preservedMessages":{"anchorUuid":"a5","uuids":["a3"]}}"#,
    );
    let lines = [
        r#"{"type":"summary","summary":"Greetings","leafUuid":"a3"}"#.to_owned(),
        user_line("a1", None, "Hello"),
        text_line("a2", "a1", "Hi."),
        thinking_line("a3", "a2"),
        boundary,
        r#"{"type":"last-prompt","lastPrompt":"Hello","leafUuid":"a3","sessionId":"s"}"#.to_owned(),
        text_line("a6", "a3", "Well."),
    ];
    let stream = check_events(&lines, "0 asks Hello\n0 says Hi.\n0 thinks Let me see.\n0 says Well.");
    let without = event_text::without_reasoning(&stream);
    assert!(!without.contains("\"a3\""), "{without}");
    assert_eq!(without.matches("\"leafUuid\":\"a2\"").count(), 2);
    assert!(without.contains(r#""logicalParentUuid":"a2","compactMetadata":{"trigger":"auto","preservedSegment":{"headUuid":"a2","anchorUuid":"a5","tailUuid":"a2"},"preservedMessages":{"anchorUuid":"a5","uuids":["a2"]}"#));
    // After a summary of everything, each `leafUuid` names the last record of the summary.
    let summarized = event_text::summarized(&stream, 0, 0);
    let last: serde_json::Value = serde_json::from_str(summarized.lines().last().unwrap()).unwrap();
    let named = summarized.matches(&format!("\"leafUuid\":{}", last["uuid"])).count();
    assert_eq!(named, 2, "{summarized}");
}

#[test]
fn line_may_lack_a_parent() {
    let first = thinking_line("a1", "x").replacen(r#""parentUuid":"x","#, "", 1);
    let lines = [
        first,
        text_line("a2", "a1", "Hi."),
        user_line("a3", Some("a2"), "Hello"),
        text_line("a4", "a3", "Bye."),
    ];
    let stream = check_events(&lines, "0 thinks Let me see.\n0 says Hi.\n1 asks Hello\n1 says Bye.");
    assert!(event_text::without_reasoning(&stream).starts_with(r#"{"parentUuid":null,"sessionId""#));
}

#[test]
fn mcp_calls_are_read_and_input_may_be_missing() {
    let lines = [
        user_line("a1", None, "Hello"),
        block_line(
            "a2",
            "a1",
            r#"{"type":"mcp_tool_use","id":"m1","name":"echo","server_name":"s","input":{"a":1}}"#,
        ),
        block_line(
            "a3",
            "a2",
            r#"{"type":"mcp_tool_result","tool_use_id":"m1","is_error":false,"content":[{"type":"text","text":"1"}]}"#,
        ),
        block_line("a4", "a3", r#"{"type":"tool_use","id":"t1","name":"now"}"#),
        result_line("a5", "a4", "t1"),
        text_line("a6", "a5", "So."),
    ];
    check_events(
        &lines,
        "0 asks Hello\n0 calls echo {\"a\":1}\n0 answers 1\n0 calls now {}\n0 answers text of t1\n0 says So.",
    );
}

#[test]
fn attachment_has_the_text_that_was_sent() {
    let attachment = line(
        "a2",
        Some("a1"),
        r#""type":"attachment","attachment":{"type":"date","date":"2026-11-23"},"rendered":[{"content":"Today is Monday."}],"renderedRole":"system""#,
    );
    let lines = [user_line("a1", None, "Hello"), attachment, text_line("a3", "a2", "Hi.")];
    check_events(&lines, "0 asks Hello\n0 asks Today is Monday.\n0 says Hi.");
}
