//! A transcript of JP without its texts: the file is scanned once in windows, and only the parts of each event that the
//! projection reads are logged. The pieces of the compacted transcript are ranges of the file and new bytes, and are made
//! one after the other. If the log becomes too large, the events after it are scanned again. So the memory is bounded for
//! a file of any size.
//!
//! Overlays that begin or end inside a turn, and policies for tool calls that JP does not read, depend on more than the
//! winner of each turn. For these, the index of all events stays in memory, and only the texts do not.
//!
//! The module `session` has a log for the sessions of other programs. Their readers add the events to this log.
//!
//! This crate does no input or output: the caller reads the bytes. The interface is not stable.

mod by_event;
mod chunks;
mod collector;
mod holes;
mod id_numbers;
mod policies;
mod projector;
mod record;
mod scan;
mod session;
mod tool_names;

use jp_compact_core::Stream;
use jp_compact_core::event::Kind;
use jp_compact_core::index::Unreadable;
use jp_compact_core::splice::Piece;

use crate::by_event::IndexedEvents;
use crate::collector::FirstScan;
use crate::policies::{TurnPolicy, needs_pairs, strips_responses, turn_policies};
use crate::projector::Projector;
use crate::record::{EventLog, EventRecord};
use crate::scan::{ScanPosition, ScanStep, scan};
use crate::tool_names::ToolNames;
pub use chunks::ChunkIndexer;
pub use id_numbers::IdNumbers;
pub use session::{
    CompactedSession, CondensedSession, LoggedEvent, LoggedLink, SessionLog, can_be_condensed, is_blank,
    long_bytes,
};

/// The maximum sizes of the tables that grow with a transcript.
#[derive(Debug, Clone, Copy)]
pub struct CondensedLimits {
    pub log_bytes: usize,
    /// The number of ids of calls.
    pub ids: usize,
}

impl Default for CondensedLimits {
    /// Enough for more than a million events. Both are just below a size at which the memory doubles.
    fn default() -> Self {
        Self { log_bytes: 15 << 20, ids: 450_000 }
    }
}

/// The size of the end of a file that is searched for overlays. Overlays are usually the last elements.
const END_BYTES: usize = 8 << 10;
/// The end of the types of overlays that JP does not read.
const EXTENDED_OVERLAY: &[u8] = b"_overlay\"";
/// The type of overlays that JP reads.
const JP_OVERLAY: &[u8] = b"\"compaction\"";

/// A transcript without its texts.
pub struct Condensed {
    size: usize,
    is_understood: bool,
    content: Content,
}

enum Content {
    /// There is no overlay and no receipt, so the compacted transcript has the same bytes.
    Whole,
    Logged(Box<Logged>),
    Indexed(Box<IndexedEvents>),
}

/// The events of a transcript whose overlays cover whole turns.
struct Logged {
    limits: CondensedLimits,
    array_start: usize,
    log: EventLog,
    /// The position after the log. `None` if all events are in the log.
    rest: Option<ScanPosition>,
    /// `None` if the table would be too large, or if two ids cannot be told apart.
    tools: Option<ToolNames>,
    overlays: Stream,
    policies: Vec<TurnPolicy>,
}

impl Condensed {
    /// Reads a transcript of `size` bytes. `read` reads bytes at an offset of the file, and returns their number, which
    /// is never 0. The inner error is the same as for the whole bytes.
    ///
    /// If the end of the file has no overlay, `on_unchanged` is called with the bytes of the file, in order, until an
    /// overlay is found. If none is found, these bytes are the compacted transcript.
    ///
    /// # Errors
    /// The errors of `read`.
    pub fn read<E>(
        size: usize,
        limits: CondensedLimits,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
        mut on_unchanged: impl FnMut(&[u8]),
    ) -> Result<Result<Self, Unreadable>, E> {
        let end = read_end(size, &mut read)?;
        if contains(&end, EXTENDED_OVERLAY) {
            return Self::read_index(size, &mut read);
        }
        let seems_unchanged = !contains(&end, JP_OVERLAY);
        let mut collector = FirstScan::new(limits);
        let scanned = scan(ScanPosition::default(), size, &mut read, &mut |step| {
            if let ScanStep::Window(bytes) = step {
                if seems_unchanged && !collector.has_overlays() {
                    on_unchanged(bytes);
                }
            } else {
                collector.visit(step);
            }
            Ok(true)
        })?;
        // The scan never ends early.
        let array_start = match scanned.unwrap_or(Ok(0)) {
            Ok(array_start) => array_start,
            Err(error) => return Ok(Err(error)),
        };
        let is_understood = collector.has_known || collector.elements == 0;
        let overlays = match collector.overlays() {
            Ok(overlays) => overlays,
            Err(error) => return Ok(Err(error)),
        };
        if needs_pairs(&overlays) {
            return Self::read_index(size, &mut read);
        }
        let content = if overlays.events().is_empty() {
            Content::Whole
        } else {
            let policies = turn_policies(overlays.overlays(), collector.turns);
            let FirstScan { log, rest, tools, .. } = collector;
            Content::Logged(Box::new(Logged { limits, array_start, log, rest, tools, overlays, policies }))
        };
        Ok(Ok(Self { size, is_understood, content }))
    }

