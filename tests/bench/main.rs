//! Tests of the stream generator: shares, turns, layout, and reproducible bytes.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod generate;

use bytes::Bytes;
use generate::{ARGUMENTS, ASSISTANT, REASONING, RESPONSES, StreamSize, USER};
use jp_compact_core::event::Kind;
use jp_compact_core::{Pairs, Stream};

fn generate_stream(seed: u64, bytes: usize) -> (Vec<u8>, StreamSize) {
    let mut out = Vec::new();
    let written = generate::stream(seed, bytes, &mut out).unwrap();
    (out, written)
}

/// Generates a stream of `bytes` bytes and compares it with the documented properties.
#[track_caller]
fn check(seed: u64, bytes: usize) {
    let (out, written) = generate_stream(seed, bytes);
    assert_eq!(written.bytes, out.len());
    assert!(out.len().abs_diff(bytes) < 4096, "{} bytes for {bytes}", out.len());
    let stream = Stream::parse(Bytes::from(out)).unwrap();
    assert_eq!((stream.events().len(), stream.turns()), (written.events, written.turns));

    let payload = |is_counted: fn(Kind) -> bool| -> usize {
        let events = stream.events().iter().filter(|event| is_counted(event.kind));
        events.map(|event| event.body.end - event.body.start).sum()
    };
    let shares = [
        (payload(|kind| matches!(kind, Kind::ToolResponse { .. })), RESPONSES),
        (payload(|kind| kind == Kind::ToolRequest), ARGUMENTS),
        (payload(|kind| kind == Kind::Reasoning), REASONING),
        (payload(|kind| kind == Kind::ChatRequest), USER),
        (payload(|kind| kind == Kind::Message), ASSISTANT),
    ];
    let total: usize = shares.iter().map(|(bytes, _)| bytes).sum();
    for (bytes, percent) in shares {
        let difference = (bytes * 1000 / total).abs_diff(percent * 10);
        assert!(difference <= 20, "{bytes} of {total} bytes differ from {percent} %");
    }
}

#[test]
fn two_megabyte_stream_has_realistic_shares() {
    for seed in 0..8 {
        check(seed, 2_000_000);
    }
}

#[test]
fn twenty_megabyte_stream_has_realistic_shares() {
    check(1, 20_000_000);
}

#[test]
fn bytes_depend_on_the_seed_only() {
    assert!(generate_stream(7, 200_000).0 == generate_stream(7, 200_000).0);
    assert!(generate_stream(7, 200_000).0 != generate_stream(8, 200_000).0);
}

#[test]
fn stream_has_the_layout_of_jp() {
    let (out, _) = generate_stream(3, 300_000);
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert!(format!("{value:#}\n").into_bytes() == out);
}

#[test]
fn every_call_has_a_response_and_every_text_decodes() {
    let (out, _) = generate_stream(4, 300_000);
    let stream = Stream::parse(Bytes::from(out)).unwrap();
    let pairs = Pairs::new(&stream);
    for (element, event) in stream.events().iter().enumerate() {
        if event.kind.is_tool() {
            assert!(pairs.partner(element).is_some(), "element {element}");
        }
        if let Kind::ToolResponse { .. } = event.kind {
            assert_ne!(stream.stored_text(event.body), stream.text(event.body), "element {element}");
        }
    }
}

#[test]
fn small_conversation_has_several_turns() {
    let folder = tempfile::tempdir().unwrap();
    let written = generate::conversation(5, 100_000, folder.path()).unwrap();
    assert!(written.turns > 3, "{written:?}");
    let base = std::fs::read(folder.path().join("base_config.json")).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&base).unwrap().is_object());
}

#[test]
fn smallest_stream_is_empty() {
    let (out, written) = generate_stream(6, 0);
    assert_eq!((out, written.turns), (b"[\n]\n".to_vec(), 0));
}
