//! The paths that stripped calls lose, as one line of text.

use jp_compact_schema::document::{BetterPolicy, LostPaths};

/// Describes the paths that a view lost, if these are many, and a policy that loses fewer. `inline` is the beginning of the
/// inline form for that policy.
#[must_use]
pub fn line(paths: &LostPaths, is_dry_run: bool, inline: &str) -> Option<String> {
    let LostPaths { stripped, lost, is_much, better } = paths;
    let verb = if is_dry_run { "would lose" } else { "loses" };
    let with_better = better.as_ref().map(|BetterPolicy { tool_calls, lost }| {
        format!("; with `--compact={inline}t={tool_calls}` it would lose {lost}")
    });
    is_much.then(|| {
        let with_better = with_better.unwrap_or_default();
        format!("the view {verb} {lost} of the {stripped} paths in stripped calls{with_better}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_names_the_better_policy() {
        let better = BetterPolicy { tool_calls: "strip-responses".into(), lost: 4 };
        let paths = LostPaths { stripped: 57, lost: 42, is_much: true, better: Some(better) };
        assert_eq!(
            line(&paths, true, "r+").unwrap(),
            "the view would lose 42 of the 57 paths in stripped calls; with `--compact=r+t=strip-responses` it would lose 4"
        );
        assert!(line(&paths, false, "").unwrap().starts_with("the view loses 42 of"));
        let without = LostPaths { better: None, ..paths.clone() };
        assert_eq!(line(&without, false, "").unwrap(), "the view loses 42 of the 57 paths in stripped calls");
        assert_eq!(line(&LostPaths { is_much: false, ..paths }, true, ""), None);
    }
}
