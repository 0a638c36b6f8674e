//! The progress of strategies and batches on a terminal. The lines disappear at the end. If stderr is not a terminal,
//! nothing must be written.

use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jp_compact_runtime::session::Watch;
use jp_compact_schema::Progress;

use crate::{escape, output};

/// A longer message would wrap, and then it could not be cleared.
const MESSAGE_CHARS_MAX: usize = 60;

/// A line with the progress of one request to a strategy.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    bar: ProgressBar,
    /// The id of the request on the line.
    request: Mutex<Option<String>>,
}

impl ProgressLine {
    /// Creates an empty line. Its output goes to [`draw_target`].
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, draw_target(quiet));
        let style = ProgressStyle::with_template("{spinner} {prefix} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self { bar, request: Mutex::new(None) }
    }

    /// Hides the line during a write.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    fn lock_request(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.request.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The progress bar of a batch, with its rate and remaining time. The line of the strategies is below it.
#[derive(Debug)]
pub(crate) struct BatchProgress {
    /// The bar and the line of the strategies.
    lines: MultiProgress,
    bar: ProgressBar,
    transcripts: u64,
    done: u64,
}

impl BatchProgress {
    /// Creates a bar for this number of transcripts and bytes.
    pub(crate) fn new(quiet: bool, transcripts: u64, bytes: u64, strategies: &ProgressLine) -> Self {
        let lines = MultiProgress::with_draw_target(draw_target(quiet));
        let bar = lines.add(ProgressBar::new(bytes));
        lines.add(strategies.bar.clone());
        let template = "{bar:25} {prefix}  {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let batch = Self { lines, bar, transcripts, done: 0 };
        batch.show_count();
        batch
    }

    /// Counts a finished transcript.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.done += 1;
        self.bar.inc(bytes);
        self.show_count();
    }

    fn show_count(&self) {
        if !self.bar.is_hidden() {
            self.bar.set_prefix(format!("{} of {}", self.done, self.transcripts));
        }
    }

    /// Hides the lines during a write.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.lines.suspend(write)
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The progress bar of an evaluation, with its remaining time. A unit is one row on one transcript.
#[derive(Debug)]
pub(crate) struct EvalBar {
    bar: ProgressBar,
}

impl EvalBar {
    pub(crate) fn new(quiet: bool, rows: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(rows), draw_target(quiet));
        let style = ProgressStyle::with_template("{bar:25} {pos} of {len} rows, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar }
    }

    /// Counts finished rows.
    pub(crate) fn add_rows(&self, rows: u64) {
        self.bar.inc(rows);
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Returns stderr, unless it is quiet or JSON. indicatif draws only on a terminal.
fn draw_target(quiet: bool) -> ProgressDrawTarget {
    if quiet || output::is_json() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

impl Watch for ProgressLine {
    fn progress(&self, strategy: &str, id: &str, progress: &Progress) {
        *self.lock_request() = Some(id.to_owned());
        self.bar.set_prefix(escape::line(strategy));
        self.bar.set_message(text(progress));
        self.bar.enable_steady_tick(Duration::from_millis(100));
    }

    fn ended(&self, id: &str) {
        let mut request = self.lock_request();
        if request.as_deref() == Some(id) {
            *request = None;
            self.bar.disable_steady_tick();
            self.bar.finish_and_clear();
            self.bar.reset();
        }
    }
}

/// Returns the progress of a strategy on one escaped line.
fn text(progress: &Progress) -> String {
    let count = match progress.total {
        Some(total) => format!("{} of {total}", progress.done),
        None => progress.done.to_string(),
    };
    let Some(message) = &progress.message else { return count };
    let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    format!("{count} {}", escape::line(&message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(done: u64, total: Option<u64>, message: Option<&str>, expected: &str) {
        let message = message.map(str::to_owned);
        assert_eq!(text(&Progress { id: "c1".into(), done, total, message }), expected);
    }

    #[test]
    fn progress_is_one_escaped_line() {
        check(3, None, None, "3");
        check(3, Some(9), Some("scanning"), "3 of 9 scanning");
        check(3, Some(9), Some("a\n\u{1b}[2Jb"), "3 of 9 a\\n\\u{1b}[2Jb");
        check(1, None, Some(&"x".repeat(500)), &format!("1 {}", "x".repeat(60)));
    }
}
