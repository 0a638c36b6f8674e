//! A file of model answers, keyed by the hash of the request. A run can write it, and another run can replay
//! it without asking a model.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jp_compact_runtime::private_file::{self, PRIVATE};
use jp_compact_runtime::session::{Recorded, key};
use jp_compact_runtime::small_file;
use jp_compact_schema::{Answer, NeedRequest};

/// The size limit of a file of recorded answers. The file is kept in memory and rewritten for every answer.
const BYTES_MAX: u64 = 256 << 20;

/// A file of recorded answers is invalid or cannot be written.
#[derive(Debug)]
pub struct RecordingError {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub what: String,
}

/// A file to which answers are added.
#[derive(Debug)]
pub(super) struct Recording {
    path: PathBuf,
    answers: Mutex<RecordedAnswers>,
}

#[derive(Debug)]
struct RecordedAnswers {
    recorded: Recorded,
    /// The keys of the requests of this run.
    keys_of_run: BTreeSet<String>,
}

impl Recording {
    /// Opens or creates the file. This happens before any request, because an answer that cannot be recorded
    /// should not cost money.
    pub(super) fn open(path: &Path) -> Result<Self, RecordingError> {
        let recorded = read(path)?.unwrap_or_default();
        let answers = Mutex::new(RecordedAnswers { recorded, keys_of_run: BTreeSet::new() });
        let recording = Self { path: path.to_owned(), answers };
        recording
            .write()
            .map_err(|error| RecordingError { path: path.to_owned(), what: error.to_string() })?;
        Ok(recording)
    }

    /// Returns the answer that this run has recorded for the request. A replay gives equal requests the same answer, so
    /// the recorded run must do the same.
    pub(super) fn recorded_in_this_run(&self, request: &NeedRequest) -> Option<Answer> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of_run = answers.keys_of_run.contains(&key(request));
        is_of_run.then(|| answers.recorded.get(request).cloned()).flatten()
    }

    /// Records an answer. Replaces the answer of an earlier run.
    pub(super) fn add(&self, request: &NeedRequest, answer: &Answer) -> std::io::Result<()> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.recorded = std::mem::take(&mut answers.recorded).with(request, answer.clone());
        answers.keys_of_run.insert(key(request));
        drop(answers);
        self.write()
    }

    fn write(&self) -> std::io::Result<()> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        private_file::write_durably(&self.path, answers.recorded.text().as_bytes(), PRIVATE)
    }
}

/// Reads the answers in a file.
pub(super) fn replay(path: &Path) -> Result<Recorded, RecordingError> {
    read(path)?.ok_or_else(|| RecordingError { path: path.to_owned(), what: "there is no such file".into() })
}

fn read(path: &Path) -> Result<Option<Recorded>, RecordingError> {
    let failed = |what: String| RecordingError { path: path.to_owned(), what };
    // The file is rewritten later, so it must not be a pipe.
    let bytes = small_file::read_through_links(path, BYTES_MAX).map_err(|error| failed(error.to_string()))?;
    let Some(bytes) = bytes else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|_| failed("it is not valid UTF-8".into()))?;
    let recorded =
        Recorded::parse(&text).map_err(|error| failed(format!("not a file of recorded answers: {error}")))?;
    Ok(Some(recorded))
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for RecordingError {}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use jp_compact_schema::AnswerError;

    use super::*;

    fn request(text: &str) -> NeedRequest {
        NeedRequest::TokensCount { model: None, text: text.into() }
    }

    fn answer(message: &str) -> Answer {
        Answer::Err(AnswerError { code: "x".into(), message: message.into() })
    }

    #[test]
    fn recorded_answers_are_private_and_replayed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answers.json");
        let first = Recording::open(&path).unwrap();
        first.add(&request("a"), &answer("one")).unwrap();
        first.add(&request("b"), &answer("two")).unwrap();
        assert_eq!(first.recorded_in_this_run(&request("a")), Some(answer("one")));
        let second = Recording::open(&path).unwrap();
        assert_eq!(second.recorded_in_this_run(&request("a")), None, "a later run asks again");
        second.add(&request("a"), &answer("three")).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let replayed = replay(&path).unwrap();
        assert_eq!(replayed.get(&request("a")), Some(&answer("three")));
        assert_eq!(replayed.get(&request("b")), Some(&answer("two")));
    }

    #[test]
    fn rejects_other_files_and_keeps_their_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        assert!(replay(&path).unwrap_err().to_string().ends_with("there is no such file"));
        std::fs::write(&path, "dear diary").unwrap();
        assert!(Recording::open(&path).unwrap_err().to_string().contains("not a file of recorded answers"));
        assert!(replay(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary");
        assert!(Recording::open(folder.path()).is_err());
        for device in ["/dev/null", "/dev/zero"] {
            assert!(
                replay(Path::new(device)).unwrap_err().to_string().ends_with("it is a device, not a file")
            );
            assert!(Recording::open(Path::new(device)).is_err());
        }
        std::fs::File::create(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
        assert!(replay(&path).unwrap_err().to_string().contains("it has more than"));
    }
}
