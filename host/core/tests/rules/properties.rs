//! Properties of all streams. Streams consist of random but well-formed elements, including overlays of both grammars.
//! The ranges of overlays may be outside of the stream.

use std::collections::BTreeMap;

use bytes::Bytes;
use jp_compact_core::append::{self, Entry, Receipt};
use jp_compact_core::bound::{self, Bound};
use jp_compact_core::lint::Rule;
use jp_compact_core::overlap::{Overlap, extend};
use jp_compact_core::projection::project;
use jp_compact_core::render::{self, Provider};
use jp_compact_core::request::{RequestParameters, lines};
use jp_compact_core::select::{Selection, StrategyTraits, select, select_for_summary};
use jp_compact_core::source::{Reset, render as render_source, reset};
use jp_compact_core::splice::{Piece, concat};
use jp_compact_core::validate::{Compaction, ValidationContext, validate};
use jp_compact_core::{Pairs, Stream, Survey, TurnRange, lint, open};
use jp_compact_schema::ContentKind::{Reasoning, Summary, ToolCalls};
use jp_compact_schema::{Description, Input, Scope};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use crate::build::{base64, timestamp, timestamp_text};

/// Generates text with escapes, in base64, or without either.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("abcd".into()),
        Just("\"\\\n\u{1f600}".into()),
        "[a-z ]{0,12}",
        Just("aGk=".into())
    ]
}

fn event() -> impl Strategy<Value = Value> {
    let id = || prop::sample::select(vec!["a", "b", "c\u{e9}"]);
    let tool = prop::sample::select(vec!["read", "grep"]);
    prop_oneof![
        3 => Just(json!({"type": "turn_start"})),
        2 => text().prop_map(|text| json!({"type": "chat_request", "content": text})),
        2 => text().prop_map(|text| json!({"type": "chat_response", "message": text})),
        2 => text().prop_map(|text| json!({"type": "chat_response", "reasoning": text, "metadata": {"s": text}})),
        1 => text().prop_map(|text| json!({"type": "chat_response", "data": [text, 1]})),
        2 => (text(), reasoning_metadata()).prop_map(|(text, metadata)| {
            json!({"type": "chat_response", "reasoning": text, "metadata": metadata})
        }),
        3 => (id(), tool, text()).prop_map(|(id, tool, text)| {
            json!({"type": "tool_call_request", "id": id, "name": tool, "arguments": {"x": base64(&text)}})
        }),
        1 => id().prop_map(|id| json!({"type": "tool_call_request", "id": id, "name": "bare"})),
        3 => (id(), text(), any::<bool>(), any::<bool>()).prop_map(|(id, text, is_error, encode)| {
            let content = if encode { base64(&text) } else { text };
            json!({"type": "tool_call_response", "id": id, "content": content, "is_error": is_error})
        }),
        1 => id().prop_map(|id| json!({"type": "inquiry_request", "id": id, "source": 1, "question": {}})),
        1 => Just(json!({"type": "config_delta", "delta": {"a": 1}})),
        1 => text().prop_map(|text| json!({"type": "bookmark", "content": text})),
    ]
}

/// Generates metadata that must be sent back to a provider with the reasoning.
fn reasoning_metadata() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"anthropic_thinking_signature": "c2ln"})),
        Just(json!({"anthropic_redacted_thinking": "c2ln"})),
        Just(json!({"google_thought_signature": "c2ln"})),
        Just(json!({"openai_item_id": "cnNfMQ==", "openai_encrypted_content": "c2ln"})),
    ]
}

fn turn_number() -> impl Strategy<Value = usize> {
    prop_oneof![9 => 0..8usize, 1 => Just(usize::MAX)]
}

fn policies() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({"summary": {"summary": text}})),
        Just(json!({"reasoning": "strip"})),
        Just(json!({"tool_calls": {"policy": "omit"}})),
        any::<(bool, bool)>().prop_map(|(request, response)| {
            json!({"tool_calls": {"policy": "strip", "request": request, "response": response}})
        }),
    ]
}

fn own_policies() -> impl Strategy<Value = Value> {
    let entry = (0..30u64, prop::sample::select(vec!["a", "b", "c\u{e9}"]), 0..4u8, text());
    let call = entry.prop_map(|(seq, id, action, text)| match action {
        0 => json!({"seq": seq, "id": id, "request": "strip"}),
        1 => json!({"seq": seq, "id": id, "response": {"replace": text}}),
        2 => json!({"seq": seq, "id": id, "response": "strip"}),
        _ => json!({"seq": seq, "id": id, "omit": true}),
    });
    prop_oneof![
        3 => prop::collection::vec(call, 0..12)
            .prop_map(|calls| json!({"tool_calls": {"policy": "selective", "calls": calls}})),
        1 => any::<(bool, bool)>().prop_map(|(request, response)| json!({
            "tool_calls": {"policy": "strip", "request": request, "response": response},
            "tool_overrides": {"read": {"request": "keep"}, "grep": {"response": "strip"}},
        })),
    ]
}

