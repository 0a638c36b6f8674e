//! Invariants of every stream, in any format.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jp_compact_core::append::{Entry, Receipt};
use jp_compact_core::bound::{self, Bound};
use jp_compact_core::index::Unreadable;
use jp_compact_core::overlap::Overlap;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::projection::project;
use jp_compact_core::render::{self, Provider};
use jp_compact_core::request::{RequestParameters, lines};
use jp_compact_core::select::{Keep, KeepLast, Selection, StrategyTraits, select, select_for_summary};
use jp_compact_core::validate::{Compaction, ValidationContext, validate};
use jp_compact_core::{Stream, Survey, TurnRange, View, lint, stats};
use jp_compact_schema::{ContentKind, Description, Input, Scope};
use serde_json::{Map, Value, json};

use crate::Choices;

/// The events that are sent to a model, without their sources.
pub(crate) type SentEvents = Vec<(usize, Map<String, Value>)>;

/// Returns the events of a view as they are sent to a model.
pub(crate) fn sent_events(stream: &Stream, view: &View) -> SentEvents {
    view.events(stream).map(|event| (event.turn, event.event)).collect()
}

/// Checks that a parse error has a valid offset and a message.
pub(crate) fn check_error(error: &Unreadable, bytes: usize) {
    assert!(error.offset <= bytes, "byte {} of {bytes}", error.offset);
    assert!(!error.reason.is_empty(), "a parse error needs a message");
}

/// Checks everything that the host computes from a stream before it calls a strategy, and the requests.
pub(crate) fn check_stream(stream: &Stream, choices: &mut Choices<'_>) {
    check_numbers(stream);
    let survey = Survey::new(stream);
    assert_eq!(survey.view, project(stream), "the projection must depend on the stream only");
    assert_eq!(survey.turns.len(), stream.turns());
    check_view(stream, stream.overlays(), &survey.view, choices);
    let _ = stats::stats(&survey);
    if let Some(range) = range(&survey, choices) {
        check_requests(&survey, range, choices);
    }
}

/// Checks that elements are numbered and counted in order, and that their texts are readable.
fn check_numbers(stream: &Stream) {
    let mut turn = 0;
    for event in stream.events().iter().filter(|event| event.kind.is_conversation()) {
        assert!(event.turn == turn || event.turn == turn + 1, "turn {} follows {turn}", event.turn);
        turn = event.turn;
        assert!(turn < stream.turns(), "turn {turn} of {}", stream.turns());
    }
    for (number, (seq, element)) in stream.numbered().enumerate() {
        assert_eq!(number as u64, seq);
        assert_eq!(stream.element(seq), Some(element));
        assert_eq!(stream.events()[element].seq, Some(seq));
    }
    for event in stream.events() {
        let _ = (stream.text(event.id), stream.text(event.name), stream.value(event.body));
        let _ = stream.stored_text(event.body);
    }
    assert_eq!(stream.raw_input().count(), stream.numbered().count());
}

/// Checks that a view can be printed, linted, and rendered for a provider without lint errors.
pub(crate) fn check_view(stream: &Stream, overlays: &[Overlay], view: &View, choices: &mut Choices<'_>) {
    assert!(view.items().is_sorted_by_key(|item| item.turn), "the turns of a view must not decrease");
    let mut printed = Vec::new();
    view.write_json(stream, &mut printed).expect("writing to memory cannot fail");
    let printed: Vec<Value> = serde_json::from_slice(&printed).expect("a printed view is JSON");
    assert_eq!(printed.len(), view.events(stream).count());
    let _ = lint::check_view(stream, overlays, view);
    let provider = choices.pick(&Provider::ALL);
    let rendered = render::render(stream, view, provider);
    let violations = lint::check_body(provider, &rendered);
    assert!(violations.is_empty(), "{provider}: {violations:?}\n{}", rendered.body);
    let _ = lint::check_body(provider, &render::render_unrepaired(stream, view, provider));
    let _ = render::render_as_texts(stream, view, "And now?");
}

/// Returns a range that a user might select. Checks that it is in the stream and splits no call, and that a
/// summary of it is valid.
pub(crate) fn range(survey: &Survey<'_>, choices: &mut Choices<'_>) -> Option<TurnRange> {
    let (stream, now) = (survey.stream, choices.time());
    let mut bound = || {
        let number = choices.byte();
        match number >> 6 {
            0 => None,
            1 => Some(Bound::turn(usize::from(number & 63))),
            2 => Some(Bound::FromEnd(usize::from(number & 63))),
            _ if number & 1 == 1 => Some(Bound::AfterLast),
            _ => bound::duration(&format!("{}h", number & 63)).map(Bound::Ago),
        }
    };
    let keep = Keep { first: 0, last: KeepLast::turns(0) };
    let selection = Selection { from: bound(), to: bound(), keep, ..Selection::default() };
    if let Some(range) = bound::resolve(stream, selection.from, selection.to, now) {
        assert!(range.to() < stream.turns(), "{range} of {}", stream.turns());
    }
    let selected = select(survey, selection, now).ok()?;
    let is_closed =
        |range: TurnRange| range.to() < stream.turns() && survey.pairs.split_by(stream, range).is_none();
    assert!(is_closed(selected.range) && selected.range == selected.requested, "{selected:?}");
    let overlap = choices.pick(&[Overlap::Partial, Overlap::Union]);
    let Ok(closed) = select_for_summary(survey, &selected, StrategyTraits::default(), &[], overlap) else {
        return Some(selected.range);
    };
    assert!(is_closed(closed.range) && closed.range.covers(closed.requested), "{closed:?}");
    let payload = json!([{
        "from_turn": closed.range.from(), "to_turn": closed.range.to(), "summary": { "summary": "S" },
    }]);
    let hints = BTreeMap::new();
    let context = ValidationContext {
        requested_range: closed.requested,
        overlap,
        ..asked(survey, closed.range, &hints)
    };
    validate(&context, serde_json::from_value(payload).expect("the payload is valid"))
        .unwrap_or_else(|refusal| panic!("every request must have a valid reply: {refusal}"));
    Some(closed.range)
}

