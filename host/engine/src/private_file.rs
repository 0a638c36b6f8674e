//! The host's own small files: descriptions, digests, trust. Written whole or not at all, under a name that
//! nobody waits for, and for their owner alone. Transcripts are the store's business, not this file's.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use crate::small_file;
use crate::store::is_of_the_dead;

/// Begins the name of a file in the making, before the number of the process that makes it.
const PREFIX: &str = ".new-";
/// What only its owner reads and writes.
pub(crate) const PRIVATE: u32 = 0o600;

/// Makes a folder that only its owner can enter, and those above it that are missing.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Puts a file in place of what is there, the folder above it made where it is missing. For what can be made
/// again: after a crash of the machine it may be garbage, and whoever reads it must say so.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    check_size(bytes.len() as u64)?;
    let mut file = begin(path)?;
    file.write_all(bytes)?;
    finish(file, path, mode)
}

/// The same for what the user said: it is on disk when this returns.
pub(crate) fn write_durably(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    check_size(bytes.len() as u64)?;
    path.parent().into_iter().for_each(remove_orphans);
    let mut file = begin(path)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    finish(file, path, mode)?;
    sync_folder_of(path)
}

/// Waits until a file's name is on disk.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    open_folder(folder)?.sync_all()
}

/// Makes a folder and those above it that are missing, which are on disk when this returns.
pub(crate) fn make_folder_durably(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        make_folder_durably(above)?;
    }
    match DirBuilder::new().create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder_of(folder),
    }
}

/// Refuses to write more than the process may put into one file: the system would end the process for trying.
pub(crate) fn check_size(bytes: u64) -> io::Result<()> {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(limit) if bytes > limit => Err(io::ErrorKind::FileTooLarge.into()),
        _ => Ok(()),
    }
}

/// A file that is gone again unless it is finished.
pub(crate) fn begin(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    if !folder.is_dir() {
        make_folder(folder)?;
    }
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let file = tempfile::Builder::new().prefix(&prefix).tempfile_in(folder)?;
    // Held while it is written, for whoever does not see this process.
    if let Err(error) = file.as_file().try_lock() {
        tracing::debug!(%error, path = %file.path().display(), "a file in the making is not locked");
    }
    Ok(file)
}

/// Removes what processes have left in a folder that died while they wrote a file there.
pub(crate) fn remove_orphans(folder: &Path) {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(|name| is_of_the_dead(PREFIX, name)) {
            continue;
        }
        let path = entry.path();
        // One in another container lives, and is not seen here.
        let removed = small_file::open(&path, OFlags::NOFOLLOW).and_then(|file| match file.try_lock() {
            Ok(()) => fs::remove_file(&path),
            Err(_) => Ok(()),
        });
        if let Err(error) = removed {
            tracing::warn!(%error, path = %path.display(), "failed to remove an orphan");
        }
    }
}

/// Gives a file its mode and its name.
pub(crate) fn finish(file: tempfile::NamedTempFile, path: &Path, mode: u32) -> io::Result<()> {
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// The same, where nothing else has the name.
pub(crate) fn finish_new(file: tempfile::NamedTempFile, path: &Path, mode: u32) -> io::Result<()> {
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

/// Opens a regular file to read and write it, or makes it. A link in its place is not followed.
pub(crate) fn open_or_make(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW;
    small_file::open_at(CWD, path, flags, Mode::from_raw_mode(mode))
}

/// Opens a folder, to sync or to lock it.
pub(crate) fn open_folder(folder: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECTORY.bits().cast_signed()).open(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_file_and_the_folders_made_for_it_are_private() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("a/b/file");
        write(&path, b"one", PRIVATE).unwrap();
        write(&path, b"two", PRIVATE).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(
            [mode(&path), mode(&base.path().join("a/b")), mode(&base.path().join("a"))],
            [0o600, 0o700, 0o700]
        );
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn removes_what_the_dead_have_left_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        let _ours = begin(&path("file")).unwrap();
        // No process has this number; the second is one in another container.
        let dead = i32::MAX;
        let [orphan, far] = [format!(".new-{dead}-a"), format!(".new-{dead}-b")];
        for name in [&orphan, &far, ".new-", ".new-1-a", "file"] {
            fs::write(path(name), "").unwrap();
        }
        let held = File::open(path(&far)).unwrap();
        held.lock().unwrap();
        remove_orphans(base.path());
        assert!(!path(&orphan).exists() && path(&far).exists());
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 5);
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let base = tempfile::tempdir().unwrap();
        drop(begin(&base.path().join("file")).unwrap());
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }
}
