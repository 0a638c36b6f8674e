//! The `summarize` strategy: its requests to the model, and the answers that it accepts.

use assert_cmd::cargo::cargo_bin;
use jp_compact_runtime::session::key;
use jp_compact_schema::{NeedRequest, Needs};
use serde_json::{Value, json};

use crate::support::{CommandOutput, Conversation, Model, World, without_facts};

const OLDER: &str = "An older summary, which `summarize` never reads.";

/// Runs `summarize` on all turns but the last. Returns the record of the exchange, and the requests to the model.
fn exchange(world: &World, options: &Value) -> (String, Vec<NeedRequest>) {
    exchange_keeping(world, options, "1")
}

fn exchange_keeping(world: &World, options: &Value, last: &str) -> (String, Vec<NeedRequest>) {
    let strategy = cargo_bin("compact-strategy-summarize");
    let options = options.to_string();
    let record = world.path("record");
    let _ = std::fs::remove_file(&record);
    let arguments = ["strategy", "run", strategy.to_str().unwrap(), "conversation", "--sandbox=contained"];
    let options_and_record = ["--keep-last", last, "--options", &options, "--record", "record"];
    world.run(&[&arguments[..], &options_and_record].concat()).exits(0);
    let record = std::fs::read_to_string(record).unwrap();
    let lines = record.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let replies = lines.filter(|line| line["from"] == "strategy");
    let needs = replies.filter_map(|line| serde_json::from_str::<Needs>(line["line"].as_str()?).ok());
    (record.clone(), needs.flat_map(|needs| needs.requests.into_values()).collect())
}

/// Returns `long_output` with an older summary.
fn conversation() -> Conversation {
    long_output().compaction(json!({"from_turn": 0, "to_turn": 1, "summary": {"summary": OLDER}}))
}

/// Returns three turns, the first with a long tool result.
fn long_output() -> Conversation {
    Conversation::new()
        .turn("Read the file, and always answer in rhymes.")
        .call("fs_read_file", json!({"path": "src/main.rs"}), &format!("HEAD{}TAIL", "x".repeat(90_000)))
        .message("It prints a greeting.")
        .whole_turn()
        .whole_turn()
}

#[test]
fn never_sends_older_summaries_to_model() {
    let world = World::new();
    world.write_conversation("conversation", &conversation());
    let (record, needs) = exchange(&world, &json!({}));
    let [NeedRequest::LlmComplete { system: Some(system), messages, .. }] = &needs[..] else {
        panic!("{needs:?}")
    };
    let content = &messages[0].content;
    for raw in ["always answer in rhymes", "It prints a greeting.", "println!", "HEADxxx", "xxxTAIL"] {
        assert!(content.contains(raw), "{raw}");
    }
    assert!(content.len() < 25_000, "long output must be shortened: {}", content.len());
    assert!(!format!("{system}{content}").contains(OLDER));
    assert!(!record.contains(OLDER), "the strategy must not receive the older summary");
}

#[test]
fn options_reach_the_model() {
    let world = World::new();
    world.write_conversation("conversation", &conversation());
    let options =
        json!({"model": "p/m", "instructions": "Only the paths.", "focus": "main.rs", "max_tokens": 77});
    let (_, needs) = exchange(&world, &options);
    let [NeedRequest::LlmComplete { model, system: Some(system), max_tokens, .. }] = &needs[..] else {
        panic!("{needs:?}")
    };
    assert_eq!((model.as_deref(), *max_tokens), (Some("p/m"), Some(70)));
    assert!(system.contains("Only the paths.") && system.contains("main.rs"), "{system}");
}

#[test]
fn rejects_invalid_options() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &conversation());
    for option in ["modell=p/m", "max_tokens=0", "max_tokens=many"] {
        let spec = format!("summarize:{option}");
        world.run(&["conversation", "--strategy", &spec]).exits(2);
    }
    transcript.assert_untouched();
}

/// Writes `answers.json` with this answer to the requests of `summarize` with these options, for all turns but the last
/// ones.
pub(crate) fn record_answers(world: &World, options: &Value, last: &str, answer: &Value) {
    let (_, needs) = exchange_keeping(world, options, last);
    let answers: serde_json::Map<_, _> = needs.iter().map(|need| (key(need), answer.clone())).collect();
    world.write_file("answers.json", Value::Object(answers).to_string().as_bytes());
}

