//! Qwen Code: a new `sessionId` in each line and the file name, and new `uuid`s. The first line names the original.

use std::collections::HashSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Additions, Location, ORIGIN, Renumbered, folder_in_place, lines, push_record};
use crate::ids::NewIds;
use crate::json_edit::StringEdits;
use crate::records::records;

/// Members with content of the conversation.
const CONTENT: [&str; 4] = ["message", "systemPayload", "toolCallResult", "usageMetadata"];

pub(super) fn renumber(
    view: &[u8],
    ids: &NewIds,
    additions: &Additions<'_>,
) -> Result<Renumbered, &'static str> {
    let mut rest = lines(view);
    let first = rest.next().and_then(|line| serde_json::from_slice(line).ok());
    let Some(Value::Object(mut first)) = first else { return Err("first line") };
    let id = ids.uuid4(first.get("sessionId").and_then(Value::as_str).ok_or("`sessionId`")?);
    first.insert(ORIGIN.into(), additions.origin.clone());
    let uuids: HashSet<String> =
        records(view).filter_map(|line| line["uuid"].as_str().map(str::to_owned)).collect();
    let replace = |name: &str, value: &str| match name {
        "sessionId" => Some(id.clone()),
        _ => uuids.contains(value).then(|| ids.uuid4(value)),
    };
    let edits = StringEdits { skipped: &[&CONTENT[..], &[ORIGIN]].concat(), replace: &replace };
    let mut bytes = edits.apply(format!("{}\n", Value::Object(first.clone())).as_bytes());
    rest.for_each(|line| bytes.extend(edits.apply(line)));
    let last = records(&bytes).last().map(|line| line["uuid"].clone());
    let title = json!({
        "uuid": ids.uuid4("title"), "parentUuid": last, "sessionId": id,
        "timestamp": additions.now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(), "type": "system",
        "cwd": first.get("cwd"), "version": first.get("version"), "subtype": "custom_title",
        "systemPayload": { "customTitle": additions.title, "titleSource": "manual" },
    });
    push_record(&mut bytes, &title);
    Ok(Renumbered { id, bytes })
}

/// Returns the path of a session. A project's folder is named after the working directory of Qwen Code.
pub(super) fn path(location: &Location<'_>) -> Option<PathBuf> {
    let named = || {
        let folder = location.folder?.to_str()?;
        let name = folder.replace(|char: char| !char.is_ascii_alphanumeric(), "-");
        Some(location.sessions.join(name).join("chats"))
    };
    Some(folder_in_place(location).or_else(named)?.join(format!("{}.jsonl", location.id)))
}
