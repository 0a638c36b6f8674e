//! `OpenCode`'s exports: steps, links between messages, and its own compactions.

use jp_compact_transcripts::Transcript;
use std::collections::HashSet;

use jp_compact_core::projection::project_with_overlays;
use jp_compact_transcripts::{self as transcripts, Format};
use serde_json::Value;

use crate::event_list::{
    assistant, events, sample, source, stripped, summarized, without_calls, without_reasoning,
};

#[test]
fn part_is_call_and_result_and_results_follow_their_step() {
    let actual = events(&sample(Format::Opencode, "opencode.json"));
    let expected = [
        "0 user: Why does the tap drip? “öffnen” 🚰\nCalled the Read tool: drip\n[image]",
        "0 thought: Look at the log.",
        "0 thought: ",
        "0 assistant: I look.",
        // Both calls precede the first result.
        r#"0 call call_1: bash {"command":"cat tap.log","description":"the log"}"#,
        r#"0 call call_2: edit {"filePath":"/home/ada/tap.txt","oldString":"a","newString":"b"}"#,
        "0 answer call_1: drip\ndrip\n",
        "0 error call_2: oldString not found",
        r#"0 call call_1: read {"filePath":"/home/ada/tap.png"}"#,
        "0 answer call_1: Image read",
        "0 assistant: The washer is worn.",
        "1 user: Look it up\nThe following tool was executed by the user",
        r#"1 call call_3: webfetch {"url":"https://example.org"}"#,
        r#"1 call call_4: bash {"command":"sleep 99"}"#,
        r#"1 call call_5: bash {"command":"sleep 100"}"#,
        r#"1 call call_6: grep {"pattern":"x"}"#,
        "1 answer call_3: [Old tool result content cleared]",
        "1 error call_4: so far\n",
        "2 user: And the rose?",
        "2 thought: A rose",
        "2 assistant: Water it.",
        "3 user: And the hedge?",
        "3 assistant: Cut it.",
    ];
    assert_eq!(actual, expected);
}

