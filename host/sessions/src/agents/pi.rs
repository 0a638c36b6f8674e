//! pi: a new id in the header and the file name, and new ids of entries. The header names the original.

use std::collections::HashSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Additions, Location, ORIGIN, Renumbered, folder_in_place, lines, push_record};
use crate::ids::NewIds;
use crate::json_edit::StringEdits;
use crate::records::records;

/// Members with content of the conversation.
const CONTENT: [&str; 4] = ["message", "content", "data", "details"];

pub(super) fn renumber(
    view: &[u8],
    ids: &NewIds,
    additions: &Additions<'_>,
) -> Result<Renumbered, &'static str> {
    let mut rest = lines(view);
    let header = rest.next().and_then(|line| serde_json::from_slice(line).ok());
    let Some(Value::Object(mut header)) = header.filter(|header: &Value| header["type"] == "session") else {
        return Err("`session` record");
    };
    let old = header.get("id").and_then(Value::as_str).ok_or("id in its `session` record")?;
    let id = ids.uuid7(old);
    header.insert("id".into(), id.clone().into());
    header.insert("parentSession".into(), additions.source.display().to_string().into());
    header.insert(ORIGIN.into(), additions.origin.clone());
    let mut bytes = format!("{}\n", Value::Object(header)).into_bytes();
    let entries: HashSet<String> =
        records(view).skip(1).filter_map(|entry| entry["id"].as_str().map(str::to_owned)).collect();
    let replace = |_: &str, value: &str| entries.contains(value).then(|| ids.short(value));
    let edits = StringEdits { skipped: &CONTENT, replace: &replace };
    rest.for_each(|line| bytes.extend(edits.apply(line)));
    // The last entry is the leaf, so the title must follow it.
    let leaf = records(&bytes).last().filter(|last| last["type"] != "session").map(|last| last["id"].clone());
    if leaf.as_ref().is_none_or(Value::is_string) {
        let entry = ids.short("title");
        let at = additions.now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
        push_record(
            &mut bytes,
            &json!({ "type": "session_info", "id": entry, "parentId": leaf, "timestamp": at, "name": additions.title }),
        );
    }
    Ok(Renumbered { id, bytes })
}

/// Returns the path of a session. A project's folder is named after the working directory of pi.
pub(super) fn path(location: &Location<'_>) -> Option<PathBuf> {
    let named = || {
        let folder = location.folder?.to_str()?;
        let name = folder.trim_start_matches('/').replace(['/', '\\', ':'], "-");
        Some(location.sessions.join(format!("--{name}--")))
    };
    let time = location.now.strftime("%Y-%m-%dT%H-%M-%S-%3fZ");
    Some(folder_in_place(location).or_else(named)?.join(format!("{time}_{}.jsonl", location.id)))
}
