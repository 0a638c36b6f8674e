//! The reader of J-CLI's transcripts: JSONL, one message per line. The lines of a session have a type (`msg`,
//! `clear`, `restore`). The transcripts that J-CLI keeps when it compacts have bare messages. Messages before the
//! last `clear` or `restore` stay in the file, but the model no longer receives them. Calls are flat, with arguments
//! as JSON in a string. J-CLI's own summary is a normal user message that begins with `[Conversation compressed. Transcript:`.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::values;
use crate::builder::{EventBuilder, EventDraft};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, format_error, role_of};
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter};

pub(super) struct JCli;

const NAME: &str = "J-CLI";

const WANTED: MemberFilter = |key| matches!(key, b"messages" | b"content" | b"tool_calls" | b"function");

/// An event, or `None` at the beginning of a turn.
type FoundEvent = (Option<Kind>, EventDraft);

impl Reader for JCli {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let is_known_line = |line: &JsonNode<'_>| match line.text_of("type").as_deref() {
            Some("msg") => is_message(*line),
            Some("restore") => line.get("messages").is_some_and(|all| all.items().all(is_message)),
            Some(_) => false,
            None => is_message(*line) && line.get("messages").is_none(),
        };
        let has_type = |line: &JsonNode<'_>| line.string("type").is_some();
        sample.lines.iter().any(is_known_line)
            && sample.lines.iter().all(|line| is_known_line(line) || has_type(line))
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        let mut events: Vec<FoundEvent> = Vec::new();
        builder.read_lines(WANTED, |builder, at, line| {
            match line.text_of("type").as_deref() {
                Some("clear") => events.clear(),
                Some("restore") => {
                    events.clear();
                    let messages = line.array("messages");
                    let messages =
                        messages.ok_or_else(|| format_error(NAME, line, "a `restore` has no messages"))?;
                    for (at, item) in builder.elements(messages, None) {
                        add_message(builder, item, at, &mut events)?;
                    }
                }
                Some("msg") | None => add_message(builder, line, at, &mut events)?,
                Some(_) => builder.count_unknown(line),
            }
            Ok(())
        })?;
        for (kind, draft) in events {
            match kind {
                Some(kind) => builder.add(kind, draft),
                None => builder.start_turn(draft.time),
            }
        }
        Ok(())
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let message = |role: &str, content: &str| {
            let mut message = Map::new();
            if pair.first.string("type").is_some() {
                message.insert("type".into(), "msg".into());
            }
            message.insert("role".into(), role.into());
            message.insert("content".into(), content.into());
            // Zero represents an unknown time.
            if pair.first.get("timestamp_ms").is_some() && pair.at != Timestamp::UNIX_EPOCH {
                message.insert("timestamp_ms".into(), pair.at.as_millisecond().into());
            }
            Value::Object(message).to_string()
        };
        vec![message("user", pair.request), message("assistant", pair.response)]
    }
}

/// Returns whether lines have a type, or calls that only J-CLI writes (flat, with arguments in a string). Other
/// lines could be `OpenAI`'s messages.
pub(super) fn is_sure(sample: &Sample<'_>) -> bool {
    let is_flat = |call: JsonNode<'_>| call.get("function").is_none() && call.string("arguments").is_some();
    sample.any_line(|line| match line.text_of("type").as_deref() {
        Some("msg") => is_message(line),
        Some("restore") => line.get("messages").is_some(),
        Some(_) => false,
        None => is_message(line) && line.get("tool_calls").is_some_and(|calls| calls.items().any(is_flat)),
    })
}

fn is_message(message: JsonNode<'_>) -> bool {
    let role = message.text_of("role");
    let is_text = message.get("content").is_none_or(|content| content.is_string() || content.is_null());
    is_text && role.is_some_and(|role| matches!(&*role, "user" | "assistant" | "tool" | "system"))
}

fn add_message(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    at: ElementRef,
    events: &mut Vec<FoundEvent>,
) -> Result<(), Unreadable> {
    let role = role_of(NAME, message)?;
    let time = message.get("timestamp_ms").and_then(JsonNode::number);
    let time = time.and_then(|time| Timestamp::from_millisecond(time).ok());
    let draft = EventDraft { time, ..EventDraft::whole(at, message) };
    let content = message.get("content").filter(|content| content.is_string() || content.is_array());
    if message.get("content").is_none() && message.get("tool_calls").is_none() && role != "system" {
        builder.count_unknown(message);
    }
    match &*role {
        "user" => {
            events.push((None, draft.clone()));
            events.push((Some(Kind::ChatRequest), draft.with_body(builder.text_or_empty(content))));
        }
        "assistant" => add_assistant_events(builder, message, &draft, events),
        "tool" => {
            let draft = draft.with_id(message.string_span("tool_call_id"));
            let draft = draft.with_body(builder.text_or_empty(content));
            let draft = draft.with_edit(message.get("content"), values::text);
            events.push((Some(Kind::ToolResponse { is_error: false }), draft));
        }
        _ => {}
    }
    Ok(())
}

fn add_assistant_events(
    builder: &mut EventBuilder,
    message: JsonNode<'_>,
    draft: &EventDraft,
    events: &mut Vec<FoundEvent>,
) {
    let members = builder.members(message);
    let len_before = events.len();
    if let Some(thought) = message.non_empty_string("reasoning_content") {
        let draft = draft.text_part(thought, members.deletion("reasoning_content"));
        events.push((Some(Kind::Reasoning), draft));
    }
    let content = message.get("content").filter(|text| text.raw().len() > 2 && !text.is_null());
    if let Some(content) = content {
        let draft = draft.part(content, Deletion::Value(content.span(), "\"\""));
        events.push((Some(Kind::Message), draft.with_body(builder.text(content))));
    }
    if let Some(calls) = message.non_empty_array("tool_calls") {
        for (at, call) in builder.elements(calls, members.find("tool_calls")) {
            let function = call.get("function").unwrap_or(call);
            let arguments = function.get("arguments");
            let draft = draft.part(call, Deletion::Element(at)).with_id(call.string_span("id"));
            let draft = builder.call(function, "name", arguments, values::empty_object_in_string, draft);
            events.push((Some(Kind::ToolRequest), draft));
        }
    }
    if events.len() == len_before {
        let body = builder.new_string("");
        events.push((Some(Kind::Message), draft.clone().with_body(body)));
    }
}
