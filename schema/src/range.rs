//! A range of turns or steps. Requests and compactions use it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A range of turns: 0-based, inclusive at both ends. With the feature `steps`, it may begin or end at a step of a turn.
/// The events of such a turn that belong to no step, which are the user's, are not in the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// The first turn.
    pub from_turn: usize,
    /// The last turn, inclusive.
    pub to_turn: usize,
    /// The first step in `from_turn`. Absent for the whole turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<usize>,
    /// The last step in `to_turn`, inclusive. Absent for the whole turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_step: Option<usize>,
}

impl Range {
    /// Returns the range of these whole turns.
    #[must_use]
    pub const fn turns(from_turn: usize, to_turn: usize) -> Self {
        Self { from_turn, to_turn, from_step: None, to_step: None }
    }

    /// Returns whether the range begins or ends inside a turn.
    #[must_use]
    pub const fn is_stepped(&self) -> bool {
        self.from_step.is_some() || self.to_step.is_some()
    }

    /// Returns whether an event of this turn and step is in the range. Events of the user have no step.
    #[must_use]
    pub fn contains_step(&self, turn: usize, step: Option<usize>) -> bool {
        let first_step = self.from_step.filter(|_| turn == self.from_turn);
        let last_step = self.to_step.filter(|_| turn == self.to_turn);
        if !self.contains(turn) {
            return false;
        }
        if first_step.is_none() && last_step.is_none() {
            return true;
        }
        step.is_some_and(|step| {
            first_step.is_none_or(|first| first <= step) && last_step.is_none_or(|last| step <= last)
        })
    }

    /// Returns whether the turn is in the range, completely or in part.
    #[must_use]
    pub fn contains(&self, turn: usize) -> bool {
        (self.from_turn..=self.to_turn).contains(&turn)
    }
}
