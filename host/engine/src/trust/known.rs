//! The digests of files that were hashed before, so that a plugin of 5 MB costs a look and no reading. Known
//! means: the same device, inode, size and times as when it was hashed. What cannot be remembered is hashed.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::tree::Tree;
use crate::clock::Clock;
use crate::{digest, private_file, small_file};

/// Digests, and where they are remembered.
#[derive(Debug)]
pub(super) struct Digests {
    /// None: nothing is.
    folder: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Known {
    stamp: String,
    sha256: String,
}

impl Digests {
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// The digest of a file or folder.
    pub(super) fn of(&self, path: &Path) -> io::Result<String> {
        let now = Clock::System.now();
        let tree = Tree::of(path)?;
        let stamp = tree.stamp();
        let memory = self
            .folder
            .as_ref()
            .map(|folder| folder.join(format!("{}.json", digest::of_bytes(path.as_os_str().as_bytes()))));
        if let Some(known) = memory.as_deref().and_then(read)
            && known.stamp == stamp
        {
            return Ok(known.sha256);
        }
        let sha256 = tree.digest()?;
        if let Some(memory) = memory.filter(|_| tree.is_settled(now)) {
            let known = Known { stamp, sha256: sha256.clone() };
            // Not to be remembered costs time, and nothing else.
            let written = serde_json::to_vec(&known)
                .map_err(io::Error::from)
                .and_then(|known| private_file::write(&memory, &known, private_file::PRIVATE));
            if let Err(error) = written {
                tracing::debug!(%error, path = %memory.display(), "a digest is not remembered");
            }
        }
        Ok(sha256)
    }
}

fn read(path: &Path) -> Option<Known> {
    serde_json::from_slice(&small_file::read(path, small_file::RECORD).ok()??).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const OTHER: &str = "what was remembered";

    /// What is said of a file whose memory holds another digest, under this stamp.
    #[track_caller]
    fn check(stamp: impl Fn(&Path) -> String, expect: &str) {
        let base = tempfile::tempdir().unwrap();
        let (file, memory) = (base.path().join("file"), base.path().join("memory"));
        fs::write(&file, "abc").unwrap();
        let known = Known { stamp: stamp(&file), sha256: OTHER.into() };
        let name = format!("{}.json", digest::of_bytes(file.as_os_str().as_bytes()));
        private_file::write(&memory.join(name), &serde_json::to_vec(&known).unwrap(), 0o600).unwrap();
        assert_eq!(Digests::new(Some(memory)).of(&file).unwrap(), expect);
    }

    #[test]
    fn a_file_that_is_as_it_was_is_not_read_again() {
        check(|file| Tree::of(file).unwrap().stamp(), OTHER);
    }

    #[test]
    fn any_other_is() {
        check(|_| String::new(), &digest::of_bytes(b"abc"));
        let changed = |file: &Path| {
            let before = Tree::of(file).unwrap().stamp();
            // The same bytes at the same place, in another file.
            fs::write(file.with_extension("new"), "abc").unwrap();
            #[expect(clippy::disallowed_methods, reason = "a test swaps files")]
            fs::rename(file.with_extension("new"), file).unwrap();
            before
        };
        check(changed, &digest::of_bytes(b"abc"));
    }

    #[test]
    fn what_is_young_is_not_remembered() {
        let base = tempfile::tempdir().unwrap();
        let (file, memory) = (base.path().join("file"), base.path().join("memory"));
        fs::write(&file, "abc").unwrap();
        Digests::new(Some(memory.clone())).of(&file).unwrap();
        assert!(!memory.exists());
        let old = Path::new("/bin/sh").canonicalize().unwrap();
        Digests::new(Some(memory.clone())).of(&old).unwrap();
        assert_eq!(fs::read_dir(memory).map_or(0, Iterator::count), 1);
    }
}
