//! What strategies say to people, in the log: their stderr line by line while it comes, their `log` messages. It is
//! bounded, and whoever writes the log for a terminal escapes it. What is kept for an error is not touched.

use jp_compact_schema::version::LOGS_MAX;
use jp_compact_schema::{Level, Log};

use crate::process::Stderr;

/// Of one message.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// The stderr of one process on its way to the log: as much live as is kept of its beginning, the rest, as far as
/// it was kept, at its end.
#[derive(Debug)]
pub(super) struct Tell {
    strategy: String,
    text: Text,
}

/// What has come, and was not said yet.
#[derive(Debug, Default)]
struct Text {
    line: Vec<u8>,
    told_bytes: usize,
    is_cut: bool,
}

impl Tell {
    /// Of the strategy called so.
    pub(super) fn of(strategy: &str) -> Self {
        Self { strategy: strategy.to_owned(), text: Text::default() }
    }

    /// More has come.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        let strategy = &*self.strategy;
        self.text.take(bytes, |line| tracing::info!(strategy, "| {line}"));
    }

    /// No more will come.
    pub(super) fn end(mut self, stderr: &Stderr) {
        let strategy = &*self.strategy;
        self.text.rest(stderr, |line| tracing::info!(strategy, "| {line}"));
    }
}

impl Text {
    fn take(&mut self, bytes: &[u8], mut say: impl FnMut(&str)) {
        let live = &bytes[..bytes.len().min(Stderr::HEAD_BYTES_MAX - self.told_bytes)];
        self.told_bytes += live.len();
        for piece in live.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.ends_with(b"\n") {
                say(String::from_utf8_lossy(&self.line).trim_end_matches(['\n', '\r']));
                self.line.clear();
            }
        }
        if live.len() < bytes.len() && !self.is_cut {
            self.is_cut = true;
            say("[it writes much; the end of it follows when it has ended]");
        }
    }

    fn rest(&mut self, stderr: &Stderr, say: impl FnMut(&str)) {
        let mut rest = std::mem::take(&mut self.line);
        if stderr.dropped_bytes() > 0 {
            rest.extend(format!("\n[{} bytes dropped]\n", stderr.dropped_bytes()).into_bytes());
        }
        rest.extend_from_slice(stderr.tail());
        String::from_utf8_lossy(&rest).lines().for_each(say);
    }
}

/// The same of the so-and-so-many line of a reply, of which no more are logged than are kept.
pub(super) fn log_at_most(strategy: &str, line: &Log, number: usize) {
    if number <= LOGS_MAX {
        log(strategy, line);
    } else if number == LOGS_MAX + 1 {
        tracing::warn!(strategy, "it has more log lines, which are counted");
    }
}

/// A strategy's message for the host's log, while it works. Each line stands for itself, so that none can pass for
/// another's.
pub(super) fn log(strategy: &str, log: &Log) {
    let message = &log.message[..log.message.floor_char_boundary(MESSAGE_BYTES_MAX)];
    for line in message.lines() {
        match log.level {
            Level::Trace => tracing::trace!(strategy, "| {line}"),
            Level::Debug => tracing::debug!(strategy, "| {line}"),
            Level::Info => tracing::info!(strategy, "| {line}"),
            Level::Warn => tracing::warn!(strategy, "| {line}"),
            Level::Error => tracing::error!(strategy, "| {line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said live of these pieces, and what at the end.
    fn said(pieces: &[&[u8]]) -> (Vec<String>, Vec<String>) {
        let (mut text, mut stderr) = (Text::default(), Stderr::default());
        let (mut live, mut last) = (Vec::new(), Vec::new());
        for piece in pieces {
            stderr.push(piece);
            text.take(piece, |line| live.push(line.to_owned()));
        }
        text.rest(&stderr, |line| last.push(line.to_owned()));
        (live, last)
    }

    #[track_caller]
    fn check(pieces: &[&[u8]], live: &[&str], last: &[&str]) {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        assert_eq!(said(pieces), (owned(live), owned(last)));
    }

    #[test]
    fn whole_lines_are_said_while_they_come_and_the_last_without_its_end_at_the_end() {
        check(&[b"one\ntw", b"o\r\nthr", b"ee"], &["one", "two"], &["three"]);
        check(&[b"one\n"], &["one"], &[]);
        check(&[], &[], &[]);
        check(&[b"caf\xc3", b"\xa9\n\xff\n"], &["caf\u{e9}", "\u{fffd}"], &[]);
    }

    #[test]
    fn nothing_that_was_kept_is_said_twice_or_not_at_all() {
        let lines: Vec<String> = (0..20_000).map(|number| format!("{number:07}")).collect();
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        for piece_bytes in [100, 4096, 50_000, text.len()] {
            let (live, last) = said(&text.as_bytes().chunks(piece_bytes).collect::<Vec<_>>());
            // Eight bytes a line: 32 KiB hold 4096 of them.
            assert_eq!(live[..4096], lines[..4096], "by {piece_bytes}");
            assert_eq!(live[4096..], ["[it writes much; the end of it follows when it has ended]"]);
            assert_eq!(last[..2], ["", "[94464 bytes dropped]"]);
            assert_eq!(last[2..], lines[20_000 - 4096..]);
        }
    }
}
