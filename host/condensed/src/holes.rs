//! The bytes of a file that are not in memory, and the file offsets of the bytes that are in memory.

use std::ops::Range;

/// The holes, in order.
#[derive(Debug, Default)]
pub(crate) struct Holes(Vec<Hole>);

#[derive(Debug)]
struct Hole {
    /// Offset of the first remaining byte after the hole.
    at: usize,
    /// The number of bytes in this hole and in all holes before it.
    removed: usize,
}

impl Holes {
    pub(crate) fn reserve(&mut self, holes: usize) {
        self.0.reserve(holes);
    }

    /// Adds a hole of `bytes` bytes before the remaining byte at `at`.
    pub(crate) fn add(&mut self, at: usize, bytes: usize) {
        let removed = self.0.last().map_or(0, |last| last.removed) + bytes;
        self.0.push(Hole { at, removed });
    }

    /// Returns the offset in the file of the remaining byte at `offset`.
    pub(crate) fn file_offset(&self, offset: usize) -> usize {
        offset + self.removed_before(self.0.partition_point(|hole| hole.at <= offset))
    }

    /// Converts ranges of the remaining bytes to ranges of the file. Each search continues at the previous range, so
    /// ascending ranges are converted in one pass.
    pub(crate) fn file_ranges(&self) -> impl FnMut(Range<usize>) -> Range<usize> + '_ {
        let mut next = 0;
        let mut file_offset = move |offset: usize| {
            if next > 0 && self.0[next - 1].at > offset {
                next = 0;
            }
            next += self.0[next..].iter().take_while(|hole| hole.at <= offset).count();
            offset + self.removed_before(next)
        };
        move |range| file_offset(range.start)..file_offset(range.end)
    }

    /// Returns the number of bytes in the first `holes` holes.
    fn removed_before(&self, holes: usize) -> usize {
        holes.checked_sub(1).map_or(0, |last| self.0[last].removed)
    }
}
