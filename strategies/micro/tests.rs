//! Tests of the choice of results that become placeholders.

use jp_compact_strategy::schema::{Kinds, Range};
use jp_compact_strategy::testing::{ask, request};
use serde_json::Value;

use super::*;

/// A result: its turn, tool, and bytes. The request of each result is the preceding event.
type Row<'a> = (usize, &'a str, u64);

/// Returns an outline with a request and a result for each row. The result of row N has the seq 2N + 1.
fn outline(rows: &[Row<'_>]) -> Outline {
    let mut outline = Outline {
        types: vec!["tool_call_request".to_owned(), "tool_call_response".to_owned()],
        tools: rows.iter().map(|(_, tool, _)| (*tool).to_owned()).collect(),
        ..Outline::default()
    };
    for (number, (turn, _, bytes)) in rows.iter().enumerate() {
        for half in 0..2 {
            let seq = 2 * number as u64 + half;
            outline.seq.push(seq);
            outline.turn.push(*turn);
            outline.r#type.push(usize::try_from(half).unwrap());
            outline.tool.push(Some(number));
            outline.pair.push(Some(seq ^ 1));
            outline.bytes.push(*bytes);
            outline.tokens.push(bytes / 4);
        }
    }
    outline
}

/// Returns a request for all turns of these rows.
fn asked(rows: &[Row<'_>], options: &Value) -> CompactRequest {
    let last = rows.last().map_or(0, |(turn, ..)| *turn);
    let mut request = request(0, last, &vec![Kinds::default(); last + 1]);
    request.options = options.as_object().unwrap().clone();
    request.outline = Some(outline(rows));
    request
}

/// Returns the replaced rows, with their replacements.
fn replaced(request: &CompactRequest) -> Vec<(u64, String)> {
    let compactions = match ask(&Micro, request, &[]).unwrap() {
        Outcome::Result { compactions, .. } => compactions,
        Outcome::Decline(_) => return Vec::new(),
        other => panic!("{other:?}"),
    };
    let [Payload { tool_calls: Some(ToolCalls::Selective { calls }), .. }] = &compactions[..] else {
        panic!("{compactions:?}")
    };
    let text = |call: &SelectiveCall| match &call.response {
        Some(ResponseAction::Replace(text)) if call.request.is_none() && !call.omit => text.clone(),
        _ => panic!("{call:?}"),
    };
    calls.iter().map(|call| ((call.seq - 1) / 2, text(call))).collect()
}

#[track_caller]
fn check(rows: &[Row<'_>], options: Value, expect: &[u64]) {
    let found: Vec<u64> = replaced(&asked(rows, &options)).into_iter().map(|(row, _)| row).collect();
    assert_eq!(found, expect, "{options}");
}

/// The three results of J-CLI's example, followed by as many results as it keeps.
const EXAMPLE: [Row<'_>; 6] = [
    (0, "Bash", 1500),
    (0, "Read", 2000),
    (0, "LoadSkill", 3000),
    (1, "Bash", 1500),
    (1, "Read", 2000),
    (1, "Grep", 900),
];

#[test]
fn replaces_the_same_results_as_j_cli() {
    let found = replaced(&asked(&EXAMPLE, &json!({"keep_recent": 3})));
    assert_eq!(
        found,
        [(0, "[Previous: used Bash]".to_owned()), (1, "[Previous: used Read]".to_owned())],
        "row 2 is exempt"
    );
    // J-CLI's documentation shows only these three results. Its algorithm would keep them, because they are the last
    // three.
    check(&EXAMPLE[..3], json!({"keep_recent": 3}), &[]);
    check(&EXAMPLE[..3], json!({"keep_recent": 0}), &[0, 1]);
}

#[test]
fn keeps_the_last_ten_results() {
    let rows = |count: usize| vec![(0, "Read", 801); count];
    check(&rows(10), json!({}), &[]);
    check(&rows(12), json!({}), &[0, 1]);
    check(&rows(12), json!({"keep_recent": 11}), &[0]);
    check(&rows(2), json!({"keep_recent": 0}), &[0, 1]);
    check(&[], json!({}), &[]);
}

#[test]
fn replaces_only_results_longer_than_800_bytes() {
    let rows = [(0, "Read", 800), (0, "Read", 801)];
    check(&rows, json!({"keep_recent": 0}), &[1]);
    check(&rows, json!({"keep_recent": 0, "min_bytes": 799}), &[0, 1]);
    // The placeholder has 21 bytes, and never makes a result longer.
    check(&[(0, "Read", 21), (0, "Read", 22)], json!({"keep_recent": 0, "min_bytes": 0}), &[1]);
}

#[test]
fn exempts_state_and_instructions_by_default() {
    let rows: Vec<Row<'_>> =
        ["LoadSkill", "Task", "TodoWrite", "TodoRead", "Ask", "Bash"].map(|tool| (0, tool, 5000)).to_vec();
    check(&rows, json!({"keep_recent": 0}), &[5]);
    check(&rows, json!({"keep_recent": 0, "exempt": ["Bash"]}), &[0, 1, 2, 3, 4]);
}

#[test]
fn newest_results_are_counted_in_the_conversation() {
    let rows = [(0, "Read", 900), (1, "Read", 900), (1, "Read", 900), (2, "Read", 900)];
    let mut request = asked(&rows, &json!({"keep_recent": 2}));
    request.requested_range = Range::turns(1, 1);
    assert_eq!(replaced(&request), [(1, "[Previous: used Read]".to_owned())]);
}

#[test]
fn hidden_results_are_not_proposed_again() {
    let rows = [(0, "Read", 900), (0, "Read", 900)];
    let mut request = asked(&rows, &json!({"keep_recent": 0}));
    request.outline.as_mut().unwrap().hidden = vec![1];
    assert_eq!(replaced(&request), [(1, "[Previous: used Read]".to_owned())]);
    request.outline.as_mut().unwrap().hidden = vec![1, 3];
    let declined = Outcome::decline("no result in the range is old enough, long enough, and not exempt");
    assert_eq!(ask(&Micro, &request, &[]), Ok(declined));
}

#[test]
fn result_without_a_tool_is_named_unknown() {
    let mut request = asked(&[(0, "Read", 900)], &json!({"keep_recent": 0}));
    request.outline.as_mut().unwrap().tool = vec![None, None];
    assert_eq!(replaced(&request), [(0, "[Previous: used unknown]".to_owned())]);
}

#[test]
fn rejects_missing_or_invalid_outlines() {
    let code = |request: &CompactRequest| ask(&Micro, request, &[]).unwrap_err().code;
    let sound = asked(&EXAMPLE, &json!({}));
    assert_eq!(code(&CompactRequest { outline: None, ..sound.clone() }), "request_invalid");
    let mut short = sound.clone();
    short.outline.as_mut().unwrap().bytes.pop();
    assert_eq!(code(&short), "request_invalid");
    assert_eq!(code(&asked(&EXAMPLE, &json!({"keep": 1}))), "options_invalid");
}

#[test]
fn own_results_come_back_if_other_options_keep_them() {
    let mut request = asked(&EXAMPLE, &json!({"keep_recent": 5}));
    let older = |strategy: &str, seqs: &[u64]| CompactionRef {
        to_turn: 1,
        strategies: vec![strategy.to_owned()],
        tool_calls: Some(ToolCallsRef::Selective { seqs: seqs.to_vec() }),
        shown: vec!["tool_calls".to_owned()],
        ..CompactionRef::default()
    };
    request.outline.as_mut().unwrap().hidden = vec![1, 3, 7, 9];
    // This strategy replaced results 1 and 3, and another strategy replaced result 7. Result 9 is hidden for another
    // reason, and result 11 is already kept.
    request.context.compactions = vec![older("under-test", &[1, 3, 11]), older("other", &[7])];
    let Outcome::Result { compactions, .. } = ask(&Micro, &request, &[]).unwrap() else { panic!("declined") };
    let Some(ToolCalls::Selective { calls }) = &compactions[0].tool_calls else { panic!("{compactions:?}") };
    assert_eq!(
        calls.iter().map(|call| (call.seq, &call.response)).collect::<Vec<_>>(),
        [(3, &Some(ResponseAction::Keep))]
    );
    request.outline.as_mut().unwrap().hidden = vec![1, 7, 9];
    assert!(matches!(ask(&Micro, &request, &[]), Ok(Outcome::Decline(_))));
}
