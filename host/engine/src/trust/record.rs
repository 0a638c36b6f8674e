//! Trust as it is kept in the user's state folder: one file for each path that was trusted. A record that cannot
//! be read trusts nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jp_compact_schema::{Permissions, StrategyName};
use serde::{Deserialize, Serialize};

use crate::{digest, private_file, small_file};

/// The version of a record's form.
const RECORD: u32 = 1;

/// What the user said of one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The version of this form.
    record: u32,
    /// The strategy's name.
    pub name: StrategyName,
    /// The plugin, symbolic links resolved.
    pub path: String,
    /// The digest of the bytes that are trusted.
    pub sha256: String,
    /// What was granted.
    pub permissions: Permissions,
    /// The interpreter that the runtime is of, as it was found when trust was given.
    pub interpreter: Option<PathBuf>,
}

impl Record {
    pub(super) fn new(
        name: StrategyName,
        path: String,
        sha256: String,
        permissions: Permissions,
        interpreter: Option<PathBuf>,
    ) -> Self {
        Self { record: RECORD, name, path, sha256, permissions, interpreter }
    }
}

/// The folder of records.
#[derive(Debug)]
pub(super) struct Records(pub(super) PathBuf);

impl Records {
    fn file(&self, path: &str) -> PathBuf {
        self.0.join(format!("{}.json", digest::of_bytes(path.as_bytes())))
    }

    /// What was said of a real path.
    pub(super) fn of(&self, path: &Path) -> io::Result<Option<Record>> {
        let Some(path) = path.to_str() else { return Ok(None) };
        Ok(read(&self.file(path))?.filter(|record| record.path == path))
    }

    pub(super) fn write(&self, record: &Record) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(record)?;
        text.push(b'\n');
        private_file::write_durably(&self.file(&record.path), &text, private_file::PRIVATE)
    }

    pub(super) fn remove(&self, record: &Record) -> io::Result<()> {
        fs::remove_file(self.file(&record.path))
    }

    /// Every record that can be read.
    pub(super) fn all(&self) -> io::Result<Vec<Record>> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut records = Vec::new();
        for entry in entries {
            records.extend(read(&entry?.path())?.filter(|record| !record.path.is_empty()));
        }
        records.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(records)
    }
}

fn read(path: &Path) -> io::Result<Option<Record>> {
    let Some(bytes) = small_file::read(path, small_file::RECORD)? else { return Ok(None) };
    match serde_json::from_slice::<Record>(&bytes) {
        Ok(record) if record.record == RECORD => Ok(Some(record)),
        Ok(_) => Ok(None),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "a trust record cannot be read, and counts for nothing");
            Ok(None)
        }
    }
}
