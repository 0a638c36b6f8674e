//! The search for a conversation by the beginning of its id, or by its title, as a person types it. An ambiguous name
//! is an error, because the command may write.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use jp_compact_runtime::small_file;
use serde::Deserialize;

use super::{StoreError, workspace::parse_id};

/// The possible lengths of the beginning of an id. An id has 11 digits, and the first digits rarely differ. A whole id
/// must not match a longer id.
const PREFIX_DIGITS: RangeInclusive<usize> = 6..=10;

/// The part of `metadata.json` that is read.
#[derive(Deserialize)]
struct Metadata {
    title: Option<String>,
}

/// Returns the id of the conversation with this name. `conversations` are all ids, with their folders.
pub(super) fn find(name: &str, conversations: Vec<(String, PathBuf)>) -> Result<Option<String>, StoreError> {
    let found: Vec<(String, PathBuf)> = match parse_id(name) {
        Some(digits) if PREFIX_DIGITS.contains(&digits.len()) => {
            conversations.into_iter().filter(|(id, _)| id.starts_with(digits)).collect()
        }
        Some(_) => return Ok(None),
        None => conversations.into_iter().filter(|(_, folder)| has_title(folder, name)).collect(),
    };
    match &*found {
        [] => Ok(None),
        [(id, _)] => Ok(Some(id.clone())),
        [(_, first), (_, second), ..] => Err(StoreError::AmbiguousName {
            name: name.to_owned(),
            first: first.clone(),
            second: second.clone(),
        }),
    }
}

/// Returns whether a conversation has this title. The case of letters is ignored.
fn has_title(folder: &Path, title: &str) -> bool {
    let json = small_file::read(&folder.join("metadata.json"), small_file::JP_FILE).ok().flatten();
    let metadata = json.and_then(|json| serde_json::from_slice::<Metadata>(&json).ok());
    let own = metadata.and_then(|metadata| metadata.title);
    own.is_some_and(|own| own.trim().to_lowercase() == title.trim().to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the result for three conversations.
    fn find_in_three(name: &str) -> Result<Option<String>, StoreError> {
        let folder = tempfile::tempdir().unwrap();
        let rows =
            [("17738399468", "Fix the tests"), ("17738399470", "Straße"), ("17900000000", "fix the tests ")];
        let conversations = rows.map(|(id, title)| {
            let folder = folder.path().join(id);
            fs::create_dir(&folder).unwrap();
            let metadata = serde_json::json!({"title": title, "last_activated_at": "2026-03-18 12:00:00.0"});
            fs::write(folder.join("metadata.json"), metadata.to_string()).unwrap();
            (id.to_owned(), folder)
        });
        find(name, conversations.into())
    }

    #[track_caller]
    fn check(name: &str, expected: Option<&str>) {
        assert_eq!(find_in_three(name).unwrap().as_deref(), expected, "{name}");
    }

    #[test]
    fn beginning_of_an_id_must_be_long_and_unique() {
        check("179000", Some("17900000000"));
        check("jp-c1773839947", Some("17738399470"));
        check("17900", None);
        check("188888", None);
        assert!(matches!(find_in_three("177383"), Err(StoreError::AmbiguousName { .. })));
    }

    #[test]
    fn title_is_compared_without_case() {
        check("STRASSE", None);
        check("straße", Some("17738399470"));
        check("Stra", None);
        assert!(matches!(find_in_three("FIX the tests"), Err(StoreError::AmbiguousName { .. })));
    }
}
