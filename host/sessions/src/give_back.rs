//! The events that an agent's own compaction hid, and the answer of a hook that adds facts about these events to the
//! context. Pure functions.

use jp_compact_transcripts::Format;
use serde_json::{Value, json};

/// The maximum number of tokens that a hook may add to the context.
pub const GIVE_BACK_TOKENS: u64 = 4_000;

/// The types of Codex's items that the model writes, in addition to messages.
const CODEX_RESPONSES: [&str; 7] = [
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "reasoning",
    "tool_search_call",
    "web_search_call",
    "image_generation_call",
];

/// Returns the part of a session that its last compaction hid. `None` if the agent has no record of compactions.
///
/// The hook runs before or after the agent writes the compaction. If a response of the model follows the last
/// compaction in the file, that compaction is older. In that case, the agent has just compacted the whole session.
#[must_use]
pub fn compacted_part(format: Format, bytes: &[u8]) -> Option<&[u8]> {
    if !matches!(format, Format::ClaudeCode | Format::Codex) {
        return None;
    }
    let mut end = bytes.len();
    while end > 0 {
        let start = bytes[..end - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let record = serde_json::from_slice(&bytes[start..end]).unwrap_or(Value::Null);
        if record["subtype"] == "compact_boundary" || record["type"] == "compacted" {
            return Some(&bytes[..start]);
        }
        if record["type"] == "assistant" || is_codex_response(&record["payload"]) {
            break;
        }
        end = start;
    }
    Some(bytes)
}

/// Returns whether the model wrote an item of Codex.
fn is_codex_response(item: &Value) -> bool {
    item["role"] == "assistant" || item["type"].as_str().is_some_and(|kind| CODEX_RESPONSES.contains(&kind))
}

/// Returns the answer of a hook at the start of a session. Claude Code and Codex add it to the context.
#[must_use]
pub fn context_answer(text: &str) -> Value {
    json!({ "hookSpecificOutput": { "hookEventName": "SessionStart", "additionalContext": text } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: Format, session: &str, expected: Option<&str>) {
        let part = compacted_part(format, session.as_bytes());
        assert_eq!(part.map(|part| std::str::from_utf8(part).unwrap()), expected);
    }

    const RESPONSE: &str = "{\"type\":\"assistant\"}\n";
    const PROMPT: &str = "{\"type\":\"user\"}\n";
    const BOUNDARY: &str = "{\"type\":\"system\",\"subtype\":\"compact_boundary\"}\n";

    #[test]
    fn ends_at_the_compaction_that_was_just_made() {
        let hidden = format!("{PROMPT}{RESPONSE}");
        check(Format::ClaudeCode, &format!("{hidden}{BOUNDARY}{PROMPT}"), Some(&hidden));
        check(Format::Codex, &format!("{PROMPT}{{\"type\":\"compacted\"}}\n"), Some(PROMPT));
    }

    #[test]
    fn older_compaction_is_part_of_the_session() {
        let session = format!("{PROMPT}{BOUNDARY}{PROMPT}{RESPONSE}{PROMPT}");
        check(Format::ClaudeCode, &session, Some(&session));
        check(Format::ClaudeCode, "", Some(""));
        check(Format::Pi, "{}", None);
    }

    #[test]
    fn each_response_of_codex_follows_an_older_compaction() {
        let item = |payload: &str| format!("{{\"type\":\"response_item\",\"payload\":{{{payload}}}}}\n");
        let compacted = format!("{PROMPT}{{\"type\":\"compacted\"}}\n{PROMPT}");
        let output = item("\"type\":\"custom_tool_call_output\"");
        check(Format::Codex, &format!("{compacted}{output}"), Some(PROMPT));
        for payload in [
            r#""type":"message","role":"assistant""#,
            r#""type":"function_call""#,
            r#""type":"custom_tool_call""#,
            r#""type":"local_shell_call""#,
            r#""type":"reasoning""#,
            r#""type":"tool_search_call""#,
            r#""type":"web_search_call""#,
            r#""type":"image_generation_call""#,
        ] {
            let session = format!("{compacted}{}{output}", item(payload));
            check(Format::Codex, &session, Some(&session));
        }
    }
}
