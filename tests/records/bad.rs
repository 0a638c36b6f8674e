//! Lines that are no records, and records that cost a strategy its life: each is answered, and costs no other.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use jp_compact_schema::catalog;
use serde_json::{Value, json};

use crate::support::World;
use crate::{STRIP, answered, ask, lines, record};

/// Answers whatever it is asked.
const DECLINE: &str =
    r#"sed -n 's/^{"type":"compact","id":"\([^"]*\)".*/{"type":"decline","id":"\1","reason":"not today"}/p'"#;

/// What a line is answered with, in the midst of two good ones.
#[track_caller]
fn check(line: &[u8], id: &Value, code: &str, says: &str) {
    let world = World::new();
    let good = lines(&[record(&json!("good"), 2)]);
    let ran = ask(&world, &STRIP, &[&good, line, b"\n", &good[..]].concat()).exits(0);
    let answers = ran.lines();
    assert_eq!(answers.len(), 3, "{}", ran.text());
    assert_eq!((&answers[0]["ok"], &answers[2]), (&json!(true), &answers[0]));
    let error = &answers[1]["error"];
    assert_eq!((&answers[1]["id"], error["code"].as_str()), (id, Some(code)), "{error}");
    assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    assert_eq!((&answers[1]["ok"], &error["retryable"]), (&json!(false), &json!(false)));
}

