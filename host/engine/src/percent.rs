//! Percentages for gates. The percentages of a report are rounded, so they do not show whether a gate is met.

/// Returns a part in percent of the whole: 0 if the whole is 0.
#[must_use]
pub fn exact_percent(part: i64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Formats a percentage with one decimal place, or with more if it would otherwise be on the wrong side of `minimum`.
#[must_use]
pub fn compared_percent(percent: f64, minimum: f64) -> String {
    let texts = (1..=6).map(|places| format!("{percent:.places$}"));
    let mut right = texts
        .skip_while(|text| text.parse().is_ok_and(|rounded: f64| (rounded < minimum) != (percent < minimum)));
    right.next().unwrap_or_else(|| percent.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_that_is_the_minimum_is_not_less() {
        for tenths in 0..=1000 {
            let minimum: f64 = format!("{}.{}", tenths / 10, tenths % 10).parse().unwrap();
            assert!(exact_percent(tenths * 3, 3000) >= minimum, "{minimum}");
        }
        assert_eq!(exact_percent(0, 0).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn text_is_on_the_same_side_of_the_minimum() {
        let texts = [(29.96, 30.0), (30.04, 30.0), (0.0138, 0.01), (29.0, 30.0), (30.0 - 1e-9, 30.0)]
            .map(|(percent, minimum)| compared_percent(percent, minimum));
        assert_eq!(texts, ["29.96", "30.0", "0.01", "29.0", "29.999999999"]);
    }
}
