//! The scan of a transcript in windows. A window is dropped when its events are complete, so memory holds a window and
//! the event that has begun in it, and never the file.

use jp_compact_core::event::Event;
use jp_compact_core::index::{Indexer, Unreadable};
use jp_compact_json::Span;
use std::ops::Range;

/// The size of one read. At this size the bytes are still in the processor's cache when they are parsed.
const WINDOW_BYTES: usize = 256 << 10;

/// A complete event. Its spans are positions in `bytes`.
pub(crate) struct ScannedEvent<'a> {
    pub(crate) event: &'a Event,
    pub(crate) bytes: &'a [u8],
    /// Offset in the file of the first byte of `bytes`.
    base: usize,
}

impl ScannedEvent<'_> {
    /// Returns the range of a span in the file.
    pub(crate) fn file_range(&self, span: Span) -> Range<usize> {
        self.base + span.start..self.base + span.end
    }
}

/// A step of a scan.
pub(crate) enum ScanStep<'a> {
    Event(ScannedEvent<'a>),
    /// All complete events of a window were visited. These are the bytes of the window.
    Window(&'a [u8]),
    /// The position is after the last complete event of a window.
    WindowEnd(&'a Indexer, usize),
}

/// The position between two events of a file, at which a scan can begin.
#[derive(Clone, Default)]
pub(crate) struct ScanPosition {
    indexer: Indexer,
    /// Offset in the file.
    at: usize,
}

impl ScanPosition {
    pub(crate) fn new(indexer: &Indexer, at: usize) -> Self {
        Self { indexer: indexer.clone(), at }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }
}

/// The result of a complete scan: the offset of the bracket that opens the array.
type Scanned = Result<usize, Unreadable>;

/// Scans the events of a file of `size` bytes. `read` reads bytes at an offset of the file, and returns their number,
/// which is never 0. If `visit` returns `false` for the end of a window, the scan ends, and the result is `None`.
pub(crate) fn scan<E>(
    start: ScanPosition,
    size: usize,
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    visit: &mut impl FnMut(ScanStep<'_>) -> Result<bool, E>,
) -> Result<Option<Scanned>, E> {
    let ScanPosition { mut indexer, at: mut base } = start;
    let mut buffer = vec![0; 2 * WINDOW_BYTES];
    // The number of used bytes of the buffer, and the number of visited events.
    let (mut len, mut elements) = (0, 0);
    while base + len < size {
        let end = len + WINDOW_BYTES.min(size - base - len);
        if buffer.len() < end {
            buffer.resize(end, 0);
        }
        let window_start = len;
        len += read((base + len) as u64, &mut buffer[len..end])?;
        indexer.advance(&buffer[..len]);
        let (events, next_at) = indexer.read_part();
        elements += events.len();
        for event in &*events {
            visit(ScanStep::Event(ScannedEvent { event, bytes: &buffer, base }))?;
        }
        events.clear();
        visit(ScanStep::Window(&buffer[window_start..len]))?;
        let read_end = std::mem::take(next_at);
        buffer.copy_within(read_end..len, 0);
        (base, len) = (base + read_end, len - read_end);
        if !visit(ScanStep::WindowEnd(&indexer, base))? {
            return Ok(None);
        }
    }
    buffer.truncate(len);
    let index = match indexer.finish(buffer.into()) {
        Ok(index) => index,
        Err(error) => {
            let element = error.element.map(|element| element + elements);
            return Ok(Some(Err(Unreadable { offset: error.offset + base, element, ..error })));
        }
    };
    for event in &index.events {
        visit(ScanStep::Event(ScannedEvent { event, bytes: index.bytes(), base }))?;
    }
    Ok(Some(Ok(index.array_start())))
}
