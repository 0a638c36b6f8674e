//! The bytes that a reader reads: a whole file, or one window of it after the other. Of earlier windows, only the spans
//! that the builder selects stay in memory. Spans are always offsets in the file.

use std::sync::Arc;

use bytes::Bytes;
use jp_compact_core::index::Unreadable;
use jp_compact_json::{KeptSpans, Malformed, Span};

/// A file that is read in windows.
pub trait WindowedFile {
    /// Reads the next bytes into a buffer, and returns their number. `None` after an error.
    fn read_next(&mut self, buffer: &mut [u8]) -> Option<usize>;

    /// Receives the turn and the bytes of each event, including events that the reader removes later.
    fn on_event(&mut self, turn: usize, bytes: &[u8]);
}

/// The size of one read. At this size the bytes are still in the processor's cache when they are parsed.
const WINDOW_BYTES: usize = 128 << 10;

/// A gap up to this size between two kept spans is kept too, because a separate span needs more memory.
const GAP_BYTES: usize = 16;

pub(crate) struct ByteSource {
    /// The whole file, or the complete lines of the current window.
    window: Bytes,
    /// The offset of the window in the file.
    start: usize,
    size: usize,
    windows: Option<Windows>,
    has_more: bool,
}

/// The windows of a file.
struct Windows {
    file: Box<dyn WindowedFile>,
    /// Only the first `len` bytes are used. No other handle exists while they change.
    buffer: Arc<Vec<u8>>,
    len: usize,
    kept: KeptSpans,
}

struct SharedBuffer(Arc<Vec<u8>>);

impl AsRef<[u8]> for SharedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl ByteSource {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self { start: 0, size: bytes.len(), window: bytes, windows: None, has_more: true }
    }

    /// Opens a file of `size` bytes at its first window.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn in_windows(size: usize, file: Box<dyn WindowedFile>) -> Result<Self, Unreadable> {
        let (buffer, kept) = (Arc::new(vec![0; 2 * WINDOW_BYTES]), KeptSpans::for_file_of(size));
        let windows = Windows { file, buffer, len: 0, kept };
        let mut source =
            Self { window: Bytes::new(), start: 0, size, windows: Some(windows), has_more: true };
        source.go_on()?;
        Ok(source)
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn window(&self) -> Bytes {
        self.window.clone()
    }

    pub(crate) fn window_start(&self) -> usize {
        self.start
    }

    /// Returns whether the current window must still be read.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    pub(crate) fn is_in_windows(&self) -> bool {
        self.windows.is_some()
    }

    /// Returns the bytes of a span.
    pub(crate) fn bytes_at(&self, span: Span) -> &[u8] {
        match (&self.windows, span.start.checked_sub(self.start)) {
            (_, Some(start)) => &self.window[start..span.end - self.start],
            (Some(windows), None) => windows.kept.bytes_at(span),
            (None, None) => &[],
        }
    }

    /// Keeps a span of the current window in memory. Spans must be added in the order of their starts.
    pub(crate) fn keep(&mut self, span: Span) {
        let (window, start) = (&self.window, self.start);
        if let Some(windows) = &mut self.windows {
            let end = windows.kept.end();
            let is_near = end >= start && (end..=end + GAP_BYTES).contains(&span.start);
            let from = if is_near { end } else { span.start };
            windows.kept.add(from, &window[from - start..span.end - start]);
        }
    }

    /// Reports an event of the current window to the file.
    pub(crate) fn report_event(&mut self, turn: usize, span: Span) {
        let bytes =
            if span.is_empty() { &[] } else { &self.window[span.start - self.start..span.end - self.start] };
        self.windows.iter_mut().for_each(|windows| windows.file.on_event(turn, bytes));
    }

    /// Goes on to the next window. A file that is read as a whole is one window.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn go_on(&mut self) -> Result<(), Unreadable> {
        let used = if std::mem::take(&mut self.has_more) { self.window.len() } else { 0 };
        let Some(windows) = &mut self.windows else { return Ok(()) };
        self.start += used;
        // The last window stays.
        if self.start < self.size {
            self.window = Bytes::new();
            let window = windows.next(used, self.size - self.start);
            self.window = window.ok_or_else(|| unreadable(self.start, "the file cannot be read"))?;
            self.has_more = true;
        } else {
            self.start -= used;
        }
        Ok(())
    }

    /// Fails if the source is read in windows, because the report of an error needs the whole file.
    ///
    /// # Errors
    /// The source is read in windows.
    pub(crate) fn check_is_whole(&self, error: &Malformed) -> Result<(), Unreadable> {
        if self.is_in_windows() { Err(unreadable(self.start + error.offset, error.message)) } else { Ok(()) }
    }

    /// Takes the spans that are in memory. `None` for a whole file.
    pub(crate) fn take_kept(&mut self) -> Option<KeptSpans> {
        self.windows.as_mut().map(|windows| std::mem::take(&mut windows.kept))
    }

    /// Returns the bytes of the whole file, or the spans that are in memory, and the size of the file.
    pub(crate) fn into_parts(self) -> (Bytes, Option<KeptSpans>, usize) {
        match self.windows {
            Some(windows) => (Bytes::new(), Some(windows.kept), self.size),
            None => (self.window, None, self.size),
        }
    }
}

impl Windows {
    /// Drops the first `used` bytes, and returns the next complete lines. `unused` is the number of bytes of the file
    /// after the dropped bytes.
    fn next(&mut self, used: usize, unused: usize) -> Option<Bytes> {
        let Self { file, buffer, len, .. } = self;
        let bytes = Arc::make_mut(buffer);
        bytes.copy_within(used..*len, 0);
        *len -= used;
        let complete = loop {
            let wanted = WINDOW_BYTES.min(unused - *len);
            if bytes.len() < *len + wanted {
                bytes.resize(*len + wanted, 0);
            }
            let new = &mut bytes[*len..*len + wanted];
            let read = file.read_next(new).filter(|read| *read > 0)?;
            let last_break = memchr::memrchr(b'\n', &new[..read]);
            let before = *len;
            *len += read;
            if *len == unused {
                break *len;
            }
            if let Some(last_break) = last_break {
                break before + last_break + 1;
            }
        };
        Some(Bytes::from_owner(SharedBuffer(Arc::clone(buffer))).slice(..complete))
    }
}

fn unreadable(offset: usize, reason: &str) -> Unreadable {
    Unreadable { offset, element: None, reason: reason.into() }
}
