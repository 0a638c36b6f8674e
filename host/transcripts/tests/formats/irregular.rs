//! Irregular input that a reader accepts: JSON on which parsers differ, and logs of an interrupted program.

use jp_compact_transcripts::{self as transcripts, Format};

use crate::check::{check, read, written};
use crate::samples::{Sample, project_samples};

/// Checks our samples of five agents after a change of their text.
#[track_caller]
fn check_each(change_name: &str, change: impl Fn(&str) -> Option<String>) {
    let formats = [Format::ClaudeCode, Format::Codex, Format::Opencode, Format::Pi, Format::GeminiCli];
    for format in formats {
        let mut changed = 0;
        for sample in project_samples(format) {
            let Some(text) = change(std::str::from_utf8(&sample.bytes).unwrap()) else { continue };
            changed += 1;
            check(
                format,
                &Sample { name: format!("{}, {change_name}", sample.name), bytes: text.into_bytes() },
            );
        }
        assert!(changed > 0, "{change_name}: no sample of {format} was changed");
    }
}

#[test]
fn lone_surrogate_is_read() {
    let is_multibyte = |letter: char| !letter.is_ascii();
    check_each("half a character", |text| {
        text.contains(is_multibyte).then(|| text.replace(is_multibyte, r"\ud83d"))
    });
}

#[test]
fn too_large_number_is_read() {
    const LARGE: &str = r#"{"large":-1e400,"#;
    check_each("a large number", |text| {
        Some(text.replacen('{', LARGE, 1).replace("\n{", &format!("\n{LARGE}")))
    });
}

#[test]
fn byte_order_mark_is_skipped() {
    check_each("a mark", |text| Some(format!("\u{feff}{text}")));
}

#[test]
fn lines_may_end_with_crlf() {
    check_each("carriage returns", |text| Some(text.replace('\n', "\r\n")));
}

#[test]
fn lines_may_be_blank() {
    check_each("blank lines", |text| Some(text.replace('\n', "\n \n")));
}

#[test]
fn replacement_characters_are_in_the_view_but_not_in_the_file() {
    let line = |line: &str| {
        format!(r#"{{"isSidechain":false,"sessionId":"s","timestamp":"2026-03-01T09:00:07.120Z",{line}}}"#)
    };
    let request = line(
        r#""parentUuid":null,"uuid":"u1","type":"user","message":{"role":"user","content":"cut \ud83d"}"#,
    );
    let call = line(
        r#""parentUuid":"u1","uuid":"u2","type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"t\udc00","name":"Bash","input":{"command":"\udfff","n":1e400}}]}"#,
    );
    let result = line(
        r#""parentUuid":"u2","uuid":"u3","type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t\udc00","content":[{"type":"text","text":"so \ud83d"}]}]}"#,
    );
    let source = format!("{request}\n{call}\n{result}\n");
    let stream = read(Format::ClaudeCode, "half", source.as_bytes());
    assert_eq!(written(&stream, &[]), source.as_bytes());
    assert_eq!(
        crate::event_text::events(&stream),
        "0 asks cut \u{fffd}\n0 calls Bash {\"command\":\"\u{fffd}\",\"n\":1.7976931348623157e+308}\n0 answers so \u{fffd}"
    );
}

#[test]
fn log_is_detected_after_many_unknown_lines() {
    for format in [Format::ClaudeCode, Format::Codex, Format::Pi, Format::GeminiCli] {
        for sample in project_samples(format).into_iter().filter(|sample| sample.name.ends_with("jsonl")) {
            let notes = "{\"type\":\"note\",\"of\":\"nothing\"}\n".repeat(100);
            let bytes = [notes.into_bytes(), sample.bytes].concat();
            assert_eq!(transcripts::detect(&bytes), Some(format), "{}", sample.name);
        }
    }
}

#[test]
fn cut_off_last_line_is_skipped_with_a_warning() {
    let whole = r#"{"parentUuid":null,"uuid":"u1","sessionId":"s","type":"user","message":{"content":"so"}}"#;
    let read = |last: &str| {
        let log = format!("{whole}\n{last}");
        transcripts::read(Format::ClaudeCode, log.into_bytes().into())
    };
    for cut in (1..whole.len()).filter(|cut| whole.is_char_boundary(*cut)) {
        for end in ["", "\n", "\r\n", "\n\n"] {
            let stream = read(&format!("{}{end}", &whole[..cut])).unwrap();
            assert_eq!(
                stream.warnings(),
                ["line 2 is cut off and was skipped: the program may still be writing it"]
            );
            assert_eq!(stream.turns(), 1);
        }
    }
    // A complete line with an error in the middle was not cut off.
    let stream = read(&format!("{}\n", whole.replacen(':', ";", 1))).unwrap();
    assert_eq!(
        stream.warnings(),
        ["line 2 is not JSON (expected `:` after an object's key) and was skipped"]
    );
}
