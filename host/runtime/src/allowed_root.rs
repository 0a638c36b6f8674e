//! A folder that restricts file access. It exists because a host may receive file names from others (an MCP
//! client). Every folder is opened relative to one open descriptor, so replacing a path in the meantime has
//! no effect. This module must never follow a link out of the folder.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::private_file;

/// The folder and its open descriptor.
#[derive(Debug, Clone)]
pub struct AllowedRoot {
    path: PathBuf,
    folder: Arc<OwnedFd>,
}

impl AllowedRoot {
    /// Opens a folder by its real path.
    pub fn open(real: &Path) -> io::Result<Self> {
        let folder = private_file::open_folder(real)?;
        Ok(Self { path: real.to_owned(), folder: Arc::new(folder.into()) })
    }

    /// Returns the real path of the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.path
    }

    /// Returns whether a path is lexically below the folder.
    pub fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.path)
    }

    /// Opens a folder below this one. Links are followed unless they lead out.
    pub fn open_folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let below = path.strip_prefix(&self.path).map_err(|_| io::ErrorKind::InvalidInput)?;
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        beneath(&self.folder, below).map_err(|error| match error {
            Errno::XDEV | Errno::LOOP => {
                let what = format!("a link leads out of {}", self.path.display());
                io::Error::new(io::ErrorKind::PermissionDenied, what)
            }
            error => error.into(),
        })
    }
}

/// Opens a folder below another in one system call if possible.
#[cfg(target_os = "linux")]
fn beneath(folder: &OwnedFd, below: &Path) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // The call fails with `EAGAIN` if a folder on the path was moved in the meantime. Retries are limited.
    for _ in 0..ATTEMPTS {
        match openat2(folder, below, FOLDER, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            // An older kernel, or a container that does not allow the call.
            Err(Errno::NOSYS | Errno::PERM) => return step_by_step(folder, below),
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

#[cfg(not(target_os = "linux"))]
fn beneath(folder: &OwnedFd, below: &Path) -> rustix::io::Result<OwnedFd> {
    step_by_step(folder, below)
}

/// Opens one path component at a time. None of them may be a link or `..`.
fn step_by_step(folder: &OwnedFd, below: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = FOLDER | OFlags::NOFOLLOW;
    let mut at = openat(folder, ".", flags, Mode::empty())?;
    for component in below.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => at = openat(&at, name, flags, Mode::empty())?,
            _ => return Err(Errno::XDEV),
        }
    }
    Ok(at)
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(target_os = "linux")]
const ATTEMPTS: usize = 16;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[track_caller]
    fn check(root: &AllowedRoot, below: &str, at_once: bool, by_steps: bool) {
        let path = Path::new(below);
        assert_eq!(beneath(&root.folder, path).is_ok(), at_once, "{below}");
        assert_eq!(step_by_step(&root.folder, path).is_ok(), by_steps, "{below}, by steps");
    }

    #[test]
    fn rejects_folders_outside_the_root() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        for folder in ["in/deep/er", "in/plain", "out/secret"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        fs::write(base.join("in/plain/events.json"), "[]").unwrap();
        symlink(base.join("out/secret"), base.join("in/way-out")).unwrap();
        symlink("plain", base.join("in/short")).unwrap();
        symlink("../out/secret", base.join("in/up")).unwrap();
        let root = AllowedRoot::open(&base.join("in")).unwrap();
        check(&root, ".", true, true);
        check(&root, "deep/er", true, true);
        check(&root, "plain/events.json", false, false);
        check(&root, "short", cfg!(target_os = "linux"), false);
        for out in ["way-out", "up", "..", "plain/../../out", "up/../plain", "nothing"] {
            check(&root, out, false, false);
        }
        let proc = AllowedRoot::open(Path::new("/proc")).unwrap();
        assert!(proc.open_folder(Path::new("/proc/self/cwd")).is_err(), "a link of the kernel");
    }
}
