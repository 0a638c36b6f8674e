//! A session of another program without its texts. The session is read in windows. Each event of a window is logged in
//! a few dozen bytes, and the window is dropped. Afterwards, the projection and the write-back need only the log.
//!
//! This is a second implementation of `jp_compact_core::projection` and of the write-back in `jp_compact_transcripts`,
//! for overlays of whole turns without summaries. Both must write the same bytes. If a value is needed that is not in
//! the log, the caller must use the first implementation.

mod early;
mod log;
mod outcomes;
mod relink;
mod writer;

pub use early::EarlyWriter;
pub use log::{LoggedEvent, LoggedLink, SessionLog, is_blank, long_bytes};
pub use writer::CompactedSession;

use std::ops::{Deref, DerefMut};

use jp_compact_core::overlay::Overlay;
use jp_compact_json::{KeptSpans, Span};

use self::outcomes::{IdTools, mark_deleted_lines, outcomes};
use self::relink::{LinkTree, RelinkedRow};
use self::writer::{Changes, WrittenPart};
use crate::policies::{depends_on_calls, turn_policies};

/// The log of a session, and the writer that writes it while it is read.
pub struct LoggedSession {
    log: SessionLog,
    early: Option<EarlyWriter>,
}

impl LoggedSession {
    /// Returns an empty log for a file of `bytes` bytes. `None` if the file is too large.
    #[must_use]
    pub fn for_file_of(bytes: usize, early: Option<EarlyWriter>) -> Option<Self> {
        Some(Self { log: SessionLog::for_file_of(bytes)?, early })
    }

    /// Ends a window. The next list has number 0. `raw` returns the bytes of a span of the window, and the names of the
    /// records.
    pub fn end_window<'a>(&mut self, raw: impl Fn(Span) -> &'a [u8]) {
        self.log.end_window();
        self.early.take_if(|early| early.write_window(&self.log, raw).is_none());
    }
}

impl Deref for LoggedSession {
    type Target = SessionLog;

    fn deref(&self) -> &SessionLog {
        &self.log
    }
}

impl DerefMut for LoggedSession {
    fn deref_mut(&mut self) -> &mut SessionLog {
        &mut self.log
    }
}

/// A session that was read.
pub struct CondensedSession {
    log: SessionLog,
    early: Option<EarlyWriter>,
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
    pub fn new(session: LoggedSession, kept: KeptSpans, size: usize) -> Self {
        let LoggedSession { log, early } = session;
        Self { log, early, kept, size }
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
        let Self { log, early, kept, size } = self;
        let known = |tools: &IdTools| early.as_ref()?.outcomes_of_calls(&log, &policies, tools);
        let (outcomes, tools) = outcomes(&log, &policies, known)?;
        let mut deleted = vec![false; log.lines.len()];
        mark_deleted_lines(&log.events, &outcomes, &mut deleted);
        let mut relinked = Vec::new();
        if deleted.contains(&true) {
            relinked.extend(LinkTree::new(&log, &deleted, |name| kept.bytes_at(name)).relinked(0));
        }
        let is_known = |row: &RelinkedRow| row.name.is_none_or(|name| kept.get(name.span()).is_some());
        if !relinked.iter().all(is_known) || kept.has_missed() {
            return None;
        }
        let changes = Changes { outcomes, tools, deleted, relinked };
        let written = early.map_or_else(WrittenPart::default, |early| early.finish(&log, &changes));
        Some(CompactedSession { log, kept, size, changes, written })
    }
}
