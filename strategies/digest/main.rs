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

use jp_compact_strategy::event::EventBody;
use jp_compact_strategy::schema::version::SUMMARY_BYTES_MAX;
use jp_compact_strategy::schema::{
    CompactRequest, ContentKind, Description, Determinism, Input, Payload, STEPS, Summary,
};
use jp_compact_strategy::{Exchange, Outcome, Strategy, StrategyError, serve};
use ledger::Ledger;
use render::{LIMITS, render};
use serde_json::json;

struct Digest;

impl Strategy for Digest {
    fn describe(&self) -> Description {
        Description {
            produces: vec![ContentKind::Summary],
            input: Input::Full,
            determinism: Determinism::Pure,
            features: ["worker", "events.file", STEPS].map(str::to_owned).to_vec(),
            options_schema: Some(json!({"type": "object", "additionalProperties": false})),
            ..Description::new(
                "digest",
                env!("CARGO_PKG_VERSION"),
                "Replace turns by a list of requests, files, commands and errors, without a model",
            )
        }
    }

    fn compact(
        &self,
        request: &CompactRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<Outcome, StrategyError> {
        let mut ledger = Ledger::default();
        let range = request.range;
        while let Some(line) = exchange.next_event()? {
            // The user's messages in a turn that is covered only in part stay in the view.
            if range.contains_step(line.turn, line.step) {
                ledger.add(line.turn, EventBody::parse(&line));
            }
        }
        let ledger = ledger.end();
        let texts = LIMITS.iter().map(|limits| render(range, &ledger, *limits));
        let Some(summary) = texts.into_iter().find(|text| text.len() as u64 <= SUMMARY_BYTES_MAX) else {
            return Ok(Outcome::decline("the digest would exceed the size limit of a summary"));
        };
        if (summary.chars().count() as u64).div_ceil(4) >= request.context.tokens.in_range {
            return Ok(Outcome::decline("the digest would not be shorter than the turns"));
        }
        Ok(Outcome::propose(Payload { summary: Some(Summary { summary }), ..Payload::new(range) }))
    }
}

fn main() -> ExitCode {
    serve(Digest)
}

#[cfg(test)]
mod tests;
