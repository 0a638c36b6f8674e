//! The strategy `trim`: clears or cuts old tool results by a fixed rule. `TrimOptions` defines which results are old,
//! how much of them stays, and how many tokens they must have together. Presets reproduce published rules.
//!
//! A result that an overlay already hides is never proposed again.

mod old;
mod options;
mod preset;
mod rule;

use std::process::ExitCode;

use jp_compact_strategy::calls::CallHistory;
use jp_compact_strategy::schema::{
    CompactRequest, ContentKind, Description, Determinism, HIDDEN, Input, Payload, RequestAction,
    ResponseAction, STEPS, Scope, SelectiveCall, ToolCalls,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, serve};
use serde_json::{Value, json};

use crate::old::OldCall;
use crate::options::TrimOptions;
use crate::preset::Preset;
use crate::rule::TrimRule;

struct Trim;

impl Strategy for Trim {
    fn describe(&self) -> Description {
        Description {
            produces: vec![ContentKind::ToolCalls],
            input: Input::Full,
            // The newest results of the conversation count, even if they are after the range.
            scope: Scope::Conversation,
            determinism: Determinism::Pure,
            wants: vec![HIDDEN.to_owned()],
            features: vec![
                "worker".to_owned(),
                "pipeline".to_owned(),
                "events.file".to_owned(),
                STEPS.to_owned(),
            ],
            options_schema: Some(options_schema()),
            ..Description::new(
                "trim",
                env!("CARGO_PKG_VERSION"),
                "Clear or cut old tool results by a fixed rule",
            )
        }
    }

    fn compact(
        &self,
        request: &CompactRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<Outcome, StrategyError> {
        let rule = jp_compact_strategy::options::<TrimOptions>(request)?.rule();
        let conversation = CallHistory::read(exchange)?;
        let range = request.requested_range;
        let old = old::find(&conversation, request.conversation.turns, range, &rule);
        let tokens: u64 = old.iter().map(|call| call.result.tokens).sum();
        if !old.is_empty() && tokens < rule.min_gain {
            return Ok(Outcome::decline(format!(
                "the old results have {tokens} tokens, and `min_gain` is {}",
                rule.min_gain
            )));
        }
        let bytes_max = usize::try_from(request.limits.result_bytes_max / 2).unwrap_or(usize::MAX);
        let calls = entries(&old, &rule, bytes_max);
        if calls.is_empty() {
            return Ok(Outcome::decline("no old result in the range would become shorter"));
        }
        let policy = ToolCalls::Selective { calls };
        Ok(Outcome::propose(Payload { tool_calls: Some(policy), ..Payload::new(range) }))
    }
}

/// Returns the entries of the results that become shorter. The oldest come first, and the entries that do not fit into
/// a reply are left for the next run.
fn entries(old: &[OldCall<'_>], rule: &TrimRule, bytes_max: usize) -> Vec<SelectiveCall> {
    let mut entries = Vec::new();
    let mut bytes = 0;
    for old in old {
        let entry = |seq| SelectiveCall { seq, request: None, response: None, omit: false };
        if rule.arguments && !old.call.hidden && !old.call.arguments.is_empty() {
            entries.push(SelectiveCall { request: Some(RequestAction::Strip), ..entry(old.call.seq) });
        }
        if let Some(text) = rule.shortened(&old.call.tool, &old.result.content) {
            bytes += text.len();
            if bytes > bytes_max {
                break;
            }
            let response = Some(ResponseAction::Replace(text));
            entries.push(SelectiveCall { response, ..entry(old.result.seq) });
        }
    }
    entries
}

/// Returns the schema of the options. The schema has no defaults, because the host would fill them in, and a preset
/// could not override them.
fn options_schema() -> Value {
    let defaults = TrimRule::default();
    let number = |description: &str| json!({"description": description, "type": "integer", "minimum": 0});
    json!({
        "type": "object",
        "properties": {
            "preset": {
                "description": "a published rule; the other options override its values",
                "enum": Preset::NAMES,
            },
            "keep_results": number("keep this number of newest results (default: 0)"),
            "keep_steps": number(&format!(
                "keep the results of this number of newest steps with calls (default: {})",
                defaults.keep_steps
            )),
            "keep_turns": number("keep the results of this number of newest turns (default: 0)"),
            "keep_tokens": number(
                "keep the newest results up to this total of tokens; results that another option keeps do not count (default: 0)"
            ),
            "first": number(&format!("number of first characters that stay (default: {})", defaults.first)),
            "last": number(&format!("number of last characters that stay (default: {})", defaults.last)),
            "min_chars": number("maximum size of results to keep, in characters (default: 0)"),
            "placeholder": {
                "description": "text instead of the removed part, with {tool}, {chars}, and {lines}",
                "type": "string",
                "minLength": 1,
            },
            "exempt": {
                "description": "tools whose results stay (default: none)",
                "type": "array",
                "items": {"type": "string"},
            },
            "keep_errors": {"description": "keep the results of failed calls (default: false)", "type": "boolean"},
            "arguments": {"description": "also strip the arguments of old calls (default: false)", "type": "boolean"},
            "min_gain": number("do nothing if the old results have fewer tokens (default: 0)"),
        },
        "additionalProperties": false,
    })
}

fn main() -> ExitCode {
    serve(Trim)
}

#[cfg(test)]
mod tests;
