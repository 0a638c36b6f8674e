//! Fuzz target for transcripts of all agents. A file is read, or rejected with a valid offset. The output is
//! equal to the input bytes, or is a transcript in the same format.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use jp_compact_core::append;
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::{project, project_with_overlays};
use jp_compact_core::render::Provider;
use jp_compact_core::source::Reset;
use jp_compact_core::{Stream, Survey};
use jp_compact_schema::Reasoning;
use jp_compact_transcripts::import::import;
use jp_compact_transcripts::sidecar::{self, Sidecar, Snapshot};
use jp_compact_transcripts::{self as transcripts, Format, Transcript};
use serde_json::{Map, Value};

use crate::Choices;
use crate::invariants::{self, entries, sent_events, without_positions};

/// Checks a file in any format, or in none.
pub fn check(input: &[u8]) {
    let (text, mut choices) = Choices::split(input);
    let bytes = Bytes::copy_from_slice(text);
    let detected = transcripts::detect(&bytes);
    assert_eq!(detected, transcripts::detect(&bytes), "the format must depend on the bytes only");
    if let Some(error) = transcripts::malformed(&bytes) {
        invariants::check_error(&error, bytes.len());
    }
    if let Err(error) = Sidecar::read(bytes.clone()) {
        invariants::check_error(&error, bytes.len());
    }
    let other = choices.pick(&Format::ALL);
    for format in detected.into_iter().chain((detected != Some(other)).then_some(other)) {
        match transcripts::read(format, bytes.clone()) {
            Ok(stream) => check_format(format, &stream, &mut choices.clone()),
            Err(error) => invariants::check_error(&error, bytes.len()),
        }
    }
}

fn check_format(format: Format, stream: &Transcript, choices: &mut Choices<'_>) {
    assert_eq!(stream.format(), format);
    for provider in Provider::ALL {
        let _ = transcripts::is_request_body(stream, provider);
    }
    match transcripts::examine(stream) {
        Ok(warning) => assert!(warning.is_none_or(|warning| !warning.is_empty())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    invariants::check_stream(stream, choices);
    if format == Format::Jp {
        // JP's own overlays are in the file itself; the target `stream` checks them.
        return;
    }
    assert_eq!(
        render_view(stream, &[]),
        *stream.bytes(),
        "without overlays the output must equal the source"
    );
    let overlays = overlays(stream, choices);
    let view = project_with_overlays(stream, &overlays);
    invariants::check_view(stream, &overlays, &view, choices);
    let source =
        Bytes::from(jp_compact_core::splice::concat(&transcripts::render(stream, &view), stream.bytes()));
    if !sent_events(stream, &view).is_empty() {
        let reread = transcripts::read(format, source.clone()).unwrap_or_else(|error| {
            panic!(
                "{format}: failed to read the written transcript: {error}\n{}",
                String::from_utf8_lossy(&source)
            )
        });
        assert_eq!(render_view(&reread, &[]), source, "a second round trip must change nothing");
    }
    check_sidecar(stream, choices);
    check_import(stream);
}

/// Returns overlays of various kinds over some of the turns.
fn overlays(stream: &Transcript, choices: &mut Choices<'_>) -> Vec<Overlay> {
    let Some(last) = stream.turns().checked_sub(1) else { return Vec::new() };
    let mut random_overlay = |with_policy: fn(Overlay) -> Overlay| {
        let (from, length) = (choices.below(last + 1), choices.below(last + 1));
        with_policy(overlay(last - from, (last - from + length).min(last)))
    };
    let reasoning = random_overlay(|overlay| Overlay { reasoning: Some(Reasoning::Strip), ..overlay });
    let stripped = random_overlay(|overlay| Overlay { tool_calls: Some(strip(true, true)), ..overlay });
    let requests = random_overlay(|overlay| Overlay { tool_calls: Some(strip(true, false)), ..overlay });
    let omitted = random_overlay(|overlay| Overlay { tool_calls: Some(ToolPolicy::Omit), ..overlay });
    let summary = random_overlay(|overlay| Overlay { summary: Some("S \"\u{e9}\"\nT".into()), ..overlay });
    let second = random_overlay(|overlay| Overlay { summary: Some("Second".into()), ..overlay });
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
        from_step: None,
        to_step: None,
        summary: None,
        reasoning: None,
        tool_calls: None,
        applied_by_jp: true,
        not_applied: Vec::new(),
        stale: false,
    }
}

/// Checks that overlays in a sidecar are read as they were written, and can be removed.
fn check_sidecar(stream: &Transcript, choices: &mut Choices<'_>) {
    let survey = Survey::new(stream);
    let Some(range) = invariants::range(&survey, choices) else { return };
    let entries = entries(invariants::propose(&survey, range, choices));
    let Ok(stamped) = append::stamped_overlays(stream, &entries, choices.time()) else { return };
    if stamped.is_empty() {
        return;
    }
    let snapshot = Snapshot { bytes: stream.bytes().len() as u64, sha256: "0".repeat(64) };
    let file = sidecar::with(stream.format(), stream.sidecar(), &entries, &stamped, &snapshot, &|range| {
        range.to_string()
    });
    let sidecar = Sidecar::read(file.into()).expect("a written sidecar is readable");
    assert_eq!((sidecar.format(), sidecar.snapshot()), (stream.format(), &snapshot));
    assert_eq!(sidecar.overlays(), stamped.len());
    let (empty, removed_count) = sidecar.without(Reset::All).expect("removing all overlays cannot fail");
    assert_eq!((empty.len(), removed_count), (0, stamped.len()));
    let overlays: Vec<Overlay> = stamped.iter().map(|stamped| stamped.overlay.clone()).collect();
    let grown = stream.clone().with_sidecar(sidecar).expect("the sidecar belongs to the stream");
    assert_eq!(without_positions(grown.overlays()), without_positions(&overlays));
    assert_eq!(grown.turns(), stream.turns());
    assert!(grown.raw_input().eq(stream.raw_input()), "a sidecar must not change raw events");
    let predicted = project_with_overlays(stream, &overlays);
    assert_eq!(
        sent_events(&grown, &project(&grown)),
        sent_events(stream, &predicted),
        "the view must be as predicted"
    );
    invariants::check_view(&grown, grown.overlays(), &project(&grown), choices);
}

/// Checks that an imported conversation has the same view.
fn check_import(stream: &Transcript) {
    let imported = import(stream);
    let jp_stream = Stream::parse(imported.events.into()).expect("an import is a JP stream");
    assert_eq!(append::check_loadable(&jp_stream), Ok(()), "JP must be able to load the import");
    assert_eq!(jp_stream.turns(), stream.turns());
    assert_eq!(jp_stream.numbered().count(), stream.numbered().count());
    assert_eq!(
        sent_events(&jp_stream, &project(&jp_stream)),
        sent_events(stream, &project(stream)),
        "the views must be equal"
    );
    for file in [imported.base_config, imported.metadata] {
        serde_json::from_slice::<Map<String, Value>>(&file).expect("a file of the conversation is an object");
    }
}

/// Returns a view in the format of its transcript.
fn render_view(transcript: &Transcript, overlays: &[Overlay]) -> Vec<u8> {
    let view = project_with_overlays(transcript, overlays);
    jp_compact_core::splice::concat(&transcripts::render(transcript, &view), transcript.bytes())
}