fn overlay() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        3 => policies().prop_map(|policies| ("compaction", policies)),
        2 => own_policies().prop_map(|policies| ("jp_compact_overlay", policies)),
        1 => Just(("jp_compact_receipt", json!({"strategy": "s"}))),
    ];
    let turn_overlay =
        (kind, 60..64i64, turn_number(), turn_number()).prop_map(|((kind, policies), second, from, to)| {
            let mut overlay =
                json!({"type": kind, "timestamp": timestamp_text(second), "from_turn": from, "to_turn": to});
            overlay.as_object_mut().unwrap().extend(policies.as_object().unwrap().clone());
            overlay
        });
    prop_oneof![3 => turn_overlay, 1 => step_overlay()]
}

fn step_overlay() -> impl Strategy<Value = Value> {
    let step = || prop_oneof![1 => Just(None), 3 => (0..4usize).prop_map(Some)];
    let policies = prop_oneof![policies(), own_policies()];
    let range = (0..4usize, step(), 0..3usize, step());
    (policies, 60..64i64, range).prop_map(|(policies, second, (from, from_step, length, to_step))| {
        let mut overlay = json!({
            "type": "jp_compact_step_overlay", "timestamp": timestamp_text(second), "from_turn": from, "to_turn": from + length,
        });
        for (name, step) in [("from_step", from_step), ("to_step", to_step)] {
            if let Some(step) = step {
                overlay[name] = step.into();
            }
        }
        overlay.as_object_mut().unwrap().extend(policies.as_object().unwrap().clone());
        overlay
    })
}

/// Formats elements as JP does, on one line, or one per line with unusual white space.
fn serialize(elements: Vec<Value>, layout: u8) -> Bytes {
    let array = Value::from(elements);
    match layout {
        0 => format!("{array:#}\n"),
        1 => array.to_string(),
        _ => {
            let elements: Vec<_> = array.as_array().unwrap().iter().map(ToString::to_string).collect();
            format!(" [\t{} \r\n]\n\n", elements.join(" ,\n\n"))
        }
    }
    .into()
}

fn with_timestamp((second, mut event): (usize, Value)) -> Value {
    event["timestamp"] = timestamp_text(i64::try_from(second).unwrap()).into();
    event
}

fn history() -> impl Strategy<Value = Bytes> {
    (prop::collection::vec(event(), 0..40), 0..3u8).prop_map(|(events, layout)| {
        serialize(events.into_iter().enumerate().map(with_timestamp).collect(), layout)
    })
}

/// Generates a transcript with overlays at any position.
pub(crate) fn transcript() -> impl Strategy<Value = Bytes> {
    let overlays = prop::collection::vec((any::<Index>(), overlay()), 0..8);
    (prop::collection::vec(event(), 0..40), overlays, 0..3u8).prop_map(|(events, overlays, layout)| {
        let mut elements: Vec<_> = events.into_iter().enumerate().map(with_timestamp).collect();
        for (index, overlay) in overlays {
            elements.insert(index.index(elements.len() + 1), overlay);
        }
        serialize(elements, layout)
    })
}

