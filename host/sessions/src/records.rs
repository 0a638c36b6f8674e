//! The records of a session file, one JSON value for each line. This module reads values only. It does
//! not copy the bytes of lines.

use jp_compact_core::view::SUMMARY_REQUEST;
use jp_compact_transcripts::title_of;
use serde_json::Value;

use crate::agent::Agent;

/// The maximum length of a title, in characters.
pub(crate) const TITLE_CHARS_MAX: usize = 80;

/// Returns the lines that are JSON objects. A line that was cut off is skipped.
pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = Value> + '_ {
    let values = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    values.filter(Value::is_object)
}

/// Returns the title that the session file has, or else the first prompt.
pub(crate) fn title_or_prompt(agent: Agent, bytes: &[u8]) -> Option<String> {
    title_of(bytes, agent.format()).or_else(|| first_prompt(agent, bytes))
}

/// Returns the words of a text in one line, cut off at a number of characters.
pub(crate) fn shortened(text: &str, chars_max: usize) -> String {
    let words: Vec<&str> = text
        .split(|char: char| char.is_whitespace() || char.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    if line.chars().count() <= chars_max {
        return line;
    }
    format!("{}…", line.chars().take(chars_max - 1).collect::<String>())
}

/// Returns the first text that a person typed.
fn first_prompt(agent: Agent, bytes: &[u8]) -> Option<String> {
    let prompt = |record: &Value| {
        let message = match agent {
            Agent::ClaudeCode => Some(&record["message"]).filter(|_| {
                record["type"] == "user" && record["isMeta"] != true && record["isSidechain"] != true
            }),
            Agent::Codex => Some(&record["payload"])
                .filter(|payload| record["type"] == "response_item" && payload["role"] == "user"),
            Agent::QwenCode => Some(&record["message"]).filter(|_| record["type"] == "user"),
            Agent::Pi => Some(&record["message"]).filter(|message| message["role"] == "user"),
            Agent::KimiCli => Some(record).filter(|record| record["role"] == "user"),
            Agent::GeminiCli => Some(record).filter(|record| record["type"] == "user"),
            Agent::OpenHands => Some(&record["llm_message"])
                .filter(|message| record["source"] == "user" && message["role"] == "user"),
            Agent::Opencode => None,
        };
        let member = if agent == Agent::QwenCode { "parts" } else { "content" };
        text_of(&message?[member])
    };
    match agent {
        Agent::Opencode => {
            let document: Value = serde_json::from_slice(bytes).ok()?;
            let messages = document["messages"].as_array()?;
            let first = messages.iter().find(|message| message["info"]["role"] == "user")?;
            text_of(&first["parts"])
        }
        _ => records(bytes).find_map(|record| prompt(&record)),
    }
}

/// Returns the first text of a message that the user typed. Texts that the agent inserts begin with `<` or `# AGENTS.md`.
/// The request of a summary in a fork is not typed.
fn text_of(content: &Value) -> Option<String> {
    let is_typed = |text: &&str| {
        let text = text.trim_start();
        let is_inserted = text.starts_with('<') || text.starts_with("# AGENTS.md");
        !text.is_empty() && !is_inserted && text != SUMMARY_REQUEST
    };
    let texts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(texts).find(is_typed).map(str::to_owned)
}

/// Returns the first string among the values that `member` selects from each record.
pub(crate) fn first_string(bytes: &[u8], member: impl Fn(&Value) -> &Value) -> Option<String> {
    records(bytes).find_map(|record| member(&record).as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(agent: Agent, bytes: &str, expected: Option<&str>) {
        let title = title_or_prompt(agent, bytes.as_bytes()).map(|title| shortened(&title, TITLE_CHARS_MAX));
        assert_eq!(title.as_deref(), expected);
    }

    #[test]
    fn title_is_the_first_typed_text() {
        let lines = [
            r#"{"type":"user","isMeta":true,"message":{"content":"meta"}}"#,
            r#"{"type":"user","message":{"content":"<command-name>/clear</command-name>"}}"#,
            r#"{"type":"user","message":{"content":[{"type":"text","text":"Fix\nthe  build"}]}}"#,
        ];
        check(Agent::ClaudeCode, &lines.join("\n"), Some("Fix the build"));
        let codex = [
            r#"{"type":"response_item","payload":{"role":"user","content":[{"text":"<environment_context>"}]}}"#,
            r#"{"type":"response_item","payload":{"role":"user","content":[{"text":"Hello"}]}}"#,
        ];
        check(Agent::Codex, &codex.join("\n"), Some("Hello"));
        check(Agent::Pi, r#"{"type":"message","message":{"role":"user","content":"Hi"}}"#, Some("Hi"));
        let copy =
            [SUMMARY_REQUEST, "Hi"].map(|text| format!("{{\"role\":\"user\",\"content\":\"{text}\"}}"));
        check(Agent::KimiCli, &copy.join("\n"), Some("Hi"));
        check(Agent::GeminiCli, r#"{"type":"user","content":[{"text":"Hi"}]}"#, Some("Hi"));
        let qwen = r#"{"type":"user","message":{"role":"user","parts":[{"text":"Hi"}]}}"#;
        check(Agent::QwenCode, qwen, Some("Hi"));
        let openhands = r#"{"source":"user","llm_message":{"role":"user","content":[{"text":"Hi"}]}}"#;
        check(Agent::OpenHands, openhands, Some("Hi"));
        let opencode = r#"{"info":{},"messages":[{"info":{"role":"user"},"parts":[{"text":"Hi"}]}]}"#;
        check(Agent::Opencode, opencode, Some("Hi"));
        check(Agent::Pi, "{\"type\":\"session\"", None);
    }

    #[test]
    fn long_title_is_cut() {
        let line = format!(r#"{{"message":{{"role":"user","content":"{}"}}}}"#, "ä".repeat(100));
        check(Agent::Pi, &line, Some(&format!("{}…", "ä".repeat(79))));
    }
}