/// Compacts all turns but the last one with this recorded answer.
fn run_with_recorded_answer(world: &World, answer: &Value) -> CommandOutput {
    record_answers(world, &json!({}), "1", answer);
    let arguments = ["conversation", "--strategy", "summarize", "--keep-last", "1"];
    world.run(&[&arguments[..], &["--llm-replay", "answers.json"]].concat())
}

/// Compacts all turns but the last one with `answers.json`.
fn replay(world: &World, arguments: &[&str]) -> CommandOutput {
    world.run(&[arguments, &["--keep-last", "1", "--llm-replay", "answers.json"]].concat())
}

pub(crate) fn recorded_answer(text: &str) -> Value {
    json!({"ok": {"text": text, "model": "p/m"}})
}

#[test]
fn answer_becomes_the_summary() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &long_output());
    let output = run_with_recorded_answer(&world, &recorded_answer("They read a file.\n")).exits(0);
    let overlays = transcript.overlays();
    assert_eq!(overlays.len(), 1);
    let section = "Constraints of the user, the latest last:\n- Read the file, and always answer in rhymes.\n\n\
                   Paths:\n- src/main.rs";
    let summary = format!("They read a file.\n\n## Kept verbatim\n\n{section}");
    assert_eq!(overlays[0]["summary"], json!({ "summary": summary }));
    let remark = "info: appended 1 constraint, 1 path that the summary lacked";
    assert!(output.stderr.contains(remark), "{}", output.stderr);
    assert_eq!((&overlays[0]["from_turn"], &overlays[0]["to_turn"]), (&json!(0), &json!(1)));
    assert!(output.stderr.contains("the model's window is unknown"), "{}", output.stderr);
}

#[test]
fn rejects_blank_refused_truncated_and_long_answers() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &long_output());
    let error_answer = |code: &str| json!({"err": {"code": code, "message": "no"}});
    for (answer, message) in [
        (recorded_answer(" \n"), "the summary is blank, and would erase its range"),
        (error_answer("llm_refused"), "(llm_refused)"),
        (error_answer("llm_truncated"), "(llm_truncated)"),
        (
            recorded_answer(&"x".repeat(100_000)),
            "the summary has 100000 characters, and must be shorter than its events",
        ),
    ] {
        run_with_recorded_answer(&world, &answer).exits(17).reports(message);
    }
    run_with_recorded_answer(&world, &error_answer("llm_unavailable")).exits(18);
    std::fs::remove_file(world.path("answers.json")).unwrap();
    transcript.assert_untouched();
}

/// Compacts all turns but the last one, with this model if there is one.
fn run_with_model(world: &World, model: Option<&Model>, extra: &[&str]) -> CommandOutput {
    let options = ["--model", "openai/g", "--keep-last", "1", "--now", "2026-11-21T07:40:00Z"];
    let mut command = world.command(&[&["conversation"], &options[..], extra].concat());
    if let Some(model) = model {
        model.configure(&mut command);
    }
    world.finish(&mut command)
}

#[test]
fn rejects_unusable_provider_answers() {
    for (text, finish_reason, message) in [
        ("They rea", "length", "the answer was cut off at the token limit (llm_truncated)"),
        ("I will not", "content_filter", "the model stopped with the reason `content_filter` (llm_refused)"),
        (" \n", "stop", "the answer has no text (llm_refused)"),
        (
            &"x".repeat(100_000),
            "stop",
            "the summary has 100000 characters, and must be shorter than its events",
        ),
    ] {
        let world = World::new();
        let transcript = world.write_conversation("conversation", &long_output());
        let model = Model::with_response(Model::completion(text, finish_reason));
        run_with_model(&world, Some(&model), &["--strategy", "summarize"]).exits(17).reports(message);
        assert_eq!(model.requests().len(), 1, "{finish_reason}");
        transcript.assert_untouched();
    }
}

