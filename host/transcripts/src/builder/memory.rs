//! The bytes of a source that stay in memory when it is read in windows: those that the projection and the write-back
//! read. These are names and ids, blank texts, and values that may be too short for their replacement. Of other values,
//! the write-back reads only the positions.

use jp_compact_condensed::{LoggedEvent, SessionLog, is_blank, long_bytes};
use jp_compact_core::event::{Event, Kind};
use jp_compact_core::external::ExternalEvent;
use jp_compact_core::index::{ElementCounter, Unreadable};
use jp_compact_json::Span;

use super::EventBuilder;
use crate::source_map::{Deletion, ElementRef, EventSource};

/// The events and links that were selected so far, and the spans that stay.
#[derive(Default)]
pub(super) struct MemoryPlan {
    /// The number of events whose spans are selected.
    events: usize,
    count: ElementCounter,
    links: usize,
    /// The size of the longest name of a tool.
    name_bytes: usize,
    spans: Vec<Span>,
}

impl EventBuilder {
    /// Keeps a value of the source in memory.
    pub(crate) fn keep(&mut self, span: Span) {
        if self.source.is_in_windows() {
            self.memory.spans.push(span);
        }
    }

    /// Goes on to the next window of the source.
    pub(super) fn leave_window(&mut self) -> Result<(), Unreadable> {
        if self.source.is_in_windows() {
            let mut plan = std::mem::take(&mut self.memory);
            for event in &self.events[plan.events.min(self.events.len())..] {
                self.source.report_event(plan.count.turn(event.kind), event.span);
            }
            match self.log.take() {
                Some(mut log) => {
                    self.move_into(&mut log);
                    self.log = Some(log);
                }
                None => plan.select(self),
            }
            plan.spans.retain(|span| !span.is_empty() && span.end <= self.source.size());
            plan.spans.sort_unstable_by_key(|span| span.start);
            plan.spans.drain(..).for_each(|span| self.source.keep(span));
            self.memory = plan;
        }
        self.source.go_on()
    }

    /// Moves the lines and events of the window into the log.
    fn move_into(&mut self, log: &mut SessionLog) {
        self.map.lists.drain(1..).for_each(|list| log.add_list(&list.elements));
        self.map.lists[0].elements.drain(..).for_each(|line| log.add_line(line));
        let parts = self.events.iter().zip(&self.external).zip(&self.map.sources);
        for ((event, external), EventSource { record, deletion, .. }) in parts {
            let block = match deletion {
                Deletion::Element(ElementRef { list, element }) => Some((list - 1, *element)),
                _ => None,
            };
            let line = record.map(|record| record.element);
            log.add(&LoggedEvent { event, external, line, block }, self.size(), |span| self.raw(span));
        }
        log.end_window();
        self.events.clear();
        self.external.clear();
        self.map.sources.clear();
        self.appended.clear();
    }
}

impl MemoryPlan {
    /// Selects the spans of the events and links since the last call.
    fn select(&mut self, builder: &EventBuilder) {
        let first = self.events.min(builder.events.len());
        for link in &builder.map.links[self.links..] {
            self.spans.push(link.id);
            // If `previous` is set, the `id` of that link equals `parent`, and is selected already.
            if link.previous.is_none() {
                self.spans.push(link.parent);
            }
        }
        for (event, external) in builder.events[first..].iter().zip(&builder.external[first..]) {
            self.spans.extend([event.id, event.name]);
            self.name_bytes = self.name_bytes.max(event.name.len());
            self.select_texts(builder, event, external);
        }
        (self.events, self.links) = (builder.events.len(), builder.map.links.len());
    }

    fn select_texts(&mut self, builder: &EventBuilder, event: &Event, external: &ExternalEvent) {
        match event.kind {
            Kind::Message => self.spans.extend(Some(event.body).filter(|body| is_blank(builder.raw(*body)))),
            Kind::ToolRequest | Kind::ToolResponse { .. } => {
                // If a later name is longer, the missing bytes are noticed when they are read.
                let long_bytes = long_bytes(event.kind == Kind::ToolRequest, self.name_bytes);
                let edits = external.edits.iter().map(|edit| edit.span);
                if edits.clone().map(Span::len).sum::<usize>() <= long_bytes * edits.len().div_ceil(2) {
                    self.spans.extend(edits);
                }
                if event.body.len() <= long_bytes && event.kind != Kind::ToolRequest {
                    self.spans.push(event.body);
                }
            }
            _ => {}
        }
    }
}
