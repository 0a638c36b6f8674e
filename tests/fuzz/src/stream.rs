//! Fuzz target for JP's stream. Appending, removing and forking must never rewrite history.

use bytes::Bytes;
use jp_compact_core::append::{self, NewTurn};
use jp_compact_core::event::{Event, Kind};
use jp_compact_core::fork::fork;
use jp_compact_core::index::{self, Indexer};
use jp_compact_core::projection::{project, project_with_overlays};
use jp_compact_core::source::{self, Reset, reset};
use jp_compact_core::splice::{Piece, concat};
use jp_compact_core::validate::Compaction;
use jp_compact_core::{Stream, Survey};
use serde_json::Value;

use crate::Choices;
use crate::invariants::{self, entries, sent_events, without_positions};

/// Checks an `events.json`.
pub fn check(input: &[u8]) {
    let (text, mut choices) = Choices::split(input);
    let bytes = Bytes::copy_from_slice(text);
    let index = index::index(bytes.clone());
    let split = choices.below(256) * bytes.len() / 256;
    let mut indexer = Indexer::default();
    indexer.advance(&bytes[..split]);
    let incremental = indexer.finish(bytes.clone());
    assert_eq!(
        format!("{index:?}"),
        format!("{incremental:?}"),
        "an index must not depend on how the bytes arrive"
    );
    let index = match index {
        Ok(index) => index,
        Err(error) => return invariants::check_error(&error, bytes.len()),
    };
    serde_json::from_slice::<Vec<Value>>(&bytes).expect("an indexed stream is a JSON array");
    let removal = reset(&index, Reset::All).expect("removing all overlays cannot fail");
    assert_eq!(removal.overlays, index.overlays());
    let after_reset = Bytes::from(concat(&removal.pieces, &bytes));
    let after_reset = Stream::parse(after_reset).expect("a reset removes malformed overlays");
    assert!(after_reset.overlays().is_empty());
    let stream = match Stream::from_index(index) {
        Ok(stream) => stream,
        Err(error) => return invariants::check_error(&error, bytes.len()),
    };
    check_spans(&stream);
    assert!(after_reset.raw_input().eq(stream.raw_input()), "a reset must keep the raw input");
    assert_eq!(
        reset_file(after_reset.bytes(), Reset::All).as_ref(),
        Some(after_reset.bytes()),
        "a second reset must change nothing"
    );
    invariants::check_stream(&stream, &mut choices);
    check_source(&stream);
    check_append(&stream, &mut choices);
    check_appended_turn(&stream, &mut choices);
    check_fork(&stream, &mut choices);
}

/// Checks that elements are in order without overlap, and that the spans inside an element are within it.
fn check_spans(stream: &Stream) {
    let mut previous_end = 0;
    for event in stream.events() {
        let span = event.span;
        assert!(
            previous_end <= span.start && span.start < span.end && span.end <= stream.body_end(),
            "{event:?}"
        );
        previous_end = span.end;
        for inner in [event.id, event.name, event.body].into_iter().filter(|inner| !inner.is_empty()) {
            assert!(span.start < inner.start && inner.end < span.end, "{event:?}");
        }
    }
    assert!(stream.body_end() <= stream.bytes().len());
}

/// Checks that the view, written as a file, is a stream with the same view. Without overlays it must equal
/// the file.
fn check_source(stream: &Stream) {
    let view = project(stream);
    let pieces = source::render(stream, &view);
    let bytes = stream.bytes();
    if stream.events().iter().all(|event| !event.kind.is_overlay()) {
        let is_unchanged = concat(&pieces, bytes) == *bytes;
        let has_receipts = stream.events().len() != view.items().len();
        assert!(is_unchanged || has_receipts, "without overlays the output must equal the file");
    }
    let written = Bytes::from(concat(&pieces, bytes));
    let reread = Stream::parse(written.clone()).expect("a written view is a stream");
    assert!(reread.overlays().is_empty());
    assert_eq!(
        sent_events(&reread, &project(&reread)),
        sent_events(stream, &view),
        "the views must be equal"
    );
    assert_eq!(concat(&source::render(&reread, &project(&reread)), &written), written);
}

fn check_append(stream: &Stream, choices: &mut Choices<'_>) {
    let survey = Survey::new(stream);
    if let Some(range) = invariants::range(&survey, choices) {
        check_appended(stream, invariants::propose(&survey, range, choices), choices);
    }
}

