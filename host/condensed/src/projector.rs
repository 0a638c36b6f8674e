//! The projector of transcripts that are read record by record. It writes the same pieces as
//! `jp_compact_core::projection` and `jp_compact_core::source`, but needs only the current record and the record before
//! it.

use std::ops::Range;

use jiff::Timestamp;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::projection::status_line;
use jp_compact_core::splice::{Piece, Pieces, SEPARATOR, pretty};
use jp_compact_core::view::SUMMARY_REQUEST;
use jp_compact_core::{decode, text};

use crate::policies::{CallPolicy, TurnPolicy};
use crate::record::{EventClass, EventRecord};
use crate::tool_names::ToolNames;

/// The number of events after which the pieces are taken.
const EVENTS_OF_BATCH: usize = 1 << 10;

pub(crate) struct Projector<'a> {
    overlays: &'a [Overlay],
    policies: &'a [TurnPolicy],
    /// The encoded status lines of each tool, for success and for failure. Made when first needed.
    status_lines: Vec<[Vec<u8>; 2]>,
    pieces: Pieces,
    events_in_batch: usize,
    /// The policy of the current turn. `next_policy` is the index of the next policy, and `turns` counts the turns so
    /// far.
    policy: TurnPolicy,
    next_policy: usize,
    turns: usize,
    /// The first turn of the last summary that was written.
    shown_summary: Option<usize>,
    /// Offset of the first event.
    first_start: usize,
    /// Offset after the previous event.
    last_end: usize,
    /// Whether the last written element is the previous event. `None` if nothing was written.
    last_written: Option<bool>,
}

impl<'a> Projector<'a> {
    pub(crate) fn new(overlays: &'a [Overlay], policies: &'a [TurnPolicy]) -> Self {
        Self {
            overlays,
            policies,
            status_lines: Vec::new(),
            pieces: Pieces::default(),
            events_in_batch: 0,
            policy: TurnPolicy::default(),
            next_policy: 0,
            turns: 0,
            shown_summary: None,
            first_start: usize::MAX,
            last_end: 0,
            last_written: None,
        }
    }

    /// Adds the next event. `tools` has the tool of its id.
    pub(crate) fn add(&mut self, record: &EventRecord, tools: &ToolNames) {
        self.first_start = self.first_start.min(record.range.start);
        self.events_in_batch += 1;
        if let Some(time) = record.turn_start {
            self.begin_turn(time);
        }
        let was_written = self.write_event(record, tools);
        if !was_written && let Some(is_written) = &mut self.last_written {
            *is_written = false;
        }
        self.last_end = record.range.end;
    }

    /// Returns the number of turns so far.
    pub(crate) fn turns(&self) -> usize {
        self.turns
    }

    /// Returns the pieces since the last call, if they are enough for one write.
    pub(crate) fn batch(&mut self) -> Option<Vec<Piece>> {
        (self.events_in_batch >= EVENTS_OF_BATCH).then(|| {
            self.events_in_batch = 0;
            std::mem::take(&mut self.pieces).into_pieces()
        })
    }

    /// Returns the last pieces. `array_start` is the offset of the opening bracket.
    pub(crate) fn finish(mut self, array_start: usize, size: usize) -> Vec<Piece> {
        if self.last_written.is_none() {
            self.pieces.push_old(0..array_start + 1);
        }
        self.pieces.push_old(self.last_end.max(array_start + 1)..size);
        self.pieces.into_pieces()
    }

    fn begin_turn(&mut self, time: Timestamp) {
        while let Some(policy) = self.policies.get(self.next_policy)
            && policy.from_turn <= self.turns
        {
            self.policy = *policy;
            self.next_policy += 1;
        }
        self.turns += 1;
        if let Some((overlay, first_turn)) = self.policy.summary
            && self.shown_summary.is_none_or(|shown| shown < first_turn)
        {
            self.shown_summary = Some(first_turn);
            let summary = self.overlays[overlay].summary.as_deref().unwrap_or_default();
            for element in [
                decode::head(time, "turn_start"),
                decode::synthetic(time, "chat_request", "content", SUMMARY_REQUEST),
                decode::synthetic(time, "chat_response", "message", summary),
            ] {
                self.separate(None);
                self.pieces.push_new(pretty(&element));
                self.last_written = Some(false);
            }
        }
    }

    /// Writes the event unless it is left out. Returns whether it was written.
    fn write_event(&mut self, record: &EventRecord, tools: &ToolNames) -> bool {
        let policy = self.policy;
        match record.class {
            EventClass::LeftOut => return false,
            EventClass::Other => self.keep(record),
            _ if policy.summary.is_some() => return false,
            EventClass::Reasoning if policy.strips_reasoning => return false,
            EventClass::Request | EventClass::Response { .. } if policy.calls == CallPolicy::Omit => {
                return false;
            }
            EventClass::Request if matches!(policy.calls, CallPolicy::Strip { request: true, .. }) => {
                // Absent arguments are already empty.
                if record.body.is_empty() { self.keep(record) } else { self.patch(record, b"{}") }
            }
            EventClass::Response { failed, id }
                if matches!(policy.calls, CallPolicy::Strip { response: true, .. }) =>
            {
                let line = self.take_status_line(tools, id, failed);
                self.patch(record, &line);
                self.status_lines[tools.tool_of(id)][usize::from(failed)] = line;
            }
            _ => self.keep(record),
        }
        self.last_written = Some(true);
        true
    }

    /// Takes the encoded status line of a response. The caller puts it back, because later responses can reuse it.
    fn take_status_line(&mut self, tools: &ToolNames, id: u32, failed: bool) -> Vec<u8> {
        let tool = tools.tool_of(id);
        if self.status_lines.len() <= tool {
            self.status_lines.resize_with(tools.tools(), Default::default);
        }
        let line = std::mem::take(&mut self.status_lines[tool][usize::from(failed)]);
        if !line.is_empty() {
            return line;
        }
        format!("\"{}\"", text::encode(&status_line(tools.name_of(tool), failed))).into_bytes()
    }

    /// Forgets the tools, because the next events have another table.
    pub(crate) fn forget_tools(&mut self) {
        self.status_lines.clear();
    }

    fn keep(&mut self, record: &EventRecord) {
        self.separate(Some(record));
        self.pieces.push_old(record.range.clone());
    }

    fn patch(&mut self, record: &EventRecord, body: &[u8]) {
        self.separate(Some(record));
        let Range { start, end } = record.range;
        self.pieces.push_old(start..record.body.start);
        self.pieces.copy_new(body);
        self.pieces.push_old(record.body.end..end);
    }

    /// Writes the bytes before an element. `None` is a new element.
    fn separate(&mut self, record: Option<&EventRecord>) {
        match (self.last_written, record) {
            (None, _) => self.pieces.push_old(0..self.first_start),
            (Some(true), Some(record)) => self.pieces.push_old(self.last_end..record.range.start),
            (Some(_), _) => self.pieces.copy_new(SEPARATOR),
        }
    }
}
