//! Live progress of strategies. It is unverified and must not affect the result.

use std::fmt::Debug;

use jp_compact_core::reply::{self, ReplyLine};
use jp_compact_schema::Progress;

/// Longer lines are not inspected live.
const LINE_BYTES_MAX: usize = 4 << 10;

/// Receives progress. All text comes from the strategy and must be escaped.
pub trait Watch: Debug + Send + Sync {
    /// Called when the strategy reports progress of the request `id`.
    fn progress(&self, strategy: &str, id: &str, progress: &Progress);

    /// Called when the host begins to wait for `subject`, as a part of the request `id`.
    fn waits(&self, _id: &str, _subject: &str) {}

    /// Called when a wait has ended: a process has answered the request `id`, or its needs are answered.
    fn ended(&self, id: &str);
}

/// Ignores progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn progress(&self, _: &str, _: &str, _: &Progress) {}
    fn ended(&self, _: &str) {}
}

/// Finds progress and logs in incomplete output. Invalid lines are skipped, because the complete output is
/// checked later.
#[derive(Debug, Default)]
pub(super) struct LineScanner {
    line: Vec<u8>,
    is_too_long: bool,
}

impl LineScanner {
    /// Reads more output, and calls `on_line` for each complete progress or log line.
    pub(super) fn read(&mut self, output: &[u8], id: &str, mut on_line: impl FnMut(&ReplyLine)) {
        for piece in output.split_inclusive(|byte| *byte == b'\n') {
            self.is_too_long |= self.line.len() + piece.len() > LINE_BYTES_MAX;
            if !self.is_too_long {
                self.line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                let text = std::str::from_utf8(&self.line).unwrap_or_default();
                if !self.is_too_long
                    && let Ok(line @ (ReplyLine::Progress(_) | ReplyLine::Log(_))) = reply::line(text, 0, id)
                {
                    on_line(&line);
                }
                self.line.clear();
                self.is_too_long = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &[u8], expect: &[u64]) {
        for chunk_bytes in [1, 7, output.len()] {
            let (mut scanner, mut numbers) = (LineScanner::default(), Vec::new());
            for chunk in output.chunks(chunk_bytes) {
                scanner.read(chunk, "c1", |line| match line {
                    ReplyLine::Progress(progress) => numbers.push(progress.done),
                    ReplyLine::Log(log) => numbers.push(log.message.parse().unwrap()),
                    other => panic!("{other:?}"),
                });
            }
            assert_eq!(numbers, expect, "by {chunk_bytes}");
        }
    }

    #[test]
    fn finds_only_progress_and_logs() {
        let progress = |done| format!(r#"{{"type":"progress","id":"c1","done":{done}}}"#);
        check(format!("{}\n\n{}\n", progress(1), progress(2)).as_bytes(), &[1, 2]);
        check(format!("no message\n{}\n{}", progress(1), progress(2)).as_bytes(), &[1]);
        check(&[&b"\xff\n"[..], progress(3).as_bytes(), b"\n"].concat(), &[3]);
        let log = r#"{"type":"log","id":"c1","level":"info","message":"7"}"#;
        check(format!("{}\n{log}\n{}", progress(1), progress(2)).as_bytes(), &[1, 7]);
        check(b"{\"type\":\"decline\",\"id\":\"c1\",\"reason\":\"r\"}\n", &[]);
        check(progress(1).replace("c1", "c2").as_bytes(), &[]);
        check(format!("{}{}\n{}\n", " ".repeat(5000), progress(1), progress(2)).as_bytes(), &[2]);
    }
}
