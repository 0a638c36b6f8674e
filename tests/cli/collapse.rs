//! The `collapse` strategy with recorded answers. The tests follow the testing steps of OpenCode's pull request.

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};

use crate::support::{CommandOutput, Conversation, Transcript, World, without_facts};

/// Adds turns of about 1,100 tokens each, numbered from `first`.
fn grow(conversation: Conversation, first: usize, turns: usize) -> Conversation {
    (first..first + turns).fold(conversation, |conversation, turn| {
        conversation
            .turn(&format!("Request {turn}: never touch vendor/.\n```\nmake step-{turn}\n```"))
            .call("read", json!({"path": format!("{turn}.rs")}), &"o".repeat(900))
            .message(&format!("Answer {turn}. {}", "m".repeat(1000)))
    })
}

fn long_conversation(turns: usize) -> Conversation {
    grow(Conversation::new(), 0, turns)
}

/// Repeats a run until no answer is missing. Each missing answer is recorded with the next of these texts, under the
/// digest that the run reports.
#[track_caller]
fn run_with_answers(world: &World, arguments: &[&str], texts: &[&str]) -> CommandOutput {
    let (mut answers, mut texts) = (serde_json::Map::new(), texts.iter());
    loop {
        world.write_file("answers.json", Value::Object(answers.clone()).to_string().as_bytes());
        let output = world.run(&[arguments, &["--llm-replay", "answers.json"]].concat());
        let printed = format!("{}{}", output.text(), output.stderr);
        let Some((_, rest)) = printed.split_once("no answer was recorded for the request ") else {
            assert_eq!(texts.len(), 0, "{} texts were not used:\n{printed}", texts.len());
            return output;
        };
        let text = texts.next().unwrap_or_else(|| panic!("the run needs another answer:\n{printed}"));
        answers.insert(rest[..64].to_owned(), json!({"ok": {"text": text, "model": "p/m"}}));
    }
}

const RUN: [&str; 3] = ["conversation", "--profile", "collapse"];
/// Arguments with which a conversation is due above 9,000 tokens, which is 85 % of the window.
const AUTO: [&str; 7] =
    ["auto", "conversation", "--profile", "collapse", "--context-window", "10588", "--json"];

/// Returns the turn, the type and the text of each event of the view.
fn view(world: &World) -> Vec<(u64, String, String)> {
    let output = world.run(&["print", "conversation", "--compacted", "--json"]).exits(0);
    let view: Vec<Value> = serde_json::from_str(output.text()).unwrap();
    let event_text = |event: &Value| {
        ["content", "message"]
            .iter()
            .find_map(|key| Some(event[*key].as_str()?.to_owned()))
            .unwrap_or_default()
    };
    let describe = |item: &Value| {
        let event = &item["event"];
        (item["turn"].as_u64().unwrap(), event["type"].as_str().unwrap().to_owned(), event_text(event))
    };
    view.iter().map(describe).collect()
}

fn range(overlay: &Value) -> (u64, u64) {
    (overlay["from_turn"].as_u64().unwrap(), overlay["to_turn"].as_u64().unwrap())
}

#[test]
fn one_configuration_key_enables_collapse() {
    let world = World::new();
    world.write_conversation("conversation", &long_conversation(10));
    let profile = |extra: &[&str]| {
        let arguments = ["auto", "conversation", "--context-window", "10588", "--json", "--dry-run"];
        world.run(&[&arguments[..], extra].concat()).exits(0).line()["profile"].clone()
    };
    assert_eq!(profile(&[]), "default", "collapse must not be the default");
    assert_eq!(profile(&["--set=conversation.compaction.auto.profile=collapse"]), "collapse");
    world.write_file(".jp-compact.toml", b"[conversation.compaction.auto]\nprofile = \"collapse\"\n");
    world.run(&["config", "trust", "--yes"]).exits(0);
    assert_eq!(profile(&[]), "collapse");
    assert_eq!(profile(&["--set=conversation.compaction.auto.profile=default"]), "default");
}

