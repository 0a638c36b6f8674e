//! The numbers of the model's responses. The events of one response get the same number, wherever they are in the source.

use jp_compact_condensed::IdNumbers;

use crate::source_map::ElementRef;

/// The responses so far. Numbers begin at 1.
#[derive(Default)]
pub(crate) struct Responses {
    count: u32,
    numbers: IdNumbers,
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
        let number = self.numbers.number(id, self.count + 1);
        self.count = self.count.max(number);
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
