//! The origin of a fork, which one of its records states. `show` prints it. A session without an origin must never be
//! replaced.

use serde_json::Value;

use crate::agents::ORIGIN;

/// The origin of a session that `jp-compact` made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOrigin {
    /// The path of the copied session.
    pub source: String,
    /// The time of the copy.
    pub at: Option<String>,
    /// The command that made the copy: `fork`, `resume`, or `mcp`.
    pub command: Option<String>,
    /// The number of overlays that the copy applies.
    pub overlays: Option<u64>,
}

/// Returns the origin of a session. `None` if it is not a fork.
#[must_use]
pub fn session_origin(bytes: &[u8]) -> Option<SessionOrigin> {
    let lines = bytes.split(|byte| *byte == b'\n');
    let named = lines.filter(|line| std::str::from_utf8(line).is_ok_and(|line| line.contains(ORIGIN)));
    let mut records = named.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    records.find_map(|record| {
        let origins = [&record[ORIGIN], &record["payload"][ORIGIN]];
        origins.into_iter().find_map(|origin| {
            let text = |name: &str| origin[name].as_str().map(str::to_owned);
            Some(SessionOrigin {
                source: text("source")?,
                at: text("at"),
                command: text("command"),
                overlays: origin["overlays"].as_u64(),
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_conversation_is_not_an_origin() {
        let origin = r#"{"source":"/s","at":"2026-11-23T05:00:00Z","command":"fork","overlays":2}"#;
        let found = session_origin(format!("{{\"{ORIGIN}\":{origin}}}\n{{}}").as_bytes()).unwrap();
        assert_eq!((found.source.as_str(), found.overlays), ("/s", Some(2)));
        let quoted = format!("{{\"message\":{{\"content\":\"{ORIGIN}\",\"{ORIGIN}\":{origin}}}}}\n");
        assert_eq!(session_origin(quoted.as_bytes()), None);
    }
}
