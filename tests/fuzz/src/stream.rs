//! JP's stream: history is never written anew, whatever is appended to it, taken back, or cut off.

use bytes::Bytes;
use jp_compact_core::append::{self, Held};
use jp_compact_core::event::{Event, Kind};
use jp_compact_core::fork::fork;
use jp_compact_core::formats::jp::{self, Indexer};
use jp_compact_core::projection::{project, project_through};
use jp_compact_core::source::{self, Reset, reset};
use jp_compact_core::splice::{Piece, concat};
use jp_compact_core::validate::Compaction;
use jp_compact_core::{Stream, Survey};
use serde_json::Value;

use crate::Choices;
use crate::holds::{self, entries, placeless, sent};

/// Looks at an `events.json`.
pub fn check(input: &[u8]) {
    let (text, mut choices) = Choices::split(input);
    let bytes = Bytes::copy_from_slice(text);
    let index = jp::index(bytes.clone());
    let come = choices.below(256) * bytes.len() / 256;
    let mut indexer = Indexer::default();
    indexer.advance(&bytes[..come]);
    let by_parts = indexer.finish(bytes.clone());
    assert_eq!(format!("{index:?}"), format!("{by_parts:?}"), "an index is the same however the bytes come");
    let index = match index {
        Ok(index) => index,
        Err(wrong) => return holds::refused(&wrong, bytes.len()),
    };
    serde_json::from_slice::<Vec<Value>>(&bytes).expect("what the index takes is a JSON array");
    let removal = reset(&index, Reset::All).expect("all can always be removed");
    assert_eq!(removal.overlays, index.overlays());
    let plain = Bytes::from(concat(&removal.pieces, &bytes));
    let plain = Stream::parse(plain).expect("a reset mends what is wrong with an overlay");
    assert!(plain.overlays().is_empty());
    let stream = match Stream::from_index(index) {
        Ok(stream) => stream,
        Err(wrong) => return holds::refused(&wrong, bytes.len()),
    };
    places(&stream);
    assert!(plain.raw_input().eq(stream.raw_input()), "a reset leaves the raw input");
    assert_eq!(
        without(plain.bytes(), Reset::All).as_ref(),
        Some(plain.bytes()),
        "there is nothing left to remove"
    );
    holds::of_stream(&stream, &mut choices);
    written(&stream);
    appended(&stream, &mut choices);
    held(&stream, &mut choices);
    forked(&stream, &mut choices);
}

/// Elements lie in the bytes one behind the other, and what lies in one lies in it.
fn places(stream: &Stream) {
    let mut behind = 0;
    for event in stream.events() {
        let span = event.span;
        assert!(behind <= span.start && span.start < span.end && span.end <= stream.body_end(), "{event:?}");
        behind = span.end;
        for inner in [event.id, event.name, event.body].into_iter().filter(|inner| !inner.is_empty()) {
            assert!(span.start < inner.start && inner.end < span.end, "{event:?}");
        }
    }
    assert!(stream.body_end() <= stream.bytes().len());
}

/// The view as a file is a stream that shows the same, and without overlays the very bytes.
fn written(stream: &Stream) {
    let view = project(stream);
    let pieces = source::render(stream, &view);
    let bytes = stream.bytes();
    if stream.events().iter().all(|event| !event.kind.is_overlay()) {
        let same = concat(&pieces, bytes) == *bytes;
        let has_receipts = stream.events().len() != view.items().len();
        assert!(same || has_receipts, "without overlays the source is the file");
    }
    let written = Bytes::from(concat(&pieces, bytes));
    let again = Stream::parse(written.clone()).expect("the view is a stream");
    assert!(again.overlays().is_empty());
    assert_eq!(sent(&again, &project(&again)), sent(stream, &view), "the view shows the same");
    assert_eq!(concat(&source::render(&again, &project(&again)), &written), written);
}

fn appended(stream: &Stream, choices: &mut Choices<'_>) {
    let survey = Survey::of(stream);
    if let Some(range) = holds::range(&survey, choices) {
        appended_of(stream, holds::proposed(&survey, range, choices), choices);
    }
}

