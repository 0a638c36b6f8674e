//! One of the copies of an assistant message: the message itself, a step of the trajectory, the message in a later
//! request, or the model's response. Reasoning and command are parts of one text, and are cut out of it.

use crate::builder::{EventBuilder, EventDraft};
use crate::readers::values;
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::external::EditSite;
use jp_compact_json::{JsonNode, Span};

use std::borrow::Cow;

use memchr::memmem;

use jp_compact_core::text;

/// The beginnings of fenced commands. They are used if no member contains the command alone.
const FENCES: [&[u8]; 2] = [b"```mswea_bash_command\\n", b"```bash\\n"];

/// Parts of a text that only mark the command.
const MARKUP: [&str; 5] = ["<command>", "</command>", "mswea_bash_command", "bash", "`"];

#[derive(Default)]
pub(super) struct Form {
    /// The reasoning within the text.
    thought: Option<Span>,
    /// The command within the text, and the range to delete with it.
    action: Option<(Span, Span)>,
    /// Members that repeat the reasoning, and their empty values.
    thoughts: Vec<(Span, &'static str)>,
    /// The member that repeats the command, and its empty value.
    repeated_command: Option<(Span, &'static str)>,
    /// The list of calls, if this is not the message itself.
    calls: Option<Span>,
    /// All copies of the arguments of each call.
    arguments: Vec<Vec<EditSite>>,
    /// The text without reasoning and command.
    pub(super) remaining: String,
    /// The command, if it is not a tool call.
    pub(super) command: Option<String>,
    /// Whether the command is known only by its fence.
    pub(super) is_fenced: bool,
}

impl Form {
    /// Returns the message itself, followed by all its copies.
    pub(super) fn copies(
        message: JsonNode<'_>,
        step: Option<JsonNode<'_>>,
        sent: &[(ElementRef, JsonNode<'_>)],
        is_answered: bool,
    ) -> Vec<Self> {
        let response = message.inner("extra", "response");
        let choices =
            response.and_then(|response| response.get("choices")).into_iter().flat_map(JsonNode::items);
        let responses =
            choices.filter_map(|choice| choice.get("message")).map(|message| (message, "content", "null"));
        let step = step.map(|step| (step, "response", "\"\""));
        let sent = sent.iter().map(|(_, message)| (*message, "content", "null"));
        let others = step.into_iter().chain(sent).chain(responses);
        let mut copies = vec![Self::new(message, "content", "null", is_answered)];
        copies.extend(others.map(|(holder, text, empty)| {
            let mut form = Self::new(holder, text, empty, is_answered);
            let calls = holder.non_empty_array("tool_calls");
            form.calls = calls.map(JsonNode::span);
            form
        }));
        copies
    }

    fn new(holder: JsonNode<'_>, text: &str, empty: &'static str, is_answered: bool) -> Self {
        let mut form = Self::default();
        let content = holder.get(text);
        let message = content.and_then(|content| match content.items().len() {
            0 => Some(content).filter(|content| content.is_string()),
            1 => content.items().next().and_then(|block| block.string("text")),
            _ => None,
        });
        let calls: Vec<JsonNode<'_>> = holder.items_of("tool_calls").collect();
        let (thought, action) = (holder.string("thought"), holder.string("action"));
        form.thoughts.extend(thought.map(|thought| (thought.span(), "\"\"")));
        for (name, empty) in
            [("reasoning_content", "null"), ("thinking_blocks", "[]"), ("provider_specific_fields", "null")]
        {
            let value = holder.non_null(name);
            form.thoughts.extend(value.map(|value| (value.span(), empty)));
        }
        form.repeated_command = action.map(|action| (action.span(), empty));
        if let Some(message) = message {
            form.thought = thought.and_then(|thought| find_text(message, thought, message.span().start + 1));
            let from = form.thought.map_or(message.span().start + 1, |thought| thought.end);
            if calls.is_empty() && is_answered {
                form.find_command(message, action, from);
            }
            form.remaining = remaining_text(message, [form.thought, form.action.map(|(_, whole)| whole)]);
        } else {
            form.remaining = joined_texts(content);
        }
        if calls.is_empty() && is_answered && !form.is_fenced {
            form.command = action.map(|action| action.text().into_owned());
        }
        let actions = holder.inner("extra", "actions");
        let actions: Vec<JsonNode<'_>> = actions.into_iter().flat_map(JsonNode::items).collect();
        form.arguments = (0..calls.len().max(actions.len()))
            .map(|index| {
                let function = calls.get(index).and_then(|call| call.get("function"));
                let arguments = function.and_then(|function| function.get("arguments"));
                let command = actions.get(index).and_then(|action| action.string("command"));
                let arguments = arguments.map(|value| value.edit_site(values::empty_object_in_string));
                let command = command.map(|value| value.edit_site(values::text));
                arguments.into_iter().chain(command).collect()
            })
            .collect();
        form
    }

    fn find_command(&mut self, message: JsonNode<'_>, action: Option<JsonNode<'_>>, from: usize) {
        let Some(action) = action else {
            let Some((command_span, fence_span)) = fenced_command(message) else { return };
            self.is_fenced = true;
            self.command = Some(unquoted(command_span, message).into_owned());
            self.action = Some((command_span, fence_span));
            return;
        };
        // An empty command has no span, but its markup does.
        let command_span = find_text(message, action, from);
        let command_or_start = command_span.unwrap_or(Span { start: from, end: from });
        let end = message.span().end - 1;
        let outside = remaining_text(
            message,
            [Some(Span { start: message.span().start + 1, end: from }), command_span],
        );
        let is_markup = MARKUP.iter().fold(outside, |text, mark| text.replace(mark, "")).trim().is_empty();
        if is_markup {
            self.action = Some((command_or_start, Span { start: from, end }));
        } else {
            self.action = command_span.map(|span| (span, span));
        }
    }

    pub(super) fn thought_deletions(&self) -> Vec<Deletion> {
        let values = self.thoughts.iter().map(|(span, empty)| Deletion::Value(*span, empty));
        values.chain(self.thought.map(|span| Deletion::Value(span, ""))).collect()
    }

    pub(super) fn call_deletions(&self) -> Vec<Deletion> {
        let repeated_command = self.repeated_command.map(|(span, empty)| Deletion::Value(span, empty));
        let calls = self.calls.map(|span| Deletion::Value(span, "null"));
        repeated_command
            .into_iter()
            .chain(calls)
            .chain(self.action.map(|(_, whole)| Deletion::Value(whole, "")))
            .collect()
    }

    pub(super) fn argument_edits(&self, index: usize) -> Vec<EditSite> {
        let command = self.action.map(|(span, _)| EditSite { span, write: |_| String::new() });
        let repeated_command = self.repeated_command.map(|(span, _)| EditSite { span, write: values::text });
        let texts = command.into_iter().chain(repeated_command).filter(|_| index == 0);
        texts.chain(self.arguments.get(index).into_iter().flatten().copied()).collect()
    }
}

/// Returns the reasoning of a message: its thinking blocks or else `reasoning_content`, and then its `thought`.
pub(super) fn thought_drafts(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    form: &Form,
) -> Vec<EventDraft> {
    let mut drafts = Vec::new();
    for block in message.items_of("thinking_blocks") {
        let Some((body, metadata)) = builder.thinking_block(block) else { continue };
        drafts.push(EventDraft { body, metadata, ..EventDraft::default() });
    }
    let non_empty = |name: &str| message.string(name).filter(|text| !text.text().trim().is_empty());
    if drafts.is_empty()
        && let Some(text) = non_empty("reasoning_content")
    {
        drafts.push(EventDraft { body: text.span(), ..EventDraft::default() });
    }
    if let Some(thought) = non_empty("thought")
        && (form.thought.is_some() || form.remaining.trim().is_empty())
    {
        drafts.push(EventDraft { body: thought.span(), ..EventDraft::default() });
    }
    drafts
}

/// Returns the span of a text in another text, from an offset on. The bytes match, because one program wrote both.
fn find_text(message: JsonNode<'_>, text: JsonNode<'_>, from: usize) -> Option<Span> {
    let inner = text.raw().get(1..text.raw().len().checked_sub(1)?)?;
    let start = from.checked_sub(message.span().start)?;
    let searched = message.raw().get(start..message.raw().len().checked_sub(1)?)?;
    if inner.is_empty() {
        return None;
    }
    let is_unescaped = |at: usize| {
        let before = searched.get(..at).unwrap_or_default();
        before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
    };
    let at = memmem::find_iter(searched, inner).find(|at| is_unescaped(*at))?;
    Some(Span { start: from + at, end: from + at + inner.len() })
}

/// Returns a fenced command: the span of the command, and the span of the whole fence.
fn fenced_command(message: JsonNode<'_>) -> Option<(Span, Span)> {
    let (raw, start) = (message.raw(), message.span().start);
    let (open, fence) = FENCES.iter().find_map(|fence| Some((memmem::find(raw, fence)?, *fence)))?;
    let command_start = open + fence.len();
    // In an empty fence, the line break before its end is the line break after its beginning.
    let close = memmem::find(raw.get(command_start - 2..)?, b"\\n```")? + command_start - 2;
    let end = start + close + b"\\n```".len();
    let command = Span { start: start + command_start, end: start + close.max(command_start) };
    Some((command, Span { start: start + open, end }))
}

/// Returns a text without two of its parts. The parts must be in order.
fn remaining_text(message: JsonNode<'_>, parts: [Option<Span>; 2]) -> String {
    let (mut offset, end) = (message.span().start + 1, message.span().end - 1);
    let mut text = String::new();
    for part in parts.into_iter().flatten() {
        text.push_str(&unquoted(Span { start: offset, end: part.start }, message));
        offset = part.end;
    }
    text.push_str(&unquoted(Span { start: offset, end }, message));
    text
}

fn unquoted<'a>(span: Span, message: JsonNode<'a>) -> Cow<'a, str> {
    let start = message.span().start;
    let inner = message.raw().get(span.start - start..span.end - start).unwrap_or_default();
    let quoted = [b"\"", inner, b"\""].concat();
    Cow::Owned(text::unquote(&quoted).into_owned())
}

fn joined_texts(content: Option<JsonNode<'_>>) -> String {
    let blocks = content.into_iter().flat_map(JsonNode::items);
    let texts: Vec<Cow<'_, str>> = blocks.filter_map(|block| block.text_of("text")).collect();
    texts.join("\n")
}
