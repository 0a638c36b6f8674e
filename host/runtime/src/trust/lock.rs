//! `plugins.lock`: trust that can be committed, and used in CI without the state of a user. Paths are relative to the
//! file, so it is valid in every checkout. Its entries override the records of the user.

use std::io;
use std::path::{Component, Path, PathBuf};

use jp_compact_schema::{Permissions, StrategyName};
use serde::{Deserialize, Serialize};

use super::grants;
use crate::environment::real_path;
use crate::{private_file, small_file};

const HEADING: &str = "# Trusted plugins: the digest of each plugin, and its grants.\n\
                       # Written by `jp-compact strategy trust PLUGIN --trust-lock FILE`.\n";
/// The version of the file format.
const FORMAT_VERSION: u32 = 1;
/// The file is committed, so every user may read it.
const MODE: u32 = 0o644;

#[derive(Debug)]
pub(super) struct Lock {
    pub(super) path: PathBuf,
    entries: Vec<LockEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockFile {
    lock: u32,
    #[serde(default, rename = "plugin")]
    plugins: Vec<LockEntry>,
}

/// The trust entry of one plugin.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LockEntry {
    pub(super) name: StrategyName,
    path: PathBuf,
    pub(super) sha256: String,
    #[serde(default)]
    pub(super) permissions: Permissions,
}

impl Lock {
    /// Reads a lock file. A missing file counts as a lock file without entries.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let bytes = match small_file::read_named(path, small_file::LOCK) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { path: path.to_owned(), entries: Vec::new() });
            }
            Err(error) => return Err(error.to_string()),
        };
        let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
        let file: LockFile =
            toml::from_str(&text).map_err(|error| error.to_string().trim_end().to_owned())?;
        if file.lock != FORMAT_VERSION {
            return Err(format!("version {} is not supported; expected {FORMAT_VERSION}", file.lock));
        }
        for LockEntry { name, permissions, .. } in &file.plugins {
            grants::check(permissions).map_err(|reason| format!("{name}: {reason}"))?;
        }
        Ok(Self { path: path.to_owned(), entries: file.plugins })
    }

    /// Returns the entry for a real path.
    pub(super) fn entry(&self, real: &Path) -> Option<&LockEntry> {
        self.entries.iter().find(|entry| self.is_for(entry, real))
    }

    fn is_for(&self, entry: &LockEntry, real: &Path) -> bool {
        real_path(&self.folder().join(&entry.path)) == real
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Replaces the entry of a plugin.
    pub(super) fn put(
        &mut self,
        name: StrategyName,
        real: &Path,
        sha256: String,
        permissions: Permissions,
    ) -> io::Result<()> {
        let folder = self.folder().canonicalize()?;
        let entry = LockEntry { name, path: relative(real, &folder), sha256, permissions };
        self.remove_entries(|lock, other| lock.is_for(other, real));
        self.entries.push(entry);
        self.entries.sort_by(|one, other| one.path.cmp(&other.path));
        self.write()
    }

    /// Removes the entries of a real path or of a name, and returns how many there were.
    pub(super) fn remove(&mut self, real: Option<&Path>, name: &str) -> io::Result<usize> {
        let previous_count = self.entries.len();
        self.remove_entries(|lock, entry| match real {
            Some(real) => lock.is_for(entry, real),
            None => entry.name.as_str() == name,
        });
        let removed = previous_count - self.entries.len();
        if removed > 0 {
            self.write()?;
        }
        Ok(removed)
    }

    fn remove_entries(&mut self, is_removed: impl Fn(&Self, &LockEntry) -> bool) {
        let entries = self.entries.iter().filter(|entry| !is_removed(self, entry)).cloned().collect();
        self.entries = entries;
    }

    fn write(&self) -> io::Result<()> {
        let file = LockFile { lock: FORMAT_VERSION, plugins: self.entries.clone() };
        let text = toml::to_string(&file).map_err(io::Error::other)?;
        private_file::write_durably(&self.path, format!("{HEADING}{text}").as_bytes(), MODE)
    }
}

/// Returns the path relative to a folder. Both must be real paths.
fn relative(path: &Path, folder: &Path) -> PathBuf {
    let common = path.components().zip(folder.components()).take_while(|(one, other)| one == other).count();
    let to_common = folder.components().skip(common).map(|_| Component::ParentDir);
    to_common.chain(path.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, folder: &str, expect: &str) {
        assert_eq!(relative(Path::new(path), Path::new(folder)), Path::new(expect));
    }

    #[test]
    fn paths_are_relative_to_the_lock_file() {
        check("/w/plugins/a", "/w", "plugins/a");
        check("/w/a", "/w/ci", "../a");
        check("/other/a", "/w/ci", "../../other/a");
    }

    #[test]
    fn entries_survive_moving_the_folder() {
        let base = tempfile::tempdir().unwrap();
        let real = base.path().canonicalize().unwrap();
        let checkout = real.join("one");
        std::fs::create_dir(&checkout).unwrap();
        std::fs::write(checkout.join("a"), "").unwrap();
        let name = StrategyName::parse("a").unwrap();
        let granted = Permissions { llm: true, ..Permissions::default() };
        let mut lock = Lock::read(&checkout.join("plugins.lock")).unwrap();
        lock.put(name.clone(), &checkout.join("a"), "00".into(), Permissions::default()).unwrap();
        lock.put(name, &checkout.join("a"), "12".into(), granted.clone()).unwrap();

        let other = real.join("two");
        std::fs::create_dir(&other).unwrap();
        for file in ["a", "plugins.lock"] {
            std::fs::copy(checkout.join(file), other.join(file)).unwrap();
        }
        let mut read = Lock::read(&other.join("plugins.lock")).unwrap();
        let entry = read.entry(&other.join("a")).unwrap();
        assert_eq!((&*entry.sha256, &entry.permissions), ("12", &granted));
        assert!(read.entry(&checkout.join("a")).is_none());
        assert_eq!(read.remove(None, "a").unwrap(), 1);
        assert!(Lock::read(&other.join("plugins.lock")).unwrap().entry(&other.join("a")).is_none());
    }

    #[test]
    fn rejects_invalid_lock_files() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("plugins.lock");
        let entry =
            "lock = 1\n[[plugin]]\nname = \"a\"\npath = \"a\"\nsha256 = \"00\"\n[plugin.permissions]\n";
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Lock::read(&path)
        };
        for text in ["lock = 2", "nonsense", "lock = 1\n[[plugins]]", "lock = 1\n[[plugin]]\npath = \"a\""] {
            assert!(read(text).is_err(), "{text}");
        }
        read(&format!("{entry}env = [\"A\"]")).unwrap();
        let error = read(&format!("{entry}env = [\"A\", \"LD_PRELOAD\"]")).unwrap_err();
        assert_eq!(error, "a: invalid permission `env`: `LD_PRELOAD` cannot be granted");
    }
}
