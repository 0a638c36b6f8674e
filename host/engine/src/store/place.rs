//! Turns what a person typed into one `events.json`: a path, or an id looked up in both storages of a workspace.
//! Of two copies it picks the one that JP would load. Nothing here reads a transcript or writes anything.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    Fence, StoreError,
    error::unreadable,
    lock::LockFile,
    open_folder::OpenFolder,
    snapshot::{Links, open},
    workspace::{Workspace, folder_id, id},
};
use crate::environment::Environment;
use crate::private_file;

/// JP's name for the file that holds a stream.
pub(super) const EVENTS: &str = "events.json";
pub(super) const BASE_CONFIG: &str = "base_config.json";

/// Where a transcript is, and what has to be minded when it is written to.
#[derive(Debug, Clone)]
pub struct Place {
    path: PathBuf,
    id: Option<String>,
    lock: LockFile,
    twins: Vec<PathBuf>,
    /// Its folder with every link followed, where that is known.
    real: Option<PathBuf>,
    /// The folder that nothing is opened outside of.
    fence: Option<Fence>,
}

impl Place {
    /// The file that holds the transcript.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The conversation's id, digits only, where its folder is named by one.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Other copies of the same conversation.
    #[must_use]
    pub fn twins(&self) -> &[PathBuf] {
        &self.twins
    }

    /// A transcript that lies nowhere, by what it is called.
    #[must_use]
    pub fn nowhere(name: &str) -> Self {
        Self {
            path: name.into(),
            id: None,
            lock: LockFile::Folder,
            twins: Vec::new(),
            real: None,
            fence: None,
        }
    }

    /// A file of ours beside a transcript.
    pub(super) fn beside(&self, path: PathBuf) -> Self {
        let fence = self.fence.clone();
        Self { path, id: None, lock: LockFile::Folder, twins: Vec::new(), real: None, fence }
    }

    /// The same, inside a fence.
    pub(super) fn fenced(self, fence: &Fence) -> Self {
        Self { fence: Some(fence.clone()), ..self }
    }

    /// Whether it is inside a fence, where every link was followed before.
    pub(super) fn is_fenced(&self) -> bool {
        self.fence.is_some()
    }

    /// Its file's name.
    pub(super) fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Opens its folder.
    pub(super) fn open_folder(&self) -> io::Result<OpenFolder> {
        Ok(OpenFolder::new(self.open_folder_at(self.folder())?, self.folder()))
    }

    /// Opens a folder that has to do with it. One that is not in the fence is the user's own, by no word of others.
    pub(super) fn open_folder_at(&self, path: &Path) -> io::Result<OwnedFd> {
        match self.fence.as_ref().filter(|fence| fence.holds(path)) {
            Some(fence) => fence.open_folder(path),
            None => private_file::open_folder(path).map(OwnedFd::from),
        }
    }

    /// Its folder for who only reads.
    pub(super) fn folder_to_read(&self) -> Result<OpenFolder, StoreError> {
        match self.fence {
            Some(_) => self.open_folder().map_err(unreadable("open the folder of", &self.path)),
            None => Ok(OpenFolder::by_path(self.folder())),
        }
    }

    /// Opens it for reading.
    pub(super) fn open(&self) -> Result<File, StoreError> {
        let links = if self.is_fenced() { Links::Refuse } else { Links::Follow };
        self.folder_to_read()?.file(self.name(), links)
    }

    /// Opens the folder of another copy of it.
    pub(super) fn open_folder_of(&self, twin: &Path) -> io::Result<OpenFolder> {
        let folder = twin.parent().unwrap_or(twin);
        Ok(OpenFolder::new(self.open_folder_at(folder)?, folder))
    }

    /// Whether another copy may be written together with it.
    pub(super) fn may_write(&self, twin: &Path) -> bool {
        self.fence.as_ref().is_none_or(|fence| fence.holds(twin))
    }

