//! Progress of strategies and batches on a terminal. The lines disappear at the end. Nothing must be written to a pipe.

use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jp_compact_runtime::session::Watch;
use jp_compact_schema::Progress as Step;

use crate::{escape, output};

/// A longer message would wrap, and then it could not be cleared.
const MESSAGE_CHARS_MAX: usize = 60;

/// The line of a strategy, and its request.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    bar: ProgressBar,
    shown: Mutex<Option<String>>,
}

impl ProgressLine {
    /// On stderr, if it is a terminal and neither quiet nor JSON.
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, target(quiet));
        let style = ProgressStyle::with_template("{spinner} {prefix} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self { bar, shown: Mutex::new(None) }
    }

    /// Hides the line during a write.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    fn shown(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The progress bar of a batch, with its rate and remaining time. The line of strategies is below it.
#[derive(Debug)]
pub(crate) struct Bar {
    all: MultiProgress,
    bar: ProgressBar,
    transcripts: u64,
    done: u64,
}

impl Bar {
    /// For this number of transcripts and bytes.
    pub(crate) fn new(quiet: bool, transcripts: u64, bytes: u64, strategies: &ProgressLine) -> Self {
        let all = MultiProgress::with_draw_target(target(quiet));
        let bar = all.add(ProgressBar::new(bytes));
        all.add(strategies.bar.clone());
        let template = "{bar:25} {prefix}  {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let this = Self { all, bar, transcripts, done: 0 };
        this.update();
        this
    }

    /// Counts a finished transcript.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.done += 1;
        self.bar.inc(bytes);
        self.update();
    }

    fn update(&self) {
        if !self.bar.is_hidden() {
            self.bar.set_prefix(format!("{} of {}", self.done, self.transcripts));
        }
    }

    /// Hides the lines during a write.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.all.suspend(write)
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Stderr, unless it is quiet or JSON. indicatif draws only on a terminal.
fn target(quiet: bool) -> ProgressDrawTarget {
    if !quiet && !output::is_json() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
}

impl Watch for ProgressLine {
    fn progress(&self, strategy: &str, id: &str, step: &Step) {
        *self.shown() = Some(id.to_owned());
        self.bar.set_prefix(escape::line(strategy));
        self.bar.set_message(text(step));
        self.bar.enable_steady_tick(Duration::from_millis(100));
    }

    fn ended(&self, id: &str) {
        let mut shown = self.shown();
        if shown.as_deref() == Some(id) {
            *shown = None;
            self.bar.disable_steady_tick();
            self.bar.finish_and_clear();
            self.bar.reset();
        }
    }
}

/// The progress of a strategy on one escaped line.
fn text(step: &Step) -> String {
    let done = match step.total {
        Some(total) => format!("{} of {total}", step.done),
        None => step.done.to_string(),
    };
    let Some(message) = &step.message else { return done };
    let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    format!("{done} {}", escape::line(&message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(done: u64, total: Option<u64>, message: Option<&str>, expect: &str) {
        let message = message.map(str::to_owned);
        assert_eq!(text(&Step { id: "c1".into(), done, total, message }), expect);
    }

    #[test]
    fn progress_is_one_escaped_line() {
        check(3, None, None, "3");
        check(3, Some(9), Some("scanning"), "3 of 9 scanning");
        check(3, Some(9), Some("a\n\u{1b}[2Jb"), "3 of 9 a\\n\\u{1b}[2Jb");
        check(1, None, Some(&"x".repeat(500)), &format!("1 {}", "x".repeat(60)));
    }
}
