//! OpenCode's exports.

use std::collections::HashSet;

use jp_compact_core::Stream;
use jp_compact_core::formats::{self, Format};
use jp_compact_core::projection::project_through;
use serde_json::Value;

use crate::shown::{
    assistant, events, sample, source, stripped, summarised, without_calls, without_reasoning,
};

#[test]
fn a_part_is_a_call_and_its_answer_and_the_answers_of_a_step_come_last() {
    let found = events(&sample(Format::Opencode, "opencode.json"));
    let expected = [
        "0 user: Why does the tap drip? “öffnen” 🚰\nCalled the Read tool: drip\n[image]",
        "0 thought: Look at the log.",
        "0 thought: ",
        "0 assistant: I look.",
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
        // Both were asked before the first was answered.
        "2 user: And the rose?",
        "2 thought: A rose",
        "2 assistant: Water it.",
        "3 user: And the hedge?",
        "3 assistant: Cut it.",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_model_is_the_last_that_answered() {
    let found = assistant(&sample(Format::Opencode, "opencode.json"));
    assert_eq!(found.to_string(), r#"{"model":{"id":{"provider":"anthropic","name":"claude"}}}"#);
}

#[test]
fn what_providers_want_back_is_kept_under_our_names() {
    let stream = sample(Format::Opencode, "opencode.json");
    let view = project_through(&stream, &[]);
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
    for gone in ["Look at the log", "c2ln", "cmVk", "A rose", "ZW5j"] {
        assert!(!without.contains(gone), "{gone} is still there");
    }
    assert!(without.contains("dGg="), "the signature of a call goes with the call");
}

/// The part of a text that is called so.
fn part(text: &str, id: &str) -> Option<Value> {
    let all: Value = serde_json::from_str(text).unwrap();
    let parts = all["messages"].as_array().unwrap().iter().flat_map(|it| it["parts"].as_array().unwrap());
    parts.clone().find(|part| part["id"] == id).cloned()
}

#[track_caller]
fn state(text: &str, id: &str, expected: &str) {
    assert_eq!(part(text, id).unwrap()["state"].to_string(), expected);
}

#[test]
fn what_a_stripped_part_says_twice_it_loses_twice() {
    let stripped = stripped(&sample(Format::Opencode, "opencode.json"));
    state(
        &stripped,
        "prt_012",
        r#"{"status":"error","input":{},"error":"[compacted] edit: error","time":{"start":1767225600015,"end":1767225600016}}"#,
    );
    // Ties to other sessions stay.
    state(
        &stripped,
        "prt_016",
        r#"{"status":"completed","input":{},"output":"[compacted] read: success","title":"","metadata":{"preview":"","loaded":[],"filediff":{},"sessionId":"ses_child"},"time":{"start":1767225600021,"end":1767225600022},"attachments":[]}"#,
    );
    // OpenCode sends what stands there only where it did not clear it itself.
    state(
        &stripped,
        "prt_024",
        r#"{"status":"completed","input":{},"output":"[compacted] webfetch: success","title":"","metadata":{},"time":{"start":1767225600101,"end":1767225600102,"compacted":0}}"#,
    );
    // Of what the user stopped it sends what there was.
    state(
        &stripped,
        "prt_025",
        r#"{"status":"error","input":{},"error":"Tool execution aborted","time":{"start":1767225600102,"end":1767225600103},"metadata":{"interrupted":true,"output":"[compacted] bash: error"}}"#,
    );
    state(&stripped, "prt_027", r#"{"status":"pending","input":{},"raw":""}"#);
}

/// The names of the messages, in order; every tie between them and their parts holds.
#[track_caller]
fn messages(text: &str) -> Vec<String> {
    let all: Value = serde_json::from_str(text).unwrap();
    let messages = all["messages"].as_array().unwrap();
    let ids: Vec<String> = messages.iter().map(|it| it["info"]["id"].as_str().unwrap().into()).collect();
    let mut parts = HashSet::new();
    for message in messages {
        let (info, id) = (&message["info"], &message["info"]["id"]);
        if let Some(parent) = info["parentID"].as_str() {
            assert!(ids.iter().any(|id| id == parent), "{id} follows {parent}, which is gone");
        }
        for part in message["parts"].as_array().unwrap() {
            assert_eq!((&part["messageID"], &part["sessionID"]), (id, &info["sessionID"]));
            assert!(parts.insert(part["id"].as_str().unwrap()), "{} is there twice", part["id"]);
        }
    }
    assert!(ids.is_sorted_by(|left, right| left < right), "{ids:?}");
    ids
}

#[test]
fn every_message_has_the_request_that_it_is_about() {
    let stream = sample(Format::Opencode, "opencode.json");
    let [first, second] = ["msg_010", "msg_020"].map(String::from);
    let rest = ["msg_030", "msg_031", "msg_032", "msg_033"];
    // One that failed goes with its request, and so does what is empty without its calls.
    let summarised_first = messages(&summarised(&stream, 0, 0));
    assert_eq!(summarised_first[..4], [&first, "msg_0101", &second, "msg_021"]);
    assert_eq!(messages(&summarised(&stream, 0, 1)), [&[&*first, "msg_0101"][..], &rest[..]].concat());
    let third = ["msg_030", "msg_0301", "msg_031", "msg_033"];
    assert_eq!(messages(&summarised(&stream, 2, 2))[7..], third);
    let fourth = ["msg_030", "msg_031", "msg_0311", "msg_032"];
    assert_eq!(messages(&summarised(&stream, 3, 3))[7..], fourth);
    let bare = messages(&without_calls(&stream));
    assert_eq!(bare[4..], [&[&*second, "msg_022"][..], &rest[..]].concat(), "what called only is gone");
}

#[test]
fn a_pair_is_two_messages_as_their_neighbours_are() {
    let stream = sample(Format::Opencode, "opencode.json");
    let all: Value = serde_json::from_str(&summarised(&stream, 0, 0)).unwrap();
    let (request, response) = (&all["messages"][0], &all["messages"][1]);
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
fn only_what_a_compaction_left_and_nobody_took_back_is_sent() {
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
    // As far as the part that was taken back, if it was one.
    let found = events(&sample(Format::Opencode, "opencode-taken-back.json"));
    assert_eq!(found[4..], ["1 user: Now cut it", "1 assistant: Cutting."]);
}

#[test]
fn what_stands_for_a_compaction_compacts() {
    let stream = sample(Format::Opencode, "opencode-compacted.json");
    let again =
        |text: &str| -> Stream { formats::read(Format::Opencode, text.as_bytes().to_vec().into()).unwrap() };
    let older = ["msg_040", "msg_041"];
    for (from, to) in [(1, 1), (0, 1), (0, 2), (1, 2)] {
        let text = summarised(&stream, from, to);
        assert_eq!(messages(&text)[..2], older, "they stay, unsent");
        let found = events(&again(&text));
        assert!(!found[0].contains("Long ago"), "{found:?}");
        assert!(found.contains(&format!("{from} user: [Summary of previous conversation]")), "{found:?}");
        assert!(text.contains(r#""type":"compaction","auto":true,"tail_start_id":"msg_050""#), "{text}");
        assert!(text.contains(r#""finish":"stop","summary":true"#), "{text}");
    }
    // One that never came to an end compacts nothing, and neither does what stands for it.
    let open = source(&stream).replace(r#""summary": true, "#, "").replace(r#""summary":true,"#, "");
    let open = again(&open);
    assert_eq!(events(&open)[0], "0 user: Long ago");
    let summarised = summarised(&open, 2, 2);
    assert_eq!(events(&again(&summarised))[0], "0 user: Long ago");
}

#[track_caller]
fn refused(bytes: &str, expected: &str) {
    let wrong = formats::read(Format::Opencode, bytes.as_bytes().to_vec().into()).unwrap_err();
    assert_eq!(wrong.to_string(), expected);
}

#[test]
fn what_is_none_is_refused_by_the_byte() {
    refused(r#"{"info":{}}"#, "byte 0: no transcript of OpenCode: it has no `messages`");
    refused(r#"{"messages":7}"#, "byte 12: no transcript of OpenCode: it has no `messages`");
    let what = "no transcript of OpenCode: a message without `info` or `parts`";
    refused(r#"{"messages":[{"info":{}}]}"#, &format!("byte 13: {what}"));
    refused(r#"[{"info":{},"parts":7}]"#, &format!("byte 1: {what}"));
}

#[test]
fn odd_shapes_are_passed_over() {
    let odd = r#"{"info":{"revert":7},"messages":[
        {"parts":[{"type":"text","text":7},7,{}],"info":{"role":"user"}},
        {"parts":[{"type":"text","text":"bare"}],"info":{"role":"user"}},
        {"info":{"role":"assistant","parentID":"nobody"},"parts":[
            {"type":"tool"},{"type":"tool","state":{"status":"completed","input":7,"output":7}},{"type":"reasoning"}]}
    ]}"#;
    let stream = formats::read(Format::Opencode, odd.as_bytes().to_vec().into()).unwrap();
    assert_eq!(
        events(&stream),
        ["0 user: bare", r#"0 call call_1: unknown {"input":7}"#, "0 answer call_1: 7"]
    );
    assert!(stripped(&stream).contains(r#""input":7,"output":"[compacted] unknown: success""#));
    messages_of_odd(&summarised(&stream, 0, 0));
}

/// There are no names to tie.
#[track_caller]
fn messages_of_odd(text: &str) {
    let all: Value = serde_json::from_str(text).unwrap();
    assert_eq!(all["messages"].as_array().unwrap().len(), 3, "{text}");
}

#[test]
fn a_message_that_lacks_its_parts_is_left_out() {
    let stream = sample(Format::Opencode, "opencode-partless.json");
    let left_out =
        [2, 7].map(|number| format!("message {number} has no `info` or no `parts`, and was left out"));
    assert_eq!(stream.warnings(), left_out);
    assert_eq!(events(&stream).len(), 8);
}

#[test]
fn what_was_taken_back_is_not_sent_again_where_a_summary_stands_for_the_rest() {
    let stream = sample(Format::Opencode, "opencode-taken-back-part.json");
    assert_eq!(
        events(&stream)[2..],
        ["1 user: Water it", "1 call call_1: water {\"what\":\"rose\"}", "1 answer call_1: wet"]
    );
    let all = summarised(&stream, 0, 1);
    let again = formats::read(Format::Opencode, all.into_bytes().into()).unwrap();
    assert_eq!(events(&again), ["0 user: [Summary of previous conversation]", "0 assistant: Short."]);
}
