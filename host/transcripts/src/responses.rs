//! The numbers of the model's responses. The events of one response get the same number, wherever they are in the source.

use std::collections::HashMap;

use bytes::Bytes;
use jp_compact_json::Span;

use crate::source_map::ElementRef;

/// The responses so far. Numbers begin at 1.
#[derive(Default)]
pub(crate) struct Responses {
    count: u32,
    numbers: HashMap<Bytes, u32>,
    /// The span of the last id. The lines of a response nearly always follow each other.
    last_id: Option<(Span, u32)>,
    last_record: Option<ElementRef>,
}

impl Responses {
    /// Returns the number of a new response.
    pub(crate) fn next(&mut self) -> u32 {
        self.count += 1;
        self.count
    }

    /// Returns the number of a response by its id, a JSON string of the source. 0 without an id.
    pub(crate) fn by_id(&mut self, source: &Bytes, id: Span) -> u32 {
        let raw = id.slice(source);
        if raw.len() <= 2 {
            return 0;
        }
        if let Some((last, number)) = self.last_id
            && last.slice(source) == raw
        {
            return number;
        }
        let Self { count, numbers, .. } = self;
        let number = *numbers.entry(source.slice(id.start..id.end)).or_insert_with(|| {
            *count += 1;
            *count
        });
        self.last_id = Some((id, number));
        number
    }

    /// Returns the number of a record's response. It is used for records whose events follow each other.
    pub(crate) fn by_record(&mut self, record: ElementRef) -> u32 {
        if self.last_record != Some(record) {
            self.last_record = Some(record);
            self.count += 1;
        }
        self.count
    }
}
