//! What no type can say of a file: a profile has no range and one form, and a workspace's file has limits
//! (SECURITY, "Trust"). Each is an offset and what is wrong there.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::origin::{Source, Wrong};

type Entry<'a> = (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>);

/// The first thing that is wrong.
pub(super) fn check(table: &DeTable<'_>, source: &Source) -> Option<(usize, Wrong)> {
    let limits = || matches!(source, Source::Workspace(_)).then(|| beyond_a_workspace(table)).flatten();
    let (span, what, is_the_users) = match limits() {
        Some((span, what)) => (span, what, true),
        None => {
            let (span, what) = wrong_profile(table)?;
            (span, what, false)
        }
    };
    Some((span.start, Wrong { is_the_users, ..Wrong::of(source, what) }))
}

/// What a repository may not say: where a key is sent, which command is run, whose environment is read.
fn beyond_a_workspace(table: &DeTable<'_>) -> Option<(Range<usize>, String)> {
    let known = ["conversation", "llm"];
    if let Some((key, _)) = entries(table).find(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
        let what = format!(
            "`{}` may not stand in a workspace's file, which says nothing of folders, permissions, trust, \
             environment or commands",
            key.get_ref()
        );
        return Some((key.span(), what));
    }
    let llm = table_at(table, "llm")?;
    let (key, _) = entries(llm).find(|(key, _)| key.get_ref() != "model")?;
    let what = format!(
        "`llm.{}` may not stand in a workspace's file, which may name a model and nothing else under `llm`: an \
         address in a repository would carry your key away",
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
                "profile `{}` has `{}`, and a profile says no range: `--from` and `--to` do, when a compaction is \
                 asked for; a profile may say keep_first and keep_last",
                name.get_ref(),
                key.get_ref()
            );
            return Some((key.span(), what));
        }
        let ((key, _), (policy, _)) =
            (named(&["strategies"])?, named(&["reasoning", "tool_calls", "summary"])?);
        let what = format!(
            "profile `{}` has `strategies` and `{}`: it is one or the other",
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

fn entries<'a>(table: &'a DeTable<'a>) -> impl Iterator<Item = Entry<'a>> {
    table.iter()
}
