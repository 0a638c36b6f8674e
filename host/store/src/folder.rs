//! The creation of a new conversation's folder, completely or not at all. The folder is on disk before success is
//! reported. This module never replaces an existing path except an empty folder, and never reuses the id of another
//! conversation, because JP would treat the two as copies of one conversation.

use std::{
    fs::{self, File, Metadata, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::private_file::is_orphan;
use jp_compact_runtime::{private_file, small_file};
use rustix::fs::{Access, OFlags, access};

use super::{
    Place, StoreError,
    error::{unreadable, unwritable},
    place::{BASE_CONFIG, EVENTS},
    rename::rename,
    replace::check_size,
    sidecar_file::{SETTINGS_AROUND, settings_paths, with_affixes},
    temporary::unique_name,
    workspace::{Workspace, folder_id, is_jp_id},
};
use jp_compact_transcripts::import::{Imported, metadata_of_copy};

/// The prefix of an unfinished folder. JP ignores folders that begin with a dot.
const PREFIX: &str = ".jpc-fork-";
/// The maximum number of folders to create until one is locked.
const ATTEMPTS_MAX: usize = 100;
/// JP's file for the title and other data of a conversation. Without it, JP moves the conversation to its trash.
const METADATA: &str = "metadata.json";

/// Checks that a new conversation can be created at `dest`. Returns the absolute path.
///
/// # Errors
///
/// The path exists, JP would not find the conversation, or its id is taken.
pub fn check_destination(dest: &Path, environment: &Environment) -> Result<PathBuf, StoreError> {
    let path = environment.cwd.join(dest);
    if dest.as_os_str().is_empty() {
        return Err(StoreError::NotFound { path: dest.into() });
    }
    match fs::symlink_metadata(&path) {
        Ok(_) => return Err(StoreError::Exists { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(unwritable("create", path)(error)),
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(StoreError::Exists { path });
    };
    let real_path = parent.canonicalize().map_err(unwritable("find the folder for", &path))?.join(name);
    access(parent, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| unwritable("create a temporary folder for", &path)(error.into()))?;
    for folder in [&path, &real_path] {
        let Some(workspace) = Workspace::of_conversation(folder, environment) else { continue };
        let id = folder_id(folder).filter(|id| is_jp_id(id));
        let Some(id) = id else { return Err(StoreError::NoId { path: folder.clone() }) };
        for storage in workspace.storages() {
            if let Some(folder) = storage.folders_with_id(id)?.into_iter().next() {
                return Err(StoreError::IdTaken { id: id.to_owned(), folder });
            }
        }
    }
    Ok(path)
}

/// Creates the folder `dest` with these events, and copies the other known files (configuration, metadata, settings)
/// from `source`. If `dest` is among JP's conversations, the files that the source lacks are taken from `missing`. All
/// files have the modes of the source, limited by the umask, and belong to the user.
///
/// # Errors
///
/// On any error except [`StoreError::NotDurable`], `dest` was not created.
pub fn create(
    dest: &Path,
    source: &Place,
    events: &[u8],
    missing: &JpFiles,
    environment: &Environment,
) -> Result<(), StoreError> {
    let parent = dest.parent().ok_or_else(|| StoreError::Exists { path: dest.to_path_buf() })?;
    check_size(dest, &[events])?;
    remove_orphans(parent);
    let mode = |path: &Path| fs::metadata(path).map(|metadata| metadata.mode() & 0o777);
    let folder =
        UnfinishedFolder::begin(parent, mode(source.folder()).map_err(unreadable("read", source.folder()))?)
            .map_err(unwritable("create a temporary folder for", dest))?;
    let events_mode = mode(source.path()).map_err(unreadable("read", source.path()))?;
    folder.write(EVENTS, events_mode, events).map_err(unwritable("write the events of", dest))?;
    let is_in_workspace = Workspace::of_conversation(dest, environment).is_some();
    for (name, default) in [(BASE_CONFIG, &missing.base_config), (METADATA, &missing.metadata)] {
        let path = source.folder().join(name);
        let copy = small_file::read(&path, small_file::JP_FILE).map_err(unreadable("read", &path))?;
        let (file_mode, bytes) = match (copy, default) {
            (Some(copy), _) => {
                let bytes = if name == METADATA { metadata_of_copy(&copy) } else { copy.to_vec() };
                (mode(&path).map_err(unreadable("read", &path))?, bytes)
            }
            (None, Some(default)) if is_in_workspace => (events_mode, default.clone()),
            (None, _) => continue,
        };
        folder
            .write(name, file_mode, &bytes)
            .map_err(unwritable("copy the configuration and the metadata to", dest))?;
    }
    copy_settings(source, &folder).map_err(unwritable("copy the settings of the source to", dest))?;
    folder.publish(dest)
}

/// Copies the settings of a conversation.
fn copy_settings(source: &Place, folder: &UnfinishedFolder) -> io::Result<()> {
    for path in settings_paths(source) {
        let Some(bytes) = small_file::read(&path, small_file::CONFIGURATION)? else { continue };
        let name = with_affixes(Path::new(EVENTS), SETTINGS_AROUND);
        return folder.write(&name, fs::metadata(&path)?.mode() & 0o777, &bytes);
    }
    Ok(())
}

/// The files that JP needs, for a copy whose source lacks them.
#[derive(Debug)]
pub struct JpFiles {
    /// `base_config.json`. `None` if the events contain it.
    pub base_config: Option<Vec<u8>>,
    /// `metadata.json`.
    pub metadata: Option<Vec<u8>>,
}

/// Creates the folder `dest` of a new conversation with every file that JP needs. Only the owner can read them.
///
/// # Errors
///
/// On any error except [`StoreError::NotDurable`], `dest` was not created.
pub fn create_new(dest: &Path, new: &Imported) -> Result<(), StoreError> {
    let parent = dest.parent().ok_or_else(|| StoreError::Exists { path: dest.to_path_buf() })?;
    check_size(dest, &[&new.events])?;
    remove_orphans(parent);
    let folder =
        UnfinishedFolder::begin(parent, 0o700).map_err(unwritable("create a temporary folder for", dest))?;
    let files = [(EVENTS, &new.events), (BASE_CONFIG, &new.base_config), (METADATA, &new.metadata)];
    for (name, bytes) in files {
        folder.write(name, 0o600, bytes).map_err(unwritable("write a file of", dest))?;
    }
    folder.publish(dest)
}

/// An unfinished folder. Dropping it removes the folder, unless it was renamed into place.
struct UnfinishedFolder {
    path: PathBuf,
    /// Locked. The lock shows that the folder is in use, even to processes that cannot see this process.
    handle: File,
    is_placed: bool,
}

impl UnfinishedFolder {
    fn begin(parent: &Path, mode: u32) -> io::Result<Self> {
        for _ in 0..ATTEMPTS_MAX {
            let path = parent.join(unique_name(PREFIX));
            fs::DirBuilder::new().mode(mode | 0o700).create(&path)?;
            match lock_new(&path) {
                Ok(Some(handle)) => return Ok(Self { path, handle, is_placed: false }),
                Ok(None) => {}
                Err(error) => {
                    let removed = fs::remove_dir(&path);
                    tracing::debug!(?removed, path = %path.display(), "failed to lock a temporary folder");
                    return Err(error);
                }
            }
        }
        Err(io::Error::other("other processes removed every new folder"))
    }

    fn write(&self, name: impl AsRef<Path>, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let path = self.path.join(name);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode | 0o600).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Renames the folder into place, and waits until the rename is on disk.
    fn publish(self, dest: &Path) -> Result<(), StoreError> {
        self.rename_to(dest).map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory => {
                StoreError::Exists { path: dest.to_path_buf() }
            }
            _ => unwritable("create", dest)(error),
        })?;
        let parent = dest.parent().unwrap_or(dest);
        let synced = private_file::open_folder(parent).and_then(|parent| parent.sync_all());
        synced.map_err(|source| StoreError::NotDurable { path: dest.to_path_buf(), source })
    }

    fn rename_to(mut self, dest: &Path) -> io::Result<()> {
        self.handle.sync_all()?;
        // This replaces an empty folder that was created in the meantime. Nothing is lost.
        rename(&self.path, dest)?;
        self.is_placed = true;
        Ok(())
    }
}

impl Drop for UnfinishedFolder {
    fn drop(&mut self) {
        if !self.is_placed
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "failed to remove a temporary folder");
        }
    }
}

