//! `OpenAI`'s responses: flat items, in the `input` of a request, in the `output` of a response, or alone. Reasoning
//! stays with the item after it. What `OpenAI` itself ran (searches, code, images) is a part of what was said; a
//! compaction is opaque and stays, as does what we do not know.

use serde_json::{Map, Value, json};

use super::detect::{Sample, not_of};
use super::foreign::{At, Cut, Slot};
use super::jp::Unreadable;
use super::pairs::Pair;
use super::reading::{Draft, Reading};
use super::tree::{Look, Wanted};
use super::{Transcript, write};
use crate::event::Kind;
use crate::json::Span;

pub(super) struct OpenaiResponses;

const NAME: &str = "OpenAI's responses";

/// The members that are looked into.
const WANTED: Wanted = |key| {
    matches!(
        key,
        b"body"
            | b"input"
            | b"output"
            | b"content"
            | b"summary"
            | b"action"
            | b"command"
            | b"commands"
            | b"outcome"
            | b"error"
    )
};

/// Parts of messages that no other chat has.
const PARTS: [&str; 4] = ["input_text", "input_image", "input_file", "output_text"];

/// Items that are made, and answered, by nobody but these.
const ITEMS: [&str; 20] = [
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "reasoning",
    "local_shell_call",
    "local_shell_call_output",
    "shell_call",
    "shell_call_output",
    "mcp_call",
    "mcp_list_tools",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "computer_call",
    "computer_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "item_reference",
];

impl Transcript for OpenaiResponses {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let is_item = |item: Look<'_>| {
            item.is_object() && ["type", "role", "id"].iter().any(|name| item.string(name).is_some())
        };
        let is_it = |document: Look<'_>| {
            let document = body_of(document);
            if document.string("input").is_some() {
                return document.string("model").is_some();
            }
            let Some(items) = items(document).filter(|items| items.items().len() > 0) else { return false };
            items.items().all(is_item) && (document.is_object() || items.items().any(is_own))
        };
        match sample.document {
            Some(document) => is_it(document),
            None => sample.any_line(|line| line.is_object() && is_it(line)),
        }
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        if super::detect::is_document(&reading.bytes()) {
            return reading.document(WANTED, conversation);
        }
        reading.lines(WANTED, |reading, _, line| {
            reading.conversation(line)?;
            conversation(reading, line)
        })
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
        let message = |role, text| json!({ "type": "message", "role": role, "content": text }).to_string();
        vec![message("user", pair.request), message("assistant", pair.response)]
    }
}

/// The body of a request, of one that waits in a batch too.
fn body_of(value: Look<'_>) -> Look<'_> {
    value.get("body").filter(|body| body.get("input").is_some()).unwrap_or(value)
}

/// Whether nobody else has such an item: by its kind, or by what its parts are called.
fn is_own(item: Look<'_>) -> bool {
    let is_kind = item
        .text_of("type")
        .is_some_and(|kind| ITEMS.contains(&&*kind) || (kind == "message" && item.string("role").is_some()));
    let is_part = |part: Look<'_>| part.text_of("type").is_some_and(|kind| PARTS.contains(&&*kind));
    is_kind || item.get("content").is_some_and(|content| content.items().any(is_part))
}

fn conversation(reading: &mut Reading, document: Look<'_>) -> Result<(), Unreadable> {
    let document = body_of(document);
    if let Some(model) = document.text_of("model") {
        reading.model(&model);
    }
    if let Some(instructions) = document.text_of("instructions") {
        reading.system(&instructions);
    }
    // All that was asked may be a text. It is no record, and stays whatever becomes of it.
    if let Some(asked) = document.string("input") {
        reading.turn(None);
        reading.add(Kind::ChatRequest, Draft { span: asked.span(), body: asked.span(), ..Draft::default() });
        return Ok(());
    }
    let items = items(document)
        .ok_or_else(|| not_of(NAME, document.span().start, "neither a list of items nor a body with one"))?;
    let list = reading.items(items, None);
    for (element, item) in items.items().enumerate() {
        if !item.is_object() {
            return Err(not_of(NAME, item.span().start, "an item that is no object"));
        }
        let draft = Draft { span: item.span(), record: Some(At { list, element }), ..Draft::default() };
        if kind(item) == "reasoning" {
            let also = led_to(reading, items.items().skip(element + 1));
            reasoning(reading, item, Draft { also, ..draft });
        } else {
            add(reading, item, draft);
        }
    }
    Ok(())
}

/// The names of what a thought led to: an item that is known by its name is refused without its thought, and goes without
/// a name as well.
fn led_to<'a>(reading: &mut Reading, behind: impl Iterator<Item = Look<'a>>) -> Vec<Cut> {
    let is_users = |item: &Look<'_>| {
        kind(*item) == "message" && item.text_of("role").is_none_or(|role| role != "assistant")
    };
    let led_to = behind.take_while(|item| {
        !is_users(item) && kind(*item) != "reasoning" && !kind(*item).ends_with("_output")
    });
    let place = |item: Look<'_>| {
        let element = item.position("id").filter(|_| item.string("id").is_some())?;
        Some(Cut::Element(At { list: reading.members(item), element }))
    };
    // These are what others name them by, and not what a thought led to.
    let is_named = |item: &Look<'_>| {
        let kind = kind(*item);
        !kind.starts_with("mcp_approval_")
            && !kind.contains("compaction")
            && !matches!(&*kind, "item_reference" | "mcp_list_tools")
    };
    led_to.filter(is_named).filter_map(place).collect()
}

