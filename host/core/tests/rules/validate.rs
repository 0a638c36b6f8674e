//! Every reason to reject a proposal (PROTOCOL.md, "Replies"), by its message.

use std::collections::BTreeMap;

use jp_compact_core::estimate::chars_in;
use jp_compact_core::overlap::Overlap;
use jp_compact_core::overlay::{Half, HalfKind, StoredCall, ToolPolicy};
use jp_compact_core::validate::{Asked, Compaction, Refusal, validate};
use jp_compact_core::{Pairs, TurnRange};
use jp_compact_schema::ContentKind::{self, Reasoning, Summary, ToolCalls};
use jp_compact_schema::{RequestAction, ResponseAction, ToolHint};
use serde_json::{Value, json};

use crate::build::{Build, jp};

const ALL: &[ContentKind] = &[Summary, Reasoning, ToolCalls];

/// Eight turns. Turns 1 to 6 are requested, or 1 to 7 for a summary. A call in turn 8 is answered in turn 9.
fn build() -> Build {
    Build::turns(8).turn().call("w", "t").turn().answer("w", "").say("")
}

struct Ask {
    build: Build,
    produces: &'static [ContentKind],
    range: (usize, usize),
    requested: (usize, usize),
    accepted: Vec<TurnRange>,
    overlap: Overlap,
    hints: BTreeMap<String, ToolHint>,
    by_model: bool,
}

impl Default for Ask {
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

impl Ask {
    fn answer(&self, proposal: &Value) -> Result<Vec<Compaction>, Refusal> {
        let range = |(from, to)| TurnRange::new(from, to).unwrap();
        let stream = self.build.stream();
        let asked = Asked {
            stream: &stream,
            pairs: &Pairs::new(&stream),
            range: range(self.range),
            requested: range(self.requested),
            produces: self.produces,
            by_step: true,
            accepted: &self.accepted,
            overlap: self.overlap,
            hints: &self.hints,
            by_model: self.by_model,
        };
        validate(&asked, serde_json::from_value(proposal.clone()).unwrap())
    }

    #[track_caller]
    fn refuses(&self, payload: Value, expected: &str) {
        assert_eq!(self.answer(&json!([payload])).unwrap_err().to_string(), expected);
    }

    #[track_caller]
    fn takes(&self, payload: Value) {
        self.answer(&json!([payload])).unwrap();
    }
}

fn refuses(payload: Value, expected: &str) {
    Ask::default().refuses(payload, expected);
}

fn covering(from: usize, to: usize, policies: Value) -> Value {
    let mut payload = json!({"from_turn": from, "to_turn": to});
    payload.as_object_mut().unwrap().extend(policies.as_object().unwrap().clone());
    payload
}

fn strip(from: usize, to: usize) -> Value {
    covering(from, to, json!({"reasoning": "strip"}))
}

fn summary(from: usize, to: usize, text: &str) -> Value {
    covering(from, to, json!({"summary": {"summary": text}}))
}

fn calls(from: usize, to: usize, calls: Value) -> Value {
    covering(from, to, json!({"tool_calls": {"policy": "selective", "calls": calls}}))
}

#[test]
fn rejects_result_without_compaction() {
    let refusal = Ask::default().answer(&json!([])).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the result has no compaction; reply `decline` if there is nothing to \
         do"
    );
}

#[test]
fn rejects_ranges_outside_the_request() {
    let ask = Ask::default();
    ask.takes(strip(1, 6));
    ask.takes(strip(3, 3));
    ask.takes(summary(1, 7, "S"));
    refuses(strip(4, 2), "the turn range ends at 2, before its start 4");
    refuses(strip(0, 3), "the compaction of turns 0-3 is not within the requested range, turns 1-6");
    refuses(strip(6, 7), "the compaction of turns 6-7 is not within the requested range, turns 1-6");
    refuses(strip(9, 9), "the compaction of turn 9 is not within the requested range, turns 1-6");
    refuses(
        strip(1, usize::MAX),
        &format!("the compaction of turns 1-{} is not within the requested range, turns 1-6", usize::MAX),
    );
    refuses(summary(0, 7, "S"), "the compaction of turns 0-7 is not within the requested range, turns 1-7");
}

#[test]
fn rejects_compactions_without_policy_or_of_undeclared_kind() {
    refuses(json!({"from_turn": 1, "to_turn": 2}), "the compaction has no policy");
    let only_reasoning = Ask { produces: &[Reasoning], ..Ask::default() };
    only_reasoning.takes(strip(1, 2));
    only_reasoning.refuses(summary(1, 2, "S"), "`summary` is not in the strategy's `produces`");
    only_reasoning.refuses(
        covering(1, 2, json!({"reasoning": "strip", "tool_calls": {"policy": "omit"}})),
        "`tool_calls` is not in the strategy's `produces`",
    );
    Ask { produces: &[ToolCalls], ..Ask::default() }
        .refuses(strip(1, 2), "`reasoning` is not in the strategy's `produces`");
}

