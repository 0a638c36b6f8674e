//! The bars of a batch and of an evaluation. They disappear at the end, and never wrap: the bar itself takes the rest of the
//! line.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::draw_target;
use super::line::ProgressLine;

/// The progress bar of a batch, with the number of transcripts and the remaining time. The line of the strategies is
/// below it.
#[derive(Debug)]
pub struct BatchProgress {
    /// The bar and the line of the strategies.
    lines: MultiProgress,
    bar: ProgressBar,
    transcripts: u64,
    done: u64,
}

impl BatchProgress {
    /// Creates a bar for this number of transcripts and bytes.
    pub fn new(hidden: bool, transcripts: u64, bytes: u64, strategies: &ProgressLine) -> Self {
        let lines = MultiProgress::with_draw_target(draw_target(hidden));
        let bar = lines.add(ProgressBar::new(bytes));
        lines.add(strategies.bar());
        let template = "{prefix} {wide_bar} {percent} %, {eta} left";
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let batch = Self { lines, bar, transcripts, done: 0 };
        batch.show_count();
        batch
    }

    /// Counts a finished transcript.
    pub fn advance(&mut self, bytes: u64) {
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
    pub fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.lines.suspend(write)
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The progress bar of an evaluation, with its remaining time. A unit is one row on one transcript.
#[derive(Debug)]
pub struct EvalBar {
    bar: ProgressBar,
}

impl EvalBar {
    pub fn new(hidden: bool, rows: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(rows), draw_target(hidden));
        let style = ProgressStyle::with_template("{pos} of {len} rows {wide_bar} {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar }
    }

    /// Counts finished rows.
    pub fn add_rows(&self, rows: u64) {
        self.bar.inc(rows);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
