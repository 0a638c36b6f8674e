//! `OpenHands`' events: links between calls and observations, reasoning in actions, and ids of forgotten events.

use jp_compact_core::overlay::ToolPolicy;
use jp_compact_transcripts::Format;

use crate::event_members::{
    events, refused, sample, stripped, summarized, system_and_model, tools, without_reasoning,
};

#[test]
fn sdk_events_are_grouped_by_user_message() {
    assert_eq!(
        events(&sample("openhands.jsonl")),
        [
            "0 asked \"Warum scheitert `größe`? \\\"Schau\\\" nach.\\n\\n<EXTRA_INFO>Skill: github</EXTRA_INFO>\"",
            "0 thought \"Two files.\"",
            "0 thought \"\"",
            "0 said \"I look at both.\"",
            "0 call \"terminal\" {\"command\":\"cat größe.py\",\"timeout\":null,\"summary\":\"does it\"}",
            "0 call \"file_editor\" {\"command\":\"view\",\"path\":\"/app/a.py\",\"summary\":\"does it\"}",
            "0 result \"def größe(x):\\n    return x['größe']\"",
            "0 result \"no such file: /app/a.py\" true",
            "0 thought \"Think it over.\"",
            "0 call \"think\" {\"thought\":\"hm\",\"summary\":\"does it\"}",
            "0 result \"Your thought has been logged.\"",
            "0 said \"Then I run it.\"",
            "0 call \"terminal\" {\"command\":\"rm -rf build\",\"summary\":\"does it\"}",
            "0 result \"Not that one!\" true",
            "0 call \"terminal\" {\"command\":3,\"summary\":\"does it\"}",
            "0 result \"Error validating args: command is no text\" true",
            "0 thought \"Say it.\"",
            "0 said \"Der Schlüssel fehlt. 😀\"",
            "1 asked \"[image]\"",
            "1 thought \"I wait.\"",
            "1 call \"terminal\" {\"command\":\"sleep 1\",\"summary\":\"does it\"}"
        ]
    );
}

#[test]
fn legacy_events_are_grouped_by_user_message() {
    assert_eq!(
        events(&sample("openhands-v0.json")),
        [
            "0 asked \"Why does `größe` fail? \\\"Look\\\".\"",
            "0 thought \"I look at both — größe first.\"",
            "0 call \"execute_bash\" {\"command\":\"cat größe.py\"}",
            "0 result \"def größe(x):\\n    return x['größe']\\n[Command finished with exit code 1]\" true",
            "0 call \"str_replace_editor\" {\"path\":\"/app/a.py\",\"start\":0,\"end\":-1}",
            "0 result \"x = 1\"",
            "0 thought \"Hm, a key.\"",
            "0 call \"think\" {}",
            "0 result \"Your thought has been logged.\"",
            "0 said \"Der Schlüssel fehlt. 😀\"",
            "1 asked \"And now?\"",
            "1 thought \"Fetch it.\"",
            "1 call \"fetch\" {\"arguments\":{\"url\":\"https://example.com\",\"n\":3}}",
            "1 result \"timed out\" true",
            "1 said \"I give up.\"",
            "1 call \"something_new\" {}"
        ]
    );
}

#[test]
fn oldest_form_pairs_actions_with_observations() {
    let stream = sample("openhands-oldest.json");
    assert_eq!(
        events(&stream),
        [
            "0 asked \"Fix it\"",
            "0 thought \"Look.\"",
            "0 call \"run\" {\"command\":\"ls\",\"background\":false}",
            "0 result \"a.py\"",
            "0 call \"run_ipython\" {\"code\":\"print(1)\"}",
            "0 result \"1\"",
            "0 said \"Done.\""
        ]
    );
    assert_eq!(
        summarized(&stream, 0, 0),
        "{\"instance_id\": \"old__1\", \"history\": [[{\"timestamp\":\"1970-01-01T00:00:00\",\"source\":\"user\",\"message\":\"[Summary of previous conversation]\",\"action\":\"message\",\"args\":{\"content\":\"[Summary of previous conversation]\",\"image_urls\":null,\"wait_for_response\":false}},{\"timestamp\":\"1970-01-01T00:00:00\",\"source\":\"agent\",\"message\":\"So it was.\",\"action\":\"message\",\"args\":{\"content\":\"So it was.\",\"image_urls\":null,\"wait_for_response\":false}}]]}\n"
    );
}

#[test]
fn only_the_path_to_the_last_event_is_sent() {
    let stream = sample("openhands-tree.jsonl");
    assert_eq!(
        events(&stream),
        [
            "0 asked \"Second way.\"",
            "0 said \"Better.\"",
            "0 call \"terminal\" {\"command\":\"pwd\",\"summary\":\"does it\"}",
            "0 result \"/app\"",
            "0 said \"There.\"",
            "1 asked \"Thanks.\"",
            "1 said \"Bye.\""
        ]
    );
    let text = summarized(&stream, 0, 0);
    let kept: Vec<&str> = text.lines().filter_map(|line| line.get(..60)).collect();
    assert_eq!(
        kept,
        [
            "{\"id\": \"s\", \"timestamp\": \"2026-06-16T05:39:01.125000\", \"sour",
            "{\"id\": \"u1\", \"timestamp\": \"2026-06-16T05:39:02.125000\", \"sou",
            "{\"id\": \"x1\", \"timestamp\": \"2026-06-16T05:39:03.125000\", \"sou",
            "{\"id\": \"x2\", \"timestamp\": \"2026-06-16T05:39:04.125000\", \"sou",
            "{\"id\":\"0fc47715-bfc1-84ee-bda7-ab0107319b71\",\"timestamp\":\"20",
            "{\"id\":\"0fc47815-bfc1-86a1-bda7-aa01073199be\",\"timestamp\":\"20",
            "{\"id\": \"u3\", \"timestamp\": \"2026-06-16T05:39:09.125000\", \"sou",
            "{\"id\": \"z\", \"timestamp\": \"2026-06-16T05:39:10.125000\", \"sour"
        ]
    );
}

