//! The storage folder of `OpenCode` before version 1.2: one file for each session, message, and part. The transcript is the
//! document that `opencode export` prints for the session. Newer versions have a database.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A message and its parts, each as the bytes of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    pub info: Vec<u8>,
    pub parts: Vec<Vec<u8>>,
}

/// Returns the folder with the messages of a session, or `None` if the path is not that of a session's file:
/// `session/<project>/<session>.json`.
#[must_use]
pub fn messages_folder(session: &Path) -> Option<PathBuf> {
    let id = session.file_name()?.to_str()?.strip_suffix(".json")?;
    let sessions = session.parent()?.parent()?;
    let is_session = id.starts_with("ses_") && sessions.file_name() == Some(OsStr::new("session"));
    is_session.then(|| sessions.with_file_name("message").join(id))
}

/// Returns the folder with the parts of a message, by the message's file: `message/<session>/<message>.json`.
#[must_use]
pub fn parts_folder(message: &Path) -> Option<PathBuf> {
    Some(message.parent()?.parent()?.with_file_name("part").join(message.file_stem()?))
}

/// Returns the files of messages or parts in the order in which they were written, which is the order of their ids.
#[must_use]
pub fn files(mut names: Vec<OsString>) -> Vec<OsString> {
    names.retain(|name| name.to_str().is_some_and(|name| name.ends_with(".json") && !name.starts_with('.')));
    names.sort();
    names
}

/// Returns the document of a session.
#[must_use]
pub fn document(session: &[u8], messages: &[StoredMessage]) -> Vec<u8> {
    let mut document = b"{\"info\":".to_vec();
    document.extend_from_slice(session.trim_ascii());
    document.extend_from_slice(b",\"messages\":[");
    for (index, message) in messages.iter().enumerate() {
        document.extend_from_slice(if index == 0 { b"" } else { b"," });
        document.extend_from_slice(b"\n{\"info\":");
        document.extend_from_slice(message.info.trim_ascii());
        document.extend_from_slice(b",\"parts\":[");
        for (index, part) in message.parts.iter().enumerate() {
            document.extend_from_slice(if index == 0 { b"" } else { b"," });
            document.extend_from_slice(part.trim_ascii());
        }
        document.extend_from_slice(b"]}");
    }
    document.extend_from_slice(b"\n]}\n");
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_a_session_are_found_by_name() {
        let session = Path::new("/s/storage/session/global/ses_1.json");
        let messages = messages_folder(session).unwrap();
        assert_eq!(messages, Path::new("/s/storage/message/ses_1"));
        let parts = parts_folder(&messages.join("msg_1.json")).unwrap();
        assert_eq!(parts, Path::new("/s/storage/part/msg_1"));
        for other in ["/s/storage/session_diff/ses_1.json", "/s/storage/session/global/x.json", "ses_1.json"]
        {
            assert_eq!(messages_folder(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn document_holds_the_files_as_they_are() {
        let message = |id: &str| StoredMessage {
            info: format!("{{\n \"id\": \"{id}\"}}\n").into(),
            parts: vec![b"{\"a\":1}".to_vec(), b"{\"b\":2}\n".to_vec()],
        };
        let document = document(b"{\"id\":\"ses_1\"}\n", &[message("1"), message("2")]);
        let expected = "{\"info\":{\"id\":\"ses_1\"},\"messages\":[\n\
            {\"info\":{\n \"id\": \"1\"},\"parts\":[{\"a\":1},{\"b\":2}]},\n\
            {\"info\":{\n \"id\": \"2\"},\"parts\":[{\"a\":1},{\"b\":2}]}\n]}\n";
        assert_eq!(String::from_utf8(document).unwrap(), expected);
        assert_eq!(
            files(["b.json", ".a.json", "a.json", "c"].map(OsString::from).to_vec()),
            ["a.json", "b.json"]
        );
    }
}
