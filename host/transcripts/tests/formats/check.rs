//! Properties of every transcript, in any format.

use jp_compact_transcripts::Transcript;
use std::collections::BTreeMap;

use jiff::Timestamp;
use jp_compact_core::estimate::{Estimate, Estimator};
use jp_compact_core::event::Kind;
use jp_compact_core::lint;
use jp_compact_core::overlay::{Overlay, StoredCall, ToolPolicy};
use jp_compact_core::projection::project_with_overlays;
use jp_compact_core::render::{self, Provider};
use jp_compact_core::splice::concat;
use jp_compact_core::{Pairs, View};
use jp_compact_schema::{Reasoning, RequestAction, ResponseAction};
use jp_compact_transcripts::{self as transcripts, Format};

use crate::bodies;
use crate::samples::Sample;

/// The text of every summary.
const SUMMARY: &str = "They spoke of \"this\" and\nof that.";

#[track_caller]
pub(crate) fn check(format: Format, sample: &Sample) {
    let name = &sample.name;
    assert_eq!(transcripts::detect(&sample.bytes), Some(format), "{name} is detected as another format");
    let stream = read(format, name, &sample.bytes);
    assert!(stream.turns() > 0, "{name}: no turns");
    assert_eq!(transcripts::examine(&stream).unwrap(), None, "{name}: much of it is unknown");
    let unchanged = written(&stream, &[]);
    assert_eq!(unchanged, sample.bytes, "{name}: without overlays it differs from the source");
    let accepting =
        Provider::ALL.into_iter().filter(|provider| violations_as_is(&stream, *provider).is_empty());
    let accepting: Vec<Provider> = accepting.collect();
    for (change, overlays) in overlays(&stream) {
        let name = format!("{name}, {change}");
        check_compacted(format, &name, &stream, &overlays, &accepting);
    }
    check_damaged(format, sample);
}

