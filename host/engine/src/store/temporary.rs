//! The temporary file that becomes the transcript: same folder, owner and mode; removed unless it was put in place.
//! Holds the one rename of the host. Its name must not end in `.tmp`: JP removes those when it starts.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata, Permissions},
    hash::{BuildHasher, RandomState},
    io::{self, BufWriter, Write},
    os::{
        fd::BorrowedFd,
        unix::fs::{MetadataExt, PermissionsExt, fchown},
    },
    path::Path,
    process,
    sync::Arc,
    time::SystemTime,
};

use rustix::{
    fs::{CWD, renameat},
    io::Errno,
    process::{Pid, test_kill_process},
};

use super::open_folder::OpenFolder;

const PREFIX: &str = ".events.json.jpc-";

/// A file that is gone when this is dropped, unless it was put in place.
#[derive(Debug)]
pub(super) struct Temporary {
    file: File,
    folder: Arc<OpenFolder>,
    name: OsString,
    placed: bool,
}

impl Temporary {
    /// Makes an empty file in `folder`, with the owner and mode of `like`.
    pub(super) fn create(folder: &Arc<OpenFolder>, like: &Metadata) -> io::Result<Self> {
        let name = OsString::from(unique(PREFIX));
        let file = folder.make(&name)?;
        let made = Self { file, folder: Arc::clone(folder), name, placed: false };
        let own = made.file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            // Failing is an error: a file that changed hands would be another's, or out of its owner's reach.
            fchown(&made.file, Some(like.uid()), Some(like.gid()))?;
        }
        made.file.set_permissions(Permissions::from_mode(like.mode() & 0o7777))?;
        Ok(made)
    }

    /// Writes all pieces, one behind the other, and waits until they are on disk.
    ///
    /// From memory: `copy_file_range` from the original took half as long again (100 MB, ext4), and this way what
    /// is written is what was checked.
    ///
    /// A failed fsync is never tried again: the system may have dropped the pages, and would then report success.
    pub(super) fn fill(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        self.fill_as_of(pieces, |_| Ok(None))
    }

    /// The same, with another time of the last change where `modified` returns one.
    pub(super) fn fill_as_of(
        &mut self,
        pieces: &[&[u8]],
        modified: impl FnOnce(&File) -> io::Result<Option<SystemTime>>,
    ) -> io::Result<()> {
        let mut writer = BufWriter::with_capacity(64 << 10, &self.file);
        for piece in pieces {
            writer.write_all(piece)?;
        }
        writer.flush()?;
        drop(writer);
        if let Some(modified) = modified(&self.file)? {
            self.file.set_modified(modified)?;
        }
        self.file.sync_all()
    }

    /// Gives the file its name.
    pub(super) fn put_at(mut self, name: &OsStr) -> io::Result<()> {
        self.folder.rename(&self.name, name)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.placed
            && let Err(error) = self.folder.remove(&self.name)
        {
            tracing::warn!(%error, name = %self.name.display(), "a temporary file is left behind");
        }
    }
}

/// Removes what processes that no longer live have left in `folder`. Call it under the lock.
pub(super) fn remove_orphans(folder: &OpenFolder) {
    for name in folder.names().unwrap_or_default() {
        if name.to_str().is_some_and(|name| is_of_the_dead(PREFIX, name))
            && let Err(error) = folder.remove(&name)
        {
            tracing::warn!(%error, name = %name.display(), "failed to remove an orphan");
        }
    }
}

/// A name that nobody waits for, and that says whose it is.
pub(super) fn unique(prefix: &str) -> String {
    let random = RandomState::new().hash_one(process::id());
    format!("{prefix}{}-{random:016x}", process::id())
}

/// Gives a file or a folder its name.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    rename_at(CWD, from, to)
}

/// The same in a folder that is open: the one rename of the host.
pub(super) fn rename_at(folder: BorrowedFd<'_>, from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat(folder, from, folder, to)?)
}

/// Whether a name is one that a process has made which no longer lives.
pub(crate) fn is_of_the_dead(prefix: &str, name: &str) -> bool {
    maker(prefix, name).is_some_and(|pid| !is_alive(pid))
}

/// The process that made a temporary file, by its name.
fn maker(prefix: &str, name: &str) -> Option<Pid> {
    let (pid, _random) = name.strip_prefix(prefix)?.split_once('-')?;
    Pid::from_raw(pid.parse().ok().filter(|pid| *pid > 0)?)
}

fn is_alive(pid: Pid) -> bool {
    test_kill_process(pid) != Err(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_temporary_file_bears_our_pid_and_is_gone_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let like = fs::metadata(folder.path()).unwrap();
        let open = Arc::new(OpenFolder::by_path(folder.path()));
        let made = Temporary::create(&open, &like).unwrap();
        let name = made.name.to_str().unwrap();
        assert_eq!(maker(PREFIX, name), Pid::from_raw(process::id().cast_signed()));
        drop(made);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_our_own_names_have_a_maker() {
        assert_eq!(maker(PREFIX, ".events.json.jpc-12-ab"), Pid::from_raw(12));
        for name in
            ["events.json", ".events.json.jpc-12", ".events.json.jpc--1-ab", ".events.json.jpc-0-ab", "x.tmp"]
        {
            assert_eq!(maker(PREFIX, name), None, "{name}");
        }
    }
}
