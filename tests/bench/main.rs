//! The generator of streams, held to what it promises: shares, turns, layout, and the same bytes from the same
//! seed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is a test that failed")]

mod generate;

use bytes::Bytes;
use generate::{ARGUMENTS, ASSISTANT, REASONING, RESPONSES, USER, Written};
use jp_compact_core::event::Kind;
use jp_compact_core::{Pairs, Stream};

fn generated(seed: u64, bytes: usize) -> (Vec<u8>, Written) {
    let mut out = Vec::new();
    let written = generate::stream(seed, bytes, &mut out).unwrap();
    (out, written)
}

/// Generates a stream of that size, and compares it with what was promised.
#[track_caller]
fn check(seed: u64, bytes: usize) {
    let (out, written) = generated(seed, bytes);
    assert_eq!(written.bytes, out.len());
    assert!(out.len().abs_diff(bytes) < 4096, "{} bytes for {bytes}", out.len());
    let stream = Stream::parse(Bytes::from(out)).unwrap();
    assert_eq!((stream.events().len(), stream.turns()), (written.events, written.turns));

    let carried = |wanted: fn(Kind) -> bool| -> usize {
        let events = stream.events().iter().filter(|event| wanted(event.kind));
        events.map(|event| event.body.end - event.body.start).sum()
    };
    let shares = [
        (carried(|kind| matches!(kind, Kind::ToolResponse { .. })), RESPONSES),
        (carried(|kind| kind == Kind::ToolRequest), ARGUMENTS),
        (carried(|kind| kind == Kind::Reasoning), REASONING),
        (carried(|kind| kind == Kind::ChatRequest), USER),
        (carried(|kind| kind == Kind::Message), ASSISTANT),
    ];
    let all: usize = shares.iter().map(|(bytes, _)| bytes).sum();
    for (bytes, percent) in shares {
        let off = (bytes * 1000 / all).abs_diff(percent * 10);
        assert!(off <= 20, "{bytes} of {all} bytes are not {percent} %");
    }
}

#[test]
fn shares_of_two_megabytes_are_those_of_real_conversations() {
    for seed in 0..8 {
        check(seed, 2_000_000);
    }
}

#[test]
fn shares_of_twenty_megabytes_are_those_of_real_conversations() {
    check(1, 20_000_000);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_gives_others() {
    assert!(generated(7, 200_000).0 == generated(7, 200_000).0);
    assert!(generated(7, 200_000).0 != generated(8, 200_000).0);
}

#[test]
fn a_stream_is_laid_out_as_jp_lays_it_out() {
    let (out, _) = generated(3, 300_000);
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert!(format!("{value:#}\n").into_bytes() == out);
}

#[test]
fn every_call_is_answered_and_every_text_decodes() {
    let (out, _) = generated(4, 300_000);
    let stream = Stream::parse(Bytes::from(out)).unwrap();
    let pairs = Pairs::of(&stream);
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
fn a_small_conversation_has_several_turns() {
    let folder = tempfile::tempdir().unwrap();
    let written = generate::conversation(5, 100_000, folder.path()).unwrap();
    assert!(written.turns > 3, "{written:?}");
    let base = std::fs::read(folder.path().join("base_config.json")).unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&base).unwrap().is_object());
}

#[test]
fn the_smallest_stream_is_a_stream() {
    let (out, written) = generated(6, 0);
    assert_eq!((out, written.turns), (b"[\n]\n".to_vec(), 0));
}