/// What is appended stands behind history, means what was foreseen, and can be taken back to the byte.
pub(crate) fn appended_of(stream: &Stream, compactions: Vec<Compaction>, choices: &mut Choices<'_>) {
    let entries = entries(compactions);
    let Ok(made) = append::stamp(stream, &entries, choices.time()) else { return };
    let (bytes, pieces) = (stream.bytes(), append::append(stream, &entries, &made));
    let mut file = Bytes::from(concat(&pieces, bytes));
    history_is_kept(stream, &pieces, &file);
    let grown = Stream::parse(file.clone()).expect("what is appended can be read");
    assert!(stream.raw_input().eq(grown.raw_input()), "raw events stay");
    assert_eq!(grown.turns(), stream.turns());
    let newest = stream.overlays().iter().map(|overlay| overlay.stamp).max();
    assert!(made.iter().all(|made| Some(made.overlay.stamp) > newest), "what is appended is the newest");
    let made_overlays: Vec<_> = made.iter().map(|made| made.overlay.clone()).collect();
    assert_eq!(placeless(&grown.overlays()[stream.overlays().len()..]), placeless(&made_overlays));
    let foreseen = [stream.overlays(), &made_overlays].concat();
    let foreseen = project_through(stream, &foreseen);
    assert_eq!(sent(stream, &foreseen), sent(&grown, &project(&grown)), "what is foreseen comes");
    holds::of_view(&grown, grown.overlays(), &project(&grown), choices);
    assert_eq!(without(&file, Reset::All), without(bytes, Reset::All));
    if made.is_empty() {
        return;
    }
    for made in made.iter().rev() {
        file = without(&file, Reset::One(made.number)).expect("it was appended");
    }
    let again = Stream::parse(file.clone()).expect("it was read before");
    if again.events().len() == stream.events().len() {
        assert_eq!(&file, bytes, "what was appended is taken back to the byte");
    }
    // A receipt without its overlay goes with the first overlay that does.
    let elements = |stream: &Stream| {
        let stays = stream.events().iter().filter(|event| event.kind != Kind::Receipt);
        stays.map(|event| event.span.of(stream.bytes()).to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(elements(&again), elements(stream), "nothing goes but what was appended");
}

/// The file without some overlays.
fn without(file: &Bytes, which: Reset) -> Option<Bytes> {
    let index = jp::index(file.clone()).expect("it was read before");
    reset(&index, which).map(|removal| concat(&removal.pieces, file).into())
}

/// A turn that is appended is one more turn.
fn held(stream: &Stream, choices: &mut Choices<'_>) {
    let (asked, answered) = (choices.time(), choices.time());
    let held = Held { request: "and \"now\"?\n", asked, response: "\u{1f600} so", answered };
    let pieces = append::turn(stream, &held);
    let file = Bytes::from(concat(&pieces, stream.bytes()));
    history_is_kept(stream, &pieces, &file);
    let grown = Stream::parse(file).expect("a turn can be read");
    assert_eq!(grown.turns(), stream.turns() + 1);
    assert_eq!(grown.numbered().count(), stream.numbered().count() + 3);
}

/// Every byte of the elements is there, in its place, and nothing of the old file is gone.
fn history_is_kept(stream: &Stream, pieces: &[Piece], file: &Bytes) {
    let (bytes, end) = (stream.bytes(), stream.body_end());
    assert_eq!(file[..end], bytes[..end], "history is the same bytes");
    assert!(file.ends_with(&bytes[end..]), "what closes the array is the same bytes");
    let old: Vec<u8> = pieces
        .iter()
        .filter(|piece| matches!(piece, Piece::Old(_)))
        .flat_map(|piece| piece.bytes(bytes))
        .copied()
        .collect();
    assert_eq!(old, *bytes, "every old byte is written once");
}

/// A fork has the last turns of its source, as the same bytes.
fn forked(stream: &Stream, choices: &mut Choices<'_>) {
    let last = choices.below(stream.turns() + 2);
    let fork = fork(stream, Some(last));
    let file = Bytes::from(concat(&fork.pieces, stream.bytes()));
    let cut = Stream::parse(file).expect("a fork can be read");
    assert_eq!(cut.turns(), stream.turns().min(last));
    assert_eq!(fork.overlays.len(), stream.overlays().len());
    let stays = |event: &&Event| event.seq.is_some() && event.turn >= fork.cut;
    let kept = stream.events().iter().filter(stays).map(|event| event.span.of(stream.bytes()));
    assert!(kept.eq(cut.raw_input()), "the events that stay are the same bytes");
    let view = project(&cut);
    holds::of_view(&cut, cut.overlays(), &view, choices);
}
