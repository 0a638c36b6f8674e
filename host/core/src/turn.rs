//! Ranges of turns. The first and the last turn of a range may be covered only in part, from a step on or up to a step.

use crate::position::Position;

/// A range of turns or steps, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnRange {
    // Invariant: from.start_key() <= to.end_key().
    from: Position,
    to: Position,
}

impl TurnRange {
    /// Returns the range of the whole turns `from..=to`, or `None` if it would be empty.
    #[must_use]
    pub fn new(from: usize, to: usize) -> Option<Self> {
        Self::between(Position::turn(from), Position::turn(to))
    }

    /// Returns the range between two positions, or `None` if it would be empty.
    #[must_use]
    pub fn between(from: Position, to: Position) -> Option<Self> {
        (from.start_key() <= to.end_key()).then_some(Self { from, to })
    }

    /// Returns the first turn.
    #[must_use]
    pub fn from(self) -> usize {
        self.from.turn
    }

    /// Returns the last turn.
    #[must_use]
    pub fn to(self) -> usize {
        self.to.turn
    }

    /// Returns the position at which the range begins.
    #[must_use]
    pub fn start(self) -> Position {
        self.from
    }

    /// Returns the position at which the range ends.
    #[must_use]
    pub fn end(self) -> Position {
        self.to
    }

    /// Returns whether the range begins or ends inside a turn.
    #[must_use]
    pub fn has_steps(self) -> bool {
        self.from.step.is_some() || self.to.step.is_some()
    }

    /// Returns whether the range contains a turn, completely or in part.
    #[must_use]
    pub fn contains(self, turn: usize) -> bool {
        self.from() <= turn && turn <= self.to()
    }

    /// Returns whether the range contains a turn only in part.
    #[must_use]
    pub fn cuts(self, turn: usize) -> bool {
        let is_inside = |end: Position| end.turn == turn && end.step.is_some();
        self.contains(turn) && (is_inside(self.from) || is_inside(self.to))
    }

    /// Returns whether the range contains the events of a step or, with `None`, the user's events, which belong to no
    /// step. The range never contains the user's events of a turn that it cuts.
    #[must_use]
    pub fn contains_step(self, turn: usize, step: Option<usize>) -> bool {
        if !self.cuts(turn) {
            return self.contains(turn);
        }
        let Some(step) = step else { return false };
        let key = Position::step(turn, step).start_key();
        self.from.start_key() <= key && key <= self.to.end_key()
    }

    /// Returns whether `other` is completely within the range.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.from.start_key() <= other.from.start_key() && other.to.end_key() <= self.to.end_key()
    }

    /// Returns whether the two ranges have a position in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.from.start_key() <= other.to.end_key() && other.from.start_key() <= self.to.end_key()
    }

    /// Returns the smallest range that covers both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            from: if other.from.start_key() < self.from.start_key() { other.from } else { self.from },
            to: if other.to.end_key() > self.to.end_key() { other.to } else { self.to },
        }
    }

    /// Returns the part that two ranges have in common. `None` if they do not overlap.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        let from = if other.from.start_key() > self.from.start_key() { other.from } else { self.from };
        let to = if other.to.end_key() < self.to.end_key() { other.to } else { self.to };
        Self::between(from, to)
    }

    /// Returns the whole turns of the range. `None` if it has no whole turn.
    #[must_use]
    pub fn whole_turns(self) -> Option<Self> {
        let from = self.from.turn.checked_add(usize::from(self.from.step.is_some()))?;
        let to = self.to.turn.checked_sub(usize::from(self.to.step.is_some()))?;
        Self::new(from, to)
    }

    /// Returns the part of the first turn, the whole turns, and the part of the last turn. Missing parts are left out.
    #[must_use]
    pub fn pieces(self) -> Vec<Self> {
        if !self.has_steps() || self.from() == self.to() {
            return vec![self];
        }
        let first = self.from.step.and(Self::between(self.from, Position::turn(self.from())));
        let last = self.to.step.and(Self::between(Position::step(self.to(), 0), self.to));
        [first, self.whole_turns(), last].into_iter().flatten().collect()
    }
}

