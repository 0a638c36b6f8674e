//! Codex: a new id in `session_meta`, in every record that names the session, and in the file name. If only the file
//! name changed, the old id would lead to the new file.

use std::path::PathBuf;

use serde_json::Value;

use super::{Additions, Location, ORIGIN, Renumbered, lines};
use crate::ids::NewIds;
use crate::json_edit::StringEdits;

/// Members with content of the conversation.
const CONTENT: [&str; 6] = ["content", "arguments", "input", "output", "text", "summary"];

pub(super) fn renumber(
    view: &[u8],
    ids: &NewIds,
    additions: &Additions<'_>,
) -> Result<Renumbered, &'static str> {
    let mut bytes = Vec::with_capacity(view.len());
    let mut session: Option<(String, String)> = None;
    for line in lines(view) {
        if let Some((old, id)) = &session {
            let replace = |_: &str, value: &str| (value == old).then(|| id.clone());
            bytes.extend(StringEdits { skipped: &CONTENT, replace: &replace }.apply(line));
            continue;
        }
        let mut head: Value = serde_json::from_slice(line).map_err(|_| "`session_meta`")?;
        let payload = head.get_mut("payload").and_then(Value::as_object_mut).ok_or("`session_meta`")?;
        let old = payload.get("id").and_then(Value::as_str).ok_or("`session_meta.id`")?.to_owned();
        let id = ids.uuid7(&old);
        for name in ["id", "session_id"] {
            if payload.get(name).and_then(Value::as_str) == Some(&old) {
                payload.insert(name.into(), id.clone().into());
            }
        }
        payload.insert(ORIGIN.into(), additions.origin.clone());
        bytes.extend_from_slice(head.to_string().as_bytes());
        bytes.push(b'\n');
        session = Some((old, id));
    }
    let (_, id) = session.ok_or("`session_meta`")?;
    Ok(Renumbered { id, bytes })
}

/// Returns the path of a session, which is in the folder of its day.
pub(super) fn path(location: &Location<'_>) -> PathBuf {
    let time = location.now.strftime("%Y-%m-%dT%H-%M-%S");
    let folder = location.sessions.join(location.now.strftime("%Y/%m/%d").to_string());
    folder.join(format!("rollout-{time}-{}.jsonl", location.id))
}
