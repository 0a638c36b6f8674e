//! Sessions as JSON documents.

use std::path::Path;
use std::time::SystemTime;

use jiff::Timestamp;
use jp_compact_schema::document::{ForkedSession, ImageReport, ListedSession};
use jp_compact_transcripts::Format;

use crate::fork::NewSession;
use crate::jp::JpConversation;
use crate::list::SessionRow;

impl From<SessionRow> for ListedSession {
    fn from(row: SessionRow) -> Self {
        let SessionRow { file, title, folder, fork_of } = row;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let path = Some(&file.path).filter(|path| !path.as_os_str().is_empty());
        Self {
            agent: file.agent.to_string(),
            id: file.id,
            title,
            modified: time(file.modified),
            bytes: path.map(|_| file.bytes),
            path: path.map(|path| text(path)),
            folder: folder.as_deref().map(text),
            fork_of,
            counts: None,
        }
    }
}

impl From<JpConversation> for ListedSession {
    fn from(conversation: JpConversation) -> Self {
        let JpConversation { id, path, title, bytes, modified } = conversation;
        Self {
            agent: Format::Jp.to_string(),
            id,
            title,
            modified: time(modified),
            bytes: Some(bytes),
            path: Some(path.to_string_lossy().into_owned()),
            folder: None,
            fork_of: None,
            counts: None,
        }
    }
}

/// Returns a time in RFC 3339, to the second.
fn time(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl NewSession {
    /// Returns the session as a part of the report that `fork` prints.
    #[must_use]
    pub fn document(&self, source_bytes: u64, applied_overlays: usize, images: ImageReport) -> ForkedSession {
        ForkedSession {
            agent: self.agent.to_string(),
            id: self.id.clone(),
            title: self.title.clone(),
            folder: self.folder.as_ref().map(|folder| folder.to_string_lossy().into_owned()),
            source_bytes,
            bytes: self.bytes.len() as u64,
            applied_overlays,
            images,
            resume: self.resume.to_string(),
            notes: self.notes.clone(),
        }
    }
}
