//! The strategy `extract`: shortens old tool results, and the arguments of old calls, to the lines that introduce
//! names.
//!
//! A line is worth keeping if it has paths, numbers, or identifiers that the view shows nowhere else. Errors, exit
//! codes, the last line, and the first and last lines of a result always stay. Lines of prose stay up to a share of the
//! text. No passage of code stays: for an edit that needs the exact text, the model has to read the file again. A
//! result that an overlay already hides is never proposed again, so that the beginning of the view stays the same from
//! one run to the next.

mod anchors;
mod candidates;
mod cover;
mod lines;
mod prose;

use std::process::ExitCode;

use jp_compact_strategy::calls::CallHistory;
use jp_compact_strategy::schema::{
    CompactRequest, ContentKind, Description, Determinism, HIDDEN, Input, Payload, RequestAction,
    ResponseAction, STEPS, Scope, SelectiveCall, ToolCalls,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, options, serve};
use serde::Deserialize;
use serde_json::json;

use crate::candidates::CallCandidate;

const BUDGET: f64 = 0.35;
const KEEP_STEPS: usize = 3;
const MIN_BYTES: usize = 200;
const LINE_BYTES: usize = 160;
const EDGE_LINES: usize = 1;
const MERGE: usize = 1;
const PROSE: f64 = 0.15;
/// Tools whose calls are state or instructions.
const EXEMPT: [&str; 5] = ["LoadSkill", "Task", "TodoWrite", "TodoRead", "Ask"];
/// The limit of a reply is divided by this to get the limit of its texts, because escaping makes them longer.
const REPLY_SHARE: u64 = 2;
/// The approximate size of an omitted call and its result, without their texts.
const FRAME_BYTES: usize = 100;

struct Extract;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    budget: f64,
    keep_steps: usize,
    min_bytes: usize,
    line_bytes: usize,
    edge_lines: usize,
    merge: usize,
    prose: f64,
    exempt: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget: BUDGET,
            keep_steps: KEEP_STEPS,
            min_bytes: MIN_BYTES,
            line_bytes: LINE_BYTES,
            edge_lines: EDGE_LINES,
            merge: MERGE,
            prose: PROSE,
            exempt: EXEMPT.map(str::to_owned).to_vec(),
        }
    }
}

impl Strategy for Extract {
    fn describe(&self) -> Description {
        Description {
            produces: vec![ContentKind::ToolCalls],
            input: Input::Full,
            // A name that the rest of the conversation shows need not be kept.
            scope: Scope::Conversation,
            determinism: Determinism::Pure,
            wants: vec![HIDDEN.to_owned()],
            features: vec![
                "worker".to_owned(),
                "pipeline".to_owned(),
                "events.file".to_owned(),
                STEPS.to_owned(),
            ],
            options_schema: Some(json!({
                "type": "object",
                "properties": {
                    "budget": {
                        "description": "share of the old output and arguments that stays",
                        "type": "number",
                        "minimum": 0,
                        "maximum": 1,
                        "default": BUDGET,
                    },
                    "keep_steps": {
                        "description": "number of newest steps with calls to keep, counted in the whole conversation",
                        "type": "integer",
                        "minimum": 0,
                        "default": KEEP_STEPS,
                    },
                    "min_bytes": {
                        "description": "results and arguments of at most this many bytes stay",
                        "type": "integer",
                        "minimum": 0,
                        "default": MIN_BYTES,
                    },
                    "line_bytes": {
                        "description": "maximum size of a line; only the names of a longer line stay",
                        "type": "integer",
                        "minimum": 0,
                        "default": LINE_BYTES,
                    },
                    "edge_lines": {
                        "description": "number of lines that stay at the start and at the end of each result",
                        "type": "integer",
                        "minimum": 0,
                        "default": EDGE_LINES,
                    },
                    "merge": {
                        "description": "maximum number of neighboring old calls whose lines go into the result of the last one; the others are omitted",
                        "type": "integer",
                        "minimum": 1,
                        "default": MERGE,
                    },
                    "prose": {
                        "description": "maximum share of the old output and arguments for lines of prose; lines with names fill the budget first",
                        "type": "number",
                        "minimum": 0,
                        "maximum": 1,
                        "default": PROSE,
                    },
                    "exempt": {
                        "description": "tools whose calls stay",
                        "type": "array",
                        "items": {"type": "string"},
                        "default": EXEMPT,
                    },
                },
                "additionalProperties": false,
            })),
            ..Description::new(
                "extract",
                env!("CARGO_PKG_VERSION"),
                "Shorten old tool calls to the lines that introduce names",
            )
        }
    }

    fn compact(
        &self,
        request: &CompactRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<Outcome, StrategyError> {
        let options: Options = options(request)?;
        let conversation = CallHistory::read(exchange)?;
        let range = request.requested_range;
        let candidates = candidates::find(&conversation, range, &options);
        if candidates.is_empty() {
            return Ok(Outcome::decline("no call in the range is old enough, long enough, and not exempt"));
        }
        let extracts = cover::extract(&conversation, &candidates, &options);
        let bytes_max = usize::try_from(request.limits.result_bytes_max / REPLY_SHARE).unwrap_or(usize::MAX);
        let calls = entries(&candidates, extracts, bytes_max);
        if calls.is_empty() {
            return Ok(Outcome::decline("no old call in the range would become shorter"));
        }
        let policy = ToolCalls::Selective { calls };
        Ok(Outcome::propose(Payload { tool_calls: Some(policy), ..Payload::new(range) }))
    }
}

/// Returns the entries of the calls that become shorter. The oldest come first, and the entries that do not fit into a
/// reply are left for the next run.
fn entries(candidates: &[CallCandidate<'_>], extracts: Vec<String>, bytes_max: usize) -> Vec<SelectiveCall> {
    let mut entries = Vec::new();
    let mut bytes = 0;
    for (group, text) in candidates.chunk_by(|left, right| left.group == right.group).zip(extracts) {
        let Some((last, omitted)) = group.split_last() else { continue };
        let size: usize = group.iter().map(CallCandidate::size).sum();
        if text.len() >= size + omitted.len() * FRAME_BYTES {
            continue;
        }
        bytes += text.len();
        if bytes > bytes_max {
            break;
        }
        let entry = |seq| SelectiveCall { seq, request: None, response: None, omit: false };
        entries.extend(omitted.iter().map(|call| SelectiveCall { omit: true, ..entry(call.request_seq) }));
        if last.arguments.is_some() {
            entries.push(SelectiveCall { request: Some(RequestAction::Strip), ..entry(last.request_seq) });
        }
        let response = Some(ResponseAction::Replace(text));
        entries.push(SelectiveCall { response, ..entry(last.response_seq) });
    }
    entries
}

fn main() -> ExitCode {
    serve(Extract)
}

#[cfg(test)]
mod tests;
