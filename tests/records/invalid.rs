//! Invalid records, and records on which a strategy fails. Each record gets its own answer, and the other
//! records are not affected.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use jp_compact_schema::catalog;
use serde_json::{Value, json};

use crate::support::World;
use crate::{STRIP, lines, parse_answer, record, run_records};

/// Shell code that declines every request.
const DECLINE: &str =
    r#"sed -n 's/^{"type":"compact","id":"\([^"]*\)".*/{"type":"decline","id":"\1","reason":"not today"}/p'"#;

/// Checks the answer to a line between two valid records.
#[track_caller]
fn check(line: &[u8], id: &Value, code: &str, message: &str) {
    let world = World::new();
    let valid_line = lines(&[record(&json!("good"), 2)]);
    let output = run_records(&world, &STRIP, &[&valid_line, line, b"\n", &valid_line[..]].concat()).exits(0);
    let answers = output.lines();
    assert_eq!(answers.len(), 3, "{}", output.text());
    assert_eq!((&answers[0]["ok"], &answers[2]), (&json!(true), &answers[0]));
    let error = &answers[1]["error"];
    assert_eq!((&answers[1]["id"], error["kind"].as_str()), (id, Some(code)), "{error}");
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!((&answers[1]["ok"], &error["retryable"]), (&json!(false), &json!(false)));
}

