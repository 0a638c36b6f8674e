//! Claude Code: a new `sessionId`, a new `uuid` for each record, and new references to each `uuid`. The ids of messages
//! and calls stay, because the provider issued them.
//!
//! The log of requests is left out. It belongs to the requests of the original, and contains the text that the view
//! hides. The title of the original is left out too, and if it is a fork, its origin.

use std::collections::HashSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Additions, Location, ORIGIN, Renumbered, folder_in_place, lines, push_record};
use crate::ids::NewIds;
use crate::json_edit::StringEdits;
use crate::records::records;

/// Members with content of the conversation.
const CONTENT: [&str; 4] = ["message", "toolUseResult", "attachment", "rendered"];
/// Records of the log of requests.
const REQUESTS: [&str; 3] = ["api-request", "api-request-blob", "api-request-shape"];
/// The maximum length of the name of a project's folder. Claude Code shortens longer names, so their path is not
/// derived.
const FOLDER_CHARS_MAX: usize = 200;

pub(super) fn renumber(
    view: &[u8],
    ids: &NewIds,
    additions: &Additions<'_>,
) -> Result<Renumbered, &'static str> {
    let old = records(view).find_map(|record| record["sessionId"].as_str().map(str::to_owned));
    let id = ids.uuid4(&old.ok_or("`sessionId`")?);
    let title = |origin: Option<&Value>| {
        let mut record = json!({ "type": "custom-title", "customTitle": additions.title, "sessionId": id });
        origin.iter().for_each(|origin| record[ORIGIN] = (*origin).clone());
        record
    };
    // The list reads both ends of a file. The last title counts, and the first one stays at an end if the file grows.
    let mut bytes = Vec::new();
    push_record(&mut bytes, &title(Some(additions.origin)));
    bytes.extend(renumber_lines(view, ids, &id));
    push_record(&mut bytes, &title(None));
    Ok(Renumbered { id, bytes })
}

/// Returns the lines of a session, or of one of its sub-agents, with the ids of the new session.
pub(super) fn renumber_lines(view: &[u8], ids: &NewIds, id: &str) -> Vec<u8> {
    let uuids: HashSet<String> =
        records(view).filter_map(|record| record["uuid"].as_str().map(str::to_owned)).collect();
    let replace = |name: &str, value: &str| match name {
        "sessionId" => Some(id.to_owned()),
        _ => uuids.contains(value).then(|| ids.uuid4(value)),
    };
    let edits = StringEdits { skipped: &CONTENT, replace: &replace };
    lines(view).filter(|line| !is_left_out(line)).flat_map(|line| edits.apply(line)).collect()
}

fn is_left_out(line: &[u8]) -> bool {
    let value: Option<Value> = serde_json::from_slice(line).ok();
    value.is_some_and(|value| {
        let is_request = value["type"].as_str().is_some_and(|kind| REQUESTS.contains(&kind));
        is_request || value["type"] == "custom-title" || value.get(ORIGIN).is_some()
    })
}

/// Returns the path of a session. A project's folder is named after the working directory of Claude Code.
pub(super) fn path(location: &Location<'_>) -> Option<PathBuf> {
    let named = || {
        let name: String = location
            .folder?
            .to_str()?
            .chars()
            .map(|char| if char.is_ascii_alphanumeric() { char } else { '-' })
            .collect();
        (name.len() <= FOLDER_CHARS_MAX).then(|| location.sessions.join(name))
    };
    Some(folder_in_place(location).or_else(named)?.join(format!("{}.jsonl", location.id)))
}
