//! The reader of `OpenAI`'s Responses API: a flat list of items in the `input` of a request, in the `output` of a
//! response, or alone. A record is an item. If reasoning is deleted, the items after it lose their ids. Tools that
//! `OpenAI` ran itself (searches, code, images) are part of the assistant's message. Compactions are opaque and stay,
//! as do unknown items.

use serde_json::json;

use super::values;
use crate::builder::{EventBuilder, EventDraft};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure, format_error};
use crate::source_map::Deletion;
use jp_compact_core::event::Kind;
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter, Span, span_of};

pub(super) struct OpenaiResponses;

const NAME: &str = "the OpenAI Responses API";

const WANTED: MemberFilter = |key| {
    matches!(key, b"body" | b"input" | b"output" | b"content" | b"summary" | b"action")
        || matches!(key, b"command" | b"commands" | b"outcome" | b"error")
};

/// Types of parts that no other chat has.
const PARTS: [&str; 4] = ["input_text", "input_image", "input_file", "output_text"];

/// Types of items that no other format has.
const ITEMS: &str = "function_call function_call_output custom_tool_call custom_tool_call_output \
    reasoning local_shell_call local_shell_call_output shell_call shell_call_output mcp_call \
    mcp_list_tools web_search_call file_search_call code_interpreter_call image_generation_call \
    computer_call computer_call_output apply_patch_call apply_patch_call_output item_reference";

impl Reader for OpenaiResponses {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let is_item = |item: JsonNode<'_>| {
            item.is_object() && ["type", "role", "id"].iter().any(|name| item.string(name).is_some())
        };
        let is_body = |document: JsonNode<'_>| {
            let document = body_of(document);
            if document.string("input").is_some() {
                return document.string("model").is_some();
            }
            let Some(items) = items_of(document).filter(|items| items.items().len() > 0) else {
                return false;
            };
            items.items().all(is_item) && (document.is_object() || items.items().any(is_responses_item))
        };
        match sample.document {
            Some(document) => is_body(document),
            None => sample.any_line(|line| line.is_object() && is_body(line)),
        }
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        if builder.is_document() {
            return builder.read_document(WANTED, read_items);
        }
        builder.read_lines(WANTED, |builder, _, line| {
            builder.start_conversation(line)?;
            read_items(builder, line)
        })
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let message = |role, text| json!({ "type": "message", "role": role, "content": text }).to_string();
        vec![message("user", pair.request), message("assistant", pair.response)]
    }
}

/// Returns the body of a request, which may be in a batch.
fn body_of(value: JsonNode<'_>) -> JsonNode<'_> {
    value.get("body").filter(|body| body.get("input").is_some()).unwrap_or(value)
}

/// Returns whether only this format has such an item, by its type or by the types of its parts.
fn is_responses_item(item: JsonNode<'_>) -> bool {
    let has_kind = item.text_of("type").is_some_and(|kind| {
        ITEMS.split(' ').any(|known| known == kind) || (kind == "message" && item.string("role").is_some())
    });
    let is_part = |part: JsonNode<'_>| part.text_of("type").is_some_and(|kind| PARTS.contains(&&*kind));
    has_kind || item.get("content").is_some_and(|content| content.items().any(is_part))
}

fn read_items(builder: &mut EventBuilder, document: JsonNode<'_>) -> Result<(), Unreadable> {
    let document = body_of(document);
    builder.read_model(document, "model");
    if let Some(instructions) = document.text_of("instructions") {
        builder.add_system(&instructions);
    }
    // The whole input may be a string. It is not a record, so it is never deleted.
    if let Some(text) = document.string("input") {
        builder.add_request(EventDraft::default().text_part(text, Deletion::Nothing));
        return Ok(());
    }
    let items = items_of(document).ok_or_else(|| format_error(NAME, document, "it has no list of items"))?;
    for (at, item) in builder.elements(items, None) {
        ensure(item.is_object(), NAME, item, "an item is not an object")?;
        let draft = EventDraft::whole(at, item);
        if item_kind(item) == "reasoning" {
            let further_deletions = output_ids(builder, items.items().skip(at.element + 1));
            add_reasoning(builder, item, EventDraft { further_deletions, ..draft });
        } else {
            add_item(builder, item, draft);
        }
    }
    Ok(())
}

/// Returns the deletions of the ids of the items after a reasoning item. If the reasoning is missing, the API rejects
/// an item with an id, and accepts an item without an id.
fn output_ids<'a>(
    builder: &mut EventBuilder,
    following: impl Iterator<Item = JsonNode<'a>>,
) -> Vec<Deletion> {
    let is_user_message = |item: &JsonNode<'_>| {
        item_kind(*item) == "message" && item.text_of("role").is_none_or(|role| role != "assistant")
    };
    let output = following.take_while(|item| {
        !is_user_message(item) && item_kind(*item) != "reasoning" && !item_kind(*item).ends_with("_output")
    });
    let id_deletion = |item: JsonNode<'_>| {
        item.string("id")?;
        Some(builder.members(item).deletion("id"))
    };
    // The other kinds do not belong to the reasoning, and other items refer to them by id.
    let is_output = |item: &JsonNode<'_>| {
        let kind = item_kind(*item);
        !kind.starts_with("mcp_approval_")
            && !kind.contains("compaction")
            && !matches!(&*kind, "item_reference" | "mcp_list_tools")
    };
    output.filter(is_output).filter_map(id_deletion).collect()
}

