//! Tests of the choice of old results, of the shortened texts, and of the presets at the limits that their sources
//! describe.

use jp_compact_strategy::schema::{EventLine, Kinds, Range};
use jp_compact_strategy::testing::{ask, request};

use super::*;

/// A call of a tool: its turn, its step, the number of tokens and characters of its result.
#[derive(Clone)]
struct Row {
    turn: usize,
    step: usize,
    tool: &'static str,
    tokens: u64,
    content: String,
    is_error: bool,
    hidden: bool,
}

fn row(tokens: u64, chars: usize) -> Row {
    Row { turn: 0, step: 0, tool: "Read", tokens, content: "x".repeat(chars), is_error: false, hidden: false }
}

/// Returns the events of the rows. The call of row N has the seq 2N, its result 2N + 1.
fn events(rows: &[Row]) -> Vec<EventLine> {
    let mut events = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let seq = 2 * number as u64;
        let id = number.to_string();
        let call =
            json!({"type": "tool_call_request", "id": id, "name": row.tool, "arguments": {"path": "a"}});
        let result = json!({
            "type": "tool_call_response", "id": id, "content": row.content, "is_error": row.is_error,
        });
        for (seq, tokens, hidden, event) in [(seq, 1, false, call), (seq + 1, row.tokens, row.hidden, result)]
        {
            let raw = serde_json::value::to_raw_value(&event).unwrap();
            events.push(EventLine {
                step: Some(row.step),
                hidden,
                ..EventLine::new(seq, row.turn, tokens, raw)
            });
        }
    }
    events
}

fn asked(rows: &[Row], options: &Value) -> (CompactRequest, Vec<EventLine>) {
    let turns = rows.last().map_or(0, |row| row.turn) + 1;
    let mut request = request(0, turns - 1, &vec![Kinds::default(); turns]);
    request.options = options.as_object().unwrap().clone();
    (request, events(rows))
}

fn calls(request: &CompactRequest, events: &[EventLine]) -> Vec<SelectiveCall> {
    match ask(&Trim, request, events).unwrap() {
        Outcome::Result { compactions, .. } => match compactions.into_iter().next().unwrap().tool_calls {
            Some(ToolCalls::Selective { calls }) => calls,
            other => panic!("{other:?}"),
        },
        Outcome::Decline(_) => Vec::new(),
        other => panic!("{other:?}"),
    }
}

/// Returns the replaced rows with their texts.
fn replaced(rows: &[Row], options: &Value) -> Vec<(u64, String)> {
    let (request, events) = asked(rows, options);
    let text = |call: SelectiveCall| match call.response {
        Some(ResponseAction::Replace(text)) => (call.seq / 2, text),
        _ => panic!("{call:?}"),
    };
    calls(&request, &events).into_iter().map(text).collect()
}

#[track_caller]
fn check(rows: &[Row], options: Value, expect: &[u64]) {
    let found: Vec<u64> = replaced(rows, &options).into_iter().map(|(row, _)| row).collect();
    assert_eq!(found, expect, "{options}");
}

#[test]
fn largest_options_keep_every_result() {
    let rows = [row(1, 4_400), Row { turn: 1, ..row(1, 4_400) }];
    check(&rows, json!({"keep_steps": 0, "first": usize::MAX, "last": 2}), &[]);
    check(&rows, json!({"keep_steps": 0, "keep_turns": usize::MAX}), &[]);
}

#[track_caller]
fn check_text(options: Value, content: &str, expect: &str) {
    let rows = [Row { content: content.to_owned(), ..row(1, 0) }];
    let mut options = options;
    options["keep_steps"] = json!(0);
    let found = replaced(&rows, &options);
    assert_eq!(found.first().map(|(_, text)| text.as_str()), Some(expect), "{options}");
}

#[test]
fn results_are_old_by_count() {
    let rows = vec![row(10, 900); 5];
    check(&rows, json!({"keep_steps": 0, "keep_results": 2}), &[0, 1, 2]);
    check(&rows, json!({"keep_steps": 0, "keep_results": 5}), &[]);
}

