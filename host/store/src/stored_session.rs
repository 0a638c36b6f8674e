//! A session that an agent keeps in several folders of its storage, one file for each message and part. The session is
//! named by the path of its file. The files are never opened for writing.

use std::{
    ffi::OsString,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use jp_compact_folders::storage::{self, StoredMessage};

use super::{
    Place, StoreError,
    error::unreadable,
    open_file::Links,
    open_folder::{OpenFolder, is_absent},
};

type OpenPath<'a> = &'a dyn Fn(&Path) -> io::Result<OpenFolder>;
/// Reads an open file. The path is for error messages.
type ReadOpen = fn(&mut File, &Path) -> Result<Bytes, StoreError>;

/// Returns the document of the session whose file has this content, or `None` if the file does not belong to a session
/// with messages.
///
/// # Errors
/// A file cannot be read, or a message was added during the read.
pub(super) fn read_session(
    place: &Place,
    session: &Bytes,
    read: ReadOpen,
) -> Result<Option<Bytes>, StoreError> {
    let open = |path: &Path| {
        // The folders of messages are next to the folder of sessions, which may be the allowed root.
        if !place.may_write(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(OpenFolder::new(place.open_folder_at(path)?, path))
    };
    read_with(place.path(), session, &open, read)
}

/// Same as [`read_session`], without an allowed root.
pub(super) fn read_session_at(
    path: &Path,
    session: &Bytes,
    read: ReadOpen,
) -> Result<Option<Bytes>, StoreError> {
    read_with(path, session, &|path| Ok(OpenFolder::by_path(path)), read)
}

/// Returns the folder with the messages of a session, or `None` if the path does not name a session's file.
fn messages_folder(session: &Path) -> Option<PathBuf> {
    let id = storage::session_id(session.file_name()?)?;
    let sessions = session.parent()?.parent().filter(|folder| folder.ends_with(storage::SESSIONS))?;
    Some(sessions.with_file_name(storage::MESSAGES).join(id))
}

fn read_with(
    path: &Path,
    session: &Bytes,
    open: OpenPath<'_>,
    read: ReadOpen,
) -> Result<Option<Bytes>, StoreError> {
    let Some(folder) = messages_folder(path) else { return Ok(None) };
    let infos = read_all(&folder, open, read)?;
    let mut messages = Vec::with_capacity(infos.len());
    for (name, info) in &infos {
        let parts = match (storage::id(name), folder.parent()) {
            (Some(id), Some(messages)) => {
                read_all(&messages.with_file_name(storage::PARTS).join(id), open, read)?
            }
            _ => Vec::new(),
        };
        let parts = parts.into_iter().map(|(_, part)| part.to_vec()).collect();
        messages.push(StoredMessage { info: info.to_vec(), parts });
    }
    if messages.is_empty() {
        return Ok(None);
    }
    if read_all(&folder, open, read)?.len() != messages.len() {
        return Err(StoreError::Changed { path: path.to_path_buf(), how: "was written to" });
    }
    Ok(Some(storage::document(session, &messages).into()))
}

/// Returns the files of a folder, in order. A missing folder is empty.
fn read_all(path: &Path, open: OpenPath<'_>, read: ReadOpen) -> Result<Vec<(OsString, Bytes)>, StoreError> {
    let listed = open(path).and_then(|folder| Ok((folder.names()?, folder)));
    let (names, folder) = match listed {
        Ok(listed) => listed,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(unreadable("list", path)(error)),
    };
    let mut files = Vec::new();
    for name in storage::files(names) {
        let mut file = folder.file(&name, Links::Refuse)?;
        let bytes = read(&mut file, &path.join(&name))?;
        files.push((name, bytes));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use jp_compact_runtime::environment::Environment;

    use crate::{allowed_root, locate, read, read_file};

    fn session() -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        for (name, bytes) in [
            ("session/global/ses_1.json", "{\"id\":\"ses_1\"}"),
            ("message/ses_1/msg_2.json", "{\"id\":\"msg_2\"}"),
            ("message/ses_1/msg_1.json", "{\"id\":\"msg_1\"}"),
            ("part/msg_1/prt_1.json", "{\"id\":\"prt_1\"}"),
            ("session/global/ses_2.json", "{\"id\":\"ses_2\"}"),
        ] {
            let path = temp.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        temp
    }

    const DOCUMENT: &str = "{\"info\":{\"id\":\"ses_1\"},\"messages\":[\n\
        {\"info\":{\"id\":\"msg_1\"},\"parts\":[{\"id\":\"prt_1\"}]},\n{\"info\":{\"id\":\"msg_2\"},\"parts\":[]}\n]}\n";

    #[test]
    fn folders_of_a_session_are_found_by_name() {
        let messages = super::messages_folder("/s/storage/session/global/ses_1.json".as_ref());
        assert_eq!(messages, Some("/s/storage/message/ses_1".into()));
        for other in ["/s/storage/session_diff/ses_1.json", "/s/storage/session/global/x.json", "ses_1.json"]
        {
            assert_eq!(super::messages_folder(other.as_ref()), None, "{other}");
        }
    }

    #[test]
    fn session_is_read_with_its_messages_and_parts() {
        let temp = session();
        let path = temp.path().join("session/global/ses_1.json");
        assert_eq!(read_file(&path).unwrap(), DOCUMENT);
        let place = locate(path.as_os_str(), &Environment::bare(temp.path())).unwrap();
        assert_eq!(read(&place).unwrap(), DOCUMENT);
        let empty = read_file(&temp.path().join("session/global/ses_2.json")).unwrap();
        assert_eq!(empty, "{\"id\":\"ses_2\"}");
    }

    #[test]
    fn messages_outside_of_the_allowed_root_are_not_read() {
        let temp = session();
        let environment = Environment::bare(temp.path());
        for (folder, expected) in [(".", DOCUMENT), ("session", "{\"id\":\"ses_1\"}")] {
            let root = allowed_root(&temp.path().join(folder), &environment).unwrap();
            let path = root.folder().join(if folder == "." { "session/global" } else { "global" });
            let environment = Environment { allowed_root: Some(root), ..environment.clone() };
            let place = locate(path.join("ses_1.json").as_os_str(), &environment).unwrap();
            assert_eq!(read(&place).unwrap(), expected);
        }
    }
}
