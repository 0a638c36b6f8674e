//! The name that a user probably meant. A name is suggested only if few letters differ, or if it is the only one that
//! begins with the typed letters, because a wrong suggestion is worse than none.

/// A typed beginning of at least this many bytes is completed to the name.
const PREFIX_BYTES_MIN: usize = 3;

/// Returns the known name that is nearest to a typed name, if it is near enough.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let mut nearest: Option<(usize, &str)> = None;
    let mut completed = Vec::new();
    for name in known {
        let lower = name.to_lowercase();
        if typed.len() >= PREFIX_BYTES_MIN && lower.starts_with(&typed) {
            completed.push(name);
        }
        let distance = edit_distance(&lower, &typed);
        // A short name may differ in one letter, and a long name in a third of its letters, but at most in four.
        let limit = if name.len() < 6 { 1 } else { name.len() / 3 };
        if distance <= limit.min(4) && nearest.is_none_or(|(smallest, _)| distance < smallest) {
            nearest = Some((distance, name));
        }
    }
    match completed.as_slice() {
        [name] => Some(name),
        _ => nearest.map(|(_, name)| name),
    }
}

/// Returns the hint after an unknown name: the nearest name, or all names. `plural` is the noun of the names, and
/// `command` lists them.
pub fn hint_for(typed: &str, known: &[impl AsRef<str>], plural: &str, command: &str) -> String {
    let names: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    // Some lists have their names in backticks.
    match nearest(typed, names.iter().map(|name| name.trim_matches('`'))) {
        Some(near) => format!("did you mean `{near}`? `{command}` lists the {plural}"),
        None => format!("the {plural} are {}", names.join(", ")),
    }
}

/// The hint after an unknown key of the configuration.
pub const KEYS_HINT: &str = "`jp-compact config --example` prints an example with every key";

/// Returns the hint for a dotted key that has no value: the key that the user probably meant. The last word of a key is
/// enough to find it.
#[must_use]
pub fn hint_for_key(typed: &str, known: &[String]) -> String {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let with_last = |word: &str| known.iter().find(|key| last(key) == word).map(String::as_str);
    let lasts: Vec<String> = known.iter().map(|key| last(key)).collect();
    let near = nearest(typed, known.iter().map(String::as_str));
    let near = near.or_else(|| with_last(nearest(&last(typed), lasts.iter().map(String::as_str))?));
    match near {
        Some(key) => format!("did you mean `{key}`? `jp-compact config` prints all values"),
        None => format!("`jp-compact config` prints all values; {KEYS_HINT}"),
    }
}

/// Returns the field that the user probably meant, if a message of `serde` names an unknown field and the known fields.
#[must_use]
pub fn intended_field(message: &str) -> Option<&str> {
    let (_, names) = message.split_once("unknown field `")?;
    let (typed, known) = names.split_once('`')?;
    nearest(typed, known.split('`').skip(1).step_by(2))
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
        check("SUMMARIZES", Some("summarize"));
        check("mirco", Some("micro"));
        check("tirm", Some("trim"));
        check("summ", Some("summarize"));
    }

    #[test]
    fn hint_for_a_key_has_the_nearest_key() {
        let known = ["limits.private_dir_bytes", "conversation.compaction.keep_last"].map(str::to_owned);
        for typed in ["conversation.compaction.keep_lst", "keep_last", "keep_lats", "compaction.keep_last"] {
            let hint = hint_for_key(typed, &known);
            assert!(
                hint.starts_with("did you mean `conversation.compaction.keep_last`? "),
                "{typed}: {hint}"
            );
        }
        assert!(!hint_for_key("x", &known).contains("did you mean"));
    }

    #[test]
    fn finds_the_intended_field_in_a_message() {
        let message = "unknown field `keep_lst`, expected one of `default_profile`, `keep_last`, `auto`";
        assert_eq!(intended_field(message), Some("keep_last"));
        assert_eq!(intended_field("unknown field `zz`, expected `compaction` or `tools`"), None);
        assert_eq!(intended_field("invalid type: string, expected `keep_last`"), None);
    }

    #[test]
    fn hint_has_the_nearest_name_or_all_names() {
        let known = ["light", "heavy"];
        let hint = |typed| hint_for(typed, &known, "profiles", "jp-compact config");
        assert_eq!(hint("heavyy"), "did you mean `heavy`? `jp-compact config` lists the profiles");
        assert_eq!(hint("other"), "the profiles are light, heavy");
    }

    #[test]
    fn suggests_no_distant_name() {
        for typed in ["", "x", "compact", "heavy", "strip", "ünïcode"] {
            check(typed, None);
        }
    }
}