#[test]
fn model_is_that_of_the_last_answer() {
    let actual = assistant(&sample(Format::Opencode, "opencode.json"));
    assert_eq!(actual.to_string(), r#"{"model":{"id":{"provider":"anthropic","name":"claude"}}}"#);
}

#[test]
fn provider_data_is_kept_under_jps_names() {
    let stream = sample(Format::Opencode, "opencode.json");
    let view = project_with_overlays(&stream, &[]);
    let kept: Vec<String> =
        view.events(&stream).filter_map(|event| Some(event.event.get("metadata")?.to_string())).collect();
    let expected = [
        r#"{"anthropic_thinking_signature":"c2ln"}"#,
        r#"{"anthropic_redacted_thinking":"cmVk"}"#,
        r#"{"google_thought_signature":"dGg="}"#,
        r#"{"openai_item_id":"rs_1","openai_encrypted_content":"ZW5j"}"#,
    ];
    assert_eq!(kept, expected);
    let without = without_reasoning(&stream);
    for removed in ["Look at the log", "c2ln", "cmVk", "A rose", "ZW5j"] {
        assert!(!without.contains(removed), "{removed} is still there");
    }
    assert!(without.contains("dGg="), "the signature of a call stays with the call");
}

fn part(text: &str, id: &str) -> Option<Value> {
    let document: Value = serde_json::from_str(text).unwrap();
    let parts = document["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|message| message["parts"].as_array().unwrap());
    parts.clone().find(|part| part["id"] == id).cloned()
}

#[track_caller]
fn state(text: &str, id: &str, expected: &str) {
    assert_eq!(part(text, id).unwrap()["state"].to_string(), expected);
}

#[test]
fn strip_applies_to_both_copies_in_a_part() {
    let stripped = stripped(&sample(Format::Opencode, "opencode.json"));
    state(
        &stripped,
        "prt_012",
        r#"{"status":"error","input":{},"error":"[compacted] edit: error","time":{"start":1767225600015,"end":1767225600016}}"#,
    );
    // Links to other sessions stay.
    state(
        &stripped,
        "prt_016",
        r#"{"status":"completed","input":{},"output":"[compacted] read: success","title":"","metadata":{"preview":"","loaded":[],"filediff":{},"sessionId":"ses_child"},"time":{"start":1767225600021,"end":1767225600022},"attachments":[]}"#,
    );
    // OpenCode sends the output of a call only if OpenCode has not cleared it.
    state(
        &stripped,
        "prt_024",
        r#"{"status":"completed","input":{},"output":"[compacted] webfetch: success","title":"","metadata":{},"time":{"start":1767225600101,"end":1767225600102,"compacted":0}}"#,
    );
    // A stopped call is sent with its partial output.
    state(
        &stripped,
        "prt_025",
        r#"{"status":"error","input":{},"error":"Tool execution aborted","time":{"start":1767225600102,"end":1767225600103},"metadata":{"interrupted":true,"output":"[compacted] bash: error"}}"#,
    );
    state(&stripped, "prt_027", r#"{"status":"pending","input":{},"raw":""}"#);
}

/// Returns the ids of the messages in order, and checks all links between messages and parts.
#[track_caller]
fn messages(text: &str) -> Vec<String> {
    let document: Value = serde_json::from_str(text).unwrap();
    let messages = document["messages"].as_array().unwrap();
    let ids: Vec<String> =
        messages.iter().map(|message| message["info"]["id"].as_str().unwrap().into()).collect();
    let mut parts = HashSet::new();
    for message in messages {
        let (info, id) = (&message["info"], &message["info"]["id"]);
        if let Some(parent) = info["parentID"].as_str() {
            assert!(ids.iter().any(|id| id == parent), "{id} follows {parent}, which was deleted");
        }
        for part in message["parts"].as_array().unwrap() {
            assert_eq!((&part["messageID"], &part["sessionID"]), (id, &info["sessionID"]));
            assert!(parts.insert(part["id"].as_str().unwrap()), "{} occurs twice", part["id"]);
        }
    }
    assert!(ids.is_sorted_by(|left, right| left < right), "{ids:?}");
    ids
}

#[test]
fn every_message_keeps_a_link_to_its_request() {
    let stream = sample(Format::Opencode, "opencode.json");
    let [first, second] = ["msg_010", "msg_020"].map(String::from);
    let rest = ["msg_030", "msg_031", "msg_032", "msg_033"];
    // A failed message is deleted with its request, and so is a message that is empty without its calls.
    let summarized_first = messages(&summarized(&stream, 0, 0));
    assert_eq!(summarized_first[..4], [&first, "msg_0101", &second, "msg_021"]);
    assert_eq!(messages(&summarized(&stream, 0, 1)), [&[&*first, "msg_0101"][..], &rest[..]].concat());
    let third = ["msg_030", "msg_0301", "msg_031", "msg_033"];
    assert_eq!(messages(&summarized(&stream, 2, 2))[7..], third);
    let fourth = ["msg_030", "msg_031", "msg_0311", "msg_032"];
    assert_eq!(messages(&summarized(&stream, 3, 3))[7..], fourth);
    let bare = messages(&without_calls(&stream));
    assert_eq!(
        bare[4..],
        [&[&*second, "msg_022"][..], &rest[..]].concat(),
        "a message of calls alone is deleted"
    );
}

#[test]
fn summary_pair_copies_members_of_its_neighbors() {
    let stream = sample(Format::Opencode, "opencode.json");
    let document: Value = serde_json::from_str(&summarized(&stream, 0, 0)).unwrap();
    let (request, response) = (&document["messages"][0], &document["messages"][1]);
    assert_eq!(
        request["info"].to_string(),
        r#"{"id":"msg_010","sessionID":"ses_01","role":"user","time":{"created":1767225600000},"agent":"build","model":{"providerID":"anthropic","modelID":"claude"}}"#
    );
    assert_eq!(
        response["info"].to_string(),
        r#"{"id":"msg_0101","sessionID":"ses_01","role":"assistant","parentID":"msg_010","time":{"created":1767225600000,"completed":1767225600000},"modelID":"claude","providerID":"anthropic","mode":"build","agent":"build","path":{"cwd":"/home/ada/garden","root":"/home/ada"},"cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"finish":"stop"}"#
    );
    assert_eq!(response["parts"].as_array().unwrap().len(), 1);
    assert_eq!(response["parts"][0]["text"], "Short.");
}

#[test]
fn neither_compacted_nor_reverted_messages_are_sent() {
    let stream = sample(Format::Opencode, "opencode-compacted.json");
    let expected = [
        "0 user: Plant a rose",
        r#"0 call call_1: dig {"depth":2}"#,
        "0 answer call_1: dug",
        "0 assistant: Planted.",
        "1 user: What did we do so far?",
        "1 assistant: ## Goal\nA garden.",
        "2 user: Continue if you have next steps",
        "2 call call_2: water {}",
        "2 assistant: Watered.",
        "2 answer call_2: wet",
    ];
    assert_eq!(events(&stream), expected);
    // A reverted part limits its message.
    let actual = events(&sample(Format::Opencode, "opencode-taken-back.json"));
    assert_eq!(actual[4..], ["1 user: Now cut it", "1 assistant: Cutting."]);
}

#[test]
fn summary_of_a_compaction_does_not_restore_messages() {
    let stream = sample(Format::Opencode, "opencode-compacted.json");
    let read = |text: &str| -> Transcript {
        transcripts::read(Format::Opencode, text.as_bytes().to_vec().into()).unwrap()
    };
    let older = ["msg_040", "msg_041"];
    for (from, to) in [(1, 1), (0, 1), (0, 2), (1, 2)] {
        let text = summarized(&stream, from, to);
        assert_eq!(messages(&text)[..2], older, "they stay, but are not sent");
        let actual = events(&read(&text));
        assert!(!actual[0].contains("Long ago"), "{actual:?}");
        assert!(actual.contains(&format!("{from} user: [Summary of previous conversation]")), "{actual:?}");
        assert!(text.contains(r#""type":"compaction","auto":true,"tail_start_id":"msg_050""#), "{text}");
        assert!(text.contains(r#""finish":"stop","summary":true"#), "{text}");
    }
    // An unfinished compaction has no effect, and neither does a summary of it.
    let unfinished = source(&stream).replace(r#""summary": true, "#, "").replace(r#""summary":true,"#, "");
    let unfinished = read(&unfinished);
    assert_eq!(events(&unfinished)[0], "0 user: Long ago");
    let summarized = summarized(&unfinished, 2, 2);
    assert_eq!(events(&read(&summarized))[0], "0 user: Long ago");
}

#[track_caller]
fn refused(bytes: &str, expected: &str) {
    let error = transcripts::read(Format::Opencode, bytes.as_bytes().to_vec().into()).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn invalid_export_is_refused_with_its_offset() {
    refused(r#"{"info":{}}"#, "byte 0: not a transcript of OpenCode: it has no `messages` array");
    refused(r#"{"messages":7}"#, "byte 12: not a transcript of OpenCode: it has no `messages` array");
    let what = "not a transcript of OpenCode: a message has no `info` or `parts`";
    refused(r#"{"messages":[{"info":{}}]}"#, &format!("byte 13: {what}"));
    refused(r#"[{"info":{},"parts":7}]"#, &format!("byte 1: {what}"));
}

#[test]
fn unusual_parts_are_skipped() {
    let document = r#"{"info":{"revert":7},"messages":[
        {"parts":[{"type":"text","text":7},7,{}],"info":{"role":"user"}},
        {"parts":[{"type":"text","text":"bare"}],"info":{"role":"user"}},
        {"info":{"role":"assistant","parentID":"nobody"},"parts":[
            {"type":"tool"},{"type":"tool","state":{"status":"completed","input":7,"output":7}},{"type":"reasoning"}]}
    ]}"#;
    let stream = transcripts::read(Format::Opencode, document.as_bytes().to_vec().into()).unwrap();
    assert_eq!(
        events(&stream),
        ["0 user: bare", r#"0 call call_1: unknown {"input":7}"#, "0 answer call_1: 7"]
    );
    assert!(stripped(&stream).contains(r#""input":7,"output":"[compacted] unknown: success""#));
    check_without_ids(&summarized(&stream, 0, 0));
}

/// Checks a sample whose messages have no ids.
#[track_caller]
fn check_without_ids(text: &str) {
    let document: Value = serde_json::from_str(text).unwrap();
    assert_eq!(document["messages"].as_array().unwrap().len(), 3, "{text}");
}

#[test]
fn message_without_parts_is_skipped() {
    let stream = sample(Format::Opencode, "opencode-partless.json");
    let expected =
        [2, 7].map(|number| format!("message {number} has no `info` or no `parts` and was skipped"));
    assert_eq!(stream.warnings(), expected);
    assert_eq!(events(&stream).len(), 8);
}

#[test]
fn reverted_messages_stay_reverted_after_a_summary() {
    let stream = sample(Format::Opencode, "opencode-taken-back-part.json");
    assert_eq!(
        events(&stream)[2..],
        ["1 user: Water it", "1 call call_1: water {\"what\":\"rose\"}", "1 answer call_1: wet"]
    );
    let summarized = summarized(&stream, 0, 1);
    let reread = transcripts::read(Format::Opencode, summarized.into_bytes().into()).unwrap();
    assert_eq!(events(&reread), ["0 user: [Summary of previous conversation]", "0 assistant: Short."]);
}