impl std::fmt::Display for TurnRange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.from, self.to) {
            (from, to) if from == to && from.step.is_some() => write!(out, "step {from}"),
            (from, to) if from == to => write!(out, "turn {from}"),
            (from, to) if from.step.is_some() && to.step.is_some() => write!(out, "steps {from}-{to}"),
            (from, to) => write!(out, "turns {from}-{to}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn range(text: &str) -> TurnRange {
        let (from, to) = text.split_once("..").unwrap();
        TurnRange::between(from.parse().unwrap(), to.parse().unwrap()).unwrap()
    }

    #[test]
    fn rejects_inverted_ranges() {
        for (from, to, exists) in [
            (Position::turn(4), Position::step(4, 0), true),
            (Position::step(4, 3), Position::turn(4), true),
            (Position::step(4, 3), Position::step(4, 3), true),
            (Position::step(4, 3), Position::step(4, 2), false),
            (Position::step(4, 0), Position::turn(3), false),
        ] {
            assert_eq!(TurnRange::between(from, to).is_some(), exists, "{from}..{to}");
        }
    }

    #[test]
    fn does_not_contain_user_events_of_a_cut_turn() {
        for (text, turn, step, expected) in [
            ("3..4.2", 3, None, true),
            ("3..4.2", 4, None, false),
            ("3..4.2", 4, Some(0), true),
            ("3..4.2", 4, Some(2), true),
            ("3..4.2", 4, Some(3), false),
            ("4.2..5", 4, None, false),
            ("4.2..5", 4, Some(1), false),
            ("4.2..5", 4, Some(2), true),
            ("4.2..5", 5, None, true),
            ("4..4.2", 4, None, false),
            ("4.1..4", 4, Some(9), true),
            ("4..4", 4, None, true),
        ] {
            assert_eq!(range(text).contains_step(turn, step), expected, "{text} {turn} {step:?}");
        }
    }

    #[test]
    fn rounds_inwards_and_splits_into_pieces() {
        for (text, expected_whole, expected_pieces) in [
            ("3..5", Some("turns 3-5"), "turns 3-5"),
            ("3..5.2", Some("turns 3-4"), "turns 3-4, steps 5.0-5.2"),
            ("3.1..5", Some("turns 4-5"), "turns 3.1-3, turns 4-5"),
            ("3.1..5.0", Some("turn 4"), "turns 3.1-3, turn 4, step 5.0"),
            ("3.1..4.2", None, "turns 3.1-3, steps 4.0-4.2"),
            ("4.1..4.2", None, "steps 4.1-4.2"),
            ("0..0.2", None, "turns 0-0.2"),
        ] {
            let whole = range(text).whole_turns().map(|range| range.to_string());
            assert_eq!(whole.as_deref(), expected_whole, "{text}");
            let pieces: Vec<_> = range(text).pieces().iter().map(ToString::to_string).collect();
            assert_eq!(pieces.join(", "), expected_pieces, "{text}");
        }
    }

    #[test]
    fn compares_and_unites_ranges() {
        for (left, right, covers, meets, union) in [
            ("0..4", "4.1..4.2", true, true, "turns 0-4"),
            ("4..4.3", "4.0..4.3", true, true, "turns 4-4.3"),
            ("4.0..4.3", "4..4.3", false, true, "turns 4-4.3"),
            ("4.0..4.3", "4.4..4.6", false, false, "steps 4.0-4.6"),
            ("4.0..4.3", "4.3..5", false, true, "turns 4.0-5"),
        ] {
            let (left, right) = (range(left), range(right));
            assert_eq!((left.covers(right), left.overlaps(right)), (covers, meets), "{left} {right}");
            assert_eq!(left.union(right).to_string(), union);
            assert_eq!(right.union(left), left.union(right));
        }
    }
}
