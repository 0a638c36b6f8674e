//! A strategy's private directory: named by the host, made by the runner, removed by the host.
//! Removing never follows a link, and goes through what the strategy has locked.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::unlock::unlock;

/// A dying process may still be writing when its directory is being removed.
const ATTEMPTS_MAX: usize = 3;

/// The name of a directory that nobody can have guessed, and the promise to remove it.
#[derive(Debug)]
pub(super) struct PrivateDir(PathBuf);

impl PrivateDir {
    /// `jp-compact-<pid>-<random>`; nothing is made yet.
    pub(super) fn choose(temp_dir: &Path) -> io::Result<Self> {
        // A keyed hash whose key comes from the system: random enough to be unforeseeable, and it
        // needs no crate. That the runner refuses a directory which exists is what keeps it safe.
        let random = RandomState::new().hash_one(std::process::id());
        let name = format!("jp-compact-{}-{random:016x}", std::process::id());
        Ok(Self(std::path::absolute(temp_dir)?.join(name)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            tracing::debug!(dir = %self.0.display(), %error, "failed to remove a private directory");
        }
    }
}

fn remove(dir: &Path) -> io::Result<()> {
    // One call for the most frequent case, in which the strategy made nothing.
    let mut result = std::fs::remove_dir(dir);
    for _ in 0..ATTEMPTS_MAX {
        match &result {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => unlock(dir),
            Err(_) => {}
        }
        result = std::fs::remove_dir_all(dir);
    }
    result
}

/// No call here changes a directory without a chance of following a link.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn unlock(_dir: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn lock(path: &Path) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    }

    #[test]
    fn names_are_never_the_same() {
        let names = [(); 2].map(|()| PrivateDir::choose(Path::new("/nowhere")).unwrap().path().to_owned());
        assert_ne!(names[0], names[1]);
        let start = format!("/nowhere/jp-compact-{}-", std::process::id());
        assert!(names[0].to_str().unwrap().starts_with(&start));
    }

    #[test]
    fn a_locked_tree_is_removed_and_what_it_links_to_stays() {
        let base = tempfile::tempdir().unwrap();
        let outside = base.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o555)).unwrap();
        let dir = PrivateDir::choose(base.path()).unwrap();
        let deep = dir.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "").unwrap();
        symlink(&outside, dir.path().join("a/link")).unwrap();
        for path in [&deep, &dir.path().join("a"), dir.path()] {
            lock(path);
        }

        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            // Root is not held up by modes, so the unlocking is looked at for itself.
            unlock(dir.path());
            assert_eq!([mode(dir.path()), mode(&deep), mode(&outside)], [0o700, 0o700, 0o555]);
            unlock(&dir.path().join("a/link"));
            assert_eq!(mode(&outside), 0o555);
        }
        let path = dir.path().to_owned();
        drop(dir);
        assert!(!path.exists());
        assert_eq!(mode(&outside), 0o555);
    }
}
