//! J-CLI's first layer on conversations as JP stores them: placeholders for old and long results of tools.

use serde_json::{Value, json};

use crate::support::{Conversation, Transcript, World};

/// One turn with so many calls of `Read`, each with a result of so many bytes.
fn reads(conversation: Conversation, calls: usize, bytes: usize) -> Conversation {
    (0..calls).fold(conversation, |conversation, number| {
        conversation.call("Read", json!({"path": format!("src/{number}.rs")}), &"x".repeat(bytes))
    })
}

/// The results that the view shows, in order.
fn results(world: &World) -> Vec<String> {
    let ran = world.run(&["print", "conversation", "--compacted", "--json"]).exits(0);
    let view: Vec<Value> = serde_json::from_str(ran.text()).unwrap();
    let events = view.iter().map(|item| &item["event"]);
    let responses = events.filter(|event| event["type"] == "tool_call_response");
    responses.map(|event| event["content"].as_str().unwrap().to_owned()).collect()
}

fn seqs(transcript: &Transcript) -> Vec<Vec<u64>> {
    let listed = |overlay: &Value| {
        let calls = overlay["tool_calls"]["calls"].as_array().unwrap();
        calls.iter().map(|call| call["seq"].as_u64().unwrap()).collect()
    };
    transcript.overlays().iter().map(listed).collect()
}

#[test]
fn the_three_calls_of_j_clis_example_are_replaced_but_for_the_skill() {
    let (listing, content, skill) = ("l".repeat(1500), "c".repeat(2000), "s".repeat(3000));
    let example = Conversation::new()
        .turn("Find the parser.")
        .message("I'll search for that file")
        .call("Bash", json!({"command": "ls -R"}), &listing)
        .message("Found 3 matches, let me read them")
        .call("Read", json!({"path": "src/parse.rs"}), &content)
        .message("I'm loading the skill")
        .call("LoadSkill", json!({"name": "review"}), &skill);
    let world = World::new();
    let transcript = world.conversation("conversation", &reads(example, 3, 900));
    let spec = "micro:keep_recent=3";
    world.run(&["conversation", "--strategy", spec, "--keep-last", "0"]).exits(0);
    let recent = "x".repeat(900);
    let expect = ["[Previous: used Bash]", "[Previous: used Read]", &skill, &recent, &recent, &recent];
    assert_eq!(results(&world), expect);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn the_profile_keeps_ten_results_and_those_of_800_bytes() {
    let world = World::new();
    let conversation = reads(Conversation::new().turn("Look."), 1, 800);
    let conversation = reads(reads(conversation, 2, 801), 10, 5000);
    world.conversation("conversation", &conversation);
    world.run(&["conversation", "--profile", "micro"]).exits(0);
    let results = results(&world);
    let lengths: Vec<usize> = results.iter().map(String::len).collect();
    // What counts is the text, not its base64 in the file.
    assert_eq!(lengths[..4], [800, 21, 21, 5000]);
    assert_eq!(lengths[3..], [5000; 10]);
}

#[test]
fn what_was_replaced_is_not_proposed_again_and_what_has_become_old_is() {
    let world = World::new();
    let conversation = reads(Conversation::new().turn("Look."), 12, 900);
    world.conversation("conversation", &conversation);
    let run = || world.run(&["conversation", "--profile", "micro"]).exits(0);
    run();
    run().says("declined: the view shows no result in range that is old, long and not exempt");

    let more = world.conversation("conversation", &reads(conversation, 1, 900));
    run();
    run();
    // Reading is what events 3, 5, ... answer.
    assert_eq!(seqs(&more), [vec![3, 5, 7]]);
}

/// Every loop of an agent: the old results first, then the trigger on the view that is left.
fn auto(world: &World, threshold: u64, more: &[&str]) -> Value {
    let set = "conversation.compaction.auto";
    let (always, threshold) =
        (format!("--set={set}.always=[\"micro\"]"), format!("--set={set}.token_threshold={threshold}"));
    let turns = format!("--set={set}.min_turns=1");
    let arguments = ["auto", "conversation", "--json", &always, &threshold, &turns];
    world.run(&[&arguments[..], more].concat()).exits(0).line()
}

#[test]
fn old_results_go_first_and_the_threshold_is_of_the_view_that_is_left() {
    let world = World::new();
    let conversation = reads(Conversation::new().turn("Look."), 20, 4000).message("Done.").whole_turn();
    // 20,000 tokens raw, and 10,000 of them in results that are old.
    let transcript = world.conversation("conversation", &conversation);
    let said = auto(&world, 12_000, &[]);
    assert_eq!(said["due"], false, "{said}");
    assert_eq!(said["always"][0]["report"]["overlays"].as_array().map(Vec::len), Some(1), "{said}");
    assert_eq!(transcript.overlays().len(), 1);

    // Another loop has nothing to do, and one after three more calls finds what has become old in the same turn.
    let bytes = transcript.now();
    let transcript = world.raw("conversation", &bytes);
    let said = auto(&world, 12_000, &[]);
    assert_eq!(said["always"][0]["report"]["overlays"], json!([]), "{said}");
    transcript.assert_untouched();
    let elements: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    let grown = elements.into_iter().fold(Conversation::new(), Conversation::element);
    let transcript = world.conversation("conversation", &reads(grown, 3, 4000));
    auto(&world, 12_000, &[]);
    assert_eq!(seqs(&transcript).concat().len(), 3);
}

#[test]
fn above_the_threshold_a_summary_is_tried_and_without_a_model_the_conversation_goes_on() {
    let world = World::new();
    let conversation = reads(Conversation::new().turn("Look."), 20, 4000).message("Done.");
    let conversation = (0..4).fold(conversation, |conversation, _| conversation.whole_turn());
    let transcript = world.conversation("conversation", &conversation);
    world.file("answers.json", b"{}");
    let said = auto(&world, 5_000, &["--profile", "heavy", "--llm-replay", "answers.json"]);
    assert_eq!(said["due"], true, "{said}");
    assert!(said["warning"].as_str().unwrap().contains("no answer was recorded"), "{said}");
    // The first layer needs nobody, and stands.
    assert_eq!(transcript.overlays().len(), 1);
    assert_eq!(results(&world)[0], "[Previous: used Read]");
}
