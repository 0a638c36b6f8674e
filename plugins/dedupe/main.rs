//! The strategy `dedupe`: of tool calls with the same name and arguments it keeps the last, and leaves the
//! earlier ones out of the view, or leaves a note in the place of their output. It reads the whole
//! conversation, so that a call behind the range supersedes one in it, and never names an unanswered call.

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
    mode: Mode,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    #[default]
    Omit,
    Note,
}

/// As much of an event as matters here. Other types have none of it, and are skipped.
#[derive(Deserialize)]
struct Event {
    r#type: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// A call that was answered.
struct Call {
    what: usize,
    request: Half,
    response: Half,
}

#[derive(Clone, Copy)]
struct Half {
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
                        "description": "the earlier call goes, or its output gives way to a note",
                        "enum": ["omit", "note"],
                        "default": "omit",
                    },
                },
                "additionalProperties": false,
            })),
            ..Description::new("dedupe", "0.1.0", "Leave out identical tool calls but the last")
        }
    }

    fn compact(
        &self,
        request: &CompactRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<Outcome, StrategyError> {
        let Options { mode } = options(request)?;
        let calls = calls(exchange)?;
        // The calls come in the order of their answers: the last of a kind is what the model knows by now.
        let last: HashMap<usize, &Call> = calls.iter().map(|call| (call.what, call)).collect();
        let range = request.requested_range;
        let earlier = calls.iter().filter_map(|call| {
            let last = last.get(&call.what)?;
            let inside = range.contains(call.request.turn) && range.contains(call.response.turn);
            (last.response.seq != call.response.seq && inside).then(|| mode.entry(call, last))
        });
        let calls: Vec<_> = earlier.collect();
        if calls.is_empty() {
            return Ok(Outcome::decline("no call in range was made again"));
        }
        let tool_calls = Some(ToolCalls::Selective { calls });
        Ok(Outcome::propose(Payload { tool_calls, ..Payload::of(range) }))
    }
}

impl Mode {
    fn entry(self, call: &Call, last: &Call) -> SelectiveCall {
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

/// The answered calls. Ids are used again: a response belongs to the oldest call that waits under its id, and a
/// call that was given up waits no more once a later turn uses its id.
fn calls(exchange: &mut Exchange<'_>) -> Result<Vec<Call>, StrategyError> {
    let (mut kinds, mut calls) = (HashMap::new(), Vec::new());
    let mut waiting: HashMap<String, VecDeque<(usize, Half)>> = HashMap::new();
    while let Some(line) = exchange.next_event()? {
        let half = Half { seq: line.seq, turn: line.turn };
        let Ok(event) = line.event_as::<Event>() else { continue };
        match event.r#type.as_str() {
            "tool_call_request" => {
                let next = kinds.len();
                let what = *kinds.entry(key(&event)).or_insert(next);
                let same_id = waiting.entry(event.id).or_default();
                same_id.retain(|(_, earlier)| earlier.turn == half.turn);
                same_id.push_back((what, half));
            }
            "tool_call_response" => {
                let call = waiting.get_mut(&event.id).and_then(VecDeque::pop_front);
                calls.extend(call.map(|(what, request)| Call { what, request, response: half }));
            }
            _ => {}
        }
    }
    Ok(calls)
}

/// Name and arguments, in which the order of keys is no difference.
fn key(event: &Event) -> String {
    let sorted: BTreeMap<_, _> =
        event.arguments.iter().map(|(key, value)| (key, value.to_string())).collect();
    format!("{} {sorted:?}", event.name)
}

fn main() -> ExitCode {
    serve(Dedupe)
}
