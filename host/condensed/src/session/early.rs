//! A writer that begins before the session is completely read. Each window is written compacted while its bytes are
//! still in the processor's cache, so that the file is read only once.
//!
//! Later lines can change the outcome of a line: a call can be renamed, its turn can be removed or stay open, and its
//! parent can be named again. This writer expects that none of this happens. At the end, its changes are compared with
//! those of the whole session. From the first window with a difference, everything must be written again.

use jp_compact_core::index::ElementCounter;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::splice::Piece;
use jp_compact_json::Span;

use super::log::SessionLog;
use super::outcomes::{IdTools, Outcome, delete_stale_reasoning, mark_deleted_lines, outcome, same};
use super::relink::LinkTree;
use super::writer::{Changes, NextRows, WrittenPart};
use crate::policies::{TurnPolicy, policy_of, turn_policies};

/// The size of one write.
const OUTPUT_BYTES: usize = 64 << 10;

type WriteBytes = Box<dyn FnMut(&[u8])>;

/// Writes a session while it is read.
pub struct EarlyWriter {
    policies: Vec<TurnPolicy>,
    write: WriteBytes,
    /// Bytes that have not been written yet.
    pending: Vec<u8>,
    count: ElementCounter,
    first_changed_turn: Option<usize>,
    changes: Changes,
    next: NextRows,
    links: usize,
    /// The number of bytes that are written or pending.
    bytes: u64,
    windows: Vec<WrittenPart>,
}

impl EarlyWriter {
    /// Makes a writer for a session of `size` bytes. It calls `write` with the next bytes.
    #[must_use]
    pub fn new(overlays: &[Overlay], size: usize, write: WriteBytes) -> Self {
        Self {
            // There are fewer turns than bytes.
            policies: turn_policies(overlays, size),
            write,
            pending: Vec::with_capacity(OUTPUT_BYTES),
            count: ElementCounter::default(),
            first_changed_turn: None,
            changes: Changes::default(),
            next: NextRows::default(),
            links: 0,
            bytes: 0,
            windows: Vec::new(),
        }
    }

    /// Writes the new lines of the log. `None` if their changes are not known.
    pub(super) fn write_window<'a>(
        &mut self,
        log: &SessionLog,
        raw: impl Fn(Span) -> &'a [u8],
    ) -> Option<()> {
        self.add_outcomes(log)?;
        let changes = &mut self.changes;
        if self.first_changed_turn.is_some() {
            let tree = LinkTree::of_recent(log, &changes.deleted, |span| raw(span));
            changes.relinked.extend(tree.relinked(self.links));
        }
        self.links = log.links.len();
        let mut pieces = changes.pieces(log, log.lines.len(), &mut self.next, &raw);
        let end = log.lines.last().map_or(0, |line| line.span().end);
        pieces.push_old(self.next.offset..end);
        self.next.offset = end;
        for piece in pieces.into_pieces() {
            match piece {
                Piece::Old(range) => self.write(raw(Span { start: range.start, end: range.end })),
                Piece::New(bytes) => self.write(&bytes),
            }
        }
        self.windows.push(WrittenPart { next: self.next, tools: log.tools.len(), bytes: self.bytes });
        Some(())
    }

    /// Adds the outcomes of the new events, and the new deleted lines.
    fn add_outcomes(&mut self, log: &SessionLog) -> Option<()> {
        let changes = &mut self.changes;
        changes.tools.add_recent(log);
        let (first, mut count) = (changes.outcomes.len(), self.count);
        let events = &log.events[first..];
        for row in events {
            let turn = row.turn(&mut self.count);
            let outcome = outcome(log, &changes.tools, row, policy_of(&self.policies, turn))?;
            if outcome != Outcome::Kept {
                self.first_changed_turn.get_or_insert(turn);
            }
            changes.outcomes.push(outcome);
        }
        let outcomes = &mut changes.outcomes[first..];
        if let Some(first_turn) = self.first_changed_turn {
            delete_stale_reasoning(
                events.iter().map(|row| (row.turn(&mut count), row)),
                first_turn,
                outcomes,
            );
        }
        changes.deleted.resize(log.lines.len(), false);
        mark_deleted_lines(events, outcomes, &mut changes.deleted);
        Some(())
    }

    /// Returns the outcome of each event, which is only right for halves of calls. `None` if the whole session has other
    /// events, policies, or names.
    pub(super) fn outcomes_of_calls(
        &self,
        log: &SessionLog,
        policies: &[TurnPolicy],
        tools: &IdTools,
    ) -> Option<&[Outcome]> {
        let outcomes = &self.changes.outcomes;
        let is_same = outcomes.len() == log.len()
            && self.policies == policies
            && self.changes.tools.same(tools) == log.tools.len();
        is_same.then_some(outcomes)
    }

    fn write(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if self.pending.len() + bytes.len() > OUTPUT_BYTES {
            (self.write)(&self.pending);
            self.pending.clear();
        }
        if bytes.len() >= OUTPUT_BYTES {
            (self.write)(bytes);
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// Writes the pending bytes. Returns the part that these changes to the log do not change.
    pub(super) fn finish(mut self, log: &SessionLog, changes: &Changes) -> WrittenPart {
        (self.write)(&self.pending);
        let outcomes = same(&self.changes.outcomes, &changes.outcomes).min(log.first_removed);
        let tools = self.changes.tools.same(&changes.tools);
        let deleted = same(&self.changes.deleted, &changes.deleted);
        let relinked = same(&self.changes.relinked, &changes.relinked);
        let is_same = |part: &&WrittenPart| {
            let NextRows { line, event, relinked: links, .. } = part.next;
            let has_all_links = changes.relinked.get(links).is_none_or(|row| row.line as usize >= line);
            event <= outcomes && part.tools <= tools && line <= deleted && links <= relinked && has_all_links
        };
        self.windows.iter().rev().find(is_same).copied().unwrap_or_default()
    }
}