/// Opens an unfinished folder. Does not follow a link.
fn open_unfinished(path: &Path) -> io::Result<File> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Locks a new folder. Returns `None` if a process in another container has removed it or is removing it.
fn lock_new(path: &Path) -> io::Result<Option<File>> {
    let handle = match open_unfinished(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        handle => handle?,
    };
    match handle.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        // The file system may not have locks.
        locked => tracing::debug!(?locked, path = %path.display(), "locked a temporary folder"),
    }
    let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let is_current = fs::symlink_metadata(path)
        .is_ok_and(|current| handle.metadata().is_ok_and(|own| id(own) == id(current)));
    Ok(is_current.then_some(handle))
}

/// Removes the unfinished folders of dead processes.
fn remove_orphans(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(|name| is_orphan(PREFIX, name)) {
            continue;
        }
        let path = entry.path();
        // A process in another container may be alive and not visible here.
        let result = open_unfinished(&path).and_then(|folder| match folder.try_lock() {
            Ok(()) => fs::remove_dir_all(&path),
            Err(_) => Ok(()),
        });
        if let Err(error) = result {
            tracing::warn!(%error, path = %path.display(), "failed to remove an orphaned temporary folder");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_folders_of_dead_processes() {
        let base = tempfile::tempdir().unwrap();
        let _ours = UnfinishedFolder::begin(base.path(), 0o700).unwrap();
        // No process has this id. The second folder belongs to a process in another container.
        let [orphan, foreign] =
            ["a", "b"].map(|random| base.path().join(format!("{PREFIX}{}-{random}", i32::MAX)));
        for folder in [&orphan, &foreign] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(EVENTS), "[]").unwrap();
        }
        let locked = open_unfinished(&foreign).unwrap();
        locked.lock().unwrap();
        remove_orphans(base.path());
        assert!(!orphan.exists() && foreign.join(EVENTS).exists());
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 2);
    }

    #[test]
    fn folder_that_another_process_removes_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("new");
        assert!(lock_new(&path).unwrap().is_none());
        fs::create_dir(&path).unwrap();
        let other = open_unfinished(&path).unwrap();
        other.lock().unwrap();
        assert!(lock_new(&path).unwrap().is_none());
        other.unlock().unwrap();
        assert!(lock_new(&path).unwrap().is_some());
    }

    #[test]
    fn unfinished_folder_is_locked() {
        let base = tempfile::tempdir().unwrap();
        let unfinished = UnfinishedFolder::begin(base.path(), 0o700).unwrap();
        assert!(open_unfinished(&unfinished.path).unwrap().try_lock().is_err());
        let path = unfinished.path.clone();
        drop(unfinished);
        assert!(!path.exists());
    }
}
