//! pi's sessions: paths, pi's own compactions, and signatures.

use jp_compact_transcripts::{self as transcripts, Format};

use crate::check_format;
use crate::event_text::{
    events, metadata, new_lines, sample, stripped, summarized, without_calls, without_reasoning,
};

#[test]
fn all_samples_round_trip() {
    check_format(Format::Pi, "pi");
}

#[test]
fn only_the_path_kept_by_the_last_compaction_is_read() {
    let expected = "\
0 asks The conversation before this is summarized://<summ
0 asks Why does the tap drip? The log says “ö”.
0 thinks Look at the log first.
0 says I look at the \"log\".
0 calls read {\"path\":\"/home/ada/garden/tap.log\"}
0 calls bash {\"command\":\"ls -l\"}
0 answers 1\tdrip ö
0 fails ls: no such file
0 says The washer is worn.
1 asks Look at this picture./[image]
1 thinks
1 calls measure {\"what\":\"the \\\"washer\\\"\"}
1 answers 12 mm/[image]/and a bit
1 says A washer of 12 mm.
1 asks Another branch, which was left is summarized://<su
1 asks It is Sunday.
1 asks Ran `git status`:/clean ö
2 asks Thanks! And the rose?
2 thinks Roses.
2 calls bash {\"command\":\"cut rose\"}
3 asks And the hedge?
3 thinks Hedges.
3 calls grep {\"pattern\":\"hedge\"}
3 calls grep {\"pattern\":\"may\"}
3 answers hedge.md
3 answers
3 says In May.
4 asks And the lawn?
4 says In April.";
    assert_eq!(events(&sample(Format::Pi, "pi.jsonl")), expected);
}

#[test]
fn first_version_names_the_kept_entry_by_number() {
    let expected = "\
0 asks The conversation before this is summarized://<summ
0 says So be it.
0 calls write {\"path\":\"bulb.md\",\"content\":\"3 ×\"}
0 answers Written.
1 asks And water it.
1 calls bash {\"command\":\"water\"}
1 calls bash {\"command\":\"more\"}
1 asks It rains.
2 asks Stop.
2 calls bash {\"command\":\"stop\"}
2 answers stopped
2 says It is dry.";
    let stream = sample(Format::Pi, "pi-v1.jsonl");
    assert_eq!(events(&stream), expected);
    let changed = new_lines(&summarized(&stream, 1, 1), &stream);
    assert!(
        changed.iter().all(|line| !line.contains("parentId") && !line.contains(r#""id""#)),
        "{changed:?}"
    );
}

#[test]
fn signature_is_named_after_its_api() {
    let expected = [
        r#"{"anthropic_thinking_signature":"c2lnbmF0dXJlLW9uZQ=="}"#,
        r#"{"anthropic_redacted_thinking":"cmVkYWN0ZWQ="}"#,
        r#"{"attachment":"custom"}"#,
        r#"{"attachment":"output"}"#,
        r#"{"openai_item_id":"rs_1","openai_encrypted_content":"ZW5j"}"#,
        r#"{"google_thought_signature":"aGVkZ2U="}"#,
        r#"{"google_thought_signature":"bWF5"}"#,
    ];
    assert_eq!(metadata(&sample(Format::Pi, "pi.jsonl")), expected);
}

#[test]
fn strip_applies_to_copies_but_not_to_extension_state() {
    let stream = sample(Format::Pi, "pi.jsonl");
    let changed = new_lines(&stripped(&stream), &stream);
    let has = |part: &str| changed.iter().any(|line| line.contains(part));
    assert!(has(
        r#""toolName":"read","content":[{"type":"text","text":"[compacted] read: success"}],"details":{},"#
    ));
    assert!(has(r#""name":"bash","arguments":{},"partialJson":""}"#));
    assert!(has(r#""text":"[compacted] measure: success"}],"details":{"todos":["washer"]},"#));
    assert!(has(r#""text":"[compacted] bash: error"}],"isError":true,"#));
}

#[test]
fn googles_signature_is_deleted_with_the_reasoning_before_it() {
    let stream = sample(Format::Pi, "pi.jsonl");
    let text = without_reasoning(&stream);
    assert!(
        text.contains(r#"{"type":"toolCall","id":"hedge_1","name":"grep","arguments":{"pattern":"hedge"}}"#)
    );
    assert!(!text.contains("thinkingSignature"));
    assert!(text.contains(r#""textSignature":"bWF5""#), "nothing was thought before it");
}

#[test]
fn model_is_that_of_the_last_answer() {
    for (name, model) in [("pi.jsonl", "gemini-3-pro"), ("pi-v1.jsonl", "claude-opus-4-1")] {
        let imported = jp_compact_transcripts::import::import(&sample(Format::Pi, name));
        assert!(String::from_utf8(imported.base_config).unwrap().contains(model), "{name}");
    }
}

#[test]
fn remaining_entries_are_linked() {
    let stream = sample(Format::Pi, "pi.jsonl");
    let changed = new_lines(&without_calls(&stream), &stream);
    assert!(changed[1].starts_with(r#"{"type":"message","id":"a0000009","parentId":"a0000006","#));
    let changed = new_lines(&summarized(&stream, 1, 1), &stream);
    let label = changed.iter().find(|line| line.contains(r#""type":"label""#)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&changed[0]).unwrap();
    assert!(label.contains(&format!(r#""targetId":{}"#, value["id"])), "{label} marks the pair");
    assert!(changed[0].contains(r#""parentId":"a000000a","timestamp":"2026-03-01T09:01:17.500Z""#));
}

#[test]
fn summary_does_not_restore_entries_that_pi_compacted() {
    for (name, last) in [("pi.jsonl", 4), ("pi-v1.jsonl", 2)] {
        let stream = sample(Format::Pi, name);
        let text = summarized(&stream, 0, last);
        let reread = transcripts::read(Format::Pi, text.clone().into_bytes().into()).unwrap();
        assert_eq!(
            events(&reread),
            "0 asks [Summary of previous conversation]\n0 says In short.",
            "{name}\n{text}"
        );
        assert!(text.contains(r#""type":"compaction""#));
        assert!(!text.contains("They dug.") && !text.contains("A bulb is to be planted."));
    }
}

#[test]
fn summary_without_later_entries_is_kept() {
    let text = [
        r#"{"type":"session","version":3,"id":"s","timestamp":"2026-03-01T09:00:00.000Z","cwd":"/w"}"#,
        r#"{"type":"message","id":"a","parentId":null,"timestamp":"2026-03-01T09:00:01.000Z","message":{"role":"user","content":"Dig."}}"#,
        r#"{"type":"message","id":"b","parentId":"a","timestamp":"2026-03-01T09:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"They dug."}]}}"#,
        r#"{"type":"compaction","id":"c","parentId":"b","timestamp":"2026-03-01T09:00:03.000Z","summary":"A hole.","firstKeptEntryId":"x","tokensBefore":9}"#,
    ];
    let stream = transcripts::read(Format::Pi, text.join("\n").into_bytes().into()).unwrap();
    assert_eq!(events(&stream), "0 asks The conversation before this is summarized://<summ");
}

#[test]
fn invalid_entry_is_refused_with_its_offset() {
    let text = b"{\"type\":\"session\"}\n[1]\n".to_vec();
    let error = transcripts::read(Format::Pi, text.into()).unwrap_err();
    assert!(
        error.offset == 19
            && error.reason.contains("line 2: not a transcript of pi: a line is not an object"),
        "{error}"
    );
}

#[test]
fn references_to_a_deleted_entry_name_the_next_entry() {
    let stream = sample(Format::Pi, "pi-branch.jsonl");
    let without = without_reasoning(&stream);
    for name in ["firstKeptEntryId", "fromId", "targetId"] {
        assert!(!without.contains(&format!("\"{name}\":\"b0000002\"")), "{without}");
    }
    assert_eq!(without.matches("\"targetId\":\"b0000003\"").count(), 2, "{without}");
}
