//! Trust records in the state folder of the user, one file per trusted path. A record that cannot be read
//! grants nothing. Records are decisions of the user and not a [`Cache`](private_file::Cache): they are never evicted, a
//! failure to write one is an error, and the bytes of the plugin are checked at each use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jp_compact_schema::{Permissions, StrategyName};
use serde::{Deserialize, Serialize};

use super::grants;
use crate::{digest, private_file, small_file};

/// The version of the record format.
const FORMAT_VERSION: u32 = 1;

/// The decision of the user about one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustRecord {
    record: u32,
    /// The name of the strategy.
    pub name: StrategyName,
    /// The real path of the plugin.
    pub path: String,
    /// The digest of the trusted bytes.
    pub sha256: String,
    /// The granted permissions.
    pub permissions: Permissions,
    /// The interpreter at the time when trust was given.
    pub interpreter: Option<PathBuf>,
}

impl TrustRecord {
    pub(super) fn new(
        name: StrategyName,
        path: String,
        sha256: String,
        permissions: Permissions,
        interpreter: Option<PathBuf>,
    ) -> Self {
        Self { record: FORMAT_VERSION, name, path, sha256, permissions, interpreter }
    }
}

/// The folder of records.
#[derive(Debug)]
pub(super) struct Records(pub(super) PathBuf);

impl Records {
    fn file(&self, path: &str) -> PathBuf {
        self.0.join(format!("{}.json", digest::of_bytes(path.as_bytes())))
    }

    /// Returns the record for a real path.
    pub(super) fn get(&self, path: &Path) -> io::Result<Option<TrustRecord>> {
        let Some(path) = path.to_str() else { return Ok(None) };
        Ok(read(&self.file(path))?.filter(|record| record.path == path))
    }

    pub(super) fn write(&self, record: &TrustRecord) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(record)?;
        text.push(b'\n');
        private_file::write_durably(&self.file(&record.path), &text, private_file::PRIVATE)
    }

    pub(super) fn remove(&self, record: &TrustRecord) -> io::Result<()> {
        fs::remove_file(self.file(&record.path))
    }

    /// Returns every valid record, sorted by path.
    pub(super) fn all(&self) -> io::Result<Vec<TrustRecord>> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut records = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let record = read(&path).unwrap_or_else(|error| {
                warn_ignored(&path, &error);
                None
            });
            // A temporary file or a copy has another name than the file that `get` reads, and grants nothing.
            records.extend(record.filter(|record| self.file(&record.path) == path));
        }
        records.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(records)
    }
}

fn read(path: &Path) -> io::Result<Option<TrustRecord>> {
    let Some(bytes) = small_file::read(path, small_file::RECORD)? else { return Ok(None) };
    let record = serde_json::from_slice::<TrustRecord>(&bytes).map_err(|error| error.to_string());
    match record.and_then(|record| grants::check(&record.permissions).map(|()| record)) {
        Ok(record) => Ok(Some(record).filter(|record| record.record == FORMAT_VERSION)),
        Err(error) => {
            warn_ignored(path, &error);
            Ok(None)
        }
    }
}

fn warn_ignored(path: &Path, error: &dyn std::fmt::Display) {
    tracing::warn!(%error, path = %path.display(), "ignored an unreadable trust record");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(path: &str, variable: &str) -> TrustRecord {
        let permissions = Permissions { env: vec![variable.to_owned()], ..Permissions::default() };
        TrustRecord::new(StrategyName::parse("a").unwrap(), path.into(), "00".into(), permissions, None)
    }

    #[test]
    fn other_files_in_the_folder_are_not_records() {
        let base = tempfile::tempdir().unwrap();
        let (records, record) = (Records(base.path().to_owned()), record("/a", "A"));
        records.write(&record).unwrap();
        fs::copy(records.file("/a"), base.path().join(".new-1-abcd")).unwrap();
        fs::create_dir(base.path().join("folder")).unwrap();
        assert_eq!(records.all().unwrap(), [record]);
    }

    #[test]
    fn ignores_a_record_of_a_variable_that_cannot_be_granted() {
        let base = tempfile::tempdir().unwrap();
        let records = Records(base.path().to_owned());
        records.write(&record("/a", "LD_PRELOAD")).unwrap();
        assert_eq!(records.get(Path::new("/a")).unwrap(), None);
        assert_eq!(records.all().unwrap(), []);
    }
}