fn parse(bytes: &Bytes) -> Stream {
    Stream::parse(bytes.clone()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a possible proposal of a strategy for a range. `kind` selects a summary, two policies, or a list of all calls.
fn proposal(stream: &Stream, range: TurnRange, kind: u8) -> Value {
    let payload_with = |policies: Value| {
        let mut payload = json!({"from_turn": range.from(), "to_turn": range.to()});
        payload.as_object_mut().unwrap().extend(policies.as_object().unwrap().clone());
        payload
    };
    match kind {
        0 => json!([payload_with(json!({"summary": {"summary": "S \"\u{e9}\n"}}))]),
        1 => json!([
            payload_with(json!({"reasoning": "strip"})),
            payload_with(json!({"tool_calls": {"policy": "omit"}}))
        ]),
        _ => {
            let halves = stream.numbered().filter(|(_, element)| stream.events()[*element].kind.is_tool());
            let in_range = halves.filter(|(_, element)| range.contains(stream.events()[*element].turn));
            let calls: Vec<_> = in_range.map(|(seq, _)| json!({"seq": seq, "omit": true})).collect();
            json!([payload_with(
                json!({"reasoning": "strip", "tool_calls": {"policy": "selective", "calls": calls}})
            )])
        }
    }
}

/// Returns the compactions of [`proposal`], or none if it is not valid.
fn compactions(stream: &Stream, range: TurnRange, kind: u8) -> Vec<Compaction> {
    let pairs = Pairs::new(stream);
    let produces = &[Summary, Reasoning, ToolCalls];
    let (overlap, accepted, hints) = (Overlap::Partial, &[], &BTreeMap::new());
    let context = ValidationContext {
        stream,
        pairs: &pairs,
        range,
        requested_range: range,
        produces,
        allows_steps: false,
        accepted,
        overlap,
        hints,
        written_by_model: true,
    };
    let proposal = serde_json::from_value(proposal(stream, range, kind)).unwrap();
    validate(&context, proposal).unwrap_or_default()
}

fn entries(compactions: Vec<Compaction>) -> Vec<Entry> {
    let receipt = Receipt {
        strategy: "s".to_owned().try_into().unwrap(),
        version: "1".into(),
        executable_sha256: String::new(),
        options: Map::new(),
        input_sha256: String::new(),
        tier: String::new(),
        merges: None,
    };
    compactions.into_iter().map(|compaction| Entry { compaction, receipt: receipt.clone() }).collect()
}

fn reset_bytes(bytes: &Bytes, kind: Reset) -> Bytes {
    let pieces = reset(parse(bytes).index(), kind).unwrap().pieces;
    concat(&pieces, bytes).into()
}

/// Returns the elements without the receipts that have no overlay. `None` if all receipts have an overlay.
fn without_orphans(bytes: &Bytes) -> Option<Vec<Value>> {
    let elements: Vec<Value> = serde_json::from_slice(bytes).unwrap();
    let members = ["timestamp", "from_turn", "to_turn", "from_step", "to_step"];
    let key = |element: &Value| members.map(|name| element[name].clone());
    let types = ["compaction", "jp_compact_overlay", "jp_compact_step_overlay"];
    let is_overlay = |element: &&Value| types.iter().any(|kind| element["type"] == *kind);
    let overlays: Vec<_> = elements.iter().filter(is_overlay).map(key).collect();
    let mut remaining = elements.clone();
    remaining.retain(|element| element["type"] != "jp_compact_receipt" || overlays.contains(&key(element)));
    (remaining.len() < elements.len()).then_some(remaining)
}

/// Returns the events that providers receive, without their origin.
fn provider_events(stream: &Stream) -> Vec<(usize, Map<String, Value>)> {
    project(stream).events(stream).map(|event| (event.turn, event.event)).collect()
}

fn request(survey: &Survey<'_>, range: TurnRange, input: Input) -> Vec<u8> {
    let mut description = Description::new("s", "1", "");
    description.input = input;
    description.scope = Scope::Conversation;
    description.wants = vec!["previous_summaries".into()];
    let options = Map::new();
    let parameters = RequestParameters::new("c1", &description, range, &options, timestamp(0));
    lines(survey, &parameters)
}

proptest! {
    #[test]
    fn append_keeps_history_and_reset_restores_it(
        bytes in transcript(), from in 0..8usize, length in 0..8usize, kind in 0..3u8, now in 0..100i64,
    ) {
        let stream = parse(&bytes);
        let range = TurnRange::new(from, (from + length).min(stream.turns().saturating_sub(1)));
        let compactions = range.map(|range| compactions(&stream, range, kind)).unwrap_or_default();
        let entries = entries(compactions);
        let stamped = append::stamped_overlays(&stream, &entries, timestamp(now)).unwrap();
        let mut file = Bytes::from(concat(&append::append(&stream, &entries, &stamped), &bytes));

        prop_assert_eq!(&file[..stream.body_end()], &bytes[..stream.body_end()]);
        prop_assert!(file.ends_with(&bytes[stream.body_end()..]));
        let appended = parse(&file);
        prop_assert!(stream.raw_input().eq(appended.raw_input()));
        prop_assert_eq!(appended.turns(), stream.turns());
        let newest = stream.overlays().iter().map(|overlay| overlay.stamp).max();
        prop_assert!(stamped.iter().all(|stamped| Some(stamped.overlay.stamp) > newest));
        let parsed_overlays = appended.overlays()[stream.overlays().len()..].iter().cloned();
        let expected = stamped.iter().map(|stamped| stamped.overlay.clone());
        let without_element = |overlay| jp_compact_core::overlay::Overlay { element: 0, ..overlay };
        prop_assert_eq!(parsed_overlays.map(without_element).collect::<Vec<_>>(), expected.map(without_element).collect::<Vec<_>>());
        let overlays: Vec<_> = stream.overlays().iter().cloned().chain(stamped.iter().map(|stamped| stamped.overlay.clone())).collect();
        let predicted_view = jp_compact_core::projection::project_with_overlays(&stream, &overlays);
        let predicted_view: Vec<_> = predicted_view.events(&stream).map(|event| (event.turn, event.event)).collect();
        prop_assert_eq!(predicted_view, provider_events(&appended));

        prop_assert_eq!(reset_bytes(&file, Reset::All), reset_bytes(&bytes, Reset::All));
        for overlay in stamped.iter().rev() {
            file = reset_bytes(&file, Reset::One(overlay.number));
        }
        match without_orphans(&bytes) {
            None => prop_assert_eq!(file, bytes),
            Some(_) if stamped.is_empty() => prop_assert_eq!(file, bytes),
            Some(remaining) => prop_assert_eq!(serde_json::from_slice::<Vec<Value>>(&file).unwrap(), remaining),
        }
    }

    #[test]
    fn projection_is_deterministic_and_idempotent(bytes in transcript()) {
        let stream = parse(&bytes);
        let view = project(&stream);
        prop_assert_eq!(&view, &project(&parse(&bytes)));
        prop_assert!(view.items().windows(2).all(|pair| pair[0].turn <= pair[1].turn));
        let rendered = Bytes::from(concat(&render_source(&stream, &view), &bytes));
        let reparsed = parse(&rendered);
        prop_assert!(reparsed.overlays().is_empty());
        prop_assert_eq!(provider_events(&reparsed), provider_events(&stream));
        prop_assert_eq!(concat(&render_source(&reparsed, &project(&reparsed)), &rendered), rendered);
    }

    #[test]
    fn renderings_of_any_view_have_no_violations(bytes in transcript()) {
        let stream = parse(&bytes);
        let view = project(&stream);
        for provider in Provider::ALL {
            let rendered = render::render(&stream, &view, provider);
            prop_assert_eq!(lint::check_body(provider, &rendered), [], "{}", rendered.body);
        }
    }

    #[test]
    fn clean_view_needs_no_repairs(bytes in transcript()) {
        let stream = parse(&bytes);
        let view = project(&stream);
        let view_violations = lint::check_view(&stream, stream.overlays(), &view);
        for provider in Provider::ALL {
            let body_violations = lint::check_body(provider, &render::render_unrepaired(&stream, &view, provider));
            // Views have no rule for the first role (A2, M1, M2), for two calls of one message with the same id (A3),
            // or for ids that a single provider rejects (G8).
            let is_rule_of_views = |violation: &lint::Violation| {
                !matches!(violation.rule, Rule::A2 | Rule::M1 | Rule::M2 | Rule::A3 | Rule::G8)
            };
            if view_violations.is_empty() {
                prop_assert_eq!(body_violations.into_iter().find(is_rule_of_views), None);
            }
        }
    }

    #[test]
    fn without_overlays_source_equals_file(bytes in history()) {
        let stream = parse(&bytes);
        prop_assert_eq!(render_source(&stream, &project(&stream)), [Piece::Old(0..bytes.len())]);
        prop_assert_eq!(reset_bytes(&bytes, Reset::All), bytes);
    }

    #[test]
    fn reset_of_all_leaves_raw_input(bytes in transcript()) {
        let without_overlays = parse(&reset_bytes(&bytes, Reset::All));
        prop_assert!(without_overlays.overlays().is_empty());
        prop_assert!(without_overlays.raw_input().eq(parse(&bytes).raw_input()));
        prop_assert_eq!(project(&without_overlays).items().len(), without_overlays.events().len());
    }

    #[test]
    fn ranges_stay_within_the_stream(bytes in transcript(), from in bound(), to in bound(), now in -10..80i64) {
        let stream = parse(&bytes);
        if let Some(range) = bound::resolve(&stream, from, to, timestamp(now)) {
            prop_assert!(range.to() < stream.turns());
        }
    }

    #[test]
    fn selected_range_splits_no_call_or_summary(
        bytes in transcript(), from in bound(), to in bound(), union in any::<bool>(), accepted in range(),
    ) {
        let stream = parse(&bytes);
        let survey = Survey::new(&stream);
        let overlap = if union { Overlap::Union } else { Overlap::Partial };
        let Ok(selected) = select(&survey, Selection { from, to, ..Selection::default() }, timestamp(30)) else { return Ok(()) };
        let last = stream.turns() - 1;
        let is_closed = |range: TurnRange, for_summary| {
            let open = open::open_reason(&stream, &survey.pairs, for_summary).is_some();
            range.to() <= last && !(open && range.contains(last)) && survey.pairs.split_by(&stream, range).is_none()
        };
        prop_assert!(is_closed(selected.range, false));
        prop_assert_eq!(selected.range, selected.requested);
        let accepted = [accepted];
        if let Ok(extended) = select_for_summary(&survey, &selected, StrategyTraits::default(), &accepted, overlap) {
            prop_assert!(is_closed(extended.range, true));
            prop_assert!(extended.range.covers(extended.requested));
            let payload = json!([{"from_turn": extended.range.from(), "to_turn": extended.range.to(), "summary": {"summary": "S"}}]);
            let context = ValidationContext {
                stream: &stream, pairs: &survey.pairs, range: extended.range, requested_range: extended.requested,
                produces: &[Summary], allows_steps: false, accepted: &accepted, overlap, hints: &BTreeMap::new(),
                written_by_model: false,
            };
            // A strategy must be able to answer every request of the host.
            prop_assert!(validate(&context, serde_json::from_value(payload).unwrap()).is_ok());
        }
    }

    #[test]
    fn extension_is_independent_of_order(
        range in range(), summaries in prop::collection::vec((0..12usize, 0..12usize), 0..8), rotation in any::<Index>(), union in any::<bool>(),
    ) {
        let overlap = if union { Overlap::Union } else { Overlap::Partial };
        let summaries: Vec<_> = summaries.into_iter().filter_map(|(from, to)| TurnRange::new(from, to)).collect();
        let extended = extend(range, summaries.iter().copied(), overlap);
        prop_assert!(extended.covers(range));
        prop_assert_eq!(extend(extended, summaries.iter().copied(), overlap), extended);
        let mut reordered = summaries.clone();
        reordered.reverse();
        prop_assert_eq!(extend(range, reordered.iter().copied(), overlap), extended);
        if !reordered.is_empty() {
            let count = rotation.index(reordered.len());
            reordered.rotate_left(count);
        }
        prop_assert_eq!(extend(range, reordered.iter().copied(), overlap), extended);
        for summary in summaries {
            let contains_range = summary.covers(extended);
            prop_assert!(!summary.overlaps(extended) || extended.covers(summary) || (contains_range && !union));
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(
        bytes in transcript(), edits in prop::collection::vec((any::<Index>(), any::<u8>(), 0..3u8), 0..4),
    ) {
        let mut bytes = bytes.to_vec();
        for (index, byte, edit) in edits {
            let index = index.index(bytes.len());
            match edit {
                0 => bytes[index] = byte,
                1 => bytes.insert(index, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(index)),
                _ => {}
            }
        }
        let bytes = Bytes::from(bytes);
        let Ok(stream) = Stream::parse(bytes.clone()) else { return Ok(()) };
        let survey = Survey::new(&stream);
        let source = concat(&render_source(&stream, &survey.view), &bytes);
        prop_assert!(Stream::parse(source.into()).is_ok());
        let mut json = Vec::new();
        survey.view.write_json(&stream, &mut json).unwrap();
        prop_assert!(serde_json::from_slice::<Vec<Value>>(&json).is_ok());
        prop_assert!(reset_bytes(&bytes, Reset::All).len() <= bytes.len());
        if let Some(range) = TurnRange::new(0, stream.turns().saturating_sub(1)) {
            for input in [Input::None, Input::Outline, Input::Full] {
                let lines = request(&survey, range, input);
                for line in lines.split_inclusive(|byte| *byte == b'\n') {
                    prop_assert!(serde_json::from_slice::<Map<String, Value>>(line).is_ok());
                }
            }
        }
    }
}

fn bound() -> impl Strategy<Value = Option<Bound>> {
    let seconds = (0..80u32).prop_map(|seconds| bound::duration(&format!("{seconds}s")).unwrap());
    prop::option::of(prop_oneof![
        turn_number().prop_map(Bound::turn),
        turn_number().prop_map(Bound::FromEnd),
        seconds.prop_map(Bound::Ago),
        Just(Bound::AfterLast),
    ])
}

fn range() -> impl Strategy<Value = TurnRange> {
    (0..12usize, 0..12usize)
        .prop_map(|(left, right)| TurnRange::new(left.min(right), left.max(right)).unwrap())
}
