//! The event lines of `input: full`. A spool file is written once for each range and scope of a transcript. Lines in
//! memory are dropped with their request.

use std::sync::Arc;

use jp_compact_core::request::{self, Ask};
use jp_compact_core::{Survey, TurnRange};
use jp_compact_runtime::session::Lines;
use jp_compact_runtime::session::spool::Sink;
use jp_compact_schema::STEPS;

use super::RunSettings;
use super::strategy_error::StrategyRunError;

/// The spool files of one transcript.
#[derive(Default)]
pub(super) struct Spooling {
    files: Vec<((TurnRange, bool), Arc<Lines>, u64)>,
}

impl Spooling {
    /// Returns the lines for this request, and their number.
    pub(super) fn events(
        &mut self,
        survey: &Survey<'_>,
        ask: &Ask<'_>,
        run: &RunSettings,
    ) -> Result<(Arc<Lines>, u64), StrategyRunError> {
        let spool = run.io.sessions.starter().spool.as_deref();
        let spool = spool.filter(|_| ask.description.has_feature("events.file"));
        // Strategies with steps get them in the lines.
        let scope = (request::scope(survey, ask), ask.description.has_feature(STEPS));
        let known = self.files.iter().find(|(turns, ..)| *turns == scope).filter(|_| spool.is_some());
        if let Some((_, lines, count)) = known {
            return Ok((Arc::clone(lines), *count));
        }
        let mut sink = Sink::new(spool);
        let written = request::write_events(survey, ask, &mut sink);
        let lines = written.and_then(|count| Ok((Arc::new(sink.finish()?), count)));
        let (lines, count) = lines.map_err(StrategyRunError::Spool)?;
        if matches!(*lines, Lines::File(_)) {
            self.files.push((scope, Arc::clone(&lines), count));
        }
        Ok((lines, count))
    }
}
