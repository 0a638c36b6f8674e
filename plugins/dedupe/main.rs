//! The strategy `dedupe`: of tool calls with the same name and arguments, it keeps the last one. It omits the earlier
//! calls, or replaces their output with a note.
//!
//! It reads the whole conversation, because a call after the range can supersede one in the range. Calls without a
//! response stay.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::process::ExitCode;

use jp_compact_strategy::schema::{
    CompactRequest, ContentKind, Description, Determinism, Input, Payload, ResponseAction, Scope,
    SelectiveCall, ToolCalls,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, options, serve};
use serde::Deserialize;
use serde_json::{Map, Value, json};

struct Dedupe;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    mode: DedupeMode,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DedupeMode {
    #[default]
    Omit,
    Note,
}

/// The relevant fields of a tool event. Other events lack them and are skipped.
#[derive(Deserialize)]
struct ToolEvent {
    r#type: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// A call with a response. Equal calls have the same `key`.
struct RepeatableCall {
    key: usize,
    request: CallHalf,
    response: CallHalf,
}

#[derive(Clone, Copy)]
struct CallHalf {
    seq: u64,
    turn: usize,
}

impl Strategy for Dedupe {
    fn describe(&self) -> Description {
        Description {
            produces: vec![ContentKind::ToolCalls],
            input: Input::Full,
            scope: Scope::Conversation,
            determinism: Determinism::Pure,
            features: vec!["worker".to_owned(), "events.file".to_owned()],
            options_schema: Some(json!({
                "type": "object",
                "properties": {
                    "mode": {
                        "description": "omit the earlier call, or replace its output with a note",
                        "enum": ["omit", "note"],
                        "default": "omit",
                    },
                },
                "additionalProperties": false,
            })),
            ..Description::new("dedupe", "0.1.0", "Omit all but the last of identical tool calls")
        }
    }

    fn compact(
        &self,
        request: &CompactRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<Outcome, StrategyError> {
        let Options { mode } = options(request)?;
        let calls = read_calls(exchange)?;
        // Calls are in the order of their responses, so the last of equal calls has the current result.
        let last_calls: HashMap<usize, &RepeatableCall> = calls.iter().map(|call| (call.key, call)).collect();
        let range = request.requested_range;
        let mut entries = Vec::new();
        for call in &calls {
            let last = last_calls[&call.key];
            let is_in_range = range.contains(call.request.turn) && range.contains(call.response.turn);
            if is_in_range && last.response.seq != call.response.seq {
                entries.push(mode.entry(call, last));
            }
        }
        if entries.is_empty() {
            return Ok(Outcome::decline("no call in range was repeated"));
        }
        let tool_calls = Some(ToolCalls::Selective { calls: entries });
        Ok(Outcome::propose(Payload { tool_calls, ..Payload::new(range) }))
    }
}

impl DedupeMode {
    fn entry(self, call: &RepeatableCall, last: &RepeatableCall) -> SelectiveCall {
        let entry = SelectiveCall { seq: call.request.seq, request: None, response: None, omit: false };
        match self {
            Self::Omit => SelectiveCall { omit: true, ..entry },
            Self::Note => {
                let note = format!("[the same call was made again in turn {}]", last.request.turn);
                let response = Some(ResponseAction::Replace(note));
                SelectiveCall { seq: call.response.seq, response, ..entry }
            }
        }
    }
}

/// Returns the calls with a response. Ids can be reused: a response belongs to the oldest pending call with its id, and
/// a pending call is dropped when a later turn reuses its id.
fn read_calls(exchange: &mut Exchange<'_>) -> Result<Vec<RepeatableCall>, StrategyError> {
    let mut keys: HashMap<String, usize> = HashMap::new();
    let mut pending: HashMap<String, VecDeque<(usize, CallHalf)>> = HashMap::new();
    let mut calls = Vec::new();
    while let Some(line) = exchange.next_event()? {
        let half = CallHalf { seq: line.seq, turn: line.turn };
        let Ok(event) = line.event_as::<ToolEvent>() else { continue };
        match event.r#type.as_str() {
            "tool_call_request" => {
                let next_key = keys.len();
                let key = *keys.entry(call_text(&event)).or_insert(next_key);
                let same_id = pending.entry(event.id).or_default();
                same_id.retain(|(_, earlier)| earlier.turn == half.turn);
                same_id.push_back((key, half));
            }
            "tool_call_response" => {
                let call = pending.get_mut(&event.id).and_then(VecDeque::pop_front);
                calls.extend(call.map(|(key, request)| RepeatableCall { key, request, response: half }));
            }
            _ => {}
        }
    }
    Ok(calls)
}

/// Returns the name and the arguments as text. Only the order of the arguments does not matter, not the order in them.
fn call_text(event: &ToolEvent) -> String {
    let sorted: BTreeMap<_, _> =
        event.arguments.iter().map(|(key, value)| (key, value.to_string())).collect();
    format!("{} {sorted:?}", event.name)
}

fn main() -> ExitCode {
    serve(Dedupe)
}
