//! SWE-agent's trajectories: one turn, commands in texts, and copies in `trajectory`.

use jp_compact_core::event::{Event, Kind};
use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_transcripts::{Format, Transcript};
use serde_json::{Value, json};

use crate::check::{overlay, read, strip, written};
use crate::event_list;
use crate::event_members::{
    events, refused, sample, stripped, summarized, system_and_model, tools, without_reasoning,
};

#[test]
fn task_is_one_turn_without_demonstrations() {
    assert_eq!(
        events(&sample("swe-agent.traj")),
        [
            "0 asked \"<pr>Warum scheitert `größe`? \\\"Schau\\\".</pr>\\n[image]\"",
            "0 thought \"One file first.\"",
            "0 thought \"\"",
            "0 thought \"I look at the file — größe.\"",
            "0 call \"bash\" {\"command\":\"cat größe.py\"}",
            "0 result \"OBSERVATION:\\ndef größe(x):\\n    return x['größe']\"",
            "0 call \"str_replace_editor\" {\"command\":\"view\",\"path\":\"/app/a.py\"}",
            "0 result \"x = 1\\n[image]\"",
            "0 thought \"Done, I submit.\"",
            "0 call \"submit\" {}",
            "0 result \"diff --git a/a.py b/a.py\""
        ]
    );
}

#[test]
fn commands_in_texts_are_calls_with_results() {
    assert_eq!(
        events(&sample("swe-agent-old.traj")),
        [
            "0 asked \"We're solving:\\n  größe\\n(Open file: n/a)\\nbash-$\"",
            "0 thought \"First I look: \\\"größe\\\".\\n\\n\"",
            "0 call \"command\" {\"command\":\"ls -a\\n\"}",
            "0 result \"a.py\\n(Open file: n/a)\\nbash-$\"",
            "0 call \"command\" {\"command\":\"open a.py 1\\n\"}",
            "0 result \"1:x = 1\\n(Open file: a.py)\\nbash-$\"",
            "0 thought \"DISCUSSION\\nOdd.\\n\"",
            "0 said \"<command>\\n\\n</command>\\nafter\"",
            "0 call \"command\" {\"command\":\"rm x\"}",
            "0 result \"gone\"",
            "0 thought \"Enough.\\n\\n\"",
            "0 call \"command\" {\"command\":\"submit\\n\"}",
            "0 result \"\\ndiff --git a/x b/x\\n\""
        ]
    );
    assert_eq!(
        events(&sample("swe-agent-mini.traj.json")),
        [
            "0 asked \"Please solve this issue: größe fails\"",
            "0 said \"THOUGHT: I look.\\n\\n\\nThen we see.\"",
            "0 call \"bash\" {\"command\":\"ls -la && echo \\\"größe\\\"\"}",
            "0 result \"<returncode>1</returncode>\\n<output>\\nls: no\\n</output>\"",
            "0 said \"I say nothing to run.\"",
            "0 asked \"Please always provide EXACTLY ONE action in triple backticks, found 0 actions.\"",
            "0 call \"bash\" {\"command\":\"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\"}",
            "0 result \"diff --git a/x b/x\""
        ]
    );
}

#[test]
fn mini_swe_agent_calls_of_both_apis_are_read() {
    assert_eq!(
        events(&sample("swe-agent-mini2.traj.json")),
        [
            "0 asked \"Solve: größe\"",
            "0 thought \"Two things at once.\"",
            "0 said \"I look at both.\"",
            "0 call \"bash\" {\"command\":\"ls größe\"}",
            "0 call \"bash\" {\"command\":\"pwd\"}",
            "0 result \"<returncode>0</returncode>\\n<output>\\n/app\\n</output>\"",
            "0 result \"<returncode>2</returncode>\\n<output>\\nno such file\\n</output>\"",
            "0 call \"bash\" {\"command\":\"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt\"}",
            "0 result \"diff --git a/x b/x\""
        ]
    );
    assert_eq!(
        events(&sample("swe-agent-responses.json")),
        [
            "0 asked \"Solve it.\"",
            "0 thought \"Think.\"",
            "0 said \"I look.\"",
            "0 call \"bash\" {\"command\":\"ls\"}",
            "0 result \"<returncode>0</returncode>a.py\"",
            "0 asked \"You must call a tool.\"",
            "0 call \"bash\" {\"command\":\"submit\"}",
            "0 result \"\""
        ]
    );
}

