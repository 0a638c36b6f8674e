//! The summary that a model writes: what is put to the model, from a conversation as JP stores it.

use assert_cmd::cargo::cargo_bin;
use jp_compact_engine::session::key;
use jp_compact_schema::{NeedRequest, Needs};
use serde_json::{Value, json};

use crate::support::{Conversation, Model, Ran, World};

const OLDER: &str = "An older summary, which no summariser reads.";

/// The exchange with `summarize` over all turns but the last: every line, and what is asked of the model.
fn exchange(world: &World, options: &Value) -> (String, Vec<NeedRequest>) {
    exchange_keeping(world, options, "1")
}

fn exchange_keeping(world: &World, options: &Value, last: &str) -> (String, Vec<NeedRequest>) {
    let strategy = cargo_bin("compact-strategy-summarize");
    let options = options.to_string();
    let record = world.path("record");
    let _ = std::fs::remove_file(&record);
    let arguments = ["strategy", "run", strategy.to_str().unwrap(), "conversation", "--sandbox=contained"];
    let more = ["--keep-last", last, "--options", &options, "--record", "record"];
    world.run(&[&arguments[..], &more].concat()).exits(0);
    let record = std::fs::read_to_string(record).unwrap();
    let lines = record.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let heard = lines.filter(|line| line["from"] == "strategy");
    let needs = heard.filter_map(|line| serde_json::from_str::<Needs>(line["line"].as_str()?).ok());
    (record.clone(), needs.flat_map(|needs| needs.requests.into_values()).collect())
}

fn conversation() -> Conversation {
    talk().compaction(json!({"from_turn": 0, "to_turn": 1, "summary": {"summary": OLDER}}))
}

fn talk() -> Conversation {
    Conversation::new()
        .turn("Read the file, and always answer in rhymes.")
        .call("fs_read_file", json!({"path": "src/main.rs"}), &format!("HEAD{}TAIL", "x".repeat(90_000)))
        .message("It prints a greeting.")
        .whole_turn()
        .whole_turn()
}

#[test]
fn a_summary_is_never_fed_to_a_summariser() {
    let world = World::new();
    world.conversation("conversation", &conversation());
    let (record, needs) = exchange(&world, &json!({}));
    let [NeedRequest::LlmComplete { system: Some(system), messages, .. }] = &needs[..] else {
        panic!("{needs:?}")
    };
    let content = &messages[0].content;
    for raw in ["always answer in rhymes", "It prints a greeting.", "println!", "HEADxxx", "xxxTAIL"] {
        assert!(content.contains(raw), "{raw}");
    }
    assert!(content.len() < 10_000, "long output is shortened: {}", content.len());
    assert!(!format!("{system}{content}").contains(OLDER));
    assert!(!record.contains(OLDER), "not even the strategy is sent it");
}

#[test]
fn options_reach_the_model() {
    let world = World::new();
    world.conversation("conversation", &conversation());
    let options =
        json!({"model": "p/m", "instructions": "Only the paths.", "focus": "main.rs", "max_tokens": 77});
    let (_, needs) = exchange(&world, &options);
    let [NeedRequest::LlmComplete { model, system: Some(system), max_tokens, .. }] = &needs[..] else {
        panic!("{needs:?}")
    };
    assert_eq!((model.as_deref(), *max_tokens), (Some("p/m"), Some(77)));
    assert!(system.contains("Only the paths.") && system.contains("main.rs"), "{system}");
}

#[test]
fn an_option_that_it_does_not_know_is_wrong_usage() {
    let world = World::new();
    let transcript = world.conversation("conversation", &conversation());
    for option in ["modell=p/m", "max_tokens=0", "max_tokens=many"] {
        let spec = format!("summarize:{option}");
        world.run(&["conversation", "--strategy", &spec]).exits(2);
    }
    transcript.assert_untouched();
}

/// Writes `answers.json`: what a model answers that is asked with these options for all but the last turns.
pub(crate) fn record(world: &World, options: &Value, last: &str, answer: &Value) {
    let (_, needs) = exchange_keeping(world, options, last);
    let answers: serde_json::Map<_, _> = needs.iter().map(|need| (key(need), answer.clone())).collect();
    world.file("answers.json", Value::Object(answers).to_string().as_bytes());
}

