//! Changes of a strategy's files, found by their sizes and times. Polling works on every file system, and most folders
//! of strategies have few files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The maximum numbers of files and of folder levels. A folder of a strategy with dependencies may be large.
const FILES_MAX: usize = 1_000;
const LEVELS_MAX: usize = 4;

/// A file with its size and the time of its last change.
pub type FileStamp = (PathBuf, u64, Option<SystemTime>);

/// Returns the stamps of a file, or of the files in a folder. Hidden files, hidden folders, and generated folders are
/// skipped.
#[must_use]
pub fn file_stamps(path: &Path) -> Vec<FileStamp> {
    let mut stamps = Vec::new();
    collect(path, LEVELS_MAX, &mut stamps);
    stamps.sort();
    stamps
}

fn collect(path: &Path, levels: usize, stamps: &mut Vec<FileStamp>) {
    let Ok(metadata) = fs::metadata(path) else { return };
    if !metadata.is_dir() {
        stamps.push((path.to_owned(), metadata.len(), metadata.modified().ok()));
        return;
    }
    if levels == 0 {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_generated = ["target", "node_modules", "__pycache__"].iter().any(|other| name == *other);
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if stamps.len() < FILES_MAX && !is_generated && !is_hidden {
            collect(&entry.path(), levels - 1, stamps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_and_new_files_change_the_stamps() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "1").unwrap();
        let before = file_stamps(folder.path());
        assert_eq!(before, file_stamps(folder.path()));
        fs::write(folder.path().join("a"), "12").unwrap();
        let changed = file_stamps(folder.path());
        assert_ne!(before, changed);
        fs::create_dir(folder.path().join("target")).unwrap();
        fs::write(folder.path().join("target/x"), "1").unwrap();
        assert_eq!(changed, file_stamps(folder.path()));
        fs::write(folder.path().join("b"), "").unwrap();
        assert_ne!(changed, file_stamps(folder.path()));
    }
}
