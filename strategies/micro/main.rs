//! The strategy `micro`, the first layer of J-CLI: replaces old tool results with placeholders that name the tool.
//! Short results stay, and so do results with state or instructions.
//!
//! It keeps the newest results of the conversation, not of the range, as J-CLI does. Therefore, its profile keeps no
//! turn. In J-CLI's own example with `keep_recent=3`, the text keeps the last three calls, but the picture does not.
//! The strategy reads no events: the outline has the size of each result, and lists the hidden ones. Without
//! that list, it would again propose a result that is already a placeholder.

use std::collections::BTreeSet;
use std::process::ExitCode;

use jp_compact_strategy::schema::{
    CompactRequest, CompactionRef, ContentKind, Description, Determinism, Input, Outline, Payload,
    ResponseAction, STEPS, Scope, SelectiveCall, ToolCalls, ToolCallsRef,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, options, serve};
use serde::Deserialize;
use serde_json::json;

const KEEP_RECENT: usize = 10;
const MIN_BYTES: u64 = 800;
/// Tools whose results are state or instructions.
const EXEMPT: [&str; 5] = ["LoadSkill", "Task", "TodoWrite", "TodoRead", "Ask"];

struct Micro;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    keep_recent: usize,
    min_bytes: u64,
    exempt: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { keep_recent: KEEP_RECENT, min_bytes: MIN_BYTES, exempt: EXEMPT.map(str::to_owned).to_vec() }
    }
}

impl Strategy for Micro {
    fn describe(&self) -> Description {
        Description {
            produces: vec![ContentKind::ToolCalls],
            input: Input::Outline,
            // The newest results of the conversation count, even if they are after the range.
            scope: Scope::Conversation,
            determinism: Determinism::Pure,
            features: vec!["worker".to_owned(), "pipeline".to_owned(), STEPS.to_owned()],
            options_schema: Some(json!({
                "type": "object",
                "properties": {
                    "keep_recent": {
                        "description": "number of newest results to keep, counted in the whole conversation",
                        "type": "integer",
                        "minimum": 0,
                        "default": KEEP_RECENT,
                    },
                    "min_bytes": {
                        "description": "results of at most this many bytes stay",
                        "type": "integer",
                        "minimum": 0,
                        "default": MIN_BYTES,
                    },
                    "exempt": {
                        "description": "tools whose results stay",
                        "type": "array",
                        "items": {"type": "string"},
                        "default": EXEMPT,
                    },
                },
                "additionalProperties": false,
            })),
            ..Description::new(
                "micro",
                env!("CARGO_PKG_VERSION"),
                "Replace old and long tool results with placeholders",
            )
        }
    }

    fn compact(&self, request: &CompactRequest, _: &mut Exchange<'_>) -> Result<Outcome, StrategyError> {
        let options: Options = options(request)?;
        let results = results(request.outline.as_ref())?;
        let old = results.len().saturating_sub(options.keep_recent);
        let range = request.requested_range;
        let is_old =
            |result: &ToolResult<'_>| result.seq < results.get(old).map_or(u64::MAX, |first| first.seq);
        let is_replaced = |result: &&ToolResult<'_>| {
            is_old(result)
                && result.bytes > options.min_bytes
                && !options.exempt.iter().any(|exempt| exempt == result.tool)
        };
        let in_range = || results.iter().filter(|result| range.contains_step(result.turn, result.step));
        let own = own_seqs(request);
        let restored =
            in_range().filter(|result| result.hidden && own.contains(&result.seq) && !is_replaced(result));
        let replaced = in_range().filter(|result| !result.hidden).filter(is_replaced);
        let calls: Vec<SelectiveCall> =
            restored.map(ToolResult::kept).chain(replaced.filter_map(ToolResult::placeholder)).collect();
        if calls.is_empty() {
            return Ok(Outcome::decline("no result in the range is old enough, long enough, and not exempt"));
        }
        let policy = ToolCalls::Selective { calls };
        Ok(Outcome::propose(Payload { tool_calls: Some(policy), ..Payload::new(range) }))
    }
}

/// Returns the results that an earlier overlay of this strategy replaces. With other options, the view may show some of
/// them again.
fn own_seqs(request: &CompactRequest) -> BTreeSet<u64> {
    let is_own = |older: &&CompactionRef| older.strategies.contains(&request.strategy);
    let policies =
        request.shown(ContentKind::ToolCalls).filter(is_own).filter_map(|older| older.tool_calls.as_ref());
    let seqs = policies.filter_map(|policy| match policy {
        ToolCallsRef::Selective { seqs } => Some(seqs),
        _ => None,
    });
    seqs.flatten().copied().collect()
}

/// A tool result in the outline.
struct ToolResult<'a> {
    seq: u64,
    turn: usize,
    step: Option<usize>,
    tool: &'a str,
    bytes: u64,
    hidden: bool,
}

impl ToolResult<'_> {
    /// Returns the replacement, or `None` if it would not be shorter than the result.
    fn placeholder(&self) -> Option<SelectiveCall> {
        let text = format!("[Previous: used {}]", self.tool);
        let response = Some(ResponseAction::Replace(text.clone()));
        (self.bytes > text.len() as u64).then_some(SelectiveCall {
            seq: self.seq,
            request: None,
            response,
            omit: false,
        })
    }

    /// Returns the entry that shows the result again.
    fn kept(&self) -> SelectiveCall {
        SelectiveCall { seq: self.seq, request: None, response: Some(ResponseAction::Keep), omit: false }
    }
}

/// Returns all tool results, in order.
fn results(outline: Option<&Outline>) -> Result<Vec<ToolResult<'_>>, StrategyError> {
    let invalid = |reason: &str| StrategyError::new("request_invalid", reason);
    let outline = outline.ok_or_else(|| invalid("the request has no outline"))?;
    let rows = outline.rows().ok_or_else(|| invalid("the columns of the outline differ in length"))?;
    let is_response =
        |row: usize| outline.types.get(outline.r#type[row]).is_some_and(|name| name == "tool_call_response");
    let result = |row: usize| ToolResult {
        seq: outline.seq[row],
        turn: outline.turn[row],
        step: outline.step.as_ref().and_then(|step| step[row]),
        tool: outline.tool[row].and_then(|tool| outline.tools.get(tool)).map_or("unknown", String::as_str),
        bytes: outline.bytes[row],
        hidden: outline.hidden.binary_search(&outline.seq[row]).is_ok(),
    };
    Ok((0..rows).filter(|row| is_response(*row)).map(result).collect())
}

fn main() -> ExitCode {
    serve(Micro)
}

#[cfg(test)]
mod tests;