/// Compacts all turns but the last, the model having answered so.
fn replayed(world: &World, answer: &Value) -> Ran {
    record(world, &json!({}), "1", answer);
    let arguments = ["conversation", "--strategy", "summarize", "--keep-last", "1"];
    world.run(&[&arguments[..], &["--llm-replay", "answers.json"]].concat())
}

fn replay(world: &World, arguments: &[&str]) -> Ran {
    world.run(&[arguments, &["--keep-last", "1", "--llm-replay", "answers.json"]].concat())
}

pub(crate) fn says(text: &str) -> Value {
    json!({"ok": {"text": text, "model": "p/m"}})
}

#[test]
fn what_the_model_wrote_stands_for_the_turns() {
    let world = World::new();
    let transcript = world.conversation("conversation", &talk());
    let ran = replayed(&world, &says("They read a file.\n")).exits(0);
    let overlays = transcript.overlays();
    assert_eq!(overlays.len(), 1);
    assert_eq!(overlays[0]["summary"], json!({"summary": "They read a file."}));
    assert_eq!((&overlays[0]["from_turn"], &overlays[0]["to_turn"]), (&json!(0), &json!(1)));
    assert!(ran.stderr.contains("how much the model reads is not known"), "{}", ran.stderr);
}

#[test]
fn a_summary_that_is_blank_refused_cut_off_or_too_long_is_refused() {
    let world = World::new();
    let transcript = world.conversation("conversation", &talk());
    let err = |code: &str| json!({"err": {"code": code, "message": "no"}});
    for (answer, words) in [
        (says(" \n"), "a blank summary would erase its range"),
        (err("llm_refused"), "(llm_refused)"),
        (err("llm_truncated"), "(llm_truncated)"),
        (says(&"x".repeat(100_000)), "a summary of 100000 characters for events of "),
    ] {
        replayed(&world, &answer).exits(17).says(words);
    }
    replayed(&world, &err("llm_unavailable")).exits(18);
    std::fs::remove_file(world.path("answers.json")).unwrap();
    transcript.assert_untouched();
}

/// Compacts all turns but the last, as a model of its own answers or as a file does.
fn asked(world: &World, model: Option<&Model>, more: &[&str]) -> Ran {
    let fixed = ["--model", "openai/g", "--keep-last", "1", "--now", "2026-11-21T07:40:00Z"];
    let mut command = world.command(&[&["conversation"], &fixed[..], more].concat());
    if let Some(model) = model {
        model.of(&mut command);
    }
    world.finish(&mut command)
}

#[test]
fn what_a_provider_did_not_end_well_is_refused() {
    for (text, finish, words) in [
        ("They rea", "length", "its answer was cut off at the limit of tokens (llm_truncated)"),
        ("I will not", "content_filter", "it stopped for `content_filter` (llm_refused)"),
        (" \n", "stop", "its answer holds no text (llm_refused)"),
        (&"x".repeat(100_000), "stop", "a summary of 100000 characters for events of "),
    ] {
        let world = World::new();
        let transcript = world.conversation("conversation", &talk());
        let model = Model::answering(Model::says(text, finish));
        asked(&world, Some(&model), &["--strategy", "summarize"]).exits(17).says(words);
        assert_eq!(model.asked().len(), 1, "{finish}");
        transcript.assert_untouched();
    }
}

