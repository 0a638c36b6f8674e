//! Gemini CLI's chats: the replay of the log, and edits of copies.

use jp_compact_core::event::Kind;
use jp_compact_transcripts::{self as transcripts, Format};

use crate::check_format;
use crate::event_text::{
    events, metadata, new_lines, sample, stripped, summarized, without_all, without_calls, without_reasoning,
};

#[test]
fn all_samples_round_trip() {
    check_format(Format::GeminiCli, "gemini-cli");
}

#[test]
fn log_is_replayed() {
    let expected = "\
0 asks <session_context>/Today is Monday./</session_conte
1 asks Why does the tap drip? The log says “ö”.
1 thinks **Log** Look at it first.
1 calls read_file {\"path\":\"tap.log\"}
1 calls run_shell_command {\"command\":\"ls -l\"}
1 answers 1\tdrip ö
1 fails ls: no such file
1 says The washer is worn.
2 asks Measure it.
2 thinks A washer.
2 says I measure.
2 calls measure {\"what\":\"the \\\"washer\\\"\"}
2 calls measure {\"what\":\"bolt\"}
2 answers 12 mm
3 asks And the rose?
3 thinks Cut it.
3 calls cut {\"what\":\"rose\"}
3 answers cut
3 says Roses bloom.
3 says [image]";
    let stream = sample(Format::GeminiCli, "gemini-cli.jsonl");
    assert_eq!(events(&stream), expected);
    assert_eq!(metadata(&stream), [r#"{"google_thought_signature":"c2ln"}"#]);
}

#[test]
fn legacy_chat_is_one_document_with_results_in_calls() {
    let expected = "\
0 asks Why does the tap drip? “ö”
0 thinks Log/Look at it.
0 thinks Then decide.
0 says I look.
0 calls read_file {\"path\":\"tap.log\"}
0 calls shell {\"command\":\"ls\"}
0 calls search {\"q\":\"tap\"}
0 answers drip ö
0 fails denied
1 asks Go on./[image]
1 calls note {\"text\":\"washer\"}
1 answers noted
1 says The washer is worn.";
    assert_eq!(events(&sample(Format::GeminiCli, "gemini-cli-legacy.json")), expected);
}

#[test]
fn log_prefix_is_the_earlier_chat() {
    let whole = String::from_utf8(sample(Format::GeminiCli, "gemini-cli.jsonl").bytes().to_vec()).unwrap();
    let read = |lines: usize| {
        let text: String = whole.split_inclusive('\n').take(lines).collect();
        events(&transcripts::read(Format::GeminiCli, text.into_bytes().into()).unwrap())
    };
    assert!(read(3).ends_with("1 asks Long before."));
    assert!(read(4).ends_with("0 asks <session_context>/Today is Sunday./</session_conte"));
    assert!(read(7).ends_with("1 thinks Log/Look at it first."));
    assert!(read(13).ends_with("2 asks This was taken back.\n2 says Never said."));
    assert!(read(14).ends_with("1 fails ls: no such file\n1 says The washer is worn."));
}

#[test]
fn resumed_chat_has_the_same_events() {
    let after = sample(Format::GeminiCli, "gemini-cli.jsonl");
    let lines = after.bytes().split_inclusive(|byte| *byte == b'\n').take(11).collect::<Vec<_>>().concat();
    let before = transcripts::read(Format::GeminiCli, lines.into()).unwrap();
    let raw = |stream: &jp_compact_transcripts::Transcript| {
        let events = stream.events().iter().filter(|event| event.turn == 1 && event.kind != Kind::Reasoning);
        events.map(|event| event.span.slice(stream.bytes()).to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(raw(&before).len(), 7);
    assert_eq!(raw(&before), raw(&after), "overlays still apply");
}

#[test]
fn call_is_stripped_in_all_copies() {
    let stream = sample(Format::GeminiCli, "gemini-cli.jsonl");
    let changed_lines = new_lines(&stripped(&stream), &stream);
    assert_eq!(changed_lines.len(), 4, "{changed_lines:#?}");
    for removed in ["drip ö", "no such file", "ls -l", "tap.log"] {
        assert!(!changed_lines[0].contains(&format!("{removed}\"")), "{removed}");
    }
    let response =
        r#"{"id":"read_1","name":"read_file","response":{"output":"[compacted] read_file: success"}}"#;
    assert_eq!(
        changed_lines[0].matches(response).count(),
        3,
        "in the call's result, in `g1_response`, and in its copy `r1`"
    );
    let display = r#""resultDisplay":"[compacted] read_file: success","description":"""#;
    assert!(changed_lines[0].contains(display));
    let legacy = stripped(&sample(Format::GeminiCli, "gemini-cli-legacy.json"));
    assert!(legacy.contains(r#""response": {"error":"[compacted] shell: error"} } }"#));
    assert!(legacy.contains(r#""result": "[compacted] note: success""#));
}

#[test]
fn call_is_deleted_in_all_copies() {
    let stream = sample(Format::GeminiCli, "gemini-cli.jsonl");
    let changed_lines = new_lines(&without_calls(&stream), &stream);
    assert!(!changed_lines.concat().contains("function"), "{changed_lines:#?}");
    assert!(
        !changed_lines.concat().contains("g1_response") && !changed_lines.concat().contains(r#""id":"r1""#)
    );
    // A message without other content is deleted, so only one list of calls is empty.
    assert_eq!(changed_lines.concat().matches(r#""toolCalls":[]"#).count(), 1);
}

#[test]
fn earlier_versions_of_a_message_are_deleted_with_it() {
    let stream = sample(Format::GeminiCli, "gemini-cli.jsonl");
    let text = without_all(&stream);
    assert!(!text.contains(r#""id":"g6""#) && !text.contains(r#""id":"r6""#));
    assert!(text.contains(r#"{"$rewindTo":"u0"}"#) && text.contains("a line of a later version"));
}

#[test]
fn reasoning_is_deleted_with_its_copy_and_signature() {
    let stream = sample(Format::GeminiCli, "gemini-cli.jsonl");
    let changed_lines = new_lines(&without_reasoning(&stream), &stream);
    assert!(
        !changed_lines.concat().contains("Look at it first.")
            && !changed_lines.concat().contains("thoughtSignature")
    );
}

#[test]
fn summary_covers_messages_in_a_list_and_after_it() {
    let stream = sample(Format::GeminiCli, "gemini-cli.jsonl");
    let text = summarized(&stream, 1, 3);
    assert_eq!(text.matches("In short.").count(), 1);
    let reread = transcripts::read(Format::GeminiCli, text.into_bytes().into()).unwrap();
    assert_eq!(
        events(&reread),
        "0 asks <session_context>/Today is Monday./</session_conte\n\
         1 asks [Summary of previous conversation]\n1 says In short."
    );
    // A message that was rewritten after another message keeps its place.
    let text = summarized(&stream, 2, 2);
    let reread = transcripts::read(Format::GeminiCli, text.into_bytes().into()).unwrap();
    assert!(events(&reread).contains("2 says In short.\n3 asks And the rose?"));
}

#[test]
fn invalid_chat_is_refused_with_its_offset() {
    for (text, at, what) in [
        ("[1]", 0, "the document is not an object"),
        ("{\"sessionId\":\"s\"}\n3\n", 18, "line 2: not a transcript of Gemini CLI: a line is not an object"),
    ] {
        let error = transcripts::read(Format::GeminiCli, text.as_bytes().to_vec().into()).unwrap_err();
        assert!(error.offset == at && error.reason.contains(what), "{error}");
    }
}
