//! The profile `agent`, which is the default for transcripts of agents other than JP. Also tests `auto` with that
//! profile, with and without a `fallback_profile`.

use serde_json::{Value, json};

use crate::steps::{CALLS, line, messages, session, violations};
use crate::support::{Conversation, World};

const AUTO: &str = "--set=conversation.compaction.auto";

fn world() -> World {
    let world = World::new();
    world.write_file("s.jsonl", &session());
    world
}

/// Returns the strategies of a dry run.
#[track_caller]
fn strategies(world: &World, arguments: &[&str]) -> Vec<String> {
    let line = world.run(&[&["--dry-run", "--json"], arguments].concat()).exits(0).line();
    let rows = |member: &str| line[member].as_array().unwrap().clone();
    let steps = rows("declines").into_iter().chain(rows("overlays"));
    steps.map(|step| step["strategy"].as_str().unwrap().to_owned()).collect()
}

/// Returns an option that makes the session due: a limit slightly below its size.
fn below_size(world: &World) -> String {
    let report = world.run(&["s.jsonl", "--dry-run", "--json"]).exits(0).line();
    format!("{AUTO}.token_threshold={}", report["tokens"]["view_before"].as_u64().unwrap() - 1)
}

#[test]
fn keeps_three_steps_user_text_and_signed_thoughts() {
    let world = world();
    let (before, broken_before) = (messages(&world, "s.jsonl"), violations(&world, "s.jsonl"));
    world.run(&["s.jsonl"]).exits(0);
    let after = messages(&world, "s.jsonl");
    assert_eq!(after.len(), before.len());
    // The message of the user, and two messages for each step. The call without a result is the newest step.
    let first_kept = 1 + 2 * (CALLS + 1 - 3);
    assert_eq!(after[first_kept..], before[first_kept..]);
    assert_eq!(after[0], before[0]);
    assert_ne!(after[first_kept - 1], before[first_kept - 1]);
    assert_eq!(violations(&world, "s.jsonl"), broken_before);
    let thoughts = |messages: &[Value]| json!(messages).to_string().matches("\"signature\":\"sig").count();
    assert_eq!(thoughts(&after), thoughts(&before));
}

#[test]
fn is_the_default_for_agents_only() {
    let world = world();
    let body = json!({"model": "claude-opus-4-6", "max_tokens": 9, "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "a"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x".repeat(900)}]},
        {"role": "assistant", "content": "Done."},
    ]});
    world.write_file("body.json", body.to_string().as_bytes());
    world.write_conversation("conversation", &Conversation::with_turns(5));
    assert_eq!(strategies(&world, &["s.jsonl"]), ["strip-reasoning", "extract"]);
    for transcript in ["body.json", "conversation"] {
        assert_eq!(strategies(&world, &[transcript, "--keep-last", "0"]), ["strip-reasoning", "strip-tools"]);
    }
}

#[test]
fn configured_profile_is_used_for_every_transcript() {
    let world = world();
    let set = "--set=conversation.compaction.default_profile=default";
    assert_eq!(strategies(&world, &["s.jsonl", set, "--keep-last", "0"]), ["strip-reasoning", "strip-tools"]);
    let set = "--set=conversation.compaction.profiles.default.keep_last=0";
    assert_eq!(strategies(&world, &["s.jsonl", set]), ["strip-reasoning", "strip-tools"]);
}

#[test]
fn config_shows_the_default_of_a_transcript() {
    let world = world();
    assert_eq!(world.run(&["config", "s.jsonl", "--json"]).exits(0).line()["default_profile"], "agent");
    assert_eq!(world.run(&["config", "--json"]).exits(0).line()["default_profile"], "default");
    let text = world.run(&["config", "s.jsonl"]).exits(0);
    assert!(text.text().contains("# the default profile for this transcript is `agent`"), "{}", text.text());
}

#[test]
fn batch_distinguishes_transcripts() {
    let world = world();
    world.write_conversation("conversation", &Conversation::bulky(5));
    let output = world.run(&["batch", ".", "--dry-run", "--report", "report.jsonl"]).exits(0);
    let report = std::fs::read_to_string(world.path("report.jsonl")).unwrap();
    let uses = |transcript: &str, strategy: &str| {
        report.lines().any(|line| line.contains(transcript) && line.contains(&format!("\"{strategy}\"")))
    };
    assert!(uses("s.jsonl", "extract") && !uses("s.jsonl", "strip-tools"), "{report} {}", output.stderr);
    assert!(uses("conversation", "strip-tools") && !uses("conversation", "extract"), "{report}");
}

