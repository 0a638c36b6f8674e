//! Ranges of turns.

/// A range of turns: 0-based, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnRange {
    // Invariant: from <= to.
    from: usize,
    to: usize,
}

impl TurnRange {
    /// Returns the range `from..=to`, or `None` if it would be empty.
    #[must_use]
    pub fn new(from: usize, to: usize) -> Option<Self> {
        (from <= to).then_some(Self { from, to })
    }

    #[must_use]
    pub fn from(self) -> usize {
        self.from
    }

    #[must_use]
    pub fn to(self) -> usize {
        self.to
    }

    #[must_use]
    pub fn contains(self, turn: usize) -> bool {
        self.from <= turn && turn <= self.to
    }

    /// Returns whether `other` is completely within the range.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

impl std::fmt::Display for TurnRange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.from == self.to {
            write!(out, "turn {}", self.from)
        } else {
            write!(out, "turns {}-{}", self.from, self.to)
        }
    }
}