/// Checks that compactions are appended after history, have the predicted effect, and can be removed byte for
/// byte.
pub(crate) fn check_appended(stream: &Stream, compactions: Vec<Compaction>, choices: &mut Choices<'_>) {
    let entries = entries(compactions);
    let Ok(stamped) = append::stamped_overlays(stream, &entries, choices.time()) else { return };
    let (bytes, pieces) = (stream.bytes(), append::append(stream, &entries, &stamped));
    let mut file = Bytes::from(concat(&pieces, bytes));
    check_history(stream, &pieces, &file);
    let grown = Stream::parse(file.clone()).expect("a stream with new overlays is readable");
    assert!(stream.raw_input().eq(grown.raw_input()), "appending must keep the raw events");
    assert_eq!(grown.turns(), stream.turns());
    let newest = stream.overlays().iter().map(|overlay| overlay.stamp).max();
    assert!(
        stamped.iter().all(|stamped| Some(stamped.overlay.stamp) > newest),
        "new overlays must have the latest stamps"
    );
    let new_overlays: Vec<_> = stamped.iter().map(|stamped| stamped.overlay.clone()).collect();
    assert_eq!(
        without_positions(&grown.overlays()[stream.overlays().len()..]),
        without_positions(&new_overlays)
    );
    let predicted = [stream.overlays(), &new_overlays].concat();
    let predicted = project_with_overlays(stream, &predicted);
    assert_eq!(
        sent_events(stream, &predicted),
        sent_events(&grown, &project(&grown)),
        "the view must be as predicted"
    );
    invariants::check_view(&grown, grown.overlays(), &project(&grown), choices);
    assert_eq!(reset_file(&file, Reset::All), reset_file(bytes, Reset::All));
    if stamped.is_empty() {
        return;
    }
    for stamped in stamped.iter().rev() {
        file = reset_file(&file, Reset::One(stamped.number)).expect("the overlay exists");
    }
    let restored = Stream::parse(file.clone()).expect("the stream is readable");
    if restored.events().len() == stream.events().len() {
        assert_eq!(&file, bytes, "removing must restore the bytes");
    }
    // The removal of an overlay also removes earlier receipts without an overlay. Therefore compare without
    // receipts.
    let elements = |stream: &Stream| {
        let kept = stream.events().iter().filter(|event| event.kind != Kind::Receipt);
        kept.map(|event| event.span.slice(stream.bytes()).to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(elements(&restored), elements(stream), "only appended elements may be removed");
}

/// Returns the file without the overlays that `reset_kind` selects.
fn reset_file(file: &Bytes, reset_kind: Reset) -> Option<Bytes> {
    let index = index::index(file.clone()).expect("the stream is readable");
    reset(&index, reset_kind).map(|removal| concat(&removal.pieces, file).into())
}

/// Checks that an appended turn adds exactly one turn.
fn check_appended_turn(stream: &Stream, choices: &mut Choices<'_>) {
    let (asked_at, answered_at) = (choices.time(), choices.time());
    let new_turn = NewTurn { request: "and \"now\"?\n", asked_at, response: "\u{1f600} so", answered_at };
    let pieces = append::append_turn(stream, &new_turn);
    let file = Bytes::from(concat(&pieces, stream.bytes()));
    check_history(stream, &pieces, &file);
    let grown = Stream::parse(file).expect("a stream with a new turn is readable");
    assert_eq!(grown.turns(), stream.turns() + 1);
    assert_eq!(grown.numbered().count(), stream.numbered().count() + 3);
}

/// Checks that every byte of the elements is at its place, and that the whole old file is kept.
fn check_history(stream: &Stream, pieces: &[Piece], file: &Bytes) {
    let (bytes, end) = (stream.bytes(), stream.body_end());
    assert_eq!(file[..end], bytes[..end], "the history must not change");
    assert!(file.ends_with(&bytes[end..]), "the end of the array must not change");
    let old: Vec<u8> = pieces
        .iter()
        .filter(|piece| matches!(piece, Piece::Old(_)))
        .flat_map(|piece| piece.bytes(bytes))
        .copied()
        .collect();
    assert_eq!(old, *bytes, "every old byte must be written once");
}

/// Checks that a fork has the last turns of its source with the same bytes.
fn check_fork(stream: &Stream, choices: &mut Choices<'_>) {
    let last = choices.below(stream.turns() + 2);
    let fork = fork(stream, Some(last));
    let file = Bytes::from(concat(&fork.pieces, stream.bytes()));
    let forked = Stream::parse(file).expect("a fork is readable");
    assert_eq!(forked.turns(), stream.turns().min(last));
    assert_eq!(fork.effects.len(), stream.overlays().len());
    let is_kept = |event: &&Event| event.seq.is_some() && event.turn >= fork.removed_turns;
    let kept = stream.events().iter().filter(is_kept).map(|event| event.span.slice(stream.bytes()));
    assert!(kept.eq(forked.raw_input()), "the kept events must not change");
    let view = project(&forked);
    invariants::check_view(&forked, forked.overlays(), &view, choices);
}
