//! Messages that are objects of the Responses API, as mini-swe-agent stores them.

use crate::builder::{EventBuilder, EventDraft};
use crate::json_index::JsonNode;
use crate::readers::values;
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_json::Span;

/// Adds the events of a response or of the output of a call. Returns the ids of the calls.
pub(super) fn read(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    draft: &EventDraft,
) -> Vec<(Option<String>, Span)> {
    if message.text_of("type").as_deref() == Some("function_call_output") {
        add_output(builder, message, draft.clone());
        return Vec::new();
    }
    let Some(items) = message.get("output").filter(|items| items.is_array()) else { return Vec::new() };
    let actions = message.get("extra").and_then(|extra| extra.get("actions"));
    let mut actions = actions.into_iter().flat_map(JsonNode::items);
    let list = builder.add_items(items, None);
    for (element, item) in items.items().enumerate() {
        let draft = EventDraft {
            span: item.span(),
            deletion: Deletion::Element(ElementRef { list, element }),
            ..draft.clone()
        };
        match item.text_of("type").as_deref() {
            Some("message") => {
                if let Some(content) = item.get("content").filter(|content| content.raw().len() > 2) {
                    let body = builder.text(content);
                    builder.add(Kind::Message, EventDraft { body, ..draft });
                }
            }
            Some("reasoning") => {
                let body = item.get("summary").map_or_else(Span::default, |summary| builder.text(summary));
                let body = if body.is_empty() { builder.new_string("") } else { body };
                let members = [("openai_item_id", "id"), ("openai_encrypted_content", "encrypted_content")];
                let members: Vec<String> = members
                    .iter()
                    .filter_map(|(name, source_name)| Some((name, item.string(source_name)?)))
                    .map(|(name, value)| format!("\"{name}\":{}", String::from_utf8_lossy(value.raw())))
                    .collect();
                let metadata = builder.new_json(&format!("{{{}}}", members.join(",")));
                builder.add(Kind::Reasoning, EventDraft { body, metadata, ..draft });
            }
            Some("function_call") => {
                let (Some(id), Some(name)) = (item.string("call_id"), item.string("name")) else { continue };
                let arguments = item.string("arguments");
                let body = arguments.map_or_else(|| builder.new_json("{}"), JsonNode::span);
                let command = actions.next().and_then(|action| action.string("command"));
                let arguments = arguments.map(|value| value.edit_site(values::empty_object_in_string));
                let command = command.map(|value| value.edit_site(values::text));
                let edits = arguments.into_iter().chain(command).collect();
                let draft = EventDraft { id: id.span(), name: name.span(), body, edits, ..draft };
                builder.add(Kind::ToolRequest, draft);
            }
            _ => {}
        }
    }
    let calls = items.items().filter(|item| item.text_of("type").as_deref() == Some("function_call"));
    let ids = calls.filter_map(|call| call.string("call_id"));
    ids.map(|id| (Some(id.text().into_owned()), id.span())).collect()
}

fn add_output(builder: &mut EventBuilder, message: JsonNode<'_>, draft: EventDraft) {
    let (Some(id), Some(output)) = (message.string("call_id"), message.get("output")) else { return };
    let body = builder.text(output);
    let raw = message.get("extra").and_then(|extra| extra.string("raw_output"));
    let edits = [Some(output), raw].into_iter().flatten();
    let edits = edits.map(|value| value.edit_site(values::text)).collect();
    builder.add(Kind::ToolResponse { is_error: false }, EventDraft { id: id.span(), body, edits, ..draft });
}