#[test]
fn invalid_json_is_answered_with_its_id_if_possible() {
    check(br#"{"id":"a","transcript":[{"ty"#, &json!("a"), "bad_record", "EOF");
    check(br#"{"id":12"#, &json!(null), "bad_record", "EOF");
    check(b"not json", &json!(null), "bad_record", "not a JSON object");
    check(br#"[1,{"id":2}]"#, &json!(null), "bad_record", "not a JSON object");
    check(b"{\"id\":3,\"transcript\":\"\xff\"}", &json!(3), "bad_record", "UTF-8");
    check(b"{\"transcript\":\"\xff\",\"id\":[4]}", &json!([4]), "bad_record", "UTF-8");
    check(br#"{"id":5,"id":6,"path":"x"}"#, &json!(5), "bad_record", "duplicate");
}

#[test]
fn incomplete_record_is_answered_with_its_id() {
    check(br#"{"id":1}"#, &json!(1), "bad_record", "neither");
    check(br#"{"transcript":[],"path":"x","id":1}"#, &json!(1), "bad_record", "has both");
    check(br#"{"transcript":3,"id":1}"#, &json!(1), "bad_record", "an array, an object");
    check(br#"{"path":3,"id":1}"#, &json!(1), "bad_record", "`path` is not a string");
    check(br#"{"path":"x","format":"wat","id":1}"#, &json!(1), "bad_record", "wat");
    check(br#"{"path":"nowhere","id":1}"#, &json!(1), "transcript_invalid", "failed to find a transcript");
    check(br#"{"transcript":{"a":1},"id":1}"#, &json!(1), "transcript_invalid", "detect the format");
    check(br#"{"transcript":"[{]","id":1}"#, &json!(1), "transcript_invalid", "the record's transcript");
    check(br#"{"transcript":"\ud800","id":1}"#, &json!(1), "bad_record", "not a valid string");
}

#[test]
fn deeply_nested_record_is_answered_with_its_id() {
    let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let message = "deeper";
    check(
        format!(r#"{{"transcript":{nested},"id":1}}"#).as_bytes(),
        &json!(1),
        "transcript_invalid",
        message,
    );
    check(
        format!(r#"{{"id":1,"transcript":{nested}}}"#).as_bytes(),
        &json!(1),
        "transcript_invalid",
        message,
    );
}

#[test]
fn blank_lines_are_ignored_and_ids_may_repeat() {
    let world = World::new();
    let line = lines(&[record(&json!("same"), 2)]);
    let output = run_records(&world, &STRIP, &[b"\n \t\r\n", &line[..], b"\n", &line].concat()).exits(0);
    let answers = output.lines();
    assert_eq!((answers.len(), &answers[0]["id"]), (2, &json!("same")));
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn last_line_without_a_line_break_is_answered() {
    let world = World::new();
    let line = record(&json!("last"), 2).to_string();
    let output = run_records(&world, &STRIP, line.as_bytes()).exits(0);
    assert_eq!(output.line()["ok"], true, "a missing line break must be accepted");
    let output = run_records(&world, &STRIP, &line.as_bytes()[..line.len() - 1]).exits(0);
    assert_eq!(
        (&output.line()["id"], &output.line()["error"]["kind"]),
        (&json!("last"), &json!("bad_record"))
    );
    assert_eq!(run_records(&world, &STRIP, b"").exits(4).text(), "");
}

#[test]
fn too_long_line_is_rejected_with_its_id() {
    let world = World::new();
    let mut child = world.spawn(world.command(&STRIP).stdin(Stdio::piped()));
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let writer = std::thread::spawn(move || {
        stdin.write_all(br#"{"id":"long","transcript":""#).unwrap();
        let megabyte = vec![b'a'; 1 << 20];
        for _ in 0..129 {
            stdin.write_all(&megabyte).unwrap();
        }
        stdin.write_all(b"\"}\n").unwrap();
        stdin.write_all(&lines(&[record(&json!("good"), 2)])).unwrap();
    });
    let mut answers = String::new();
    stdout.read_to_string(&mut answers).unwrap();
    writer.join().unwrap();
    answers.lines().for_each(|line| drop(parse_answer(line)));
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&answers[0]["id"], &answers[0]["error"]["kind"]),
        (&json!("long"), &json!("record_too_large"))
    );
    assert_eq!((&answers[1]["id"], &answers[1]["ok"]), (&json!("good"), &json!(true)));
    assert!(child.wait().unwrap().success());
}

#[test]
fn failed_record_does_not_affect_other_records() {
    let world = World::new();
    let fifo = world.path("never");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    // The number of turns selects the fault.
    let run = format!(
        "read -r line\ncase \"$line\" in\n*'\"to_turn\":1'*) echo oh dear >&2; exit 3 ;;\n*'\"to_turn\":2'*) exec cat '{}' \
         ;;\n*'\"to_turn\":3'*) echo what; exit 0 ;;\n*'\"to_turn\":4'*) exec yes ;;\n*) echo \"$line\" | {DECLINE} ;;\nesac",
        fifo.display()
    );
    world.write_plugin("fragile", &run);
    let arguments = [
        "batch",
        "--ndjson",
        "--strategy",
        "fragile",
        "--trust-dir",
        "plugins",
        "--sandbox=contained",
        "--keep-last=0",
        "--deadline=10s",
    ];
    let records: Vec<Value> =
        [1, 2, 1, 3, 1, 4, 5, 1].into_iter().map(|turns| record(&json!(turns), turns)).collect();
    let failing = [&arguments[..], &["--fail-on-error"]].concat();
    // One record waits for its deadline, so the two runs wait at the same time.
    let (output, failed) = std::thread::scope(|scope| {
        let failed = scope.spawn(|| run_records(&world, &failing, &lines(&records)));
        (run_records(&world, &arguments, &lines(&records)).exits(0), failed.join().unwrap().exits(19))
    });
    let answers = output.lines();
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2, 1, 3, 1, 4, 5, 1]);
    for answer in &answers {
        let error = &answer["error"];
        let expected = match answer["id"].as_u64() {
            Some(2) => (json!("strategy_crashed"), json!(true)),
            Some(3) => (json!("deadline"), json!(true)),
            Some(4) => (json!("protocol_violation"), json!(false)),
            // The flood may exceed the limit of output or the deadline first.
            Some(5) => (error["kind"].clone(), json!(error["kind"] == "deadline")),
            _ => (json!(null), json!(null)),
        };
        assert_eq!((error["kind"].clone(), error["retryable"].clone()), expected, "{answer}");
        assert_eq!(answer["ok"], json!(error.is_null()));
    }
    assert!(answers[1]["error"].to_string().contains("oh dear"), "{}", answers[1]);
    assert_eq!(failed.lines().len(), 8, "every record must be answered");
    run_records(&world, &failing, &lines(&records[..1])).exits(0);
}

#[test]
fn crashed_worker_is_replaced() {
    let world = World::new();
    let run = "while read -r line; do case \"$line\" in *'\"to_turn\":1'*) exit 3 ;; *'\"type\":\"compact\"'*) echo \"$line\" | "
        .to_owned()
        + DECLINE
        + " ;; esac; done";
    let script = crate::support::plugin_script("worker", &json!({ "features": ["worker"] }), &run)
        .replace("run)", "run|worker)");
    world.write_script("plugins/worker", &script);
    let arguments = [
        "batch",
        "--ndjson",
        "--strategy",
        "worker",
        "--trust-dir",
        "plugins",
        "--sandbox=contained",
        "--keep-last=0",
    ];
    let records: Vec<Value> =
        (0..40).map(|number| record(&json!(number), if number % 10 == 5 { 2 } else { 1 })).collect();
    let answers = run_records(&world, &arguments, &lines(&records)).exits(0).lines();
    assert_eq!(answers.len(), 40);
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer["id"], json!(number));
        assert_eq!(answer["ok"], json!(number % 10 != 5), "{answer}");
        let code = if number % 10 == 5 { json!("strategy_crashed") } else { json!(null) };
        assert_eq!(answer["error"]["kind"], code);
    }
}

#[test]
fn help_lists_all_kinds_of_errors() {
    let world = World::new();
    let output = world.run(&["batch", "--help"]).exits(0);
    let schema = catalog::get("batch-answer").unwrap().json();
    let codes = schema["$defs"]["ErrorKind"]["oneOf"].as_array().unwrap();
    assert!(codes.len() > 10);
    // An interrupted record is not answered, and `some_failed` is for a whole run.
    let others = ["some_failed", "interrupted"];
    for code in codes.iter().filter(|code| !others.contains(&code["const"].as_str().unwrap())) {
        assert!(output.text().contains(code["const"].as_str().unwrap()), "{code}");
    }
}

#[test]
fn configuration_error_is_reported_before_reading_records() {
    let world = World::new();
    let output = run_records(&world, &["batch", "--ndjson", "--strategy", "unknown"], b"{}\n").exits(10);
    assert_eq!(output.text(), "");
    run_records(&world, &["batch", "--ndjson", "--profile", "unknown"], b"{}\n").exits(2);
}
