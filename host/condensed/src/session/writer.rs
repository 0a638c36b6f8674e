//! The writer of a compacted session. Bytes of the session are copied, except where an overlay changes an event.

use jp_compact_core::splice::{Piece, Pieces};
use jp_compact_json::{KeptSpans, Span};

use super::log::{EventRow, RowClass, SessionLog, ShortSpan};
use super::outcomes::{IdTools, Outcome};
use super::relink::RelinkedRow;

/// The number of lines after which the pieces are written.
const LINES_OF_BATCH: usize = 1 << 9;

/// A session with its overlays applied.
pub struct CompactedSession {
    pub(super) log: SessionLog,
    pub(super) kept: KeptSpans,
    pub(super) size: usize,
    pub(super) changes: Changes,
    pub(super) written: WrittenPart,
}

/// The changes to the events and lines of a session.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) tools: IdTools,
    pub(super) deleted: Vec<bool>,
    pub(super) relinked: Vec<RelinkedRow>,
}

impl CompactedSession {
    /// Returns the number of bytes at the beginning that were written correctly while the session was read.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written.bytes
    }

    /// Calls `write` with the next pieces. [`Piece::Old`] is a range of the file.
    ///
    /// # Errors
    /// The errors of `write`.
    pub fn write<E>(&self, write: impl FnMut(&[Piece]) -> Result<(), E>) -> Result<(), E> {
        self.write_from(NextRows::default(), write)
    }

    /// Like [`Self::write`], but without the [`Self::written_bytes`].
    ///
    /// # Errors
    /// The errors of `write`.
    pub fn write_rest<E>(&self, write: impl FnMut(&[Piece]) -> Result<(), E>) -> Result<(), E> {
        self.write_from(self.written.next, write)
    }

    fn write_from<E>(
        &self,
        mut next: NextRows,
        mut write: impl FnMut(&[Piece]) -> Result<(), E>,
    ) -> Result<(), E> {
        let lines = self.log.lines.len();
        for first in (next.line..lines).step_by(LINES_OF_BATCH) {
            let raw = |span| self.kept.bytes_at(span);
            let pieces = self.changes.pieces(&self.log, lines.min(first + LINES_OF_BATCH), &mut next, raw);
            write(&pieces.into_pieces())?;
        }
        write(&[Piece::Old(next.offset..self.size)])
    }
}

/// The position of a writer: the rows and the bytes that have not been written.
#[derive(Clone, Copy, Default)]
pub(super) struct NextRows {
    pub(super) line: usize,
    pub(super) event: usize,
    pub(super) relinked: usize,
    pub(super) offset: usize,
}

/// The beginning of a compacted session, which is already written.
#[derive(Clone, Copy, Default)]
pub(super) struct WrittenPart {
    /// The first rows that are not written.
    pub(super) next: NextRows,
    /// The number of halves of calls that are written.
    pub(super) tools: usize,
    pub(super) bytes: u64,
}

impl Changes {
    /// Returns the pieces of the next lines, up to the number `end`. `raw` returns the bytes of a name.
    pub(super) fn pieces<'a>(
        &self,
        log: &SessionLog,
        end: usize,
        next: &mut NextRows,
        raw: impl Fn(Span) -> &'a [u8],
    ) -> Pieces {
        let (mut pieces, mut edits) = (Pieces::default(), Vec::new());
        for number in next.line..end {
            let line = log.lines[number];
            edits.clear();
            self.collect_edits(log, number, next, &raw, &mut edits);
            if self.deleted[number] {
                pieces.push_old(next.offset..line.range().start);
                next.offset = line.range().end;
                continue;
            }
            // At one offset, insertions precede deletions. Edits inside a deleted range are dropped.
            edits.sort_by_key(|(span, _)| (span.start, !span.is_empty(), usize::MAX - span.end));
            for (span, text) in edits.drain(..) {
                if span.start >= next.offset {
                    pieces.push_old(next.offset..span.start);
                    pieces.push_new(text.into_bytes());
                    next.offset = span.end;
                }
            }
        }
        next.line = end;
        pieces
    }

    /// Collects the edits of a line.
    fn collect_edits<'a>(
        &self,
        log: &SessionLog,
        line: usize,
        next: &mut NextRows,
        raw: impl Fn(Span) -> &'a [u8],
        edits: &mut Vec<(Span, String)>,
    ) {
        let mut blocks = Vec::new();
        let is_here = |row: &&EventRow| row.line().is_none_or(|other| other == line);
        while let Some(row) = log.events.get(next.event).filter(is_here) {
            let outcome = self.outcomes[next.event];
            next.event += 1;
            let text = match (outcome, row.class) {
                (Outcome::Emptied, _) => "",
                (Outcome::Replaced, RowClass::ToolResponse { is_error }) => {
                    self.tools.status_line(row, is_error)
                }
                (Outcome::Deleted, _) => {
                    blocks.extend(log.block(row));
                    continue;
                }
                _ => continue,
            };
            let sites = log.tool(row).map(|tool| log.edits(tool)).unwrap_or_default();
            edits.extend(sites.iter().map(|edit| (edit.span.span(), (edit.write)(text))));
        }
        if !blocks.is_empty() {
            delete_blocks(log, blocks, edits);
        }
        while let Some(row) = self.relinked.get(next.relinked).filter(|row| row.line as usize == line) {
            next.relinked += 1;
            let name = row.name.and_then(|name| str::from_utf8(raw(name.span())).ok());
            edits.push((row.parent.span(), name.unwrap_or("null").to_owned()));
        }
    }
}

/// Deletes elements of lists.
fn delete_blocks(log: &SessionLog, mut blocks: Vec<(usize, usize)>, edits: &mut Vec<(Span, String)>) {
    blocks.sort_unstable();
    blocks.dedup();
    for run in blocks.chunk_by(|left, right| left.0 == right.0 && left.1 + 1 == right.1) {
        let ((list, from), (_, to)) = (run[0], run[run.len() - 1]);
        edits.push((deletion(&log.lists[list], from, to), String::new()));
    }
}

/// Returns the span to delete, so that the elements from `from` to `to` disappear with a comma.
fn deletion(elements: &[ShortSpan], from: usize, to: usize) -> Span {
    let (start, end) = (elements[from].span().start, elements[to].span().end);
    match (elements.get(to + 1), from.checked_sub(1)) {
        (Some(next), _) => Span { start, end: next.span().start },
        (None, Some(before)) => Span { start: elements[before].span().end, end },
        (None, None) => Span { start, end },
    }
}
