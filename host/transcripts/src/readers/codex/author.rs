//! The author of a message with the role `user`: the user, or Codex on behalf of the user.

use jp_compact_json::JsonNode;

use std::borrow::Cow;

/// The beginnings of texts that Codex injects for the whole session.
const SESSION_PREFIXES: [&str; 4] =
    ["<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<INSTRUCTIONS>"];
/// The beginnings of texts that Codex injects for a turn.
const TURN_PREFIXES: [&str; 6] = [
    "<turn_aborted>",
    "<user_shell_command>",
    "<skill>",
    "<subagent_notification>",
    "<hook_prompt",
    "<user_action>",
];

/// Returns whether the user wrote the item, as opposed to Codex. Returns `None` for context of the whole session.
pub(super) fn is_by_user(item: JsonNode<'_>, texts: &[Cow<'_, str>]) -> Option<bool> {
    let passthrough = item.get("internal_chat_message_metadata_passthrough");
    let kinds = passthrough.and_then(|passthrough| passthrough.get("content_item_kinds"));
    let kinds: Vec<_> = kinds.into_iter().flat_map(JsonNode::items).map(JsonNode::text).collect();
    let all_begin_with = |prefixes: &[&str]| {
        let begins = |text: &str| prefixes.iter().any(|prefix| text.trim_start().starts_with(prefix));
        !texts.is_empty() && texts.iter().all(|text| begins(text))
    };
    if kinds.iter().any(|kind| kind.starts_with("user.")) {
        return Some(true);
    }
    let is_context =
        |kind: &Cow<'_, str>| kind.starts_with("environments.") || kind.starts_with("agents_md.");
    if (!kinds.is_empty() && kinds.iter().all(is_context)) || all_begin_with(&SESSION_PREFIXES) {
        return None;
    }
    let is_injected = kinds.iter().any(|kind| kind != "unknown");
    Some(!is_injected && !all_begin_with(&TURN_PREFIXES))
}