#[test]
fn results_are_old_by_steps_and_turns() {
    let rows: Vec<Row> = [(0, 0), (0, 0), (0, 1), (1, 0), (2, 0)]
        .map(|(turn, step)| Row { turn, step, ..row(10, 900) })
        .to_vec();
    check(&rows, json!({"keep_steps": 1}), &[0, 1, 2, 3]);
    check(&rows, json!({}), &[0, 1]);
    check(&rows, json!({"keep_steps": 0, "keep_turns": 2}), &[0, 1, 2]);
}

#[test]
fn results_are_old_by_tokens() {
    let rows = vec![row(10, 900); 5];
    // The result that exceeds the number is old.
    check(&rows, json!({"keep_steps": 0, "keep_tokens": 20}), &[0, 1, 2]);
    check(&rows, json!({"keep_steps": 0, "keep_tokens": 29}), &[0, 1, 2]);
    check(&rows, json!({"keep_steps": 0, "keep_tokens": 30}), &[0, 1]);
}

#[test]
fn newest_results_are_counted_in_the_conversation() {
    let rows: Vec<Row> = (0..4).map(|turn| Row { turn, ..row(10, 900) }).collect();
    let (mut request, events) = asked(&rows, &json!({"keep_steps": 0, "keep_results": 2}));
    request.requested_range = Range::turns(1, 2);
    let seqs: Vec<u64> = calls(&request, &events).iter().map(|call| call.seq).collect();
    assert_eq!(seqs, [3]);
}

#[test]
fn exempt_failed_short_and_hidden_results_stay() {
    let rows = [
        Row { tool: "skill", ..row(10, 900) },
        Row { is_error: true, ..row(10, 900) },
        row(10, 100),
        Row { hidden: true, ..row(10, 900) },
        row(10, 900),
    ];
    let all = json!({"keep_steps": 0, "exempt": ["skill"], "keep_errors": true, "min_chars": 100});
    check(&rows, all, &[4]);
    check(&rows, json!({"keep_steps": 0, "first": 0, "last": 0}), &[0, 1, 2, 4]);
}

#[test]
fn arguments_are_stripped_on_request() {
    let (request, events) = asked(&[row(10, 900)], &json!({"keep_steps": 0, "arguments": true}));
    let calls = calls(&request, &events);
    let halves: Vec<_> = calls.iter().map(|call| (call.seq, call.request.is_some())).collect();
    assert_eq!(halves, [(0, true), (1, false)]);
}

#[test]
fn texts_are_cut_at_characters() {
    let content = format!("{}{}{}", "ä".repeat(4), "-".repeat(100), "ö".repeat(3));
    let note = "ääää\n[... 100 characters removed ...]\nööö";
    check_text(json!({"first": 4, "last": 3}), &content, note);
    check_text(
        json!({"first": 0, "last": 0, "placeholder": "{tool}: {chars}, {lines}"}),
        "a\nb\nc\nd, e, f",
        "Read: 13, 4",
    );
}

#[test]
fn text_never_becomes_longer() {
    check(&[row(10, 520)], json!({"keep_steps": 0}), &[]);
    check(&[row(10, 600)], json!({"keep_steps": 0}), &[0]);
}

#[test]
fn too_small_gain_is_declined() {
    let rows = vec![row(10, 900); 2];
    check(&rows, json!({"keep_steps": 0, "min_gain": 20}), &[0, 1]);
    let (request, events) = asked(&rows, &json!({"keep_steps": 0, "min_gain": 21}));
    let declined = Outcome::decline("the old results have 20 tokens, and `min_gain` is 21");
    assert_eq!(ask(&Trim, &request, &events), Ok(declined));
}

#[test]
fn options_override_a_preset() {
    let rows = vec![row(10, 900); 5];
    check(&rows, json!({"preset": "clear-tool-uses"}), &[0, 1]);
    check(&rows, json!({"preset": "clear-tool-uses", "keep_results": 4}), &[0]);
}

