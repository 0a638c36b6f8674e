//! The messages that represent a summary. The first message of a pair keeps the id of the message that it replaces,
//! because other messages refer to it and `OpenCode` sorts messages by id. If a replaced message has a compaction part,
//! the first message keeps the part, and a complete answer follows it.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::reader::SummaryPair;
use jp_compact_json::JsonNode;

/// Returns the two messages of a pair, or the message of a note. The text of a note is synthetic: no human wrote it.
pub(super) fn records(pair: &SummaryPair<'_>, is_note: bool) -> Vec<String> {
    let (first, last) = (pair.first.get("info"), pair.last.get("info"));
    // A member that is missing in one message is copied from the other.
    let copied = |name: &str| {
        let value = [last, first].into_iter().flatten().find_map(|info| info.get(name));
        value.and_then(json_of)
    };
    let (id, response_id) = if is_note { note_ids(pair) } else { message_ids(pair) };
    let session = copied("sessionID").unwrap_or_default();
    let created = first.and_then(|info| info.get("time")?.get("created")).and_then(json_of);
    let created = created.unwrap_or_else(|| pair.at.as_millisecond().into());

    let text = |half: usize, message: &str, text: &str| {
        let id = format!("prt_{}", pair.ids[half].replace('-', ""));
        json!({ "id": id, "sessionID": session, "messageID": message, "type": "text", "text": text })
    };
    let mut parts = vec![text(0, &id, pair.request)];
    if is_note {
        parts[0]["synthetic"] = true.into();
    }
    let carried = pair.carried.iter().filter_map(|part| serde_json::from_slice(part).ok());
    parts.extend(carried.map(|mut part: Map<String, Value>| {
        part.insert("messageID".into(), id.as_str().into());
        Value::Object(part)
    }));
    let is_compaction = parts.len() > 1;

    let model_member = |name: &str| {
        copied(name).or_else(|| first?.get("model")?.get(name).and_then(json_of)).unwrap_or_default()
    };
    let (provider, model) = (model_member("providerID"), model_member("modelID"));
    let agent = copied("agent").or_else(|| copied("mode")).unwrap_or_else(|| "build".into());
    let user = json!({
        "id": id,
        "sessionID": session,
        "role": "user",
        "time": { "created": created },
        "agent": agent,
        "model": { "providerID": provider, "modelID": model },
    });
    let user = json!({ "info": user, "parts": parts }).to_string();
    if is_note && !is_compaction {
        return vec![user];
    }
    let mut assistant = Map::new();
    let mut set = |name: &str, value: Value| assistant.insert(name.into(), value);
    set("id", response_id.as_str().into());
    set("sessionID", session.clone());
    set("role", "assistant".into());
    set("parentID", id.as_str().into());
    set("time", json!({ "created": created, "completed": created }));
    set("modelID", model);
    set("providerID", provider);
    set("mode", copied("mode").unwrap_or_else(|| agent.clone()));
    set("agent", agent);
    set("path", copied("path").unwrap_or_else(|| json!({ "cwd": "/", "root": "/" })));
    set("cost", 0.into());
    let tokens = json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    set("tokens", tokens);
    set("finish", "stop".into());
    if is_compaction {
        set("summary", true.into());
    }
    let response_parts = if is_note { vec![] } else { vec![text(1, &response_id, pair.response)] };
    vec![user, json!({ "info": assistant, "parts": response_parts }).to_string()]
}

/// Returns the ids of the two messages. A pair before a message that stays must sort before it, so its ids are
/// prefixes of that message's id.
fn message_ids(pair: &SummaryPair<'_>) -> (String, String) {
    let id_of = |message: JsonNode<'_>| Some(message.get("info")?.text_of("id")?.into_owned());
    let shorter = |id: &str, by: usize| Some(id.get(..id.len().checked_sub(by)?)?.to_owned());
    let next = pair.next.or((!pair.replaces_first).then_some(pair.first));
    if let Some(next) = next.and_then(id_of)
        && let (Some(id), Some(response_id)) = (shorter(&next, 2), shorter(&next, 1))
    {
        return (id, response_id);
    }
    let id = id_of(pair.first).unwrap_or_else(|| format!("msg_{}", pair.ids[0].replace('-', "")));
    let response_id = format!("{id}1");
    (id, response_id)
}

/// Returns the ids of a note and of its answer, which sort directly after the previous summary, or after the request of
/// the steps.
fn note_ids(note: &SummaryPair<'_>) -> (String, String) {
    let request = || note.first.get("info")?.text_of("parentID").map(Cow::into_owned);
    let previous: Option<String> = serde_json::from_str(note.parent).ok();
    let previous = previous.or_else(request).unwrap_or_else(|| "msg_".into());
    let id = format!("{previous}{}", note.ids[0].replace('-', ""));
    let response_id = format!("{id}1");
    (id, response_id)
}

pub(super) fn id(message: &str) -> Option<String> {
    let message: Value = serde_json::from_str(message).ok()?;
    Some(message["info"]["id"].as_str()?.to_owned())
}

fn json_of(value: JsonNode<'_>) -> Option<Value> {
    serde_json::from_slice(value.raw()).ok()
}
