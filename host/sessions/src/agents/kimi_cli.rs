//! Kimi CLI: a new folder with the messages and a copy of the session's state. Messages have no ids. The first line
//! names the original.

use std::path::{Path, PathBuf};

use jp_compact_runtime::small_file;
use serde_json::Value;

use super::{Additions, Location, ORIGIN, Renumbered, lines};
use crate::ids::NewIds;

/// The file with the messages of a session, in a folder with the session's id.
pub(crate) const CONTEXT: &str = "context.jsonl";
const STATE: &str = "state.json";
/// The file with the folders in which Kimi CLI worked.
const METADATA: &str = "kimi.json";

pub(super) fn renumber(
    view: &[u8],
    ids: &NewIds,
    additions: &Additions<'_>,
) -> Result<Renumbered, &'static str> {
    let mut rest = lines(view);
    let first = rest.next().and_then(|line| serde_json::from_slice(line).ok());
    let Some(Value::Object(mut first)) = first else { return Err("first line") };
    first.insert(ORIGIN.into(), additions.origin.clone());
    let mut bytes = format!("{}\n", Value::Object(first)).into_bytes();
    rest.for_each(|line| bytes.extend(line));
    Ok(Renumbered { id: ids.uuid4(&additions.source.display().to_string()), bytes })
}

/// Returns the path of a session, in the folder of the source's project. That folder is named after a digest.
pub(super) fn path(location: &Location<'_>) -> Option<PathBuf> {
    let project = location.source.parent()?.parent()?;
    project.starts_with(location.sessions).then(|| project.join(location.id).join(CONTEXT))
}

/// Returns the file that belongs to a session: its state, with a new title.
pub(crate) fn files(source: &Path, path: &Path, title: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let state = small_file::read(&source.with_file_name(STATE), small_file::CONFIGURATION);
    let state = state.ok().flatten().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Some(Value::Object(mut state)) = state else { return Vec::new() };
    state.insert("custom_title".into(), title.into());
    vec![(path.with_file_name(STATE), Value::Object(state).to_string().into_bytes())]
}

/// Returns the title in the state of a session.
pub(crate) fn title_of(path: &Path) -> Option<String> {
    let state = small_file::read(&path.with_file_name(STATE), small_file::CONFIGURATION).ok()??;
    let state: Value = serde_json::from_slice(&state).ok()?;
    state["custom_title"].as_str().filter(|title| !title.is_empty()).map(str::to_owned)
}

/// Returns the folder in which the agent worked: the folder whose last session is this session, or the only folder.
pub(crate) fn folder_of(path: &Path) -> Option<String> {
    let id = path.parent()?.file_name()?.to_str()?;
    let metadata = path.ancestors().nth(4)?.join(METADATA);
    let metadata = small_file::read(&metadata, small_file::CONFIGURATION).ok()??;
    let metadata: Value = serde_json::from_slice(&metadata).ok()?;
    let folders = metadata["work_dirs"].as_array()?;
    let last = folders.iter().find(|folder| folder["last_session_id"] == id);
    let only = Some(&folders[..]).filter(|folders| folders.len() == 1).and_then(|folders| folders.first());
    last.or(only)?["path"].as_str().map(str::to_owned)
}