/// The items of a body, of a response, or of a bare list.
fn items(document: Look<'_>) -> Option<Look<'_>> {
    let list = if document.is_array() {
        Some(document)
    } else {
        document.get("input").or_else(|| {
            document.get("output").filter(|_| document.text_of("object").is_some_and(|it| it == "response"))
        })
    };
    list.filter(|list| list.is_array())
}

/// A call: its arguments, or what stands for them, and how they are written when they are emptied.
fn call(reading: &mut Reading, item: Look<'_>, arguments: &str, write: fn(&str) -> String, draft: Draft) {
    let value = item.get(arguments);
    let name = item.string("name").map(Look::span);
    let draft = Draft {
        id: item.string("call_id").or(item.string("id")).map_or(draft.id, Look::span),
        name: name.unwrap_or_else(|| reading.made(kind(item).trim_end_matches("_call"))),
        body: if draft.body.is_empty() { value.map_or_else(Span::default, Look::span) } else { draft.body },
        slots: value.map(|value| Slot { span: value.span(), write }).into_iter().collect(),
        ..draft
    };
    reading.add(Kind::ToolRequest, draft);
}

fn add(reading: &mut Reading, item: Look<'_>, draft: Draft) {
    let kind = kind(item);
    match &*kind {
        "message" => message(reading, item, draft),
        "function_call" => call(reading, item, "arguments", write::object_in_string, draft),
        "custom_tool_call" => call(reading, item, "input", write::text, draft),
        "mcp_call" => {
            let id = item.string("id").map(Look::span).unwrap_or_else(|| reading.next_id());
            let draft = Draft { id, ..draft };
            call(reading, item, "arguments", write::object_in_string, draft.clone());
            mcp_result(reading, item, draft);
        }
        "local_shell_call" | "shell_call" => {
            let command =
                item.get("action").and_then(|action| action.get("command").or(action.get("commands")));
            let is_emptied = command.is_some_and(|command| command.items().len() == 0);
            let body = if is_emptied { reading.made_raw("{}") } else { Span::default() };
            let write = if kind == "shell_call" { write::no_commands } else { write::no_command };
            call(reading, item, "action", write, Draft { body, ..draft });
        }
        "shell_call_output" => shell_result(reading, item, draft),
        "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
            let id = item.string("call_id").or(item.string("id")).map_or_else(Span::default, Look::span);
            result(reading, item.get("output"), false, Draft { id, ..draft });
        }
        // What lists tools or stands for what is not here says nothing.
        "mcp_list_tools" | "item_reference" => {}
        _ if kind.starts_with("compaction") || kind.ends_with("compaction") => {}
        _ if kind.ends_with("_call")
            || kind.ends_with("_output")
            || kind.starts_with("mcp_approval_")
            || kind == "program" =>
        {
            let body = hosted(reading, item, &kind);
            reading.add(Kind::Message, Draft { body, ..draft });
        }
        _ => reading.unknown(item),
    }
}

