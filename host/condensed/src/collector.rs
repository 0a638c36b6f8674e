//! The first scan of a transcript: its overlays, the log of its events, and the tool of each id.

use jp_compact_core::Stream;
use jp_compact_core::event::{Event, Kind};
use jp_compact_core::index::{Index, Unreadable};
use jp_compact_json::Span;

use crate::CondensedLimits;
use crate::record::{EventLog, EventRecord, is_left_out};
use crate::scan::{ScanPosition, ScanStep, ScannedEvent};
use crate::tool_names::ToolNames;

/// The collected parts. The log ends where it reaches its limit. A table of tools that reaches its
/// limit is dropped.
pub(crate) struct FirstScan {
    limits: CondensedLimits,
    pub(crate) log: EventLog,
    /// The position after the log. `None` if all events are in the log.
    pub(crate) rest: Option<ScanPosition>,
    /// `None` if the table would be too large, or if two ids cannot be told apart.
    pub(crate) tools: Option<ToolNames>,
    pub(crate) turns: usize,
    pub(crate) elements: usize,
    /// Whether an element has a known type.
    pub(crate) has_known: bool,
    overlays: LeftOut,
}

/// The overlays and receipts.
#[derive(Default)]
struct LeftOut {
    bytes: Vec<u8>,
    /// The spans are positions in `bytes`.
    events: Vec<Event>,
    /// The element of each of these events, and its offset in the file.
    places: Vec<(usize, usize)>,
}

impl FirstScan {
    pub(crate) fn new(limits: CondensedLimits) -> Self {
        Self {
            limits,
            log: EventLog::default(),
            rest: None,
            tools: Some(ToolNames::default()),
            turns: 0,
            elements: 0,
            has_known: false,
            overlays: LeftOut::default(),
        }
    }

    pub(crate) fn visit(&mut self, step: ScanStep<'_>) {
        match step {
            ScanStep::Event(found) => self.add(&found),
            ScanStep::WindowEnd(indexer, at) => {
                if self.rest.is_none() && self.log.memory() > self.limits.log_bytes {
                    self.rest = Some(ScanPosition::new(indexer, at));
                }
                self.tools.take_if(|tools| tools.is_full(self.limits.ids) || tools.has_collided());
            }
            ScanStep::Window(_) => {}
        }
    }

    /// Returns whether an overlay or a receipt was found.
    pub(crate) fn has_overlays(&self) -> bool {
        !self.overlays.events.is_empty()
    }

    fn add(&mut self, found: &ScannedEvent<'_>) {
        let event = found.event;
        self.has_known |= event.kind != Kind::Unknown;
        let tools = self.tools.as_mut().filter(|_| event.kind.is_tool());
        let id = tools.map_or(0, |tools| tools.add(event, found.bytes));
        let record = EventRecord::new(found, self.turns, id);
        self.turns += usize::from(record.turn_start.is_some());
        if is_left_out(event) {
            let start = self.overlays.bytes.len();
            self.overlays.bytes.extend_from_slice(event.span.slice(found.bytes));
            let span = Span { start, end: self.overlays.bytes.len() };
            self.overlays.events.push(Event { span, ..*event });
            self.overlays.places.push((self.elements, record.range.start));
        }
        self.elements += 1;
        if self.rest.is_none() {
            self.log.push(&record);
        }
    }

    /// Returns a stream of the overlays and receipts only.
    pub(crate) fn overlays(&mut self) -> Result<Stream, Unreadable> {
        let LeftOut { bytes, events, places } = std::mem::take(&mut self.overlays);
        Stream::from_index(Index::from_events(bytes.into(), Default::default(), events)).map_err(|error| {
            let (element, offset) = places[error.element.unwrap_or_default()];
            Unreadable { offset, element: Some(element), ..error }
        })
    }
}
