//! Formatting of raw events as text for a model, with their authors and turns.
//!
//! Messages are complete. Long reasoning, arguments, and tool output are shortened to their beginning and end.

use std::collections::HashMap;

use crate::event::EventBody;
use crate::exchange::Exchange;
use crate::outcome::StrategyError;
use crate::text::shorten;
use jp_compact_schema::EventLine;
use serde_json::Value;

use super::fence::{indent, single_word};

const OUTPUT_CHARS_MAX: usize = 4_000;
const REASONING_CHARS_MAX: usize = 1_500;
const ARGUMENT_CHARS_MAX: usize = 1_000;
const ARGUMENTS_CHARS_MAX: usize = 4_000;

/// One event as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptPiece {
    /// The turn of the event.
    pub turn: usize,
    /// The turn and the author, on one line.
    pub label: String,
    /// The text, with all lines indented.
    pub body: String,
    /// The estimated tokens of both.
    pub tokens: u64,
}

impl TranscriptPiece {
    /// Returns the size of label and body.
    pub(crate) fn bytes(&self) -> usize {
        self.label.len() + self.body.len()
    }
}

/// Formats all events of an exchange. Events without text are skipped.
///
/// # Errors
///
/// The error of [`Exchange::next_event`].
pub fn read_pieces(exchange: &mut Exchange<'_>) -> Result<Vec<TranscriptPiece>, StrategyError> {
    let (mut pieces, mut formatter) = (Vec::new(), TranscriptFormatter::default());
    while let Some(line) = exchange.next_event()? {
        pieces.extend(formatter.piece(&line, EventBody::parse(&line)));
    }
    Ok(pieces)
}

/// Formats events in order. It keeps the names of called tools.
#[derive(Debug, Default)]
pub struct TranscriptFormatter {
    /// The names of the called tools, by the id of the call.
    tools: HashMap<String, String>,
}

impl TranscriptFormatter {
    /// Formats the next event, which has this body. Returns `None` if it has no text.
    pub fn piece(&mut self, line: &EventLine, body: EventBody) -> Option<TranscriptPiece> {
        piece(line, body, &mut self.tools)
    }
}

fn piece(line: &EventLine, body: EventBody, tools: &mut HashMap<String, String>) -> Option<TranscriptPiece> {
    let (who, raw, text) = match body {
        EventBody::User(text) => ("user".to_owned(), chars(&text), text),
        EventBody::Attachment { name, text } => (
            format!("attached {}", single_word(&name)),
            chars(&text),
            shorten(&text, OUTPUT_CHARS_MAX).into_owned(),
        ),
        EventBody::Assistant(text) => ("assistant".to_owned(), chars(&text), text),
        EventBody::Reasoning(text) => (
            "assistant, reasoning".to_owned(),
            chars(&text),
            shorten(&text, REASONING_CHARS_MAX).into_owned(),
        ),
        EventBody::Structured(data) => {
            ("assistant, data".to_owned(), chars(&data.to_string()), data.to_string())
        }
        EventBody::Call(call) => {
            let who = format!("assistant calls {}", single_word(&call.tool));
            tools.insert(call.id, call.tool);
            let raw = chars(&Value::Object(call.arguments.clone()).to_string());
            let short = short(Value::Object(call.arguments)).to_string();
            (who, raw, shorten(&short, ARGUMENTS_CHARS_MAX).into_owned())
        }
        EventBody::Output(output) => {
            let tool = tools.get(&output.id).map_or("a tool", String::as_str);
            let failed = if output.is_error { "an error of" } else { "output of" };
            let text = shorten(&output.content, OUTPUT_CHARS_MAX).into_owned();
            (format!("{failed} {}", single_word(tool)), chars(&output.content), text)
        }
        EventBody::Inquiry(question) => {
            ("a tool asks".to_owned(), chars(&question.to_string()), question.to_string())
        }
        EventBody::InquiryAnswer(reply) => {
            ("a tool is answered".to_owned(), chars(&reply.to_string()), reply.to_string())
        }
        _ => return None,
    };
    if text.trim().is_empty() {
        return None;
    }
    let label = format!("turn {}, {who}:\n", line.turn);
    let mut body = String::new();
    indent(&mut body, &text);
    let shown = chars(&label) + chars(&body);
    // The host's estimator may not be characters / 4, so the event's tokens are scaled to the shortened text.
    let tokens = (line.tokens * shown).div_ceil(raw.max(1)).max(shown.div_ceil(4));
    Some(TranscriptPiece { turn: line.turn, label, body, tokens })
}

/// Shortens every long text in a value, so its short texts stay complete.
fn short(value: Value) -> Value {
    match value {
        Value::String(text) => shorten(&text, ARGUMENT_CHARS_MAX).into_owned().into(),
        Value::Array(values) => values.into_iter().map(short).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, short(value))).collect(),
        other => other,
    }
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}
