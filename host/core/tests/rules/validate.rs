//! Reasons to reject a proposal (PROTOCOL.md, "Replies"), by message. For ranges with steps, see `step_overlays`.

use std::collections::BTreeMap;

use jp_compact_core::estimate::chars_in;
use jp_compact_core::overlap::Overlap;
use jp_compact_core::overlay::{Half, HalfKind, StoredCall, ToolPolicy};
use jp_compact_core::validate::{Compaction, Refusal, ValidationContext, validate};
use jp_compact_core::{Pairs, TurnRange};
use jp_compact_schema::ContentKind::{self, Reasoning, Summary, ToolCalls};
use jp_compact_schema::{RequestAction, ResponseAction, ToolHint};
use serde_json::{Value, json};

use crate::build::{Build, compaction};

const ALL: &[ContentKind] = &[Summary, Reasoning, ToolCalls];

/// Returns eight turns, and a call in turn 8 that is answered in turn 9.
fn build() -> Build {
    Build::turns(8).turn().call("w", "t").turn().answer("w", "").say("")
}

/// A request. By default turns 1 to 6 are requested, extended to 1 to 7 for a summary.
struct Case {
    build: Build,
    produces: &'static [ContentKind],
    range: (usize, usize),
    requested: (usize, usize),
    accepted: Vec<TurnRange>,
    overlap: Overlap,
    hints: BTreeMap<String, ToolHint>,
    by_model: bool,
}

impl Default for Case {
    fn default() -> Self {
        let build = build();
        let (accepted, overlap, hints) = (Vec::new(), Overlap::Partial, BTreeMap::new());
        Self {
            build,
            produces: ALL,
            range: (1, 7),
            requested: (1, 6),
            accepted,
            overlap,
            hints,
            by_model: false,
        }
    }
}

impl Case {
    fn validate(&self, proposal: &Value) -> Result<Vec<Compaction>, Refusal> {
        let range = |(from, to)| TurnRange::new(from, to).unwrap();
        let stream = self.build.stream();
        let context = ValidationContext {
            stream: &stream,
            pairs: &Pairs::new(&stream),
            range: range(self.range),
            requested_range: range(self.requested),
            produces: self.produces,
            allows_steps: true,
            accepted: &self.accepted,
            overlap: self.overlap,
            hints: &self.hints,
            written_by_model: self.by_model,
        };
        validate(&context, serde_json::from_value(proposal.clone()).unwrap())
    }

    #[track_caller]
    fn rejects(&self, payload: Value, expected: &str) {
        assert_eq!(self.validate(&json!([payload])).unwrap_err().to_string(), expected);
    }

    #[track_caller]
    fn accepts(&self, payload: Value) {
        self.validate(&json!([payload])).unwrap();
    }
}

fn rejects(payload: Value, expected: &str) {
    Case::default().rejects(payload, expected);
}

fn payload(from: usize, to: usize, policies: Value) -> Value {
    let mut members = json!({"from_turn": from, "to_turn": to});
    members.as_object_mut().unwrap().extend(policies.as_object().unwrap().clone());
    members
}

fn strip(from: usize, to: usize) -> Value {
    payload(from, to, json!({"reasoning": "strip"}))
}

fn summary(from: usize, to: usize, text: &str) -> Value {
    payload(from, to, json!({"summary": {"summary": text}}))
}

fn selective(from: usize, to: usize, calls: Value) -> Value {
    payload(from, to, json!({"tool_calls": {"policy": "selective", "calls": calls}}))
}

#[test]
fn rejects_result_without_compaction() {
    let refusal = Case::default().validate(&json!([])).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the result has no compaction; reply `decline` if there is nothing to \
         do"
    );
}

#[test]
fn rejects_ranges_outside_the_request() {
    let case = Case::default();
    case.accepts(strip(1, 6));
    case.accepts(strip(3, 3));
    case.accepts(summary(1, 7, "S"));
    rejects(strip(4, 2), "the turn range ends at 2, before its start 4");
    rejects(strip(0, 3), "the compaction of turns 0-3 is not within the range of the request, turns 1-6");
    rejects(strip(6, 7), "the compaction of turns 6-7 is not within the range of the request, turns 1-6");
    rejects(strip(9, 9), "the compaction of turn 9 is not within the range of the request, turns 1-6");
    rejects(
        strip(1, usize::MAX),
        &format!(
            "the compaction of turns 1-{} is not within the range of the request, turns 1-6",
            usize::MAX
        ),
    );
    rejects(
        summary(0, 7, "S"),
        "the compaction of turns 0-7 is not within the range of the request, turns 1-7",
    );
}

