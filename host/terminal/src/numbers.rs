//! The text forms of numbers.

/// Formats a number with separators: 1,234,567.
#[must_use]
pub fn grouped(number: u64) -> String {
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

/// Formats a change in percent: `-43 %`, `+2 %`, or `unchanged`. A change from 0 has no percentage: `new`.
#[must_use]
pub fn percent_change(before: u64, after: u64) -> String {
    if before == after {
        return "unchanged".into();
    }
    if before == 0 {
        return "new".into();
    }
    let percent = (after as f64 / before as f64 - 1.0) * 100.0;
    format!("{percent:+.0} %")
}

/// Formats a number with its noun: `1 turn`, `2 turns`.
#[must_use]
pub fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_digits_by_three() {
        assert_eq!([grouped(0), grouped(999), grouped(1_234_567)], ["0", "999", "1,234,567"]);
    }

    #[test]
    fn change_from_zero_has_no_percentage() {
        let changes = [(0, 250), (0, 0), (7, 7), (100, 57), (100, 0), (50, 51)];
        let texts = changes.map(|(before, after)| percent_change(before, after));
        assert_eq!(texts, ["new", "unchanged", "unchanged", "-43 %", "-100 %", "+2 %"]);
    }
}
