//! The index of a transcript whose bytes arrive in chunks. The chunks do not need to be one slice, so the part that has
//! arrived can be shared with other threads. No chunk is copied, except for elements that begin in one chunk and end in
//! another.

use jp_compact_core::event::Event;
use jp_compact_core::index::Indexer;
use jp_compact_json::Span;

/// The number of bytes that are first copied to complete an element of the chunk before.
const FIRST_COPY_BYTES: usize = 4 << 10;

/// Indexes an `events.json` while its chunks arrive.
#[derive(Default)]
pub struct ChunkIndexer {
    indexer: Indexer,
    /// Offset in the file after the last complete element.
    at: usize,
    /// The bytes from `at` to the end of the last chunk.
    incomplete: Vec<u8>,
}

impl ChunkIndexer {
    /// Scans the next chunk, and returns the events that are complete since the last call.
    pub fn advance(&mut self, chunk: &[u8]) -> &[Event] {
        let known = self.indexer.read_part().0.len();
        let rest = self.complete_element(chunk);
        let end = self.scan(rest);
        self.incomplete.extend_from_slice(&rest[end..]);
        &self.indexer.read_part().0[known..]
    }

    /// Returns the indexer. Its `finish` needs the bytes of the whole file, which begin with all chunks.
    #[must_use]
    pub fn into_indexer(mut self) -> Indexer {
        *self.indexer.read_part().1 = self.at;
        self.indexer
    }

    /// Completes the element that began in an earlier chunk, and returns the rest of the chunk. If the element does not
    /// end in this chunk, the whole chunk becomes a part of it, and the rest is empty.
    fn complete_element<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let mut bytes = std::mem::take(&mut self.incomplete);
        // The number of bytes that precede the chunk, and the number that were copied from it.
        let (mut earlier, mut copied) = (bytes.len(), 0);
        while earlier > 0 && copied < chunk.len() {
            let end = chunk.len().min(copied + copied.max(FIRST_COPY_BYTES));
            bytes.extend_from_slice(&chunk[copied..end]);
            copied = end;
            let scanned = self.scan(&bytes);
            if scanned >= earlier {
                copied = scanned - earlier;
                bytes.clear();
                earlier = 0;
            } else {
                bytes.drain(..scanned);
                earlier -= scanned;
            }
        }
        self.incomplete = bytes;
        &chunk[copied..]
    }

    /// Scans bytes that begin at `at`, and returns the number of bytes of the complete elements.
    fn scan(&mut self, bytes: &[u8]) -> usize {
        let (events, next_at) = self.indexer.read_part();
        let known = events.len();
        *next_at = 0;
        self.indexer.advance(bytes);
        let (events, next_at) = self.indexer.read_part();
        events[known..].iter_mut().for_each(|event| shift(event, self.at));
        self.at += *next_at;
        *next_at
    }
}

/// Adds an offset to the spans of an event.
fn shift(event: &mut Event, offset: usize) {
    let Event { span, id, name, body, .. } = event;
    for span in [span, id, name, body] {
        // An absent member has the default span.
        if !span.is_empty() {
            *span = Span { start: span.start + offset, end: span.end + offset };
        }
    }
}

#[cfg(test)]
mod tests {
    use jp_compact_core::index::index;
    use proptest::prelude::*;

    use super::*;

    /// Returns the number of events that were known before the end.
    #[track_caller]
    fn check(text: &str, sizes: &[usize]) -> usize {
        let mut indexer = ChunkIndexer::default();
        let (mut rest, mut sizes) = (text.as_bytes(), sizes.iter().cycle());
        let mut events = Vec::new();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(rest.len().min(*sizes.next().unwrap_or(&1)));
            events.extend_from_slice(indexer.advance(chunk));
            rest = after;
        }
        let bytes = text.as_bytes().to_vec();
        let (chunked, whole) = (indexer.into_indexer().finish(bytes.clone().into()), index(bytes.into()));
        if let Ok(whole) = &whole {
            let known = &whole.events[..events.len()];
            assert_eq!(format!("{events:?}"), format!("{known:?}"), "{text}");
        }
        assert_eq!(format!("{chunked:?}"), format!("{whole:?}"), "{text}");
        events.len()
    }

    fn element(number: usize, length: usize) -> String {
        let time = "2026-01-01 00:00:00.0";
        let text = "text ".repeat(length);
        match number % 5 {
            0 => format!(r#"{{"timestamp":"{time}","type":"turn_start"}}"#),
            1 => format!(r#"{{"timestamp":"{time}","type":"chat_request","content":"{text}"}}"#),
            2 => format!(
                r#"{{"timestamp":"{time}","type":"tool_call_request","id":"{number}","name":"read","arguments":{{}}}}"#
            ),
            3 => format!(
                r#"{{"timestamp":"{time}","type":"tool_call_response","id":"{number}","content":"{text}","is_error":false}}"#
            ),
            _ => "12 ".to_owned(),
        }
    }

    proptest! {
        #[test]
        fn chunks_do_not_change_the_index(
            elements in prop::collection::vec((0usize..5, prop_oneof![0usize..50, 1000usize..4000]), 0..30),
            sizes in prop::collection::vec(prop_oneof![1usize..30, 4000usize..20_000], 1..5),
            end in prop_oneof![Just("]"), Just(""), Just(" ]\n "), Just("] x"), Just(", {]"), Just(r#", {"type":"chat_request","timestamp":""}]"#)],
        ) {
            let elements: Vec<_> = elements.into_iter().map(|(number, length)| element(number, length)).collect();
            check(&format!(" [\n  {}{end}", elements.join(",\n  ")), &sizes);
        }
    }

    #[test]
    fn long_element_spans_many_chunks() {
        let long = element(1, 100_000);
        check(&format!("[{long},{long},{}]", element(2, 0)), &[70_000]);
        check(&format!("[{long}"), &[1 << 10]);
    }

    #[test]
    fn complete_element_can_precede_a_long_element() {
        let (first, long, short) = (element(1, 2_400), element(1, 8_000), element(3, 5));
        let text = format!("[{first},{long},{}]", vec![short; 500].join(","));
        let end_of_first = format!("[{first},").len();
        assert_eq!(check(&text, &[10_000, 8_000, 200_000]), 502);
        assert_eq!(check(&text, &[10_000, end_of_first - 10_000, 200_000]), 502);
    }
}
