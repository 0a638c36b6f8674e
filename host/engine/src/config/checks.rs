//! Checks that the types of the file cannot express: a profile has one form and no range, and a workspace
//! file may only set some keys (docs/reference/configuration.md#layers). Each error has an offset.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::origin::{ConfigError, Source};

type TomlEntry<'a> = (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>);

/// Returns the first error.
pub(super) fn check(table: &DeTable<'_>, source: &Source) -> Option<(usize, ConfigError)> {
    let limits = || matches!(source, Source::Workspace(_)).then(|| beyond_a_workspace(table)).flatten();
    let (span, what, is_the_users) = match limits() {
        Some((span, what)) => (span, what, true),
        None => {
            let (span, what) = wrong_profile(table)?;
            (span, what, false)
        }
    };
    Some((span.start, ConfigError { is_the_users, ..ConfigError::new(source, what) }))
}

/// Returns a key that a workspace file must not set: the address for keys, commands, and environment variables.
fn beyond_a_workspace(table: &DeTable<'_>) -> Option<(Range<usize>, String)> {
    let known = ["conversation", "llm"];
    if let Some((key, _)) = entries(table).find(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
        let what = format!(
            "`{}` is not allowed in a workspace file; it cannot set folders, permissions, trust, environment or \
             commands",
            key.get_ref()
        );
        return Some((key.span(), what));
    }
    let llm = table_at(table, "llm")?;
    let (key, _) = entries(llm).find(|(key, _)| key.get_ref() != "model")?;
    let what = format!(
        "`llm.{}` is not allowed in a workspace file; only `llm.model` is, because an address in a repository could \
         steal your key",
        key.get_ref()
    );
    Some((key.span(), what))
}

fn wrong_profile(table: &DeTable<'_>) -> Option<(Range<usize>, String)> {
    let profiles = table_at(table_at(table_at(table, "conversation")?, "compaction")?, "profiles")?;
    entries(profiles).find_map(|(name, profile)| {
        let DeValue::Table(profile) = profile.get_ref() else { return None };
        let named = |keys: &[&str]| entries(profile).find(|(key, _)| keys.contains(&key.get_ref().as_ref()));
        if let Some((key, _)) = named(&["from", "to"]) {
            let what = format!(
                "profile `{}` has `{}`, but a profile cannot set a range; use `--from` and `--to`, or `keep_first` \
                 and `keep_last` in the profile",
                name.get_ref(),
                key.get_ref()
            );
            return Some((key.span(), what));
        }
        let ((key, _), (policy, _)) =
            (named(&["strategies"])?, named(&["reasoning", "tool_calls", "summary"])?);
        let what = format!(
            "profile `{}` has both `strategies` and `{}`; use only one of them",
            name.get_ref(),
            policy.get_ref()
        );
        Some((key.span(), what))
    })
}

fn table_at<'a>(table: &'a DeTable<'a>, key: &str) -> Option<&'a DeTable<'a>> {
    let (_, value) = entries(table).find(|(name, _)| name.get_ref() == key)?;
    match value.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

fn entries<'a>(table: &'a DeTable<'a>) -> impl Iterator<Item = TomlEntry<'a>> {
    table.iter()
}
