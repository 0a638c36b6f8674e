//! The storage folder of `OpenCode` before version 1.2: one file for each session, message, and part. The transcript is the
//! document that `opencode export` prints for the session. Newer versions have a database.

use std::ffi::{OsStr, OsString};

/// A message and its parts, each as the bytes of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    pub info: Vec<u8>,
    pub parts: Vec<Vec<u8>>,
}

/// The folders of the storage: `session/<project>/<session>.json`, `message/<session>/<message>.json`, and
/// `part/<message>/<part>.json`.
pub const SESSIONS: &str = "session";
pub const MESSAGES: &str = "message";
pub const PARTS: &str = "part";

/// Returns the id in the name of a session's file.
#[must_use]
pub fn session_id(name: &OsStr) -> Option<&str> {
    id(name).filter(|id| id.starts_with("ses_"))
}

/// Returns the id in the name of a file.
#[must_use]
pub fn id(name: &OsStr) -> Option<&str> {
    name.to_str()?.strip_suffix(".json")
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
    fn ids_are_in_the_names() {
        assert_eq!(session_id("ses_1.json".as_ref()), Some("ses_1"));
        assert_eq!(session_id("msg_1.json".as_ref()), None);
        assert_eq!(id("msg_1.json".as_ref()), Some("msg_1"));
        assert_eq!(id("msg_1".as_ref()), None);
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
