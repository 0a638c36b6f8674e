//! A folder that transcripts have to lie in, for who takes their names from others. Paths are judged by where they
//! lead, symlinks resolved; of what lies elsewhere nothing is said, not even whether it is there.

use std::{
    ffi::OsStr,
    fs, io,
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{Mode, OFlags, openat},
    io::Errno,
};

use super::{Place, StoreError, error::unreadable, place::find};
use crate::environment::Environment;
use crate::{private_file, small_file};

/// A folder, symlinks resolved, outside of which there is no transcript.
#[derive(Debug, Clone)]
pub struct Fence {
    path: PathBuf,
    /// Every file is opened from here: what becomes of a path between a look at it and its use changes nothing.
    folder: Arc<OwnedFd>,
}

impl Fence {
    /// Around this folder.
    ///
    /// # Errors
    ///
    /// Fails where there is no such folder.
    pub fn around(folder: &Path, environment: &Environment) -> Result<Self, StoreError> {
        let path = environment.cwd.join(folder);
        let real = path.canonicalize().map_err(unreadable("find", &path))?;
        if !real.is_dir() {
            return Err(StoreError::NotAFile { path, found: "no folder" });
        }
        let folder = private_file::open_folder(&real).map_err(unreadable("open", &path))?;
        Ok(Self { path: real, folder: Arc::new(folder.into()) })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.path
    }

    /// Whether a path is in it, by its text.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.path)
    }

    /// Opens a folder in it, wherever links in its path lead, but never outside.
    pub(crate) fn open_folder(&self, path: &Path) -> io::Result<OwnedFd> {
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

    /// The transcript that is meant, as [`super::locate`] finds it: by a path from the folder, or by an id in the
    /// folder's workspace. It is opened from the folder, whatever lies at its path by then.
    ///
    /// # Errors
    ///
    /// Fails where there is no such transcript, or where it or the copy of it that JP would load lies outside.
    pub(super) fn admit(&self, transcript: &OsStr, environment: &Environment) -> Result<Place, StoreError> {
        let outside = || StoreError::Outside { transcript: transcript.to_owned(), folder: self.path.clone() };
        // Before anything is looked at: whether something is there is nobody's business either.
        let path = lexical(&self.path.join(transcript));
        if !self.holds(&path) || self.leads_out(&self.path.join(transcript)) {
            return Err(outside());
        }
        let here = Environment { cwd: self.path.clone(), ..environment.clone() };
        let place = find(transcript, &here).map_err(|error| match error {
            // It names places that lie elsewhere.
            StoreError::UnknownId { id, .. } => {
                StoreError::UnknownId { id, workspace: Some(self.path.clone()) }
            }
            StoreError::Ambiguous { ref first, ref second, .. }
                if self.leads_out(first) || self.leads_out(second) =>
            {
                outside()
            }
            error => error,
        })?;
        let file = fs::canonicalize(place.path()).map_err(unreadable("find", place.path()))?;
        if !self.holds(&file) {
            return Err(outside());
        }
        // Of the copies of a conversation, the one that JP loads may be another by the real path.
        let place = find(file.as_os_str(), &here)?;
        if self.holds(place.path()) { Ok(place.fenced(self)) } else { Err(outside()) }
    }

    /// Whether something is there, and elsewhere.
    fn leads_out(&self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|real| !self.holds(&real))
    }
}

/// Reads a small file of a workspace; inside the fence where there is one.
pub(crate) fn read_small(
    path: &Path,
    bytes_max: u64,
    environment: &Environment,
) -> io::Result<Option<Vec<u8>>> {
    let (fence, folder) = (environment.fence.as_ref(), path.parent().unwrap_or(path));
    match fence.filter(|fence| fence.holds(folder)) {
        Some(fence) => small_file::read_at(&|| fence.open_folder(folder), path, bytes_max),
        None => small_file::read(path, bytes_max),
    }
}

