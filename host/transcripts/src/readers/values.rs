//! The values that replace compacted content, in the form of each format. [`EditSite`] uses them.

use jp_compact_core::external::EditSite;
use serde_json::json;

use jp_compact_json::JsonNode;

pub(super) fn text(text: &str) -> String {
    // Serialization of a string cannot fail.
    serde_json::to_string(text).unwrap_or_default()
}

pub(super) fn null(_: &str) -> String {
    "null".into()
}

/// Formats a member `content`, appended to an object that has none.
pub(super) fn content_member(text: &str) -> String {
    format!(", \"content\": {}", self::text(text))
}

pub(super) fn empty_string(_: &str) -> String {
    "\"\"".into()
}

pub(super) fn empty_array(_: &str) -> String {
    "[]".into()
}

/// Returns the edit that empties a string, an array, or an object.
pub(super) fn emptying_edit(value: JsonNode<'_>) -> Option<EditSite> {
    let write = match value.raw().first() {
        Some(b'"') => empty_string,
        Some(b'[') => empty_array,
        Some(b'{') => empty_object,
        _ => return None,
    };
    Some(value.edit_site(write))
}

/// Formats empty arguments as an object.
pub(super) fn empty_object(_: &str) -> String {
    "{}".into()
}

/// Formats an empty command of a local shell.
pub(super) fn empty_command(_: &str) -> String {
    json!({ "type": "exec", "command": [], "env": {} }).to_string()
}

/// Formats an empty list of commands of a shell.
pub(super) fn empty_commands(_: &str) -> String {
    json!({ "commands": [] }).to_string()
}

/// Formats the output of a shell.
pub(super) fn shell_output(text: &str) -> String {
    json!([{ "stdout": text, "stderr": "", "outcome": { "type": "exit", "exit_code": 0 } }]).to_string()
}

/// Formats the output of a failed shell command.
pub(super) fn failed_shell_output(text: &str) -> String {
    json!([{ "stdout": text, "stderr": "", "outcome": { "type": "exit", "exit_code": 1 } }]).to_string()
}

/// Formats the error of an MCP server's tool.
pub(super) fn mcp_error(text: &str) -> String {
    json!({ "type": "mcp_tool_execution_error", "content": [{ "type": "text", "text": text }] }).to_string()
}

/// Formats empty arguments as a string that contains an object.
pub(super) fn empty_object_in_string(_: &str) -> String {
    "\"{}\"".into()
}

/// Formats an array with one block of text.
pub(super) fn text_block(text: &str) -> String {
    json!([{ "type": "text", "text": text }]).to_string()
}
