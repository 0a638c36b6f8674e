//! Notes: answers of models about parts of a conversation, kept for later runs. A long conversation is read in parts, and
//! only the newest part changes. Without notes, each compaction would pay for the whole conversation again.
//!
//! A note is kept under the hash of its request. Only the user may read and write the folder. The least recently used
//! notes are removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::private_file::{self, PRIVATE};
use jp_compact_runtime::{small_file, trust};
use jp_compact_schema::Answer;

/// The size limit of all notes.
const BYTES_MAX: u64 = 64 << 20;
/// The size limit of one note.
const NOTE_BYTES_MAX: u64 = 1 << 20;

/// The folder of notes.
#[derive(Debug)]
pub(super) struct NoteCache {
    /// `None` if notes are neither read nor kept.
    folder: Option<PathBuf>,
    bytes_max: u64,
}

impl NoteCache {
    /// Opens the notes of the user. They are ignored if another user could have written them.
    pub(super) fn open(environment: &Environment) -> Self {
        Self::at(environment.cache().map(|cache| cache.join("notes")), BYTES_MAX)
    }

    /// Returns a cache that keeps nothing.
    pub(super) fn disabled() -> Self {
        Self { folder: None, bytes_max: 0 }
    }

    fn at(folder: Option<PathBuf>, bytes_max: u64) -> Self {
        let folder = folder.filter(|folder| match trust::insecure_folder(folder) {
            Ok(None) => true,
            Ok(Some(insecure)) => {
                tracing::warn!(%insecure, "ignored the notes");
                false
            }
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        });
        Self { folder, bytes_max }
    }

    fn file(&self, key: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{key}.json")))
    }

    /// Returns whether there is a note with this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.file(key).is_some_and(|file| file.is_file())
    }

    /// Returns a note, and marks it as used.
    pub(super) fn get(&self, key: &str) -> Option<Answer> {
        let file = self.file(key)?;
        let bytes = small_file::read(&file, NOTE_BYTES_MAX).ok()??;
        let answer = serde_json::from_slice(&bytes).ok()?;
        // The time of the file is the time of its last use.
        log_failure(&file, private_file::write(&file, &bytes, PRIVATE));
        Some(answer)
    }

    /// Stores a note. If this fails, a later run sends the request again.
    pub(super) fn put(&self, key: &str, answer: &Answer) {
        let (Some(folder), Some(file)) = (&self.folder, self.file(key)) else { return };
        let Ok(bytes) = serde_json::to_vec(answer) else { return };
        if bytes.len() as u64 > NOTE_BYTES_MAX {
            return;
        }
        log_failure(&file, private_file::write(&file, &bytes, PRIVATE));
        log_failure(folder, prune(folder, self.bytes_max));
    }
}

fn log_failure(path: &Path, result: io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, path = %path.display(), "failed to keep a note");
    }
}

/// Removes the files that were used least recently until the rest has at most `bytes_max`.
fn prune(folder: &Path, bytes_max: u64) -> io::Result<()> {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_file() {
            files.push((metadata.modified()?, metadata.len(), entry.path()));
        }
    }
    let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    if bytes <= bytes_max {
        return Ok(());
    }
    files.sort();
    for (_, size, path) in files {
        if bytes <= bytes_max {
            break;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => bytes -= size,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use serde_json::Map;

    use super::*;

    fn answer(text: &str) -> Answer {
        Answer::Ok(Map::from_iter([("text".to_owned(), text.into())]))
    }

    #[test]
    fn notes_are_private_and_found_by_key() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("notes");
        let notes = NoteCache::at(Some(folder.clone()), BYTES_MAX);
        assert_eq!((notes.get("a"), notes.has("a")), (None, false));
        notes.put("a", &answer("one"));
        assert_eq!((notes.get("a"), notes.has("a")), (Some(answer("one")), true));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("a.json"))), (0o700, 0o600));
        assert_eq!(NoteCache::disabled().get("a"), None);
    }

    #[test]
    fn ignores_a_folder_that_others_may_write_to() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("notes");
        NoteCache::at(Some(folder.clone()), BYTES_MAX).put("a", &answer("one"));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let notes = NoteCache::at(Some(folder.clone()), BYTES_MAX);
        notes.put("b", &answer("two"));
        assert_eq!((notes.get("a"), folder.join("b.json").exists()), (None, false));
    }

    #[test]
    fn removes_the_least_recently_used_notes() {
        let base = tempfile::tempdir().unwrap();
        let notes = NoteCache::at(Some(base.path().join("notes")), 300);
        for (age, key) in [(3, "a"), (2, "b"), (1, "c")] {
            notes.put(key, &answer(&"x".repeat(80)));
            let file = fs::File::options().write(true).open(notes.file(key).unwrap()).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age)).unwrap();
        }
        notes.get("a").unwrap();
        notes.put("d", &answer(&"x".repeat(80)));
        assert_eq!(["a", "b", "c", "d"].map(|key| notes.has(key)), [true, false, true, true]);
    }

    #[test]
    fn damaged_note_counts_as_absent() {
        let base = tempfile::tempdir().unwrap();
        let notes = NoteCache::at(Some(base.path().to_owned()), BYTES_MAX);
        fs::write(notes.file("a").unwrap(), "{").unwrap();
        assert_eq!(notes.get("a"), None);
    }
}
