//! ATIF: steps are numbered, and results are in the step of their calls.

use jp_compact_core::overlay::ToolPolicy;
use jp_compact_transcripts::Format;
use serde_json::Value;

use crate::event_members::{events, refused, sample, stripped, summarized, system_and_model, tools};

#[test]
fn steps_belong_to_the_turn_of_the_last_user_step() {
    assert_eq!(
        events(&sample("atif.json")),
        [
            "0 asked \"Why does `größe` fail? \\\"Look\\\" first.\\n\"",
            "0 thought \"Two files; read them at once — both are small.\"",
            "0 said \"I look at both.\"",
            "0 call \"Read\" {\"file_path\":\"/app/größe.py\"}",
            "0 call \"Bash\" {\"command\":\"pytest -q\"}",
            "0 result \"1 failed\\nE   KeyError: 'größe'\" true",
            "0 result \"def größe(x):\\n    return x['größe']\\n[image]\"",
            "0 call \"Task\" {}",
            "0 result \"\"",
            "0 said \"The key is missing. 😀\"",
            "1 asked \"And this picture?\\n[image]\"",
            "1 said \"{\\\"commands\\\": [\\\"ls\\\"]}\"",
            "1 call \"action\" {}",
            "1 result \"a.py  b.py\"",
            "1 said \"Done.\"",
            "2 asked \"[image]\"",
            "2 thought \"I wait.\"",
            "2 call \"Bash\" {\"command\":\"sleep 1\"}"
        ]
    );
}

#[test]
fn results_without_call_id_belong_to_unanswered_calls() {
    let stream = sample("atif-old.json");
    assert_eq!(
        events(&stream),
        [
            "0 asked \"Count the files.\"",
            "0 call \"ls\" {}",
            "0 call \"wc\" {\"path\":\".\"}",
            "0 result \"a\\nb\"",
            "0 result \"2\"",
            "0 call \"ls\" {}",
            "0 call \"wc\" {}",
            "0 result \"of e\"",
            "0 result \"of c\"",
            "0 said \"Two.\""
        ]
    );
    // Ids of calls are unique only within their step.
    let document: Value = serde_json::from_str(&stripped(&stream)).unwrap();
    assert_eq!(
        document["steps"][2]["observation"].to_string(),
        "{\"results\":[{\"content\":\"[compacted] wc: success\"},{\"source_call_id\":\"c\",\"content\":\"[compacted] ls: success\"}]}"
    );
}

#[track_caller]
fn numbers(text: &str) -> Vec<(u64, String)> {
    let document: Value = serde_json::from_str(text).unwrap();
    let steps = document["steps"].as_array().unwrap().iter();
    steps.map(|step| (step["step_id"].as_u64().unwrap(), step["message"].to_string())).collect()
}

#[test]
fn steps_are_renumbered_after_a_summary() {
    let stream = sample("atif.json");
    let text = summarized(&stream, 0, 0);
    let actual: Vec<String> =
        numbers(&text).iter().map(|(number, text)| format!("{number} {text}")).collect();
    assert_eq!(
        actual,
        [
            "1 \"You are a careful engineer.\"",
            "2 \"[Summary of previous conversation]\"",
            "3 \"So it was.\"",
            "4 \"context was compacted\"",
            "5 \"side talk\"",
            "6 [{\"type\":\"text\",\"text\":\"And this picture?\"},{\"type\":\"image\",\"source\":{\"media_type\":\"image/png\",\"path\":\"images/2.png\"}}]",
            "7 \"{\\\"commands\\\": [\\\"ls\\\"]}\"",
            "8 \"Done.\"",
            "9 [{\"type\":\"audio\",\"source\":{\"media_type\":\"audio/wav\",\"path\":\"a.wav\",\"duration_sec\":2.5}}]",
            "10 \"\""
        ]
    );
    let ids: Vec<u64> =
        numbers(&tools(&stream, ToolPolicy::Omit)).iter().map(|(number, _)| *number).collect();
    assert_eq!(ids, (1..=11).collect::<Vec<_>>());
}

#[test]
fn stripped_result_is_a_text_and_its_copies_are_removed() {
    let text = stripped(&sample("atif.json"));
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| line.contains("source_call_id")).collect();
    assert_eq!(
        lines,
        [
            "{\"source_call_id\": \"toolu_2\", \"content\": \"[compacted] Bash: error\", \"extra\": {\"tool_result_is_error\": true, \"tool_result_metadata\": null}},",
            "{\"source_call_id\": \"toolu_1\", \"content\": \"[compacted] Read: success\"}",
            "\"observation\": {\"results\": [{\"source_call_id\": \"toolu_3\", \"subagent_trajectory_ref\": [{\"trajectory_id\": \"sub-1\"}], \"content\": \"[compacted] Task: success\"}]},"
        ]
    );
    assert!(text.contains(r#""extra": {"raw_arguments": null, "metadata": null}"#), "{text}");
}

#[test]
fn invalid_trajectory_is_refused_with_its_offset() {
    assert_eq!(
        refused(Format::Atif, "{\"steps\": 1}"),
        "0: not a transcript of ATIF: it has no `steps` array"
    );
    assert_eq!(
        refused(Format::Atif, "{\"steps\": [{\"step_id\": 1}]}"),
        "11: not a transcript of ATIF: a step has no source"
    );
}

#[test]
fn the_system_prompt_is_kept_for_an_import() {
    assert_eq!(
        system_and_model(&sample("atif.json")).join(" "),
        "\"You are a careful engineer.\" \"claude-sonnet-4-5\""
    );
}
