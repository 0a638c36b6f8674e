//! The numbers of the model's responses. The events of one response get the same number, wherever they are in the source.

use std::collections::HashMap;

use crate::source_map::ElementRef;

/// The responses so far. Numbers begin at 1.
#[derive(Default)]
pub(crate) struct Responses {
    count: u32,
    numbers: HashMap<Box<[u8]>, u32>,
    /// The last id. The lines of a response nearly always follow each other.
    last_id: Vec<u8>,
    last_number: u32,
    last_record: Option<ElementRef>,
}

impl Responses {
    /// Returns the number of a new response.
    pub(crate) fn next(&mut self) -> u32 {
        self.count += 1;
        self.count
    }

    /// Returns the number of a response by its id, a JSON string. 0 without an id.
    pub(crate) fn by_id(&mut self, id: &[u8]) -> u32 {
        if id.len() <= 2 {
            return 0;
        }
        if self.last_id != id {
            let Self { count, numbers, .. } = self;
            self.last_number = *numbers.entry(id.into()).or_insert_with(|| {
                *count += 1;
                *count
            });
            self.last_id.clear();
            self.last_id.extend_from_slice(id);
        }
        self.last_number
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
