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
        Format::GeminiCli => gemini_cli(bytes),
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

/// Returns the title of a document, otherwise the last title of a log.
fn gemini_cli(bytes: &[u8]) -> Option<String> {
    let summary = |record: &Value| {
        let title = record["$set"]["summary"].as_str().or(record["summary"].as_str());
        title.map(str::to_owned)
    };
    parse(bytes).and_then(|document| summary(&document)).or_else(|| lines(bytes, summary).last())
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
