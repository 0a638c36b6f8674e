//! The part of a conversation that a run keeps at its ends: whole turns, or the newest steps by number or by tokens.

use crate::estimate::tokens;
use crate::position::Position;
use crate::stream::Stream;

/// The events to keep at the end. An event is kept if one of the rules keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepLast {
    /// The newest turns.
    pub turns: Option<usize>,
    /// The newest steps, wherever turns begin.
    pub steps: Option<usize>,
    /// The newest steps that fit into this number of tokens.
    pub tokens: Option<u64>,
}

impl KeepLast {
    /// Keeps the newest turns only.
    #[must_use]
    pub const fn turns(turns: usize) -> Self {
        Self { turns: Some(turns), steps: None, tokens: None }
    }

    /// Returns whether it has no rule.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Returns itself, or `farther` if it has no rule. Rules of a nearer layer replace all rules of a farther one.
    #[must_use]
    pub fn or(self, farther: Self) -> Self {
        if self.is_empty() { farther } else { self }
    }

    /// Returns the end of the range that no rule keeps. `None` if everything is kept.
    pub(crate) fn end(self, stream: &Stream, weigh: Weigh<'_>) -> Option<Position> {
        let last = stream.turns().checked_sub(1)?;
        let of_turns = self.turns.map(|turns| last.checked_sub(turns).map(Position::turn));
        let of_steps = self.steps.filter(|steps| *steps > 0);
        let of_steps = of_steps.map(|steps| before_steps(stream, &|_| 0, |kept, _| kept <= steps));
        let of_tokens =
            self.tokens.map(|most| before_steps(stream, weigh, |_, weight| tokens(weight) <= most));
        let ends = [of_turns, of_steps, of_tokens].into_iter().flatten();
        let ends: Option<Vec<Position>> = ends.collect();
        Some(ends?.into_iter().min_by_key(|end| end.end_key()).unwrap_or(Position::turn(last)))
    }
}

/// Returns the weight of an element, before conversion to tokens.
pub type Weigh<'a> = &'a dyn Fn(usize) -> u64;

/// Returns the position before the newest steps of which all `fit`, by their number and weight. The events of the user in
/// a turn are counted with its first step.
fn before_steps(stream: &Stream, weigh: Weigh<'_>, fit: impl Fn(usize, u64) -> bool) -> Option<Position> {
    let steps = stream.steps();
    let mut weights: Vec<Vec<u64>> = (0..stream.turns()).map(|turn| vec![0; steps.count(turn)]).collect();
    for (element, event) in
        stream.events().iter().enumerate().filter(|(_, event)| event.kind.is_conversation())
    {
        let step = steps.step(element).unwrap_or_default();
        if let Some(weight) = weights[event.turn].get_mut(step) {
            *weight += weigh(element);
        }
    }
    let (mut kept, mut sum) = (0, 0);
    for (turn, weights) in weights.iter().enumerate().rev() {
        for (step, weight) in weights.iter().enumerate().rev() {
            (kept, sum) = (kept + 1, sum + weight);
            if !fit(kept, sum) {
                let is_last = step + 1 == weights.len();
                return Some(if is_last { Position::turn(turn) } else { Position::step(turn, step) });
            }
        }
    }
    None
}

/// The events to keep where the user gave no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Number of turns at the start.
    pub first: usize,
    pub last: KeepLast,
}

impl Keep {
    /// The default (RFD 064, "Configuration").
    pub const DEFAULT: Self = Self { first: 0, last: KeepLast::turns(3) };
}

impl Default for Keep {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl std::fmt::Display for KeepLast {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rules = [
            self.turns.map(|turns| format!("the last {turns} turns")),
            self.steps.map(|steps| format!("the last {steps} steps")),
            self.tokens.map(|tokens| format!("the last {tokens} tokens")),
        ];
        out.write_str(&rules.into_iter().flatten().collect::<Vec<_>>().join(" and "))
    }
}
