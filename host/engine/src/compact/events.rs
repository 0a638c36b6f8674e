//! The event lines for strategies with `input: full`. Requests with the same range and the same optional members share one
//! spool file. Lines in memory are dropped after their request.

use std::sync::Arc;

use jp_compact_core::request::{self, RequestParameters};
use jp_compact_core::{Survey, TurnRange};
use jp_compact_runtime::session::Lines;
use jp_compact_runtime::session::spool::Sink;
use jp_compact_schema::{HIDDEN, STEPS};

use super::RunSettings;
use super::strategy_error::StrategyRunError;

/// The spool files of one transcript.
#[derive(Default)]
pub(super) struct EventLinesCache {
    files: Vec<CachedFile>,
}

struct CachedFile {
    range: TurnRange,
    members: LineMembers,
    lines: Arc<Lines>,
    count: u64,
}

/// The optional members of the lines.
#[derive(PartialEq, Eq, Clone, Copy)]
struct LineMembers {
    /// Whether the lines have steps. Only strategies with the feature `steps` get them.
    step: bool,
    /// The number of overlays that determined the `hidden` marks. `None` if the strategy's `wants` lacks `hidden`.
    hidden: Option<usize>,
}

impl EventLinesCache {
    /// Returns the lines for this request, and their number.
    pub(super) fn get_or_write(
        &mut self,
        survey: &Survey<'_>,
        parameters: &RequestParameters<'_>,
        run: &RunSettings,
    ) -> Result<(Arc<Lines>, u64), StrategyRunError> {
        let description = parameters.description;
        let range = request::scope(survey, parameters);
        let members = LineMembers {
            step: description.has_feature(STEPS),
            hidden: description.wants(HIDDEN).then(|| survey.stream.overlays().len()),
        };
        let reads_file = description.has_feature("events.file");
        let spool = run.io.sessions.starter().spool.as_deref().filter(|_| reads_file);
        if spool.is_some()
            && let Some(file) = self.files.iter().find(|file| file.range == range && file.members == members)
        {
            return Ok((Arc::clone(&file.lines), file.count));
        }
        let mut sink = Sink::new(spool);
        let count = request::write_events(survey, parameters, &mut sink).map_err(StrategyRunError::Spool)?;
        let lines = Arc::new(sink.finish().map_err(StrategyRunError::Spool)?);
        if matches!(*lines, Lines::File(_)) {
            self.files.push(CachedFile { range, members, lines: Arc::clone(&lines), count });
        }
        Ok((lines, count))
    }
}