/// Opens a folder below another, in one step where the system can do that.
#[cfg(target_os = "linux")]
fn beneath(folder: &OwnedFd, below: &Path) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // It is given up where something above was moved meanwhile; who keeps moving it is not waited for.
    for _ in 0..ATTEMPTS {
        match openat2(folder, below, FOLDER, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            // An older system, or a container that does not know the call.
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

/// Opens a folder below another, each part of its path by itself. None of them may be a link, or lead up.
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

/// How a folder is opened.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(target_os = "linux")]
const ATTEMPTS: usize = 16;

/// A path without `.` and `..`, by its text alone.
fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests move folders away")]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A conversation inside the fence and one outside, and ways to both.
    struct Grounds {
        _temp: TempDir,
        root: PathBuf,
        fence: Fence,
    }

    fn grounds() -> Grounds {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for folder in ["in/.jp/conversations/17738399468-a", "in/plain", "out/secret", "in-too"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("events.json"), "[]").unwrap();
        }
        fs::create_dir(root.join("in/linked")).unwrap();
        symlink(root.join("out/secret"), root.join("in/way-out")).unwrap();
        symlink(root.join("out/secret/events.json"), root.join("in/linked/events.json")).unwrap();
        symlink(root.join("in/plain"), root.join("in/way-in")).unwrap();
        symlink(root.join("in"), root.join("door")).unwrap();
        let fence = Fence::around(Path::new("door"), &Environment::bare(&root)).unwrap();
        Grounds { _temp: temp, root, fence }
    }

    /// `expected` is the file from the fence's folder, nothing for what is outside.
    #[track_caller]
    fn check(grounds: &Grounds, transcript: &str, expected: Option<&str>) {
        let transcript = transcript.replace("ROOT", grounds.root.to_str().unwrap());
        let found = grounds.fence.admit(OsStr::new(&transcript), &Environment::bare(&grounds.root));
        match expected {
            Some(file) => assert_eq!(found.unwrap().path(), grounds.root.join("in").join(file)),
            None => assert!(matches!(found, Err(StoreError::Outside { .. })), "{transcript}: {found:?}"),
        }
    }

    #[test]
    fn what_lies_inside_is_admitted_however_it_is_named() {
        let grounds = grounds();
        for name in ["plain", "./plain/", "plain/events.json", "linked/../plain", "way-in", "ROOT/in/plain"] {
            check(&grounds, name, Some("plain/events.json"));
        }
        for name in ["17738399468", "jp-c17738399468", ".jp/conversations/17738399468-a"] {
            check(&grounds, name, Some(".jp/conversations/17738399468-a/events.json"));
        }
    }

    #[test]
    fn what_lies_outside_is_not_admitted_however_it_is_named() {
        let grounds = grounds();
        for name in [
            "../out/secret",
            "plain/../../out/secret",
            "ROOT/out/secret",
            "ROOT/in/../out/secret",
            "way-out",
            "way-out/events.json",
            "way-out/..",
            "linked",
            "linked/events.json",
            "ROOT/in-too",
            "/",
            "..",
        ] {
            check(&grounds, name, None);
        }
    }

    /// What comes of opening a folder, by either way.
    #[track_caller]
    fn opens(grounds: &Grounds, below: &str, at_once: bool, by_steps: bool) {
        let path = Path::new(below);
        assert_eq!(beneath(&grounds.fence.folder, path).is_ok(), at_once, "{below}");
        assert_eq!(step_by_step(&grounds.fence.folder, path).is_ok(), by_steps, "{below}, by steps");
    }

    #[test]
    fn opens_no_folder_outside() {
        let grounds = grounds();
        symlink("plain", grounds.root.join("in/short")).unwrap();
        symlink("../out/secret", grounds.root.join("in/up")).unwrap();
        opens(&grounds, ".", true, true);
        opens(&grounds, ".jp/conversations/17738399468-a", true, true);
        opens(&grounds, "plain/events.json", false, false);
        opens(&grounds, "short", cfg!(target_os = "linux"), false);
        for out in ["way-out", "up", "..", "plain/../../out", "up/../plain", "nothing"] {
            opens(&grounds, out, false, false);
        }
        let proc = Fence::around(Path::new("/proc"), &Environment::bare("/")).unwrap();
        assert!(proc.open_folder(Path::new("/proc/self/cwd")).is_err(), "a link of the kernel's");
    }

    #[test]
    fn what_is_admitted_is_opened_inside_whatever_lies_at_its_path_by_then() {
        let grounds = grounds();
        let environment = Environment::bare(&grounds.root);
        let place = grounds.fence.admit(OsStr::new("plain"), &environment).unwrap();
        assert!(place.open().is_ok());
        fs::rename(grounds.root.join("in/plain"), grounds.root.join("in/moved")).unwrap();
        symlink(grounds.root.join("out/secret"), grounds.root.join("in/plain")).unwrap();
        assert!(fs::read(place.path()).is_ok(), "the path leads out");
        assert!(place.open().is_err() && place.open_folder().is_err());
        let config = grounds.root.join("in/plain/events.json");
        let fenced = Environment { fence: Some(grounds.fence.clone()), ..environment };
        assert!(read_small(&config, 10, &fenced).is_err());
    }

    #[test]
    fn of_what_lies_outside_nobody_learns_whether_it_is_there() {
        let grounds = grounds();
        check(&grounds, "../out/nothing", None);
        check(&grounds, "ROOT/nothing", None);
    }

    #[test]
    fn an_id_is_no_way_into_a_workspace_further_up() {
        let grounds = grounds();
        let inner = Fence::around(&grounds.root.join("in/plain"), &Environment::bare("/")).unwrap();
        let environment = Environment::bare(&grounds.root);
        let found = inner.admit(OsStr::new("17738399468"), &environment);
        assert!(matches!(found, Err(StoreError::Outside { .. })), "{found:?}");
        assert!(inner.admit(OsStr::new("."), &environment).is_ok());
    }

    #[test]
    fn a_copy_outside_that_jp_would_load_is_outside() {
        let grounds = grounds();
        fs::write(grounds.root.join("in/.jp/.id"), "otvo8\n").unwrap();
        let folder = grounds.root.join("user/workspace/in-otvo8/conversations/17738399468-a");
        fs::create_dir_all(&folder).unwrap();
        let environment = Environment {
            jp_user_data_dir: Some(grounds.root.join("user")),
            ..Environment::bare(&grounds.root)
        };
        let find = || grounds.fence.admit(OsStr::new("17738399468"), &environment);
        assert!(find().is_ok(), "there is no other copy");
        fs::write(folder.join("events.json"), "[]").unwrap();
        assert!(matches!(find(), Err(StoreError::Outside { .. })), "the newer one is loaded");
    }

    #[test]
    fn what_is_not_there_is_said_to_be_not_there() {
        let grounds = grounds();
        let find = |name: &str| grounds.fence.admit(OsStr::new(name), &Environment::bare("/"));
        assert!(matches!(find("nothing"), Err(StoreError::NotFound { .. })));
        assert!(matches!(find(""), Err(StoreError::NotFound { .. })));
        assert!(matches!(find("17700000000"), Err(StoreError::UnknownId { .. })));
        assert!(matches!(find("linked/.."), Err(StoreError::NoEvents { .. })));
        assert!(Fence::around(Path::new("nothing"), &Environment::bare(&grounds.root)).is_err());
        assert!(Fence::around(Path::new("in/plain/events.json"), &Environment::bare(&grounds.root)).is_err());
    }
}
