//! Tests of the choice of calls to shorten, and of the lines that they keep.

use jp_compact_strategy::schema::{EventLine, Kinds, Range};
use jp_compact_strategy::testing::{ask, request};
use serde_json::Value;

use super::*;

/// A call: its step, its arguments, and its result.
#[derive(Clone)]
struct Row {
    step: usize,
    tool: &'static str,
    arguments: Value,
    content: String,
    hidden: bool,
}

fn row(step: usize, content: &str) -> Row {
    Row { step, tool: "Bash", arguments: json!({}), content: content.to_owned(), hidden: false }
}

fn line(seq: u64, step: Option<usize>, hidden: bool, event: &Value) -> EventLine {
    let raw = serde_json::value::to_raw_value(event).unwrap();
    EventLine { step, hidden, ..EventLine::new(seq, 0, 1, raw) }
}

/// Returns the events: a message of the user, then the calls. For row N, the call has the seq 2N + 1, and the result
/// has the seq 2N + 2.
fn events(user: &str, rows: &[Row]) -> Vec<EventLine> {
    let mut events = vec![line(0, None, false, &json!({"type": "chat_request", "content": user}))];
    for (number, row) in rows.iter().enumerate() {
        let (seq, id) = (2 * number as u64 + 1, number.to_string());
        let call =
            json!({"type": "tool_call_request", "id": id, "name": row.tool, "arguments": row.arguments});
        let result = json!({"type": "tool_call_response", "id": id, "content": row.content});
        events.push(line(seq, Some(row.step), false, &call));
        events.push(line(seq + 1, Some(row.step), row.hidden, &result));
    }
    events
}

fn asked(options: &Value) -> CompactRequest {
    let mut request = request(0, 0, &[Kinds::default()]);
    request.options = options.as_object().unwrap().clone();
    request
}

fn calls(request: &CompactRequest, events: &[EventLine]) -> Vec<SelectiveCall> {
    match ask(&Extract, request, events).unwrap() {
        Outcome::Result { compactions, .. } => match compactions.into_iter().next().unwrap().tool_calls {
            Some(ToolCalls::Selective { calls }) => calls,
            other => panic!("{other:?}"),
        },
        Outcome::Decline(_) => Vec::new(),
        other => panic!("{other:?}"),
    }
}

/// Returns the replaced rows with their texts.
fn replaced(user: &str, rows: &[Row], options: &Value) -> Vec<(u64, String)> {
    let calls = calls(&asked(options), &events(user, rows));
    let text = |call: SelectiveCall| match call.response {
        Some(ResponseAction::Replace(text)) => Some((call.seq / 2 - 1, text)),
        _ => None,
    };
    calls.into_iter().filter_map(text).collect()
}

/// Returns lines of prose without names.
fn prose(lines: usize) -> String {
    "the quick brown fox jumps over the lazy dog\n".repeat(lines)
}

/// Options that keep no step and no prose, and only the last line because of its position.
fn bare(budget: f64) -> Value {
    json!({"budget": budget, "keep_steps": 0, "edge_lines": 0, "min_bytes": 100, "prose": 0})
}

#[test]
fn lines_with_new_names_stay() {
    let content = format!("{}see src/lexer.rs\n{}done", prose(10), prose(10));
    let found = replaced("Look.", &[row(0, &content)], &bare(0.2));
    assert_eq!(found, [(0, "[2/22 lines]\nsee src/lexer.rs\ndone".to_owned())]);
}

#[test]
fn lines_whose_names_the_view_shows_elsewhere_are_dropped() {
    let content = format!("{}see src/lexer.rs\n{}done", prose(10), prose(10));
    let found = replaced("Look at src/lexer.rs.", &[row(0, &content)], &bare(0.2));
    assert_eq!(found, [(0, "[1/22 lines]\ndone".to_owned())]);
    // The view also shows the result of a kept step.
    let rows = [row(0, &content), row(1, "src/lexer.rs")];
    let mut options = bare(0.2);
    options["keep_steps"] = json!(1);
    assert_eq!(replaced("Look.", &rows, &options), found);
}

