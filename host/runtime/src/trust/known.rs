//! A cache of file digests. A file of 5 MB costs one `stat` instead of a read. A cached digest is valid while device,
//! inode, size, and times are unchanged. Without a readable entry, the file is hashed.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::tree::PluginTree;
use crate::clock::Clock;
use crate::private_file::Cache;
use crate::{digest, small_file};

#[derive(Debug)]
pub(super) struct Digests(Cache<String, CachedDigest>);

#[derive(Debug, Serialize, Deserialize)]
struct CachedDigest {
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
        let tree = PluginTree::read(path)?;
        let stamp = tree.stamp();
        let key = digest::of_bytes(path.as_os_str().as_bytes());
        if let Some(cached) = self.0.get(&key).filter(|cached| cached.stamp == stamp) {
            return Ok(cached.sha256);
        }
        let sha256 = tree.digest()?;
        if tree.is_settled(now) {
            self.0.put(&key, &CachedDigest { stamp, sha256: sha256.clone() });
        }
        Ok(sha256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const CACHED: &str = "cached";

    /// Checks the digest of a file whose cache entry has this stamp and another digest.
    #[track_caller]
    fn check(stamp: impl Fn(&Path) -> String, expect: &str) {
        let base = tempfile::tempdir().unwrap();
        let (file, cache) = (base.path().join("file"), base.path().join("cache"));
        fs::write(&file, "abc").unwrap();
        let cached = CachedDigest { stamp: stamp(&file), sha256: CACHED.into() };
        let name = format!("{}.json", digest::of_bytes(file.as_os_str().as_bytes()));
        crate::private_file::write(&cache.join(name), &serde_json::to_vec(&cached).unwrap(), 0o600).unwrap();
        assert_eq!(Digests::new(Some(cache)).get(&file).unwrap(), expect);
    }

    #[test]
    fn an_unchanged_file_is_not_read_again() {
        check(|file| PluginTree::read(file).unwrap().stamp(), CACHED);
    }

    #[test]
    fn a_changed_or_replaced_file_is_read_again() {
        check(|_| String::new(), &digest::of_bytes(b"abc"));
        let replace_file = |file: &Path| {
            let stamp_before = PluginTree::read(file).unwrap().stamp();
            // Another file with the same bytes at the same path.
            fs::write(file.with_extension("new"), "abc").unwrap();
            #[expect(clippy::disallowed_methods, reason = "a test swaps files")]
            fs::rename(file.with_extension("new"), file).unwrap();
            stamp_before
        };
        check(replace_file, &digest::of_bytes(b"abc"));
    }

    #[test]
    fn recently_changed_files_are_not_cached() {
        let base = tempfile::tempdir().unwrap();
        let (file, cache) = (base.path().join("file"), base.path().join("cache"));
        fs::write(&file, "abc").unwrap();
        Digests::new(Some(cache.clone())).get(&file).unwrap();
        assert!(!cache.exists());
        let old = Path::new("/bin/sh").canonicalize().unwrap();
        Digests::new(Some(cache.clone())).get(&old).unwrap();
        assert_eq!(fs::read_dir(cache).map_or(0, Iterator::count), 1);
    }
}
