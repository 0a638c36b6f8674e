//! OpenCode's collapse through the command line, with recorded answers: its pull request's testing steps.

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};

use crate::support::{Conversation, Ran, Transcript, World};

/// Turns of about 500 tokens each, numbered from `first`.
fn grow(conversation: Conversation, first: usize, turns: usize) -> Conversation {
    (first..first + turns).fold(conversation, |conversation, turn| {
        conversation
            .turn(&format!("Request {turn}: never touch vendor/.\n```\nmake step-{turn}\n```"))
            .call("read", json!({"path": format!("{turn}.rs")}), &"o".repeat(900))
            .message(&format!("Answer {turn}. {}", "m".repeat(1000)))
    })
}

fn talk(turns: usize) -> Conversation {
    grow(Conversation::new(), 0, turns)
}

/// Runs it until the model need not be asked any more. Whatever is asked is recorded as answered with the next of
/// these texts, by the request that the run misses.
#[track_caller]
fn answered(world: &World, arguments: &[&str], texts: &[&str]) -> Ran {
    let (mut answers, mut texts) = (serde_json::Map::new(), texts.iter());
    loop {
        world.file("answers.json", Value::Object(answers.clone()).to_string().as_bytes());
        let ran = world.run(&[arguments, &["--llm-replay", "answers.json"]].concat());
        let said = format!("{}{}", ran.text(), ran.stderr);
        let Some((_, rest)) = said.split_once("no answer was recorded for the request ") else {
            assert_eq!(texts.len(), 0, "{} texts were never asked for:\n{said}", texts.len());
            return ran;
        };
        let text = texts.next().unwrap_or_else(|| panic!("it asks for more:\n{said}"));
        answers.insert(rest[..64].to_owned(), json!({"ok": {"text": text, "model": "p/m"}}));
    }
}

const RUN: [&str; 3] = ["conversation", "--profile", "collapse"];
/// Due above 4,000 tokens: 85 % of the window.
const AUTO: [&str; 7] =
    ["auto", "conversation", "--profile", "collapse", "--context-window", "4706", "--json"];

/// The view: who says what, in order, with the turn of the view that it is in.
fn view(world: &World) -> Vec<(u64, String, String)> {
    let ran = world.run(&["print", "conversation", "--compacted", "--json"]).exits(0);
    let view: Vec<Value> = serde_json::from_str(ran.text()).unwrap();
    let text = |event: &Value| {
        ["content", "message"]
            .iter()
            .find_map(|key| Some(event[*key].as_str()?.to_owned()))
            .unwrap_or_default()
    };
    let item = |item: &Value| {
        let event = &item["event"];
        (item["turn"].as_u64().unwrap(), event["type"].as_str().unwrap().to_owned(), text(event))
    };
    view.iter().map(item).collect()
}

fn range(overlay: &Value) -> (u64, u64) {
    (overlay["from_turn"].as_u64().unwrap(), overlay["to_turn"].as_u64().unwrap())
}

#[test]
fn the_method_is_set_in_the_configuration_and_toggled_by_one_key() {
    let world = World::new();
    world.conversation("conversation", &talk(10));
    let profile = |more: &[&str]| {
        let arguments = ["auto", "conversation", "--context-window", "4706", "--json", "--dry-run"];
        world.run(&[&arguments[..], more].concat()).exits(0).line()["profile"].clone()
    };
    assert_eq!(profile(&[]), "default", "it is opted in");
    assert_eq!(profile(&["--set=conversation.compaction.auto.profile=collapse"]), "collapse");
    world.file(".jp-compact.toml", b"[conversation.compaction.auto]\nprofile = \"collapse\"\n");
    world.run(&["config", "trust", "--yes"]).exits(0);
    assert_eq!(profile(&[]), "collapse");
    assert_eq!(profile(&["--set=conversation.compaction.auto.profile=default"]), "default");
}

#[test]
fn a_long_conversation_that_overflows_is_collapsed_and_one_that_does_not_is_left_alone() {
    let world = World::new();
    let transcript = world.conversation("conversation", &talk(7));
    let said = answered(&world, &AUTO, &[]).exits(0).line();
    assert_eq!(said["due"], false, "{said}");
    transcript.assert_untouched();

    let transcript = world.conversation("conversation", &talk(10));
    let said = answered(&world, &AUTO, &["They made steps."]).exits(0).line();
    assert_eq!(said["due"], true, "{said}");
    assert_eq!(range(&transcript.overlays()[0]), (0, 5));
    let again = answered(&world, &AUTO, &[]).exits(0).line();
    assert_eq!(again["due"], false, "{again}");
}

#[test]
fn the_pair_stands_at_the_breakpoint_right_before_the_first_kept_turn() {
    let world = World::new();
    world.conversation("conversation", &talk(10));
    answered(&world, &RUN, &["They made steps."]).exits(0);
    let view = view(&world);
    let kinds: Vec<&str> = view.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(kinds[..3], ["chat_request", "chat_response", "chat_request"]);
    assert_eq!(view[1].2, "They made steps.");
    assert!(view[2].2.starts_with("Request 6:"), "{}", view[2].2);
    assert_eq!((view[0].0, view[1].0, view[2].0), (0, 0, 1));
}

