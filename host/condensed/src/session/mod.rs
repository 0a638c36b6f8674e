//! A session of another program without its texts. The session is read in windows. Each event of a window is logged in
//! a few dozen bytes, and the window is dropped. Afterwards, the projection and the write-back need only the log.
//!
//! This is a second implementation of `jp_compact_core::projection` and of the write-back in `jp_compact_transcripts`,
//! for overlays of whole turns without summaries. Both must write the same bytes. If a value is needed that is not in
//! the log, the caller must use the first implementation.

mod log;
mod outcomes;
mod relink;
mod writer;

pub use log::{LoggedEvent, LoggedLink, SessionLog, is_blank, long_bytes};
pub use writer::CompactedSession;

use jp_compact_core::overlay::Overlay;
use jp_compact_json::KeptSpans;

use self::outcomes::{deleted_lines, outcomes};
use self::relink::relinked_lines;
use crate::policies::{depends_on_calls, turn_policies};

/// A session that was read.
pub struct CondensedSession {
    log: SessionLog,
    /// The names of the records, for example Claude Code's `uuid`.
    kept: KeptSpans,
    size: usize,
}

/// Returns whether the log is enough to apply an overlay.
#[must_use]
pub fn can_be_condensed(overlay: &Overlay) -> bool {
    overlay.summary.is_none() && !overlay.has_steps() && !depends_on_calls(overlay)
}

impl CondensedSession {
    /// Makes a session of `size` bytes. `kept` has the names of the records.
    #[must_use]
    pub fn new(log: SessionLog, kept: KeptSpans, size: usize) -> Self {
        Self { log, kept, size }
    }

    /// Returns the number of turns.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.log.turns().last().map_or(0, |(turn, _)| turn + 1)
    }

    /// Returns the number of events.
    #[must_use]
    pub fn events(&self) -> usize {
        self.log.len()
    }

    /// Returns the turn and the byte range of each event, in order.
    pub fn ranges(&self) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + '_ {
        self.log.turns().map(|(turn, row)| (turn, row.span.range()))
    }

    /// Applies overlays. `None` if the log is not enough.
    #[must_use]
    pub fn compacted(self, overlays: &[Overlay]) -> Option<CompactedSession> {
        if self.log.is_incomplete() || !overlays.iter().all(can_be_condensed) {
            return None;
        }
        let policies = turn_policies(overlays, self.turns());
        let (outcomes, tools) = outcomes(&self.log, &policies)?;
        let deleted = deleted_lines(&self.log, &outcomes);
        let relinked = relinked_lines(&self.log, &self.kept, &deleted)?;
        if self.kept.has_missed() {
            return None;
        }
        let Self { log, kept, size } = self;
        Some(CompactedSession { log, kept, size, outcomes, tools, deleted, relinked })
    }
}
