//! Messages that are objects of the Responses API, as mini-swe-agent stores them.

use crate::builder::{EventBuilder, EventDraft};
use crate::readers::values;
use crate::source_map::Deletion;
use jp_compact_core::event::Kind;
use jp_compact_json::{JsonNode, Span};

/// Adds the events of a message, which is a response of the model or the output of a call. Returns the ids of the
/// response's calls.
pub(super) fn read(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    draft: &EventDraft,
) -> Vec<(Option<String>, Span)> {
    if message.text_is("type", "function_call_output") {
        add_output(builder, message, draft.clone());
        return Vec::new();
    }
    let Some(items) = message.array("output") else { return Vec::new() };
    let actions = message.inner("extra", "actions");
    let mut actions = actions.into_iter().flat_map(JsonNode::items);
    for (at, item) in builder.elements(items, None) {
        let draft = draft.part(item, Deletion::Element(at));
        match item.text_of("type").as_deref() {
            Some("message") => {
                if let Some(content) = item.get("content").filter(|content| content.raw().len() > 2) {
                    let body = builder.text(content);
                    builder.add(Kind::Message, draft.with_body(body));
                }
            }
            Some("reasoning") => {
                let body = builder.text_or_empty(item.get("summary"));
                let metadata = builder.openai_item_data(item);
                builder.add(Kind::Reasoning, EventDraft { body, metadata, ..draft });
            }
            Some("function_call") => {
                let (Some(id), Some(name)) = (item.string("call_id"), item.string("name")) else { continue };
                let arguments = item.string("arguments");
                let body = builder.arguments(arguments);
                let command = actions.next().and_then(|action| action.string("command"));
                let draft = EventDraft { id: id.span(), name: name.span(), body, ..draft };
                let draft = draft.with_edit(arguments, values::empty_object_in_string);
                let draft = draft.with_edit(command, values::text);
                builder.add(Kind::ToolRequest, draft);
            }
            _ => {}
        }
    }
    let calls = items.items().filter(|item| item.text_is("type", "function_call"));
    let ids = calls.filter_map(|call| call.string("call_id"));
    ids.map(|id| (Some(id.text().into_owned()), id.span())).collect()
}

fn add_output(builder: &mut EventBuilder, message: JsonNode<'_>, draft: EventDraft) {
    let (Some(id), Some(output)) = (message.string("call_id"), message.get("output")) else { return };
    let raw = message.get("extra").and_then(|extra| extra.string("raw_output"));
    let draft = builder.result(Some(output), values::text, draft.with_id(id.span()));
    builder.add(Kind::ToolResponse { is_error: false }, draft.with_edit(raw, values::text));
}
