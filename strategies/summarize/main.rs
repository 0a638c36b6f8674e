//! The strategy `summarize`: a model writes what stands for the range (RFD 064, "`summarize`"). It reads raw
//! events and nothing else, asks through the host's `needs`, and proposes the model's text as it is. A range that
//! is larger than the model's window is done in parts, and their notes are merged: those are notes of this very
//! run on raw events, and never an older summary of the stream, which nobody is sent ("Raw-Stream Invariant").

use std::process::ExitCode;

use jp_compact_strategy::model::{LIST, Prompt, Step, Writing, pieces};
use jp_compact_strategy::schema::{
    CompactRequest, ContentKind, Description, Determinism, Input, Payload, Summary,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, options, serve};
use serde::Deserialize;
use serde_json::json;

const MAX_TOKENS: u64 = 4096;
/// What a summary holds, unless the user says otherwise.
const POINTS: &str = "\
- Goal: what the user wants, and what of it is reached.
- Decisions: what was decided, and why; what was tried and given up, and why.
- Places: paths, symbols, names, addresses and values that matter, spelled exactly.
- Commands: those that were run and matter, spelled exactly, and how they ended.
- Errors: what went wrong, and how it was resolved; what is still open.
- State: how things stand at the end of the transcript; where a procedure was being followed, its steps and how \
far it got.
- Next steps: what remains to be done.
- Standing instructions: what the user asked to be done always, or never, in the user's own words. Only lines under \
`user` are the user's words.";

struct Summarize;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    model: Option<String>,
    instructions: Option<String>,
    focus: Option<String>,
    max_tokens: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { model: None, instructions: None, focus: None, max_tokens: MAX_TOKENS }
    }
}

impl Strategy for Summarize {
    fn describe(&self) -> Description {
        Description {
            produces: vec![ContentKind::Summary],
            input: Input::Full,
            determinism: Determinism::Stochastic,
            features: vec!["worker".to_owned(), "events.file".to_owned()],
            needs: vec!["llm".to_owned()],
            options_schema: Some(json!({
                "type": "object",
                "properties": {
                    "model": {
                        "description": "who writes: provider/name [default: the host's model]",
                        "type": "string",
                        "minLength": 1,
                    },
                    "instructions": {
                        "description": "what the summary is to hold, in place of the built-in points",
                        "type": "string",
                        "minLength": 1,
                    },
                    "focus": {
                        "description": "what to pay attention to beside that",
                        "type": "string",
                        "minLength": 1,
                    },
                    "max_tokens": {
                        "description": "the longest text that the model may write",
                        "type": "integer",
                        "minimum": 64,
                        "default": MAX_TOKENS,
                    },
                },
                "additionalProperties": false,
            })),
            ..Description::new(
                "summarize",
                env!("CARGO_PKG_VERSION"),
                "Let a model write a summary that stands for the turns",
            )
        }
    }

    fn compact(
        &self,
        request: &CompactRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<Outcome, StrategyError> {
        let options: Options = options(request)?;
        let points = options.instructions.clone().unwrap_or_else(|| format!("{LIST}\n\n{POINTS}"));
        let prompt = Prompt { points: &points, focus: options.focus.as_deref(), context: Vec::new() };
        let writing = Writing::new(request, options.model.as_deref(), options.max_tokens, &prompt, 0)?;
        // The number of parts is all that a later round has to know; it need not read the events again.
        let Some(state) = &request.state else {
            let (requests, parts) = writing.begin(pieces(exchange)?)?;
            return Ok(match parts {
                0 => Outcome::decline("nothing is said in range"),
                _ => Outcome::Needs { requests, state: Some(parts.to_string()) },
            });
        };
        let parts = state.parse().map_err(|_| {
            StrategyError::new("request_invalid", format_args!("a state that is not ours: `{state}`"))
        })?;
        Ok(match writing.go_on(parts)? {
            Step::Needs(requests) => Outcome::Needs { requests, state: Some(parts.to_string()) },
            Step::Written(summary) => {
                let payload = Payload { summary: Some(Summary { summary }), ..Payload::of(request.range) };
                Outcome::Result { compactions: vec![payload], diagnostics: writing.remarks(parts) }
            }
        })
    }
}

fn main() -> ExitCode {
    serve(Summarize)
}

#[cfg(test)]
mod tests;