/// Returns the items of a body, of a response, or of a bare list.
fn items_of(document: JsonNode<'_>) -> Option<JsonNode<'_>> {
    let list = if document.is_array() {
        Some(document)
    } else {
        document.get("input").or_else(|| {
            document
                .get("output")
                .filter(|_| document.text_of("object").is_some_and(|object| object == "response"))
        })
    };
    list.filter(|list| list.is_array())
}

/// Adds a call. `write` returns the value of its emptied arguments.
fn add_call(
    builder: &mut EventBuilder,
    item: JsonNode<'_>,
    arguments: &str,
    write: fn(&str) -> String,
    draft: EventDraft,
) {
    let value = item.get(arguments);
    let name = item.string("name").map(JsonNode::span);
    let name = name.unwrap_or_else(|| builder.new_string(item_kind(item).trim_end_matches("_call")));
    let id = item.string("call_id").or(item.string("id")).map_or(draft.id, JsonNode::span);
    let body = if draft.body.is_empty() { span_of(value) } else { draft.body };
    builder.add(Kind::ToolRequest, EventDraft { id, name, body, ..draft.with_edit(value, write) });
}

fn add_item(builder: &mut EventBuilder, item: JsonNode<'_>, draft: EventDraft) {
    let kind = item_kind(item);
    match &*kind {
        "message" => add_message(builder, item, draft),
        "function_call" => add_call(builder, item, "arguments", values::empty_object_in_string, draft),
        "custom_tool_call" => add_call(builder, item, "input", values::text, draft),
        "mcp_call" => {
            let draft = draft.with_id(builder.id_or_next(item.string("id")));
            add_call(builder, item, "arguments", values::empty_object_in_string, draft.clone());
            add_mcp_result(builder, item, draft);
        }
        "local_shell_call" | "shell_call" => {
            let command =
                item.get("action").and_then(|action| action.get("command").or(action.get("commands")));
            let is_emptied = command.is_some_and(|command| command.items().len() == 0);
            let body = if is_emptied { builder.new_json("{}") } else { Span::default() };
            let write = if kind == "shell_call" { values::empty_commands } else { values::empty_command };
            add_call(builder, item, "action", write, EventDraft { body, ..draft });
        }
        "shell_call_output" => add_shell_result(builder, item, draft),
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            let id = span_of(item.string("call_id").or(item.string("id")));
            add_result(builder, item.get("output"), false, draft.with_id(id));
        }
        // Lists of tools and references have no text.
        "mcp_list_tools" | "item_reference" => {}
        _ if kind.starts_with("compaction") || kind.ends_with("compaction") => {}
        _ if kind.ends_with("_call")
            || kind.ends_with("_output")
            || kind.starts_with("mcp_approval_")
            || kind == "program" =>
        {
            let body = hosted_call_text(builder, item, &kind);
            builder.add(Kind::Message, EventDraft { body, ..draft });
        }
        _ => builder.count_unknown(item),
    }
}

