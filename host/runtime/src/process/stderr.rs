//! The stderr of a strategy: its head and its tail, with a fixed limit. The content is raw bytes. Code that
//! prints it to a terminal must escape it.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

/// The limit for each end.
const END_BYTES_MAX: usize = 32 << 10;

/// The first and the last 32 KiB of stderr.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Stderr {
    head: Vec<u8>,
    // Grows to twice its limit. Therefore, the front is rarely removed.
    tail: Vec<u8>,
    bytes: u64,
}

impl Stderr {
    /// The limit of the head in bytes.
    pub const HEAD_BYTES_MAX: usize = END_BYTES_MAX;

    /// Returns the number of written bytes, including dropped ones.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of bytes dropped between head and tail.
    #[must_use]
    pub fn dropped_bytes(&self) -> u64 {
        self.bytes - (self.head.len() + self.tail().len()) as u64
    }

    /// Returns up to 32 KiB from the start.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the last bytes that are not part of the head.
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        &self.tail[self.tail.len().saturating_sub(END_BYTES_MAX)..]
    }

    /// Returns head and tail as text, with a line between them that states how much is missing. Invalid UTF-8
    /// is replaced, because this text is for people.
    #[must_use]
    pub fn text(&self) -> String {
        let (head, tail) = (&self.head, self.tail());
        let gap = match self.dropped_bytes() {
            0 => String::new(),
            dropped => format!("\n[{dropped} bytes dropped]\n"),
        };
        // The parts are joined before decoding, because a character may cross the boundary.
        String::from_utf8_lossy(&[head, gap.as_bytes(), tail].concat()).into_owned()
    }

    /// Returns at most this many lines from the end, without newlines after the last line.
    #[must_use]
    pub fn last_lines(&self, lines_max: usize) -> String {
        let text = self.text();
        let text = text.trim_end_matches(['\n', '\r']);
        let start =
            text.rmatch_indices('\n').nth(lines_max.saturating_sub(1)).map_or(0, |(index, _)| index + 1);
        if lines_max == 0 { String::new() } else { text[start..].to_owned() }
    }

    /// Replaces the path of the executed copy of a plugin with the path that the user knows.
    pub(crate) fn replace_path(&mut self, path: &Path, shown: &Path) {
        let (path, shown) = (path.to_string_lossy(), shown.to_string_lossy());
        let dropped = self.dropped_bytes();
        for end in [&mut self.head, &mut self.tail] {
            if let Ok(text) = std::str::from_utf8(end) {
                *end = text.replace(&*path, &shown).into_bytes();
            }
        }
        self.bytes = dropped + (self.head.len() + self.tail().len()) as u64;
    }

    /// Appends output and drops bytes between head and tail.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(END_BYTES_MAX - self.head.len()));
        self.head.extend_from_slice(head);
        if self.tail.len() + rest.len() > 2 * END_BYTES_MAX {
            self.tail.drain(..self.tail.len().saturating_sub(END_BYTES_MAX));
        }
        self.tail.extend_from_slice(&rest[rest.len().saturating_sub(END_BYTES_MAX)..]);
    }
}

impl fmt::Debug for Stderr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: Cow<'_, str> = self.last_lines(3).into();
        f.debug_struct("Stderr").field("bytes", &self.bytes).field("last_lines", &text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stderr(chunks: &[&[u8]]) -> Stderr {
        let mut stderr = Stderr::default();
        chunks.iter().for_each(|chunk| stderr.push(chunk));
        stderr
    }

    #[track_caller]
    fn check(text: &[u8], chunk_bytes: usize) {
        let stderr_ends = stderr(&text.chunks(chunk_bytes).collect::<Vec<_>>());
        let head_end = text.len().min(END_BYTES_MAX);
        let tail_start = text.len().saturating_sub(END_BYTES_MAX).max(head_end);
        assert!(stderr_ends.head() == &text[..head_end], "head of {} by {chunk_bytes}", text.len());
        assert!(stderr_ends.tail() == &text[tail_start..], "tail of {} by {chunk_bytes}", text.len());
        assert_eq!(stderr_ends.bytes(), text.len() as u64);
        assert_eq!(stderr_ends.dropped_bytes(), (tail_start - head_end) as u64);
    }

    #[test]
    fn path_of_a_copy_is_replaced() {
        let mut stderr = stderr(&[b"File \"/store/ab12/mine.py\", line 3\n"]);
        stderr.replace_path(Path::new("/store/ab12/mine.py"), Path::new("/home/u/mine.py"));
        assert_eq!(stderr.text(), "File \"/home/u/mine.py\", line 3\n");
    }

    #[test]
    fn keeps_head_and_tail_for_all_sizes() {
        let all: Vec<u8> = (0..300_007_u32).map(|number| (number % 251) as u8).collect();
        for bytes in
            [0, 1, END_BYTES_MAX, END_BYTES_MAX + 1, 2 * END_BYTES_MAX, 2 * END_BYTES_MAX + 1, all.len()]
        {
            for chunk_bytes in [1, 1000, END_BYTES_MAX, 65_536, 299_999] {
                check(&all[..bytes], chunk_bytes);
            }
        }
    }

    #[test]
    fn reports_the_number_of_dropped_bytes() {
        let long = vec![b'x'; 70_000];
        assert!(stderr(&[&long]).text().contains("x\n[4464 bytes dropped]\nx"));
        assert_eq!(stderr(&[b"short"]).text(), "short");
    }

    #[test]
    fn keeps_a_character_across_the_boundary() {
        let mut long = vec![b'x'; END_BYTES_MAX - 1];
        long.extend_from_slice("é".as_bytes());
        assert!(stderr(&[&long]).text().ends_with("xé"));
    }

    #[track_caller]
    fn check_last_lines(text: &str, lines_max: usize, expect: &str) {
        assert_eq!(stderr(&[text.as_bytes()]).last_lines(lines_max), expect);
    }

    #[test]
    fn last_lines_counts_from_the_end() {
        check_last_lines("", 40, "");
        check_last_lines("a\nb\nc\n", 2, "b\nc");
        check_last_lines("a\nb\nc", 2, "b\nc");
        check_last_lines("a\nb\n\n", 1, "b");
        check_last_lines("a\nb\n", 9, "a\nb");
        check_last_lines("a\nb\n", 0, "");
    }
}
