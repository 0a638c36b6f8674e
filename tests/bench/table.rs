//! The printed table: both sides, their ratio, and the target. This module does not measure.

use std::time::Duration;

use crate::measure::Times;

/// Rows of name, our side, the other side, the ratio of the medians, the ratio of the minimums, and the
/// verdict.
pub(crate) struct Table(Vec<[String; 6]>);

impl Table {
    pub(crate) fn new() -> Self {
        Self(vec![["", "jp-compact", "the other", "ratio", "at best", "target"].map(str::to_owned)])
    }

    /// Compares times. A row without a target is informative.
    pub(crate) fn add_times(&mut self, label: &str, ours: Times, other: Times, target: Option<f64>) {
        let ratio = |ours: Duration, other: Duration| ours.as_secs_f64() / other.as_secs_f64().max(1e-9);
        let (median, min) = (ratio(ours.median, other.median), ratio(ours.min, other.min));
        let ratios = [format!("{median:.2}"), format!("{min:.2}")];
        self.add_row(label, [time(ours.median), time(other.median)], ratios, &verdict(median, target));
    }

    /// Compares peak memory with another size, such as that of the file.
    pub(crate) fn add_peak(&mut self, label: &str, peak_bytes: u64, other_bytes: u64, target: f64) {
        let ratio = peak_bytes as f64 / other_bytes as f64;
        let sides = [megabytes(peak_bytes), megabytes(other_bytes)];
        self.add_row(label, sides, [format!("{ratio:.2}"), String::new()], &verdict(ratio, Some(target)));
    }

    /// Reports how far the peak memory exceeds the size of the file.
    pub(crate) fn add_excess(&mut self, label: &str, peak_bytes: u64, file_bytes: u64, target_mb: f64) {
        let excess = (peak_bytes as f64 - file_bytes as f64) / 1e6;
        let sides = [megabytes(peak_bytes), megabytes(file_bytes)];
        let verdict = verdict(excess, Some(target_mb)).replace(',', " MB,");
        self.add_row(label, sides, [format!("+{excess:.1} MB"), String::new()], &verdict);
    }

    /// Adds a row for a peer that is not installed.
    pub(crate) fn add_absent(&mut self, label: &str) {
        self.add_row(label, ["-".into(), "absent".into()], ["-".into(), "-".into()], "");
    }

    fn add_row(&mut self, label: &str, [ours, other]: [String; 2], [ratio, min]: [String; 2], verdict: &str) {
        self.0.push([label.to_owned(), ours, other, ratio, min, verdict.to_owned()]);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |column: usize| self.0.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let [label, ours, other, ratio, min] = [0, 1, 2, 3, 4].map(width);
        for row in &self.0 {
            let line = format!(
                "{:label$}  {:>ours$}  {:>other$}  {:>ratio$}  {:>min$}  {}",
                row[0], row[1], row[2], row[3], row[4], row[5]
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn verdict(ratio: f64, target: Option<f64>) -> String {
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
