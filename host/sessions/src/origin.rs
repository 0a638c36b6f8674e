//! The origin of a fork: a member of one of its records, or a file in the folder of an `OpenHands` conversation. `show`
//! prints it. A session without an origin must never be replaced.

use std::path::Path;

use jp_compact_core::Stream;
use jp_compact_core::receipts::receipts;
use jp_compact_core::view::timestamp_text;
use jp_compact_schema::document::{AppliedOverlay, ForkOrigin};
use serde_json::Value;

use crate::agents::{ORIGIN, openhands};

/// Returns the origin of a session. `None` if it is not a fork.
#[must_use]
pub fn session_origin(bytes: &[u8], path: &Path) -> Option<ForkOrigin> {
    origin_in(bytes).or_else(|| openhands::origin_of(path))
}

/// Returns the origin in the records of a session.
pub(crate) fn origin_in(bytes: &[u8]) -> Option<ForkOrigin> {
    let lines = bytes.split(|byte| *byte == b'\n');
    let named = lines.filter(|line| std::str::from_utf8(line).is_ok_and(|line| line.contains(ORIGIN)));
    let mut records = named.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    records.find_map(|mut record| {
        let origins = [record[ORIGIN].take(), record["payload"][ORIGIN].take()];
        origins.into_iter().find_map(|origin| serde_json::from_value(origin).ok())
    })
}

/// Returns the overlays of a session that its view applies.
#[must_use]
pub fn applied_overlays(stream: &Stream) -> Vec<AppliedOverlay> {
    let overlays = stream.overlays().iter().zip(receipts(stream));
    let applied = overlays.filter(|(overlay, _)| !overlay.stale).map(|(overlay, receipts)| {
        let strategies = receipts.iter().filter_map(|receipt| receipt.get("strategy")?.as_str());
        AppliedOverlay {
            timestamp: timestamp_text(overlay.stamp),
            from_turn: overlay.from_turn,
            to_turn: overlay.to_turn,
            strategies: strategies.map(str::to_owned).collect(),
        }
    });
    applied.collect()
}

/// Describes the session of which a transcript is a fork.
#[must_use]
pub fn origin_line(origin: &ForkOrigin) -> String {
    let mut strategies: Vec<&str> =
        origin.applied.iter().flat_map(|overlay| &overlay.strategies).map(String::as_str).collect();
    strategies.dedup();
    let by = if strategies.is_empty() { String::new() } else { format!(" ({})", strategies.join(", ")) };
    let plural = if origin.overlays == Some(1) { "" } else { "s" };
    let overlays =
        origin.overlays.map(|count| format!(", {count} applied overlay{plural}{by}")).unwrap_or_default();
    let at = origin.at.as_deref().map(|at| format!(", made at {at}")).unwrap_or_default();
    let command = origin.command.as_deref().map(|command| format!(" by `{command}`")).unwrap_or_default();
    format!("a fork of {}{at}{command}{overlays}", origin.source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_conversation_is_not_an_origin() {
        let origin = r#"{"source":"/s","at":"2026-11-23T05:00:00Z","command":"fork","overlays":2}"#;
        let found = origin_in(format!("{{\"{ORIGIN}\":{origin}}}\n{{}}").as_bytes()).unwrap();
        assert_eq!((found.source.as_str(), found.overlays), ("/s", Some(2)));
        assert!(origin_line(&found).ends_with(" by `fork`, 2 applied overlays"));
        let one = ForkOrigin { overlays: Some(1), ..found };
        assert!(origin_line(&one).ends_with(" by `fork`, 1 applied overlay"));
        let quoted = format!("{{\"message\":{{\"content\":\"{ORIGIN}\",\"{ORIGIN}\":{origin}}}}}\n");
        assert_eq!(origin_in(quoted.as_bytes()), None);
    }
}
