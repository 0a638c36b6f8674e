//! Makes the folder of a new conversation: whole or not at all, and on disk before it is reported. Never in place of
//! what is there, and never under an id that another conversation has: JP would take the two for copies of one.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::{
    Place, StoreError,
    error::{unreadable, unwritable},
    place::{BASE_CONFIG, EVENTS},
    replace::check_size,
    temporary::{is_of_the_dead, rename, unique},
    workspace::{Workspace, folder_id},
};
use crate::environment::Environment;
use crate::{private_file, small_file};

/// Begins the name of a folder in the making. JP looks into none that begins with a dot.
const PREFIX: &str = ".jpc-fork-";
/// What JP keeps beside the events of a conversation.
const BESIDE: [&str; 2] = [BASE_CONFIG, "metadata.json"];

/// Where a new conversation can be made.
///
/// # Errors
///
/// Fails where something is there, where JP would not find it, and where its id is taken.
pub fn free(dest: &Path, environment: &Environment) -> Result<PathBuf, StoreError> {
    let path = environment.cwd.join(dest);
    if dest.as_os_str().is_empty() {
        return Err(StoreError::NotFound { path: dest.into() });
    }
    match fs::symlink_metadata(&path) {
        Ok(_) => return Err(StoreError::Exists { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(unwritable("make", path)(error)),
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(StoreError::Exists { path });
    };
    let real = parent.canonicalize().map_err(unwritable("find the folder for", &path))?.join(name);
    for folder in [&path, &real] {
        let Some(workspace) = Workspace::of_conversation(folder, environment) else { continue };
        let Some(id) = folder_id(folder) else { return Err(StoreError::NoId { path: folder.clone() }) };
        for storage in workspace.storages() {
            if let Some(folder) = storage.folders(id)?.into_iter().next() {
                return Err(StoreError::IdTaken { id: id.to_owned(), folder });
            }
        }
    }
    Ok(path)
}

/// Makes the folder `dest` with these events, and a copy of what JP keeps beside those of `source`. What is made
/// has the source's modes, and is ours.
///
/// # Errors
///
/// On any error but [`StoreError::NotDurable`] nothing is there.
pub fn create(dest: &Path, source: &Place, events: &[u8]) -> Result<(), StoreError> {
    let parent = dest.parent().ok_or_else(|| StoreError::Exists { path: dest.to_path_buf() })?;
    check_size(dest, &[events])?;
    remove_orphans(parent);
    let mode = |path: &Path| fs::metadata(path).map(|metadata| metadata.mode() & 0o777);
    let folder = Making::begin(parent, mode(source.folder()).map_err(unreadable("read", source.folder()))?)
        .map_err(unwritable("make a temporary folder for", dest))?;
    let own = mode(source.path()).map_err(unreadable("read", source.path()))?;
    folder.write(EVENTS, own, events).map_err(unwritable("write the events of", dest))?;
    for name in BESIDE {
        let path = source.folder().join(name);
        let copy = small_file::read(&path, small_file::OF_JP).map_err(unreadable("read", &path))?;
        let Some(copy) = copy else { continue };
        let own = mode(&path).map_err(unreadable("read", &path))?;
        folder.write(name, own, &copy).map_err(unwritable("copy what is beside the events to", dest))?;
    }
    folder.put(dest)
}

/// Makes the folder `dest` of a conversation that was none: its events and its base config, for its owner alone.
///
/// # Errors
///
/// On any error but [`StoreError::NotDurable`] nothing is there.
pub fn create_new(dest: &Path, events: &[u8], base_config: &[u8]) -> Result<(), StoreError> {
    let parent = dest.parent().ok_or_else(|| StoreError::Exists { path: dest.to_path_buf() })?;
    check_size(dest, &[events])?;
    remove_orphans(parent);
    let folder = Making::begin(parent, 0o700).map_err(unwritable("make a temporary folder for", dest))?;
    for (name, bytes) in [(EVENTS, events), (BASE_CONFIG, base_config)] {
        folder.write(name, 0o600, bytes).map_err(unwritable("write the events of", dest))?;
    }
    folder.put(dest)
}

/// A folder that is gone when this is dropped, unless it was put in place.
struct Making {
    path: PathBuf,
    placed: bool,
}

impl Making {
    fn begin(parent: &Path, mode: u32) -> io::Result<Self> {
        let path = parent.join(unique(PREFIX));
        fs::DirBuilder::new().mode(mode | 0o700).create(&path)?;
        Ok(Self { path, placed: false })
    }

    fn write(&self, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let path = self.path.join(name);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode | 0o600).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Gives the folder its name, and waits until that is on disk.
    fn put(self, dest: &Path) -> Result<(), StoreError> {
        self.put_at(dest).map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory => {
                StoreError::Exists { path: dest.to_path_buf() }
            }
            _ => unwritable("make", dest)(error),
        })?;
        let parent = dest.parent().unwrap_or(dest);
        let synced = private_file::open_folder(parent).and_then(|parent| parent.sync_all());
        synced.map_err(|source| StoreError::NotDurable { path: dest.to_path_buf(), source })
    }

    fn put_at(mut self, dest: &Path) -> io::Result<()> {
        private_file::open_folder(&self.path)?.sync_all()?;
        // An empty folder that came meanwhile is replaced: nothing is lost by that.
        rename(&self.path, dest)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if !self.placed
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "a temporary folder is left behind");
        }
    }
}

/// Removes what processes that no longer live have left.
fn remove_orphans(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(|name| is_of_the_dead(PREFIX, name))
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::warn!(%error, path = %entry.path().display(), "failed to remove an orphan");
        }
    }
}
