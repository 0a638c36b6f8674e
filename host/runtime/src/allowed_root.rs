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

    /// Opens a folder below this one. On Linux, relative links are followed unless they lead out. Absolute links are
    /// rejected, even if their target is below this folder. Without `openat2`, every link is rejected.
    pub fn open_folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let relative = path.strip_prefix(&self.path).map_err(|_| io::ErrorKind::InvalidInput)?;
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        open_relative(&self.folder, relative).map_err(|error| match error {
            Errno::XDEV | Errno::LOOP => {
                let message = format!("a link is absolute or leads out of {}", self.path.display());
                io::Error::new(io::ErrorKind::PermissionDenied, message)
            }
            error => error.into(),
        })
    }
}

/// Opens a folder below another in one system call if possible.
#[cfg(target_os = "linux")]
fn open_relative(folder: &OwnedFd, relative: &Path) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // The call fails with `EAGAIN` if a folder on the path was moved in the meantime. Retries are limited.
    for _ in 0..ATTEMPTS {
        match openat2(folder, relative, FOLDER, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            // The kernel is older, or the container does not allow the call.
            Err(Errno::NOSYS | Errno::PERM) => return open_by_component(folder, relative),
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

#[cfg(not(target_os = "linux"))]
fn open_relative(folder: &OwnedFd, relative: &Path) -> rustix::io::Result<OwnedFd> {
    open_by_component(folder, relative)
}

/// Opens one path component at a time. None of them may be a link or `..`.
fn open_by_component(folder: &OwnedFd, relative: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = FOLDER | OFlags::NOFOLLOW;
    let mut current = openat(folder, ".", flags, Mode::empty())?;
    for component in relative.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => current = openat(&current, name, flags, Mode::empty())?,
            _ => return Err(Errno::XDEV),
        }
    }
    Ok(current)
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
    fn check(root: &AllowedRoot, name: &str, expect_direct: bool, expect_by_component: bool) {
        let path = Path::new(name);
        assert_eq!(open_relative(&root.folder, path).is_ok(), expect_direct, "{name}");
        assert_eq!(
            open_by_component(&root.folder, path).is_ok(),
            expect_by_component,
            "{name}, by component"
        );
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
        for outside in ["way-out", "up", "..", "plain/../../out", "up/../plain", "nothing"] {
            check(&root, outside, false, false);
        }
        let proc = AllowedRoot::open(Path::new("/proc")).unwrap();
        assert!(proc.open_folder(Path::new("/proc/self/cwd")).is_err(), "a link of the kernel");
    }
}