#[test]
fn rejects_compactions_without_policy_or_of_undeclared_kind() {
    rejects(json!({"from_turn": 1, "to_turn": 2}), "the compaction has no policy");
    let only_reasoning = Case { produces: &[Reasoning], ..Case::default() };
    only_reasoning.accepts(strip(1, 2));
    only_reasoning.rejects(summary(1, 2, "S"), "`summary` is not in the strategy's `produces`");
    only_reasoning.rejects(
        payload(1, 2, json!({"reasoning": "strip", "tool_calls": {"policy": "omit"}})),
        "`tool_calls` is not in the strategy's `produces`",
    );
    Case { produces: &[ToolCalls], ..Case::default() }
        .rejects(strip(1, 2), "`reasoning` is not in the strategy's `produces`");
}

#[test]
fn rejects_blank_nul_and_oversized_summaries() {
    for blank in ["", " ", "\n\t ", "\u{3000}\u{a0}"] {
        rejects(summary(1, 2, blank), "the summary is blank, and would erase its range");
    }
    rejects(summary(1, 2, "a\0b"), "the summary contains a NUL character");
    Case::default().accepts(summary(1, 2, &"x".repeat(262_144)));
    rejects(summary(1, 2, &"x".repeat(262_145)), "the summary has 262145 bytes; at most 262144 are allowed");
    rejects(
        summary(1, 2, &"\u{e9}".repeat(131_073)),
        "the summary has 262146 bytes; at most 262144 are allowed",
    );
}

#[test]
fn rejects_model_summary_not_shorter_than_its_events() {
    // A turn has 4 + 6 + 5 + 4 characters in addition to its call's arguments. Two turns have twice as many.
    let stream = build().stream();
    let raw_chars = |to| chars_in(&stream, TurnRange::new(1, to).unwrap(), u64::MAX);
    let text = |chars: u64| "ä".repeat(usize::try_from(chars).unwrap());
    let by_model = || Case { by_model: true, ..Case::default() };
    for (to, raw_chars) in [(1, raw_chars(1)), (2, raw_chars(2))] {
        assert!(raw_chars >= 19 * to as u64, "{raw_chars}");
        by_model().accepts(summary(1, to, &text(raw_chars - 1)));
        for chars in [raw_chars, raw_chars + 1, 10 * raw_chars] {
            let expected = format!(
                "the summary has {chars} characters, and must be shorter than its events, which have {raw_chars}"
            );
            by_model().rejects(summary(1, to, &text(chars)), &expected);
            // The limit does not apply if no model wrote the summary.
            Case::default().accepts(summary(1, to, &text(chars)));
        }
    }
    // Stripped events still count with their raw length.
    let stripped = build().element(compaction(
        90,
        0,
        9,
        json!({"reasoning": "strip", "tool_calls": {"policy": "omit"}}),
    ));
    Case { build: stripped, ..by_model() }.accepts(summary(1, 1, &text(raw_chars(1) - 1)));
}

#[test]
fn rejects_overlapping_summaries_of_one_reply() {
    let case = Case::default();
    let validate_both = |left, right| case.validate(&json!([left, right]));
    assert_eq!(validate_both(summary(1, 3, "A"), summary(4, 6, "B")).unwrap().len(), 2);
    assert_eq!(validate_both(summary(1, 3, "A"), strip(2, 4)).unwrap().len(), 2);
    assert_eq!(
        validate_both(summary(1, 3, "A"), summary(3, 6, "B")).unwrap_err().to_string(),
        "two summaries overlap: turns 1-3 and turns 3-6"
    );
    assert_eq!(
        case.validate(&json!([summary(2, 5, "A"), strip(1, 1), summary(3, 4, "B")])).unwrap_err().to_string(),
        "two summaries overlap: turns 2-5 and turns 3-4"
    );
}

#[test]
fn accepts_a_reply_completely_or_not_at_all() {
    let refusal = Case::default().validate(&json!([strip(1, 2), strip(5, 4)])).unwrap_err();
    assert_eq!(refusal, Refusal::Inverted { from: 5.into(), to: 4.into() });
}

