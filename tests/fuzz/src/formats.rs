//! Transcripts of every program: a file is read, or refused at a byte that is there; what is written back is its bytes,
//! or a transcript of the same program.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use jp_compact_core::append;
use jp_compact_core::formats::{self, Format};
use jp_compact_core::import::import;
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::{project, project_through};
use jp_compact_core::render::Provider;
use jp_compact_core::sidecar::{self, Sidecar, Snapshot};
use jp_compact_core::source::{self, Reset};
use jp_compact_core::{Stream, Survey};
use jp_compact_schema::Reasoning;
use serde_json::{Map, Value};

use crate::Choices;
use crate::holds::{self, entries, placeless, sent, written};

/// Looks at a file that may be a transcript of anybody's.
pub fn check(input: &[u8]) {
    let (text, mut choices) = Choices::split(input);
    let bytes = Bytes::copy_from_slice(text);
    let detected = formats::detect(&bytes);
    assert_eq!(detected, formats::detect(&bytes), "a format is a function of the bytes");
    if let Some(wrong) = formats::malformed(&bytes) {
        holds::refused(&wrong, bytes.len());
    }
    if let Err(wrong) = Sidecar::read(bytes.clone()) {
        holds::refused(&wrong, bytes.len());
    }
    let other = choices.of(&Format::ALL);
    for format in detected.into_iter().chain((detected != Some(other)).then_some(other)) {
        match formats::read(format, bytes.clone()) {
            Ok(stream) => of_format(format, &stream, &mut choices.clone()),
            Err(wrong) => holds::refused(&wrong, bytes.len()),
        }
    }
}

fn of_format(format: Format, stream: &Stream, choices: &mut Choices<'_>) {
    assert_eq!(stream.format(), format);
    for provider in Provider::ALL {
        let _ = formats::is_body(stream, provider);
    }
    match formats::examine(stream) {
        Ok(warning) => assert!(warning.is_none_or(|warning| !warning.is_empty())),
        Err(wrong) => assert!(!wrong.to_string().is_empty()),
    }
    holds::of_stream(stream, choices);
    if format == Format::Jp {
        // JP's own overlays stand in the file; see `stream`.
        return;
    }
    assert_eq!(written(stream, &[]), *stream.bytes(), "without overlays it is the source");
    let overlays = overlays(stream, choices);
    let view = project_through(stream, &overlays);
    holds::of_view(stream, &overlays, &view, choices);
    let source = Bytes::from(jp_compact_core::splice::concat(&source::render(stream, &view), stream.bytes()));
    if !sent(stream, &view).is_empty() {
        let again = formats::read(format, source.clone()).unwrap_or_else(|wrong| {
            panic!("{format}: what was written cannot be read: {wrong}\n{}", String::from_utf8_lossy(&source))
        });
        assert_eq!(written(&again, &[]), source, "what was written is written back as it is");
    }
    beside(stream, choices);
    imported(stream);
}

/// Overlays of every kind, over some of the turns.
fn overlays(stream: &Stream, choices: &mut Choices<'_>) -> Vec<Overlay> {
    let Some(last) = stream.turns().checked_sub(1) else { return Vec::new() };
    let mut some = |covering: fn(Overlay) -> Overlay| {
        let (from, length) = (choices.below(last + 1), choices.below(last + 1));
        covering(overlay(last - from, (last - from + length).min(last)))
    };
    let reasoning = some(|overlay| Overlay { reasoning: Some(Reasoning::Strip), ..overlay });
    let stripped = some(|overlay| Overlay { tool_calls: Some(strip(true, true)), ..overlay });
    let requests = some(|overlay| Overlay { tool_calls: Some(strip(true, false)), ..overlay });
    let omitted = some(|overlay| Overlay { tool_calls: Some(ToolPolicy::Omit), ..overlay });
    let summary = some(|overlay| Overlay { summary: Some("S \"\u{e9}\"\nT".into()), ..overlay });
    let second = some(|overlay| Overlay { summary: Some("Second".into()), ..overlay });
    match choices.below(10) {
        0 => vec![Overlay { tool_calls: Some(ToolPolicy::Omit), ..overlay(0, last) }],
        1 => vec![Overlay { summary: Some("All".into()), ..overlay(0, last) }],
        2 => vec![reasoning, stripped],
        3 => vec![stripped],
        4 => vec![omitted, reasoning],
        5 => vec![summary],
        6 => vec![summary, second],
        7 => vec![summary, stripped, reasoning],
        8 => vec![requests],
        _ => vec![omitted, summary],
    }
}

fn strip(request: bool, response: bool) -> ToolPolicy {
    ToolPolicy::Strip { request, response, overrides: BTreeMap::new() }
}

fn overlay(from_turn: usize, to_turn: usize) -> Overlay {
    Overlay {
        element: usize::MAX,
        stamp: Timestamp::UNIX_EPOCH,
        from_turn,
        to_turn,
        summary: None,
        reasoning: None,
        tool_calls: None,
        applied_by_jp: true,
        not_applied: Vec::new(),
        stale: false,
    }
}

/// Overlays that lie beside the transcript are read as they were made, and can be taken away.
fn beside(stream: &Stream, choices: &mut Choices<'_>) {
    let survey = Survey::of(stream);
    let Some(range) = holds::range(&survey, choices) else { return };
    let entries = entries(holds::proposed(&survey, range, choices));
    let Ok(made) = append::stamp(stream, &entries, choices.time()) else { return };
    if made.is_empty() {
        return;
    }
    let snapshot = Snapshot { bytes: stream.bytes().len() as u64, sha256: "0".repeat(64) };
    let file = sidecar::with(stream, &entries, &made, &snapshot, &|range| range.to_string());
    let sidecar = Sidecar::read(file.into()).expect("what lies beside can be read");
    assert_eq!((sidecar.format(), sidecar.snapshot()), (stream.format(), &snapshot));
    assert_eq!(sidecar.overlays(), made.len());
    let (none, removed) = sidecar.without(Reset::All).expect("all can always be removed");
    assert_eq!((none.len(), removed), (0, made.len()));
    let overlays: Vec<Overlay> = made.iter().map(|made| made.overlay.clone()).collect();
    let grown = stream.clone().with_sidecar(sidecar).expect("it was read");
    assert_eq!(placeless(grown.overlays()), placeless(&overlays));
    assert_eq!(grown.turns(), stream.turns());
    assert!(grown.raw_input().eq(stream.raw_input()), "what lies beside is no raw event");
    let foreseen = project_through(stream, &overlays);
    assert_eq!(sent(&grown, &project(&grown)), sent(stream, &foreseen), "what is foreseen comes");
    holds::of_view(&grown, grown.overlays(), &project(&grown), choices);
}

/// As a conversation of JP's it says the same.
fn imported(stream: &Stream) {
    let imported = import(stream);
    let jps = Stream::parse(imported.events.into()).expect("what is imported is JP's");
    assert_eq!(append::check(&jps), Ok(()), "JP would load it");
    assert_eq!(jps.turns(), stream.turns());
    assert_eq!(jps.numbered().count(), stream.numbered().count());
    assert_eq!(sent(&jps, &project(&jps)), sent(stream, &project(stream)), "JP would send the same");
    for file in [imported.base_config, imported.metadata] {
        serde_json::from_slice::<Map<String, Value>>(&file).expect("what lies beside is an object");
    }
}