#[test]
fn a_range_larger_than_the_window_is_done_in_parts_and_replayed_without_a_network() {
    let world = World::new();
    let long = |name: &str| format!("{name} {}", "and so on, ".repeat(350));
    let turn = |conversation: Conversation, name: &str| conversation.turn(&long(name)).message("Yes.");
    let conversation = ["ALPHA", "BETA", "GAMMA"].into_iter().fold(Conversation::new(), turn);
    let transcript = world.conversation("conversation", &conversation);
    world.file("windows.toml", b"[llm.models.\"openai/g\"]\ncontext_window = 2600\n");
    let run = |model: Option<&Model>, file: &str| {
        let strategy = ["--strategy", "summarize:max_tokens=64", "--config", "windows.toml"];
        asked(&world, model, &[&strategy[..], &[file, "answers.json"]].concat()).exits(0)
    };
    let model = Model::saying("NOTES of a part.");
    run(Some(&model), "--llm-record").says("2 parts were merged");
    let bodies: Vec<String> = model.asked().iter().map(ToString::to_string).collect();
    let holds = |part: &str| bodies.iter().map(|body| body.matches(part).count()).collect::<Vec<_>>();
    assert_eq!([holds("ALPHA"), holds("BETA")], [[1, 0, 0], [0, 1, 0]]);
    assert_eq!((holds("NOTES of a part."), holds("GAMMA")), (vec![0, 0, 2], vec![0, 0, 0]));
    assert_eq!(transcript.overlays()[0]["summary"]["summary"], "NOTES of a part.");
    let recorded = transcript.now();
    // Nobody is there any more, and there is no key.
    drop(model);
    std::fs::write(&transcript.path, transcript.before()).unwrap();
    run(None, "--llm-replay").says("2 parts were merged");
    assert!(transcript.now() == recorded);
}

/// The options of the one strategy of a built-in profile.
fn options_of(world: &World, profile: &str) -> Value {
    let config = world.run(&["config", "--json"]).exits(0).line();
    let profile = &config["config"]["conversation"]["compaction"]["profiles"][profile];
    profile["strategies"][0]["options"].clone()
}

#[test]
fn j_clis_second_layer_asks_for_its_four_points_and_leaves_one_pair() {
    let world = World::new();
    let transcript = world.conversation("conversation", &talk());
    let options = options_of(&world, "auto-summarize");
    assert_eq!(options["max_tokens"], 20_000);
    let (_, needs) = exchange(&world, &options);
    let [NeedRequest::LlmComplete { system: Some(system), max_tokens, .. }] = &needs[..] else {
        panic!("{needs:?}")
    };
    assert_eq!(*max_tokens, Some(20_000));
    for point in
        ["done so far", "how things stand now", "decided", "a skill or a workflow was being followed"]
    {
        assert!(system.to_lowercase().contains(point), "{point} is not in {system}");
    }
    record(&world, &options, "1", &says("They read a file."));
    // Without a `--keep-last` nothing is kept: two messages are left of the conversation.
    world.run(&["conversation", "--profile", "auto-summarize", "--llm-replay", "answers.json"]).exits(18);
    transcript.assert_untouched();
    replay(&world, &["conversation", "--profile", "auto-summarize"]).exits(0);
    assert_eq!(transcript.overlays()[0]["summary"]["summary"], "They read a file.");
}

#[test]
fn a_focus_reaches_the_strategies_that_have_one() {
    let world = World::new();
    let transcript = world.conversation("conversation", &talk());
    record(&world, &json!({"focus": "the rhymes"}), "1", &says("In rhymes."));
    for (profile, more) in [("heavy", vec!["conversation"]), ("heavy", vec!["auto", "conversation"])] {
        let set = "conversation.compaction.auto";
        let due = [format!("--set={set}.token_threshold=1"), format!("--set={set}.min_turns=1")];
        let focus = ["--profile", profile, "--focus", "the rhymes"];
        let keep = "--set=conversation.compaction.keep_last=1";
        let due: Vec<&str> = due.iter().map(String::as_str).collect();
        let arguments = [&more[..], &focus, &due, &[keep, "--llm-replay", "answers.json"]].concat();
        world.run(&arguments).exits(0);
        assert_eq!(transcript.overlays()[0]["summary"]["summary"], "In rhymes.", "{more:?}");
        assert_eq!(transcript.appended()[1]["options"]["focus"], "the rhymes");
        world.run(&["conversation", "--reset"]).exits(0);
    }
}

#[test]
fn a_focus_that_nobody_hears_of_is_wrong_usage() {
    let world = World::new();
    let transcript = world.conversation("conversation", &talk());
    for arguments in [
        &["conversation", "--focus", "x"][..],
        &["conversation", "--focus", "x", "--strategy", "digest"],
        &["auto", "conversation", "--focus", "x"],
    ] {
        world.run(arguments).exits(2).says("no strategy of the run has an option `focus`");
    }
    world.run(&["conversation", "--focus", "", "--profile", "heavy"]).exits(2);
    world.run(&["conversation", "--focus", "x", "--reset"]).exits(2);
    transcript.assert_untouched();
}
