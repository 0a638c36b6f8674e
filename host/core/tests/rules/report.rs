//! What is shown of a stream: where its tokens are, and where its overlays come from.

use jp_compact_core::Survey;
use jp_compact_core::receipts::receipts;
use jp_compact_core::totals::totals;
use serde_json::{Value, json};

use crate::build::{Build, jp, receipt};

#[track_caller]
fn check(build: &Build, expected: Value) {
    let stream = build.stream();
    assert_eq!(serde_json::to_value(totals(&Survey::of(&stream))).unwrap(), expected);
}

fn sizes(raw: u64, view: u64) -> Value {
    json!({"raw": raw, "view": view})
}

#[test]
fn tokens_are_summed_by_type_and_by_tool() {
    let build =
        Build::turns(4).raw(jp(60, 0, 1, json!({"reasoning": "strip", "tool_calls": {"policy": "omit"}})));
    check(
        &build,
        json!({
            "all": sizes(22, 15),
            "by_type": {"user": sizes(4, 4), "assistant": sizes(4, 4), "reasoning": sizes(6, 3),
                        "tool_requests": sizes(4, 2), "tool_responses": sizes(5, 3)},
            "by_tool": {"read": sizes(9, 5)},
        }),
    );
}

#[test]
fn a_summary_is_a_type_of_its_own() {
    let build = Build::default().turn().ask("1234").raw(jp(60, 0, 0, json!({"summary": {"summary": "12"}})));
    check(
        &build,
        json!({"all": sizes(1, 9), "by_type": {"user": sizes(1, 0), "summaries": sizes(0, 9)}, "by_tool": {}}),
    );
}

#[test]
fn an_answer_counts_for_the_tool_of_its_own_call() {
    let build = Build::default()
        .turn()
        .call("a", "read")
        .answer("a", "1234")
        .call("a", "grep")
        .answer("lost", "1234");
    check(
        &build,
        json!({
            "all": sizes(4, 4), "by_type": {"tool_requests": sizes(2, 2), "tool_responses": sizes(2, 2)},
            "by_tool": {"read": sizes(2, 2), "grep": sizes(1, 1), "unknown": sizes(1, 1)},
        }),
    );
}

#[test]
fn a_receipt_belongs_to_the_overlay_of_its_time_and_range() {
    let stream = Build::turns(3)
        .raw(jp(60, 0, 1, json!({"reasoning": "strip"})))
        .raw(jp(61, 0, 1, json!({"reasoning": "strip"})))
        .raw(receipt(61, 0, 1))
        .raw(receipt(60, 0, 2))
        .stream();
    let Value::Object(origin) = json!({"strategy": "s", "version": "1.0.0"}) else { unreachable!() };
    assert_eq!(receipts(&stream), [None, Some(origin)]);
}
