//! The reader of Cline's sessions: a document with messages in Anthropic's form, which Cline sends to any provider. A
//! message that Cline only displays is not an event.

use serde_json::json;

use super::anthropic::{self, Anthropic, WANTED};
use crate::builder::{EventBuilder, EventDraft};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure};
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter};

pub(super) struct Cline;

const MEMBERS: MemberFilter = |key| matches!(key, b"metadata" | b"modelInfo") || WANTED(key);

impl Reader for Cline {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        let is_session = |document: JsonNode<'_>| {
            document.string("sessionId").is_some()
                && document.get("origin").is_some_and(JsonNode::is_object)
                && document.array("messages").is_some()
        };
        let has_times = || sample.objects("messages").iter().any(|message| message.get("ts").is_some());
        sample.document.is_some_and(is_session) && has_times()
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        builder.read_document(MEMBERS, |builder, document| {
            let messages = document.get("messages").unwrap_or(document);
            ensure(messages.is_array(), "Cline", document, "the document has no list of messages")?;
            builder.add_system_content(document.string("system_prompt"));
            for (at, message) in builder.elements(messages, None) {
                if message.get("metadata").is_some_and(|metadata| metadata.is_true("displayOnly")) {
                    continue;
                }
                let milliseconds = message.get("ts").and_then(JsonNode::number);
                let time = milliseconds.and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
                if let Some(info) = message.get("modelInfo") {
                    builder.read_model(info, "id");
                }
                let draft = EventDraft { time, ..EventDraft::whole(at, message) };
                anthropic::read_message(builder, message, draft)?;
            }
            Ok(())
        })
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let message = |id: &str, role: &str, text: &str| {
            json!({
                "id": id, "role": role, "content": [{ "type": "text", "text": text }],
                "ts": pair.at.as_millisecond(),
            })
        };
        let [first, second] = &pair.ids;
        let [request, response] =
            [message(first, "user", pair.request), message(second, "assistant", pair.response)];
        vec![request.to_string(), response.to_string()]
    }

    fn blocks(&self) -> Option<&'static str> {
        Anthropic.blocks()
    }
}
