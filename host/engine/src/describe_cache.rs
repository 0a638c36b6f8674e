//! What strategies said of themselves, by the digest of what said it, so that nobody is asked twice. What cannot
//! be read counts as not there.

use std::io;
use std::path::{Path, PathBuf};

use jp_compact_schema::Description;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::{options, private_file, small_file, trust};

/// The version of an entry's form.
const CACHE: u32 = 2;

/// What a strategy said of itself, and what follows from that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// What it said.
    pub description: Description,
    /// Whether its `options_schema` is one, and takes its own defaults. It costs more to find out than all else
    /// before a strategy is asked.
    pub takes_defaults: bool,
}

impl Known {
    /// What follows from a description.
    #[must_use]
    pub fn of(description: Description) -> Self {
        Self { takes_defaults: options::takes_defaults(&description), description }
    }
}

/// The descriptions that are kept.
#[derive(Debug, Clone)]
pub struct Descriptions {
    /// None: nothing is kept.
    folder: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    cache: u32,
    sha256: String,
    #[serde(flatten)]
    known: Known,
}

impl Descriptions {
    /// Those of the user. A folder that others could write to is not believed, and nothing is written to it.
    #[must_use]
    pub fn open(environment: &Environment) -> Self {
        Self {
            folder: environment.cache().map(|cache| cache.join("descriptions")).filter(|path| is_own(path)),
        }
    }

    fn file(&self, sha256: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{sha256}.json")))
    }

    /// What the bytes of this digest said.
    #[must_use]
    pub fn get(&self, sha256: &str) -> Option<Known> {
        let bytes = small_file::read(&self.file(sha256)?, small_file::DESCRIPTION).ok()??;
        let entry: Entry = serde_json::from_slice(&bytes).ok()?;
        (entry.cache == CACHE && entry.sha256 == sha256).then_some(entry.known)
    }

    /// Keeps what they said. That it cannot be kept costs time, and nothing else.
    pub fn put(&self, sha256: &str, known: &Known) {
        let Some(file) = self.file(sha256) else { return };
        let entry = Entry { cache: CACHE, sha256: sha256.to_owned(), known: known.clone() };
        let written = serde_json::to_vec(&entry)
            .map_err(std::io::Error::from)
            .and_then(|entry| private_file::write(&file, &entry, private_file::PRIVATE));
        if let Err(error) = written {
            tracing::debug!(%error, path = %file.display(), "a description is not kept");
        }
    }
}

/// Whether nobody else could have written there. A folder that does not exist yet will be made private.
fn is_own(folder: &Path) -> bool {
    match trust::insecure_folder(folder) {
        Ok(None) => true,
        Ok(Some(insecure)) => {
            tracing::warn!(%insecure, "the cache of descriptions is ignored");
            false
        }
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_as_good_as_nothing() {
        let base = tempfile::tempdir().unwrap();
        let kept = Descriptions { folder: Some(base.path().join("descriptions")) };
        let description = Known::of(Description::new("a", "1", "d"));
        assert_eq!(kept.get("12"), None);
        kept.put("12", &description);
        assert_eq!(kept.get("12"), Some(description.clone()));
        let file = kept.file("12").unwrap();
        let good = std::fs::read_to_string(&file).unwrap();
        for garbage in ["", "{", "[]", &good[..good.len() - 2], &good.replace("\"12\"", "\"13\"")] {
            std::fs::write(&file, garbage).unwrap();
            assert_eq!(kept.get("12"), None, "{garbage}");
        }
        kept.put("12", &description);
        assert_eq!(kept.get("12"), Some(description));
    }

    #[test]
    fn without_a_folder_nothing_is_kept() {
        let none = Descriptions { folder: None };
        none.put("12", &Known::of(Description::new("a", "1", "d")));
        assert_eq!(none.get("12"), None);
    }
}
