//! The titles that agents write into their sessions.

use jp_compact_transcripts::{Format, title_of};

#[track_caller]
fn check(format: Format, bytes: &str, expected: Option<&str>) {
    assert_eq!(title_of(bytes.as_bytes(), format).as_deref(), expected);
}

#[test]
fn reads_titles_of_several_formats() {
    let summary = r#"{"type":"summary","summary":"Water the garden","leafUuid":"u"}"#;
    check(Format::ClaudeCode, summary, Some("Water the garden"));
    check(Format::Pi, "{\"type\":\"session\"}\n{\"type\":\"session_info\",\"name\":\"a\"}\n", Some("a"));
    check(Format::Opencode, r#"{"info":{"title":"New session"},"messages":[]}"#, Some("New session"));
    check(Format::GeminiCli, r#"{"summary":"s","messages":[]}"#, Some("s"));
    check(Format::GeminiCli, r#"{"messages":[]}"#, None);
    check(Format::GeminiCli, include_str!("samples/gemini-cli.jsonl"), Some("A garden."));
    check(Format::OpenaiChat, r#"{"title":"t"}"#, None);
    check(Format::ClaudeCode, "not JSON", None);
}

#[test]
fn users_title_wins_then_the_latest_generated_title() {
    let lines = [
        r#"{"type":"custom-title","customTitle":"mine"}"#,
        r#"{"type":"ai-title","aiTitle":"its first"}"#,
        r#"{"type":"ai-title","aiTitle":"its second"}"#,
        r#"{"type":"summary","summary":"s","leafUuid":"u"}"#,
    ];
    check(Format::ClaudeCode, &lines.join("\n"), Some("mine"));
    check(Format::ClaudeCode, &lines[1..].join("\n"), Some("its second"));
}

#[test]
fn title_is_one_line_of_limited_length() {
    check(Format::Pi, r#"{"type":"session_info","name":" a\n\u001b b\t"}"#, Some("a b"));
    check(Format::Pi, r#"{"type":"session_info","name":" \n "}"#, None);
    let long = format!(r#"{{"type":"session_info","name":"{}"}}"#, "ä".repeat(999));
    check(Format::Pi, &long, Some(&"ä".repeat(200)));
}
