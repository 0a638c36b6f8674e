//! JP's conversations of the current workspace, for the list of sessions.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::small_file;
use jp_compact_store::{self as store, StoreError};
use serde_json::Value;

/// A conversation of JP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JpConversation {
    pub(crate) id: String,
    /// The file with the events.
    pub(crate) path: PathBuf,
    pub(crate) title: Option<String>,
    pub(crate) bytes: u64,
    pub(crate) modified: SystemTime,
}

/// Returns the conversations of the current workspace. Without a workspace there are none.
///
/// # Errors
/// A folder of conversations cannot be listed.
pub(crate) fn jp_conversations(environment: &Environment) -> Result<Vec<JpConversation>, StoreError> {
    let mut conversations = Vec::new();
    for (id, folder) in store::conversations(environment)? {
        let path = folder.join("events.json");
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let json = small_file::read(&folder.join("metadata.json"), small_file::JP_FILE).ok().flatten();
        let metadata_json: Value =
            json.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
        conversations.push(JpConversation {
            id,
            path,
            title: metadata_json["title"].as_str().map(str::to_owned),
            bytes: metadata.len(),
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        });
    }
    Ok(conversations)
}
