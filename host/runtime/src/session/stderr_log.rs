//! The log of strategies' output: their stderr, line by line as it arrives, and their `log` messages. It is bounded.
//! With `-v`, it gets the first 32 KiB of stderr while the process runs, and the last 32 KiB after the process has
//! ended. The text is a field of the log entry, never its message. The terminal writer escapes it.

use std::path::{Path, PathBuf};

use jp_compact_schema::version::LOGS_MAX;
use jp_compact_schema::{Level, Log};

use crate::process::Stderr;

/// The size limit of one message.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// Logs the stderr of one process: the kept beginning live, and the kept rest at the end.
#[derive(Debug)]
pub(super) struct StderrLog {
    strategy: String,
    /// The path of a stored copy of the strategy, and the path that the user knows.
    paths: (String, String),
    text: PendingText,
}

/// Text that has arrived but is not logged yet.
#[derive(Debug, Default)]
struct PendingText {
    line: Vec<u8>,
    logged_bytes: usize,
    is_truncated: bool,
}

impl StderrLog {
    pub(super) fn new(strategy: &str, (copy, original): (PathBuf, &Path)) -> Self {
        let paths = (copy.to_string_lossy().into_owned(), original.to_string_lossy().into_owned());
        Self { strategy: strategy.to_owned(), paths, text: PendingText::default() }
    }

    /// Logs more output.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let (strategy, (copy, original)) = (&*self.strategy, &self.paths);
        self.text
            .append(bytes, |line| tracing::info!(strategy, line = line.replace(copy, original), "stderr"));
    }

    /// Logs the rest after the process has ended.
    pub(super) fn end(mut self, stderr: &Stderr) {
        let (strategy, (copy, original)) = (&*self.strategy, &self.paths);
        self.text.finish(stderr, |line| {
            tracing::info!(strategy, line = line.replace(copy, original), "stderr");
        });
    }
}

impl PendingText {
    fn append(&mut self, bytes: &[u8], mut log_line: impl FnMut(&str)) {
        let live = &bytes[..bytes.len().min(Stderr::HEAD_BYTES_MAX - self.logged_bytes)];
        self.logged_bytes += live.len();
        for piece in live.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.ends_with(b"\n") {
                log_line(String::from_utf8_lossy(&self.line).trim_end_matches(['\n', '\r']));
                self.line.clear();
            }
        }
        if live.len() < bytes.len() && !self.is_truncated {
            self.is_truncated = true;
            log_line("[more output; the last part follows after the process has ended]");
        }
    }

    fn finish(&mut self, stderr: &Stderr, log_line: impl FnMut(&str)) {
        let mut text = std::mem::take(&mut self.line);
        if stderr.dropped_bytes() > 0 {
            text.extend(format!("\n[{} bytes dropped]\n", stderr.dropped_bytes()).into_bytes());
        }
        text.extend_from_slice(stderr.tail());
        String::from_utf8_lossy(&text).lines().for_each(log_line);
    }
}

/// Same as [`log`] for the line with this number. Only the first [`LOGS_MAX`] lines are logged.
pub(super) fn log_at_most(strategy: &str, line: &Log, number: usize) {
    if number <= LOGS_MAX {
        log(strategy, line);
    } else if number == LOGS_MAX + 1 {
        tracing::warn!(strategy, "more log lines follow; they are counted but not shown");
    }
}

/// Logs a message of a strategy. Each line is a separate entry, so no line can imitate another source.
pub(super) fn log(strategy: &str, log: &Log) {
    let message = &log.message[..log.message.floor_char_boundary(MESSAGE_BYTES_MAX)];
    for line in message.lines() {
        match log.level {
            Level::Trace => tracing::trace!(strategy, line, "log"),
            Level::Debug => tracing::debug!(strategy, line, "log"),
            Level::Info => tracing::info!(strategy, line, "log"),
            Level::Warn => tracing::warn!(strategy, line, "log"),
            Level::Error => tracing::error!(strategy, line, "log"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the live log and the final log for these pieces.
    fn live_and_kept(pieces: &[&[u8]]) -> (Vec<String>, Vec<String>) {
        let (mut text, mut stderr) = (PendingText::default(), Stderr::default());
        let (mut live, mut last) = (Vec::new(), Vec::new());
        for piece in pieces {
            stderr.push(piece);
            text.append(piece, |line| live.push(line.to_owned()));
        }
        text.finish(&stderr, |line| last.push(line.to_owned()));
        (live, last)
    }

    #[track_caller]
    fn check(pieces: &[&[u8]], live: &[&str], last: &[&str]) {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        assert_eq!(live_and_kept(pieces), (owned(live), owned(last)));
    }

    #[test]
    fn logs_whole_lines_live_and_an_open_last_line_at_the_end() {
        check(&[b"one\ntw", b"o\r\nthr", b"ee"], &["one", "two"], &["three"]);
        check(&[b"one\n"], &["one"], &[]);
        check(&[], &[], &[]);
        check(&[b"caf\xc3", b"\xa9\n\xff\n"], &["caf\u{e9}", "\u{fffd}"], &[]);
    }

    #[test]
    fn logs_every_kept_byte_once() {
        let lines: Vec<String> = (0..20_000).map(|number| format!("{number:07}")).collect();
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        for piece_bytes in [100, 4096, 50_000, text.len()] {
            let (live, last) = live_and_kept(&text.as_bytes().chunks(piece_bytes).collect::<Vec<_>>());
            // With eight bytes per line, 32 KiB hold 4096 lines.
            assert_eq!(live[..4096], lines[..4096], "by {piece_bytes}");
            assert_eq!(live[4096..], ["[more output; the last part follows after the process has ended]"]);
            assert_eq!(last[..2], ["", "[94464 bytes dropped]"]);
            assert_eq!(last[2..], lines[20_000 - 4096..]);
        }
    }
}
