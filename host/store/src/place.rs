//! The search for the transcript of a path, an id, or a title that the user typed. An id is looked up in both storages
//! of the workspace. If there are two copies, the copy that JP would load is chosen. This module never reads a
//! transcript, and never writes.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::SystemTime,
};

use jp_compact_runtime::allowed_root::AllowedRoot;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::private_file;

use super::{
    StoreError, by_name,
    error::unreadable,
    lock_file::LockFile,
    open_file::{Links, open},
    open_folder::OpenFolder,
    record_folder,
    workspace::{Workspace, folder_id, parse_id},
};

/// JP's name for the file of a stream.
pub(super) const EVENTS: &str = "events.json";
pub(super) const BASE_CONFIG: &str = "base_config.json";

/// The path of a transcript, its lock, and the other copies.
#[derive(Debug, Clone)]
pub struct Place {
    path: PathBuf,
    id: Option<String>,
    lock: LockFile,
    twins: Vec<PathBuf>,
    /// The folder without symlinks, if known.
    real: Option<PathBuf>,
    /// If set, transcripts are only opened inside of this folder.
    allowed_root: Option<AllowedRoot>,
}

impl Place {
    /// Returns the path of the transcript.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the digits of the conversation's id, if the folder's name contains one.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns the other copies of the same conversation.
    #[must_use]
    pub fn twins(&self) -> &[PathBuf] {
        &self.twins
    }

    /// Returns a place for a transcript without a file. `name` appears in messages.
    #[must_use]
    pub fn nowhere(name: &str) -> Self {
        Self {
            path: name.into(),
            id: None,
            lock: LockFile::Folder,
            twins: Vec::new(),
            real: None,
            allowed_root: None,
        }
    }

    /// Returns the place of another file of the conversation, such as a sidecar.
    pub(super) fn at_path(&self, path: PathBuf) -> Self {
        let allowed_root = self.allowed_root.clone();
        Self { path, id: None, lock: LockFile::Folder, twins: Vec::new(), real: None, allowed_root }
    }

    /// Restricts the place to an allowed root.
    pub(super) fn allowed_in(self, root: &AllowedRoot) -> Self {
        Self { allowed_root: Some(root.clone()), ..self }
    }

    /// Returns whether the place is in an allowed root. Its path then has no symlinks.
    pub(super) fn has_allowed_root(&self) -> bool {
        self.allowed_root.is_some()
    }

    /// Returns the name of the file.
    pub(super) fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Opens the folder of the file.
    pub(super) fn open_folder(&self) -> io::Result<OpenFolder> {
        Ok(OpenFolder::new(self.open_folder_at(self.folder())?, self.folder()))
    }

    /// Opens a folder that belongs to the transcript. A folder outside of the allowed root comes from the user, not
    /// from a client.
    pub(super) fn open_folder_at(&self, path: &Path) -> io::Result<OwnedFd> {
        match self.allowed_root.as_ref().filter(|root| root.holds(path)) {
            Some(root) => root.open_folder(path),
            None => private_file::open_folder(path).map(OwnedFd::from),
        }
    }

    pub(super) fn folder_to_read(&self) -> Result<OpenFolder, StoreError> {
        match self.allowed_root {
            Some(_) => self.open_folder().map_err(unreadable("open the folder of", &self.path)),
            None => Ok(OpenFolder::by_path(self.folder())),
        }
    }

    /// Opens the transcript for reading.
    pub(super) fn open(&self) -> Result<File, StoreError> {
        let links = if self.has_allowed_root() { Links::Refuse } else { Links::Follow };
        self.folder_to_read()?.file(self.name(), links)
    }

    /// Opens the transcript if it is a folder with one file for each event.
    pub(super) fn record_folder(&self) -> Result<Option<OpenFolder>, StoreError> {
        if !self.path.is_dir() {
            return Ok(None);
        }
        if !self.has_allowed_root() {
            return Ok(Some(OpenFolder::by_path(&self.path)));
        }
        let folder = self.open_folder_at(&self.path).map_err(unreadable("open", &self.path))?;
        Ok(Some(OpenFolder::new(folder, &self.path)))
    }

