//! Raw events as text for a model: who said what, in which turn. Messages are whole; reasoning, arguments and the
//! output of tools keep their two ends.

use std::collections::HashMap;

use crate::event::Said;
use crate::text::shorten;
use crate::{Exchange, StrategyError};
use jp_compact_schema::EventLine;
use serde_json::Value;

use super::fence::{indent, word};

const OUTPUT_CHARS_MAX: usize = 4_000;
const REASONING_CHARS_MAX: usize = 1_500;
const ARGUMENT_CHARS_MAX: usize = 1_000;
const ARGUMENTS_CHARS_MAX: usize = 4_000;

/// One event as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its turn.
    pub turn: usize,
    /// Who: a line.
    pub label: String,
    /// What: lines, all of them indented.
    pub body: String,
    /// What both cost, about.
    pub tokens: u64,
}

impl Piece {
    /// How long its text is.
    pub(crate) fn bytes(&self) -> usize {
        self.label.len() + self.body.len()
    }
}

/// All events of an exchange that say something.
///
/// # Errors
///
/// Those of the exchange.
pub fn pieces(exchange: &mut Exchange<'_>) -> Result<Vec<Piece>, StrategyError> {
    let (mut pieces, mut scribe) = (Vec::new(), Scribe::default());
    while let Some(line) = exchange.next_event()? {
        pieces.extend(scribe.piece(&line, Said::of(&line)));
    }
    Ok(pieces)
}

/// Puts events into words, one after the other.
#[derive(Debug, Default)]
pub struct Scribe {
    /// The tools called so far, by the id of the call.
    tools: HashMap<String, String>,
}

impl Scribe {
    /// The next event, which says this, as text. None if it says nothing.
    pub fn piece(&mut self, line: &EventLine, said: Said) -> Option<Piece> {
        piece(line, said, &mut self.tools)
    }
}

fn piece(line: &EventLine, said: Said, tools: &mut HashMap<String, String>) -> Option<Piece> {
    let (who, raw, text) = match said {
        Said::User(text) => ("user".to_owned(), chars(&text), text),
        Said::Attachment { name, text } => {
            (format!("attached {}", word(&name)), chars(&text), shorten(&text, OUTPUT_CHARS_MAX).into_owned())
        }
        Said::Assistant(text) => ("assistant".to_owned(), chars(&text), text),
        Said::Reasoning(text) => (
            "assistant, reasoning".to_owned(),
            chars(&text),
            shorten(&text, REASONING_CHARS_MAX).into_owned(),
        ),
        Said::Data(data) => ("assistant, data".to_owned(), chars(&data.to_string()), data.to_string()),
        Said::Call(call) => {
            let who = format!("assistant calls {}", word(&call.tool));
            tools.insert(call.id, call.tool);
            let raw = chars(&Value::Object(call.arguments.clone()).to_string());
            let short = short(Value::Object(call.arguments)).to_string();
            (who, raw, shorten(&short, ARGUMENTS_CHARS_MAX).into_owned())
        }
        Said::Output(output) => {
            let tool = tools.get(&output.id).map_or("a tool", String::as_str);
            let failed = if output.is_error { "an error of" } else { "output of" };
            let text = shorten(&output.content, OUTPUT_CHARS_MAX).into_owned();
            (format!("{failed} {}", word(tool)), chars(&output.content), text)
        }
        Said::Question(question) => {
            ("a tool asks".to_owned(), chars(&question.to_string()), question.to_string())
        }
        Said::Reply(reply) => ("a tool is answered".to_owned(), chars(&reply.to_string()), reply.to_string()),
        _ => return None,
    };
    if text.trim().is_empty() {
        return None;
    }
    let label = format!("turn {}, {who}:\n", line.turn);
    let mut body = String::new();
    indent(&mut body, &text);
    let shown = chars(&label) + chars(&body);
    // The host may count other tokens than a fourth of the characters; what is shown is in proportion.
    let tokens = (line.tokens * shown).div_ceil(raw.max(1)).max(shown.div_ceil(4));
    Some(Piece { turn: line.turn, label, body, tokens })
}

/// The same value with every long text in it shortened, so that the short ones beside it can still be read.
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
