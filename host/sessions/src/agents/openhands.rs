//! `OpenHands`: a new folder with a file for each event, and a copy of the conversation's state with the new id. The
//! state is written last, because `OpenHands` takes a folder with a state for a complete conversation.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use jp_compact_folders::events;
use jp_compact_runtime::small_file;
use jp_compact_schema::document::ForkOrigin;
use serde_json::{Value, json};

use super::{Additions, Location, Renumbered, lines};
use crate::error::SessionError;
use crate::ids::NewIds;
use crate::json_edit::StringEdits;
use crate::records::records;
use crate::resume_command::ENV;

/// The file with the origin of a fork. The events and the state allow no further members.
const ORIGIN_FILE: &str = ".jp-compact-origin.json";
/// The largest state that is read. It holds the settings of the agent and its statistics.
const STATE_BYTES_MAX: u64 = 16 << 20;
/// Members with content of the conversation.
const CONTENT: [&str; 8] = [
    "llm_message",
    "extended_content",
    "thought",
    "action",
    "observation",
    "tool_call",
    "system_prompt",
    "tools",
];

/// Returns the events with new ids. The id of the conversation is not in them.
pub(super) fn renumber(
    view: &[u8],
    ids: &NewIds,
    additions: &Additions<'_>,
) -> Result<Renumbered, &'static str> {
    let id = ids.uuid4(&additions.source.display().to_string());
    let old: HashSet<String> =
        records(view).filter_map(|event| event["id"].as_str().map(str::to_owned)).collect();
    if old.is_empty() {
        return Err("event with an id");
    }
    let replace = |_: &str, value: &str| old.contains(value).then(|| ids.uuid4(value));
    let edits = StringEdits { skipped: &CONTENT, replace: &replace };
    let bytes = lines(view).flat_map(|line| edits.apply(line)).collect();
    Ok(Renumbered { id, bytes })
}

/// Returns the path of the events, in a folder next to the folder of the source.
pub(super) fn path(location: &Location<'_>) -> Option<PathBuf> {
    let conversations = match location.source.ends_with(events::FOLDER) {
        true => location.source.parent()?.parent()?,
        false => location.sessions,
    };
    Some(conversations.join(location.id.replace('-', "")).join(events::FOLDER))
}

/// Returns the command that resumes a conversation that is not in the folder of `OpenHands`.
pub(super) fn resume_words(id: &str, path: &Path) -> Vec<String> {
    let conversations = path.parent().and_then(Path::parent).unwrap_or(path);
    let variable = format!("OPENHANDS_CONVERSATIONS_DIR={}", conversations.display());
    [ENV, &variable, "openhands", "--resume", id].map(str::to_owned).to_vec()
}

/// Returns all files of a new conversation. The last file is its state.
pub(crate) fn files(
    source: &Path,
    path: &Path,
    session: &Renumbered,
    ids: &NewIds,
    origin: &Value,
) -> Result<Vec<(PathBuf, Vec<u8>)>, SessionError> {
    let mut files = Vec::new();
    for (number, line) in lines(&session.bytes).enumerate() {
        let event: Value = serde_json::from_slice(line).unwrap_or_default();
        // An event without an id was never a file of OpenHands.
        let id = event["id"].as_str().map_or_else(|| ids.uuid4(&number.to_string()), str::to_owned);
        files.push((path.join(events::file_name(number, &id)), line.trim_ascii_end().to_vec()));
    }
    let folder = path.parent().unwrap_or(path);
    files.push((folder.join(ORIGIN_FILE), origin.to_string().into_bytes()));
    files.push((folder.join(events::STATE), state(source, folder, session, ids)?));
    Ok(files)
}

/// Returns the state of the source with the new ids.
fn state(source: &Path, folder: &Path, session: &Renumbered, ids: &NewIds) -> Result<Vec<u8>, SessionError> {
    let path = source.with_file_name(events::STATE);
    let read = small_file::read(&path, STATE_BYTES_MAX).map_err(|source| SessionError::Io {
        doing: "read",
        path: path.clone(),
        source,
    })?;
    let state: Option<Value> = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let missing = SessionError::Incomplete { path: source.to_path_buf(), missing: "`base_state.json`" };
    let Some(Value::Object(mut state)) = state else { return Err(missing) };
    state.insert("id".into(), session.id.clone().into());
    if state.contains_key("persistence_dir") {
        state.insert("persistence_dir".into(), folder.display().to_string().into());
    }
    if let Some(last) = state.get_mut("last_user_message_id")
        && let Some(old) = last.as_str()
    {
        // A summary may have replaced the message.
        let new = ids.uuid4(old);
        let is_kept = records(&session.bytes).any(|event| event["id"] == new);
        *last = if is_kept { json!(new) } else { Value::Null };
    }
    Ok(Value::Object(state).to_string().into_bytes())
}

/// Returns the folder in which the agent worked.
pub(crate) fn folder_of(path: &Path) -> Option<String> {
    let state = small_file::read(&path.with_file_name(events::STATE), STATE_BYTES_MAX).ok()??;
    let state: Value = serde_json::from_slice(&state).ok()?;
    state["workspace"]["working_dir"].as_str().map(str::to_owned)
}

/// Returns the origin of a conversation that is a fork.
pub(crate) fn origin_of(path: &Path) -> Option<ForkOrigin> {
    let origin = small_file::read(&path.with_file_name(ORIGIN_FILE), small_file::RECORD).ok()??;
    serde_json::from_slice(&origin).ok()
}
