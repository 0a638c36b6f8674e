//! The writer of a compacted session. Bytes of the session are copied, except where an overlay changes an event.

use std::iter::Peekable;
use std::slice;

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
    pub(super) outcomes: Vec<Outcome>,
    pub(super) tools: IdTools,
    pub(super) deleted: Vec<bool>,
    pub(super) relinked: Vec<RelinkedRow>,
}

/// The rows that have not been written yet.
struct Rows<'a> {
    events: Peekable<std::iter::Zip<slice::Iter<'a, EventRow>, slice::Iter<'a, Outcome>>>,
    relinked: Peekable<slice::Iter<'a, RelinkedRow>>,
}

impl CompactedSession {
    /// Calls `write` with the next pieces. [`Piece::Old`] is a range of the file.
    ///
    /// # Errors
    /// The errors of `write`.
    pub fn write<E>(&self, mut write: impl FnMut(&[Piece]) -> Result<(), E>) -> Result<(), E> {
        let mut rows = Rows {
            events: self.log.events.iter().zip(&self.outcomes).peekable(),
            relinked: self.relinked.iter().peekable(),
        };
        let (mut pieces, mut edits, mut offset) = (Pieces::default(), Vec::new(), 0);
        for (number, line) in self.log.lines.iter().enumerate() {
            edits.clear();
            self.collect_edits(number, &mut rows, &mut edits);
            if self.deleted[number] {
                pieces.push_old(offset..line.range().start);
                offset = line.range().end;
                continue;
            }
            // At one offset, insertions precede deletions. Edits inside a deleted range are dropped.
            edits.sort_by_key(|(span, _)| (span.start, !span.is_empty(), usize::MAX - span.end));
            for (span, text) in edits.drain(..) {
                if span.start >= offset {
                    pieces.push_old(offset..span.start);
                    pieces.push_new(text.into_bytes());
                    offset = span.end;
                }
            }
            if number % LINES_OF_BATCH == LINES_OF_BATCH - 1 {
                write(&std::mem::take(&mut pieces).into_pieces())?;
            }
        }
        pieces.push_old(offset..self.size);
        write(&pieces.into_pieces())
    }

    /// Collects the edits of a line.
    fn collect_edits(&self, line: usize, rows: &mut Rows<'_>, edits: &mut Vec<(Span, String)>) {
        let mut blocks = Vec::new();
        let is_here = |row: &EventRow| row.line().is_none_or(|other| other == line);
        while let Some((row, outcome)) = rows.events.next_if(|(row, _)| is_here(row)) {
            let text = match (outcome, row.class) {
                (Outcome::Emptied, _) => "",
                (Outcome::Replaced, RowClass::ToolResponse { is_error }) => {
                    self.tools.status_line(row, is_error)
                }
                (Outcome::Deleted, _) => {
                    blocks.extend(self.log.block(row));
                    continue;
                }
                _ => continue,
            };
            let sites = self.log.tool(row).map(|tool| self.log.edits(tool)).unwrap_or_default();
            edits.extend(sites.iter().map(|edit| (edit.span.span(), (edit.write)(text))));
        }
        if !blocks.is_empty() {
            self.delete_blocks(blocks, edits);
        }
        while let Some(row) = rows.relinked.next_if(|row| row.line as usize == line) {
            let name = row.name.and_then(|name| str::from_utf8(self.kept.bytes_at(name.span())).ok());
            edits.push((row.parent.span(), name.unwrap_or("null").to_owned()));
        }
    }

    /// Deletes elements of lists.
    fn delete_blocks(&self, mut blocks: Vec<(usize, usize)>, edits: &mut Vec<(Span, String)>) {
        blocks.sort_unstable();
        blocks.dedup();
        for run in blocks.chunk_by(|left, right| left.0 == right.0 && left.1 + 1 == right.1) {
            let ((list, from), (_, to)) = (run[0], run[run.len() - 1]);
            edits.push((deletion(&self.log.lists[list], from, to), String::new()));
        }
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
