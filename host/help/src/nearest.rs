//! The name that a user probably meant. A name is suggested only if few letters differ, because a wrong suggestion is
//! worse than none.

/// Returns the known name that is nearest to a typed one, if it is near enough.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let mut nearest: Option<(usize, &str)> = None;
    for name in known {
        let distance = edit_distance(&name.to_lowercase(), &typed);
        // At most a third of a long name differs, and at most half of a short one.
        let limit = if name.len() < 6 { name.len() / 2 } else { name.len() / 3 };
        if distance <= limit && nearest.is_none_or(|(smallest, _)| distance < smallest) {
            nearest = Some((distance, name));
        }
    }
    nearest.map(|(_, name)| name)
}

/// Returns the number of inserted, removed, replaced, and swapped bytes between two names.
fn edit_distance(left: &str, right: &str) -> usize {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for (row, left_byte) in (1..).zip(left) {
        let mut next = vec![row];
        for (column, right_byte) in (1..).zip(right) {
            let replaced = rows[row - 1][column - 1] + usize::from(left_byte != right_byte);
            let mut distance = replaced.min(rows[row - 1][column] + 1).min(next[column - 1] + 1);
            let is_swap =
                row > 1 && column > 1 && left[row - 2] == *right_byte && *left_byte == right[column - 2];
            if is_swap {
                distance = distance.min(rows[row - 2][column - 2] + 1);
            }
            next.push(distance);
        }
        rows.push(next);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected: Option<&str>) {
        let known = ["strip-tools", "strip-reasoning", "summarize", "micro", "trim", "auto-summarize"];
        assert_eq!(nearest(typed, known), expected, "{typed}");
    }

    #[test]
    fn suggests_the_nearest_name() {
        check("strip-tool", Some("strip-tools"));
        check("striptools", Some("strip-tools"));
        check("Summarizee", Some("summarize"));
        check("mirco", Some("micro"));
        check("tirm", Some("trim"));
    }

    #[test]
    fn suggests_no_distant_name() {
        for typed in ["", "x", "compact", "heavy", "strip", "ünïcode"] {
            check(typed, None);
        }
    }
}