#[track_caller]
fn line(text: &str, id: &str) -> String {
    let has_id = |line: &&str| line.contains(&format!("\"id\":\"{id}\""));
    text.lines().find(has_id).unwrap_or_default().to_owned()
}

#[test]
fn action_without_its_call_becomes_a_message() {
    let text = tools(&sample("openhands.jsonl"), ToolPolicy::Omit);
    assert_eq!(
        line(&text, "a-1"),
        "{\"id\":\"a-1\",\"timestamp\":\"2026-06-16T05:39:04.125000\",\"source\":\"agent\",\"llm_message\":{\"role\":\"assistant\",\"content\":[{\"cache_prompt\":false,\"type\":\"text\",\"text\":\"I look at both.\"}],\"reasoning_content\":null,\"thinking_blocks\":[],\"responses_reasoning_item\":null},\"llm_response_id\":\"r-1\",\"critic_result\":null,\"kind\":\"MessageEvent\"}"
    );
    assert_eq!(line(&text, "a-2"), "");
    assert_eq!(line(&text, "o-1"), "");
}

#[test]
fn stripped_call_has_no_action() {
    let text = stripped(&sample("openhands.jsonl"));
    assert_eq!(
        line(&text, "a-2"),
        "{\"id\":\"a-2\",\"timestamp\":\"2026-06-16T05:39:05.125000\",\"source\":\"agent\",\"thought\":[],\"reasoning_content\":null,\"thinking_blocks\":[],\"responses_reasoning_item\":null,\"action\":null,\"tool_name\":\"file_editor\",\"tool_call_id\":\"toolu_2\",\"tool_call\":{\"id\":\"toolu_2\",\"responses_item_id\":null,\"name\":\"file_editor\",\"arguments\":\"{}\",\"origin\":\"completion\"},\"llm_response_id\":\"r-1\",\"security_risk\":\"LOW\",\"critic_result\":null,\"summary\":null,\"kind\":\"ActionEvent\"}"
    );
    assert_eq!(
        line(&text, "o-2"),
        "{\"id\":\"o-2\",\"timestamp\":\"2026-06-16T05:39:07.125000\",\"source\":\"environment\",\"tool_name\":\"file_editor\",\"tool_call_id\":\"toolu_2\",\"observation\":{\"content\":[{\"type\":\"text\",\"text\":\"[compacted] file_editor: error\"}],\"is_error\":true,\"command\":\"view\",\"path\":\"/app/a.py\",\"old_content\":\"\",\"new_content\":null,\"kind\":\"File_EditorObservation\"},\"action_id\":\"a-2\",\"kind\":\"ObservationEvent\"}"
    );
}

#[test]
fn reasoning_is_deleted_with_its_signature() {
    let text = without_reasoning(&sample("openhands.jsonl"));
    for removed in ["RXJTaWc=", "RW5jcnlwdGVk", "Z0FBQUE=", "Two files.", "Think it over."] {
        assert!(!text.contains(removed), "{removed}: {text}");
    }
}

#[test]
fn condensation_loses_the_ids_of_deleted_events() {
    let text = summarized(&sample("openhands.jsonl"), 0, 0);
    assert!(text.contains(r#""forgotten_event_ids":[]"#), "{text}");
    let text = tools(&sample("openhands-v0.json"), ToolPolicy::Omit);
    let text: String = text.split_whitespace().collect();
    assert!(text.contains(r#""forgotten_event_ids":[5],"#), "{text}");
}

#[test]
fn strip_applies_to_copies_of_the_response() {
    let text = stripped(&sample("openhands-v0.json"));
    assert!(!text.contains("cat größe.py") && !text.contains("x = 1"), "{text}");
    let text = without_reasoning(&sample("openhands-v0.json"));
    assert!(!text.contains("I look at both"), "{text}");
}

#[test]
fn invalid_events_are_refused_with_their_offset() {
    assert_eq!(
        refused(Format::OpenHands, "{\"history\": 1}"),
        "0: not a transcript of OpenHands: it has no list of events"
    );
    assert_eq!(
        refused(Format::OpenHands, "{\"id\": 1}\n[]\n"),
        "10: line 2: not a transcript of OpenHands: a line is not an object"
    );
}

#[test]
fn the_system_prompt_is_kept_for_an_import() {
    assert_eq!(
        system_and_model(&sample("openhands.jsonl")).join(" "),
        "\"You are OpenHands.\" \"claude-sonnet-4-5\""
    );
    assert_eq!(system_and_model(&sample("openhands-v0.json")).join(" "), "\"You are OpenHands.\" \"claude\"");
}