#[test]
fn rejects_blank_nul_and_oversized_summaries() {
    for blank in ["", " ", "\n\t ", "\u{3000}\u{a0}"] {
        refuses(summary(1, 2, blank), "the summary is blank, and would erase its range");
    }
    refuses(summary(1, 2, "a\0b"), "the summary contains a NUL character");
    Ask::default().takes(summary(1, 2, &"x".repeat(262_144)));
    refuses(summary(1, 2, &"x".repeat(262_145)), "the summary has 262145 bytes; at most 262144 are allowed");
    refuses(
        summary(1, 2, &"\u{e9}".repeat(131_073)),
        "the summary has 262146 bytes; at most 262144 are allowed",
    );
}

#[test]
fn rejects_model_summary_not_shorter_than_its_events() {
    // A turn has 4 + 6 + 5 + 4 characters in addition to its call's arguments. Two turns have twice as many.
    let stream = build().stream();
    let raw = |to| chars_in(&stream, TurnRange::new(1, to).unwrap(), u64::MAX);
    let text = |chars: u64| "ä".repeat(usize::try_from(chars).unwrap());
    let by_model = || Ask { by_model: true, ..Ask::default() };
    for (to, raw) in [(1, raw(1)), (2, raw(2))] {
        assert!(raw >= 19 * to as u64, "{raw}");
        by_model().takes(summary(1, to, &text(raw - 1)));
        for chars in [raw, raw + 1, 10 * raw] {
            let expected = format!(
                "the summary has {chars} characters, and must be shorter than its events, which have {raw}"
            );
            by_model().refuses(summary(1, to, &text(chars)), &expected);
            // The limit does not apply if no model wrote the summary.
            Ask::default().takes(summary(1, to, &text(chars)));
        }
    }
    // Stripped events still count with their raw length.
    let stripped = build().raw(jp(90, 0, 9, json!({"reasoning": "strip", "tool_calls": {"policy": "omit"}})));
    Ask { build: stripped, ..by_model() }.takes(summary(1, 1, &text(raw(1) - 1)));
}

#[test]
fn rejects_overlapping_summaries_of_one_reply() {
    let ask = Ask::default();
    let answer = |left, right| ask.answer(&json!([left, right]));
    assert_eq!(answer(summary(1, 3, "A"), summary(4, 6, "B")).unwrap().len(), 2);
    assert_eq!(answer(summary(1, 3, "A"), strip(2, 4)).unwrap().len(), 2);
    assert_eq!(
        answer(summary(1, 3, "A"), summary(3, 6, "B")).unwrap_err().to_string(),
        "two summaries overlap: turns 1-3 and turns 3-6"
    );
    assert_eq!(
        ask.answer(&json!([summary(2, 5, "A"), strip(1, 1), summary(3, 4, "B")])).unwrap_err().to_string(),
        "two summaries overlap: turns 2-5 and turns 3-4"
    );
}

#[test]
fn accepts_a_reply_completely_or_not_at_all() {
    let refusal = Ask::default().answer(&json!([strip(1, 2), strip(5, 4)])).unwrap_err();
    assert_eq!(refusal, Refusal::Inverted { from: 5.into(), to: 4.into() });
}

#[test]
fn rejects_summary_that_splits_older_ones() {
    let older =
        Ask { build: build().raw(jp(90, 3, 5, json!({"summary": {"summary": "S"}}))), ..Ask::default() };
    let open = "range_not_closed: a summary of turns 4-6 partially overlaps an older one; a summary of turns 3-6 does not";
    older.refuses(summary(4, 6, "S"), open);
    older.takes(summary(3, 6, "S"));
    older.takes(summary(4, 4, "S"));
    older.takes(strip(4, 6));
    let union = Ask { overlap: Overlap::Union, ..older };
    union.refuses(
        summary(4, 4, "S"),
        "range_not_closed: a summary of turn 4 partially overlaps an older one; a summary of turns 3-5 does not",
    );
    let accepted = Ask { accepted: vec![TurnRange::new(3, 5).unwrap()], ..Ask::default() };
    accepted.refuses(summary(4, 6, "S"), open);
}

#[test]
fn accepts_summary_over_older_one_past_end_of_stream() {
    let older = |from, to| build().raw(jp(90, from, to, json!({"summary": {"summary": "S"}})));
    let whole = Ask { build: older(3, usize::MAX), range: (1, 9), ..Ask::default() };
    whole.takes(summary(2, 9, "S"));
    Ask { overlap: Overlap::Union, ..whole }.takes(summary(3, 9, "S"));
    Ask { build: older(10, 12), range: (1, 9), ..Ask::default() }.takes(summary(1, 9, "S"));
}

#[test]
fn rejects_ranges_that_split_a_call() {
    let ask = || Ask { range: (0, 9), requested: (0, 9), ..Ask::default() };
    ask().takes(strip(8, 9));
    ask().refuses(strip(7, 8), "turns 7-8 would split a tool call between turns 8 and 9");
    let listed = json!([{"seq": 49, "omit": true}]);
    ask().refuses(calls(7, 8, listed), "turns 7-8 would split a tool call between turns 8 and 9");
    ask().refuses(summary(9, 9, "S"), "turn 9 would split a tool call between turns 8 and 9");
}

