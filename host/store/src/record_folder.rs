//! A folder with the files of one conversation, one file for each event. It is read as one transcript. The files are
//! never opened for writing: their overlays are in a sidecar next to the folder.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use jp_compact_folders::events;

use super::{StoreError, error::unreadable, open_folder::OpenFolder};

/// Returns whether a path is a folder with the events of one conversation.
#[must_use]
pub fn is_record_folder(path: &Path) -> bool {
    !record_files(path).is_empty()
}

/// Returns the files of the events in a folder, in order.
#[must_use]
pub fn record_files(path: &Path) -> Vec<PathBuf> {
    let names = if path.is_dir() { names_in(&OpenFolder::by_path(path), path) } else { Ok(Vec::new()) };
    names.unwrap_or_default().into_iter().map(|name| path.join(name)).collect()
}

/// Returns the total size of the events in a folder.
#[must_use]
pub fn record_bytes(path: &Path) -> u64 {
    let files = record_files(path);
    let sizes = files.iter().filter_map(|file| file.symlink_metadata().ok());
    sizes.map(|metadata| metadata.len()).sum()
}

/// Returns the permissions of a transcript's content. For a folder with events, those that all its events have.
///
/// # Errors
/// A file cannot be examined.
pub fn content_mode(path: &Path) -> io::Result<u32> {
    let mut files = record_files(path);
    if files.is_empty() {
        files.push(path.to_path_buf());
    }
    files.iter().try_fold(0o777, |mode, file| Ok(mode & fs::metadata(file)?.mode()))
}

/// Returns the folder with the events of the conversation at `folder`: that folder itself, or the folder `events` in
/// it.
pub(super) fn find(folder: &Path) -> Option<PathBuf> {
    [folder.to_path_buf(), folder.join(events::FOLDER)].into_iter().find(|folder| is_record_folder(folder))
}

/// Returns the path, relative to the parent of `folder`, of the file that has the owner and mode of the conversation:
/// the first event's file, or `folder` itself if it is a file.
pub(super) fn owner_file(folder: &Path) -> OsString {
    let name = folder.file_name().unwrap_or_default();
    let names = if folder.is_dir() { names_in(&OpenFolder::by_path(folder), folder) } else { Ok(Vec::new()) };
    let first = names.unwrap_or_default().into_iter().next();
    first.map_or_else(|| name.to_owned(), |first| Path::new(name).join(first).into_os_string())
}

/// Returns the files of the events in an open folder, in order.
pub(super) fn names_in(folder: &OpenFolder, path: &Path) -> Result<Vec<OsString>, StoreError> {
    Ok(events::event_files(folder.names().map_err(unreadable("list", path))?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::read_file;

    const IDS: [&str; 2] = ["aaaaaaaa-0000", "bbbbbbbb-0000"];

    fn conversation() -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("events");
        fs::create_dir(&folder).unwrap();
        for (number, id) in IDS.into_iter().enumerate() {
            fs::write(folder.join(events::file_name(number, id)), format!("{{\n\"id\":\"{id}\"}}")).unwrap();
        }
        fs::write(folder.join(".eventlog.lock"), "").unwrap();
        temp
    }

    #[test]
    fn events_are_read_as_lines() {
        let temp = conversation();
        let folder = find(temp.path()).unwrap();
        let lines = "{ \"id\":\"aaaaaaaa-0000\"}\n{ \"id\":\"bbbbbbbb-0000\"}\n";
        assert_eq!(read_file(&folder).unwrap(), lines);
        assert_eq!(find(&folder), Some(folder.clone()));
        assert_eq!(record_bytes(&folder), lines.len() as u64 - 2);
        assert_eq!(owner_file(&folder), "events/event-00000-aaaaaaaa-0000.json");
    }

    #[test]
    fn other_folders_and_links_are_rejected() {
        let temp = conversation();
        assert!(!is_record_folder(temp.path()));
        assert!(matches!(read_file(temp.path()), Err(StoreError::NotAFile { .. })));
        let outside = temp.path().join("secret");
        fs::write(&outside, "{}").unwrap();
        symlink(&outside, temp.path().join("events").join(events::file_name(2, IDS[0]))).unwrap();
        assert!(matches!(read_file(&temp.path().join("events")), Err(StoreError::Symlink { .. })));
    }
}
