//! The folder `events` of `OpenHands`: one file for each event. The name of a file contains the number and the id of
//! the event. The transcript is JSONL with one event in each line.

use std::ffi::{OsStr, OsString};

/// The name of the folder with the files of the events.
pub const FOLDER: &str = "events";
/// The file next to that folder, with the state and the id of the conversation.
pub const STATE: &str = "base_state.json";

/// Returns the files of events in the order of their numbers. Other files, such as locks, are left out.
#[must_use]
pub fn event_files(names: Vec<OsString>) -> Vec<OsString> {
    let mut files: Vec<(u64, OsString)> =
        names.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    files.sort();
    files.into_iter().map(|(_, name)| name).collect()
}

/// Returns the number in the name of an event's file: `event-00001-<id>.json`.
fn number(name: &OsStr) -> Option<u64> {
    let (number, id) = name.to_str()?.strip_prefix("event-")?.strip_suffix(".json")?.split_once('-')?;
    let is_digits = number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_id = id.len() >= 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    number.parse().ok().filter(|_| is_digits && is_id)
}

#[must_use]
pub fn file_name(number: usize, id: &str) -> String {
    format!("event-{number:05}-{id}.json")
}

/// Appends an event as one line. A line break in JSON is white space between values, so it becomes a space.
pub fn append(transcript: &mut Vec<u8>, event: &[u8]) {
    let event = event.trim_ascii();
    transcript.extend(event.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    transcript.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sorted_by_number_and_others_left_out() {
        let id = "eabe6ca0-9c14-4cf5-83f5-7b99b0c0f2ce";
        let event = |number| OsString::from(file_name(number, id));
        let other = [".eventlog.lock", "event-1-abcdefgh.json", "event-00001-x.json", "base_state.json"];
        let mut names = vec![event(100_000), event(2), event(99_999)];
        names.extend(other.map(OsString::from));
        assert_eq!(event_files(names), [event(2), event(99_999), event(100_000)]);
    }

    #[test]
    fn event_becomes_one_line() {
        let mut transcript = Vec::new();
        append(&mut transcript, b"{\n  \"a\": 1\r\n}\n");
        append(&mut transcript, b"{\"b\":2}");
        assert_eq!(transcript, b"{   \"a\": 1  }\n{\"b\":2}\n");
    }
}
