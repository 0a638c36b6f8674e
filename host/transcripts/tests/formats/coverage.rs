//! Tests of coverage: a transcript is refused if its reader understands too little of it.

use jp_compact_core::index::Unreadable;
use jp_compact_transcripts::Transcript;
use jp_compact_transcripts::{self as transcripts, Format, examine};

use crate::check::{read, written};

fn sample(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/formats/samples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn line(uuid: usize, kind: &str, content: &str) -> String {
    let parent = if uuid == 1 { "null".into() } else { format!("\"u{}\"", uuid - 1) };
    format!(
        r#"{{"parentUuid":{parent},"sessionId":"s","type":"{kind}","uuid":"u{uuid}","message":{{"role":"{kind}","content":"{content}"}}}}"#
    )
}

/// Returns a session of two messages and an unknown record, with texts of these lengths.
fn session(understood: usize, lost: usize) -> Transcript {
    let text = |length: usize| "so it is ".repeat(length)[..length].to_owned();
    let unknown = format!(r#"{{"type":"oracle","uuid":"x1","sessionId":"s","words":"{}"}}"#, text(lost));
    let lines = [line(1, "user", &text(understood)), line(2, "assistant", ""), unknown];
    read(Format::ClaudeCode, "a session", lines.join("\n").as_bytes())
}

#[test]
fn warns_below_90_percent_and_refuses_below_half() {
    // The quotes of an understood text count too, but those of a lost text do not.
    assert_eq!(examine(&session(1000, 0)).unwrap(), None);
    assert_eq!(examine(&session(1000, 100)).unwrap(), None);
    let warning = examine(&session(1000, 200)).unwrap().unwrap();
    assert_eq!(
        warning,
        "the reader of `claude-code` does not know 1 record (200 of 1204 bytes of text): unknown records stay in \
         the file, and no overlay covers them"
    );
    assert!(examine(&session(1000, 1004)).unwrap().is_some());
    let refused = examine(&session(1000, 1005)).unwrap_err().to_string();
    assert_eq!(
        refused,
        "the reader of `claude-code` understands only 1004 of 2009 bytes of text (49 %) and does not know 1 record"
    );
}

#[test]
fn session_of_which_all_turns_were_rolled_back_has_no_messages() {
    let lines = [
        r#"{"timestamp":"2026-03-01T09:00:00.000Z","type":"session_meta","payload":{"id":"s","cwd":"/w"}}"#,
        r#"{"type":"event_msg","payload":{"type":"task_started"}}"#,
        r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix it."}]}}"#,
        r#"{"type":"event_msg","payload":{"type":"user_message","message":"Fix it."}}"#,
        r#"{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}"#,
    ];
    let stream = read(Format::Codex, "a session", lines.join("\n").as_bytes());
    let refused = examine(&stream).unwrap_err().to_string();
    assert_eq!(refused, "the reader of `codex` found no messages in the transcript");
}

/// Claude Code 2.1.330 logs its API requests in the session. They repeat most of the session's text.
#[test]
fn logged_requests_are_not_lost_text() {
    let request = "so it is ".repeat(500);
    let lines = [
        line(1, "user", "Hello you"),
        line(2, "assistant", "Hi there"),
        format!(
            r#"{{"type":"api-request-blob","sessionId":"s","hash":"h","message":{{"content":"{request}"}}}}"#
        ),
        format!(r#"{{"type":"a-later-log","sessionId":"s","text":"{request}"}}"#),
    ];
    let session = read(Format::ClaudeCode, "a session", lines.join("\n").as_bytes());
    assert_eq!(examine(&session).unwrap(), None);
}

#[test]
fn file_without_a_turn_is_refused() {
    for (format, text) in [
        (Format::ClaudeCode, r#"{"type":"file-history-snapshot","messageId":"m"}"#),
        (Format::Codex, r#"{"type":"session_meta","payload":{}}"#),
        (Format::Pi, r#"{"type":"session","id":"s","timestamp":"t","cwd":"/"}"#),
        (Format::GeminiCli, r#"{"sessionId":"s","projectHash":"h"}"#),
        (Format::OpenaiChat, "[]"),
        (Format::Jp, "[1,2,3]"),
        (Format::Jp, r#"[{"role":"user","content":"hi"}]"#),
    ] {
        let refused = examine(&read(format, text, text.as_bytes())).unwrap_err().to_string();
        assert_eq!(refused, format!("the reader of `{format}` found no messages in the transcript"));
    }
    // A JP conversation without messages is valid.
    for text in ["[]", r#"[{"type":"config_delta","timestamp":"2026-01-01 00:00:00.0","delta":{}}]"#] {
        assert_eq!(examine(&read(Format::Jp, text, text.as_bytes())).unwrap(), None);
    }
}

#[test]
fn array_without_jp_events_is_not_detected_as_jp() {
    for (text, expected) in [
        ("[]", Some(Format::Jp)),
        ("[1,2,3]", None),
        (r#"[{"type":"turn_start","timestamp":"2026-01-01 00:00:00.0"}]"#, Some(Format::Jp)),
        (r#"[{"type":"page_view","timestamp":"2026-01-01 00:00:00.0"}]"#, None),
        (r#"[{"type":"turn_start"}]"#, None),
    ] {
        assert_eq!(transcripts::detect(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn unsupported_programs_are_not_detected_as_a_format() {
    let folder = format!("{}/tests/formats/unsupported", env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(transcripts::detect(&bytes), None, "{}", path.display());
        assert!(transcripts::program(&bytes).is_some(), "{}", path.display());
        // With any given format, the reader finds a turn, or the transcript is refused.
        for format in Format::ALL {
            let Ok(stream) = transcripts::read(format, bytes.clone().into()) else { continue };
            assert!(stream.turns() > 0 || examine(&stream).is_err(), "{} as {format}", path.display());
        }
        seen += 1;
    }
    assert_eq!(seen, 10);
}

#[test]
fn known_records_without_events_do_not_lower_the_coverage() {
    let words = "many words that the model did not see ".repeat(100);
    let side = line(9, "user", &words).replacen('{', "{\"isSidechain\":true,", 1);
    for kind in ["system", "atis-latch", "task-summary", "worktree-state"] {
        let record = format!(r#"{{"type":"{kind}","uuid":"x","sessionId":"s","content":"{words}"}}"#);
        let text = [line(1, "user", "short"), record, side.clone(), line(2, "assistant", "so")].join("\n");
        assert_eq!(examine(&read(Format::ClaudeCode, "a session", text.as_bytes())).unwrap(), None, "{kind}");
    }
}

#[test]
fn records_before_a_missing_parent_count_as_unknown() {
    let words = "many words of a turn ".repeat(20);
    let whole = [
        line(1, "user", &words),
        line(2, "assistant", &words),
        line(3, "user", "short"),
        line(4, "assistant", "so"),
    ];
    let read = |lines: &[String]| read(Format::ClaudeCode, "a session", lines.join("\n").as_bytes());
    assert_eq!(examine(&read(&whole)).unwrap(), None);
    let without_parent =
        [&whole[..1], &[whole[1].replace("\"uuid\":\"u2\"", "\"uuid\":\"gone\"")], &whole[2..]].concat();
    let stream = read(&without_parent);
    assert_eq!(
        stream.warnings(),
        ["2 records are not read because a record that links them to the last record is missing"]
    );
    assert!(examine(&stream).is_err());
    // The parent of a session's first record may be in another file.
    let rest = read(&whole[2..]);
    assert_eq!((examine(&rest).unwrap(), rest.warnings().len()), (None, 0));
}

#[test]
fn malformed_line_is_kept_and_counts_as_unknown() {
    let malformed = line(9, "user", &"many words ".repeat(50)).replacen(':', ";", 1);
    let lines = [malformed.clone(), line(1, "user", "short"), line(2, "assistant", "so")];
    let text = lines.join("\n");
    assert_eq!(transcripts::detect(text.as_bytes()), Some(Format::ClaudeCode));
    let stream = read(Format::ClaudeCode, "a session", text.as_bytes());
    assert_eq!(stream.turns(), 1);
    assert_eq!(written(&stream, &[]), text.as_bytes());
    assert_eq!(
        stream.warnings(),
        ["line 1 is not JSON (expected `:` after an object's key) and was skipped"]
    );
    assert!(examine(&stream).is_err());
    let longer = [
        malformed.clone(),
        line(1, "user", &"many words ".repeat(5000)),
        malformed,
        line(2, "assistant", "so"),
    ];
    let stream = read(Format::ClaudeCode, "a session", longer.join("\n").as_bytes());
    assert_eq!(
        stream.warnings(),
        ["line 1 and 1 other line are not JSON (expected `:` after an object's key) and were skipped"]
    );
    assert_eq!(examine(&stream).unwrap(), None);
}

#[test]
fn several_conversations_in_one_file_are_refused() {
    let folder = format!("{}/tests/formats/several", env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let format = transcripts::detect(&bytes).unwrap();
        let error: Unreadable = transcripts::read(format, bytes.clone().into()).unwrap_err();
        assert!(error.has_several_conversations(), "{}: {error}", path.display());
        // The first line alone is one conversation.
        let first = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap();
        let stream = read(format, "the first line", first);
        assert!(examine(&stream).unwrap().is_none() && stream.turns() > 0, "{}", path.display());
        assert_eq!(written(&stream, &[]), first);
    }
}

#[test]
fn all_samples_pass_without_warning() {
    assert!(examine(&read(Format::ClaudeCode, "a sample", &sample("claude-code.jsonl"))).unwrap().is_none());
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Jp) {
        for sample in crate::samples::project_samples(format) {
            let stream = read(format, &sample.name, &sample.bytes);
            assert_eq!(examine(&stream).unwrap(), None, "{}", sample.name);
        }
    }
}
