//! A position in a conversation: a turn, or a step of a turn. People write it as `4` or `4.10`. It is never a fraction:
//! `4.10` is step 10, and `4.1` is step 1. Therefore a position with a step is a string in JSON and TOML.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A turn, or a step of a turn. Both are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    pub turn: usize,
    /// The step. `None` for the whole turn.
    pub step: Option<usize>,
}

impl Position {
    /// Creates the position of a whole turn.
    #[must_use]
    pub const fn turn(turn: usize) -> Self {
        Self { turn, step: None }
    }

    /// Creates the position of a step in a turn.
    #[must_use]
    pub const fn step(turn: usize, step: usize) -> Self {
        Self { turn, step: Some(step) }
    }

    /// Returns the sort key for the start of a range. A turn starts with the user's events, before its step 0.
    #[must_use]
    pub const fn start_key(self) -> (usize, usize) {
        match self.step {
            None => (self.turn, 0),
            Some(step) => (self.turn, step.saturating_add(1)),
        }
    }

    /// Returns the sort key for the end of a range. A turn ends after its last step.
    #[must_use]
    pub const fn end_key(self) -> (usize, usize) {
        match self.step {
            None => (self.turn, usize::MAX),
            Some(step) => (self.turn, step.saturating_add(1)),
        }
    }

    /// Returns the position directly after the end of a range.
    #[must_use]
    pub const fn after(self) -> Self {
        match self.step {
            // After the greatest possible number comes 0, as in JP.
            None => Self::turn(self.turn.wrapping_add(1)),
            Some(step) => Self::step(self.turn, step.saturating_add(1)),
        }
    }
}

impl From<usize> for Position {
    fn from(turn: usize) -> Self {
        Self::turn(turn)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            None => write!(out, "{}", self.turn),
            Some(step) => write!(out, "{}.{step}", self.turn),
        }
    }
}

impl FromStr for Position {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || format!("expected a turn (`4`) or a step of a turn (`4.10`), not `{text}`");
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| is_number).ok_or_else(error)
        };
        match text.split_once('.') {
            None => number(text).map(Self::turn),
            Some((turn, step)) => Ok(Self::step(number(turn)?, number(step)?)),
        }
    }
}

impl Serialize for Position {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.step {
            None => serializer.serialize_u64(self.turn as u64),
            Some(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PositionVisitor)
    }
}

struct PositionVisitor;

impl Visitor<'_> for PositionVisitor {
    type Value = Position;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a turn, such as 4, or a step of a turn in quotes, such as \"4.10\"")
    }

    fn visit_u64<E: Error>(self, turn: u64) -> Result<Position, E> {
        usize::try_from(turn).map(Position::turn).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, turn: i64) -> Result<Position, E> {
        usize::try_from(turn).map(Position::turn).map_err(|_| E::custom(format!("turn {turn} is negative")))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Position, E> {
        Err(E::custom(format!("{number} is a fraction: write a step of a turn in quotes, such as \"4.10\"")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Position, E> {
        text.parse().map_err(E::custom)
    }
}