/// Returns the validation context of a request for `range`.
pub(crate) fn asked<'a>(
    survey: &'a Survey<'_>,
    range: TurnRange,
    hints: &'a BTreeMap<String, jp_compact_schema::ToolHint>,
) -> ValidationContext<'a> {
    const PRODUCES: &[ContentKind] = &[ContentKind::Summary, ContentKind::Reasoning, ContentKind::ToolCalls];
    ValidationContext {
        hints,
        allows_steps: true,
        ..ValidationContext::new(survey.stream, &survey.pairs, range, PRODUCES)
    }
}

/// Checks that each line of a request is a JSON object, and that the request is reproducible.
fn check_requests(survey: &Survey<'_>, range: TurnRange, choices: &mut Choices<'_>) {
    let mut description = Description::new("s", "1", "");
    description.input = choices.pick(&[Input::Full, Input::Outline, Input::None]);
    description.scope = choices.pick(&[Scope::Conversation, Scope::Range]);
    description.wants = vec!["previous_summaries".into()];
    let options = Map::new();
    let parameters = RequestParameters::new("c1", &description, range, &options, Timestamp::UNIX_EPOCH);
    let request = lines(survey, &parameters);
    for line in request.split_inclusive(|byte| *byte == b'\n') {
        serde_json::from_slice::<Map<String, Value>>(line).expect("a line of a request is an object");
    }
    assert_eq!(request, lines(survey, &parameters), "a request must depend on its arguments only");
}

/// Returns a proposal that a strategy might make for a range, or nothing if the host rejects it.
pub(crate) fn propose(survey: &Survey<'_>, range: TurnRange, choices: &mut Choices<'_>) -> Vec<Compaction> {
    let with_range = |policies: Value| {
        let mut payload = json!({ "from_turn": range.from(), "to_turn": range.to() });
        if let (Value::Object(payload), Value::Object(policies)) = (&mut payload, policies) {
            payload.extend(policies);
        }
        payload
    };
    let strip_calls = |request: bool, response: bool| json!({ "tool_calls": { "policy": "strip", "request": request, "response": response } });
    let proposal = match choices.below(8) {
        0 => json!([with_range(json!({ "reasoning": "strip" })), with_range(strip_calls(true, true))]),
        1 => json!([with_range(json!({ "summary": { "summary": "S \"\u{e9}\n\u{1f600}" } }))]),
        2 => json!([with_range(json!({ "tool_calls": { "policy": "omit" } }))]),
        3 => json!([with_range(json!({ "reasoning": "strip" }))]),
        4 => json!([with_range(strip_calls(true, false))]),
        5 => json!([with_range(strip_calls(false, true))]),
        6 => {
            json!([with_range(
                json!({ "reasoning": "strip", "tool_calls": selected(survey, range, choices) })
            )])
        }
        _ => json!([
            with_range(json!({ "summary": { "summary": "S" } })),
            with_range(json!({ "tool_calls": { "policy": "omit" } })),
        ]),
    };
    let keep_request = |name: &str| json!({ name: { "request": "keep" } });
    let tool_event = survey.stream.events().iter().find(|event| !event.name.is_empty());
    let tool_event = tool_event.filter(|_| choices.flag());
    let hints = tool_event.map(|event| keep_request(&survey.stream.text(event.name)));
    let hints = serde_json::from_value(hints.unwrap_or(json!({}))).expect("the hints are valid");
    let context = ValidationContext { written_by_model: choices.flag(), ..asked(survey, range, &hints) };
    let proposal = serde_json::from_value(proposal).expect("the proposal is valid");
    validate(&context, proposal).unwrap_or_default()
}

/// Returns a selective policy for some calls in the range.
fn selected(survey: &Survey<'_>, range: TurnRange, choices: &mut Choices<'_>) -> Value {
    let stream = survey.stream;
    let tool_events = stream.numbered().filter(|(_, element)| {
        let event = &stream.events()[*element];
        event.kind.is_tool() && range.contains(event.turn)
    });
    let mut calls = Vec::new();
    for (seq, element) in tool_events {
        let is_request = stream.events()[element].kind == jp_compact_core::event::Kind::ToolRequest;
        calls.push(match choices.below(4) {
            0 => json!({ "seq": seq, "omit": true }),
            1 if is_request => json!({ "seq": seq, "request": "strip" }),
            1 => json!({ "seq": seq, "response": "strip" }),
            2 if !is_request => json!({ "seq": seq, "response": { "replace": "R\n\u{e9}" } }),
            _ => continue,
        });
    }
    json!({ "policy": "selective", "calls": calls })
}

/// Adds a receipt to each compaction.
pub(crate) fn entries(compactions: Vec<Compaction>) -> Vec<Entry> {
    let receipt = Receipt {
        strategy: String::from("s").try_into().expect("the name is valid"),
        version: "1".into(),
        executable_sha256: String::new(),
        options: Map::new(),
        input_sha256: String::new(),
        tier: String::new(),
        merges: None,
    };
    compactions.into_iter().map(|compaction| Entry { compaction, receipt: receipt.clone() }).collect()
}

/// Returns overlays without their positions in a file.
pub(crate) fn without_positions(overlays: &[Overlay]) -> Vec<Overlay> {
    overlays.iter().map(|overlay| Overlay { element: 0, ..overlay.clone() }).collect()
}
