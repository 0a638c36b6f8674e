//! The host's own copies of what was trusted, by digest. Plugins run from here and from nowhere else: what lies
//! at a plugin's own path when it is started is of no account, only what was hashed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::known::Digests;
use super::tree::Tree;
use crate::private_file;

/// The folder of copies.
#[derive(Debug)]
pub(super) struct Store(pub(super) PathBuf);

/// What came of making a copy.
#[derive(Debug)]
pub(super) enum Kept {
    /// It lies here.
    At(PathBuf),
    /// The plugin has other bytes by now.
    Changed,
}

impl Store {
    /// The copy of a plugin with this digest, under the digest by which it is trusted; made from `real` if it is not
    /// there or is not what it was. A copy of other bytes is thrown away.
    pub(super) fn keep(
        &self,
        real: &Path,
        trusted: &str,
        sha256: &str,
        digests: &Digests,
    ) -> io::Result<Kept> {
        let folder = self.0.join(trusted);
        let copy = if real.is_dir() {
            folder.clone()
        } else {
            folder.join(real.file_name().ok_or(io::ErrorKind::InvalidInput)?)
        };
        let is_good = || digests.of(&copy).is_ok_and(|digest| digest == sha256);
        if is_good() {
            return Ok(Kept::At(copy));
        }
        private_file::make_folder(&self.0)?;
        // Two hosts that start for the first time together do not take each other's work for damage.
        let store = private_file::open_folder(&self.0)?;
        rustix::fs::flock(&store, FlockOperation::LockExclusive)?;
        if is_good() {
            return Ok(Kept::At(copy));
        }
        remove(&copy)?;
        let made = Tree::of(real).and_then(|tree| tree.copy_to(&copy));
        match made {
            Ok(made) if made == sha256 => Ok(Kept::At(copy)),
            other => {
                remove(&copy)?;
                other.map(|_| Kept::Changed)
            }
        }
    }

    /// Removes the copies of a digest.
    pub(super) fn forget(&self, sha256: &str) -> io::Result<()> {
        remove(&self.0.join(sha256))
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(file) if file.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
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
    fn a_copy_that_was_tampered_with_is_made_anew() {
        let base = tempfile::tempdir().unwrap();
        let (store, real) = (Store(base.path().join("store")), base.path().join("plugin"));
        let digests = Digests::new(None);
        fs::write(&real, "abc").unwrap();
        let Kept::At(copy) = store.keep(&real, ABC, ABC, &digests).unwrap() else {
            panic!("it did not change")
        };
        fs::remove_file(&copy).unwrap();
        fs::write(&copy, "evil").unwrap();
        assert!(matches!(store.keep(&real, ABC, ABC, &digests).unwrap(), Kept::At(_)));
        assert_eq!(fs::read(&copy).unwrap(), b"abc");
    }

    #[test]
    fn other_bytes_than_those_that_were_hashed_are_never_kept() {
        let base = tempfile::tempdir().unwrap();
        let (store, real) = (Store(base.path().join("store")), base.path().join("plugin"));
        fs::write(&real, "swapped").unwrap();
        assert!(matches!(store.keep(&real, ABC, ABC, &Digests::new(None)).unwrap(), Kept::Changed));
        assert_eq!(fs::read_dir(base.path().join("store").join(ABC)).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_is_copied_whole_and_what_was_added_to_the_copy_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let (store, real) = (Store(base.path().join("store")), base.path().join("plugin"));
        fs::create_dir_all(real.join("deep")).unwrap();
        fs::write(real.join("deep/file"), "x").unwrap();
        let digests = Digests::new(None);
        let sha256 = digests.of(&real).unwrap();
        let Kept::At(copy) = store.keep(&real, &sha256, &sha256, &digests).unwrap() else {
            panic!("it did not change")
        };
        fs::write(copy.join("deep/added"), "x").unwrap();
        store.keep(&real, &sha256, &sha256, &digests).unwrap();
        assert!(copy.join("deep/file").is_file() && !copy.join("deep/added").exists());
    }
}
