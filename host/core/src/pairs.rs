//! The pairs of tool requests and responses. Ids are reused, so a request pairs with the next response that has its id
//! (docs/reference/lint-rules.md, G1 to G3). A request without a response is abandoned when a later turn reuses its id.
//! Without this rule, the abandoned request would take the response of the later one.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use crate::event::Kind;
use crate::position::Position;
use crate::stream::Stream;
use crate::text;
use crate::turn::TurnRange;

#[derive(Debug, Clone)]
pub struct Pairs {
    /// The partner of each element.
    partners: Vec<Option<usize>>,
    /// The last request with the id of each element.
    namesakes: Vec<Option<usize>>,
    /// The halves of calls that were answered in a later turn, in the order of the responses.
    cross_turn: Vec<(usize, usize)>,
}

/// The state of one id. Most ids are used once.
#[derive(Default)]
struct Calls {
    /// The first request without a response; `queued` holds the next ones.
    waiting: Option<usize>,
    queued: VecDeque<usize>,
    last: Option<usize>,
}

impl Pairs {
    #[must_use]
    pub fn new(stream: &Stream) -> Self {
        let events = stream.events();
        let mut partners = vec![None; events.len()];
        let mut namesakes = vec![None; events.len()];
        let mut cross_turn = Vec::new();
        let mut ids: Vec<Calls> = Vec::new();
        let mut id_indexes: HashMap<Cow<'_, [u8]>, usize> = HashMap::with_capacity(events.len() / 4);
        for (element, event) in events.iter().enumerate().filter(|(_, event)| event.kind.is_tool()) {
            let id_index = *id_indexes.entry(text::unquote_bytes(stream.at(event.id))).or_insert(ids.len());
            if id_index == ids.len() {
                ids.push(Calls::default());
            }
            // Temporarily the index in `ids`, until all requests are known.
            namesakes[element] = Some(id_index);
            let calls = &mut ids[id_index];
            if event.kind == Kind::ToolRequest {
                let newest = calls.queued.back().copied().or(calls.waiting);
                if newest.is_some_and(|call| events[call].turn != event.turn) {
                    calls.queued.clear();
                    calls.waiting = None;
                }
                match calls.waiting {
                    None => calls.waiting = Some(element),
                    Some(_) => calls.queued.push_back(element),
                }
                calls.last = Some(element);
            } else if let Some(request) = calls.waiting {
                calls.waiting = calls.queued.pop_front();
                partners[request] = Some(element);
                partners[element] = Some(request);
                if events[request].turn != event.turn {
                    cross_turn.push((request, element));
                }
            }
        }
        for namesake in &mut namesakes {
            *namesake = namesake.and_then(|id_index| ids[id_index].last);
        }
        Self { partners, namesakes, cross_turn }
    }

    /// Returns the tool name that JP finds for a request or response: the name in the last request with its id.
    #[must_use]
    pub(crate) fn name_by_id<'a>(&self, stream: &'a Stream, element: usize) -> Option<Cow<'a, str>> {
        let request = self.namesakes.get(element).copied().flatten()?;
        Some(stream.text(stream.events()[request].name))
    }

    /// Returns the other half of a call.
    #[must_use]
    pub fn partner(&self, element: usize) -> Option<usize> {
        self.partners.get(element).copied().flatten()
    }

    /// Returns the tool of a half of a call: its own name, or its request's.
    #[must_use]
    pub fn tool<'a>(&self, stream: &'a Stream, element: usize) -> Option<Cow<'a, str>> {
        let request = match stream.events()[element].kind {
            Kind::ToolRequest => element,
            Kind::ToolResponse { .. } => self.partner(element)?,
            _ => return None,
        };
        Some(stream.text(stream.events()[request].name))
    }

    /// Returns the turns of the two halves of a call that `range` would split.
    #[must_use]
    pub fn split_by(&self, stream: &Stream, range: TurnRange) -> Option<(usize, usize)> {
        // Both halves of a call within a turn are in one step.
        let is_split = |(request, response): &&(usize, usize)| {
            stream.is_in(range, *request) != stream.is_in(range, *response)
        };
        let split = self.cross_turn.iter().find(is_split);
        split.map(|(request, response)| (stream.events()[*request].turn, stream.events()[*response].turn))
    }

    /// Returns a range within `range` that splits no call. It starts after the responses to earlier calls, and ends
    /// before the calls that are answered later. `None` if nothing is left.
    #[must_use]
    pub fn shrink(&self, stream: &Stream, range: TurnRange) -> Option<TurnRange> {
        let mut shrunk = range;
        // The pairs are sorted by the moved end, so one pass for each end is enough. Moving the end splits no further
        // call at the start.
        for &(request, response) in &self.cross_turn {
            if !stream.is_in(shrunk, request) && stream.is_in(shrunk, response) {
                let after = position(stream, shrunk, response).after();
                shrunk = TurnRange::between(after, shrunk.end())?;
            }
        }
        let mut by_request = self.cross_turn.clone();
        by_request.sort_unstable_by(|left, right| right.cmp(left));
        for (request, response) in by_request {
            if stream.is_in(shrunk, request) && !stream.is_in(shrunk, response) {
                let to = match position(stream, shrunk, request) {
                    Position { turn, step: None | Some(0) } => Position::turn(turn.checked_sub(1)?),
                    Position { turn, step: Some(step) } => Position::step(turn, step - 1),
                };
                shrunk = TurnRange::between(shrunk.start(), to)?;
            }
        }
        Some(shrunk)
    }
}

/// Returns the turn of an element of a range, or its step if the range cuts the turn.
fn position(stream: &Stream, range: TurnRange, element: usize) -> Position {
    let turn = stream.events()[element].turn;
    let step = if range.cuts(turn) { stream.steps().step(element) } else { None };
    Position { turn, step }
}