#[test]
fn collapses_only_conversations_above_threshold() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &long_conversation(7));
    let output = run_with_answers(&world, &AUTO, &[]).exits(0).line();
    assert_eq!(output["due"], false, "{output}");
    transcript.assert_untouched();

    let transcript = world.write_conversation("conversation", &long_conversation(10));
    let output = run_with_answers(&world, &AUTO, &["They made steps."]).exits(0).line();
    assert_eq!(output["due"], true, "{output}");
    assert_eq!(range(&transcript.overlays()[0]), (0, 6));
    let second_run = run_with_answers(&world, &AUTO, &[]).exits(0).line();
    assert_eq!(second_run["due"], false, "{second_run}");
}

#[test]
fn summary_pair_directly_precedes_first_kept_turn() {
    let world = World::new();
    world.write_conversation("conversation", &long_conversation(10));
    run_with_answers(&world, &RUN, &["They made steps."]).exits(0);
    let view = view(&world);
    let kinds: Vec<&str> = view.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(kinds[..3], ["chat_request", "chat_response", "chat_request"]);
    assert_eq!(without_facts(&view[1].2), "They made steps.");
    assert!(view[2].2.starts_with("Request 7:"), "{}", view[2].2);
    assert_eq!((view[0].0, view[1].0, view[2].0), (0, 0, 1));
}

#[test]
fn keeps_recent_messages() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &long_conversation(10));
    let before = view(&world);
    run_with_answers(&world, &RUN, &["They made steps."]).exits(0);
    let after = view(&world);
    let events_from_turn_7 = |view: &[(u64, String, String)]| {
        let start = view.iter().position(|(.., text)| text.starts_with("Request 7:")).unwrap();
        view[start..].iter().map(|(_, kind, text)| (kind.clone(), text.clone())).collect::<Vec<_>>()
    };
    assert_eq!(events_from_turn_7(&after), events_from_turn_7(&before));
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn repeated_runs_merge_summaries_without_looping() {
    let world = World::new();
    let mut conversation = long_conversation(10);
    let mut transcript = world.write_conversation("conversation", &conversation);
    for run in 0..10 {
        let text = format!("Summary {run}.");
        run_with_answers(&world, &AUTO, &[&text]).exits(0);
        // Directly afterwards nothing is due, and no request is sent.
        let second_run = run_with_answers(&world, &AUTO, &[]).exits(0).line();
        assert_eq!(second_run["due"], false, "{second_run}");
        let overlays = transcript.overlays();
        assert_eq!(overlays.len(), 1, "run {run}");
        assert_eq!(overlays[0]["from_turn"], 0, "the new summary must include the earlier ones");
        // One pair replaces all collapsed turns.
        let view = view(&world);
        let summaries = view.iter().filter(|(.., text)| text.starts_with("Summary ")).count();
        assert_eq!((summaries, without_facts(&view[1].2)), (1, text.as_str()));

        let elements: Vec<Value> = serde_json::from_slice(&transcript.current_bytes()).unwrap();
        let turns = elements.iter().filter(|element| element["type"] == "turn_start").count();
        let added = grow(Conversation::new(), turns, 7);
        conversation = elements.into_iter().fold(Conversation::new(), Conversation::element);
        conversation = added.elements().iter().cloned().fold(conversation, Conversation::element);
        transcript = world.write_conversation("conversation", &conversation);
    }
}