/// Returns the type of an item. A message may omit it.
fn item_kind(item: JsonNode<'_>) -> std::borrow::Cow<'_, str> {
    item.text_of("type").unwrap_or(if item.string("role").is_some() { "message".into() } else { "".into() })
}

fn add_message(builder: &mut EventBuilder, item: JsonNode<'_>, draft: EventDraft) {
    let kind = match item.text_of("role").as_deref() {
        Some("user") => Kind::ChatRequest,
        Some("assistant") => Kind::Message,
        _ => {
            return builder.add_system_content(item.get("content"));
        }
    };
    let content = item.non_null("content");
    let has_text = |content: &JsonNode<'_>| {
        content.is_string() || content.items().any(|part| part.string("text").is_some())
    };
    let body = match (content, content.and_then(|content| content.items().next())) {
        (Some(content), _) if has_text(&content) => builder.text(content),
        (_, Some(part)) if part.string("refusal").is_some() => part.string_span("refusal"),
        (_, Some(part)) => {
            let kind = part.text_of("type").unwrap_or_default();
            builder.new_string(&format!("[{}]", kind.trim_start_matches("input_")))
        }
        (None, None) => {
            builder.count_unknown(item);
            builder.new_string("")
        }
        _ => builder.new_string(""),
    };
    builder.add_all(vec![(kind, draft.with_body(body))], kind == Kind::ChatRequest);
}

/// Adds reasoning: its summary, otherwise its content, and the encrypted form.
fn add_reasoning(builder: &mut EventBuilder, item: JsonNode<'_>, draft: EventDraft) {
    let texts = item.non_empty_array("summary").or(item.non_empty_array("content"));
    let body = builder.text_or_empty(texts);
    let metadata = builder.openai_item_data(item);
    builder.add(Kind::Reasoning, EventDraft { body, metadata, ..draft });
}

fn add_result(builder: &mut EventBuilder, output: Option<JsonNode<'_>>, is_error: bool, draft: EventDraft) {
    let body = match output {
        Some(output) if !output.is_null() => text_or_json(builder, output),
        _ => builder.new_string(""),
    };
    let draft = draft.with_body(body).with_edit(output, values::text);
    builder.add(Kind::ToolResponse { is_error }, draft);
}

fn text_or_json(builder: &mut EventBuilder, value: JsonNode<'_>) -> Span {
    let is_text = value.is_string() || value.is_array();
    if is_text { builder.text(value) } else { builder.new_string(&value.lossy()) }
}

/// Adds the output of shell commands, joined. One failed command makes it an error.
fn add_shell_result(builder: &mut EventBuilder, item: JsonNode<'_>, draft: EventDraft) {
    let draft = draft.with_id(item.string_span("call_id"));
    let Some(output) = item.array("output") else {
        return add_result(builder, item.get("output"), false, draft);
    };
    let outputs = output.items().flat_map(|command| [command.text_of("stdout"), command.text_of("stderr")]);
    let outputs: Vec<_> = outputs.flatten().filter(|text| !text.is_empty()).collect();
    let is_error = output
        .items()
        .filter_map(|command| command.get("outcome"))
        .any(|outcome| outcome.get("exit_code").is_none_or(|code| code.raw() != b"0"));
    let body = builder.new_string(&outputs.join("\n"));
    let write = if is_error { values::failed_shell_output } else { values::shell_output };
    builder.add(Kind::ToolResponse { is_error }, draft.with_body(body).with_edit(Some(output), write));
}

/// Adds the result of an MCP call, which is part of the call's item.
fn add_mcp_result(builder: &mut EventBuilder, item: JsonNode<'_>, draft: EventDraft) {
    let (output, is_error) = match (item.non_null("output"), item.non_null("error")) {
        (None, Some(error)) if error.is_object() => {
            let text = error.get("message").or(error.get("content"));
            let text = text.filter(|text| text.is_string() || text.is_array());
            let body = text_or_json(builder, text.unwrap_or(error));
            let draft = draft.with_body(body).with_edit(Some(error), values::mcp_error);
            return builder.add(Kind::ToolResponse { is_error: true }, draft);
        }
        // The form before errors had a type.
        (None, Some(error)) => (error, true),
        (Some(output), _) => (output, false),
        (None, None) => return,
    };
    add_result(builder, Some(output), is_error, draft);
}

/// Returns a line that describes a call or an output that is read as a message, such as a search.
fn hosted_call_text(builder: &mut EventBuilder, item: JsonNode<'_>, kind: &str) -> Span {
    let argument = ["action", "queries", "code", "operation", "name"].map(|name| item.get(name));
    let argument = argument.into_iter().flatten().next().map(JsonNode::lossy);
    let text = format!("{kind} {}", argument.unwrap_or_default());
    builder.new_string(&format!("[{}]", text.trim_end()))
}
