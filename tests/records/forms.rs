//! Forms of a transcript in a record, and the bytes that are returned for each.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Conversation, World};
use crate::{STRIP, lines, raw_member, record, run_records};

#[test]
fn jp_array_is_returned_with_its_overlays_appended() {
    let world = World::new();
    let events = Conversation::with_turns(2).elements().to_vec();
    // Unusual white space must be kept.
    let input_json = serde_json::to_string(&events).unwrap().replace("\"type\":", "\"type\" :  ");
    let line = format!("{{\"id\":  1, \"transcript\": {input_json} }}\n");
    let output = run_records(&world, &STRIP, line.as_bytes()).exits(0);
    assert_eq!(output.text().lines().count(), 1);
    let transcript_text = raw_member(output.text(), "transcript");
    let appended = transcript_text.strip_prefix(input_json.strip_suffix(']').unwrap()).unwrap();
    assert!(appended.starts_with(",{") && appended.ends_with("}]"), "{appended}");
    let answer = output.line();
    let transcript = answer["transcript"].as_array().unwrap();
    assert_eq!(transcript.len(), events.len() + 3, "expected a shared overlay and two receipts");
    assert_eq!((&answer["id"], &answer["ok"], &answer["format"]), (&json!(1), &json!(true), &json!("jp")));
    assert_eq!(answer["new_overlays"], 1);
    let tokens = &answer["tokens"];
    assert!(tokens["view_after"].as_u64() < tokens["view_before"].as_u64(), "{tokens}");
}

#[test]
fn text_is_returned_as_the_file_that_compacting_writes() {
    let world = World::new();
    let transcript = world.write_conversation("c", &Conversation::with_turns(2));
    let text = String::from_utf8(Conversation::with_turns(2).bytes()).unwrap();
    let records = lines(&[json!({ "id": "t", "transcript": text }), json!({ "id": "p", "path": "c" })]);
    let output = run_records(&world, &STRIP, &records).exits(0);
    assert_eq!(
        fs::read_to_string(&transcript.path).unwrap(),
        text,
        "a transcript given by path must not change"
    );
    let arguments = [&["c"], &STRIP[2..]].concat();
    world.run(&arguments).exits(0);
    let written = fs::read_to_string(&transcript.path).unwrap();
    let answers = output.lines();
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert_eq!(answer["transcript"].as_str(), Some(&*written), "{}", answer["id"]);
    }
}

#[test]
fn unchanged_transcript_is_returned_byte_for_byte() {
    let world = World::new();
    let input_json = r#"[ {"timestamp":"2026-03-18 11:58:01.0", "type":"turn_start"}, {"type":"later", "timestamp":"2026-03-18 11:58:02.0", "x":1.50e0} ]"#;
    let output =
        run_records(&world, &STRIP, format!("{{\"id\":null,\"transcript\":{input_json}}}\n").as_bytes())
            .exits(0);
    assert_eq!(raw_member(output.text(), "transcript"), input_json);
    assert_eq!(output.line()["new_overlays"], 0);
    assert!(output.line()["nothing"].is_string() && output.line()["declines"].is_null());
}

#[test]
fn dry_run_returns_only_the_saving() {
    let world = World::new();
    let output =
        run_records(&world, &[&STRIP[..], &["--dry-run"]].concat(), &lines(&[record(&json!(1), 2)])).exits(0);
    let answer = output.line();
    assert_eq!(answer["new_overlays"], 1);
    assert!(answer.get("transcript").is_none() && answer.get("view").is_none(), "{answer}");
}

/// Returns the name and the text of each sample transcript of other agents.
fn samples() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("host/transcripts/tests/formats/samples");
    let mut samples: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    samples.sort();
    assert!(samples.len() >= 3);
    samples
}

/// Parses a text as JSON, or as an array with one value per line. Ignores a byte order mark.
fn parse_values(text: &str) -> Value {
    let text = text.trim_start_matches('\u{feff}');
    let parse_lines = || text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    serde_json::from_str(text).unwrap_or_else(|_| parse_lines())
}

#[test]
fn foreign_transcripts_are_returned_with_their_sidecar_overlays() {
    let world = World::new();
    for (name, text) in samples() {
        let path = world.write_file(&name, text.as_bytes());
        let records = [json!({ "id": 0, "transcript": text }), json!({ "id": 1, "path": name })];
        let array = parse_values(&text).to_string();
        let mut input = lines(&records);
        input.extend(format!("{{\"id\":2,\"transcript\":{array}}}\n").into_bytes());
        let output = run_records(&world, &STRIP, &input).exits(0);
        let sidecar = world.path(&format!(".{name}.jp-compact"));
        assert!(!sidecar.exists(), "a batch of records must not write files");
        let arguments = [&[&*name], &STRIP[2..]].concat();
        world.run(&arguments).exits(0);
        let expected: Value = match fs::read(&sidecar) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap(),
            Err(_) => json!({ "overlays": [] }),
        };
        let answers = output.lines();
        assert_eq!(answers.len(), 3);
        for answer in &answers[..2] {
            assert_eq!(answer["transcript"].as_str(), Some(&*text), "{name}");
            assert_eq!(answer["overlays"], expected["overlays"], "{name}");
        }
        assert_eq!(raw_member(output.text().lines().nth(2).unwrap(), "transcript"), array, "{name}");
        assert_eq!(answers[2]["format"], answers[0]["format"], "{name}");
        assert_eq!(fs::read_to_string(path).unwrap(), text);
    }
}

#[test]
fn skipped_parts_of_a_transcript_are_warnings_in_the_answer() {
    let world = World::new();
    let (_, text) = samples().into_iter().find(|(name, _)| name == "claude-code.jsonl").unwrap();
    let truncated = &text[..text.len() - 20];
    let output = run_records(
        &world,
        &STRIP,
        &lines(&[json!({ "transcript": truncated }), json!({ "transcript": text })]),
    );
    let answers = output.exits(0).lines();
    assert_eq!(answers[0]["warnings"].as_array().map(Vec::len), Some(1), "{}", answers[0]);
    assert!(answers[0]["warnings"][0].as_str().unwrap().contains("is cut off"));
    assert!(answers[1].get("warnings").is_none());
}

#[test]
fn view_equals_the_output_of_print_in_the_form_of_the_record() {
    let world = World::new();
    let mut transcripts = samples();
    transcripts.push(("events.json".into(), String::from_utf8(Conversation::with_turns(3).bytes()).unwrap()));
    let view = [&STRIP[..], &["--view"]].concat();
    let mut changed = 0;
    for (name, text) in transcripts {
        world.write_file(&name, text.as_bytes());
        let records = [
            json!({ "id": "text", "transcript": text }),
            json!({ "id": "path", "path": name }),
            json!({ "id": "value", "transcript": parse_values(&text) }),
        ];
        let output = run_records(&world, &view, &lines(&records)).exits(0);
        world.run(&[&[&*name], &STRIP[2..]].concat()).exits(0);
        let printed = world.run(&["print", &name, "--compacted", "--as", "source"]).exits(0);
        changed += usize::from(printed.text() != text);
        let answers = output.lines();
        for answer in &answers[..2] {
            assert_eq!(answer["view"].as_str(), Some(printed.text()), "{name}, {}", answer["id"]);
        }
        assert_eq!(answers[2]["view"], parse_values(printed.text()), "{name}");
        assert!(answers.iter().all(|answer| answer.get("overlays").is_none()));
    }
    assert!(changed >= 3, "some views must differ from their sources");
}