#[test]
fn recent_messages_remain_untouched() {
    let world = World::new();
    let transcript = world.conversation("conversation", &talk(10));
    let before = view(&world);
    answered(&world, &RUN, &["They made steps."]).exits(0);
    let after = view(&world);
    let kept = |view: &[(u64, String, String)]| {
        let from = view.iter().position(|(.., text)| text.starts_with("Request 6:")).unwrap();
        view[from..].iter().map(|(_, kind, text)| (kind.clone(), text.clone())).collect::<Vec<_>>()
    };
    assert_eq!(kept(&after), kept(&before));
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn ten_runs_on_a_growing_conversation_merge_and_never_loop() {
    let world = World::new();
    let mut conversation = talk(10);
    let mut transcript = world.conversation("conversation", &conversation);
    for run in 0..10 {
        let text = format!("Summary {run}.");
        answered(&world, &AUTO, &[&text]).exits(0);
        // Right after it nothing is due, and no model is asked.
        let again = answered(&world, &AUTO, &[]).exits(0).line();
        assert_eq!(again["due"], false, "{again}");
        let overlays = transcript.overlays();
        assert_eq!(overlays.len(), 1, "run {run}");
        assert_eq!(overlays[0]["from_turn"], 0, "each takes the earlier ones in");
        // One pair stands for all that was collapsed.
        let view = view(&world);
        let summaries = view.iter().filter(|(.., text)| text.starts_with("Summary ")).count();
        assert_eq!((summaries, view[1].2.as_str()), (1, text.as_str()));

        let elements: Vec<Value> = serde_json::from_slice(&transcript.now()).unwrap();
        let turns = elements.iter().filter(|element| element["type"] == "turn_start").count();
        let more = grow(Conversation::new(), turns, 5);
        conversation = elements.into_iter().fold(Conversation::new(), Conversation::element);
        conversation = more.elements().iter().cloned().fold(conversation, Conversation::element);
        transcript = world.conversation("conversation", &conversation);
    }
}

#[test]
fn typed_over_and_over_it_ends_when_all_but_the_last_turn_is_summarized() {
    let world = World::new();
    let transcript = world.conversation("conversation", &talk(10));
    let mut ends = Vec::new();
    for run in 0..10 {
        let text = format!("Summary {run}.");
        let before = transcript.overlays().len();
        world.file("answers.json", b"{}");
        let asks = world.run(&[&RUN[..], &["--llm-replay", "answers.json"]].concat()).code == Some(18);
        answered(&world, &RUN, &[&*text][usize::from(!asks)..]).exits(0);
        let overlays = transcript.overlays();
        if overlays.len() > before {
            ends.push(range(overlays.last().unwrap()).1);
        }
    }
    assert!(ends.len() < 10 && ends.windows(2).all(|pair| pair[0] < pair[1]), "{ends:?}");
    assert_eq!(ends.last(), Some(&8), "{ends:?}");
}

/// The exchange with a strategy over all turns: the header it is sent, and what it asks.
fn exchange(world: &World, strategy: &str) -> (Value, String) {
    let _ = std::fs::remove_file(world.path("record"));
    let path = cargo_bin(format!("compact-strategy-{strategy}"));
    let arguments = ["strategy", "run", path.to_str().unwrap(), "conversation", "--sandbox=contained"];
    world.run(&[&arguments[..], &["--keep-last", "0", "--record", "record"]].concat()).exits(0);
    let record = std::fs::read_to_string(world.path("record")).unwrap();
    let lines: Vec<Value> = record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let parsed = |line: &Value| serde_json::from_str::<Value>(line["line"].as_str()?).ok();
    let header = lines.iter().filter_map(parsed).find(|message| message["type"] == "compact").unwrap();
    let asked = lines.iter().filter(|line| line["from"] == "strategy").filter_map(parsed);
    let asked: Vec<String> = asked
        .filter(|message| message["type"] == "needs")
        .map(|needs| needs["requests"].to_string())
        .collect();
    (header, asked.concat())
}

#[test]
fn earlier_summaries_are_merged_into_the_new_one_beside_the_raw_events_and_reach_nobody_else() {
    const EARLIER: &str = "The older summary says so.";
    let world = World::new();
    let conversation =
        talk(10).compaction(json!({"from_turn": 0, "to_turn": 2, "summary": {"summary": EARLIER}}));
    let transcript = world.conversation("conversation", &conversation);
    let (header, asked) = exchange(&world, "collapse");
    assert_eq!(header["context"]["previous_summaries"][0]["text"], EARLIER);
    for shown in [EARLIER, "Answer 0.", "Answer 2.", "make step-1"] {
        assert!(asked.contains(shown), "{shown}");
    }
    let (header, asked) = exchange(&world, "summarize");
    assert!(asked.contains("Answer 0.") && !asked.contains(EARLIER) && !header.to_string().contains(EARLIER));

    answered(&world, &RUN, &["Merged."]).exits(0);
    assert_eq!(range(&transcript.overlays()[0]), (0, 6));
    let view = view(&world);
    assert_eq!(view[1].2, "Merged.");
    assert!(view.iter().all(|(.., text)| text != EARLIER));
}

#[test]
fn a_code_block_that_nobody_wrote_is_asked_for_again_and_then_refused() {
    let world = World::new();
    let transcript = world.conversation("conversation", &talk(10));
    let (right, wrong) = ("Run:\n```\nmake step-1\n```", "Run:\n```\nmake step-one\n```");
    answered(&world, &RUN, &[wrong, wrong])
        .exits(17)
        .says("stands neither in the turns nor in an earlier summary");
    transcript.assert_untouched();
    answered(&world, &RUN, &[wrong, right]).exits(0);
    assert_eq!(transcript.overlays()[0]["summary"]["summary"], right);
}

#[test]
fn a_refused_summary_leaves_auto_going_on_as_it_was() {
    let world = World::new();
    let transcript = world.conversation("conversation", &talk(10));
    let wrong = "Run:\n```\nmake step-one\n```";
    let said = answered(&world, &AUTO, &[wrong, wrong]).exits(0).line();
    assert!(said["warning"].as_str().unwrap().contains("answer_refused"), "{said}");
    transcript.assert_untouched();
}

#[test]
fn fewer_than_two_turns_are_left_alone() {
    let world = World::new();
    let transcript: Transcript = world.conversation("conversation", &talk(1));
    answered(&world, &RUN, &[]).exits(0).says("fewer than two turns");
    transcript.assert_untouched();
}

#[test]
fn an_older_summary_that_the_cut_would_split_is_taken_in_whole() {
    let world = World::new();
    let older = |from: usize, to: usize, text: String| json!({"from_turn": from, "to_turn": to, "summary": {"summary": text}});
    // The second hides the middle of the first, so that the view shows the first twice.
    let conversation =
        talk(12).compaction(older(2, 9, "a".repeat(2000))).compaction(older(5, 6, "b".to_owned()));
    let transcript = world.conversation("conversation", &conversation);
    // Asked for turns 0 to 6, and once more for what the host has closed.
    answered(&world, &RUN, &["To turn 6.", "To turn 9."]).exits(0);
    let overlays = transcript.overlays();
    assert_eq!((range(&overlays[0]), &overlays[0]["summary"]["summary"]), ((0, 9), &json!("To turn 9.")));
}

#[test]
fn a_fork_of_a_collapsed_conversation_works_and_is_collapsed_on_its_own() {
    let world = World::new();
    let source = world.conversation("source", &talk(10));
    answered(&world, &["source", "--profile", "collapse"], &["They made steps."]).exits(0);
    let collapsed = source.now();
    let sent = |transcript: &str| world.run(&["print", transcript, "--compacted"]).exits(0).text().to_owned();

    world.run(&["fork", "source", "conversation"]).exits(0);
    assert_eq!(sent("conversation"), sent("source"));
    assert_eq!(view(&world)[1].2, "They made steps.");

    // It goes on by itself: the summary that it was given is merged into its next one.
    let events = std::fs::read(world.path("conversation/events.json")).unwrap();
    let elements: Vec<Value> = serde_json::from_slice(&events).unwrap();
    let forked = elements.into_iter().fold(Conversation::new(), Conversation::element);
    let more = grow(Conversation::new(), 10, 5);
    let forked = more.elements().iter().cloned().fold(forked, Conversation::element);
    let transcript = world.conversation("conversation", &forked);
    let (header, asked) = exchange(&world, "collapse");
    assert_eq!(header["context"]["previous_summaries"][0]["text"], "They made steps.");
    assert!(asked.contains("They made steps.") && asked.contains("Answer 0."), "raw events are there, too");
    let said = answered(&world, &AUTO, &["They made more steps."]).exits(0).line();
    assert_eq!(said["due"], true, "{said}");
    assert_eq!(range(&transcript.overlays()[0]).0, 0);
    let texts: Vec<String> = view(&world).into_iter().map(|(.., text)| text).collect();
    assert_eq!(texts[1], "They made more steps.");
    assert!(!texts.contains(&"They made steps.".to_owned()));
    assert!(source.now() == collapsed, "the source is as it was");
}

#[test]
fn a_fork_of_the_kept_turns_has_no_summary_and_says_so() {
    let world = World::new();
    world.conversation("source", &talk(10));
    answered(&world, &["source", "--profile", "collapse"], &["They made steps."]).exits(0);
    let ran = world.run(&["fork", "source", "conversation", "--last", "5"]).exits(0);
    let ran = ran.says("the summary of turns 0-5 (overlay 1) is dropped");
    assert!(ran.text().is_empty());
    let view = view(&world);
    assert!(view[0].2.starts_with("Request 5:") && view.iter().all(|(.., text)| text != "They made steps."));
}
