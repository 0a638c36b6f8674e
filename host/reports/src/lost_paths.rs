//! The paths that stripped calls lose, as one line of text.

use jp_compact_schema::document::{BetterPolicy, LostPaths};

/// Describes the paths that a view lost, if a policy that JP applies would lose less. `inline` is the beginning of the
/// inline form for that policy.
#[must_use]
pub fn line(paths: &LostPaths, is_dry_run: bool, inline: &str) -> Option<String> {
    let LostPaths { stripped, lost, better } = paths;
    let BetterPolicy { tool_calls, lost: lost_then } = better.as_ref()?;
    let verb = if is_dry_run { "would lose" } else { "loses" };
    Some(format!(
        "the view {verb} {lost} of the {stripped} paths in stripped calls; with `--compact={inline}t={tool_calls}` it would \
         lose {lost_then}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_names_the_better_policy() {
        let better = BetterPolicy { tool_calls: "strip-responses".into(), lost: 4 };
        let paths = LostPaths { stripped: 57, lost: 42, better: Some(better) };
        assert_eq!(
            line(&paths, true, "r+").unwrap(),
            "the view would lose 42 of the 57 paths in stripped calls; with `--compact=r+t=strip-responses` it would lose 4"
        );
        assert!(line(&paths, false, "").unwrap().starts_with("the view loses 42 of"));
        assert_eq!(line(&LostPaths { better: None, ..paths }, true, ""), None);
    }
}