#[test]
fn rejects_summary_that_splits_older_ones() {
    let with_older_summary = Case {
        build: build().element(compaction(90, 3, 5, json!({"summary": {"summary": "S"}}))),
        ..Case::default()
    };
    let message =
        "range_not_closed: a summary of turns 4-6 splits an older one; a summary of turns 3-6 does not";
    with_older_summary.rejects(summary(4, 6, "S"), message);
    with_older_summary.accepts(summary(3, 6, "S"));
    with_older_summary.accepts(summary(4, 4, "S"));
    with_older_summary.accepts(strip(4, 6));
    let union = Case { overlap: Overlap::Union, ..with_older_summary };
    union.rejects(
        summary(4, 4, "S"),
        "range_not_closed: a summary of turn 4 splits an older one; a summary of turns 3-5 does not",
    );
    let with_accepted_summary = Case { accepted: vec![TurnRange::new(3, 5).unwrap()], ..Case::default() };
    with_accepted_summary.rejects(summary(4, 6, "S"), message);
}

#[test]
fn accepts_summary_over_older_one_past_end_of_stream() {
    let with_older_summary =
        |from, to| build().element(compaction(90, from, to, json!({"summary": {"summary": "S"}})));
    let case = Case { build: with_older_summary(3, usize::MAX), range: (1, 9), ..Case::default() };
    case.accepts(summary(2, 9, "S"));
    Case { overlap: Overlap::Union, ..case }.accepts(summary(3, 9, "S"));
    Case { build: with_older_summary(10, 12), range: (1, 9), ..Case::default() }.accepts(summary(1, 9, "S"));
}

#[test]
fn rejects_ranges_that_split_a_call() {
    let case = || Case { range: (0, 9), requested: (0, 9), ..Case::default() };
    case().accepts(strip(8, 9));
    case().rejects(strip(7, 8), "turns 7-8 would split a tool call between turns 8 and 9");
    let listed = json!([{"seq": 49, "omit": true}]);
    case().rejects(selective(7, 8, listed), "turns 7-8 would split a tool call between turns 8 and 9");
    case().rejects(summary(9, 9, "S"), "turn 9 would split a tool call between turns 8 and 9");
}

#[test]
fn rejects_invalid_entries_of_selective_policy() {
    rejects(selective(1, 2, json!([])), "the selective policy lists no calls");
    for (calls, error) in [
        (json!([{"seq": 9, "omit": true}, {"seq": 9, "request": "strip"}]), "9 is listed twice"),
        (json!([{"seq": 1_000_000_000, "omit": true}]), "1000000000 does not exist"),
        (json!([{"seq": u64::MAX, "omit": true}]), "18446744073709551615 does not exist"),
        (json!([{"seq": 7, "omit": true}]), "7 is not half of a tool call"),
        (json!([{"seq": 6, "omit": true}]), "6 is not half of a tool call"),
        (json!([{"seq": 3, "omit": true}]), "3 is outside the range"),
        (json!([{"seq": 10, "request": "strip"}]), "10 is a response, but has a policy for requests"),
        (json!([{"seq": 9, "response": "strip"}]), "9 is a request, but has a policy for responses"),
        (json!([{"seq": 9, "request": "strip", "response": "strip"}]), {
            "9 is a request, but has a policy for responses"
        }),
        (json!([{"seq": 9, "request": "strip", "omit": true}]), "9 is omitted, but has another policy too"),
        (
            json!([{"seq": 10, "response": "strip", "omit": true}]),
            "10 is omitted, but has another policy too",
        ),
        (json!([{"seq": 9}]), "9 has no policy"),
        (json!([{"seq": 9, "omit": false}]), "9 has no policy"),
    ] {
        rejects(selective(1, 2, calls), &format!("event {error}"));
    }
}