#[test]
fn clear_tool_uses_keeps_three_results() {
    check(&vec![row(10, 900); 3], json!({"preset": "clear-tool-uses"}), &[]);
    let found = replaced(&vec![row(10, 900); 4], &json!({"preset": "clear-tool-uses"}));
    assert_eq!(found, [(0, "[The result of this old call of Read was cleared]".to_owned())]);
}

/// Returns a turn with these rows, and then two turns with a large result each.
fn before_two_turns(rows: &[Row]) -> Vec<Row> {
    let newest = [1, 2].map(|turn| Row { turn, ..row(100_000, 900) });
    rows.iter().cloned().chain(newest).collect()
}

#[test]
fn opencode_prune_protects_40_000_tokens_and_two_turns() {
    let preset = json!({"preset": "opencode-prune"});
    let rows = [row(20_001, 900), row(40_000, 900)];
    let found = replaced(&before_two_turns(&rows), &preset);
    assert_eq!(found, [(0, "[Old tool result content cleared]".to_owned())]);
    // With one more token, the newer result is also outside the protected tokens.
    check(&before_two_turns(&[row(20_001, 900), row(40_001, 900)]), preset.clone(), &[0, 1]);
    // PRUNE_MINIMUM must be exceeded.
    check(&before_two_turns(&[row(20_000, 900), row(40_000, 900)]), preset.clone(), &[]);
    // Skills and failed calls are neither pruned nor counted.
    let exempt = [
        row(20_001, 900),
        Row { tool: "skill", ..row(90_000, 900) },
        Row { is_error: true, ..row(90_000, 900) },
        row(40_000, 900),
    ];
    check(&before_two_turns(&exempt), preset, &[0]);
}

#[test]
fn gemini_mask_protects_50_000_tokens_and_the_latest_message() {
    let preset = json!({"preset": "gemini-mask"});
    let rows = |old: u64, protected: u64| {
        [row(old, 900), Row { step: 1, ..row(protected, 900) }, Row { step: 2, ..row(90_000, 900) }]
    };
    let text = format!("{0}\n... [TRUNCATED] ...\n{0}", "x".repeat(250));
    assert_eq!(replaced(&rows(30_000, 50_000), &preset), [(0, text)]);
    check(&rows(29_999, 50_000), preset.clone(), &[]);
    // The result that crosses the boundary is masked too.
    check(&rows(1, 50_001), preset.clone(), &[0, 1]);
    // For a result of at most 500 characters, the preview is the whole result.
    let short = [row(30_000, 500), Row { step: 1, ..row(50_000, 900) }, Row { step: 2, ..row(1, 900) }];
    check(&short, preset, &[]);
}

#[test]
fn mask_10_keeps_ten_results() {
    check(&vec![row(10, 900); 10], json!({"preset": "mask-10"}), &[]);
    let mut rows = vec![row(10, 900); 11];
    rows[0].content = "a line of the output\n".repeat(40);
    let found = replaced(&rows, &json!({"preset": "mask-10"}));
    assert_eq!(found, [(0, "Old environment output: (40 lines omitted)".to_owned())]);
}

#[test]
fn head_300_and_cap_8000_keep_the_beginning_of_each_result() {
    for (preset, chars) in [("head-300", 300), ("cap-8000", 8_000)] {
        let options = json!({"preset": preset});
        check(&[row(10, chars), row(10, chars + 1)], options.clone(), &[]);
        let found = replaced(&[row(10, chars + 1_000)], &options);
        assert_eq!(found, [(0, format!("{}\n[... 1000 characters removed]", "x".repeat(chars)))]);
    }
}

#[test]
fn every_preset_is_in_the_schema() {
    for name in Preset::NAMES {
        assert!(serde_json::from_value::<Preset>(json!(name)).is_ok(), "{name}");
    }
}

#[test]
fn unknown_options_are_rejected() {
    let (request, events) = asked(&[row(10, 900)], &json!({"keep": 1}));
    assert_eq!(ask(&Trim, &request, &events).unwrap_err().code, "options_invalid");
}
