//! A range of turns. It is a module because both requests and compactions use it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A range of turns: 0-based, inclusive at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// The first turn.
    pub from_turn: usize,
    /// The last turn, inclusive.
    pub to_turn: usize,
}

impl Range {
    /// Returns whether the turn is in the range.
    #[must_use]
    pub fn contains(&self, turn: usize) -> bool {
        (self.from_turn..=self.to_turn).contains(&turn)
    }
}
