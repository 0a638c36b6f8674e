//! Turns what a person typed into one `events.json`: a path, or an id looked up in both storages of a workspace.
//! Of two copies it picks the one that JP would load. Nothing here reads a transcript or writes anything.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    StoreError,
    error::unreadable,
    lock::LockFile,
    workspace::{Workspace, folder_id, id},
};
use crate::environment::Environment;

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
        Self { path: name.into(), id: None, lock: LockFile::Folder, twins: Vec::new(), real: None }
    }

    /// A file of ours beside a transcript.
    pub(super) fn beside(path: PathBuf) -> Self {
        Self { path, id: None, lock: LockFile::Folder, twins: Vec::new(), real: None }
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
        Some(real) => Workspace::of_conversation(real, environment),
        None => Workspace::of_conversation(&folder.canonicalize().ok()?, environment),
    };
    let workspace = Workspace::of_conversation(folder, environment).or_else(real)?;
    workspace.root()?.parent().map(Path::to_path_buf)
}

fn of_file(path: PathBuf, environment: &Environment) -> Result<Place, StoreError> {
    match path.parent() {
        Some(folder) if path.file_name() == Some(OsStr::new(EVENTS)) => of_folder(folder, environment),
        _ => Ok(Place { path, id: None, lock: LockFile::Folder, twins: Vec::new(), real: None }),
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
    Ok(Place { path, id: Some(id.to_owned()), lock: workspace.lock(id), twins, real: None })
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