#[test]
fn one_line_stays_for_each_name() {
    let content = format!("{}see src/lexer.rs\n{}done", prose(10), prose(10));
    let found = replaced("Look.", &[row(0, &content), row(1, &content)], &bare(0.2));
    let count = found.iter().filter(|(_, text)| text.contains("src/lexer.rs")).count();
    assert_eq!((found.len(), count), (2, 1));
    assert!(found[1].1.contains("src/lexer.rs"), "the newest of equal lines stays: {found:?}");
}

#[test]
fn budget_limits_the_lines() {
    let names: String =
        (0..50).map(|number| format!("value_name_{number} and some more words here\n")).collect();
    let bytes = |budget: f64| replaced("Look.", &[row(0, &format!("{names}done"))], &bare(budget))[0].1.len();
    let total = names.len();
    assert!(bytes(0.1) < total / 8 && bytes(0.5) > total / 3 && bytes(0.5) < total * 6 / 10);
}

#[test]
fn long_lines_are_reduced_to_their_names() {
    let content =
        format!("{} src/lexer.rs {} lexer_state 40400\ndone", "word ".repeat(40), "word ".repeat(40));
    let found = replaced("Look.", &[row(0, &content)], &bare(0.2));
    let text = "[2/2 lines]\nsrc/lexer.rs lexer_state 40400\ndone";
    assert_eq!(found, [(0, text.to_owned())]);
}

#[test]
fn errors_exit_codes_and_the_last_line_stay_without_budget() {
    let content =
        format!("{}error: unexpected token\n{}exit code 101\n{}last words", prose(9), prose(9), prose(9));
    let found = replaced("Look.", &[row(0, &content)], &bare(0.0));
    let text = "[3/30 lines]\nerror: unexpected token\nexit code 101\nlast words";
    assert_eq!(found, [(0, text.to_owned())]);
}

#[test]
fn first_and_last_lines_stay() {
    let content = format!("head 1\nhead 2\n{}tail 1\ntail 2", prose(20));
    let mut options = bare(0.0);
    options["edge_lines"] = json!(2);
    let found = replaced("Look.", &[row(0, &content)], &options);
    let text = "[4/24 lines]\nhead 1\nhead 2\ntail 1\ntail 2";
    assert_eq!(found, [(0, text.to_owned())]);
}

#[test]
fn prose_stays_once_and_whole() {
    let code = "let x = y + 1;\n".repeat(30);
    let comment = "// The lexer keeps its state between two lines of the file.";
    let content =
        format!("{code}{comment}\n{code}  12\u{2192}{comment}\nSay it to the user only once.\n{code}done");
    let mut options = bare(1.0);
    options["prose"] = json!(0.2);
    options["line_bytes"] = json!(10);
    let found = replaced("Say it to the user only once.", &[row(0, &content)], &options);
    let text = format!("[2/94 lines]\n  12\u{2192}{comment}\ndone");
    assert_eq!(found, [(0, text)], "the newest of equal lines stays, and no line that a message shows");
    options["prose"] = json!(0.01);
    assert_eq!(replaced("Look.", &[row(0, &content)], &options)[0].1, "[1/94 lines]\ndone");
}

#[test]
fn prose_gets_the_budget_that_names_leave() {
    let comment = "// The lexer keeps its state between two lines of the file.";
    let names: String = (0..20).map(|number| format!("let value_name_{number} = 1;\n")).collect();
    let content = format!("{comment}\n{names}done");
    let mut options = bare(1.0);
    options["prose"] = json!(1);
    assert!(
        replaced("Look.", &[row(0, &format!("{}{content}", "x\n".repeat(200)))], &options)[0]
            .1
            .contains(comment)
    );
    options["budget"] = json!(0.8);
    let text = &replaced("Look.", &[row(0, &content)], &options)[0].1;
    assert!(text.contains("value_name_9 ") && !text.contains(comment), "{text}");
}

