//! Hunks of unified text: the changed lines of one event with three lines of context. The work is bounded, because an
//! event can have a million lines.

use jp_compact_schema::document::DiffHunk;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices, group_diff_ops};

const CONTEXT_LINES: usize = 3;

/// Returns the hunks between two texts.
#[must_use]
pub fn hunks(old: &str, new: &str) -> Vec<DiffHunk> {
    let (old_lines, new_lines): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    if old_lines.is_empty() || new_lines.is_empty() {
        let lines = prefixed('-', &old_lines).chain(prefixed('+', &new_lines)).collect::<Vec<_>>();
        let whole = hunk((0, old_lines.len()), (0, new_lines.len()), lines);
        return if whole.lines.is_empty() { Vec::new() } else { vec![whole] };
    }
    let operations = capture_diff_slices(Algorithm::Myers, &old_lines, &new_lines);
    let groups = group_diff_ops(operations, CONTEXT_LINES);
    groups.iter().map(|group| group_hunk(group, &old_lines, &new_lines)).collect()
}

fn prefixed<'a>(prefix: char, lines: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    lines.iter().map(move |line| format!("{prefix}{line}"))
}

fn group_hunk(operations: &[DiffOp], old: &[&str], new: &[&str]) -> DiffHunk {
    let mut lines = Vec::new();
    for operation in operations {
        let (tag, old_range, new_range) = operation.as_tag_tuple();
        if tag == DiffTag::Equal {
            lines.extend(prefixed(' ', &old[old_range]));
            continue;
        }
        lines.extend(prefixed('-', &old[old_range]));
        lines.extend(prefixed('+', &new[new_range]));
    }
    let bounds = |range: fn(&DiffOp) -> std::ops::Range<usize>| {
        let start = operations.first().map_or(0, |operation| range(operation).start);
        let end = operations.last().map_or(0, |operation| range(operation).end);
        (start, end)
    };
    hunk(bounds(DiffOp::old_range), bounds(DiffOp::new_range), lines)
}

/// Makes a hunk from ranges of lines. An empty range has the number of the line before it, as in unified text.
fn hunk(old: (usize, usize), new: (usize, usize), lines: Vec<String>) -> DiffHunk {
    let first_line = |(start, end): (usize, usize)| if start == end { start } else { start + 1 };
    DiffHunk {
        old_start: first_line(old),
        old_lines: old.1 - old.0,
        new_start: first_line(new),
        new_lines: new.1 - new.0,
        lines,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: &[(&str, &[&str])]) {
        let found: Vec<_> = hunks(old, new)
            .into_iter()
            .map(|hunk| {
                let DiffHunk { old_start, old_lines, new_start, new_lines, lines } = hunk;
                (format!("-{old_start},{old_lines} +{new_start},{new_lines}"), lines)
            })
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(header, lines)| (header.to_string(), lines.iter().map(ToString::to_string).collect()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn whole_text_is_removed_or_added() {
        check("a\nb\n", "", &[("-1,2 +0,0", &["-a", "-b"])]);
        check("", "a", &[("-0,0 +1,1", &["+a"])]);
        check("", "", &[]);
        check("a", "a\n", &[]);
    }

    #[test]
    fn hunks_have_three_lines_of_context() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
        let new = "1\n2\n3\n4\n6\n7\n8\n9\n10\n11\n12\n13\n";
        let first = ["  2", "  3", "  4", "- 5", "  6", "  7", "  8"].map(|line| line.replacen(' ', "", 1));
        let first: Vec<&str> = first.iter().map(String::as_str).collect();
        check(old, new, &[("-2,7 +2,6", &first), ("-10,3 +9,4", &[" 10", " 11", " 12", "+13"])]);
    }

    /// Applies hunks to a text.
    fn apply(old: &str, hunks: &[DiffHunk]) -> Vec<String> {
        let old: Vec<&str> = old.lines().collect();
        let (mut result, mut next) = (Vec::new(), 0);
        for hunk in hunks {
            let start = hunk.old_start - usize::from(hunk.old_lines > 0);
            result.extend(old[next..start].iter().map(ToString::to_string));
            next = start + hunk.old_lines;
            let shown = hunk.lines.iter().filter(|line| !line.starts_with('-'));
            result.extend(shown.map(|line| line[1..].to_owned()));
            let removed: Vec<&str> =
                hunk.lines.iter().filter(|line| !line.starts_with('+')).map(|line| &line[1..]).collect();
            assert_eq!(removed, &old[start..next]);
        }
        result.extend(old[next..].iter().map(ToString::to_string));
        result
    }

    proptest! {
        #[test]
        fn hunks_turn_the_old_text_into_the_new(old in "([ab]\n){0,12}", new in "([abc]\n){0,12}") {
            let new_lines: Vec<String> = new.lines().map(str::to_owned).collect();
            prop_assert_eq!(apply(&old, &hunks(&old, &new)), new_lines);
        }
    }

    #[test]
    fn large_texts_take_bounded_work() {
        let line = |number: usize| format!("{} {}\n", number % 977, number % 13);
        let old: String = (0..60_000).map(line).collect();
        let new: String = (0..60_000).filter(|number| number % 3 == 0).map(line).collect();
        let hunks = hunks(&old, &new);
        let added: usize =
            hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.starts_with('+')).count();
        assert!(added < 20_000, "{added} lines are not recognized");
    }
}
