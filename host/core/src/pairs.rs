//! Which tool request and which response are one call: a call pairs with the next response of its id, for
//! ids are used again (PROVIDER-RULES, G1-G3). A call that was given up pairs with none: once a later turn uses
//! its id again, the answers are to that call, and each would otherwise pair one call too early for ever.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use crate::event::Kind;
use crate::stream::Stream;
use crate::turn::TurnRange;

/// The halves of every tool call.
#[derive(Debug, Clone)]
pub struct Pairs {
    /// The partner of each element.
    partners: Vec<Option<usize>>,
    /// The turns of calls that began in one turn and were answered in a later one.
    across: Vec<(usize, usize)>,
}

impl Pairs {
    /// Pairs the calls of a stream.
    #[must_use]
    pub fn of(stream: &Stream) -> Self {
        let events = stream.events();
        let mut partners = vec![None; events.len()];
        let mut across = Vec::new();
        let mut waiting: HashMap<_, VecDeque<usize>> = HashMap::new();
        for (element, event) in events.iter().enumerate() {
            match event.kind {
                Kind::ToolRequest => {
                    let calls = waiting.entry(stream.text(event.id)).or_default();
                    if calls.back().is_some_and(|call| events[*call].turn != event.turn) {
                        calls.clear();
                    }
                    calls.push_back(element);
                }
                Kind::ToolResponse { .. } => {
                    let request = waiting.get_mut(&stream.text(event.id)).and_then(VecDeque::pop_front);
                    if let Some(request) = request {
                        partners[request] = Some(element);
                        partners[element] = Some(request);
                        if events[request].turn != event.turn {
                            across.push((events[request].turn, event.turn));
                        }
                    }
                }
                _ => {}
            }
        }
        Self { partners, across }
    }

    /// The other half of the call that `element` is a half of.
    #[must_use]
    pub fn partner(&self, element: usize) -> Option<usize> {
        self.partners.get(element).copied().flatten()
    }

    /// The tool of the call that `element` is a half of: its own name, or that of its request.
    #[must_use]
    pub fn tool<'a>(&self, stream: &'a Stream, element: usize) -> Option<Cow<'a, str>> {
        let request = match stream.events()[element].kind {
            Kind::ToolRequest => element,
            Kind::ToolResponse { .. } => self.partner(element)?,
            _ => return None,
        };
        Some(stream.text(stream.events()[request].name))
    }

    /// A call that `range` would split, as the turns of its halves.
    #[must_use]
    pub fn split_by(&self, range: TurnRange) -> Option<(usize, usize)> {
        self.across
            .iter()
            .copied()
            .find(|(request, response)| range.contains(*request) != range.contains(*response))
    }

    /// The greatest range in `range` that splits no call, shrunk from the ends.
    #[must_use]
    pub fn shrink(&self, range: TurnRange) -> Option<TurnRange> {
        let mut shrunk = range;
        while let Some((request, response)) = self.split_by(shrunk) {
            shrunk = if shrunk.contains(response) {
                // The call began before the range: begin behind its answer.
                TurnRange::new(response + 1, shrunk.to())?
            } else {
                TurnRange::new(shrunk.from(), request.checked_sub(1)?)?
            };
        }
        Some(shrunk)
    }
}
