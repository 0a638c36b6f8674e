//! The text forms of numbers, ranges, and paths for people.

use std::path::Path;

use jp_compact_core::overlay::Overlay;
use jp_compact_core::{Position, TurnRange};
use jp_compact_runtime::environment::Environment;

/// A path. Inside the current folder, it is relative to that folder.
pub(crate) fn relative_path(path: &Path, environment: &Environment) -> String {
    path.strip_prefix(&environment.cwd).unwrap_or(path).display().to_string()
}

/// A number with separators: 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A change in percent: `-43 %`, `+2 %`, or `unchanged`.
pub(crate) fn percent_change(before: u64, after: u64) -> String {
    if before == after || before == 0 {
        return "unchanged".into();
    }
    let percent = (after as f64 / before as f64 - 1.0) * 100.0;
    format!("{percent:+.0} %")
}

/// A number with its noun: `1 turn`, `2 turns`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// A range of turns or steps: `turn 3`, `turns 3-5`, or `turns 3-5.2`.
fn range(from: Position, to: Position) -> String {
    match TurnRange::between(from, to) {
        Some(range) => range.to_string(),
        None => format!("turns {from}-{to}"),
    }
}

/// The range of an overlay.
pub(crate) fn overlay_range(overlay: &Overlay) -> String {
    let &Overlay { from_turn, to_turn, from_step, to_step, .. } = overlay;
    range(Position { turn: from_turn, step: from_step }, Position { turn: to_turn, step: to_step })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_digits_by_three() {
        assert_eq!([grouped(0), grouped(999), grouped(1_234_567)], ["0", "999", "1,234,567"]);
    }
}
