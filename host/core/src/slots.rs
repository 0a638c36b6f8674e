//! The slots of a stream: the smallest parts that can have different winning overlays. Normally a slot is a turn. If an
//! overlay begins or ends inside a turn, a slot is a step, or the events of a turn that belong to no step.

use crate::event::Event;
use crate::overlay::Overlay;
use crate::position::Position;
use crate::steps::Steps;
use crate::stream::Stream;
use crate::turn::TurnRange;

#[derive(Debug)]
pub(crate) struct Slots<'a> {
    turns: usize,
    /// Present if an overlay begins or ends inside a turn.
    stepped: Option<SteppedSlots<'a>>,
}

#[derive(Debug)]
struct SteppedSlots<'a> {
    steps: &'a Steps,
    /// The first slot of each turn, then the number of slots. The first slot of a turn has the events without a step.
    starts: Vec<usize>,
}

impl<'a> Slots<'a> {
    /// Returns the slots for these overlays.
    pub(crate) fn new(stream: &'a Stream, overlays: &[Overlay]) -> Self {
        let turns = stream.turns();
        if !overlays.iter().any(Overlay::has_steps) {
            return Self { turns, stepped: None };
        }
        let steps = stream.steps();
        let mut starts = Vec::with_capacity(turns + 1);
        let mut next = 0;
        for turn in 0..turns {
            starts.push(next);
            next += 1 + steps.count(turn);
        }
        starts.push(next);
        Self { turns, stepped: Some(SteppedSlots { steps, starts }) }
    }

    pub(crate) fn len(&self) -> usize {
        self.stepped.as_ref().map_or(self.turns, |stepped| stepped.starts[self.turns])
    }

    /// Returns the slot of a conversation event.
    pub(crate) fn slot(&self, event: &Event, element: usize) -> usize {
        match &self.stepped {
            None => event.turn,
            Some(SteppedSlots { steps, starts }) => {
                starts[event.turn] + steps.step(element).map_or(0, |step| step + 1)
            }
        }
    }

    /// Iterates over the slots of a range within the stream, in order.
    pub(crate) fn in_range(&self, range: TurnRange) -> impl Iterator<Item = usize> + use<> {
        let (first, last, excluded) = match &self.stepped {
            None => (range.from(), range.to(), None),
            Some(SteppedSlots { starts, .. }) => {
                let (from, to) = (range.start(), range.end());
                let step_slot =
                    |turn: usize, step: usize| (starts[turn] + step.saturating_add(1)).min(starts[turn + 1]);
                let first = match from.step {
                    Some(step) => step_slot(from.turn, step),
                    None => starts[from.turn] + usize::from(range.cuts(from.turn)),
                };
                let turn_end = starts[to.turn + 1] - 1;
                let last = to.step.map_or(turn_end, |step| step_slot(to.turn, step).min(turn_end));
                // A range that ends at a step does not contain the user events of its last turn.
                (first, last, to.step.map(|_| starts[to.turn]))
            }
        };
        (first..=last).filter(move |slot| Some(*slot) != excluded)
    }

    /// Returns whether `slot` holds a turn's events without a step. Always false if slots are turns.
    pub(crate) fn is_outside_steps(&self, slot: usize) -> bool {
        self.stepped.as_ref().is_some_and(|stepped| stepped.starts.binary_search(&slot).is_ok())
    }

    /// Returns the turn of a slot, and its step if the slot is a step.
    pub(crate) fn position(&self, slot: usize) -> Position {
        let Some(SteppedSlots { starts, .. }) = &self.stepped else { return Position::turn(slot) };
        let turn = starts.partition_point(|start| *start <= slot).saturating_sub(1);
        match slot - starts[turn] {
            0 => Position::turn(turn),
            step => Position::step(turn, step - 1),
        }
    }
}
