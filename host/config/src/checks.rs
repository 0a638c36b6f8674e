//! Checks that the types in `file` cannot express: a profile has one form and no range, and a workspace file may only
//! set some keys (docs/reference/configuration.md#layers).

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::origin::{ConfigError, Source};

type TomlEntry<'a> = (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>);

/// Returns the first error, and its offset in the text.
pub(super) fn check(table: &DeTable<'_>, source: &Source) -> Option<(usize, ConfigError)> {
    let place = match source {
        Source::Workspace(_) => Some("in a workspace file"),
        Source::Conversation(_) => Some("for one conversation"),
        _ => None,
    };
    if let Some(place) = place
        && let Some((span, message)) = forbidden_in_workspace(table, place)
    {
        let error = ConfigError { allowed_in_user_file: true, ..ConfigError::new(source, message) };
        return Some((span.start, error));
    }
    let (span, message) = invalid_profile(table)?;
    Some((span.start, ConfigError::new(source, message)))
}

/// Returns the first error in a text that is one layer.
pub(super) fn check_text(text: &str, source: &Source) -> Option<ConfigError> {
    let table = DeTable::parse(text).ok()?;
    check(table.get_ref(), source).map(|(_, error)| error)
}

/// Finds a key that a workspace file must not set, such as an address to which an API key is sent. Returns its position
/// and the error message. `place` names the kind of file.
fn forbidden_in_workspace(table: &DeTable<'_>, place: &str) -> Option<(Range<usize>, String)> {
    let allowed = ["conversation", "llm"];
    if let Some((key, _)) = entries(table).find(|(key, _)| !allowed.contains(&key.get_ref().as_ref())) {
        let message =
            format!("`{}` is not allowed {place}; only `conversation` and `llm.model` are", key.get_ref());
        return Some((key.span(), message));
    }
    let llm = table_at(table, "llm")?;
    let (key, _) = entries(llm).find(|(key, _)| key.get_ref() != "model")?;
    let message = format!(
        "`llm.{}` is not allowed {place}; only `llm.model` is, because other settings could send your \
         API key to another address",
        key.get_ref()
    );
    Some((key.span(), message))
}

/// Finds a profile with a range, or with both forms. Returns the position and the error message.
fn invalid_profile(table: &DeTable<'_>) -> Option<(Range<usize>, String)> {
    let profiles = table_at(table_at(table_at(table, "conversation")?, "compaction")?, "profiles")?;
    entries(profiles).find_map(|(name, profile)| {
        let DeValue::Table(profile) = profile.get_ref() else { return None };
        let first_of = |keys: &[&str]| entries(profile).find(|(key, _)| keys.contains(&key.get_ref().as_ref()));
        if let Some((key, _)) = first_of(&["from", "to"]) {
            let message = format!(
                "profile `{}` has `{}`, but a profile cannot set a range; use `--from` and `--to`, or `keep_first` \
                 and `keep_last` in the profile",
                name.get_ref(),
                key.get_ref()
            );
            return Some((key.span(), message));
        }
        let (strategies, _) = first_of(&["strategies"])?;
        let (policy, _) = first_of(&["reasoning", "tool_calls", "summary"])?;
        let message = format!(
            "profile `{}` has both `strategies` and `{}`; use only one of them",
            name.get_ref(),
            policy.get_ref()
        );
        Some((strategies.span(), message))
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
