//! The parts of a conversation that a run keeps: whole turns at the start, and turns, steps, or tokens at the end.

use crate::estimate::tokens;
use crate::position::Position;
use crate::stream::Stream;

/// The rules for the events to keep at the end. An event is kept if at least one rule keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepLast {
    /// The number of newest turns.
    pub turns: Option<usize>,
    /// The number of newest steps, whichever turns they are in.
    pub steps: Option<usize>,
    /// The number of tokens that the newest steps may have together.
    pub tokens: Option<u64>,
}

impl KeepLast {
    /// Keeps the newest turns only.
    #[must_use]
    pub const fn turns(turns: usize) -> Self {
        Self { turns: Some(turns), steps: None, tokens: None }
    }

    /// Returns whether there is no rule.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Returns these rules, or `fallback` if there are none. The two are never combined.
    #[must_use]
    pub fn or(self, fallback: Self) -> Self {
        if self.is_empty() { fallback } else { self }
    }

    /// Returns the last position that no rule keeps. `None` if everything is kept.
    pub(crate) fn end(self, stream: &Stream, weight_of: WeightFn<'_>) -> Option<Position> {
        let last = stream.turns().checked_sub(1)?;
        let mut ends = vec![Position::turn(last)];
        if let Some(turns) = self.turns {
            ends.push(Position::turn(last.checked_sub(turns)?));
        }
        if let Some(steps_max) = self.steps.filter(|steps| *steps > 0) {
            ends.push(end_before_steps(stream, &|_| 0, |steps, _| steps <= steps_max)?);
        }
        if let Some(tokens_max) = self.tokens {
            ends.push(end_before_steps(stream, weight_of, |_, weight| tokens(weight) <= tokens_max)?);
        }
        ends.into_iter().min_by_key(|end| end.end_key())
    }
}

/// A function from an element to its weight. Weights are added up before they are converted to tokens.
pub type WeightFn<'a> = &'a dyn Fn(usize) -> u64;

/// Returns the position of the newest step that is not kept. If the step is the last step of its turn, the position is
/// the whole turn. `is_kept` gets the number of steps from a step to the end, and their weight. A turn's first step
/// includes the weight of the user's events.
fn end_before_steps(
    stream: &Stream,
    weight_of: WeightFn<'_>,
    is_kept: impl Fn(usize, u64) -> bool,
) -> Option<Position> {
    let steps = stream.steps();
    let mut weights: Vec<Vec<u64>> = (0..stream.turns()).map(|turn| vec![0; steps.count(turn)]).collect();
    for (element, event) in stream.events().iter().enumerate() {
        if event.kind.is_conversation()
            && let Some(weight) = weights[event.turn].get_mut(steps.step(element).unwrap_or_default())
        {
            *weight += weight_of(element);
        }
    }
    let (mut count, mut sum) = (0, 0);
    for (turn, turn_weights) in weights.iter().enumerate().rev() {
        for (step, weight) in turn_weights.iter().enumerate().rev() {
            count += 1;
            sum += weight;
            if !is_kept(count, sum) {
                let is_last = step + 1 == turn_weights.len();
                return Some(if is_last { Position::turn(turn) } else { Position::step(turn, step) });
            }
        }
    }
    None
}

/// The defaults: the events to keep at an end of the conversation if the user gave no bound for that end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// The number of oldest turns.
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

impl std::fmt::Display for Keep {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = |count: usize| Some(count as u64).filter(|count| *count > 0);
        let rules = [
            ("first", count(self.first), "turn"),
            ("last", self.last.turns.and_then(count), "turn"),
            ("last", self.last.steps.and_then(count), "step"),
            ("last", self.last.tokens.filter(|tokens| *tokens > 0), "token"),
        ];
        let texts = rules.into_iter().filter_map(|(end, count, noun)| match count? {
            1 => Some(format!("the {end} {noun}")),
            count => Some(format!("the {end} {count} {noun}s")),
        });
        out.write_str(&texts.collect::<Vec<_>>().join(" and "))
    }
}
