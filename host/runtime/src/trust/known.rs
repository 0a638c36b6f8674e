//! A cache of file digests. A plugin of 5 MB costs one `stat` instead of a read. A cached digest is valid while device,
//! inode, size, and times are unchanged. If an entry cannot be read or written, the file is hashed.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::tree::Tree;
use crate::clock::Clock;
use crate::private_file::Cache;
use crate::{digest, small_file};

#[derive(Debug)]
pub(super) struct Digests(Cache<String, Known>);

#[derive(Debug, Serialize, Deserialize)]
struct Known {
    stamp: String,
    sha256: String,
}

impl Digests {
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self(Cache::new(folder, small_file::RECORD))
    }

    /// Returns the digest of a file or folder.
    pub(super) fn get(&self, path: &Path) -> io::Result<String> {
        let now = Clock::System.now();
        let tree = Tree::read(path)?;
        let stamp = tree.stamp();
        let key = digest::of_bytes(path.as_os_str().as_bytes());
        if let Some(known) = self.0.get(&key).filter(|known| known.stamp == stamp) {
            return Ok(known.sha256);
        }
        let sha256 = tree.digest()?;
        if tree.is_settled(now) {
            self.0.put(&key, &Known { stamp, sha256: sha256.clone() });
        }
        Ok(sha256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const OTHER: &str = "cached";

    /// Checks the digest of a file whose cache entry has this stamp and another digest.
    #[track_caller]
    fn check(stamp: impl Fn(&Path) -> String, expect: &str) {
        let base = tempfile::tempdir().unwrap();
        let (file, memory) = (base.path().join("file"), base.path().join("memory"));
        fs::write(&file, "abc").unwrap();
        let known = Known { stamp: stamp(&file), sha256: OTHER.into() };
        let name = format!("{}.json", digest::of_bytes(file.as_os_str().as_bytes()));
        crate::private_file::write(&memory.join(name), &serde_json::to_vec(&known).unwrap(), 0o600).unwrap();
        assert_eq!(Digests::new(Some(memory)).get(&file).unwrap(), expect);
    }

    #[test]
    fn an_unchanged_file_is_not_read_again() {
        check(|file| Tree::read(file).unwrap().stamp(), OTHER);
    }

    #[test]
    fn a_changed_or_replaced_file_is_read_again() {
        check(|_| String::new(), &digest::of_bytes(b"abc"));
        let changed = |file: &Path| {
            let before = Tree::read(file).unwrap().stamp();
            // Another file with the same bytes at the same path.
            fs::write(file.with_extension("new"), "abc").unwrap();
            #[expect(clippy::disallowed_methods, reason = "a test swaps files")]
            fs::rename(file.with_extension("new"), file).unwrap();
            before
        };
        check(changed, &digest::of_bytes(b"abc"));
    }

    #[test]
    fn recently_changed_files_are_not_cached() {
        let base = tempfile::tempdir().unwrap();
        let (file, memory) = (base.path().join("file"), base.path().join("memory"));
        fs::write(&file, "abc").unwrap();
        Digests::new(Some(memory.clone())).get(&file).unwrap();
        assert!(!memory.exists());
        let old = Path::new("/bin/sh").canonicalize().unwrap();
        Digests::new(Some(memory.clone())).get(&old).unwrap();
        assert_eq!(fs::read_dir(memory).map_or(0, Iterator::count), 1);
    }
}
