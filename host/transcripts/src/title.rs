//! The title of a session, for formats whose agent writes one into the file. The import and the list of
//! sessions read it. Readers never do.

use serde_json::Value;

use crate::format::Format;

/// The longest title in characters. It is printed on one line.
const CHARS_MAX: usize = 200;

/// Returns the title that an agent wrote into a session. Lines that are cut off are skipped.
#[must_use]
pub fn title(bytes: &[u8], format: Format) -> Option<String> {
    let title = match format {
        Format::ClaudeCode => claude_code(bytes),
        Format::Pi => lines(bytes, |line| text(line, "session_info", "name")).last(),
        Format::QwenCode => lines(bytes, |line| {
            let title = line["systemPayload"]["customTitle"].as_str();
            title.filter(|_| line["subtype"] == "custom_title").map(str::to_owned)
        })
        .last(),
        Format::Opencode => parse(bytes)?["info"]["title"].as_str().map(str::to_owned),
        Format::GeminiCli => parse(bytes)?["summary"].as_str().map(str::to_owned),
        _ => None,
    }?;
    let words = title.split(|char: char| char.is_whitespace() || char.is_control());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let title: String = words.join(" ").chars().take(CHARS_MAX).collect();
    (!title.is_empty()).then_some(title)
}

/// Returns the user's title, otherwise a generated title, otherwise the `summary` of older versions.
fn claude_code(bytes: &[u8]) -> Option<String> {
    let kinds = [("custom-title", "customTitle"), ("ai-title", "aiTitle"), ("summary", "summary")];
    kinds.iter().find_map(|(kind, member)| lines(bytes, |line| text(line, kind, member)).last())
}

fn text(line: &Value, kind: &str, member: &str) -> Option<String> {
    line[member].as_str().filter(|_| line["type"] == kind).map(str::to_owned)
}

fn lines<'a>(
    bytes: &'a [u8],
    read: impl Fn(&Value) -> Option<String> + 'a,
) -> impl Iterator<Item = String> + 'a {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter_map(move |line| read(&serde_json::from_slice(line).ok()?))
}

fn parse(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: Format, bytes: &str, expected: Option<&str>) {
        assert_eq!(title(bytes.as_bytes(), format).as_deref(), expected);
    }

    #[test]
    fn reads_the_title_of_each_format() {
        let summary = r#"{"type":"summary","summary":"Water the garden","leafUuid":"u"}"#;
        check(Format::ClaudeCode, summary, Some("Water the garden"));
        check(Format::Pi, "{\"type\":\"session\"}\n{\"type\":\"session_info\",\"name\":\"a\"}\n", Some("a"));
        check(Format::Opencode, r#"{"info":{"title":"New session"},"messages":[]}"#, Some("New session"));
        check(Format::GeminiCli, r#"{"summary":"s","messages":[]}"#, Some("s"));
        check(Format::GeminiCli, r#"{"messages":[]}"#, None);
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
}
