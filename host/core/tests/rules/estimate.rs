//! The estimation of tokens by content type: the weights of pieces, or a tokenizer's count.

use jp_compact_core::Survey;
use jp_compact_core::estimate::{Estimate, Estimator};
use serde_json::{Value, json};

use crate::build::{Build, base64, compaction, timestamp_text};

#[test]
fn rounds_up_weights_of_pieces() {
    // A word 0.885, a group of digits 1.223, punctuation 1.536 and the word after it 0, a line break 1.383.
    for (text, tokens) in [
        ("", 0),
        ("a", 1),
        ("one two", 2),
        ("12", 2),
        ("1234", 3),
        ("a.b", 3),
        ("a\nb", 4),
        ("word ".repeat(1000).as_str(), 885),
    ] {
        assert_eq!(Estimator::Pieces.tokens(text), tokens, "{text}");
    }
}

/// Checks the tokens of an element. The tokenizer counts each character of the JSON as a token. The frame of a message
/// has 15 tokens. The frame of a call or a result has 21.5 tokens and an id, and that of a call also a name.
#[track_caller]
fn check(mut element: Value, tokens: u64) {
    element["timestamp"] = timestamp_text(0).into();
    let stream = Build::default().element(element).stream();
    let count_characters = Estimator::Exact(|text| text.chars().count() as u64);
    assert_eq!(Estimate::new(&stream, count_characters).tokens(0), tokens);
}

#[test]
fn tokenizer_counts_stream_and_view() {
    let count_words = Estimator::Exact(|text| text.split_whitespace().count() as u64);
    let summary = json!({"summary": {"summary": "one two three"}});
    let stream = Build::default()
        .turn()
        .ask("a b")
        .say("c")
        .turn()
        .ask("d")
        .element(compaction(60, 0, 0, summary))
        .stream();
    let survey = Survey::with_estimator(&stream, count_words);
    assert_eq!(survey.estimate.estimator().name(), "o200k");
    assert_eq!(survey.estimate.stream_tokens(), 3 * 15 + 4);
    // `[Summary of previous conversation]`, the summary, `d`.
    assert_eq!(survey.estimate.view_tokens(&survey.view), 3 * 15 + 4 + 3 + 1);
}

#[test]
fn counts_decoded_characters() {
    check(json!({"type": "chat_request", "content": "h\u{e9}llo\n"}), 15 + 7);
    check(json!({"type": "chat_response", "message": base64("plain text is not decoded")}), 15 + 36);
    check(json!({"type": "chat_response", "reasoning": "\u{1f600}"}), 15 + 1);
    check(
        json!({"type": "tool_call_response", "id": "a", "content": base64("h\u{e9}llo"), "is_error": false}),
        28, // 21.5 + 1 + 5
    );
    check(json!({"type": "tool_call_response", "id": "a", "content": "no base64!", "is_error": true}), 33);
}

#[test]
fn counts_keys_and_values_of_arguments() {
    let call =
        |arguments| json!({"type": "tool_call_request", "id": "a", "name": "t", "arguments": arguments});
    // 21.5 + 1 + 1. Each key and value has 1.223 more than its text.
    check(call(json!({})), 24);
    check(json!({"type": "tool_call_request", "id": "a", "name": "t"}), 24);
    check(call(json!({"path": base64("f.rs")})), 34);
    check(call(json!({"a": [base64("12"), 34, true, null], "b": {"c": base64("5")}})), 45);
}

#[test]
fn counts_no_frame_of_an_empty_message() {
    check(json!({"type": "chat_request", "content": ""}), 0);
    check(json!({"type": "chat_response", "message": ""}), 0);
    check(json!({"type": "chat_response", "reasoning": ""}), 15);
}

#[test]
fn ignores_text_that_models_do_not_receive() {
    check(json!({"type": "turn_start", "metadata": {"a": "b"}}), 0);
    check(json!({"type": "inquiry_request", "id": "a", "source": "s", "question": "q"}), 0);
    check(json!({"type": "config_delta", "delta": {"a": "b"}}), 0);
    check(json!({"type": "bookmark", "content": "text"}), 0);
    check(compaction(0, 0, 0, json!({"summary": {"summary": "text"}})), 0);
}

/// Checks the row of turn 0. Its events are `ask0`, `think0`, a call `read{of: c0}`, `body0`, and `say0`.
#[track_caller]
fn check_row(overlays: &[Value], view_tokens: u64, kinds: Value) {
    let stream = Build::turns(4).elements(overlays).stream();
    let survey = Survey::new(&stream);
    let row = serde_json::to_value(&survey.turns[0]).unwrap();
    let expected = json!({"turn": 0, "events": 6, "tokens": 108, "view_tokens": view_tokens, "complete": true, "kinds": kinds});
    assert_eq!(row, expected);
}

fn kinds(reasoning: [u64; 2], calls: [u64; 4]) -> Value {
    json!({
        "reasoning": reasoning[0], "reasoning_tokens": reasoning[1], "tool_calls": calls[0], "tool_errors": calls[1],
        "tool_request_tokens": calls[2], "tool_response_tokens": calls[3],
    })
}

#[test]
fn turn_table_counts_the_view() {
    check_row(&[], 108, kinds([1, 3], [1, 0, 6, 3]));
    check_row(&[compaction(60, 0, 0, json!({"reasoning": "strip"}))], 91, kinds([0, 0], [1, 0, 6, 3]));
    check_row(
        &[compaction(60, 0, 0, json!({"tool_calls": {"policy": "omit"}}))],
        52,
        kinds([1, 3], [0, 0, 0, 0]),
    );
    let strip = |request, response| {
        compaction(
            60,
            0,
            0,
            json!({"tool_calls": {"policy": "strip", "request": request, "response": response}}),
        )
    };
    check_row(&[strip(true, false)], 103, kinds([1, 3], [1, 0, 0, 3]));
    check_row(&[strip(false, true)], 112, kinds([1, 3], [1, 0, 6, 0]));
    check_row(
        &[compaction(60, 0, 0, json!({"summary": {"summary": "12345678"}}))],
        41,
        kinds([0, 0], [0, 0, 0, 0]),
    );
}

#[test]
fn turn_table_marks_errors_and_open_turns() {
    let stream = Build::default().turn().call("a", "t").answer_error("a", "").call("b", "t").stream();
    let row = Survey::new(&stream).turns[0].clone();
    assert_eq!((row.complete, row.kinds.tool_calls, row.kinds.tool_errors), (false, 2, 1));
}

#[test]
fn summary_counts_in_its_first_turn() {
    let stream =
        Build::turns(3).element(compaction(60, 1, 2, json!({"summary": {"summary": "1234"}}))).stream();
    let survey = Survey::new(&stream);
    assert_eq!(survey.turns.iter().map(|row| row.view_tokens).collect::<Vec<_>>(), [108, 40, 0]);
    assert_eq!(survey.estimate.view_tokens(&survey.view), 147);
    assert_eq!(survey.estimate.stream_tokens(), 323);
}