#[track_caller]
fn contents(text: &str) -> Vec<String> {
    let document: Value = serde_json::from_str(text).unwrap();
    let list = if document.is_array() { &document } else { &document["history"] };
    list.as_array().unwrap().iter().skip(2).map(|message| message["content"].to_string()).collect()
}

#[test]
fn command_is_cut_out_of_its_text() {
    assert_eq!(
        contents(&stripped(&sample("swe-agent-old.traj"))),
        [
            "\"We're solving:\\n  größe\\n(Open file: n/a)\\nbash-$\"",
            "\"First I look: \\\"größe\\\".\\n\\n```\\n```\"",
            "\"[compacted] command: success\"",
            "\"```\\n```\"",
            "\"[compacted] command: success\"",
            "\"DISCUSSION\\nOdd.\\n<command>\\n\\n</command>\\nafter\"",
            "\"[compacted] command: success\"",
            "\"Enough.\\n\\n```\\n```\""
        ]
    );
    assert_eq!(
        contents(&tools(&sample("swe-agent-old.traj"), ToolPolicy::Omit)),
        [
            "\"We're solving:\\n  größe\\n(Open file: n/a)\\nbash-$\"",
            "\"First I look: \\\"größe\\\".\\n\\n\"",
            "\"DISCUSSION\\nOdd.\\n<command>\\n\\n</command>\\nafter\"",
            "\"Enough.\\n\\n\""
        ]
    );
    assert_eq!(
        contents(&stripped(&sample("swe-agent-mini.traj.json"))),
        [
            "\"THOUGHT: I look.\\n\\n```mswea_bash_command\\n\\n```\\nThen we see.\"",
            "\"[compacted] bash: success\"",
            "\"I say nothing to run.\"",
            "\"Please always provide EXACTLY ONE action in triple backticks, found 0 actions.\"",
            "\"```mswea_bash_command\\n\\n```\"",
            "\"[compacted] bash: success\""
        ]
    );
    assert_eq!(
        contents(&tools(&sample("swe-agent-mini.traj.json"), ToolPolicy::Omit)),
        [
            "\"THOUGHT: I look.\\n\\n\\nThen we see.\"",
            "\"I say nothing to run.\"",
            "\"Please always provide EXACTLY ONE action in triple backticks, found 0 actions.\""
        ]
    );
}

#[test]
fn strip_applies_to_trajectory_and_requests() {
    let text = stripped(&sample("swe-agent.traj"));
    for removed in ["cat gr", "return x", "x = 1", "view /app"] {
        assert!(!text.contains(removed), "{removed}: {text}");
    }
    let text = stripped(&sample("swe-agent-mini2.traj.json"));
    for removed in ["no such file", "pwd", "cat patch.txt"] {
        assert!(!text.contains(removed), "{removed}: {text}");
    }
    let text = without_reasoning(&sample("swe-agent.traj"));
    for removed in ["RXJTaWc=", "One file first", "I look at"] {
        assert!(!text.contains(removed), "{removed}: {text}");
    }
    assert!(!without_reasoning(&sample("swe-agent-mini2.traj.json")).contains("Two things at once"));
}

#[test]
fn summary_deletes_steps_of_the_trajectory() {
    let text = summarized(&sample("swe-agent.traj"), 0, 0);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["trajectory"], serde_json::json!([]));
    assert_eq!(document["history"].as_array().unwrap().len(), 1 + 3 + 2);
    assert_eq!(
        document["history"][5].to_string(),
        "{\"role\":\"assistant\",\"content\":\"So it was.\",\"agent\":\"main\",\"message_type\":\"action\"}"
    );
    assert_eq!(document["info"]["submission"], "diff --git a/a.py b/a.py");
}

#[test]
fn invalid_trajectory_is_refused_with_its_offset() {
    assert_eq!(
        refused(Format::SweAgent, "{\"history\": 1}"),
        "0: not a transcript of SWE-agent: it has no list of messages"
    );
    assert_eq!(
        refused(Format::SweAgent, "[{\"content\": \"x\"}]"),
        "1: not a transcript of SWE-agent: a message has no role"
    );
}

