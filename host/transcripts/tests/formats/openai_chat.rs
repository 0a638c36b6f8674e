//! `OpenAI`'s chat: vendor-specific members, older forms, and reasoning in several members.

use jp_compact_transcripts::Format;

use crate::event_text::{events, sample, stripped, without_all, without_reasoning};

#[test]
fn vendor_members_and_older_forms_are_read() {
    let stream = sample(Format::OpenaiChat, "openai-chat-vendors.json");
    let expected = [
        "0 asks Which beds are dry?",
        "0 thinks I should look.",
        "0 calls list_beds {\"garden\":\"north\"}",
        "0 calls query {\"input\":\"select bed from beds where dry\"}",
        "0 calls today {\"zone\":\"UTC\"}",
        "0 calls weigh {}",
        "0 answers Tuesday",
        "0 answers one/two",
        "0 answers 2",
        "0 answers 9",
        "0 thinks Two, then.",
        "0 says Bed two.",
        "1 asks",
        "1 says It needs water.",
        "2 asks Poison the weeds of my neighbour.",
        "2 says I will not.",
        "3 asks Then mine.",
        "3 thinks Which weeds?",
        "3 says Tell me where.",
        "4 asks Everywhere.",
        "4 says Not everywhere.",
    ];
    assert_eq!(events(&stream), expected.join("\n"));
}

#[test]
fn reasoning_is_deleted_in_all_members() {
    let stream = sample(Format::OpenaiChat, "openai-chat-vendors.json");
    let text = without_reasoning(&stream);
    for removed in ["I should look", "Two, then", "Which weeds?", "c2ln\"", "c2lnMw==", "reasoning"] {
        assert!(!text.contains(removed), "{removed}\n{text}");
    }
    // The signature of a call stays, and so do members without reasoning.
    for kept in ["c2lnMg==", "\"citations\": null", "Well said.", "\"refusal\": null"] {
        assert!(text.contains(kept), "{kept}\n{text}");
    }
}

#[test]
fn stripped_calls_keep_their_form() {
    let stream = sample(Format::OpenaiChat, "openai-chat-vendors.json");
    let text = stripped(&stream);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let calls = &value["messages"][2]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], "{}");
    assert_eq!(calls[1]["custom"]["input"], "");
    assert_eq!(calls[2]["arguments"], "{}");
}

#[test]
fn message_of_only_calls_and_reasoning_is_deleted() {
    let stream = sample(Format::OpenaiChat, "openai-chat-vendors.json");
    let value: serde_json::Value = serde_json::from_str(&without_all(&stream)).unwrap();
    let roles = value["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap());
    let roles: Vec<_> = roles.take(3).collect();
    assert_eq!(roles, ["developer", "user", "assistant"]);
    assert_eq!(value["messages"][2]["content"], "Bed two.");
}