    /// Opens another copy of it for reading.
    pub(super) fn open_twin(&self, twin: &Path) -> Result<File, StoreError> {
        let (Some(folder), Some(name)) = (twin.parent(), twin.file_name()) else {
            return open(twin, Links::Follow);
        };
        match &self.fence {
            Some(fence) if fence.holds(folder) => {
                let opened = fence.open_folder(folder).map_err(unreadable("open the folder of", twin))?;
                OpenFolder::new(opened, folder).file(name, Links::Refuse)
            }
            _ => open(twin, Links::Follow),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        self.path.parent().expect("the path is absolute and names a file")
    }

    pub(super) fn lock(&self) -> &LockFile {
        &self.lock
    }
}

/// Finds the transcript that `transcript` names: a conversation's folder, a file, or an id.
///
/// What exists as a path is a path; only then is it taken for an id.
///
/// # Errors
///
/// Fails where there is no such transcript, or more than one.
pub fn locate(transcript: &OsStr, environment: &Environment) -> Result<Place, StoreError> {
    match &environment.fence {
        Some(fence) => fence.admit(transcript, environment),
        None => find(transcript, environment),
    }
}

/// Finds it wherever it is.
pub(super) fn find(transcript: &OsStr, environment: &Environment) -> Result<Place, StoreError> {
    let path = environment.cwd.join(transcript);
    match fs::metadata(&path) {
        // An empty argument would otherwise be the current folder, and is a mistake in a script.
        _ if transcript.is_empty() => Err(StoreError::NotFound { path: transcript.into() }),
        Ok(metadata) if metadata.is_dir() => of_folder(&path, environment),
        Ok(_) => of_file(path, environment),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match transcript.to_str().and_then(id) {
            Some(id) => of_id(id, environment),
            None => Err(StoreError::NotFound { path }),
        },
        Err(error) => Err(unreadable("find", path)(error)),
    }
}

/// The folder of the workspace that a transcript is in, by where it stands: that which holds the `.jp`.
#[must_use]
pub fn workspace_root(place: &Place, environment: &Environment) -> Option<PathBuf> {
    let folder = place.folder();
    let real = || match &place.real {
        // Every link was followed when it was admitted.
        _ if place.is_fenced() => None,
        Some(real) => Workspace::of_conversation(real, environment),
        None => Workspace::of_conversation(&folder.canonicalize().ok()?, environment),
    };
    let workspace = Workspace::of_conversation(folder, environment).or_else(real)?;
    workspace.root()?.parent().map(Path::to_path_buf)
}

fn of_file(path: PathBuf, environment: &Environment) -> Result<Place, StoreError> {
    match path.parent() {
        Some(folder) if path.file_name() == Some(OsStr::new(EVENTS)) => of_folder(folder, environment),
        _ => {
            let lock = LockFile::Folder;
            Ok(Place { path, id: None, lock, twins: Vec::new(), real: None, fence: None })
        }
    }
}

fn of_folder(folder: &Path, environment: &Environment) -> Result<Place, StoreError> {
    if !has_events(folder)? {
        return Err(StoreError::NoEvents { folder: folder.to_path_buf() });
    }
    // First by the path as given, for `.jp` itself may be a link; then by the real one, for the folder may be.
    let real = folder.canonicalize().map_err(unreadable("find", folder))?;
    for folder in [folder, &real] {
        let Some(id) = folder_id(folder) else { continue };
        if let Some(workspace) = Workspace::of_conversation(folder, environment) {
            return settle(id, Some(&real), &workspace);
        }
    }
    Ok(Place {
        path: folder.join(EVENTS),
        id: folder_id(&real).map(str::to_owned),
        lock: LockFile::Folder,
        twins: Vec::new(),
        real: Some(real),
        fence: None,
    })
}

fn of_id(id: &str, environment: &Environment) -> Result<Place, StoreError> {
    match Workspace::around(environment) {
        Some(workspace) => settle(id, None, &workspace),
        None => Err(StoreError::UnknownId { id: id.to_owned(), workspace: None }),
    }
}

/// One copy of a conversation.
struct Copy {
    folder: PathBuf,
    written: SystemTime,
}

/// Picks the copy that JP would load. A folder that was named by its real path stands for itself where the id
/// alone would be ambiguous; the others are its twins.
fn settle(id: &str, named: Option<&Path>, workspace: &Workspace) -> Result<Place, StoreError> {
    let mut copies: Vec<Copy> = Vec::new();
    let mut empty = None;
    let mut doubled = false;
    for storage in workspace.storages() {
        let before = copies.len();
        for folder in storage.folders(id)? {
            match written(&folder)? {
                Some(written) => copies.push(Copy { folder, written }),
                None => empty = Some(folder),
            }
        }
        if let [first, second, ..] = &copies[before..] {
            doubled = true;
            if named.is_none() {
                let (first, second) = (first.folder.clone(), second.folder.clone());
                return Err(StoreError::Ambiguous { id: id.to_owned(), first, second });
            }
        }
    }
    let chosen = match named {
        Some(named) if doubled => {
            copies.iter().position(|copy| copy.folder.canonicalize().is_ok_and(|f| f == named))
        }
        _ => newest(&copies),
    };
    let Some(chosen) = chosen else {
        return Err(match empty {
            Some(folder) => StoreError::NoEvents { folder },
            None => StoreError::UnknownId {
                id: id.to_owned(),
                workspace: workspace.root().map(Path::to_path_buf),
            },
        });
    };
    let path = copies.swap_remove(chosen).folder.join(EVENTS);
    let twins = copies.into_iter().map(|copy| copy.folder.join(EVENTS)).collect();
    Ok(Place { path, id: Some(id.to_owned()), lock: workspace.lock(id), twins, real: None, fence: None })
}

/// The newest copy, the first of equals: the user's storage is looked through first, and wins a tie.
fn newest(copies: &[Copy]) -> Option<usize> {
    (0..copies.len())
        .reduce(|best, next| if copies[next].written > copies[best].written { next } else { best })
}

/// When a copy was last written, as JP tells it; `None` where there are no events.
pub(super) fn written(folder: &Path) -> Result<Option<SystemTime>, StoreError> {
    if !has_events(folder)? {
        return Ok(None);
    }
    let mut newest = SystemTime::UNIX_EPOCH;
    for name in [EVENTS, BASE_CONFIG] {
        let path = folder.join(name);
        match fs::metadata(&path).and_then(|metadata| metadata.modified()) {
            Ok(modified) => newest = newest.max(modified),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable("find", path)(error)),
        }
    }
    Ok(Some(newest))
}

fn has_events(folder: &Path) -> Result<bool, StoreError> {
    let path = folder.join(EVENTS);
    match fs::symlink_metadata(&path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(unreadable("find", path)(error)),
    }
}
