//! Large transcripts: the compacted bytes are the same as after a complete read, and a change during the print is an
//! error.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::Write as _;

use jp_compact_core::projection::project;
use jp_compact_core::splice::Piece;
use jp_compact_core::splice::concat;
use jp_compact_core::{Stream, source};
use jp_compact_store::{
    LargeTranscript, Place, RangePart, StoreError, StoreErrorKind, open_large, read_large,
};
use serde_json::json;

use crate::world::{ID, World, names, set_age};

/// Returns a transcript of more than 4 MiB. Some kept texts are longer than a window, and some are shorter. An overlay
/// strips one of the two turns.
fn transcript() -> Vec<u8> {
    let mut second = 0;
    let mut event = |members: serde_json::Value| {
        second += 1;
        let mut event = json!({"timestamp": format!("2026-04-02 09:00:{second:02}")});
        event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        event
    };
    let mut events = Vec::new();
    for (turn, size) in [(0, 900_000), (1, 20_000)] {
        let id = format!("call{turn}");
        events.extend([
            event(json!({"type": "turn_start"})),
            event(json!({"type": "chat_request", "content": "caf\u{e9}\n".repeat(size / 6)})),
            event(json!({"type": "chat_response", "reasoning": "why ".repeat(size / 4)})),
            event(json!({"type": "tool_call_request", "id": id, "name": "read", "arguments": {"path": "YQ=="}})),
            event(json!({"type": "tool_call_response", "id": id, "is_error": false, "content": "QUJD".repeat(size)})),
            event(json!({"type": "chat_response", "message": "Done."})),
        ]);
    }
    let strip = json!({"policy": "strip", "request": true, "response": true});
    events.push(event(json!({"type": "compaction", "from_turn": 1, "to_turn": 1, "tool_calls": strip, "reasoning": "strip"})));
    serde_json::to_vec_pretty(&events).unwrap()
}

fn compacted(bytes: &[u8]) -> Vec<u8> {
    let stream = Stream::parse(bytes.to_vec().into()).unwrap();
    concat(&source::render(&stream, &project(&stream)), bytes)
}

/// Writes the transcript and reads it.
fn read_new(world: &World, bytes: &[u8]) -> (Place, LargeTranscript) {
    world.in_workspace(ID, bytes, 10);
    let place = world.locate(ID).unwrap();
    let large = read_large(&place, None).unwrap().unwrap().unwrap();
    (place, large)
}

#[test]
fn compacted_bytes_are_the_same_as_after_a_complete_read() {
    let (world, bytes) = (World::new(), transcript());
    let (_, large) = read_new(&world, &bytes);
    assert!(large.is_understood());
    let (path, expected) = (world.path("out.json"), compacted(&bytes));
    large.write_new(&path).unwrap();
    assert!(fs::read(&path).unwrap() == expected);
    large.write_compacted(&File::create(&path).unwrap()).unwrap();
    assert!(fs::read(&path).unwrap() == expected);
    large.check_unchanged().unwrap();
    let error = large.write_new(&path).unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
}

#[test]
fn replaced_transcript_is_printed_from_the_open_file() {
    let (world, bytes) = (World::new(), transcript());
    let (place, large) = read_new(&world, &bytes);
    fs::write(world.path("new.json"), "[]").unwrap();
    fs::rename(world.path("new.json"), place.path()).unwrap();
    large.write_new(&world.path("out.json")).unwrap();
    assert!(fs::read(world.path("out.json")).unwrap() == compacted(&bytes));
}

/// Changes the transcript after it was read. The print must fail and leave no file.
#[track_caller]
fn check_changed(change: impl FnOnce(&File), how: &str) {
    let world = World::new();
    let (place, large) = read_new(&world, &transcript());
    change(&OpenOptions::new().append(true).open(place.path()).unwrap());
    fs::create_dir(world.path("folder")).unwrap();
    let error = large.write_new(&world.path("folder/out.json")).unwrap_err();
    assert!(matches!(error, StoreError::Changed { how: found, .. } if found == how), "{error}");
    assert_eq!(error.kind(), StoreErrorKind::Conflict);
    assert!(names(&world.path("folder")).is_empty());
    let _ = large.write_compacted(&File::create(world.path("out.json")).unwrap());
    large.check_unchanged().unwrap_err();
}

#[test]
fn transcript_that_changes_during_the_print_is_an_error() {
    check_changed(|mut file| file.write_all(b"\n").unwrap(), "grew");
    check_changed(|file| file.set_len(3_000_000).unwrap(), "shrank");
    let now = FileTimes::new().set_modified(std::time::SystemTime::now());
    check_changed(move |file| file.set_times(now).unwrap(), "was written to");
}

