//! Qwen Code's sessions: the tree, a compression, and copies of results.

use jp_compact_transcripts::{self as transcripts, Format};

use crate::check_format;
use crate::event_text::{events, new_lines, sample, stripped, summarized, without_calls};

#[test]
fn all_samples_round_trip() {
    check_format(Format::QwenCode, "qwen-code");
}

#[test]
fn messages_on_the_path_are_events() {
    let expected = "\
0 asks Why does the tap drip? “ö”
0 thinks Look at the log first.
0 says I look.
0 calls read_file {\"path\":\"tap.log\"}
0 calls run_shell_command {\"command\":\"ls -l\",\"description\"
0 answers drip ö/drip
0 fails ls: no such file
0 says The washer is worn.
1 asks What is in the picture?/[image]
1 says A washer.";
    assert_eq!(events(&sample(Format::QwenCode, "qwen-code.jsonl")), expected);
}

#[test]
fn compression_replaces_older_messages() {
    let expected = "\
0 asks <state_snapshot>The washer of the tap is worn.</st
0 says Got it. Thanks for the context.
1 asks And the rose?
1 calls cut {\"what\":\"rose\"}
1 answers cut the rose
1 says Roses bloom.";
    assert_eq!(events(&sample(Format::QwenCode, "qwen-code-compressed.jsonl")), expected);
}

#[test]
fn result_is_stripped_with_its_displayed_form() {
    let stream = sample(Format::QwenCode, "qwen-code.jsonl");
    let changed = new_lines(&stripped(&stream), &stream);
    assert_eq!(changed.len(), 3, "{changed:#?}");
    assert!(
        changed[1].contains(r#""response":{"output":"[compacted] read_file: success"}"#),
        "{}",
        changed[1]
    );
    assert!(changed[1].contains(r#""resultDisplay":"[compacted] read_file: success""#), "{}", changed[1]);
    assert!(changed[2].contains(r#""response":{"error":"[compacted] run_shell_command: error"}"#));
}

#[test]
fn lines_after_deleted_ones_are_linked_again() {
    let stream = sample(Format::QwenCode, "qwen-code.jsonl");
    let text = without_calls(&stream);
    assert!(!text.contains("functionResponse"));
    let reread = transcripts::read(Format::QwenCode, text.into_bytes().into()).unwrap();
    assert!(
        events(&reread).ends_with(
            "0 says The washer is worn.\n1 asks What is in the picture?/[image]\n1 says A washer."
        )
    );
    let text = summarized(&stream, 0, 0);
    let reread = transcripts::read(Format::QwenCode, text.into_bytes().into()).unwrap();
    let expected = "0 asks [Summary of previous conversation]\n0 says In short.\n1 asks What is in the picture?/[image]\n1 says A washer.";
    assert_eq!(events(&reread), expected);
}

#[test]
fn summary_covers_a_compression_and_lines_after_it() {
    let stream = sample(Format::QwenCode, "qwen-code-compressed.jsonl");
    let text = summarized(&stream, 0, 1);
    let reread = transcripts::read(Format::QwenCode, text.into_bytes().into()).unwrap();
    assert_eq!(events(&reread), "0 asks [Summary of previous conversation]\n0 says In short.");
    let text = summarized(&stream, 0, 0);
    let reread = transcripts::read(Format::QwenCode, text.into_bytes().into()).unwrap();
    assert!(events(&reread).starts_with(
        "0 asks [Summary of previous conversation]\n0 says In short.\n1 asks And the rose?\n1 calls cut"
    ));
}

#[test]
fn missing_parent_is_reported() {
    let stream = sample(Format::QwenCode, "qwen-code.jsonl");
    let text = String::from_utf8(stream.bytes().to_vec()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains(r#""type":"tool_result""#)).collect();
    let reread = transcripts::read(Format::QwenCode, lines.join("\n").into_bytes().into()).unwrap();
    assert!(
        reread.warnings()[0].contains("not read because a record that links them"),
        "{:?}",
        reread.warnings()
    );
}
