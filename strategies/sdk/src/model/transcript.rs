//! Formatting of raw events as text for a model, with their authors and turns.

use std::collections::{HashMap, VecDeque};

use jp_compact_schema::{EventLine, Range};

use super::fence::{indent, single_word};
use super::shown::{ShownEvent, ShownSize, arguments_text, shorten_event};
use crate::event::{BodyParser, EventBody};
use crate::exchange::Exchange;
use crate::outcome::StrategyError;

/// One event as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptPiece {
    /// The turn of the event.
    pub turn: usize,
    /// The step of the event. `None` for events of the user, and without the feature `steps`.
    pub step: Option<usize>,
    /// The turn and the author, on one line.
    pub label: String,
    /// The text, with all lines indented.
    pub body: String,
    /// The estimated tokens of both.
    pub tokens: u64,
    /// The size of the text, and how much of it the model sees.
    pub size: ShownSize,
}

impl TranscriptPiece {
    /// Returns the size of label and body.
    pub(crate) fn bytes(&self) -> usize {
        self.label.len() + self.body.len()
    }
}

/// Formats the events of a range. Events without text are skipped. Long texts are shortened by [`shorten_event`] to
/// about `chars_max` characters.
///
/// # Errors
///
/// The error of [`Exchange::next_event`].
pub fn read_pieces(
    exchange: &mut Exchange<'_>,
    range: &Range,
    chars_max: usize,
) -> Result<Vec<TranscriptPiece>, StrategyError> {
    let (mut pieces, mut formatter) = (Vec::new(), TranscriptFormatter::default());
    let mut parser = BodyParser::default();
    while let Some(line) = exchange.next_event()? {
        let event = shorten_event(parser.parse(&line), chars_max);
        pieces.extend(formatter.piece(&line, event));
    }
    Ok(pieces_in(pieces, range))
}

/// Returns the pieces of a range, in order. In a turn that the range covers only in part, the user's pieces are not in
/// the range, but those before the last step of the range are returned too. Without them, the model would not know what
/// the steps are for.
#[must_use]
pub fn pieces_in(mut pieces: Vec<TranscriptPiece>, range: &Range) -> Vec<TranscriptPiece> {
    let is_covered = |piece: &TranscriptPiece| range.contains_step(piece.turn, piece.step);
    let end = pieces.iter().rposition(is_covered).map_or(0, |last| last + 1);
    pieces.truncate(end);
    pieces.retain(|piece| is_covered(piece) || (piece.step.is_none() && range.contains(piece.turn)));
    pieces
}

/// Formats events in order. It keeps the names of called tools.
#[derive(Debug, Default)]
pub struct TranscriptFormatter {
    /// The turns and the tools of the open calls, by the id of the call. Ids can be reused.
    open: HashMap<String, VecDeque<(usize, String)>>,
}

impl TranscriptFormatter {
    /// Formats the next event. Returns `None` if it has no text.
    pub fn piece(&mut self, line: &EventLine, event: ShownEvent) -> Option<TranscriptPiece> {
        let ShownEvent { body, raw_chars, size } = event;
        let (author, text) = self.author_and_text(line.turn, body)?;
        if text.trim().is_empty() {
            return None;
        }
        let label = format!("turn {}, {author}:\n", line.turn);
        let mut body = String::new();
        indent(&mut body, &text);
        // All pieces of a range are in memory, and a string that grew can have twice the capacity that it needs.
        body.shrink_to_fit();
        let shown_chars = (label.chars().count() + body.chars().count()) as u64;
        // The host's estimator may not be characters / 4, so the event's tokens are scaled to the shortened text.
        let scaled = (line.tokens * shown_chars).div_ceil(raw_chars.max(1));
        let tokens = scaled.max(shown_chars.div_ceil(4));
        Some(TranscriptPiece { turn: line.turn, step: line.step, label, body, tokens, size })
    }

    /// Gives outputs to calls by the rule of [`CallHistory::read`](crate::calls::CallHistory::read).
    fn author_and_text(&mut self, turn: usize, body: EventBody) -> Option<(String, String)> {
        Some(match body {
            EventBody::User(text) => ("user".to_owned(), text),
            EventBody::Summary(text) => ("summary of earlier events".to_owned(), text),
            EventBody::Attachment { name, text } => (format!("attached {}", single_word(&name)), text),
            EventBody::Assistant(text) => ("assistant".to_owned(), text),
            EventBody::Reasoning(text) => ("assistant, reasoning".to_owned(), text),
            EventBody::Structured(data) => ("assistant, data".to_owned(), data.to_string()),
            EventBody::Call(call) => {
                let author = format!("assistant calls {}", single_word(&call.tool));
                let same_id = self.open.entry(call.id).or_default();
                same_id.retain(|(earlier, _)| *earlier == turn);
                same_id.push_back((turn, call.tool));
                (author, arguments_text(&call.arguments))
            }
            EventBody::Output(output) => {
                let call = self.open.get_mut(&output.id).and_then(VecDeque::pop_front);
                let tool = call.map_or_else(|| "a tool".to_owned(), |(_, tool)| single_word(&tool));
                let kind = if output.is_error { "an error of" } else { "output of" };
                (format!("{kind} {tool}"), output.content)
            }
            EventBody::Inquiry(question) => ("a tool asks".to_owned(), question.to_string()),
            EventBody::InquiryAnswer(reply) => ("a tool is answered".to_owned(), reply.to_string()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Formats a call or a response in a turn. Returns the author.
    fn author(formatter: &mut TranscriptFormatter, turn: usize, event: &Value) -> String {
        let line = EventLine::new(0, turn, 1, serde_json::value::to_raw_value(event).unwrap());
        let piece = formatter.piece(&line, shorten_event(EventBody::parse(&line), 100)).unwrap();
        piece.label
    }

    #[test]
    fn outputs_belong_to_the_oldest_open_call_with_their_id() {
        let call =
            |name: &str| json!({"type": "tool_call_request", "id": "a", "name": name, "arguments": {"x": 1}});
        let output = json!({"type": "tool_call_response", "id": "a", "content": "done"});
        let mut formatter = TranscriptFormatter::default();
        for name in ["read", "bash"] {
            assert_eq!(author(&mut formatter, 0, &call(name)), format!("turn 0, assistant calls {name}:\n"));
        }
        for (turn, name) in [(0, "read"), (1, "bash"), (1, "a tool")] {
            assert_eq!(author(&mut formatter, turn, &output), format!("turn {turn}, output of {name}:\n"));
        }
        author(&mut formatter, 1, &call("read"));
        author(&mut formatter, 2, &call("bash"));
        assert_eq!(author(&mut formatter, 2, &output), "turn 2, output of bash:\n");
    }
}
