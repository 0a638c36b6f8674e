//! J-CLI's transcripts: JSONL, a message a line. A session's lines say what they are (`msg`, `clear`, `restore`), those
//! that it keeps when it compacts are bare messages. What comes before the last `clear` or `restore` no model is sent.
//! Calls are flat, their arguments JSON in a string. A summary of its own is a user's message like any other: it begins
//! with `[Conversation compressed. Transcript:`.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::detect::{Sample, not_of};
use super::foreign::{At, Cut, Slot};
use super::jp::Unreadable;
use super::pairs::Pair;
use super::reading::{Draft, Reading};
use super::tree::{Look, Wanted};
use super::{Transcript, write};
use crate::event::Kind;
use crate::json::Span;

pub(super) struct JCli;

const NAME: &str = "J-CLI";

/// The members that are looked into.
const WANTED: Wanted = |key| matches!(key, b"messages" | b"content" | b"tool_calls" | b"function");

/// What was found: an event, or that a turn begins.
type Found = (Option<Kind>, Draft);

impl Transcript for JCli {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let is_ours = |line: &Look<'_>| match line.text_of("type").as_deref() {
            Some("msg") => is_message(*line),
            Some("restore") => line.get("messages").is_some_and(|all| all.items().all(is_message)),
            Some(_) => false,
            None => is_message(*line) && line.get("messages").is_none(),
        };
        let says_what_it_is = |line: &Look<'_>| line.string("type").is_some();
        sample.lines.iter().any(is_ours)
            && sample.lines.iter().all(|line| is_ours(line) || says_what_it_is(line))
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        let mut found: Vec<Found> = Vec::new();
        reading.lines(WANTED, |reading, at, line| {
            match line.text_of("type").as_deref() {
                Some("clear") => found.clear(),
                Some("restore") => {
                    found.clear();
                    let Some(messages) = line.get("messages").filter(|messages| messages.is_array()) else {
                        return Err(not_of(NAME, line.span().start, "a `restore` without messages"));
                    };
                    let list = reading.items(messages, None);
                    for (element, one) in messages.items().enumerate() {
                        message(reading, one, At { list, element }, &mut found)?;
                    }
                }
                Some("msg") | None => message(reading, line, at, &mut found)?,
                Some(_) => reading.unknown(line),
            }
            Ok(())
        })?;
        for (kind, draft) in found {
            match kind {
                Some(kind) => reading.add(kind, draft),
                None => reading.turn(draft.time),
            }
        }
        Ok(())
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
        let message = |role: &str, content: &str| {
            let mut message = Map::new();
            if pair.first.string("type").is_some() {
                message.insert("type".into(), "msg".into());
            }
            message.insert("role".into(), role.into());
            message.insert("content".into(), content.into());
            // Nought stands for a message whose time is not known.
            if pair.first.get("timestamp_ms").is_some() && pair.at != Timestamp::UNIX_EPOCH {
                message.insert("timestamp_ms".into(), pair.at.as_millisecond().into());
            }
            Value::Object(message).to_string()
        };
        vec![message("user", pair.request), message("assistant", pair.response)]
    }
}

/// Whether a line of these says what it is, or calls a tool as only J-CLI does: flat, and with arguments in a string.
/// Any other could be one of OpenAI's messages.
pub(super) fn is_sure(sample: &Sample<'_>) -> bool {
    let is_flat = |call: Look<'_>| call.get("function").is_none() && call.string("arguments").is_some();
    sample.any_line(|line| match line.text_of("type").as_deref() {
        Some("msg") => is_message(line),
        Some("restore") => line.get("messages").is_some(),
        Some(_) => false,
        None => is_message(line) && line.get("tool_calls").is_some_and(|calls| calls.items().any(is_flat)),
    })
}

fn is_message(message: Look<'_>) -> bool {
    let role = message.text_of("role");
    let is_text = message.get("content").is_none_or(|content| content.is_string() || content.is_null());
    is_text && role.is_some_and(|role| matches!(&*role, "user" | "assistant" | "tool" | "system"))
}

fn message(
    reading: &mut Reading,
    message: Look<'_>,
    at: At,
    found: &mut Vec<Found>,
) -> Result<(), Unreadable> {
    let Some(role) = message.text_of("role") else {
        return Err(not_of(NAME, message.span().start, "a message without a role"));
    };
    let time = message.get("timestamp_ms").and_then(|time| {
        let text = std::str::from_utf8(time.raw()).ok()?;
        Timestamp::from_millisecond(text.parse().ok()?).ok()
    });
    let draft = Draft { span: message.span(), record: Some(at), time, ..Draft::default() };
    let content = message.get("content").filter(|content| content.is_string() || content.is_array());
    if message.get("content").is_none() && message.get("tool_calls").is_none() && role != "system" {
        reading.unknown(message);
    }
    let body = |reading: &mut Reading| match content {
        Some(content) => reading.text(content),
        None => reading.made(""),
    };
    match &*role {
        "user" => {
            found.push((None, draft.clone()));
            found.push((Some(Kind::ChatRequest), Draft { body: body(reading), ..draft }));
        }
        "assistant" => assistant(reading, message, &draft, found),
        "tool" => {
            let id = message.string("tool_call_id").map_or_else(Span::default, Look::span);
            let slots =
                message.get("content").map(|content| Slot { span: content.span(), write: write::text });
            let slots = slots.into_iter().collect();
            let kind = Kind::ToolResponse { is_error: false };
            found.push((Some(kind), Draft { id, body: body(reading), slots, ..draft }));
        }
        _ => {}
    }
    Ok(())
}

fn assistant(reading: &mut Reading, message: Look<'_>, draft: &Draft, found: &mut Vec<Found>) {
    let members = reading.members(message);
    let member = |name| At { list: members, element: message.position(name).unwrap_or_default() };
    let said = |name: &str| message.get(name).filter(|text| text.raw().len() > 2 && !text.is_null());
    let calls = message.get("tool_calls").filter(|calls| calls.items().len() > 0);
    let before = found.len();
    if let Some(thought) = said("reasoning_content").filter(|thought| thought.is_string()) {
        let (span, cut) = (thought.span(), Cut::Element(member("reasoning_content")));
        found.push((Some(Kind::Reasoning), Draft { span, body: span, cut, ..draft.clone() }));
    }
    if let Some(content) = said("content") {
        let (span, body) = (content.span(), reading.text(content));
        let cut = Cut::Value(span, "\"\"");
        found.push((Some(Kind::Message), Draft { span, body, cut, ..draft.clone() }));
    }
    if let Some(calls) = calls {
        let list = reading.items(calls, Some(member("tool_calls")));
        for (element, call) in calls.items().enumerate() {
            let function = call.get("function").unwrap_or(call);
            let arguments = function.get("arguments");
            let slots = arguments.map(|it| Slot { span: it.span(), write: write::object_in_string });
            let name = function.string("name").map(Look::span).unwrap_or_else(|| reading.made("unknown"));
            let draft = Draft {
                span: call.span(),
                id: call.string("id").map_or_else(Span::default, Look::span),
                name,
                body: arguments.map_or_else(Span::default, Look::span),
                cut: Cut::Element(At { list, element }),
                slots: slots.into_iter().collect(),
                ..draft.clone()
            };
            found.push((Some(Kind::ToolRequest), draft));
        }
    }
    if found.len() == before {
        let body = reading.made("");
        found.push((Some(Kind::Message), Draft { body, ..draft.clone() }));
    }
}
