//! The event lines of `input: full`. A spool file is written once for each range of a transcript, and once more for
//! strategies with steps. Lines in memory are dropped after their request.

use std::sync::Arc;

use jp_compact_core::request::{self, RequestParameters};
use jp_compact_core::{Survey, TurnRange};
use jp_compact_runtime::session::Lines;
use jp_compact_runtime::session::spool::Sink;
use jp_compact_schema::STEPS;

use super::RunSettings;
use super::strategy_error::StrategyRunError;

/// The spool files of one transcript.
#[derive(Default)]
pub(super) struct EventLinesCache {
    files: Vec<CachedFile>,
}

struct CachedFile {
    range: TurnRange,
    /// Whether the lines have steps. Only strategies with the feature `steps` get them.
    has_steps: bool,
    lines: Arc<Lines>,
    count: u64,
}

impl EventLinesCache {
    /// Returns the lines for this request, and their number.
    pub(super) fn get_or_write(
        &mut self,
        survey: &Survey<'_>,
        parameters: &RequestParameters<'_>,
        run: &RunSettings,
    ) -> Result<(Arc<Lines>, u64), StrategyRunError> {
        let (range, has_steps) =
            (request::scope(survey, parameters), parameters.description.has_feature(STEPS));
        let reads_file = parameters.description.has_feature("events.file");
        let spool = run.io.sessions.starter().spool.as_deref().filter(|_| reads_file);
        if spool.is_some()
            && let Some(file) =
                self.files.iter().find(|file| file.range == range && file.has_steps == has_steps)
        {
            return Ok((Arc::clone(&file.lines), file.count));
        }
        let mut sink = Sink::new(spool);
        let count = request::write_events(survey, parameters, &mut sink).map_err(StrategyRunError::Spool)?;
        let lines = Arc::new(sink.finish().map_err(StrategyRunError::Spool)?);
        if matches!(*lines, Lines::File(_)) {
            self.files.push(CachedFile { range, has_steps, lines: Arc::clone(&lines), count });
        }
        Ok((lines, count))
    }
}
