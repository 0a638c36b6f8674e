//! Gemini CLI: a new `sessionId` in each header, and the first digits of this id in the file name.

use std::path::PathBuf;

use serde_json::Value;

use super::{Additions, Location, ORIGIN, Renumbered, folder_in_place, lines};
use crate::ids::NewIds;
use crate::json_edit::StringEdits;

/// Members with content of the conversation.
const CONTENT: [&str; 4] = ["content", "messages", "toolCalls", "thoughts"];

pub(super) fn renumber(
    view: &[u8],
    ids: &NewIds,
    additions: &Additions<'_>,
) -> Result<Renumbered, &'static str> {
    let mut rest = lines(view);
    let header = rest.next().and_then(|line| serde_json::from_slice(line).ok());
    let Some(Value::Object(mut header)) = header else { return Err("header line") };
    let id = ids.uuid4(header.get("sessionId").and_then(Value::as_str).ok_or("`sessionId`")?);
    header.insert("sessionId".into(), id.clone().into());
    header.insert(ORIGIN.into(), additions.origin.clone());
    let mut bytes = format!("{}\n", Value::Object(header)).into_bytes();
    let replace = |name: &str, _: &str| (name == "sessionId").then(|| id.clone());
    let edits = StringEdits { skipped: &CONTENT, replace: &replace };
    rest.for_each(|line| bytes.extend(edits.apply(line)));
    Ok(Renumbered { id, bytes })
}

/// Returns the path of a session, in the folder of its source. The folder of another project is not known, because its
/// name is a digest or a registered name.
pub(super) fn path(location: &Location<'_>) -> Option<PathBuf> {
    let time = location.now.strftime("%Y-%m-%dT%H-%M");
    let start = location.id.get(..8)?;
    Some(folder_in_place(location)?.join(format!("session-{time}-{start}.jsonl")))
}
