//! A cache of strategy descriptions, keyed by the digest of the plugin. With it, a strategy is not started again only
//! for its description. An entry that cannot be read is treated as missing.

use std::io;
use std::path::{Path, PathBuf};

use jp_compact_schema::Description;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::private_file::Cache;
use crate::{options, small_file, trust};

/// The version of the entry format.
const FORMAT_VERSION: u32 = 2;

/// A cached description and the result of checking it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckedDescription {
    /// The description as the plugin returned it.
    pub description: Description,
    /// Whether `options_schema` is a valid schema that accepts its own defaults. This check costs more than
    /// the rest of the preparation.
    pub takes_defaults: bool,
}

impl CheckedDescription {
    /// Checks a description.
    #[must_use]
    pub fn new(description: Description) -> Self {
        Self { takes_defaults: options::takes_defaults(&description), description }
    }
}

#[derive(Debug, Clone)]
pub struct Descriptions(Cache<String, CachedDescription>);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct CachedDescription {
    cache: u32,
    sha256: String,
    #[serde(flatten)]
    known: CheckedDescription,
}

impl Descriptions {
    fn new(folder: Option<PathBuf>) -> Self {
        Self(Cache::new(folder, small_file::DESCRIPTION))
    }

    /// Opens the cache of the user. A folder that another user could write to is neither read nor written.
    #[must_use]
    pub fn open(environment: &Environment) -> Self {
        let folder = environment.cache().map(|cache| cache.join("descriptions"));
        Self::new(folder.filter(|path| is_safe(path)))
    }

    /// Returns the description of the plugin with this digest.
    #[must_use]
    pub fn get(&self, sha256: &str) -> Option<CheckedDescription> {
        let entry = self.0.get(&sha256.to_owned())?;
        (entry.cache == FORMAT_VERSION && entry.sha256 == sha256).then_some(entry.known)
    }

    /// Stores a description. A failure only costs time, so it is logged and ignored.
    pub fn put(&self, sha256: &str, known: &CheckedDescription) {
        let entry =
            CachedDescription { cache: FORMAT_VERSION, sha256: sha256.to_owned(), known: known.clone() };
        self.0.put(&entry.sha256, &entry);
    }
}

/// Returns whether no other user can write to the folder. A missing folder is safe: it is created later with private
/// permissions.
fn is_safe(folder: &Path) -> bool {
    match trust::insecure_folder(folder) {
        Ok(None) => true,
        Ok(Some(insecure)) => {
            tracing::warn!(%insecure, "ignored the description cache");
            false
        }
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_entries_are_treated_as_missing() {
        let base = tempfile::tempdir().unwrap();
        let cache = Descriptions::new(Some(base.path().join("descriptions")));
        let description = CheckedDescription::new(Description::new("a", "1", "d"));
        assert_eq!(cache.get("12"), None);
        cache.put("12", &description);
        assert_eq!(cache.get("12"), Some(description.clone()));
        let file = cache.0.file(&"12".to_owned()).unwrap();
        let valid_text = std::fs::read_to_string(&file).unwrap();
        for garbage in
            ["", "{", "[]", &valid_text[..valid_text.len() - 2], &valid_text.replace("\"12\"", "\"13\"")]
        {
            std::fs::write(&file, garbage).unwrap();
            assert_eq!(cache.get("12"), None, "{garbage}");
        }
        cache.put("12", &description);
        assert_eq!(cache.get("12"), Some(description));
    }

    #[test]
    fn does_not_cache_without_a_folder() {
        let cache = Descriptions::new(None);
        cache.put("12", &CheckedDescription::new(Description::new("a", "1", "d")));
        assert_eq!(cache.get("12"), None);
    }
}
