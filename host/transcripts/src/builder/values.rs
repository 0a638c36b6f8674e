//! The values of an event: spans of the source, or of new JSON if the source does not contain the value in this form.
//! This module has the values that several formats share: the name and the arguments of a call, the content of a
//! result, the joined texts of blocks, and the data that must be sent back to a provider.

use std::borrow::Cow;

use jp_compact_core::estimate::IMAGE_LINE;

use super::{EventBuilder, EventDraft};
use jp_compact_json::{JsonNode, Span};

impl EventBuilder {
    /// Returns the span of a tool's name. A call without a name gets the name `unknown`.
    pub(crate) fn tool_name(&mut self, call: JsonNode<'_>, member: &str) -> Span {
        call.string(member).map(JsonNode::span).unwrap_or_else(|| self.new_string("unknown"))
    }

    /// Returns the span of a call's id, or of a new id.
    pub(crate) fn id_or_next(&mut self, id: Option<JsonNode<'_>>) -> Span {
        id.map_or_else(|| self.next_id(), JsonNode::span)
    }

    pub(crate) fn next_id(&mut self) -> Span {
        self.id_count += 1;
        self.new_string(&format!("call_{}", self.id_count))
    }

    /// Returns the span of a new JSON string with this text.
    pub(crate) fn new_string(&mut self, text: &str) -> Span {
        self.new_json(&serde_json::Value::from(text).to_string())
    }

    /// Returns the span of a new JSON value.
    pub(crate) fn new_json(&mut self, json: &str) -> Span {
        let start = self.size() + self.appended.len();
        self.appended.extend_from_slice(json.as_bytes());
        Span { start, end: start + json.len() }
    }

    /// Returns the span of a text: a string's own span, or the joined texts of an array of blocks, with one line for
    /// each image.
    pub(crate) fn text(&mut self, value: JsonNode<'_>) -> Span {
        if value.is_string() {
            return value.span();
        }
        let texts: Vec<_> = value.items().filter_map(block_text).collect();
        // A tool result can be a list of values instead of blocks. Programs send such a list as JSON.
        let is_value = |item: JsonNode<'_>| item.is_object() && item.string("type").is_none();
        if texts.is_empty() && value.items().any(is_value) {
            let compact = serde_json::from_slice::<serde_json::Value>(value.raw());
            return self
                .new_string(&compact.map_or_else(|_| value.lossy().into_owned(), |value| value.to_string()));
        }
        self.new_string(&texts.join("\n"))
    }

    /// Returns the span of a text, or of a new empty string.
    pub(crate) fn text_or_empty(&mut self, value: Option<JsonNode<'_>>) -> Span {
        match value {
            Some(value) => self.text(value),
            None => self.new_string(""),
        }
    }

    /// Returns the draft of a call: its name, and its arguments with the edit that empties them.
    pub(crate) fn call(
        &mut self,
        holder: JsonNode<'_>,
        name: &str,
        arguments: Option<JsonNode<'_>>,
        write: fn(&str) -> String,
        draft: EventDraft,
    ) -> EventDraft {
        EventDraft { name: self.tool_name(holder, name), ..draft.with_arguments(arguments, write) }
    }

    /// Returns the draft of a result: the text of its content, and the edit that replaces the content.
    pub(crate) fn result(
        &mut self,
        content: Option<JsonNode<'_>>,
        write: fn(&str) -> String,
        draft: EventDraft,
    ) -> EventDraft {
        draft.with_body(self.text_or_empty(content)).with_edit(content, write)
    }

    /// Returns the span of the arguments of a call, or of a new empty object.
    pub(crate) fn arguments(&mut self, value: Option<JsonNode<'_>>) -> Span {
        value.map_or_else(|| self.new_json("{}"), JsonNode::span)
    }

    /// Returns the span of a new object with the values that must be sent back to the provider, under JP's names. The
    /// span is empty if there are no values.
    pub(crate) fn provider_data(&mut self, values: &[(&str, Option<JsonNode<'_>>)]) -> Span {
        let member =
            |(name, value): &(&str, Option<JsonNode<'_>>)| Some(format!("\"{name}\":{}", (*value)?.lossy()));
        let members: Vec<String> = values.iter().filter_map(member).collect();
        if members.is_empty() {
            Span::default()
        } else {
            self.new_json(&format!("{{{}}}", members.join(",")))
        }
    }

    /// Returns the data that must be sent back to `OpenAI` with an item of reasoning.
    pub(crate) fn openai_item_data(&mut self, item: JsonNode<'_>) -> Span {
        let encrypted = item.string("encrypted_content");
        self.provider_data(&[("openai_item_id", item.string("id")), ("openai_encrypted_content", encrypted)])
    }

    /// Returns the body and the metadata of one of Anthropic's blocks of reasoning.
    pub(crate) fn thinking_block(&mut self, block: JsonNode<'_>) -> Option<(Span, Span)> {
        let (body, name, value) = match (block.string("thinking"), block.string("data")) {
            (Some(thought), _) => (thought.span(), "anthropic_thinking_signature", block.string("signature")),
            (None, Some(data)) => (self.new_string(""), "anthropic_redacted_thinking", Some(data)),
            (None, None) => return None,
        };
        Some((body, self.provider_data(&[(name, value)])))
    }

    /// Returns the span of the text if there is only one, otherwise the span of a new string that joins the texts.
    pub(crate) fn one_or_joined(&mut self, texts: &[Span]) -> Span {
        if let [one] = texts { *one } else { self.joined(texts) }
    }

    /// Returns the span of a new string that joins several texts by line breaks.
    pub(crate) fn joined(&mut self, texts: &[Span]) -> Span {
        let texts: Vec<String> = texts.iter().map(|span| self.unquoted(*span)).collect();
        self.new_string(&texts.join("\n"))
    }
}

/// Returns the text of a block, or one line for an image.
fn block_text(block: JsonNode<'_>) -> Option<Cow<'_, str>> {
    let text = if block.is_string() { Some(block) } else { block.string("text") };
    if let Some(text) = text {
        return Some(text.text());
    }
    let kind = block.text_of("type")?;
    (kind.ends_with("image") || kind == "image_url").then_some(IMAGE_LINE.into())
}
