//! The strategy `digest`: a summary without a model.
//!
//! It lists the user's messages, the files, the commands and their results, open errors, and the last message of the
//! assistant. Equal events give equal texts. It needs no model, no API key, and no network.

mod file_op;
mod ledger;
mod patch;
mod render;
mod status;
mod tools;

use std::process::ExitCode;

use jp_compact_strategy::event::BodyParser;
use jp_compact_strategy::kept::{KeptFacts, SectionLimit, SummaryWithFacts};
use jp_compact_strategy::schema::{
    CompactRequest, ContentKind, Description, Determinism, Input, Payload, STEPS, Severity, Summary,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, options, serve};
use ledger::Ledger;
use render::{FACT_LIMITS, LIMITS, render, render_facts};
use serde::Deserialize;
use serde_json::json;

/// The maximum size of the appended facts, except for constraints, in bytes. The digest itself lists most facts.
const OTHER_FACTS_BYTES_MAX: usize = 4_000;

/// The maximum size of a digest, in tokens, if the context window is unknown or large.
const TOKENS_MAX: u64 = 16_384;
/// The maximum size in a tiny context window, in tokens. A smaller digest would have no quotes.
const TOKENS_MIN: u64 = 512;
/// The maximum size of a digest is the context window divided by this number, as for the summaries of models.
const WINDOW_DIVISOR: u64 = 8;
/// A digest has prose and names, so it has about three bytes for each token.
const DIGEST_BYTES_PER_TOKEN: u64 = 3;
/// The size of a digest divided by this number is reserved for the appended facts.
const FACTS_DIVISOR: usize = 4;

/// A list of paths and commands has about two bytes for each token.
const BYTES_PER_TOKEN: usize = 2;

struct Digest;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    facts_tokens: Option<usize>,
}

impl Strategy for Digest {
    fn describe(&self) -> Description {
        Description {
            produces: vec![ContentKind::Summary],
            input: Input::Full,
            determinism: Determinism::Pure,
            features: ["worker", "events.file", STEPS].map(str::to_owned).to_vec(),
            options_schema: Some(json!({
                "type": "object",
                "properties": {
                    "facts_tokens": {
                        "description": "list only files, commands, errors, and constraints, in about this many tokens",
                        "type": "integer",
                        "minimum": 100,
                    },
                },
                "additionalProperties": false,
            })),
            ..Description::new(
                "digest",
                env!("CARGO_PKG_VERSION"),
                "Replace turns with a list of requests, files, commands and errors, without a model",
            )
        }
    }

    fn compact(
        &self,
        request: &CompactRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<Outcome, StrategyError> {
        let Options { facts_tokens } = options(request)?;
        let range = request.range;
        let (mut ledger, mut facts) = (Ledger::default(), KeptFacts::new(range));
        let mut parser = BodyParser::default();
        while let Some(line) = exchange.next_event()? {
            let body = parser.parse(&line);
            // The user's messages in a turn that is covered only in part stay in the view.
            if range.contains_step(line.turn, line.step) {
                facts.add(&line, &body);
                ledger.add(line.turn, body);
            }
        }
        let ledger = ledger.end();
        let digest = match facts_tokens {
            Some(tokens) => {
                // Half of the tokens are for the section, and the other half for the lists.
                let bytes = tokens.saturating_mul(BYTES_PER_TOKEN) / 2;
                let texts = FACT_LIMITS.iter().map(|limits| render_facts(range, &ledger, *limits));
                let section = SectionLimit { bytes, other_bytes: bytes };
                fitting(texts, bytes).map(|digest| facts.append_to(&digest, section))
            }
            None => {
                let max = bytes_max(request);
                let texts = LIMITS.iter().map(|limits| render(range, &ledger, *limits, max));
                let mut digest = None;
                for text in texts.filter(|text| text.len() <= max - max / FACTS_DIVISOR) {
                    let bytes = max - text.len();
                    let section = SectionLimit { bytes, other_bytes: OTHER_FACTS_BYTES_MAX.min(bytes / 2) };
                    let next = digest.insert(facts.append_to(&text, section));
                    // A smaller list has room for more constraints.
                    if next.diagnostic.as_ref().is_none_or(|one| one.severity != Severity::Warning) {
                        break;
                    }
                }
                digest
            }
        };
        let Some(SummaryWithFacts { text: summary, diagnostic }) = digest else {
            let limit = if facts_tokens.is_some() { "`facts_tokens`" } else { "the size limit of a summary" };
            return Ok(Outcome::decline(format!("the digest would exceed {limit}")));
        };
        if (summary.chars().count() as u64).div_ceil(4) >= request.context.tokens.in_range {
            return Ok(Outcome::decline("the digest would not be shorter than the turns"));
        }
        let payload = Payload { summary: Some(Summary { summary }), ..Payload::new(range) };
        let diagnostics = diagnostic.into_iter().collect();
        Ok(Outcome::Result { compactions: vec![payload], diagnostics, merges: None })
    }
}

/// Returns the maximum size of a digest with its appended facts, in bytes.
fn bytes_max(request: &CompactRequest) -> usize {
    let window = request.context.context_window.unwrap_or(u64::MAX);
    let tokens = (window / WINDOW_DIVISOR).clamp(TOKENS_MIN, TOKENS_MAX);
    usize::try_from(tokens * DIGEST_BYTES_PER_TOKEN).unwrap_or(usize::MAX)
}

/// Returns the first text that has at most this number of bytes.
fn fitting(mut texts: impl Iterator<Item = String>, bytes_max: usize) -> Option<String> {
    texts.find(|text| text.len() <= bytes_max)
}

fn main() -> ExitCode {
    serve(Digest)
}

#[cfg(test)]
mod tests;