#[test]
fn manual_runs_stop_when_only_last_turn_remains() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &long_conversation(10));
    let mut last_turns = Vec::new();
    for run in 0..10 {
        let text = format!("Summary {run}.");
        let before = transcript.overlays().len();
        world.write_file("answers.json", b"{}");
        let needs_answer =
            world.run(&[&RUN[..], &["--llm-replay", "answers.json"]].concat()).code == Some(18);
        run_with_answers(&world, &RUN, &[&*text][usize::from(!needs_answer)..]).exits(0);
        let overlays = transcript.overlays();
        if overlays.len() > before {
            last_turns.push(range(overlays.last().unwrap()).1);
        }
    }
    assert!(last_turns.len() < 10 && last_turns.windows(2).all(|pair| pair[0] < pair[1]), "{last_turns:?}");
    assert_eq!(last_turns.last(), Some(&8), "{last_turns:?}");
}

/// Runs a strategy over all turns. Returns the header that it receives, and the requests that it sends.
fn record_exchange(world: &World, strategy: &str) -> (Value, String) {
    let _ = std::fs::remove_file(world.path("record"));
    let path = cargo_bin(format!("compact-strategy-{strategy}"));
    let arguments = ["strategy", "run", path.to_str().unwrap(), "conversation", "--sandbox=contained"];
    world.run(&[&arguments[..], &["--keep-last", "0", "--record", "record"]].concat()).exits(0);
    let record = std::fs::read_to_string(world.path("record")).unwrap();
    let lines: Vec<Value> = record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let parse_message = |line: &Value| serde_json::from_str::<Value>(line["line"].as_str()?).ok();
    let header = lines.iter().filter_map(parse_message).find(|message| message["type"] == "compact").unwrap();
    let requests = lines.iter().filter(|line| line["from"] == "strategy").filter_map(parse_message);
    let requests: Vec<String> = requests
        .filter(|message| message["type"] == "needs")
        .map(|needs| needs["requests"].to_string())
        .collect();
    (header, requests.concat())
}

#[test]
fn only_collapse_receives_earlier_summaries() {
    const EARLIER: &str = "The older summary says so.";
    let world = World::new();
    let conversation = long_conversation(10)
        .compaction(json!({"from_turn": 0, "to_turn": 2, "summary": {"summary": EARLIER}}));
    let transcript = world.write_conversation("conversation", &conversation);
    let (header, requests) = record_exchange(&world, "collapse");
    assert_eq!(header["context"]["previous_summaries"][0]["text"], EARLIER);
    for part in [EARLIER, "Answer 0.", "Answer 2.", "make step-1"] {
        assert!(requests.contains(part), "{part}");
    }
    let (header, requests) = record_exchange(&world, "summarize");
    assert!(
        requests.contains("Answer 0.")
            && !requests.contains(EARLIER)
            && !header.to_string().contains(EARLIER)
    );

    run_with_answers(&world, &RUN, &["Merged."]).exits(0);
    assert_eq!(range(&transcript.overlays()[0]), (0, 7));
    let view = view(&world);
    assert_eq!(without_facts(&view[1].2), "Merged.");
    assert!(view.iter().all(|(.., text)| text != EARLIER));
}

#[test]
fn invented_code_block_is_retried_then_rejected() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &long_conversation(10));
    let (quoted, invented) = ("Run:\n```\nmake step-1\n```", "Run:\n```\nmake step-one\n```");
    run_with_answers(&world, &RUN, &[invented, invented])
        .exits(17)
        .reports("is neither in the turns nor in an earlier summary");
    transcript.assert_untouched();
    run_with_answers(&world, &RUN, &[invented, quoted]).exits(0);
    let summary = &transcript.overlays()[0]["summary"]["summary"];
    assert_eq!(without_facts(summary.as_str().unwrap()), quoted);
}

#[test]
fn rejected_summary_is_only_a_warning_in_auto() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &long_conversation(10));
    let invented = "Run:\n```\nmake step-one\n```";
    let output = run_with_answers(&world, &AUTO, &[invented, invented]).exits(0).line();
    assert!(output["warning"].to_string().contains("answer_refused"), "{output}");
    transcript.assert_untouched();
}

