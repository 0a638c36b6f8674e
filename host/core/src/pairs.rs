//! The pairs of tool requests and responses. Ids are reused, so a request pairs with the next response that has its id
//! (docs/reference/lint-rules.md, G1 to G3). A request without a response is abandoned when a later turn reuses its id.
//! Without this rule, the abandoned request would take the response of the later request.

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
    /// For each element, the last request with its id.
    last_requests: Vec<Option<usize>>,
    /// The request and response of each call that was answered in a later turn, in the order of the responses.
    cross_turn: Vec<(usize, usize)>,
}

/// The state of one id. Most ids are used once.
#[derive(Default)]
struct IdState {
    /// The first request without a response. `queued` holds the later requests.
    waiting: Option<usize>,
    queued: VecDeque<usize>,
    last_request: Option<usize>,
}

impl Pairs {
    #[must_use]
    pub fn new(stream: &Stream) -> Self {
        let (events, mut cross_turn, mut ids) = (stream.events(), Vec::new(), Vec::<IdState>::new());
        let (mut partners, mut last_requests) = (vec![None; events.len()], vec![None; events.len()]);
        let mut id_indexes: HashMap<Cow<'_, [u8]>, usize> = HashMap::with_capacity(events.len() / 2);
        let mut last_id: Option<(&[u8], usize)> = None;
        for (element, event) in events.iter().enumerate().filter(|(_, event)| event.kind.is_tool()) {
            let id = stream.bytes_at(event.id);
            // A response nearly always comes directly after its request.
            let id_index = match last_id.filter(|(last, _)| *last == id) {
                Some((_, index)) => index,
                None => *id_indexes.entry(text::unquote_bytes(id)).or_insert(ids.len()),
            };
            last_id = Some((id, id_index));
            ids.resize_with(ids.len().max(id_index + 1), IdState::default);
            // Until all requests are known, the entry is an index in `ids`.
            last_requests[element] = Some(id_index);
            let state = &mut ids[id_index];
            if event.kind == Kind::ToolRequest {
                let newest = state.queued.back().copied().or(state.waiting);
                if newest.is_some_and(|request| events[request].turn != event.turn) {
                    state.queued.clear();
                    state.waiting = None;
                }
                match state.waiting {
                    None => state.waiting = Some(element),
                    Some(_) => state.queued.push_back(element),
                }
                state.last_request = Some(element);
            } else if let Some(request) = state.waiting {
                state.waiting = state.queued.pop_front();
                partners[request] = Some(element);
                partners[element] = Some(request);
                if events[request].turn != event.turn {
                    cross_turn.push((request, element));
                }
            }
        }
        for last_request in &mut last_requests {
            *last_request = last_request.and_then(|id_index| ids[id_index].last_request);
        }
        Self { partners, last_requests, cross_turn }
    }

    /// Returns the tool name that JP finds for a request or response: the name in the last request with its id.
    #[must_use]
    pub(crate) fn name_by_id<'a>(&self, stream: &'a Stream, element: usize) -> Option<Cow<'a, str>> {
        let request = self.last_requests.get(element).copied().flatten()?;
        Some(stream.text(stream.events()[request].name))
    }

    /// Returns the other half of a call.
    #[must_use]
    pub fn partner(&self, element: usize) -> Option<usize> {
        self.partners.get(element).copied().flatten()
    }

    /// Returns the tool name of a request or response.
    #[must_use]
    pub fn tool<'a>(&self, stream: &'a Stream, element: usize) -> Option<Cow<'a, str>> {
        let request = match stream.events()[element].kind {
            Kind::ToolRequest => element,
            Kind::ToolResponse { .. } => self.partner(element)?,
            _ => return None,
        };
        Some(stream.text(stream.events()[request].name))
    }

    /// Returns the turns of the request and the response of the first call that `range` would split.
    #[must_use]
    pub fn split_by(&self, stream: &Stream, range: TurnRange) -> Option<(usize, usize)> {
        // Calls within one turn are never split, because both halves are in one step.
        let is_split = |(request, response): &&(usize, usize)| {
            stream.is_in(range, *request) != stream.is_in(range, *response)
        };
        let (request, response) = self.cross_turn.iter().find(is_split)?;
        Some((stream.events()[*request].turn, stream.events()[*response].turn))
    }

    /// Returns a range within `range` that splits no call. It starts after the responses to earlier calls, and ends
    /// before the calls that are answered later. `None` if nothing is left.
    #[must_use]
    pub fn shrink(&self, stream: &Stream, range: TurnRange) -> Option<TurnRange> {
        let mut shrunk = range;
        // The first loop visits the calls in the order of their responses, and only moves the start forward. The second
        // loop visits them in the reverse order of their requests, and only moves the end backward. So each loop needs
        // one pass. The second loop cannot split a call at the start.
        for &(request, response) in &self.cross_turn {
            if !stream.is_in(shrunk, request) && stream.is_in(shrunk, response) {
                let start = position(stream, shrunk, response).after();
                shrunk = TurnRange::between(start, shrunk.end())?;
            }
        }
        let mut by_request = self.cross_turn.clone();
        by_request.sort_unstable_by(|left, right| right.cmp(left));
        for (request, response) in by_request {
            if stream.is_in(shrunk, request) && !stream.is_in(shrunk, response) {
                let end = match position(stream, shrunk, request) {
                    Position { turn, step: None | Some(0) } => Position::turn(turn.checked_sub(1)?),
                    Position { turn, step: Some(step) } => Position::step(turn, step - 1),
                };
                shrunk = TurnRange::between(shrunk.start(), end)?;
            }
        }
        Some(shrunk)
    }
}

/// Returns the turn of an element, or its step if `range` begins or ends inside the turn.
fn position(stream: &Stream, range: TurnRange, element: usize) -> Position {
    let turn = stream.events()[element].turn;
    let step = if range.cuts(turn) { stream.steps().step(element) } else { None };
    Position { turn, step }
}
