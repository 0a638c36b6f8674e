//! Kimi CLI's sessions: messages of `OpenAI`'s chat between lines of the program.

use jp_compact_transcripts::{self as transcripts, Format};

use crate::check_format;
use crate::event_text::{events, sample, stripped, summarized};

#[test]
fn all_samples_round_trip() {
    check_format(Format::KimiCli, "kimi-cli");
}

#[test]
fn messages_are_events() {
    let expected = "\
0 asks Why does the tap drip? “ö”
0 thinks Look at the log first.
0 says I look.
0 calls ReadFile {\"path\":\"tap.log\"}
0 calls Shell {\"command\":\"ls -l\"}
0 answers <system>Command executed successfully.</system>/dr
0 answers <system>ERROR: ls: no such file</system>
0 says The washer is worn.
1 asks What is in the picture?/[image]
1 says A washer.";
    assert_eq!(events(&sample(Format::KimiCli, "kimi-cli.jsonl")), expected);
}

#[test]
fn lines_of_the_program_stay() {
    let stream = sample(Format::KimiCli, "kimi-cli.jsonl");
    let text = stripped(&stream);
    assert!(
        text.contains(r#"{"role":"tool","content":"[compacted] ReadFile: success","tool_call_id":"call_1"}"#)
    );
    let text = summarized(&stream, 0, 0);
    assert!(text.starts_with(r#"{"role":"_system_prompt","content":"You are a gardener."}"#), "{text}");
    assert_eq!(text.matches("_checkpoint").count(), 5);
    let reread = transcripts::read(Format::KimiCli, text.into_bytes().into()).unwrap();
    assert!(
        events(&reread)
            .starts_with("0 asks [Summary of previous conversation]\n0 says In short.\n1 asks What")
    );
}