pub(crate) fn read(format: Format, name: &str, bytes: &[u8]) -> Transcript {
    transcripts::read(format, bytes.to_vec().into()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub(crate) fn written(stream: &Transcript, overlays: &[Overlay]) -> Vec<u8> {
    concat(&transcripts::render(stream, &project_with_overlays(stream, overlays)), stream.bytes())
}

pub(crate) fn overlay(from_turn: usize, to_turn: usize) -> Overlay {
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

/// Returns a policy that lists every call: its arguments are emptied, and its result is replaced. Unlike a plain strip,
/// it also replaces short results, and most results of our samples are short.
pub(crate) fn strip(stream: &Transcript) -> ToolPolicy {
    let pairs = Pairs::new(stream);
    let calls = stream.numbered().filter_map(|(seq, element)| {
        let event = &stream.events()[element];
        let tool = || pairs.tool(stream, element).unwrap_or_else(|| "unknown".into());
        let (request, status) = match event.kind {
            Kind::ToolRequest => (Some(RequestAction::Strip), None),
            Kind::ToolResponse { is_error: true } => (None, Some("error")),
            Kind::ToolResponse { is_error: false } => (None, Some("success")),
            _ => return None,
        };
        let response =
            status.map(|status| ResponseAction::Replace(format!("[compacted] {}: {status}", tool())));
        Some(StoredCall { seq, id: stream.text(event.id).into(), half: None, request, response, omit: false })
    });
    ToolPolicy::Selective(calls.collect())
}

/// Returns overlays of every kind, alone and combined, each with a description.
fn overlays(stream: &Transcript) -> Vec<(&'static str, Vec<Overlay>)> {
    let last = stream.turns() - 1;
    let whole = || overlay(0, last);
    let strip = |request, response| Overlay {
        tool_calls: Some(ToolPolicy::Strip { request, response, overrides: BTreeMap::new() }),
        ..whole()
    };
    let omit = || Overlay { tool_calls: Some(ToolPolicy::Omit), ..whole() };
    let reasoning = || Overlay { reasoning: Some(Reasoning::Strip), ..whole() };
    let summary = |from, to| Overlay { summary: Some(SUMMARY.into()), ..overlay(from, to) };
    let mut all = vec![
        ("all stripped", vec![strip(true, true)]),
        ("requests stripped", vec![strip(true, false)]),
        ("responses stripped", vec![strip(false, true)]),
        ("calls omitted", vec![omit()]),
        ("without reasoning", vec![reasoning()]),
        ("without reasoning, stripped", vec![reasoning(), strip(true, true)]),
        ("without reasoning, calls omitted", vec![reasoning(), omit()]),
        ("all summarized", vec![summary(0, last)]),
    ];
    let steps = stream.steps().count(last);
    let stepped = |from_step, to_step| Overlay { from_step, to_step, ..summary(last, last) };
    if steps > 1 {
        all.push(("the first step of the last turn summarized", vec![stepped(Some(0), Some(0))]));
        all.push(("the steps but the last summarized", vec![stepped(Some(0), Some(steps - 2))]));
        all.push(("the last turn but its last step summarized", vec![stepped(None, Some(steps - 2))]));
        let before = Overlay { to_step: Some(steps - 2), ..summary(0, last) };
        all.push(("all but the last step summarized", vec![before]));
    }
    for turn in (0..=last).filter(|turn| stream.steps().count(*turn) > 0).take(4) {
        let to_step = Some(0);
        let begin = Overlay { to_step, ..summary(turn, turn) };
        all.push((
            "the first step of a turn summarized",
            vec![Overlay { from_step: Some(0), ..begin.clone() }],
        ));
        all.push(("the beginning of a turn summarized", vec![begin]));
        all.push(("all up to a step summarized", vec![Overlay { to_step, ..summary(0, turn) }]));
    }
    if last > 0 {
        all.push(("the first turn summarized", vec![summary(0, 0)]));
        all.push(("the last turn summarized", vec![summary(last, last)]));
        all.push(("all but the last summarized, stripped", vec![summary(0, last - 1), strip(true, true)]));
    }
    if last > 3 {
        all.push(("two in the middle summarized", vec![summary(1, 1), summary(3, 3)]));
        all.push(("two neighbors summarized", vec![summary(1, 1), summary(2, 2)]));
    }
    all
}

/// Checks that a compacted transcript has the same format, contains the events of the view, and passes every lint
/// that the original passed.
pub(crate) fn check_compacted(
    format: Format,
    name: &str,
    stream: &Transcript,
    overlays: &[Overlay],
    accepting: &[Provider],
) {
    let view = project_with_overlays(stream, overlays);
    let bytes = written(stream, overlays);
    if overlays.iter().all(|overlay| overlay.summary.is_none()) {
        check_not_longer(name, stream, overlays, &bytes);
    }
    if bytes.is_empty() {
        assert!(
            view.items().iter().all(|item| item.part.element().is_none()),
            "{name}: the file is empty but the view is not"
        );
        return;
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if !event_texts(stream, &view).is_empty() {
        let detected = transcripts::detect(&bytes);
        // A bare list of texts is valid in every chat format.
        let is_list = bytes.starts_with(b"[") && detected == Some(Format::OpenaiChat);
        // Old chats of Gemini CLI are recognized by a message of the model.
        let is_ambiguous = is_list || (format == Format::GeminiCli && detected.is_none());
        assert!(detected == Some(format) || is_ambiguous, "{name}: detected as {detected:?}\n{text:.2000}");
    }
    let reread = transcripts::read(format, bytes.clone().into())
        .unwrap_or_else(|error| panic!("{name}: cannot be read again: {error}\n{text:.4000}"));
    let mut expected = event_texts(stream, &view);
    let actual = event_texts(&reread, &project_with_overlays(&reread, &[]));
    if format == Format::Pi {
        // pi sends its own summary before all entries.
        expected.sort_by_key(|event| !event.contains("The conversation before this is summarized"));
    }
    expected = bodies::repaired(expected, &actual);
    for (index, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
        assert_eq!(actual, expected, "{name}: event {index} differs");
    }
    assert_eq!(
        actual.len(),
        expected.len(),
        "{name}: the number of events differs\n{:?}\n{:?}",
        expected.last(),
        actual.last()
    );
    assert_eq!(written(&reread, &[]), bytes, "{name}: the result does not round-trip");
    if overlays.iter().all(|overlay| overlay.from_step.is_some()) {
        // Requests that became neighbors are joined, so there can be fewer turns.
        assert!(reread.turns() <= stream.turns(), "{name}: a summary of steps begins a turn\n{text:.4000}");
    }
    let new_rules = bodies::newly_broken_rules(format, stream.bytes(), &bytes);
    assert!(new_rules.is_empty(), "{name}: {new_rules:?}\n{text:.6000}");
    let violation_count =
        |stream: &Transcript| lint::check_view(stream, &[], &project_with_overlays(stream, &[])).len();
    assert!(violation_count(&reread) <= violation_count(stream), "{name}: new lint violations");
    for provider in accepting {
        let violations = violations_as_is(&reread, *provider);
        assert!(violations.is_empty(), "{name}: {provider} refuses the result: {violations:?}");
    }
    for provider in Provider::ALL {
        let body = render::render(stream, &view, provider);
        let violations = lint::check_body(provider, &body);
        assert!(violations.is_empty(), "{name}, {provider}: {violations:?}");
    }
}

/// Checks that a strip makes neither the file nor the view longer.
#[track_caller]
fn check_not_longer(name: &str, stream: &Transcript, overlays: &[Overlay], written: &[u8]) {
    assert!(
        written.len() <= stream.bytes().len(),
        "{name}: {} bytes became {}",
        stream.bytes().len(),
        written.len()
    );
    let estimate = Estimate::new(stream, Estimator::Pieces);
    let tokens = |overlays: &[Overlay]| estimate.view_tokens(&project_with_overlays(stream, overlays));
    assert!(tokens(overlays) <= tokens(&[]), "{name}: the view has more tokens than the transcript");
}

/// Returns the reasons why a provider refuses an unchanged transcript.
fn violations_as_is(stream: &Transcript, provider: Provider) -> Vec<lint::Violation> {
    let view = project_with_overlays(stream, &[]);
    lint::check_body(provider, &render::render_unrepaired(stream, &view, provider))
}

/// Returns the texts of a view's events, without data that a format may lack: times, invented ids, and marks of
/// failure.
fn event_texts(stream: &Transcript, view: &View) -> Vec<String> {
    let events = view.events(stream).map(|event| {
        let text = |name: &str| event.event.get(name).map(ToString::to_string).unwrap_or_default();
        let texts = ["content", "message", "reasoning", "data", "name", "arguments"].map(text);
        let thought = if event.event.contains_key("reasoning") { " (thought)" } else { "" };
        format!("{}{thought}: {}", text("type"), texts.concat())
    });
    events.collect()
}

/// Reads damaged samples, which are cut at 20 places or have one of 50 bytes changed, and the sample in every format.
/// Each is read, or refused with an offset inside the file.
fn check_damaged(format: Format, sample: &Sample) {
    let bytes = &sample.bytes;
    let check_read = |format: Format, bytes: Vec<u8>| {
        let _ = transcripts::detect(&bytes);
        match transcripts::read(format, bytes.clone().into()) {
            Ok(stream) => {
                let overlays = overlays_of_any(&stream);
                let _ = written(&stream, &overlays);
                assert_eq!(written(&stream, &[]), bytes, "{}: differs from the source", sample.name);
            }
            Err(error) => assert!(error.offset <= bytes.len(), "{}: {error}", sample.name),
        }
    };
    // Long samples take much longer than the others.
    let step = if bytes.len() < 300_000 { 1 } else { 10 };
    for cut in (0..20).step_by(step.min(4)) {
        check_read(format, bytes[..bytes.len() * cut / 20].to_vec());
    }
    for flip in (0..50).step_by(step) {
        let mut bytes = bytes.clone();
        let at = bytes.len() * flip / 50 + flip % 7;
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << (flip % 8);
        }
        check_read(format, bytes);
    }
    if bytes.len() < 100_000 {
        for other in Format::ALL {
            check_read(other, bytes.clone());
        }
    }
}

fn overlays_of_any(stream: &Transcript) -> Vec<Overlay> {
    if stream.turns() == 0 {
        return Vec::new();
    }
    let last = stream.turns() - 1;
    vec![
        Overlay { tool_calls: Some(ToolPolicy::Omit), ..overlay(0, last) },
        Overlay { summary: Some(SUMMARY.into()), ..overlay(0, last / 2) },
    ]
}
