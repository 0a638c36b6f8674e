//! RFD 064's own examples and tables, named after their sections. The hints are RFD D17's.

use std::collections::BTreeMap;

use jp_compact_core::splice::concat;
use jp_compact_core::validate::{ValidationContext, validate};
use jp_compact_core::{Bound, Overlap, Pairs, Stream, Survey, TurnRange, append, bound, overlap, request};
use jp_compact_schema::ContentKind::{Reasoning, Summary, ToolCalls};
use jp_compact_schema::{Description, Input, ToolHint};
use serde_json::{Map, Value, json};

use crate::append::entries_of;
use crate::build::{Build, base64, compaction, format_projection, timestamp};

/// Returns turns 0 to 2 of the example, and the first turn of its "turns 3+".
fn example() -> Build {
    let call_with_path = |build: Build, id: &str, tool: &str| {
        let arguments = json!({"path": base64("src/main.rs")});
        let call = json!({
            "timestamp": "2026-04-02 09:00:30.0", "type": "tool_call_request", "id": id, "name": tool, "arguments": arguments
        });
        build.element(call)
    };
    let build = Build::default().turn().ask("set up").say("I'll create the project structure.");
    let build =
        call_with_path(build, "1", "fs_create_file").answer("1", "<200 lines of code>").say("Created.");
    let build = build.turn().ask("add error handling").think("<500 tokens>");
    let build = call_with_path(build, "2", "fs_read_file").answer("2", "<200 lines of code>");
    let build = call_with_path(build, "3", "fs_modify_file").answer("3", "<300 lines of diff>").say("Added.");
    let build = build.turn().ask("now add logging").think("<400 tokens>");
    let build =
        call_with_path(build, "4", "fs_modify_file").answer("4", "<250 lines of diff>").say("Logged.");
    build.turn().ask("thanks").say("Done.")
}

/// Appends `payload` with these hints, and formats the view.
#[track_caller]
fn projected(build: &Build, hints: &Value, payload: Value) -> String {
    let stream = build.stream();
    let all_turns = TurnRange::new(0, stream.turns() - 1).unwrap();
    let hints: BTreeMap<String, ToolHint> = serde_json::from_value(hints.clone()).unwrap();
    let pairs = Pairs::new(&stream);
    let context = ValidationContext {
        hints: &hints,
        ..ValidationContext::new(&stream, &pairs, all_turns, &[Summary, Reasoning, ToolCalls])
    };
    let compactions = validate(&context, vec![serde_json::from_value(payload).unwrap()]).unwrap();
    let entries = entries_of(compactions);
    let stamped = append::stamped_overlays(&stream, &entries, timestamp(1000)).unwrap();
    let bytes: Vec<u8> = concat(&append::append(&stream, &entries, &stamped), stream.bytes());
    format_projection(&Stream::parse(bytes.into()).unwrap())
}

/// Returns the profile `default` for turns 0 to 2.
fn default_profile() -> Value {
    let strip = json!({"policy": "strip", "request": true, "response": true});
    json!({"from_turn": 0, "to_turn": 2, "reasoning": "strip", "tool_calls": strip})
}

#[test]
fn projection_example_default_profile() {
    let expected = "?set up =I'll create the project structure. >1{} <1:[compacted] fs_create_file: success =Created. \
                    | ?add error handling >2{} <2:[compacted] fs_read_file: success \
                    >3{} <3:[compacted] fs_modify_file: success =Added. \
                    | ?now add logging >4{} <4:[compacted] fs_modify_file: success =Logged. | ?thanks =Done.";
    assert_eq!(projected(&example(), &json!({}), default_profile()), expected);
}

#[test]
fn projection_example_default_profile_with_per_tool_hints() {
    let hints = json!({
        "fs_read_file": {"request": "keep", "response": "strip"},
        "fs_create_file": {"request": "strip", "response": "keep"},
        "fs_modify_file": {"request": "strip", "response": "strip"},
    });
    let expected = "?set up =I'll create the project structure. >1{} <1:<200 lines of code> =Created. \
                    | ?add error handling >2{src/main.rs} <2:[compacted] fs_read_file: success \
                    >3{} <3:[compacted] fs_modify_file: success =Added. \
                    | ?now add logging >4{} <4:[compacted] fs_modify_file: success =Logged. | ?thanks =Done.";
    assert_eq!(projected(&example(), &hints, default_profile()), expected);
}

#[test]
fn projection_example_heavy_profile() {
    let text = "Set up a Rust project at src/main.rs with error handling and tracing-based logging.";
    let heavy = json!({"from_turn": 0, "to_turn": 2, "summary": {"summary": text}});
    let expected = format!("?[Summary of previous conversation] ={text} | ?thanks =Done.");
    assert_eq!(projected(&example(), &json!({}), heavy), expected);
}