#[test]
fn rejects_invalid_entries_of_selective_policy() {
    refuses(calls(1, 2, json!([])), "the selective policy lists no calls");
    for (call, wrong) in [
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
        refuses(calls(1, 2, call), &format!("event {wrong}"));
    }
}

#[test]
fn stored_entry_describes_its_half() {
    let listed = json!([
        {"seq": 9, "request": "strip"}, {"seq": 10, "response": {"replace": "short"}}, {"seq": 16, "omit": true},
    ]);
    let made = Ask::default().answer(&json!([calls(1, 2, listed)])).unwrap();
    let stored = |seq, id: &str, kind| {
        let half = Some(Half { kind, nth: 0, of: 1, tool: Some("read".into()) });
        StoredCall { seq, id: id.into(), half, request: None, response: None, omit: false }
    };
    let (request, response) = (HalfKind::Request, HalfKind::Response);
    let expected = vec![
        StoredCall { request: Some(RequestAction::Strip), ..stored(9, "c1", request) },
        StoredCall { response: Some(ResponseAction::Replace("short".into())), ..stored(10, "c1", response) },
        StoredCall { omit: true, ..stored(16, "c2", response) },
    ];
    assert_eq!(made[0].tool_calls(), Some(&ToolPolicy::Selective(expected)));
}

#[test]
fn accepts_listed_response_without_request() {
    let build = Build::turns(1).turn().answer("lost", "").call("never", "t").say("");
    let ask = Ask { build, range: (0, 1), requested: (0, 1), ..Ask::default() };
    ask.takes(calls(0, 1, json!([{"seq": 7, "omit": true}, {"seq": 8, "request": "strip"}])));
}

#[test]
fn payload_converts_to_compaction() {
    let payload = covering(
        2,
        4,
        json!({"summary": {"summary": "S"}, "reasoning": "strip",
               "tool_calls": {"policy": "strip", "request": true, "response": false}}),
    );
    let made = Ask::default()
        .answer(&json!([payload, covering(1, 1, json!({"tool_calls": {"policy": "omit"}}))]))
        .unwrap();
    assert_eq!((made[0].range().from(), made[0].range().to()), (2, 4));
    assert_eq!(made[0].summary(), Some("S"));
    assert_eq!(made[0].reasoning(), Some(jp_compact_schema::Reasoning::Strip));
    let strip = ToolPolicy::Strip { request: true, response: false, overrides: Default::default() };
    assert_eq!(made[0].tool_calls(), Some(&strip));
    assert_eq!(made[1].tool_calls(), Some(&ToolPolicy::Omit));
    assert_eq!((made[1].summary(), made[1].reasoning()), (None, None));
}

/// Checks the stored hints of a `strip` of turns 0 and 1. In these `read` is called and answered, `write` is called,
/// and there is a response without a call.
#[track_caller]
fn stores(hints: Value, strip: (bool, bool), expected: Value) {
    let build = Build::default().turn().call("a", "read").answer("a", "text").turn().call("b", "write");
    let build = build.answer("c", "of nobody").turn().call("d", "other").answer("d", "");
    let hints = serde_json::from_value(hints).unwrap();
    let ask = Ask { build, range: (0, 1), requested: (0, 1), hints, ..Ask::default() };
    let policy = json!({"policy": "strip", "request": strip.0, "response": strip.1});
    let made = ask.answer(&json!([{"from_turn": 0, "to_turn": 1, "tool_calls": policy}])).unwrap();
    let Some(ToolPolicy::Strip { request, response, overrides }) = made[0].tool_calls() else { panic!() };
    assert_eq!((*request, *response), strip);
    assert_eq!(serde_json::to_value(overrides).unwrap(), expected);
}

#[test]
fn stores_hints_that_change_the_strip() {
    let keep = json!({"response": "keep"});
    stores(json!({"read": keep}), (true, true), json!({"read": keep}));
    stores(json!({"read": keep}), (true, false), json!({}));
    stores(json!({"read": {"request": "strip"}}), (false, true), json!({"read": {"request": "strip"}}));
    stores(
        json!({"read": {"request": "keep", "response": "strip"}}),
        (true, true),
        json!({"read": {"request": "keep"}}),
    );
    // The half does not occur, or the tool does not.
    stores(json!({"write": keep}), (true, true), json!({}));
    stores(json!({"other": keep, "unheard-of": keep}), (true, true), json!({}));
}

#[test]
fn omit_stores_no_hints() {
    let hints = serde_json::from_value(json!({"t": {"request": "keep"}})).unwrap();
    let ask = Ask { range: (8, 9), requested: (8, 9), hints, ..Ask::default() };
    let made =
        ask.answer(&json!([{"from_turn": 8, "to_turn": 9, "tool_calls": {"policy": "omit"}}])).unwrap();
    assert_eq!(made[0].tool_calls(), Some(&ToolPolicy::Omit));
}