#[test]
fn the_system_prompt_is_kept_for_an_import() {
    assert_eq!(
        system_and_model(&sample("swe-agent.traj")).join(" "),
        "\"You are a helpful assistant.\" \"claude-sonnet-4-5\""
    );
}

#[test]
fn text_at_the_end_is_not_the_result_of_an_answered_response() {
    let text = event_list::source(&sample("swe-agent-responses.json"));
    let second = text.find(r#", {"id": "resp_2""#).unwrap();
    let exit = text.find(r#", {"role": "exit""#).unwrap();
    let without_second = format!("{}{}", &text[..second], &text[exit..]);
    let stream = read(Format::SweAgent, "answered", without_second.as_bytes());
    let is_result = |event: &&Event| matches!(event.kind, Kind::ToolResponse { .. });
    assert_eq!(stream.events().iter().filter(is_result).count(), 1);
}

/// Returns a trajectory of three calls without text. The request of each step has all messages before it.
fn trajectory_without_texts() -> Transcript {
    let system = json!({"role": "system", "content": "Help.", "agent": "main"});
    let mut history = vec![system, json!({"role": "user", "content": "Fix it.", "agent": "main"})];
    let mut trajectory = Vec::new();
    for step in 0..3 {
        let (id, command) = (format!("call_{step}"), format!("run {step}"));
        let arguments = json!({ "command": command }).to_string();
        let function = json!({"name": "bash", "arguments": arguments});
        let call = json!({"id": id, "type": "function", "function": function});
        let observation = if step < 2 { "ok".to_owned() } else { "last".to_owned() };
        trajectory.push(json!({"action": command, "observation": observation, "response": "", "thought": "",
            "query": history}));
        history.push(json!({"role": "assistant", "content": "", "agent": "main", "thought": "",
            "action": command, "tool_calls": [call]}));
        history.push(json!({"role": "tool", "content": observation, "agent": "main", "tool_call_ids": [id]}));
    }
    let document = json!({"trajectory": trajectory, "history": history}).to_string();
    read(Format::SweAgent, "without texts", document.as_bytes())
}

/// Returns the last request of a trajectory, with an overlay of its first step.
fn last_request(change: Overlay) -> Vec<Value> {
    let overlay = Overlay { from_step: Some(0), to_step: Some(0), ..change };
    let written = written(&trajectory_without_texts(), &[overlay]);
    let document: Value = serde_json::from_slice(&written).unwrap();
    document["trajectory"].as_array().unwrap().last().unwrap()["query"].as_array().unwrap().clone()
}

#[test]
fn strip_changes_only_the_copies_of_its_call() {
    let request =
        last_request(Overlay { tool_calls: Some(strip(&trajectory_without_texts())), ..overlay(0, 0) });
    let call = |message: usize| &request[message]["tool_calls"][0]["function"]["arguments"];
    assert_eq!((call(2), &request[2]["action"]), (&json!("{}"), &json!("")), "{request:?}");
    assert_eq!(request[3]["content"], "[compacted] bash: success");
    assert_eq!((call(4), &request[4]["action"]), (&json!(r#"{"command":"run 1"}"#), &json!("run 1")));
    assert_eq!(request[5]["content"], "ok");
}

#[test]
fn copies_of_deleted_messages_are_deleted() {
    for change in [
        Overlay { tool_calls: Some(ToolPolicy::Omit), ..overlay(0, 0) },
        Overlay { summary: Some("In short.".into()), ..overlay(0, 0) },
    ] {
        let request = last_request(change);
        let ids = |message: &Value| message["tool_calls"][0]["id"].as_str().map(ToOwned::to_owned);
        assert_eq!(request.iter().filter_map(ids).collect::<Vec<_>>(), ["call_1"], "{request:?}");
        let results: Vec<_> = request.iter().filter(|message| message["role"] == "tool").collect();
        assert_eq!(results.len(), 1, "{request:?}");
        assert_eq!(results[0]["tool_call_ids"][0], "call_1");
    }
}
