//! The table that the bench prints: both sides, their ratio, the target. Nothing here measures.

use std::time::Duration;

/// A row: what, one side, the other, the ratio and what becomes of it.
pub(crate) struct Table(Vec<[String; 5]>);

impl Table {
    pub(crate) fn new() -> Self {
        Self(vec![["", "jp-compact", "the other", "ratio", "target"].map(str::to_owned)])
    }

    /// Compares times. Without a target it is there to be looked at.
    pub(crate) fn times(&mut self, what: &str, ours: Duration, other: Duration, target: Option<f64>) {
        let ratio = ours.as_secs_f64() / other.as_secs_f64().max(1e-9);
        self.row(what, [time(ours), time(other), format!("{ratio:.2}"), judged(ratio, target)]);
    }

    /// Compares a peak of memory with the size of the file.
    pub(crate) fn peak(&mut self, what: &str, peak_bytes: u64, file_bytes: u64, target: f64) {
        let ratio = peak_bytes as f64 / file_bytes as f64;
        self.row(
            what,
            [
                megabytes(peak_bytes),
                megabytes(file_bytes),
                format!("{ratio:.2}"),
                judged(ratio, Some(target)),
            ],
        );
    }

    /// Tells how far a peak of memory lies above the size of the file.
    pub(crate) fn beyond(&mut self, what: &str, peak_bytes: u64, file_bytes: u64, target_mb: f64) {
        let beyond = (peak_bytes as f64 - file_bytes as f64) / 1e6;
        let judged = judged(beyond, Some(target_mb)).replace(',', " MB,");
        self.row(what, [megabytes(peak_bytes), megabytes(file_bytes), format!("+{beyond:.1} MB"), judged]);
    }

    /// Says why there is nothing to compare with.
    pub(crate) fn absent(&mut self, what: &str) {
        self.row(what, ["-", "absent", "-", "-"].map(str::to_owned));
    }

    fn row(&mut self, what: &str, [ours, other, ratio, judged]: [String; 4]) {
        self.0.push([what.to_owned(), ours, other, ratio, judged]);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |column: usize| self.0.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let [what, ours, other, ratio] = [0, 1, 2, 3].map(width);
        for row in &self.0 {
            let line = format!(
                "{:what$}  {:>ours$}  {:>other$}  {:>ratio$}  {}",
                row[0], row[1], row[2], row[3], row[4]
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn judged(ratio: f64, target: Option<f64>) -> String {
    match target {
        None => String::new(),
        Some(target) if ratio <= target => format!("{target}, met"),
        Some(target) => format!("{target}, not met"),
    }
}

fn time(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
