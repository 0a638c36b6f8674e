//! The step table: the step of each event. A step is one response of the model, with the results of its calls. User
//! events belong to no step. The table is computed on first use, from the raw events and never from a view.
//!
//! If a format identifies the model's responses, its reader numbers them. Otherwise a step begins with an event of the
//! assistant that follows a result or a user event.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use crate::event::{Event, Kind};
use crate::external::External;
use crate::index::Index;
use crate::text;

/// The response number of an event if its format does not identify responses.
const NO_RESPONSE: u32 = 0;
/// The step of an event that belongs to no step.
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
        let mut current = TurnSteps::default();
        for (element, event) in index.events.iter().enumerate() {
            if event.kind.is_conversation() && event.turn != current.turn {
                current = TurnSteps { turn: event.turn, ..TurnSteps::default() };
            }
            let external_event = external.and_then(|external| external.events.get(element));
            let response = external_event.map_or(NO_RESPONSE, |event| event.response);
            let step = current.add(event, response, index.bytes_at(event.id));
            // Elements outside the conversation begin no step, so they must not set a count.
            if event.kind.is_conversation()
                && let Some(count) = counts.get_mut(event.turn)
            {
                *count = current.count as usize;
            }
            steps.push(step);
        }
        Self { steps, counts }
    }

    /// Returns the step of an element within its turn. `None` for user events, and before the first step of a turn.
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

/// The steps of one turn, up to the last event that was added.
#[derive(Default)]
struct TurnSteps<'a> {
    turn: usize,
    count: u32,
    /// The step of the last event of the assistant. `None` before the first step.
    last: Option<u32>,
    /// Whether the next event of the assistant begins a step, if it has no response number.
    is_ended: bool,
    /// The step of each response number.
    by_response: HashMap<u32, u32>,
    /// The steps of the unanswered calls with each id, in order.
    waiting: HashMap<Cow<'a, [u8]>, VecDeque<u32>>,
}

impl<'a> TurnSteps<'a> {
    /// Adds an event and returns its step.
    fn add(&mut self, event: &Event, response: u32, id: &'a [u8]) -> u32 {
        match event.kind {
            Kind::TurnStart | Kind::ChatRequest => {
                self.is_ended = true;
                NO_STEP
            }
            Kind::ToolResponse { .. } => {
                self.is_ended = true;
                let calls = self.waiting.get_mut(&text::unquote_bytes(id));
                calls.and_then(VecDeque::pop_front).or(self.last).unwrap_or(NO_STEP)
            }
            Kind::Message | Kind::Reasoning | Kind::Data => self.add_output(response),
            Kind::ToolRequest => {
                let step = self.add_output(response);
                self.waiting.entry(text::unquote_bytes(id)).or_default().push_back(step);
                step
            }
            _ => self.last.unwrap_or(NO_STEP),
        }
    }

    /// Adds an event of the assistant and returns its step.
    fn add_output(&mut self, response: u32) -> u32 {
        let known = match response {
            NO_RESPONSE => self.last.filter(|_| !self.is_ended),
            response => self.by_response.get(&response).copied(),
        };
        let step = known.unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        });
        if response != NO_RESPONSE {
            self.by_response.insert(response, step);
        }
        (self.last, self.is_ended) = (Some(step), false);
        step
    }
}