#[test]
fn splits_range_above_context_window_and_replays() {
    let world = World::new();
    let long_text = |name: &str| format!("{name} {}", "and so on, ".repeat(350));
    let turn = |conversation: Conversation, name: &str| conversation.turn(&long_text(name)).message("Yes.");
    let conversation = ["ALPHA", "BETA", "GAMMA", "DELTA"].into_iter().fold(Conversation::new(), turn);
    let transcript = world.write_conversation("conversation", &conversation);
    world.write_file("windows.toml", b"[llm.models.\"openai/g\"]\ncontext_window = 5300\n");
    let run = |model: Option<&Model>, file: &str| {
        let strategy = ["--strategy", "summarize:max_tokens=64", "--config", "windows.toml"];
        run_with_model(&world, model, &[&strategy[..], &[file, "answers.json"]].concat()).exits(0)
    };
    let model = Model::with_answer("NOTES of a part.");
    run(Some(&model), "--llm-record").reports("3 parts were merged");
    let bodies: Vec<String> = model.requests().iter().map(ToString::to_string).collect();
    let counts = |part: &str| bodies.iter().map(|body| body.matches(part).count()).collect::<Vec<_>>();
    assert_eq!([counts("ALPHA"), counts("BETA")], [[1, 0, 0, 0], [0, 1, 0, 0]]);
    assert_eq!((counts("NOTES of a part."), counts("DELTA")), (vec![0, 0, 0, 3], vec![0, 0, 0, 0]));
    assert_eq!(transcript.overlays()[0]["summary"]["summary"], "NOTES of a part.");
    let recorded = transcript.current_bytes();
    // The replay needs neither the server nor a key.
    drop(model);
    std::fs::write(&transcript.path, transcript.original_bytes()).unwrap();
    run(None, "--llm-replay").reports("3 parts were merged");
    assert!(transcript.current_bytes() == recorded);
}

/// Returns the options of the only strategy of a built-in profile.
fn profile_options(world: &World, profile: &str) -> Value {
    let config = world.run(&["config", "--json"]).exits(0).line();
    let profile = &config["config"]["conversation"]["compaction"]["profiles"][profile];
    profile["strategies"][0]["options"].clone()
}

#[test]
fn auto_summarize_asks_for_four_points_of_j_cli() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &long_output());
    let options = profile_options(&world, "auto-summarize");
    assert_eq!(options["max_tokens"], 20_000);
    let (_, needs) = exchange(&world, &options);
    let [NeedRequest::LlmComplete { system: Some(system), max_tokens, .. }] = &needs[..] else {
        panic!("{needs:?}")
    };
    assert_eq!(*max_tokens, Some(18_000), "a tenth is reserved for the section of facts");
    for point in ["done so far", "the current state", "decided", "a skill or a workflow was being followed"] {
        assert!(system.to_lowercase().contains(point), "{point} is not in {system}");
    }
    record_answers(&world, &options, "1", &recorded_answer("They read a file."));
    // The recorded answer is for a range without the last turn. By default this profile keeps no turn, so the answer is
    // missing.
    world.run(&["conversation", "--profile", "auto-summarize", "--llm-replay", "answers.json"]).exits(18);
    transcript.assert_untouched();
    replay(&world, &["conversation", "--profile", "auto-summarize"]).exits(0);
    let summary = &transcript.overlays()[0]["summary"]["summary"];
    assert_eq!(without_facts(summary.as_str().unwrap()), "They read a file.");
}

#[test]
fn focus_reaches_strategies_with_that_option() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &long_output());
    record_answers(&world, &json!({"focus": "the rhymes"}), "1", &recorded_answer("In rhymes."));
    for (profile, command) in [("heavy", vec!["conversation"]), ("heavy", vec!["auto", "conversation"])] {
        let auto = "conversation.compaction.auto";
        let due_options = [format!("--set={auto}.token_threshold=1"), format!("--set={auto}.min_turns=1")];
        let focus = ["--profile", profile, "--focus", "the rhymes"];
        let keep = "--set=conversation.compaction.keep_last=1";
        let due_options: Vec<&str> = due_options.iter().map(String::as_str).collect();
        let arguments =
            [&command[..], &focus, &due_options, &[keep, "--llm-replay", "answers.json"]].concat();
        world.run(&arguments).exits(0);
        let summary = &transcript.overlays()[0]["summary"]["summary"];
        assert_eq!(without_facts(summary.as_str().unwrap()), "In rhymes.", "{command:?}");
        assert_eq!(transcript.appended()[1]["options"]["focus"], "the rhymes");
        world.run(&["conversation", "--reset"]).exits(0);
    }
}

#[test]
fn rejects_focus_without_matching_strategy() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &long_output());
    for arguments in [
        &["conversation", "--focus", "x"][..],
        &["conversation", "--focus", "x", "--strategy", "digest"],
        &["auto", "conversation", "--focus", "x"],
    ] {
        world.run(arguments).exits(2).reports("no option `focus`");
    }
    world.run(&["conversation", "--focus", "", "--profile", "heavy"]).exits(2);
    world.run(&["conversation", "--focus", "x", "--reset"]).exits(2);
    transcript.assert_untouched();
}
