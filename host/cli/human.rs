//! The text forms of numbers, ranges, and paths for people.

use std::path::Path;

use jp_compact_core::overlay::Overlay;
use jp_compact_core::{Position, TurnRange};
use jp_compact_runtime::environment::Environment;
pub(crate) use jp_compact_terminal::numbers::{counted, grouped, percent_change};

/// Formats a path. Inside the current folder, it is relative to that folder.
pub(crate) fn relative_path(path: &Path, environment: &Environment) -> String {
    path.strip_prefix(&environment.cwd).unwrap_or(path).display().to_string()
}

/// Formats a range of turns or steps: `turn 3`, `turns 3-5`, or `turns 3-5.2`.
fn range(from: Position, to: Position) -> String {
    match TurnRange::between(from, to) {
        Some(range) => range.to_string(),
        None => format!("turns {from}-{to}"),
    }
}

/// Returns the range of an overlay.
pub(crate) fn overlay_range(overlay: &Overlay) -> String {
    let &Overlay { from_turn, to_turn, from_step, to_step, .. } = overlay;
    range(Position { turn: from_turn, step: from_step }, Position { turn: to_turn, step: to_step })
}