#[test]
fn names_of_prose_are_not_kept_twice() {
    let prose = "The lexer of this project is in the file src/lexer.rs now.";
    let content = format!("{prose}\n{0}src/lexer.rs\n{0}done", "let x = y + 1;\n".repeat(30));
    let mut options = bare(1.0);
    options["prose"] = json!(1);
    let found = replaced("Look.", &[row(0, &content)], &options);
    assert_eq!(found, [(0, format!("[2/63 lines]\n{prose}\ndone"))]);
}

#[test]
fn long_arguments_are_shortened_into_the_result() {
    let arguments = json!({"path": "src/lexer.rs", "text": prose(20)});
    let rows = [Row { arguments, ..row(0, "written") }];
    let calls = calls(&asked(&bare(0.2)), &events("Write.", &rows));
    let [request, response] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((request.seq, request.request), (1, Some(RequestAction::Strip)));
    let text = "[arguments: 1/21 lines]\nsrc/lexer.rs\n[output]\nwritten";
    assert_eq!((response.seq, &response.response), (2, &Some(ResponseAction::Replace(text.to_owned()))));
}

#[test]
fn newest_steps_short_exempt_and_hidden_results_stay() {
    let long = prose(20);
    let rows = [
        row(0, &long),
        Row { tool: "Task", ..row(0, &long) },
        row(1, "short"),
        Row { hidden: true, ..row(1, &long) },
        row(2, &long),
        row(3, &long),
        row(4, &long),
    ];
    let found: Vec<u64> = replaced("Look.", &rows, &json!({})).into_iter().map(|(row, _)| row).collect();
    assert_eq!(found, [0]);
}

#[test]
fn results_outside_the_range_stay() {
    let rows = [row(0, &prose(20)), row(1, &prose(20))];
    let mut request = asked(&bare(0.2));
    request.requested_range = Range { from_step: Some(1), to_step: Some(1), ..Range::turns(0, 0) };
    let seqs: Vec<u64> = calls(&request, &events("Look.", &rows)).iter().map(|call| call.seq).collect();
    assert_eq!(seqs, [4]);
}

#[test]
fn call_without_a_result_stays() {
    let mut events = events("Look.", &[Row { arguments: json!({"text": prose(20)}), ..row(0, "x") }]);
    events.pop();
    assert_eq!(calls(&asked(&bare(0.2)), &events), []);
}

/// Returns options that merge calls and keep only names.
fn merging(merge: usize) -> Value {
    json!({"budget": 1, "keep_steps": 0, "edge_lines": 0, "min_bytes": 0, "prose": 0, "merge": merge})
}

#[test]
fn lines_of_several_calls_go_into_the_last_result() {
    let read = |step, path: &str| Row {
        tool: "Read",
        arguments: json!({"path": path}),
        ..row(step, &format!("{}done", prose(10)))
    };
    let rows = [read(0, "src/lexer.rs"), row(1, &format!("{}fine", prose(10))), read(2, "src/parser.rs")];
    let calls = calls(&asked(&merging(8)), &events("Look.", &rows));
    let omitted: Vec<u64> = calls.iter().filter(|call| call.omit).map(|call| call.seq).collect();
    assert_eq!(omitted, [1, 3]);
    let [.., request, response] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((request.seq, &request.request), (5, &Some(RequestAction::Strip)));
    let text = "[3 calls, 5/35 lines]\n[Read]\nsrc/lexer.rs\ndone\n[Bash]\nfine\n[Read]\nsrc/parser.rs\ndone";
    assert_eq!((response.seq, &response.response), (6, &Some(ResponseAction::Replace(text.to_owned()))));
}