/// The type of an item; a message need not say that it is one.
fn kind(item: Look<'_>) -> std::borrow::Cow<'_, str> {
    item.text_of("type").unwrap_or(if item.string("role").is_some() { "message".into() } else { "".into() })
}

fn message(reading: &mut Reading, item: Look<'_>, draft: Draft) {
    let said = match item.text_of("role").as_deref() {
        Some("user") => Kind::ChatRequest,
        Some("assistant") => Kind::Message,
        _ => {
            if let Some(content) = item.get("content") {
                let text = reading.text(content);
                reading.system_at(text);
            }
            return;
        }
    };
    let content = item.get("content").filter(|content| !content.is_null());
    let has_text =
        |content: &Look<'_>| content.is_string() || content.items().any(|part| part.string("text").is_some());
    let body = match (content, content.and_then(|content| content.items().next())) {
        (Some(content), _) if has_text(&content) => reading.text(content),
        (_, Some(part)) if part.string("refusal").is_some() => {
            part.string("refusal").map_or_else(Span::default, Look::span)
        }
        (_, Some(part)) => {
            let kind = part.text_of("type").unwrap_or_default();
            reading.made(&format!("[{}]", kind.trim_start_matches("input_")))
        }
        (None, None) => {
            reading.unknown(item);
            reading.made("")
        }
        _ => reading.made(""),
    };
    if said == Kind::ChatRequest {
        reading.turn(None);
    }
    reading.add(said, Draft { body, ..draft });
}

/// A thought: its summary, or where there is none its content; and what only `OpenAI` can read.
fn reasoning(reading: &mut Reading, item: Look<'_>, draft: Draft) {
    let texts = |name: &str| item.get(name).filter(|texts| texts.items().len() > 0);
    let body = match texts("summary").or(texts("content")) {
        Some(texts) => reading.text(texts),
        None => reading.made(""),
    };
    let mut metadata = Map::new();
    for (name, ours) in [("id", "openai_item_id"), ("encrypted_content", "openai_encrypted_content")] {
        if let Some(text) = item.text_of(name) {
            metadata.insert(ours.into(), text.into());
        }
    }
    let has_any = !metadata.is_empty();
    let metadata =
        if has_any { reading.made_raw(&Value::Object(metadata).to_string()) } else { Span::default() };
    reading.add(Kind::Reasoning, Draft { body, metadata, ..draft });
}

fn result(reading: &mut Reading, output: Option<Look<'_>>, is_error: bool, draft: Draft) {
    let body = match output {
        Some(output) if output.is_string() || output.is_array() => reading.text(output),
        Some(output) if !output.is_null() => reading.made(&String::from_utf8_lossy(output.raw())),
        _ => reading.made(""),
    };
    let slots = output.map(|output| Slot { span: output.span(), write: write::text }).into_iter().collect();
    reading.add(Kind::ToolResponse { is_error }, Draft { body, slots, ..draft });
}

/// What commands printed, one after the other; it failed when one of them did.
fn shell_result(reading: &mut Reading, item: Look<'_>, draft: Draft) {
    let id = item.string("call_id").map_or_else(Span::default, Look::span);
    let draft = Draft { id, ..draft };
    let Some(output) = item.get("output").filter(|output| output.is_array()) else {
        return result(reading, item.get("output"), false, draft);
    };
    let printed = output.items().flat_map(|one| [one.text_of("stdout"), one.text_of("stderr")]);
    let printed: Vec<_> = printed.flatten().filter(|text| !text.is_empty()).collect();
    let is_error = output
        .items()
        .filter_map(|one| one.get("outcome"))
        .any(|outcome| outcome.get("exit_code").is_none_or(|code| code.raw() != b"0"));
    let body = reading.made(&printed.join("\n"));
    let write = if is_error { write::failed_shell } else { write::shell };
    let slots = vec![Slot { span: output.span(), write }];
    reading.add(Kind::ToolResponse { is_error }, Draft { body, slots, ..draft });
}

/// What an MCP server answered, in the very item of the call.
fn mcp_result(reading: &mut Reading, item: Look<'_>, draft: Draft) {
    let id = draft.id;
    let said = |name: &str| item.get(name).filter(|value| !value.is_null());
    let (output, is_error) = match (said("output"), said("error")) {
        (None, Some(error)) if error.is_object() => {
            let text = error.get("message").or(error.get("content"));
            let body = match text.filter(|text| text.is_string() || text.is_array()) {
                Some(text) => reading.text(text),
                None => reading.made(&String::from_utf8_lossy(error.raw())),
            };
            let slots = vec![Slot { span: error.span(), write: write::failed_mcp }];
            return reading.add(Kind::ToolResponse { is_error: true }, Draft { id, body, slots, ..draft });
        }
        // As it was before errors had a type.
        (None, Some(error)) => (error, true),
        (Some(output), _) => (output, false),
        (None, None) => return,
    };
    result(reading, Some(output), is_error, Draft { id, ..draft });
}

/// What `OpenAI` ran, in a line: all that it was given.
fn hosted(reading: &mut Reading, item: Look<'_>, kind: &str) -> Span {
    let given = ["action", "queries", "code", "operation", "name"].map(|name| item.get(name));
    let given =
        given.into_iter().flatten().next().map(|value| String::from_utf8_lossy(value.raw()).into_owned());
    let text = format!("{kind} {}", given.unwrap_or_default());
    reading.made(&format!("[{}]", text.trim_end()))
}
