//! Events that a reader of another format supplies. The core knows four things about such an event: the values in the
//! file that can be replaced, the metadata and the signature that must be sent back to its provider, and the response
//! of the model that it belongs to.
//!
//! The core must not know any format of another program. The reader has all other knowledge about the file.

use serde_json::Value;

use crate::index::Index;
pub use jp_compact_json::EditSite;
use jp_compact_json::Span;

/// The events of a file that JP did not write.
#[derive(Debug, Clone, Default)]
pub struct External {
    /// The name of the format, as in requests to strategies.
    pub format: &'static str,
    /// One entry per event of the file, in the order of the index.
    pub events: Vec<ExternalEvent>,
}

/// The parts of an event that the index does not hold.
#[derive(Debug, Clone)]
pub struct ExternalEvent {
    /// The values to replace when arguments are emptied or content is stripped.
    pub edits: Box<[EditSite]>,
    /// An object that must be sent back to the provider with the event, with JP's member names. Empty if there is none.
    pub metadata: Span,
    /// A string of the file that must be sent back to the provider with the event, and JP's member name for it.
    pub signature: Option<Box<(&'static str, Span)>>,
    /// The number of the model's response that it belongs to, from 1. 0 if the format does not distinguish responses.
    pub response: u32,
}

/// The maximum number of bytes of an escape (`\u0041`) for one byte of text.
const ESCAPE_BYTES_MAX: usize = 6;

impl ExternalEvent {
    /// Returns whether `text` is at most as long as the values that it replaces. White space and unneeded escapes in
    /// the file do not count.
    pub(crate) fn can_hold(&self, text: &str, index: &Index) -> bool {
        let new_bytes: usize = self.edits.iter().map(|edit| (edit.write)(text).len()).sum();
        let raw_bytes: usize = self.edits.iter().map(|edit| edit.span.len()).sum();
        if raw_bytes > ESCAPE_BYTES_MAX * new_bytes {
            return true;
        }
        let old_bytes: usize = self.edits.iter().map(|edit| compact_len(index.bytes_at(edit.span))).sum();
        new_bytes <= old_bytes
    }
}

/// Returns the length of a JSON value without white space and unneeded escapes. Bytes that are not a whole value count
/// with their full length.
#[must_use]
pub fn compact_len(raw: &[u8]) -> usize {
    let value: Option<Value> = serde_json::from_slice(raw).ok();
    value.map_or(raw.len(), |value| value.to_string().len()).min(raw.len())
}