#[test]
fn what_is_no_json_is_answered_by_its_id_where_that_can_be_found() {
    check(br#"{"id":"a","transcript":[{"ty"#, &json!("a"), "bad_record", "EOF");
    check(br#"{"id":12"#, &json!(null), "bad_record", "EOF");
    check(b"not json", &json!(null), "bad_record", "no JSON object");
    check(br#"[1,{"id":2}]"#, &json!(null), "bad_record", "no JSON object");
    check(b"{\"id\":3,\"transcript\":\"\xff\"}", &json!(3), "bad_record", "UTF-8");
    check(b"{\"transcript\":\"\xff\",\"id\":[4]}", &json!([4]), "bad_record", "UTF-8");
    check(br#"{"id":5,"id":6,"path":"x"}"#, &json!(5), "bad_record", "duplicate");
}

#[test]
fn what_lacks_something_is_answered_by_its_id() {
    check(br#"{"id":1}"#, &json!(1), "bad_record", "neither");
    check(br#"{"transcript":[],"path":"x","id":1}"#, &json!(1), "bad_record", "one is meant");
    check(br#"{"transcript":3,"id":1}"#, &json!(1), "bad_record", "neither an array");
    check(br#"{"path":3,"id":1}"#, &json!(1), "bad_record", "`path` is no string");
    check(br#"{"path":"x","format":"wat","id":1}"#, &json!(1), "bad_record", "wat");
    check(br#"{"path":"nowhere","id":1}"#, &json!(1), "transcript_invalid", "no transcript");
    check(br#"{"transcript":{"a":1},"id":1}"#, &json!(1), "transcript_invalid", "no format");
    check(br#"{"transcript":"[{]","id":1}"#, &json!(1), "transcript_invalid", "the record's transcript");
    check(br#"{"transcript":"\ud800","id":1}"#, &json!(1), "bad_record", "no text");
}

#[test]
fn what_nests_too_deep_is_answered_wherever_its_id_stands() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let says = "deeper";
    check(format!(r#"{{"transcript":{deep},"id":1}}"#).as_bytes(), &json!(1), "transcript_invalid", says);
    check(format!(r#"{{"id":1,"transcript":{deep}}}"#).as_bytes(), &json!(1), "transcript_invalid", says);
}

#[test]
fn blank_lines_are_no_records_and_ids_may_be_the_same() {
    let world = World::new();
    let one = lines(&[record(&json!("same"), 2)]);
    let ran = ask(&world, &STRIP, &[b"\n \t\r\n", &one[..], b"\n", &one].concat()).exits(0);
    let answers = ran.lines();
    assert_eq!((answers.len(), &answers[0]["id"]), (2, &json!("same")));
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn an_input_that_ends_in_a_record_is_answered_for_what_is_there() {
    let world = World::new();
    let whole = record(&json!("last"), 2).to_string();
    let ran = ask(&world, &STRIP, whole.as_bytes()).exits(0);
    assert_eq!(ran.line()["ok"], true, "only the line's end is missing");
    let ran = ask(&world, &STRIP, &whole.as_bytes()[..whole.len() - 1]).exits(0);
    assert_eq!((&ran.line()["id"], &ran.line()["error"]["code"]), (&json!("last"), &json!("bad_record")));
    assert_eq!(ask(&world, &STRIP, b"").exits(4).text(), "");
}

#[test]
fn a_line_that_is_too_long_is_refused_by_its_id_and_not_kept() {
    let world = World::new();
    let mut child = world.spawn(world.command(&STRIP).stdin(Stdio::piped()));
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let writer = std::thread::spawn(move || {
        stdin.write_all(br#"{"id":"long","transcript":""#).unwrap();
        let much = vec![b'a'; 1 << 20];
        for _ in 0..129 {
            stdin.write_all(&much).unwrap();
        }
        stdin.write_all(b"\"}\n").unwrap();
        stdin.write_all(&lines(&[record(&json!("good"), 2)])).unwrap();
    });
    let mut answers = String::new();
    stdout.read_to_string(&mut answers).unwrap();
    writer.join().unwrap();
    answers.lines().for_each(|line| drop(answered(line)));
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&answers[0]["id"], &answers[0]["error"]["code"]),
        (&json!("long"), &json!("record_too_large"))
    );
    assert_eq!((&answers[1]["id"], &answers[1]["ok"]), (&json!("good"), &json!(true)));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_record_that_a_strategy_does_not_survive_costs_itself_alone() {
    let world = World::new();
    let fifo = world.path("never");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    // What it does follows from how many turns there are.
    let run = format!(
        "read -r line\ncase \"$line\" in\n*'\"to_turn\":1'*) echo oh dear >&2; exit 3 ;;\n*'\"to_turn\":2'*) exec cat '{}' \
         ;;\n*'\"to_turn\":3'*) echo what; exit 0 ;;\n*'\"to_turn\":4'*) exec yes ;;\n*) echo \"$line\" | {DECLINE} ;;\nesac",
        fifo.display()
    );
    world.plugin("fragile", &run);
    let arguments = [
        "batch",
        "--ndjson",
        "--strategy",
        "fragile",
        "--trust-dir",
        "plugins",
        "--sandbox=contained",
        "--keep-last=0",
        "--deadline=1s",
    ];
    let records: Vec<Value> =
        [1, 2, 1, 3, 1, 4, 5, 1].into_iter().map(|turns| record(&json!(turns), turns)).collect();
    let ran = ask(&world, &arguments, &lines(&records)).exits(0);
    let answers = ran.lines();
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2, 1, 3, 1, 4, 5, 1]);
    for answer in &answers {
        let error = &answer["error"];
        let expected = match answer["id"].as_u64() {
            Some(2) => (json!("strategy_crashed"), json!(true)),
            Some(3) => (json!("deadline"), json!(true)),
            Some(4) => (json!("protocol_violation"), json!(false)),
            // Whichever limit it meets first.
            Some(5) => (error["code"].clone(), json!(error["code"] == "deadline")),
            _ => (json!(null), json!(null)),
        };
        assert_eq!((error["code"].clone(), error["retryable"].clone()), expected, "{answer}");
        assert_eq!(answer["ok"], json!(error.is_null()));
    }
    assert!(answers[1]["error"]["message"].as_str().unwrap().contains("oh dear"), "{}", answers[1]);
    let ran = ask(&world, &[&arguments[..], &["--fail-on-error"]].concat(), &lines(&records)).exits(19);
    assert_eq!(ran.lines().len(), 8, "all are answered all the same");
    ask(&world, &[&arguments[..], &["--fail-on-error"]].concat(), &lines(&records[..1])).exits(0);
}

#[test]
fn a_worker_that_dies_of_a_record_has_a_successor() {
    let world = World::new();
    let run = "while read -r line; do case \"$line\" in *'\"to_turn\":1'*) exit 3 ;; *'\"type\":\"compact\"'*) echo \"$line\" | "
        .to_owned()
        + DECLINE
        + " ;; esac; done";
    let script = crate::support::described("worker", &json!({ "features": ["worker"] }), &run)
        .replace("run)", "run|worker)");
    world.script("plugins/worker", &script);
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
        (0..40).map(|place| record(&json!(place), if place % 10 == 5 { 2 } else { 1 })).collect();
    let answers = ask(&world, &arguments, &lines(&records)).exits(0).lines();
    assert_eq!(answers.len(), 40);
    for (place, answer) in answers.iter().enumerate() {
        assert_eq!(answer["id"], json!(place));
        assert_eq!(answer["ok"], json!(place % 10 != 5), "{answer}");
        let code = if place % 10 == 5 { json!("strategy_crashed") } else { json!(null) };
        assert_eq!(answer["error"]["code"], code);
    }
}

#[test]
fn the_help_names_the_codes() {
    let world = World::new();
    let ran = world.run(&["batch", "--help"]).exits(0);
    let schema = catalog::get("batch-answer").unwrap().json();
    let codes = schema["$defs"]["Code"]["oneOf"].as_array().unwrap();
    assert!(codes.len() > 10);
    for code in codes {
        assert!(ran.text().contains(code["const"].as_str().unwrap()), "{code}");
    }
}

#[test]
fn what_is_wrong_for_every_record_is_found_before_any_is_read() {
    let world = World::new();
    let ran = ask(&world, &["batch", "--ndjson", "--strategy", "nobody"], b"{}\n").exits(10);
    assert_eq!(ran.text(), "");
    ask(&world, &["batch", "--ndjson", "--profile", "nobody"], b"{}\n").exits(2);
}
