//! Reports on a stream: the distribution of its tokens, and the origins of its overlays.

use jp_compact_core::Survey;
use jp_compact_core::receipts::receipts;
use jp_compact_core::stats::{SizeChange, Stats, stats};
use serde_json::{Value, json};

use crate::build::{Build, compaction, receipt};

fn stats_of(build: &Build) -> Stats {
    stats(&Survey::new(&build.stream()))
}

#[track_caller]
fn check(build: &Build, expected: Value) {
    let mut stats = serde_json::to_value(stats_of(build)).unwrap();
    let members = stats.as_object_mut().unwrap();
    members.retain(|name, _| ["all", "by_type", "by_tool"].contains(&name.as_str()));
    assert_eq!(stats, expected);
}

/// Returns the tokens and the bytes as JSON. Each pair has the raw events first, then the view.
fn sizes(tokens: [u64; 2], bytes: [u64; 2]) -> Value {
    let [tokens, bytes] = [tokens, bytes].map(|[before, after]| json!({"before": before, "after": after}));
    json!({"tokens": tokens, "bytes": bytes})
}

#[test]
fn sums_tokens_and_bytes_by_type_and_tool() {
    let build = Build::turns(4).element(compaction(
        60,
        0,
        1,
        json!({"reasoning": "strip", "tool_calls": {"policy": "omit"}}),
    ));
    check(
        &build,
        json!({
            "all": sizes([431, 284], [92, 62]),
            "by_type": {
                "user": sizes([69, 69], [16, 16]), "assistant": sizes([69, 69], [16, 16]),
                "reasoning": sizes([69, 35], [24, 12]), "tool_requests": sizes([122, 61], [16, 8]),
                "tool_responses": sizes([105, 53], [20, 10]),
            },
            "by_tool": {"read": sizes([226, 113], [36, 18])},
        }),
    );
}

#[test]
fn counts_summaries_as_a_type() {
    let build = Build::default().turn().ask("1234").element(compaction(
        60,
        0,
        0,
        json!({"summary": {"summary": "12"}}),
    ));
    check(
        &build,
        json!({
            "all": sizes([18, 38], [4, 36]),
            "by_type": {"user": sizes([18, 0], [4, 0]), "summaries": sizes([0, 38], [0, 36])},
            "by_tool": {},
        }),
    );
}

#[test]
fn counts_response_for_tool_of_its_call() {
    let build = Build::default()
        .turn()
        .call("a", "read")
        .answer("a", "1234")
        .call("a", "grep")
        .answer("lost", "1234");
    check(
        &build,
        json!({
            "all": sizes([106, 106], [14, 14]),
            "by_type": {"tool_requests": sizes([56, 56], [6, 6]), "tool_responses": sizes([51, 51], [8, 8])},
            "by_tool": {
                "read": sizes([53, 53], [7, 7]), "grep": sizes([28, 28], [3, 3]), "unknown": sizes([26, 26], [4, 4]),
            },
        }),
    );
}

#[test]
fn counts_bytes_of_decoded_text() {
    check(
        &Build::default().turn().ask("äöü€"),
        json!({"all": sizes([19, 19], [9, 9]), "by_type": {"user": sizes([19, 19], [9, 9])}, "by_tool": {}}),
    );
}

#[test]
fn sums_over_transcripts() {
    let first = stats_of(&Build::turns(4).element(compaction(60, 0, 1, json!({"reasoning": "strip"}))));
    let second = stats_of(&Build::default().turn().ask("1").call("a", "grep").answer("a", "1234"));
    let sum: Stats = [&first, &second].into_iter().sum();
    assert_eq!((sum.turns, sum.events, sum.overlays), (5, 28, 1));
    let numbers =
        |SizeChange { tokens, bytes }: &SizeChange| [tokens.before, tokens.after, bytes.before, bytes.after];
    let added = |first, second| std::array::from_fn(|index| numbers(first)[index] + numbers(second)[index]);
    assert_eq!(numbers(&sum.all), added(&first.all, &second.all));
    let user = |stats: &Stats| stats.by_type["user"];
    assert_eq!(numbers(&user(&sum)), added(&user(&first), &user(&second)));
    assert_eq!(sum.by_type["reasoning"], first.by_type["reasoning"], "types of only one transcript stay");
    assert_eq!((sum.by_tool["read"], sum.by_tool["grep"]), (first.by_tool["read"], second.by_tool["grep"]));
}

#[test]
fn receipt_matches_overlay_by_time_and_range() {
    let stream = Build::turns(3)
        .element(compaction(60, 0, 1, json!({"reasoning": "strip"})))
        .element(compaction(61, 0, 1, json!({"reasoning": "strip"})))
        .element(receipt(61, 0, 1))
        .element(receipt(60, 0, 2))
        .stream();
    let Value::Object(receipt) = json!({"strategy": "s", "version": "1.0.0"}) else { unreachable!() };
    assert_eq!(receipts(&stream), [vec![], vec![receipt]]);
}