    /// Opens the folder of another copy.
    pub(super) fn open_folder_of(&self, twin: &Path) -> io::Result<OpenFolder> {
        let folder = twin.parent().unwrap_or(twin);
        Ok(OpenFolder::new(self.open_folder_at(folder)?, folder))
    }

    /// Returns whether another copy may be written, too.
    pub(super) fn may_write(&self, twin: &Path) -> bool {
        self.allowed_root.as_ref().is_none_or(|root| root.holds(twin))
    }

    /// Opens another copy for reading.
    pub(super) fn open_twin(&self, twin: &Path) -> Result<File, StoreError> {
        let (Some(folder), Some(name)) = (twin.parent(), twin.file_name()) else {
            return open(twin, Links::Follow);
        };
        match &self.allowed_root {
            Some(root) if root.holds(folder) => {
                let descriptor = root.open_folder(folder).map_err(unreadable("open the folder of", twin))?;
                OpenFolder::new(descriptor, folder).file(name, Links::Refuse)
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

/// Finds a transcript without an allowed root.
pub(super) fn find(transcript: &OsStr, environment: &Environment) -> Result<Place, StoreError> {
    let path = environment.cwd.join(transcript);
    match fs::metadata(&path) {
        // An empty argument is a mistake in a script. Without this line it would be the current folder.
        _ if transcript.is_empty() => Err(StoreError::NotFound { path: transcript.into() }),
        Ok(metadata) if metadata.is_dir() => place_of_folder(&path, environment),
        Ok(_) => place_of_file(path, environment),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match transcript.to_str().and_then(parse_id)
        {
            Some(id) => match place_of_id(id, environment) {
                Err(StoreError::UnknownId { id, workspace }) => match named(transcript, environment)? {
                    Some(named) => place_of_id(&named, environment),
                    None => Err(StoreError::UnknownId { id, workspace }),
                },
                result => result,
            },
            None => match named(transcript, environment)? {
                Some(named) => place_of_id(&named, environment),
                None => Err(StoreError::NotFound { path }),
            },
        },
        Err(error) => Err(unreadable("find", path)(error)),
    }
}

/// Returns the id of the conversation in the current workspace that has this title, or whose id begins with this text.
fn named(name: &OsStr, environment: &Environment) -> Result<Option<String>, StoreError> {
    // A client of a server must not learn the titles outside of its folder.
    let Some(name) = name.to_str().filter(|_| environment.allowed_root.is_none()) else { return Ok(None) };
    by_name::find(name, conversations(environment)?)
}

/// Returns the workspace of a transcript, by its path: the folder that contains `.jp`.
#[must_use]
pub fn workspace_root(place: &Place, environment: &Environment) -> Option<PathBuf> {
    let folder = place.folder();
    let real = || match &place.real {
        // All symlinks were resolved when the path was admitted.
        _ if place.has_allowed_root() => None,
        Some(real) => Workspace::of_conversation(real, environment),
        None => Workspace::of_conversation(&folder.canonicalize().ok()?, environment),
    };
    let workspace = Workspace::of_conversation(folder, environment).or_else(real)?;
    workspace.root()?.parent().map(Path::to_path_buf)
}

/// Returns the id and the folder of each conversation in the current workspace that is not archived. If there are
/// several copies, the folder of the copy that JP would load is returned.
///
/// # Errors
///
/// A folder of conversations cannot be listed.
pub fn conversations(environment: &Environment) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let Some(workspace) = Workspace::of_current_folder(environment) else { return Ok(Vec::new()) };
    let mut newest: BTreeMap<String, Copy> = BTreeMap::new();
    for storage in workspace.storages() {
        for (id, folder) in storage.all_folders()? {
            let Some(last_written) = last_written(&folder)? else { continue };
            if newest.get(&id).is_none_or(|copy| copy.last_written < last_written) {
                newest.insert(id, Copy { folder, last_written });
            }
        }
    }
    Ok(newest.into_iter().map(|(id, copy)| (id, copy.folder)).collect())
}

fn place_of_file(path: PathBuf, environment: &Environment) -> Result<Place, StoreError> {
    match path.parent() {
        Some(folder) if path.file_name() == Some(OsStr::new(EVENTS)) => place_of_folder(folder, environment),
        _ => {
            let lock = LockFile::Folder;
            Ok(Place { path, id: None, lock, twins: Vec::new(), real: None, allowed_root: None })
        }
    }
}

fn place_of_folder(folder: &Path, environment: &Environment) -> Result<Place, StoreError> {
    if !has_events(folder)? {
        return match record_folder::find(folder) {
            Some(path) => Ok(Place { path, ..Place::nowhere("") }),
            None => Err(StoreError::NoEvents { folder: folder.to_path_buf() }),
        };
    }
    // The given path comes first, because `.jp` itself may be a link. The real path follows, because the folder may be
    // a link.
    let real = folder.canonicalize().map_err(unreadable("find", folder))?;
    for folder in [folder, &real] {
        let Some(id) = folder_id(folder) else { continue };
        if let Some(workspace) = Workspace::of_conversation(folder, environment) {
            return choose_copy(id, Some(&real), &workspace);
        }
    }
    Ok(Place {
        path: folder.join(EVENTS),
        id: folder_id(&real).map(str::to_owned),
        lock: LockFile::Folder,
        twins: Vec::new(),
        real: Some(real),
        allowed_root: None,
    })
}

fn place_of_id(id: &str, environment: &Environment) -> Result<Place, StoreError> {
    match Workspace::of_current_folder(environment) {
        Some(workspace) => choose_copy(id, None, &workspace),
        None => Err(StoreError::UnknownId { id: id.to_owned(), workspace: None }),
    }
}

/// One copy of a conversation.
struct Copy {
    folder: PathBuf,
    last_written: SystemTime,
}

/// Chooses the copy that JP would load. If the id alone is ambiguous, chooses the folder that the user gave. The other
/// copies are its twins.
fn choose_copy(id: &str, given_folder: Option<&Path>, workspace: &Workspace) -> Result<Place, StoreError> {
    let mut copies: Vec<Copy> = Vec::new();
    let mut without_events = None;
    let mut is_ambiguous = false;
    for storage in workspace.storages() {
        let storage_start = copies.len();
        for folder in storage.folders(id)? {
            match last_written(&folder)? {
                Some(last_written) => copies.push(Copy { folder, last_written }),
                None => without_events = Some(folder),
            }
        }
        if let [first, second, ..] = &copies[storage_start..] {
            is_ambiguous = true;
            if given_folder.is_none() {
                let (first, second) = (first.folder.clone(), second.folder.clone());
                return Err(StoreError::Ambiguous { id: id.to_owned(), first, second });
            }
        }
    }
    let index = match given_folder {
        Some(given_folder) if is_ambiguous => {
            copies.iter().position(|copy| copy.folder.canonicalize().is_ok_and(|real| real == given_folder))
        }
        _ => newest(&copies),
    };
    let Some(index) = index else {
        return Err(match without_events {
            Some(folder) => StoreError::NoEvents { folder },
            None => StoreError::UnknownId {
                id: id.to_owned(),
                workspace: workspace.root().map(Path::to_path_buf),
            },
        });
    };
    let path = copies.swap_remove(index).folder.join(EVENTS);
    let twins = copies.into_iter().map(|copy| copy.folder.join(EVENTS)).collect();
    Ok(Place {
        path,
        id: Some(id.to_owned()),
        lock: workspace.lock(id),
        twins,
        real: None,
        allowed_root: None,
    })
}

/// Returns the newest copy. The user's storage comes first and wins a tie.
fn newest(copies: &[Copy]) -> Option<usize> {
    (0..copies.len())
        .reduce(|best, next| if copies[next].last_written > copies[best].last_written { next } else { best })
}

/// Returns the time of the last write by JP's rule, or `None` if there are no events.
pub(super) fn last_written(folder: &Path) -> Result<Option<SystemTime>, StoreError> {
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
