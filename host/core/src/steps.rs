//! The step table: the step of each event. A step is one response of the model and the results that answer it. User
//! events belong to no step. The table is computed from the events alone, on first use, and never from a view.
//!
//! A reader marks the events of one response where its format tells responses apart. Without marks, an event of the
//! assistant that follows a result or a user event begins a step.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use crate::event::{Event, Kind};
use crate::external::External;
use crate::index::Index;
use crate::text;

/// The mark of an event without one.
const UNMARKED: u32 = 0;
/// The step of an event that belongs to none.
const NO_STEP: u32 = u32::MAX;

#[derive(Debug, Clone)]
pub struct Steps {
    /// The step of each element, or [`NO_STEP`].
    steps: Vec<u32>,
    /// The number of steps of each turn.
    counts: Vec<usize>,
}

impl Steps {
    #[must_use]
    pub fn new(index: &Index, external: Option<&External>) -> Self {
        let mut counts = vec![0; index.turns];
        let mut steps: Vec<u32> = Vec::with_capacity(index.events.len());
        let mut turn = TurnSteps::default();
        for (element, event) in index.events.iter().enumerate() {
            if event.kind.is_conversation() && event.turn != turn.turn {
                turn = TurnSteps { turn: event.turn, ..TurnSteps::default() };
            }
            let mark = external.and_then(|external| external.events.get(element));
            let step = turn.step(event, mark.map_or(UNMARKED, |mark| mark.response), index.at(event.id));
            if let Some(count) = counts.get_mut(event.turn) {
                *count = turn.count as usize;
            }
            steps.push(step);
        }
        Self { steps, counts }
    }

    /// Returns the step of an element within its turn. `None` for user events.
    #[must_use]
    pub fn step(&self, element: usize) -> Option<usize> {
        self.steps.get(element).copied().filter(|step| *step != NO_STEP).map(|step| step as usize)
    }

    /// Returns the number of steps of a turn.
    #[must_use]
    pub fn count(&self, turn: usize) -> usize {
        self.counts.get(turn).copied().unwrap_or_default()
    }

    /// Returns the number of steps of the conversation.
    #[must_use]
    pub fn total(&self) -> usize {
        self.counts.iter().sum()
    }
}

/// The steps of a turn so far.
#[derive(Default)]
struct TurnSteps<'a> {
    turn: usize,
    count: u32,
    /// The step of the last event. `None` before the first step.
    current: Option<u32>,
    /// Whether the next event of the assistant without a mark begins a step.
    ended: bool,
    marked: HashMap<u32, u32>,
    /// The steps of the unanswered calls with an id.
    waiting: HashMap<Cow<'a, [u8]>, VecDeque<u32>>,
}

impl<'a> TurnSteps<'a> {
    fn step(&mut self, event: &Event, mark: u32, id: &'a [u8]) -> u32 {
        match event.kind {
            Kind::TurnStart | Kind::ChatRequest => {
                self.ended = true;
                NO_STEP
            }
            Kind::ToolResponse { .. } => {
                self.ended = true;
                let calls = self.waiting.get_mut(&text::unquote_bytes(id));
                calls.and_then(VecDeque::pop_front).or(self.current).unwrap_or(NO_STEP)
            }
            Kind::Message | Kind::Reasoning | Kind::Data => self.of_model(mark),
            Kind::ToolRequest => {
                let step = self.of_model(mark);
                self.waiting.entry(text::unquote_bytes(id)).or_default().push_back(step);
                step
            }
            _ => self.current.unwrap_or(NO_STEP),
        }
    }

    fn of_model(&mut self, mark: u32) -> u32 {
        let known = match mark {
            UNMARKED => self.current.filter(|_| !self.ended),
            mark => self.marked.get(&mark).copied(),
        };
        let step = known.unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        });
        if mark != UNMARKED {
            self.marked.insert(mark, step);
        }
        (self.current, self.ended) = (Some(step), false);
        step
    }
}