/// Returns a stream with two compactions: A summarizes turns 0 to 20, and the later B strips the responses of turns 0
/// to 30.
fn stacked() -> Build {
    let strip = json!({"tool_calls": {"policy": "strip", "request": false, "response": true}});
    let summary = json!({"summary": {"summary": "A"}});
    Build::turns(32).element(compaction(1000, 0, 20, summary)).element(compaction(1001, 0, 30, strip))
}

#[test]
fn stacking_semantics_turn_5_is_summarized_despite_b() {
    let view = format_projection(&stacked().stream());
    assert!(view.starts_with("?[Summary of previous conversation] =A | ?ask21 "), "{view}");
    assert!(!view.contains("c5"), "{view}");
}

#[test]
fn stacking_semantics_turn_25_has_its_tool_calls_stripped_by_b() {
    let view = format_projection(&stacked().stream());
    assert!(view.contains(">c25{c25} <c25:[compacted] read: success"), "{view}");
    assert!(view.contains("<c31:body31"), "{view}");
}

#[test]
fn stacking_semantics_turn_25_keeps_its_reasoning() {
    assert!(format_projection(&stacked().stream()).contains("?ask25 ~think25 "));
}

#[test]
fn summary_overlap_resolution() {
    let range = |from, to| TurnRange::new(from, to).unwrap();
    let extended = |range: TurnRange, old: &[(usize, usize)]| {
        let range = overlap::extend(
            range,
            old.iter().filter_map(|(from, to)| TurnRange::new(*from, *to)),
            Overlap::Partial,
        );
        (range.from(), range.to())
    };
    // The ranges intersect, and neither contains the other: [min(X, A), max(Y, B)].
    assert_eq!(extended(range(5, 12), &[(2, 8)]), (2, 12));
    assert_eq!(extended(range(2, 8), &[(5, 12)]), (2, 12));
    // One range contains the other.
    assert_eq!(extended(range(2, 12), &[(5, 8)]), (2, 12));
    assert_eq!(extended(range(5, 8), &[(2, 12)]), (5, 8));
    // Repeat until no partial overlaps remain.
    assert_eq!(extended(range(5, 12), &[(12, 20), (20, 22), (30, 31)]), (5, 22));
}

#[test]
fn raw_stream_invariant_summarizer_gets_events_not_summaries() {
    let older = json!({"summary": {"summary": "OLDER WORDS"}});
    let stream = Build::turns(4).element(compaction(1000, 0, 2, older)).stream();
    let survey = Survey::new(&stream);
    let range = TurnRange::new(0, 3).unwrap();
    let description = Description { input: Input::Full, ..Description::new("s", "1", "") };
    let options = Map::new();
    let parameters = request::RequestParameters::new("c1", &description, range, &options, timestamp(2000));
    let sent = String::from_utf8(request::lines(&survey, &parameters)).unwrap();
    assert!(!sent.contains("OLDER WORDS"));
    for turn in 0..4 {
        for word in ["ask", "think", "body", "say"] {
            assert!(sent.contains(&format!("{word}{turn}")), "{word}{turn}");
        }
    }
}

/// Resolves bounds in the example, which has turns 0 to 3. Turns 0 and 1 were compacted, and it is an hour later.
#[track_caller]
fn check_range(from: Option<&str>, to: Option<&str>, expected: Option<(usize, usize)>) {
    let stream = example().element(compaction(1000, 0, 1, json!({"reasoning": "strip"}))).stream();
    let bound = |text: Option<&str>| text.map(|text| text.parse::<Bound>().unwrap());
    let resolved = bound::resolve(&stream, bound(from), bound(to), timestamp(3600));
    assert_eq!(resolved.map(|range| (range.from(), range.to())), expected, "{from:?} {to:?}");
}

#[test]
fn range_bounds_positive_integer_is_an_absolute_turn() {
    check_range(Some("2"), None, Some((2, 3)));
    check_range(None, Some("2"), Some((0, 2)));
}

#[test]
fn range_bounds_negative_integer_counts_from_the_last_turn() {
    check_range(None, Some("-3"), Some((0, 0)));
    check_range(Some("-1"), None, Some((2, 3)));
}

#[test]
fn range_bounds_duration_is_a_time_ago() {
    check_range(Some("5h"), Some("1h"), Some((0, 0)));
    check_range(Some("1h"), None, Some((0, 3)));
}

#[test]
fn range_bounds_last_is_turn_after_newest_compaction() {
    check_range(Some("last"), None, Some((2, 3)));
    let without_compaction =
        bound::resolve(&example().stream(), Some(Bound::AfterLast), None, timestamp(3600)).unwrap();
    assert_eq!((without_compaction.from(), without_compaction.to()), (0, 3));
}
