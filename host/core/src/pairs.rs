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
    /// The turns of calls that began in one turn and were answered in a later one, in the order of the answers.
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

    /// A range in `range` that splits no call: begun behind the answers to calls from before it, ended before
    /// the calls that are answered behind it. None when nothing is left.
    #[must_use]
    pub fn shrink(&self, range: TurnRange) -> Option<TurnRange> {
        let mut shrunk = range;
        // In these orders one pass moves each end over all calls, and neither end's move splits more at the
        // other.
        for &(request, response) in &self.across {
            if request < shrunk.from() && shrunk.contains(response) {
                shrunk = TurnRange::new(response + 1, shrunk.to())?;
            }
        }
        let mut by_request = self.across.clone();
        by_request.sort_unstable_by(|left, right| right.cmp(left));
        for (request, response) in by_request {
            if shrunk.contains(request) && response > shrunk.to() {
                shrunk = TurnRange::new(shrunk.from(), request.checked_sub(1)?)?;
            }
        }
        Some(shrunk)
    }
}