    fn read_index<E>(
        size: usize,
        read: &mut impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<Result<Self, Unreadable>, E> {
        let events = IndexedEvents::read(size, read)?;
        Ok(events.map(|events| Self {
            size,
            is_understood: events.is_understood(),
            content: Content::Indexed(Box::new(events)),
        }))
    }

    /// Returns whether the file has an event of a known type, or no events.
    #[must_use]
    pub fn is_understood(&self) -> bool {
        self.is_understood
    }

    /// Returns whether the compacted transcript has the same bytes as the file.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        matches!(self.content, Content::Whole)
    }

    /// Makes the compacted transcript, and calls `write` with its next pieces. [`Piece::Old`] is a range of the file.
    /// `read` must read the same bytes as in [`Condensed::read`]. It is called only if the log or the table of tools is
    /// incomplete.
    ///
    /// # Errors
    /// The errors of `read` and `write`.
    pub fn compacted<E>(
        &self,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
        mut write: impl FnMut(&[Piece]) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.content {
            Content::Whole => write(&[Piece::Old(0..self.size)]),
            Content::Logged(logged) => logged.compacted(self.size, &mut read, &mut write),
            Content::Indexed(events) => write(&events.compacted()),
        }
    }
}

/// Reads the end of a file, in which the overlays usually are. The result changes only the time and the memory:
/// without this look, some files would be scanned twice, and others would be copied without need.
fn read_end<E>(size: usize, read: &mut impl FnMut(u64, &mut [u8]) -> Result<usize, E>) -> Result<Vec<u8>, E> {
    let mut end = vec![0; size.min(END_BYTES)];
    if !end.is_empty() {
        let bytes = read((size - end.len()) as u64, &mut end)?;
        end.truncate(bytes);
    }
    Ok(end)
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

impl Logged {
    fn compacted<E>(
        &self,
        size: usize,
        read: &mut impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
        write: &mut impl FnMut(&[Piece]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut projector = Projector::new(self.overlays.overlays(), &self.policies);
        let empty = ToolNames::default();
        match &self.tools {
            None if strips_responses(&self.policies) => {
                self.scan_in_parts(size, &mut projector, read, write)?;
            }
            tools => {
                let tools = tools.as_ref().unwrap_or(&empty);
                for record in self.log.records() {
                    projector.add(&record, tools);
                    projector.batch().map_or(Ok(()), |pieces| write(&pieces))?;
                }
                if let Some(rest) = &self.rest {
                    project_events(rest, size, size, &mut projector, tools, read, write)?;
                }
            }
        }
        write(&projector.finish(self.array_start, size))
    }

    /// Scans the file in parts with a limited number of ids. Before each part, the tools of its ids are searched in the
    /// whole file.
    fn scan_in_parts<E>(
        &self,
        size: usize,
        projector: &mut Projector<'_>,
        read: &mut impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
        write: &mut impl FnMut(&[Piece]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut start = ScanPosition::default();
        loop {
            let (mut tools, mut end) = (ToolNames::default(), None);
            scan(start.clone(), size, read, &mut |step| {
                match step {
                    ScanStep::Event(found) if matches!(found.event.kind, Kind::ToolResponse { .. }) => {
                        tools.add(found.event, found.bytes);
                    }
                    ScanStep::WindowEnd(indexer, at) if tools.is_full(self.limits.ids) => {
                        end = Some(ScanPosition::new(indexer, at));
                    }
                    _ => {}
                }
                Ok(end.is_none())
            })?;
            scan(ScanPosition::default(), size, read, &mut |step| {
                if let ScanStep::Event(found) = step
                    && found.event.kind == Kind::ToolRequest
                {
                    tools.set(found.event, found.bytes);
                }
                Ok(true)
            })?;
            let until = end.as_ref().map_or(size, ScanPosition::at);
            project_events(&start, until, size, projector, &tools, read, write)?;
            projector.forget_tools();
            match end {
                Some(end) => start = end,
                None => return Ok(()),
            }
        }
    }
}

/// Scans the events between `start` and the offset `until`, and writes their pieces.
fn project_events<E>(
    start: &ScanPosition,
    until: usize,
    size: usize,
    projector: &mut Projector<'_>,
    tools: &ToolNames,
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    write: &mut impl FnMut(&[Piece]) -> Result<(), E>,
) -> Result<(), E> {
    scan(start.clone(), size, read, &mut |step| match step {
        ScanStep::Event(found) => {
            let is_response = matches!(found.event.kind, Kind::ToolResponse { .. });
            let id = if is_response { tools.find(found.event, found.bytes) } else { None };
            let record = EventRecord::new(&found, projector.turns(), id.unwrap_or_default());
            if record.range.start < until {
                projector.add(&record, tools);
                projector.batch().map_or(Ok(()), |pieces| write(&pieces))?;
            }
            Ok(true)
        }
        ScanStep::Window(_) => Ok(true),
        ScanStep::WindowEnd(_, at) => Ok(at < until),
    })
    .map(drop)
}
