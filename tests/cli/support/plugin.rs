//! Strategies written in a few lines of shell.

use serde_json::{Value, json};

/// A result that strips the tool calls of turn 0.
pub(crate) const STRIP: &str = r#"echo '{"type":"result","id":"c1","compactions":[{"from_turn":0,"to_turn":0,"tool_calls":{"policy":"strip","request":true,"response":true}}]}'"#;
pub(crate) const DECLINE: &str = r#"echo '{"type":"decline","id":"c1","reason":"not today"}'"#;

/// Returns a script that runs `run` for each request. `members` is merged into its description.
pub(crate) fn plugin_script(name: &str, members: &Value, run: &str) -> String {
    let mut description = json!({
        "type": "describe", "protocols": [1], "name": name, "version": "1.0.0", "description": "a test",
        "produces": ["tool_calls"], "input": "none",
    });
    description.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    format!(
        "#!/bin/sh\ncase \"$1\" in\ndescribe) cat <<'END'\n{description}\nEND\n;;\nrun)\n{run}\n;;\nesac\n"
    )
}