#[test]
fn change_with_a_restored_time_is_an_error() {
    let world = World::new();
    let (place, large) = read_new(&world, &transcript());
    set_age(place.path(), 10);
    let error = large.check_unchanged().unwrap_err();
    assert!(matches!(error, StoreError::Changed { how: "was written to", .. }), "{error}");
}

/// Prints a transcript into a file that has some bytes. If it is invalid, or is not written, the file must not change.
#[track_caller]
fn check_print_into_file(bytes: &[u8], is_valid: bool) {
    let world = World::new();
    world.in_workspace(ID, bytes, 10);
    let (place, path) = (world.locate(ID).unwrap(), world.path("out.json"));
    let mut output = File::create(&path).unwrap();
    output.write_all(b"before ").unwrap();
    let read = || read_large(&place, Some(&output)).unwrap().unwrap();
    assert_eq!(read().is_ok(), is_valid);
    assert!(fs::read(&path).unwrap() == b"before ");
    if let Ok(large) = read() {
        large.write_compacted(&output).unwrap();
        assert!(fs::read(&path).unwrap() == [b"before ", &*compacted(bytes)].concat());
    }
}

#[test]
fn print_into_a_file_writes_only_complete_transcripts() {
    let (bytes, separator) = (transcript(), b",\n  {");
    check_print_into_file(&bytes, true);
    // The same transcript without the overlay, which is its last event.
    let end = bytes.windows(separator.len()).rposition(|window| window == separator).unwrap();
    let without_overlay = [&bytes[..end], b"\n]"].concat();
    assert!(without_overlay.len() > 4 << 20 && compacted(&without_overlay) == without_overlay);
    check_print_into_file(&without_overlay, true);
    check_print_into_file(&without_overlay[..end], false);
}

#[test]
fn malformed_transcript_has_the_same_error_as_in_a_complete_read() {
    let (world, mut bytes) = (World::new(), transcript());
    let end = bytes.len() - 100;
    bytes[end] = b'\x01';
    world.in_workspace(ID, &bytes, 10);
    let error = read_large(&world.locate(ID).unwrap(), None).unwrap().unwrap().err().unwrap();
    assert_eq!(error, Stream::parse(bytes.into()).unwrap_err());
}

#[test]
fn other_transcripts_are_read_completely() {
    let (world, bytes) = (World::new(), transcript());
    assert!(read_large(&world.place(), None).unwrap().is_none(), "a small transcript");
    let path = world.in_workspace(ID, &bytes, 10);
    let output = OpenOptions::new().append(true).open(path).unwrap();
    assert!(read_large(&world.locate(ID).unwrap(), Some(&output)).unwrap().is_none(), "its own output");
    fs::write(world.path("session.jsonl"), &bytes).unwrap();
    let place = world.locate(world.path("session.jsonl")).unwrap();
    assert!(read_large(&place, None).unwrap().is_none(), "another program's transcript");
}

#[test]
fn ranges_are_read_completely() {
    let (world, bytes) = (World::new(), transcript());
    world.in_workspace(ID, &bytes, 10);
    let file = open_large(&world.locate(ID).unwrap(), None).unwrap().unwrap();
    assert_eq!(file.beginning().unwrap(), bytes[..1 << 20]);
    let (mut read_next, mut read) = (file.reader(), Vec::new());
    let mut buffer = vec![0; 1_000_000];
    while let Some(size @ 1..) = read_next(&mut buffer) {
        read.extend_from_slice(&buffer[..size]);
    }
    assert!(read == bytes && file.size() == bytes.len());
    let ranges = [0..3, 3..3, 100..3_000_000, 50..60];
    let (mut actual, mut expected) = (Vec::new(), Vec::new());
    for range in ranges.clone() {
        expected.extend_from_slice(&bytes[range]);
        expected.push(b'|');
    }
    let each = |part: RangePart<'_>| match part {
        RangePart::Bytes(bytes) => actual.extend_from_slice(bytes),
        RangePart::End => actual.push(b'|'),
    };
    file.read_ranges(ranges.into_iter(), each).unwrap();
    assert!(actual == expected);
    file.read_ranges(std::iter::once(bytes.len() - 1..bytes.len() + 1), |_| {}).unwrap_err();
}

#[test]
fn pieces_of_a_changed_file_are_not_written() {
    let world = World::new();
    let path = world.in_workspace(ID, &transcript(), 10);
    let file = open_large(&world.locate(ID).unwrap(), None).unwrap().unwrap();
    let large = file.with_pieces(vec![Piece::Old(0..10), Piece::New(b"new".to_vec())]);
    OpenOptions::new().append(true).open(path).unwrap().write_all(b"\n").unwrap();
    let error = large.write_new(&world.path("out.json")).unwrap_err();
    assert!(matches!(error, StoreError::Changed { how: "grew", .. }), "{error}");
    assert!(!world.path("out.json").exists());
}
