//! The copies of trusted plugins, stored by digest. Plugins that are not bundled run only from here. A change of the
//! original file after hashing therefore has no effect.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::known::Digests;
use super::tree::PluginTree;
use crate::private_file;

/// The folder of copies.
#[derive(Debug)]
pub(super) struct Store(pub(super) PathBuf);

/// The result of [`Store::copy`].
#[derive(Debug)]
pub(super) enum CopyResult {
    /// The path of the verified copy.
    Verified(PathBuf),
    /// The plugin no longer has the trusted bytes.
    Changed,
}

impl Store {
    /// Returns the copy of a plugin in the folder named after its trusted digest. `plugin_sha256` covers the
    /// plugin alone. Copies `real` again if the copy is missing or damaged. A copy with other bytes is removed.
    pub(super) fn copy(
        &self,
        real: &Path,
        trusted_sha256: &str,
        plugin_sha256: &str,
        digests: &Digests,
    ) -> io::Result<CopyResult> {
        let folder = self.0.join(trusted_sha256);
        let copy = if real.is_dir() {
            folder.clone()
        } else {
            folder.join(real.file_name().ok_or(io::ErrorKind::InvalidInput)?)
        };
        let is_valid = || digests.get(&copy).is_ok_and(|digest| digest == plugin_sha256);
        if is_valid() {
            return Ok(CopyResult::Verified(copy));
        }
        private_file::make_folder(&self.0)?;
        // Two hosts that start for the first time at once must not mistake each other's unfinished copy for damage.
        let store = private_file::open_folder(&self.0)?;
        rustix::fs::flock(&store, FlockOperation::LockExclusive)?;
        if is_valid() {
            return Ok(CopyResult::Verified(copy));
        }
        remove(&copy)?;
        let copied = PluginTree::read(real).and_then(|tree| tree.copy_to(&copy));
        match copied {
            Ok(digest) if digest == plugin_sha256 => Ok(CopyResult::Verified(copy)),
            other => {
                remove(&copy)?;
                other.map(|_| CopyResult::Changed)
            }
        }
    }

    /// Removes the copies with this digest.
    pub(super) fn forget(&self, sha256: &str) -> io::Result<()> {
        remove(&self.0.join(sha256))
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let result = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match result {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn replaces_a_modified_copy() {
        let base = tempfile::tempdir().unwrap();
        let (store, real) = (Store(base.path().join("store")), base.path().join("plugin"));
        let digests = Digests::new(None);
        fs::write(&real, "abc").unwrap();
        let CopyResult::Verified(copy) = store.copy(&real, ABC, ABC, &digests).unwrap() else {
            panic!("the plugin did not change")
        };
        fs::remove_file(&copy).unwrap();
        fs::write(&copy, "evil").unwrap();
        assert!(matches!(store.copy(&real, ABC, ABC, &digests).unwrap(), CopyResult::Verified(_)));
        assert_eq!(fs::read(&copy).unwrap(), b"abc");
    }

    #[test]
    fn never_keeps_bytes_with_another_digest() {
        let base = tempfile::tempdir().unwrap();
        let (store, real) = (Store(base.path().join("store")), base.path().join("plugin"));
        fs::write(&real, "swapped").unwrap();
        assert!(matches!(store.copy(&real, ABC, ABC, &Digests::new(None)).unwrap(), CopyResult::Changed));
        assert_eq!(fs::read_dir(base.path().join("store").join(ABC)).unwrap().count(), 0);
    }

    #[test]
    fn copies_whole_folders_and_removes_additions() {
        let base = tempfile::tempdir().unwrap();
        let (store, real) = (Store(base.path().join("store")), base.path().join("plugin"));
        fs::create_dir_all(real.join("deep")).unwrap();
        fs::write(real.join("deep/file"), "x").unwrap();
        let digests = Digests::new(None);
        let sha256 = digests.get(&real).unwrap();
        let CopyResult::Verified(copy) = store.copy(&real, &sha256, &sha256, &digests).unwrap() else {
            panic!("the plugin did not change")
        };
        fs::write(copy.join("deep/added"), "x").unwrap();
        store.copy(&real, &sha256, &sha256, &digests).unwrap();
        assert!(copy.join("deep/file").is_file() && !copy.join("deep/added").exists());
    }
}
