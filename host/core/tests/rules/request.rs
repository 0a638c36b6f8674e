//! Requests: a strategy receives only the data that it asked for, and every line conforms to its schema.

use std::collections::BTreeMap;

use jp_compact_core::request::{RequestParameters, header, lines};
use jp_compact_core::{Stream, Survey, TurnRange};
use jp_compact_schema::{Description, Hint, Input, Scope, ToolHint, catalog};
use serde_json::{Map, Value, json};

use crate::build::{Build, base64, compaction, own_overlay, receipt, timestamp, timestamp_text};

fn description(input: Input) -> Description {
    Description { input, ..Description::new("a-strategy", "1.0.0", "for a test") }
}

/// Returns the lines of a request for turn 1, each validated against its schema.
#[track_caller]
fn request_lines(stream: &Stream, description: &Description) -> Vec<Value> {
    let turn_1 = TurnRange::new(1, 1).unwrap();
    let options = Map::from_iter([("mode".to_owned(), json!("strip"))]);
    let parameters = RequestParameters {
        conversation: Some("17738399468"),
        digest: Some("d1635"),
        ..RequestParameters::new("c1", description, turn_1, &options, timestamp(500))
    };
    let bytes = lines(&Survey::new(stream), &parameters);
    assert!(bytes.ends_with(b"\n"));
    let lines: Vec<Value> =
        str::from_utf8(&bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines {
        let name = line["type"].as_str().unwrap().replace('_', "-");
        let schema = catalog::get(&name).unwrap().json();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        if let Err(error) = validator.validate(line) {
            panic!("{error}\n{line}");
        }
    }
    lines
}

fn summarized() -> Build {
    Build::turns(3)
        .element(compaction(60, 0, 0, json!({"summary": {"summary": "a secret"}})))
        .element(receipt(60, 0, 0))
}

#[test]
fn input_none_gets_only_the_header() {
    let lines = request_lines(&Build::turns(3).stream(), &description(Input::None));
    let row = json!({
        "turn": 1, "events": 6, "tokens": 108, "view_tokens": 108, "complete": true,
        "kinds": {"reasoning": 1, "reasoning_tokens": 3, "tool_calls": 1, "tool_errors": 0, "tool_request_tokens": 6, "tool_response_tokens": 3},
    });
    let header = json!({
        "type": "compact", "id": "c1", "protocol": 1, "strategy": "a-strategy",
        "conversation": {"id": "17738399468", "format": "jp", "turns": 3, "events": 18, "bytes": Build::turns(3).bytes().len()},
        "range": {"from_turn": 1, "to_turn": 1}, "requested_range": {"from_turn": 1, "to_turn": 1}, "range_exact": false,
        "options": {"mode": "strip"},
        "context": {
            "now": "2026-04-02T09:08:20Z", "estimator": "pieces", "tokens": {"raw": 323, "view": 323, "in_range": 108},
            "turns": [row], "compactions": [], "tool_hints": {},
        },
        "outline": null, "events": null, "limits": {"deadline_ms": 60000, "result_bytes_max": 8388608},
        "answers": {}, "state": null, "dry_run": false,
    });
    assert_eq!(lines, [header]);
}

#[test]
fn header_comes_first_with_stable_first_fields() {
    let stream = Build::turns(3).stream();
    let turn_1 = TurnRange::new(1, 1).unwrap();
    let (description, options) = (description(Input::Full), Map::new());
    let parameters = RequestParameters {
        dry_run: true,
        ..RequestParameters::new("c1", &description, turn_1, &options, timestamp(0))
    };
    let bytes = lines(&Survey::new(&stream), &parameters);
    assert!(bytes.starts_with(br#"{"type":"compact","id":"c1","protocol":1,"#));
}

#[test]
fn input_outline_gets_only_the_header() {
    let build = Build::turns(1)
        .turn()
        .call("a", "grep")
        .answer_error("a", "x")
        .element(compaction(60, 0, 0, json!({"reasoning": "strip"})))
        .config_delta()
        .unknown()
        .answer("lost", "y")
        .element(json!({"timestamp": timestamp_text(0), "note": 1}));
    let lines = request_lines(&build.stream(), &description(Input::Outline));
    let [header] = lines.as_slice() else { panic!("expected only a header: {lines:?}") };
    assert_eq!(
        header["outline"],
        json!({
            "types": ["turn_start", "tool_call_request", "tool_call_response", "bookmark", "unknown"], "tools": ["grep"],
            "seq": [6, 7, 8, 9, 10, 11], "turn": [1, 1, 1, 1, 1, 1], "type": [0, 1, 2, 3, 2, 4],
            "tool": [null, 0, 0, null, null, null], "pair": [null, 8, 7, null, null, null],
            "bytes": [0, 3, 1, 0, 1, 0], "tokens": [0, 28, 24, 0, 24, 0], "error": [8], "hidden": [],
        })
    );
}

#[test]
fn outline_lists_hidden_events_and_sizes() {
    let strip =
        json!({"tool_calls": {"policy": "strip", "request": false, "response": true}, "reasoning": "strip"});
    let build = Build::turns(1).turn().call("a", "read").answer("a", "ä, stored in base64").call("b", "read");
    let header = &request_lines(
        &build.clone().element(compaction(60, 1, 1, strip)).stream(),
        &description(Input::Outline),
    )[0];
    assert_eq!(header["outline"]["hidden"], json!([8]));
    assert_eq!(header["outline"]["bytes"][2], "ä, stored in base64".len());
    let summary = json!({"summary": {"summary": "S"}});
    let header =
        &request_lines(&build.element(compaction(60, 1, 1, summary)).stream(), &description(Input::Outline))
            [0];
    assert_eq!(header["outline"]["hidden"], json!([6, 7, 8, 9]));
}

#[test]
fn outline_names_tool_of_each_response() {
    let build = Build::turns(1).turn().call("a", "read").answer("a", "").call("a", "grep").answer("a", "");
    let header = &request_lines(&build.stream(), &description(Input::Outline))[0];
    assert_eq!(header["outline"]["tools"], json!(["read", "grep"]));
    assert_eq!(header["outline"]["tool"], json!([null, 0, 0, 1, 1]));
}

#[test]
fn input_full_gets_header_events_and_end() {
    let build = Build::turns(1)
        .element(compaction(60, 0, 0, json!({"reasoning": "strip"})))
        .turn()
        .config_delta()
        .element(json!({"timestamp": timestamp_text(1), "type": "chat_request", "content": base64("plain"), "later": base64("kept")}))
        .element(json!({"timestamp": timestamp_text(2), "type": "tool_call_request", "id": "a", "name": "t",
                    "arguments": {"p": base64("x.rs"), "l": [base64("y"), 1]}, "metadata": {"m": base64("z")}}))
        .element(own_overlay(61, 0, 0, json!({"tool_calls": {"policy": "omit"}})))
        .answer("a", "found")
        .element(json!({"timestamp": timestamp_text(3), "type": "bookmark", "content": base64("as it is")}));
    let lines = request_lines(&build.stream(), &description(Input::Full));
    assert_eq!(lines[0]["events"], json!({"mode": "inline", "count": 5}));
    assert_eq!(lines[0]["outline"], Value::Null);
    let event_line = |seq: u64, tokens: u64, event: Value| json!({"type": "event", "seq": seq, "turn": 1, "tokens": tokens, "event": event});
    assert_eq!(
        lines[1..],
        [
            event_line(6, 0, json!({"timestamp": timestamp_text(7), "type": "turn_start"})),
            event_line(
                7,
                21,
                json!({"timestamp": timestamp_text(1), "type": "chat_request", "content": base64("plain"), "later": base64("kept")})
            ),
            event_line(
                8,
                36,
                json!({"timestamp": timestamp_text(2), "type": "tool_call_request", "id": "a", "name": "t",
                              "arguments": {"p": "x.rs", "l": ["y", 1]}, "metadata": {"m": "z"}})
            ),
            event_line(
                9,
                24,
                json!({"timestamp": timestamp_text(12), "type": "tool_call_response", "id": "a", "content": "found", "is_error": false})
            ),
            event_line(
                10,
                0,
                json!({"timestamp": timestamp_text(3), "type": "bookmark", "content": base64("as it is")})
            ),
            json!({"type": "events_end", "id": "c1", "count": 5}),
        ]
    );
}

#[test]
fn skips_elements_that_are_not_objects() {
    let build = Build::turns(2).element(json!("text")).element(json!(null));
    let lines = request_lines(&build.stream(), &description(Input::Full));
    assert_eq!(lines[0]["events"]["count"], 6);
    assert_eq!(lines.len(), 8);
}

#[test]
fn scope_conversation_sends_every_turn() {
    for input in [Input::None, Input::Outline, Input::Full] {
        let wide = Description { scope: Scope::Conversation, ..description(input) };
        let (wide, narrow) = (
            request_lines(&Build::turns(3).stream(), &wide),
            request_lines(&Build::turns(3).stream(), &description(input)),
        );
        let turn_count = |lines: &[Value]| lines[0]["context"]["turns"].as_array().unwrap().len();
        assert_eq!((turn_count(&wide), turn_count(&narrow)), (3, 1));
        let outline_rows = |lines: &[Value]| lines[0]["outline"]["seq"].as_array().map_or(0, Vec::len);
        let expected_rows = if input == Input::Outline { (18, 6) } else { (0, 0) };
        assert_eq!((outline_rows(&wide), outline_rows(&narrow)), expected_rows);
        let events = if input == Input::Full { (20, 8) } else { (1, 1) };
        assert_eq!((wide.len(), narrow.len()), events);
        assert_eq!(wide[0]["range"], narrow[0]["range"]);
    }
}

#[test]
fn sends_summary_texts_only_on_request() {
    for input in [Input::None, Input::Outline, Input::Full] {
        for scope in [Scope::Range, Scope::Conversation] {
            let description = Description { scope, ..description(input) };
            let text = Value::from(request_lines(&summarized().stream(), &description)).to_string();
            assert!(!text.contains("a secret") && !text.contains("previous_summaries"), "{text}");
        }
    }
    let with_summaries = Description { wants: vec!["previous_summaries".into()], ..description(Input::None) };
    let header = &request_lines(&summarized().stream(), &with_summaries)[0];
    let expected = json!([{"from_turn": 0, "to_turn": 0, "text": "a secret"}]);
    assert_eq!(header["context"]["previous_summaries"], expected);
    let header = &request_lines(&Build::turns(2).stream(), &with_summaries)[0];
    assert_eq!(header["context"]["previous_summaries"], json!([]));
}

#[test]
fn sends_digest_only_on_request() {
    let digest = |wants: &[&str]| {
        let wants = wants.iter().map(|word| (*word).to_owned()).collect();
        request_lines(&Build::turns(2).stream(), &Description { wants, ..description(Input::None) })[0]["conversation"]
            .get("digest")
            .cloned()
    };
    assert_eq!(digest(&[]), None);
    assert_eq!(digest(&["previous_summaries", "later"]), None);
    assert_eq!(digest(&["digest"]), Some(json!("d1635")));
}

#[test]
fn sends_ranges_and_kinds_of_earlier_overlays() {
    let policy = json!({"policy": "selective", "calls": [{"seq": 3, "id": "c0", "response": {"replace": "a secret"}}]});
    let build = summarized()
        .element(compaction(61, 1, 9, json!({"reasoning": "strip", "tool_calls": {"policy": "strip", "request": true, "response": false}})))
        .element(own_overlay(62, 0, 0, json!({"tool_calls": policy})))
        .element(compaction(63, 2, 2, json!({"tool_calls": {"policy": "omit"}})));
    let header = &request_lines(&build.stream(), &description(Input::None))[0];
    assert_eq!(
        header["context"]["compactions"],
        json!([
            {"number": 1, "strategies": ["s"], "from_turn": 0, "to_turn": 0, "summary": true},
            {"number": 2, "from_turn": 1, "to_turn": 9, "reasoning": "strip", "shown": ["reasoning", "tool_calls"],
             "tool_calls": {"policy": "strip", "request": true, "response": false}},
            {"number": 3, "from_turn": 0, "to_turn": 0, "tool_calls": {"policy": "selective"}},
            {"number": 4, "from_turn": 2, "to_turn": 2, "tool_calls": {"policy": "omit"}},
        ])
    );
    assert!(!header.to_string().contains("a secret"));
}

#[test]
fn reports_whether_the_hints_of_a_policy_changed() {
    let strip = json!({"policy": "strip", "request": true, "response": true});
    let keep = BTreeMap::from([("read".to_owned(), ToolHint { request: Some(Hint::Keep), response: None })]);
    let other = BTreeMap::from([("grep".to_owned(), ToolHint { request: Some(Hint::Keep), response: None })]);
    let changed = |policies: Value, hints: &BTreeMap<String, ToolHint>| {
        let stream = Build::turns(2).element(own_overlay(60, 0, 0, policies)).stream();
        let survey = Survey::new(&stream);
        let (description, options) = (description(Input::None), Map::new());
        let range = TurnRange::new(0, 1).unwrap();
        let parameters = RequestParameters {
            hints,
            ..RequestParameters::new("c1", &description, range, &options, timestamp(100))
        };
        header(&survey, &parameters, None).context.compactions[0].hints_changed
    };
    let without = json!({"tool_calls": strip});
    let with = json!({"tool_calls": strip, "tool_overrides": {"read": {"request": "keep"}}});
    assert!(!changed(without.clone(), &BTreeMap::new()) && changed(without.clone(), &keep));
    assert!(!changed(without, &other), "the tool is not called");
    assert!(!changed(with.clone(), &keep) && changed(with, &BTreeMap::new()));
    assert!(
        !changed(json!({"tool_calls": {"policy": "omit"}}), &keep),
        "hints do not apply to omitted calls"
    );
}

#[test]
fn numbers_and_raw_input_skip_overlays_and_config() {
    let plain = Build::turns(2).unknown();
    let (before, after) = (
        plain.stream(),
        plain
            .clone()
            .config_delta()
            .element(compaction(60, 0, 0, json!({})))
            .element(receipt(60, 0, 0))
            .stream(),
    );
    assert_eq!(before.numbered().collect::<Vec<_>>(), after.numbered().collect::<Vec<_>>());
    assert!(before.raw_input().eq(after.raw_input()));
    assert_eq!(before.raw_input().count(), 13);
    let interleaved = Build::default()
        .config_delta()
        .element(compaction(60, 0, 0, json!({})))
        .ask("")
        .config_delta()
        .say("")
        .stream();
    assert_eq!(interleaved.numbered().collect::<Vec<_>>(), [(0, 2), (1, 4)]);
    assert_eq!(interleaved.events().iter().filter_map(|event| event.seq).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(
        (interleaved.element(1), interleaved.element(2), interleaved.element(u64::MAX)),
        (Some(4), None, None)
    );
}