#[test]
fn merge_limits_the_calls_of_a_group() {
    let rows = [(); 5].map(|()| row(0, &prose(10)));
    let calls = calls(&asked(&merging(2)), &events("Look.", &rows));
    let omitted: Vec<u64> = calls.iter().filter(|call| call.omit).map(|call| call.seq).collect();
    assert_eq!(omitted, [1, 5], "the fifth call is alone");
    assert_eq!(calls.len(), 5);
}

#[test]
fn calls_of_different_turns_are_not_merged() {
    let mut events = events("Look.", &[row(0, &prose(10)), row(1, &prose(10))]);
    events[3].turn = 1;
    events[4].turn = 1;
    let mut request = request(0, 1, &[Kinds::default(), Kinds::default()]);
    request.options = merging(8).as_object().unwrap().clone();
    let calls = calls(&request, &events);
    assert!(calls.len() == 2 && calls.iter().all(|call| !call.omit), "{calls:?}");
}

#[test]
fn call_with_a_later_result_is_not_merged() {
    let rows = [row(0, &format!("{}src/late_result.rs\ndone", prose(10))), row(0, &prose(10))];
    let mut events = events("Look.", &rows);
    // The result of the first call is in turn 1.
    let mut late = events.remove(2);
    late.turn = 1;
    events.push(late);
    events.iter_mut().zip(0..).for_each(|(event, seq)| event.seq = seq);
    let mut request = request(0, 1, &[Kinds::default(), Kinds::default()]);
    request.options = merging(8).as_object().unwrap().clone();
    let calls = calls(&request, &events);
    assert!(calls.len() == 2 && calls.iter().all(|call| !call.omit), "{calls:?}");
}

#[test]
fn short_texts_of_merged_calls_stay_whole() {
    let command = |text: &str| Row { arguments: json!({"command": text}), ..row(0, "ok") };
    let rows = [command("make all"), command("make test"), row(0, &prose(10))];
    let mut options = merging(8);
    options["min_bytes"] = json!(50);
    let found = replaced("Build.", &rows, &options);
    let last = "the quick brown fox jumps over the lazy dog";
    let text = format!("[3 calls, 5/14 lines]\n[Bash]\nmake all\nok\n[Bash]\nmake test\nok\n[Bash]\n{last}");
    assert_eq!(found, [(2, text)]);
    let long = format!("cargo test {}src/end.rs", "word ".repeat(33));
    let rows = [Row { content: long.clone(), ..command(&long) }, row(0, &prose(10))];
    options["min_bytes"] = json!(200);
    let text = format!("[2 calls, 3/12 lines]\n[Bash]\n{long}\n{long}\n[Bash]\n{last}");
    assert_eq!(replaced("Build.", &rows, &options), [(1, text)]);
}

#[test]
fn short_call_without_neighbors_does_not_change() {
    let mut options = merging(8);
    options["min_bytes"] = json!(50);
    assert_eq!(replaced("Look.", &[row(0, "short")], &options), []);
}

#[test]
fn reply_that_would_be_too_large_ends_with_the_last_call_that_fits() {
    let content = format!("src/lexer.rs\n{}done", prose(20));
    let rows = [row(0, &content), row(1, &content), row(2, &content)];
    let mut request = asked(&bare(0.2));
    request.limits.result_bytes_max = 120;
    let seqs: Vec<u64> = calls(&request, &events("Look.", &rows)).iter().map(|call| call.seq).collect();
    assert_eq!(seqs, [2, 4]);
}

#[test]
fn declines_without_old_calls() {
    let declined = Outcome::decline("no call in the range is old enough, long enough, and not exempt");
    assert_eq!(ask(&Extract, &asked(&json!({})), &events("Hi", &[row(0, "short")])), Ok(declined));
}

#[test]
fn unknown_options_are_rejected() {
    let events = events("Hi", &[]);
    assert_eq!(ask(&Extract, &asked(&json!({"keep": 1})), &events).unwrap_err().code, "options_invalid");
}
