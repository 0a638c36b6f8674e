//! Properties of all streams. Streams are made of random but well-formed elements, including overlays of both grammars,
//! within the range of turns or not.

use std::collections::BTreeMap;

use bytes::Bytes;
use jp_compact_core::append::{self, Entry, Receipt};
use jp_compact_core::bound::{self, Bound};
use jp_compact_core::lint::Rule;
use jp_compact_core::overlap::{Overlap, extend};
use jp_compact_core::projection::project;
use jp_compact_core::render::{self, Provider};
use jp_compact_core::request::{Ask, lines};
use jp_compact_core::select::{Selection, select, select_for_summary};
use jp_compact_core::source::{Reset, render as source_of, reset};
use jp_compact_core::splice::{Piece, concat};
use jp_compact_core::validate::{Asked, Compaction, validate};
use jp_compact_core::{Pairs, Stream, Survey, TurnRange, lint, open};
use jp_compact_schema::ContentKind::{Reasoning, Summary, ToolCalls};
use jp_compact_schema::{Description, Input, Scope};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use crate::build::{at, base64, when};

/// Text with escapes, in base64, or without either.
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
        2 => (text(), signature()).prop_map(|(text, metadata)| {
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

/// Data that providers want back with a thought.
fn signature() -> impl Strategy<Value = Value> {
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
    let whole =
        (kind, 60..64i64, turn_number(), turn_number()).prop_map(|((kind, policies), second, from, to)| {
            let mut overlay =
                json!({"type": kind, "timestamp": at(second), "from_turn": from, "to_turn": to});
            overlay.as_object_mut().unwrap().extend(policies.as_object().unwrap().clone());
            overlay
        });
    prop_oneof![3 => whole, 1 => step_overlay()]
}

fn step_overlay() -> impl Strategy<Value = Value> {
    let step = || prop_oneof![1 => Just(None), 3 => (0..4usize).prop_map(Some)];
    let policies = prop_oneof![policies(), own_policies()];
    let range = (0..4usize, step(), 0..3usize, step());
    (policies, 60..64i64, range).prop_map(|(policies, second, (from, from_step, more, to_step))| {
        let mut overlay = json!({
            "type": "jp_compact_step_overlay", "timestamp": at(second), "from_turn": from, "to_turn": from + more,
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
fn written(elements: Vec<Value>, layout: u8) -> Bytes {
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

fn timed((second, mut event): (usize, Value)) -> Value {
    event["timestamp"] = at(i64::try_from(second).unwrap()).into();
    event
}

fn history() -> impl Strategy<Value = Bytes> {
    (prop::collection::vec(event(), 0..40), 0..3u8)
        .prop_map(|(events, layout)| written(events.into_iter().enumerate().map(timed).collect(), layout))
}

/// History with overlays at any position.
pub(crate) fn transcript() -> impl Strategy<Value = Bytes> {
    let overlays = prop::collection::vec((any::<Index>(), overlay()), 0..8);
    (prop::collection::vec(event(), 0..40), overlays, 0..3u8).prop_map(|(events, overlays, layout)| {
        let mut elements: Vec<_> = events.into_iter().enumerate().map(timed).collect();
        for (place, overlay) in overlays {
            elements.insert(place.index(elements.len() + 1), overlay);
        }
        written(elements, layout)
    })
}

fn parse(bytes: &Bytes) -> Stream {
    Stream::parse(bytes.clone()).unwrap_or_else(|error| panic!("{error}"))
}

/// A proposal that a strategy might make for a range: every kind, and each call that may be listed.
fn proposal(stream: &Stream, range: TurnRange, kind: u8) -> Value {
    let covering = |policies: Value| {
        let mut payload = json!({"from_turn": range.from(), "to_turn": range.to()});
        payload.as_object_mut().unwrap().extend(policies.as_object().unwrap().clone());
        payload
    };
    match kind {
        0 => json!([covering(json!({"summary": {"summary": "S \"\u{e9}\n"}}))]),
        1 => json!([
            covering(json!({"reasoning": "strip"})),
            covering(json!({"tool_calls": {"policy": "omit"}}))
        ]),
        _ => {
            let tools = stream.numbered().filter(|(_, element)| stream.events()[*element].kind.is_tool());
            let inside = tools.filter(|(_, element)| range.contains(stream.events()[*element].turn));
            let calls: Vec<_> = inside.map(|(seq, _)| json!({"seq": seq, "omit": true})).collect();
            json!([covering(
                json!({"reasoning": "strip", "tool_calls": {"policy": "selective", "calls": calls}})
            )])
        }
    }
}

fn valid(stream: &Stream, range: TurnRange, kind: u8) -> Vec<Compaction> {
    let pairs = Pairs::new(stream);
    let produces = &[Summary, Reasoning, ToolCalls];
    let (overlap, accepted, hints) = (Overlap::Partial, &[], &BTreeMap::new());
    let asked = Asked {
        stream,
        pairs: &pairs,
        range,
        requested: range,
        produces,
        by_step: false,
        accepted,
        overlap,
        hints,
        by_model: true,
    };
    let proposal = serde_json::from_value(proposal(stream, range, kind)).unwrap();
    validate(&asked, proposal).unwrap_or_default()
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

fn resets(bytes: &Bytes, which: Reset) -> Bytes {
    let pieces = reset(parse(bytes).index(), which).unwrap().pieces;
    concat(&pieces, bytes).into()
}

/// Removes the receipts without an overlay. `None` if there are none.
fn without_orphans(bytes: &Bytes) -> Option<Vec<Value>> {
    let elements: Vec<Value> = serde_json::from_slice(bytes).unwrap();
    let origin = |element: &Value| ["timestamp", "from_turn", "to_turn"].map(|name| element[name].clone());
    let is_overlay =
        |element: &&Value| element["type"] == "compaction" || element["type"] == "jp_compact_overlay";
    let overlays: Vec<_> = elements.iter().filter(is_overlay).map(origin).collect();
    let mut left = elements.clone();
    left.retain(|element| element["type"] != "jp_compact_receipt" || overlays.contains(&origin(element)));
    (left.len() < elements.len()).then_some(left)
}

/// Returns the events that providers receive, without their origin.
fn sent(stream: &Stream) -> Vec<(usize, Map<String, Value>)> {
    project(stream).events(stream).map(|event| (event.turn, event.event)).collect()
}

fn request(survey: &Survey<'_>, range: TurnRange, input: Input) -> Vec<u8> {
    let mut description = Description::new("s", "1", "");
    description.input = input;
    description.scope = Scope::Conversation;
    description.wants = vec!["previous_summaries".into()];
    let options = Map::new();
    let ask = Ask::new("c1", &description, range, &options, when(0));
    lines(survey, &ask)
}

proptest! {
    #[test]
    fn append_keeps_history_and_reset_restores_it(
        bytes in transcript(), from in 0..8usize, length in 0..8usize, kind in 0..3u8, now in 0..100i64,
    ) {
        let stream = parse(&bytes);
        let range = TurnRange::new(from, (from + length).min(stream.turns().saturating_sub(1)));
        let compactions = range.map(|range| valid(&stream, range, kind)).unwrap_or_default();
        let entries = entries(compactions);
        let made = append::stamp(&stream, &entries, when(now)).unwrap();
        let mut file = Bytes::from(concat(&append::append(&stream, &entries, &made), &bytes));

        prop_assert_eq!(&file[..stream.body_end()], &bytes[..stream.body_end()]);
        prop_assert!(file.ends_with(&bytes[stream.body_end()..]));
        let grown = parse(&file);
        prop_assert!(stream.raw_input().eq(grown.raw_input()));
        prop_assert_eq!(grown.turns(), stream.turns());
        let newest = stream.overlays().iter().map(|overlay| overlay.stamp).max();
        prop_assert!(made.iter().all(|made| Some(made.overlay.stamp) > newest));
        let read = grown.overlays()[stream.overlays().len()..].iter().cloned();
        let expected = made.iter().map(|made| made.overlay.clone());
        let placeless = |overlay| jp_compact_core::overlay::Overlay { element: 0, ..overlay };
        prop_assert_eq!(read.map(placeless).collect::<Vec<_>>(), expected.map(placeless).collect::<Vec<_>>());
        let overlays: Vec<_> = stream.overlays().iter().cloned().chain(made.iter().map(|made| made.overlay.clone())).collect();
        let foreseen = jp_compact_core::projection::project_through(&stream, &overlays);
        let foreseen: Vec<_> = foreseen.events(&stream).map(|event| (event.turn, event.event)).collect();
        prop_assert_eq!(foreseen, sent(&grown));

        prop_assert_eq!(resets(&file, Reset::All), resets(&bytes, Reset::All));
        for made in made.iter().rev() {
            file = resets(&file, Reset::One(made.number));
        }
        match without_orphans(&bytes) {
            None => prop_assert_eq!(file, bytes),
            Some(_) if made.is_empty() => prop_assert_eq!(file, bytes),
            Some(left) => prop_assert_eq!(serde_json::from_slice::<Vec<Value>>(&file).unwrap(), left),
        }
    }

    #[test]
    fn projection_is_deterministic_and_idempotent(bytes in transcript()) {
        let stream = parse(&bytes);
        let view = project(&stream);
        prop_assert_eq!(&view, &project(&parse(&bytes)));
        prop_assert!(view.items().windows(2).all(|pair| pair[0].turn <= pair[1].turn));
        let source = Bytes::from(concat(&source_of(&stream, &view), &bytes));
        let again = parse(&source);
        prop_assert!(again.overlays().is_empty());
        prop_assert_eq!(sent(&again), sent(&stream));
        prop_assert_eq!(concat(&source_of(&again, &project(&again)), &source), source);
    }

    #[test]
    fn renderings_of_any_view_lint_clean(bytes in transcript()) {
        let stream = parse(&bytes);
        let view = project(&stream);
        for provider in Provider::ALL {
            let rendered = render::render(&stream, &view, provider);
            prop_assert_eq!(lint::body(provider, &rendered), [], "{}", rendered.body);
        }
    }

    #[test]
    fn clean_view_needs_no_repairs(bytes in transcript()) {
        let stream = parse(&bytes);
        let view = project(&stream);
        let found = lint::view(&stream, stream.overlays(), &view);
        for provider in Provider::ALL {
            let found_in_body = lint::body(provider, &render::as_is(&stream, &view, provider));
            // Views have no rule for the first role (A2, M1, M2), two calls of one message with the same id (A3), and
            // ids that a single provider rejects (G8).
            let of_a_view = |it: &lint::Violation| {
                !matches!(it.rule, Rule::A2 | Rule::M1 | Rule::M2 | Rule::A3 | Rule::G8)
            };
            if found.is_empty() {
                prop_assert_eq!(found_in_body.into_iter().find(of_a_view), None);
            }
        }
    }

    #[test]
    fn without_overlays_source_equals_file(bytes in history()) {
        let stream = parse(&bytes);
        prop_assert_eq!(source_of(&stream, &project(&stream)), [Piece::Old(0..bytes.len())]);
        prop_assert_eq!(resets(&bytes, Reset::All), bytes);
    }

    #[test]
    fn reset_of_all_leaves_raw_input(bytes in transcript()) {
        let plain = parse(&resets(&bytes, Reset::All));
        prop_assert!(plain.overlays().is_empty());
        prop_assert!(plain.raw_input().eq(parse(&bytes).raw_input()));
        prop_assert_eq!(project(&plain).items().len(), plain.events().len());
    }

    #[test]
    fn ranges_stay_within_the_stream(bytes in transcript(), from in bound(), to in bound(), now in -10..80i64) {
        let stream = parse(&bytes);
        if let Some(range) = bound::resolve(&stream, from, to, when(now)) {
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
        let Ok(selected) = select(&survey, Selection { from, to, ..Selection::default() }, when(30)) else { return Ok(()) };
        let last = stream.turns() - 1;
        let whole = |range: TurnRange, for_summary| {
            let open = open::open(&stream, &survey.pairs, for_summary).is_some();
            range.to() <= last && !(open && range.contains(last)) && survey.pairs.split_by(&stream, range).is_none()
        };
        prop_assert!(whole(selected.range, false));
        prop_assert_eq!(selected.range, selected.requested);
        let accepted = [accepted];
        if let Ok(closed) = select_for_summary(&survey, &selected, &accepted, overlap) {
            prop_assert!(whole(closed.range, true));
            prop_assert!(closed.range.covers(closed.requested));
            let payload = json!([{"from_turn": closed.range.from(), "to_turn": closed.range.to(), "summary": {"summary": "S"}}]);
            let asked = Asked {
                stream: &stream, pairs: &survey.pairs, range: closed.range, requested: closed.requested,
                produces: &[Summary], by_step: false, accepted: &accepted, overlap, hints: &BTreeMap::new(),
                by_model: false,
            };
            // A strategy must be able to answer every request of the host.
            prop_assert!(validate(&asked, serde_json::from_value(payload).unwrap()).is_ok());
        }
    }

    #[test]
    fn extension_is_independent_of_order(
        range in range(), summaries in prop::collection::vec((0..12usize, 0..12usize), 0..8), turned in any::<Index>(), union in any::<bool>(),
    ) {
        let overlap = if union { Overlap::Union } else { Overlap::Partial };
        let summaries: Vec<_> = summaries.into_iter().filter_map(|(from, to)| TurnRange::new(from, to)).collect();
        let extended = extend(range, summaries.iter().copied(), overlap);
        prop_assert!(extended.covers(range));
        prop_assert_eq!(extend(extended, summaries.iter().copied(), overlap), extended);
        let mut other = summaries.clone();
        other.reverse();
        prop_assert_eq!(extend(range, other.iter().copied(), overlap), extended);
        if !other.is_empty() {
            let at = turned.index(other.len());
            other.rotate_left(at);
        }
        prop_assert_eq!(extend(range, other.iter().copied(), overlap), extended);
        for older in summaries {
            let around = older.covers(extended);
            prop_assert!(!older.meets(extended) || extended.covers(older) || (around && !union));
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(
        bytes in transcript(), edits in prop::collection::vec((any::<Index>(), any::<u8>(), 0..3u8), 0..4),
    ) {
        let mut bytes = bytes.to_vec();
        for (place, byte, edit) in edits {
            let place = place.index(bytes.len());
            match edit {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(place)),
                _ => {}
            }
        }
        let bytes = Bytes::from(bytes);
        let Ok(stream) = Stream::parse(bytes.clone()) else { return Ok(()) };
        let survey = Survey::new(&stream);
        let source = concat(&source_of(&stream, &survey.view), &bytes);
        prop_assert!(Stream::parse(source.into()).is_ok());
        let mut json = Vec::new();
        survey.view.write_json(&stream, &mut json).unwrap();
        prop_assert!(serde_json::from_slice::<Vec<Value>>(&json).is_ok());
        prop_assert!(resets(&bytes, Reset::All).len() <= bytes.len());
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
    (0..12usize, 0..12usize).prop_map(|(one, two)| TurnRange::new(one.min(two), one.max(two)).unwrap())
}
