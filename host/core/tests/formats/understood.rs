//! How much of a transcript has to be understood, and what is refused.

use jp_compact_core::formats::{self, Format, examine};
use jp_compact_core::{Stream, formats::jp::Unreadable};

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

/// A session of two messages, and a record that nobody knows with so much text.
fn session(understood: usize, lost: usize) -> Stream {
    let text = |length: usize| "so it is ".repeat(length)[..length].to_owned();
    let unknown = format!(r#"{{"type":"oracle","uuid":"x1","sessionId":"s","words":"{}"}}"#, text(lost));
    let lines = [line(1, "user", &text(understood)), line(2, "assistant", ""), unknown];
    read(Format::ClaudeCode, "a session", lines.join("\n").as_bytes())
}

#[test]
fn less_than_half_is_refused_and_less_than_nine_tenths_is_reported() {
    // The quotes of a text count as well.
    assert_eq!(examine(&session(1000, 0)).unwrap(), None);
    assert_eq!(examine(&session(1000, 100)).unwrap(), None);
    let warning = examine(&session(1000, 200)).unwrap().unwrap();
    assert_eq!(
        warning,
        "200 of 1204 bytes of text are in 1 record that the reader of `claude-code` does not understand: they stay in \
         the file, and no overlay covers them"
    );
    assert!(examine(&session(1000, 1004)).unwrap().is_some());
    let refused = examine(&session(1000, 1005)).unwrap_err().to_string();
    assert_eq!(
        refused,
        "of 2009 bytes of text, 1004 are in records that the reader of `claude-code` understands (49 %); 1 record is \
         unknown"
    );
}

#[test]
fn a_file_that_holds_something_has_a_turn_or_is_refused() {
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
        assert_eq!(refused, format!("it holds no message of a conversation in the format `{format}`"));
    }
    // A conversation of JP's in which nothing was said yet is one.
    for text in ["[]", r#"[{"type":"config_delta","timestamp":"2026-01-01 00:00:00.0","delta":{}}]"#] {
        assert_eq!(examine(&read(Format::Jp, text, text.as_bytes())).unwrap(), None);
    }
}

/// An array in which nothing has a type and a time of JP's is not JP's.
#[test]
fn an_array_is_jps_only_with_jps_events() {
    for (text, expected) in [
        ("[]", Some(Format::Jp)),
        ("[1,2,3]", None),
        (r#"[{"type":"turn_start","timestamp":"2026-01-01 00:00:00.0"}]"#, Some(Format::Jp)),
        (r#"[{"type":"page_view","timestamp":"2026-01-01 00:00:00.0"}]"#, None),
        (r#"[{"type":"turn_start"}]"#, None),
    ] {
        assert_eq!(formats::detect(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn no_unsupported_program_is_taken_for_a_format() {
    let folder = format!("{}/tests/formats/unsupported", env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(formats::detect(&bytes), None, "{}", path.display());
        assert!(formats::program(&bytes).is_some(), "{}", path.display());
        // A format that was named does not make it one, but for what is read of it.
        for format in Format::ALL {
            let Ok(stream) = formats::read(format, bytes.clone().into()) else { continue };
            assert!(stream.turns() > 0 || examine(&stream).is_err(), "{} as {format}", path.display());
        }
        seen += 1;
    }
    assert_eq!(seen, 10);
}

#[test]
fn records_that_are_known_and_no_events_count_as_neither() {
    let words = "many words that no model was ever sent ".repeat(100);
    let system = format!(r#"{{"type":"system","uuid":"x","sessionId":"s","content":"{words}"}}"#);
    let side = line(9, "user", &words).replacen('{', "{\"isSidechain\":true,", 1);
    let text = [line(1, "user", "short"), system, side, line(2, "assistant", "so")].join("\n");
    assert_eq!(examine(&read(Format::ClaudeCode, "a session", text.as_bytes())).unwrap(), None);
}

#[test]
fn what_leads_to_a_missing_record_counts_as_lost() {
    let words = "many words of a turn ".repeat(20);
    let whole = [
        line(1, "user", &words),
        line(2, "assistant", &words),
        line(3, "user", "short"),
        line(4, "assistant", "so"),
    ];
    let read = |lines: &[String]| read(Format::ClaudeCode, "a session", lines.join("\n").as_bytes());
    assert_eq!(examine(&read(&whole)).unwrap(), None);
    let without =
        [&whole[..1], &[whole[1].replace("\"uuid\":\"u2\"", "\"uuid\":\"gone\"")], &whole[2..]].concat();
    let stream = read(&without);
    assert_eq!(
        stream.warnings(),
        ["2 records are not read: a record that they lead to the last one by is missing"]
    );
    assert!(examine(&stream).is_err());
    // The first record of a session may follow one of another file.
    let rest = read(&whole[2..]);
    assert_eq!((examine(&rest).unwrap(), rest.warnings().len()), (None, 0));
}

#[test]
fn a_malformed_line_stays_and_counts() {
    let torn = line(9, "user", &"many words ".repeat(50)).replacen(':', ";", 1);
    let lines = [torn.clone(), line(1, "user", "short"), line(2, "assistant", "so")];
    let text = lines.join("\n");
    assert_eq!(formats::detect(text.as_bytes()), Some(Format::ClaudeCode));
    let stream = read(Format::ClaudeCode, "a session", text.as_bytes());
    assert_eq!(stream.turns(), 1);
    assert_eq!(written(&stream, &[]), text.as_bytes());
    assert_eq!(
        stream.warnings(),
        ["line 1 is not JSON (expected `:` after an object's key), and passed over"]
    );
    assert!(examine(&stream).is_err());
    let longer =
        [torn.clone(), line(1, "user", &"many words ".repeat(5000)), torn, line(2, "assistant", "so")];
    let stream = read(Format::ClaudeCode, "a session", longer.join("\n").as_bytes());
    assert_eq!(
        stream.warnings(),
        ["line 1 and 1 other line are not JSON (expected `:` after an object's key), and passed over"]
    );
    assert_eq!(examine(&stream).unwrap(), None);
}

#[test]
fn a_conversation_on_each_line_is_not_one() {
    let folder = format!("{}/tests/formats/several", env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let format = formats::detect(&bytes).unwrap();
        let wrong: Unreadable = formats::read(format, bytes.clone().into()).unwrap_err();
        assert!(wrong.is_of_several(), "{}: {wrong}", path.display());
        // One line alone is a conversation.
        let first = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap();
        let stream = read(format, "the first line", first);
        assert!(examine(&stream).unwrap().is_none() && stream.turns() > 0, "{}", path.display());
        assert_eq!(written(&stream, &[]), first);
    }
}

/// Nothing that a supported program wrote is refused or reported.
#[test]
fn all_samples_are_understood() {
    assert!(examine(&read(Format::ClaudeCode, "a sample", &sample("claude-code.jsonl"))).unwrap().is_none());
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Jp) {
        for sample in crate::samples::ours(format) {
            let stream = read(format, &sample.name, &sample.bytes);
            assert_eq!(examine(&stream).unwrap(), None, "{}", sample.name);
        }
    }
}
