//! Parsing and writing of messages: one JSON object per line. No input or output happens here.

use serde::Serialize;
use serde::de::{DeserializeOwned, Error};

/// Parses one message from one line, with or without its line end.
///
/// # Errors
///
/// The line is not a JSON object, or not an object of this type.
pub fn from_line<T: DeserializeOwned>(line: &[u8]) -> serde_json::Result<T> {
    // Serde's derive would also accept an array.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(serde_json::Error::custom("a message must be a JSON object"));
    }
    serde_json::from_slice(line)
}

/// The initial capacity. Most lines are shorter.
const LINE_BYTES: usize = 2 << 10;

/// Serializes one message to one line, with a line end.
///
/// # Errors
///
/// The value cannot be serialized to JSON. This does not happen with the types of this crate.
pub fn to_line<T: Serialize>(message: &T) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(LINE_BYTES);
    serde_json::to_writer(&mut line, message)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventsEnd;

    #[test]
    fn message_is_written_as_one_line_and_parsed_again() {
        let end = EventsEnd::new("c1", 3);
        let line = to_line(&end).unwrap();
        assert_eq!(line, b"{\"type\":\"events_end\",\"id\":\"c1\",\"count\":3}\n");
        assert_eq!(from_line::<EventsEnd>(&line).unwrap(), end);
    }

    #[test]
    fn accepts_crlf() {
        assert!(from_line::<EventsEnd>(b"{\"type\":\"events_end\",\"id\":\"c1\",\"count\":3}\r\n").is_ok());
    }

    #[test]
    fn rejects_arrays() {
        assert!(from_line::<EventsEnd>(b"[\"events_end\",\"c1\",3]").is_err());
    }
}
