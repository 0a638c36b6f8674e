//! OpenCode: new ids of the session, its messages, and their parts. Messages and parts keep their order. With an old
//! id, `opencode import` would do nothing, or edit the original.

use serde_json::Value;

use super::{Additions, Renumbered};
use crate::ids::NewIds;
use crate::json_edit::StringEdits;

/// Members with content of the conversation, or with data of the provider.
const CONTENT: [&str; 4] = ["state", "text", "metadata", "error"];

pub(super) fn renumber(
    view: &[u8],
    ids: &NewIds,
    additions: &Additions<'_>,
) -> Result<Renumbered, &'static str> {
    let document: Value = serde_json::from_slice(view).map_err(|_| "`info`")?;
    let old = document["info"]["id"].as_str().ok_or("`info.id`")?;
    let id = ids.opencode_session(old);
    let title = document["info"]["title"].as_str();
    let replace = |name: &str, value: &str| match name {
        "title" => title.filter(|title| *title == value).map(|_| additions.title.to_owned()),
        "id" | "sessionID" | "messageID" | "parentID" if value == old => Some(id.clone()),
        "id" | "messageID" | "parentID" if value.starts_with("msg_") || value.starts_with("prt_") => {
            Some(ids.opencode(value))
        }
        _ => None,
    };
    let bytes = StringEdits { skipped: &CONTENT, replace: &replace }.apply(view);
    Ok(Renumbered { id, bytes })
}