#[test]
fn auto_compacts_a_session_of_one_turn() {
    let world = world();
    let report = world.run(&["auto", "s.jsonl", &below_size(&world), "--json"]).exits(0).line();
    assert_eq!((&report["due"], &report["profile"]), (&json!(true), &json!("agent")), "{report}");
    assert_eq!((&report["still_due"], &report["fallback"]), (&Value::Null, &Value::Null), "{report}");
}

#[test]
fn auto_warns_in_each_cycle_without_a_summary() {
    let world = world();
    let warning = "warning: s.jsonl: still too large: the view has about ";
    for cycle in 0..3 {
        for extra in [&[][..], &["-q"]] {
            let run = |strict: &[&str]| {
                world.run(&[&["auto", "s.jsonl", "--context-window", "200"], extra, strict].concat())
            };
            let output = run(&["--strict"]).exits(3).reports(warning);
            assert!(output.stderr.contains("auto.fallback_profile"), "cycle {cycle}: {}", output.stderr);
            run(&[]).exits(0).reports(warning);
        }
    }
}

#[test]
fn auto_measures_the_view_after_a_summary() {
    for names in [["profile", "fallback_profile"], ["fallback_profile", "profile"]] {
        let world = world();
        let profiles = [0, 1].map(|index| format!("{AUTO}.{}={}", names[index], ["offline", "agent"][index]));
        let [first, second] = &profiles;
        let min_turns = format!("{AUTO}.min_turns=0");
        let run = |extra: &[&str]| {
            let options = ["auto", "s.jsonl", "--context-window=200", &min_turns, "--strict"];
            world.run(&[&options[..], &[first, second], extra].concat()).exits(3)
        };
        for extra in [&["-n"][..], &[], &[]] {
            let output = run(extra).reports("warning: s.jsonl: still too large: the view has about ");
            assert!(!output.stderr.contains("no summary is enabled"), "{}", output.stderr);
        }
    }
}

#[test]
fn auto_runs_the_configured_fallback_summary() {
    let world = world();
    let fallback = format!("{AUTO}.fallback_profile=offline");
    let keep = "--set=conversation.compaction.profiles.offline.keep_steps=3";
    let arguments = [
        "auto",
        "s.jsonl",
        "--context-window",
        "2400",
        "--json",
        "--strict",
        &fallback,
        keep,
        "--sandbox=contained",
    ];
    let report = world.run(&arguments).exits(0).line();
    assert_eq!((&report["fallback"]["profile"], &report["still_due"]), (&json!("offline"), &Value::Null));
    let overlays = report["fallback"]["report"]["overlays"].as_array().unwrap();
    assert_eq!(overlays.len(), 1, "{report}");
    // If the profile without a model is enough, nothing else runs.
    let other = self::world();
    let limit = below_size(&other);
    let arguments = ["auto", "s.jsonl", "--json", &limit, &fallback, keep];
    assert_eq!(other.run(&arguments).exits(0).line()["fallback"], Value::Null);
}

#[test]
fn user_text_is_never_shortened() {
    let world = World::new();
    let text = "Keep src/lexer.rs as it is. ".repeat(200);
    let lines = [
        line(0, "user", json!({"role": "user", "content": text})),
        line(
            1,
            "assistant",
            json!({"id": "m", "role": "assistant", "content": [{"type": "text", "text": "Yes."}]}),
        ),
    ];
    let bytes: String = lines.iter().map(|line| format!("{line}\n")).collect();
    world.write_file("s.jsonl", bytes.as_bytes());
    world.run(&["s.jsonl"]).exits(0);
    assert_eq!(messages(&world, "s.jsonl")[0]["content"][0]["text"], text);
}

#[test]
fn config_get_and_stdin_use_the_profile_of_an_agent() {
    let world = world();
    let bytes = std::fs::read(world.path("s.jsonl")).unwrap();
    let reports = [
        world.run(&["config", "s.jsonl", "--json"]).exits(0).line(),
        world.run_with_stdin(&["config", "-", "--json"], &bytes).exits(0).line(),
    ];
    for (key, value) in
        [("default_profile", json!("agent")), ("auto.profile", json!("agent")), ("auto.min_turns", json!(0))]
    {
        let pointer = format!("/config/conversation/compaction/{}", key.replace('.', "/"));
        let key = format!("conversation.compaction.{key}");
        let output = world.run(&["config", "get", "--conversation", "s.jsonl", &key]).exits(0);
        assert_eq!(output.text().trim(), value.to_string(), "{key}");
        for report in &reports {
            assert_eq!(
                (report.pointer(&pointer), &report["default_profile"]),
                (Some(&value), &json!("agent"))
            );
        }
    }
}
