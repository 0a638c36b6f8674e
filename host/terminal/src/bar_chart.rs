//! Tables of tokens with a bar in each row. The full part of a bar represents the tokens in the view, and the light
//! part represents the tokens that the view hides. A table is as wide as the terminal, but has at least 60 and at most
//! 80 columns.

use crate::escape;
use crate::lines::{EscapedLines, LISTED_MAX};
use crate::numbers::{grouped, percent_change};
use crate::width::{cut_start, padded};

/// The widest and the narrowest table.
const COLUMNS: usize = 80;
const COLUMNS_MIN: usize = 60;
/// The width of `unchanged`.
const CHANGE_WIDTH: usize = 9;

/// The widths of the columns. They are the same in all tables of a width, so that columns align.
#[derive(Debug, Clone, Copy)]
struct Widths {
    name: usize,
    number: usize,
    bar: usize,
}

impl Widths {
    /// Returns the widths for a terminal, if there is one.
    fn new(columns: Option<usize>) -> Self {
        let columns = columns.unwrap_or(COLUMNS).clamp(COLUMNS_MIN, COLUMNS);
        // Numbers up to 999,999,999, or up to 9,999,999 in a narrow table.
        let (name, number) = if columns < COLUMNS { (17, 9) } else { (24, 11) };
        let bar = columns - name - 2 * (number + 1) - (CHANGE_WIDTH + 2) - 2;
        Self { name, number, bar }
    }
}

/// Blocks for eighths of a column.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// The tokens of a row, raw and in the view.
#[derive(Debug, Clone, Copy)]
pub struct Bar {
    pub raw: u64,
    pub view: u64,
}

/// Appends a table with the largest row first. Without rows, it appends nothing.
pub fn table<'a>(
    text: &mut EscapedLines,
    title: &str,
    rows: impl Iterator<Item = (&'a str, Bar)>,
    columns: Option<usize>,
) {
    let Widths { name: name_width, number: number_width, bar: bar_width } = Widths::new(columns);
    let mut rows: Vec<_> = rows.map(|(name, amount)| (label(name, name_width), amount)).collect();
    if rows.is_empty() {
        return;
    }
    let size = |amount: &Bar| amount.raw.max(amount.view);
    rows.sort_by_key(|(_, amount)| std::cmp::Reverse(size(amount)));
    let largest = size(&rows[0].1);
    text.line("");
    // A long title takes room of the next column, in which numbers are wider than their heading.
    let raw_width = (name_width + 1 + number_width).saturating_sub(title.chars().count());
    text.line(format_args!("{title}{:>raw_width$} {:>number_width$}", "raw", "view"));
    let hidden = rows.len().saturating_sub(LISTED_MAX);
    for (name, amount) in rows.into_iter().take(LISTED_MAX) {
        text.line(
            format!(
                "{name} {:>number_width$} {:>number_width$}  {:<CHANGE_WIDTH$}  {}",
                grouped(amount.raw),
                grouped(amount.view),
                percent_change(amount.raw, amount.view),
                bar(amount, largest, bar_width)
            )
            .trim_end(),
        );
    }
    text.hidden_count("", hidden);
}

/// Escapes a name, and cuts or pads it to its column. A long name loses its beginning, because paths differ at their end.
fn label(name: &str, width: usize) -> String {
    padded(&cut_start(&escape::line(name), width), width)
}

/// Draws a bar: full for the tokens in the view, light for the tokens that the view hides. The amount `largest` fills
/// `width`.
fn bar(Bar { raw, view }: Bar, largest: u64, width: usize) -> String {
    let eighths = |amount: u64| {
        let scaled = u128::from(amount) * width as u128 * 8 / u128::from(largest.max(1));
        // A small amount is visible, too.
        usize::try_from(scaled).unwrap_or(0).max(usize::from(amount > 0))
    };
    let full_eighths = eighths(view);
    let light_columns = eighths(raw).div_ceil(8).saturating_sub(full_eighths.div_ceil(8));
    let mut bar = "█".repeat(full_eighths / 8) + EIGHTHS[full_eighths % 8];
    bar.push_str(&"░".repeat(light_columns));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::width::columns;

    #[track_caller]
    fn check(before: u64, after: u64, expected: &str) {
        assert_eq!(bar(Bar { raw: before, view: after }, 100, 10), expected);
    }

    #[test]
    fn bar_shows_sent_part_full_and_hidden_part_light() {
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
    fn lines_have_at_most_80_columns() {
        let amount = Bar { raw: 123_456_789, view: 123_456_789 };
        let long_name = "a/".repeat(60);
        let mut text = EscapedLines::new();
        let rows = [("a", amount), (long_name.as_str(), amount), ("b\u{1b}[2J\nc", amount)];
        table(&mut text, "tokens by conversation", rows.into_iter(), None);
        let text = text.as_str();
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.contains("…/a/a") && text.contains("b\\u{1b}[2J\\nc"), "{text}");
    }

    #[test]
    fn numbers_align_after_a_name_with_wide_characters() {
        let amount = Bar { raw: 1234, view: 0 };
        let (short, long) = ("工作".to_owned(), "工作".repeat(20));
        let rows = ["a", &short, &long].map(|name| (name, amount));
        let mut text = EscapedLines::new();
        table(&mut text, "tokens by tool", rows.into_iter(), None);
        let lines = text.as_str().lines().skip(2);
        let widths: Vec<_> = lines.map(|line| columns(&line[..line.find("1,234").unwrap()])).collect();
        assert_eq!(widths, [widths[0]; 3], "{}", text.as_str());
    }

    #[test]
    fn narrow_terminals_get_narrow_tables() {
        let rows = || [("tool_responses", Bar { raw: 9_999_999, view: 1_000_000 })].into_iter();
        for columns in [60, 72, 80, 200] {
            let mut text = EscapedLines::new();
            table(&mut text, "tokens by conversation", rows(), Some(columns));
            let text = text.as_str();
            assert!(
                text.lines().all(|line| line.chars().count() <= columns.min(COLUMNS)),
                "{columns}\n{text}"
            );
            assert!(text.contains("-90 %") && text.contains('█'), "{text}");
            let end = |part: &str| {
                let line = text.lines().find(|line| line.contains(part)).unwrap();
                line[..line.find(part).unwrap() + part.len()].chars().count()
            };
            assert_eq!((end("raw"), end("view")), (end("9,999,999"), end("1,000,000")), "{text}");
        }
    }
}