#[test]
fn stored_entry_describes_its_half() {
    let calls = json!([
        {"seq": 9, "request": "strip"}, {"seq": 10, "response": {"replace": "short"}}, {"seq": 16, "omit": true},
    ]);
    let compactions = Case::default().validate(&json!([selective(1, 2, calls)])).unwrap();
    let stored = |seq, id: &str, kind| {
        let half = Some(Half { kind, nth: 0, count: 1, tool: Some("read".into()) });
        StoredCall { seq, id: id.into(), half, request: None, response: None, omit: false }
    };
    let (request, response) = (HalfKind::Request, HalfKind::Response);
    let expected = vec![
        StoredCall { request: Some(RequestAction::Strip), ..stored(9, "c1", request) },
        StoredCall { response: Some(ResponseAction::Replace("short".into())), ..stored(10, "c1", response) },
        StoredCall { omit: true, ..stored(16, "c2", response) },
    ];
    assert_eq!(compactions[0].tool_calls(), Some(&ToolPolicy::Selective(expected.into())));
}

#[test]
fn accepts_listed_response_without_request() {
    let build = Build::turns(1).turn().answer("lost", "").call("never", "t").say("");
    let case = Case { build, range: (0, 1), requested: (0, 1), ..Case::default() };
    case.accepts(selective(0, 1, json!([{"seq": 7, "omit": true}, {"seq": 8, "request": "strip"}])));
}

#[test]
fn payload_converts_to_compaction() {
    let all_kinds = payload(
        2,
        4,
        json!({"summary": {"summary": "S"}, "reasoning": "strip",
               "tool_calls": {"policy": "strip", "request": true, "response": false}}),
    );
    let compactions = Case::default()
        .validate(&json!([all_kinds, payload(1, 1, json!({"tool_calls": {"policy": "omit"}}))]))
        .unwrap();
    assert_eq!((compactions[0].range().from(), compactions[0].range().to()), (2, 4));
    assert_eq!(compactions[0].summary(), Some("S"));
    assert_eq!(compactions[0].reasoning(), Some(jp_compact_schema::Reasoning::Strip));
    let strip = ToolPolicy::Strip { request: true, response: false, overrides: Default::default() };
    assert_eq!(compactions[0].tool_calls(), Some(&strip));
    assert_eq!(compactions[1].tool_calls(), Some(&ToolPolicy::Omit));
    assert_eq!((compactions[1].summary(), compactions[1].reasoning()), (None, None));
}

/// Checks the stored hints of a `strip` of turns 0 and 1. There `read` is called and answered, `write` is called,
/// and there is a response without a call.
#[track_caller]
fn check_hints(hints: Value, strip: (bool, bool), expected: Value) {
    let build = Build::default().turn().call("a", "read").answer("a", "text").turn().call("b", "write");
    let build = build.answer("c", "without a call").turn().call("d", "other").answer("d", "");
    let hints = serde_json::from_value(hints).unwrap();
    let case = Case { build, range: (0, 1), requested: (0, 1), hints, ..Case::default() };
    let policy = json!({"policy": "strip", "request": strip.0, "response": strip.1});
    let compactions = case.validate(&json!([{"from_turn": 0, "to_turn": 1, "tool_calls": policy}])).unwrap();
    let Some(ToolPolicy::Strip { request, response, overrides }) = compactions[0].tool_calls() else {
        panic!()
    };
    assert_eq!((*request, *response), strip);
    assert_eq!(serde_json::to_value(overrides).unwrap(), expected);
}

#[test]
fn stores_hints_that_change_the_strip() {
    let keep = json!({"response": "keep"});
    check_hints(json!({"read": keep}), (true, true), json!({"read": keep}));
    check_hints(json!({"read": keep}), (true, false), json!({}));
    check_hints(json!({"read": {"request": "strip"}}), (false, true), json!({"read": {"request": "strip"}}));
    check_hints(
        json!({"read": {"request": "keep", "response": "strip"}}),
        (true, true),
        json!({"read": {"request": "keep"}}),
    );
    // The half does not occur, or the tool does not.
    check_hints(json!({"write": keep}), (true, true), json!({}));
    check_hints(json!({"other": keep, "unknown-tool": keep}), (true, true), json!({}));
}

#[test]
fn omit_stores_no_hints() {
    let hints = serde_json::from_value(json!({"t": {"request": "keep"}})).unwrap();
    let case = Case { range: (8, 9), requested: (8, 9), hints, ..Case::default() };
    let compactions =
        case.validate(&json!([{"from_turn": 8, "to_turn": 9, "tool_calls": {"policy": "omit"}}])).unwrap();
    assert_eq!(compactions[0].tool_calls(), Some(&ToolPolicy::Omit));
}
