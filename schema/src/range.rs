//! A range of turns or steps. Requests and compactions use it.

use serde::{Deserialize, Serialize};

/// A range of turns: 0-based, inclusive at both ends. With the feature `steps`, it may begin or end at a step of a turn.
/// The events of such a turn that belong to no step, which are the user's, are not in the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
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
    pub const fn has_steps(&self) -> bool {
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

    /// Returns whether `other` is completely in the range.
    #[must_use]
    pub const fn covers(&self, other: &Self) -> bool {
        !is_before(other.start(), self.start()) && !is_before(self.end(), other.end())
    }

    /// Returns whether the two ranges have a turn or step in common.
    #[must_use]
    pub const fn overlaps(&self, other: &Self) -> bool {
        !is_before(self.end(), other.start()) && !is_before(other.end(), self.start())
    }

    /// Returns a key that orders the starts of ranges. A turn begins before its step 0, with the user's events.
    const fn start(&self) -> (usize, usize) {
        match self.from_step {
            None => (self.from_turn, 0),
            Some(step) => (self.from_turn, step.saturating_add(1)),
        }
    }

    /// Returns a key that orders the ends of ranges. A turn ends after its last step.
    const fn end(&self) -> (usize, usize) {
        match self.to_step {
            None => (self.to_turn, usize::MAX),
            Some(step) => (self.to_turn, step.saturating_add(1)),
        }
    }

    /// Returns whether the turn is in the range, completely or in part.
    #[must_use]
    pub fn contains(&self, turn: usize) -> bool {
        (self.from_turn..=self.to_turn).contains(&turn)
    }
}

const fn is_before(left: (usize, usize), right: (usize, usize)) -> bool {
    left.0 < right.0 || (left.0 == right.0 && left.1 < right.1)
}

impl std::fmt::Display for Range {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = |turn: usize, step: Option<usize>| match step {
            None => turn.to_string(),
            Some(step) => format!("{turn}.{step}"),
        };
        let (from, to) = (end(self.from_turn, self.from_step), end(self.to_turn, self.to_step));
        let what = if self.from_step.is_some() && self.to_step.is_some() { "step" } else { "turn" };
        if from == to { write!(out, "{what} {from}") } else { write!(out, "{what}s {from} to {to}") }
    }
}
