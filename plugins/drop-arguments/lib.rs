//! The strategy `drop-arguments`, as a shared library: strips the arguments of large tool calls, for example of whole files
//! that were written. It reads only the outline.

use std::collections::HashSet;

use jp_compact_strategy::schema::{
    CompactRequest, ContentKind, Description, Determinism, Input, Payload, RequestAction, SelectiveCall,
    ToolCalls,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, export_strategy, options};
use serde::Deserialize;
use serde_json::json;

struct DropArguments;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    max_tokens: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_tokens: 500 }
    }
}

impl Strategy for DropArguments {
    fn describe(&self) -> Description {
        Description {
            produces: vec![ContentKind::ToolCalls],
            input: Input::Outline,
            determinism: Determinism::Pure,
            features: vec!["worker".to_owned()],
            options_schema: Some(json!({
                "type": "object",
                "properties": {
                    "max_tokens": {
                        "description": "maximum size of a call that keeps its arguments, in tokens",
                        "type": "integer", "minimum": 0, "default": Options::default().max_tokens,
                    },
                },
                "additionalProperties": false,
            })),
            ..Description::new("drop-arguments", "0.1.0", "Strip the arguments of large tool calls")
        }
    }

    fn compact(&self, request: &CompactRequest, _: &mut Exchange<'_>) -> Result<Outcome, StrategyError> {
        let Options { max_tokens } = options(request)?;
        let outline = request
            .outline
            .as_ref()
            .ok_or_else(|| StrategyError::new("request_invalid", "the request has no outline"))?;
        let range = request.requested_range;
        // Turns whose arguments are already stripped are skipped. They have 0 `tool_request_tokens`.
        let turns: HashSet<usize> = request
            .turns_in(range)
            .filter(|row| row.kinds.tool_request_tokens > 0)
            .map(|row| row.turn)
            .collect();
        let request_type = outline.types.iter().position(|name| name == "tool_call_request");
        let mut calls = Vec::new();
        let rows = outline.seq.iter().zip(&outline.turn).zip(&outline.r#type).zip(&outline.tokens);
        for (((&seq, turn), &event_type), &tokens) in rows {
            if Some(event_type) == request_type && tokens > max_tokens && turns.contains(turn) {
                let request = Some(RequestAction::Strip);
                calls.push(SelectiveCall { seq, request, response: None, omit: false });
            }
        }
        if calls.is_empty() {
            return Ok(Outcome::decline(format!("no call in range is over {max_tokens} tokens")));
        }
        let tool_calls = Some(ToolCalls::Selective { calls });
        Ok(Outcome::propose(Payload { tool_calls, ..Payload::new(range) }))
    }
}

export_strategy!(DropArguments);
