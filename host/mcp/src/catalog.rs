//! The tools with their descriptions for agents, and the schemas of their arguments and results. An agent reads nothing
//! else before it calls a tool, so a description must not promise an effect on the running context.

use jp_compact_schema::catalog::{self, NamedSchema};
use schemars::{JsonSchema, schema_for};
use serde_json::{Map, Value, json};

use crate::arguments::{
    CompactArguments, ExpandArguments, ForkArguments, InspectArguments, ListArguments, PrintArguments,
    ResetArguments, SearchArguments,
};
use crate::documents::{SearchAnswer, TextPage};
use crate::schema::{result_schema, with_choices, with_single_types};

/// The member that `compact` adds to its report.
const TAKES_EFFECT: &str = "takes_effect";

/// The instructions of the server.
pub const INSTRUCTIONS: &str = "\
Compacts conversations with language models without losing anything. It appends overlays to a transcript, and a model \
then receives a smaller view. Your own running context does not shrink: the view takes effect when the session is \
resumed from a copy, which `fork` makes. `list` lists the sessions of this folder. `search` and `expand` give back any detail \
that an overlay hides. `diff` shows what overlays remove. `stats` counts the tokens. `compact` makes the conversation \
smaller; its `focus` names the information that a summary must preserve. `show` lists the overlays. `print` prints the \
conversation, or with `compacted` the view. `reset` removes overlays. Only transcripts inside the served folder and \
sessions of agents that worked in it can be used. The hint of an error is often a command for the user: pass it on.";

/// The effect of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolEffect {
    Reads,
    /// Writes, and destroys nothing. It may ask a model.
    Adds,
    /// Removes something that was added.
    Removes,
}

/// A tool, as it is listed.
#[derive(Debug, Clone)]
pub struct ToolDescription {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub effect: ToolEffect,
    pub input: Map<String, Value>,
    pub output: Map<String, Value>,
}

/// Returns the tools. `print_forms` are the values of `as`.
#[must_use]
pub fn tools(print_forms: &[&str]) -> Vec<ToolDescription> {
    use ToolEffect::{Adds, Reads, Removes};
    let mut tools = vec![
        tool::<ListArguments>(
            "list",
            published("list-report"),
            "List the sessions",
            Reads,
            "List the sessions that agents such as Claude Code and Codex recorded in this folder, and JP's conversations \
             inside this folder, newest first. The other tools accept their ids, but `fork` none of JP's.",
        ),
        tool::<CompactArguments>(
            "compact",
            compact_answer(),
            "Compact a conversation",
            Adds,
            "Make a conversation smaller to free up context window. Use this when the conversation is getting long, or \
             before its next phase. History is never changed: appended overlays hide parts of all but the last \
             turns or steps, and `reset` removes them. The result reports the tokens that a model receives, before and \
             after, and the overlays. The default profile calls no model. For a summary, give a `profile`, and in `focus` \
             the information to preserve. A model is called only if the user started this server with --allow-model. \
             The running context stays as it is: `takes_effect` in the result names the command that uses the smaller view.",
        ),
        tool::<ForkArguments>(
            "fork",
            published("fork-report"),
            "Copy a session as a smaller one",
            Adds,
            "Copy a session of `list` to a new session with the overlays applied. With `profile`, the copy is also \
             compacted. The original and the running context stay as they are. The result has the one command with \
             which the user resumes the copy, as `session.resume`: pass it on.",
        ),
        tool::<InspectArguments>(
            "stats",
            published("stats-report"),
            "Count the tokens",
            Reads,
            "Count the tokens and bytes of a conversation, by content type and by tool: in the history, in the view, and \
             as sent by JP. Use this to decide whether compacting is useful.",
        ),
        tool::<InspectArguments>(
            "show",
            published("show-report"),
            "List the overlays",
            Reads,
            "List the overlays of a conversation with their numbers, turns, kinds, strategies and savings.",
        ),
        tool::<InspectArguments>(
            "diff",
            published("diff-report"),
            "Show what overlays remove",
            Reads,
            "List each event that overlays change, with its tokens before and after, and the overlay that changed it.",
        ),
        tool::<PrintArguments>(
            "print",
            generated::<TextPage>(),
            "Print a conversation",
            Reads,
            "Print a conversation, whole or with `compacted` as a model receives it, in pages of at most \
             `max_chars` characters.",
        ),
        tool::<SearchArguments>(
            "search",
            generated::<SearchAnswer>(),
            "Find a text in the history",
            Reads,
            "Find the raw events that contain a text, including those that an overlay hides. Use this if a detail is missing: a \
             path, a number, an error message.",
        ),
        tool::<ExpandArguments>(
            "expand",
            generated::<TextPage>(),
            "Print one event of the history",
            Reads,
            "Print the whole text of one raw event, by the number that `search` returns. An overlay does not hide it.",
        ),
        tool::<ResetArguments>(
            "reset",
            published("reset-report"),
            "Remove overlays",
            Removes,
            "Remove one overlay of a conversation, or all. A model then receives the hidden parts again. The events stay \
             unchanged, byte for byte.",
        ),
    ];
    for tool in &mut tools {
        with_choices(&mut tool.input, "as", print_forms);
    }
    tools
}

/// Returns the names of all tools, for the hint of an error.
#[must_use]
pub fn tool_names() -> String {
    let names: Vec<&str> = tools(&[]).iter().map(|tool| tool.name).collect();
    names.join(", ")
}

fn tool<I: JsonSchema>(
    name: &'static str,
    document: Value,
    title: &'static str,
    effect: ToolEffect,
    description: &'static str,
) -> ToolDescription {
    let mut input = generated::<I>().as_object().cloned().unwrap_or_default();
    // These members describe the Rust type, and not the tool.
    ["$schema", "title", "description"].iter().for_each(|member| drop(input.remove(*member)));
    with_single_types(&mut input);
    ToolDescription {
        name,
        title,
        description,
        effect,
        input,
        output: result_schema(document, published("failure")),
    }
}

fn generated<T: JsonSchema>() -> Value {
    schema_for!(T).to_value()
}

/// Returns the published schema with this name.
fn published(name: &str) -> Value {
    catalog::get(name).map(NamedSchema::json).unwrap_or_default()
}

/// Returns the schema of the report of a compaction with the member that `compact` adds.
fn compact_answer() -> Value {
    let mut schema = published("compact-report");
    let description = "When a model receives the smaller view, and by which command.";
    schema["properties"][TAKES_EFFECT] = json!({ "type": "string", "description": description });
    if let Some(required) = schema["required"].as_array_mut() {
        required.push(TAKES_EFFECT.into());
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_named_in_the_instructions() {
        for tool in tools(&["text"]) {
            assert!(INSTRUCTIONS.contains(&format!("`{}`", tool.name)), "{}", tool.name);
        }
    }

    #[test]
    fn schemas_are_valid_schemas() {
        for tool in tools(&["text"]) {
            for schema in [tool.input, tool.output] {
                jsonschema::draft202012::new(&Value::Object(schema)).unwrap();
            }
        }
    }
}
