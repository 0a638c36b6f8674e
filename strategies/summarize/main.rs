//! The strategy `summarize`: a model writes a summary that replaces the range (RFD 064, "`summarize`").
//!
//! It reads raw events only, asks the host's model with `needs`, and proposes the model's text. It appends the facts
//! that the text lacks. If the range does not fit into the model's window, it is cut into parts, and the notes on them
//! are merged. The host may have notes of an earlier run, which were made from the same raw events. Notes never contain
//! an older summary, because the strategy does not get the texts of summaries (the raw-stream invariant).

use std::process::ExitCode;

use jp_compact_strategy::kept::KeptFacts;
use jp_compact_strategy::model::{LIST_HEADER, Prompt, TextState, TextStep, TextWriter, read_pieces};
use jp_compact_strategy::schema::{
    CompactRequest, ContentKind, Description, Determinism, Input, Payload, STEPS, Summary,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, options, serve};
use serde::Deserialize;
use serde_json::json;

const MAX_TOKENS: u64 = 4096;
/// The default contents of a summary.
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
            features: ["worker", "events.file", "needs.many", STEPS].map(str::to_owned).to_vec(),
            needs: vec!["llm".to_owned()],
            options_schema: Some(json!({
                "type": "object",
                "properties": {
                    "model": {
                        "description": "model that writes the summary, as provider/name [default: the host's model]",
                        "type": "string",
                        "minLength": 1,
                    },
                    "instructions": {
                        "description": "contents of the summary, instead of the built-in points",
                        "type": "string",
                        "minLength": 1,
                    },
                    "focus": {
                        "description": "additional topic that the model should focus on",
                        "type": "string",
                        "minLength": 1,
                    },
                    "max_tokens": {
                        "description": "maximum length of the summary, in tokens",
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
                "Let a model write a summary of the turns",
            )
        }
    }

    fn compact(
        &self,
        request: &CompactRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<Outcome, StrategyError> {
        let options: Options = options(request)?;
        let points = options.instructions.clone().unwrap_or_else(|| format!("{LIST_HEADER}\n\n{POINTS}"));
        let prompt = Prompt { points: &points, focus: options.focus.as_deref(), background: Vec::new() };
        let writer = TextWriter::new(request, options.model.as_deref(), options.max_tokens, &prompt, 0)?;
        let state: Option<TextState> = request.state.as_deref().map(state).transpose()?;
        // A round that only merges notes does not read the events again.
        let reads = state.as_ref().is_none_or(TextState::needs_pieces);
        let pieces = match reads {
            true => read_pieces(exchange, &request.range, writer.event_chars_max())?,
            false => Vec::new(),
        };
        Ok(match writer.advance(state, &pieces)? {
            TextStep::Empty => Outcome::decline("the range contains no text"),
            TextStep::Needs(requests, state) => {
                let remaining = writer.remaining(&state);
                let state = serde_json::to_string(&state).map_err(StrategyError::internal)?;
                Outcome::Needs { requests, state: Some(state), remaining }
            }
            TextStep::Written(written) => {
                let facts = KeptFacts::read(exchange, request.range)?;
                let (summary, diagnostics) = writer.finish(&written, &facts);
                let payload = Payload { summary: Some(Summary { summary }), ..Payload::new(request.range) };
                Outcome::Result { compactions: vec![payload], diagnostics, merges: Some(written.merges) }
            }
        })
    }
}

fn state(text: &str) -> Result<TextState, StrategyError> {
    serde_json::from_str(text)
        .map_err(|_| StrategyError::new("request_invalid", format_args!("invalid state: `{text}`")))
}

fn main() -> ExitCode {
    serve(Summarize)
}

#[cfg(test)]
mod tests;