#[test]
fn declines_fewer_than_two_turns() {
    let world = World::new();
    let transcript: Transcript = world.write_conversation("conversation", &long_conversation(1));
    run_with_answers(&world, &RUN, &[]).exits(0).reports("fewer than two turns");
    transcript.assert_untouched();
}

#[test]
fn includes_older_summary_that_range_would_split() {
    let world = World::new();
    let summary = |from: usize, to: usize, text: String| json!({"from_turn": from, "to_turn": to, "summary": {"summary": text}});
    // The second summary covers a part of the first. The view shows the first one twice.
    let conversation = long_conversation(12).compaction(summary(6, 9, "a".repeat(2000))).compaction(summary(
        8,
        8,
        "b".to_owned(),
    ));
    let transcript = world.write_conversation("conversation", &conversation);
    // The first request is for turns 0 to 7, the second one for the range that the host extended.
    run_with_answers(&world, &RUN, &["To turn 7.", "To turn 9."]).exits(0);
    let overlays = transcript.overlays();
    let summary = overlays[0]["summary"]["summary"].as_str().unwrap();
    assert_eq!((range(&overlays[0]), without_facts(summary)), ((0, 9), "To turn 9."));
}

#[test]
fn fork_of_collapsed_conversation_collapses_independently() {
    let world = World::new();
    let source = world.write_conversation("source", &long_conversation(10));
    run_with_answers(&world, &["source", "--profile", "collapse"], &["They made steps."]).exits(0);
    let collapsed = source.current_bytes();
    let compacted_view =
        |transcript: &str| world.run(&["print", transcript, "--compacted"]).exits(0).text().to_owned();

    world.run(&["fork", "source", "conversation"]).exits(0);
    assert_eq!(compacted_view("conversation"), compacted_view("source"));
    assert_eq!(without_facts(&view(&world)[1].2), "They made steps.");

    // The fork continues on its own. Its next summary includes the summary that it inherited.
    let events = std::fs::read(world.path("conversation/events.json")).unwrap();
    let elements: Vec<Value> = serde_json::from_slice(&events).unwrap();
    let forked = elements.into_iter().fold(Conversation::new(), Conversation::element);
    let added = grow(Conversation::new(), 10, 6);
    let forked = added.elements().iter().cloned().fold(forked, Conversation::element);
    let transcript = world.write_conversation("conversation", &forked);
    let (header, requests) = record_exchange(&world, "collapse");
    let earlier = header["context"]["previous_summaries"][0]["text"].as_str().unwrap();
    assert!(without_facts(earlier) == "They made steps." && earlier.contains("- 6.rs"), "{earlier}");
    assert!(
        requests.contains("They made steps.") && requests.contains("Answer 0."),
        "raw events must be sent as well"
    );
    assert!(!requests.contains("Kept verbatim"), "the model must not be sent the section");
    let output = run_with_answers(&world, &AUTO, &["They made more steps."]).exits(0).line();
    assert_eq!(output["due"], true, "{output}");
    assert_eq!(range(&transcript.overlays()[0]).0, 0);
    let texts: Vec<String> = view(&world).into_iter().map(|(.., text)| text).collect();
    assert_eq!(without_facts(&texts[1]), "They made more steps.");
    assert!(!texts.concat().contains("They made steps."));
    assert!(source.current_bytes() == collapsed, "the source changed");
}

#[test]
fn fork_of_kept_turns_reports_dropped_summary() {
    let world = World::new();
    world.write_conversation("source", &long_conversation(10));
    run_with_answers(&world, &["source", "--profile", "collapse"], &["They made steps."]).exits(0);
    let output = world.run(&["fork", "source", "conversation", "--last", "5"]).exits(0);
    let output = output.reports("dropped the summary of turns 0-6 (overlay 1)");
    assert!(output.text().is_empty());
    let view = view(&world);
    assert!(
        view[0].2.starts_with("Request 5:")
            && view.iter().all(|(.., text)| !text.contains("They made steps."))
    );
}
