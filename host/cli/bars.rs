//! Tables of tokens with a bar behind each row: what a model is sent of it, and what it is no longer sent. No line
//! has more than 80 columns.

use jp_compact_core::stats::Amount;

use crate::commands::{change, grouped};
use crate::escape;
use crate::lines::{LISTED_MAX, Lines};

const COLUMNS: usize = 80;
/// The same in every table, so that one stands below the other.
const NAME: usize = 24;
/// Of the two numbers: up to 999,999,999.
const NUMBER: usize = 11;
/// Of `unchanged`.
const CHANGE: usize = 9;
const BAR: usize = COLUMNS - NAME - 2 * (NUMBER + 1) - (CHANGE + 2) - 2;
/// Parts of a column, by eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Appends a table, its largest row first; nothing where there are no rows.
pub(crate) fn table<'a>(text: &mut Lines, title: &str, rows: impl Iterator<Item = (&'a str, Amount)>) {
    let mut rows: Vec<_> = rows.map(|(name, amount)| (name_of(name), amount)).collect();
    if rows.is_empty() {
        return;
    }
    let size = |amount: &Amount| amount.before.max(amount.after);
    rows.sort_by_key(|(_, amount)| std::cmp::Reverse(size(amount)));
    let largest = size(&rows[0].1);
    text.line("");
    text.line(format_args!("{title:<NAME$} {:>NUMBER$} {:>NUMBER$}", "raw", "view"));
    let more = rows.len().saturating_sub(LISTED_MAX);
    for (name, amount) in rows.into_iter().take(LISTED_MAX) {
        text.line(
            format!(
                "{name:<NAME$} {:>NUMBER$} {:>NUMBER$}  {:<CHANGE$}  {}",
                grouped(amount.before),
                grouped(amount.after),
                change(amount.before, amount.after),
                drawn(amount, largest, BAR)
            )
            .trim_end(),
        );
    }
    text.more("", more);
}

/// A name on one line and harmless; of a long one its end, for that is where paths differ.
fn name_of(name: &str) -> String {
    let name = escape::line(name);
    let length = name.chars().count();
    if length <= NAME {
        return name;
    }
    format!("…{}", name.chars().skip(length + 1 - NAME).collect::<String>())
}

/// A bar, full where the view still has it and light where it has not; `largest` fills `width`.
fn drawn(Amount { before, after }: Amount, largest: u64, width: usize) -> String {
    let eighths = |amount: u64| {
        let exact = u128::from(amount) * width as u128 * 8 / u128::from(largest.max(1));
        // What is there is seen.
        usize::try_from(exact).unwrap_or(0).max(usize::from(amount > 0))
    };
    let (shown, whole) = (eighths(after), eighths(before).div_ceil(8));
    let mut bar = "█".repeat(shown / 8) + EIGHTHS[shown % 8];
    bar.push_str(&"░".repeat(whole.saturating_sub(shown.div_ceil(8))));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: u64, after: u64, expected: &str) {
        assert_eq!(drawn(Amount { before, after }, 100, 10), expected);
    }

    #[test]
    fn a_bar_is_full_where_it_is_sent_and_light_where_it_is_not() {
        check(100, 100, "██████████");
        check(100, 50, "█████░░░░░");
        check(100, 0, "░░░░░░░░░░");
        check(50, 25, "██▌░░");
        check(0, 30, "███");
        check(1, 1, "▏");
        check(100, 1, "▏░░░░░░░░░");
        check(0, 0, "");
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let amount = Amount { before: 123_456_789, after: 123_456_789 };
        let long = "a/".repeat(60);
        let mut text = Lines::new();
        let rows = [("a", amount), (long.as_str(), amount), ("b\u{1b}[2J\nc", amount)];
        table(&mut text, "tokens by conversation", rows.into_iter());
        let text = text.as_str();
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.contains("…/a/a") && text.contains("b\\u{1b}[2J\\nc"), "{text}");
    }
}
