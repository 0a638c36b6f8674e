//! The `micro` strategy, J-CLI's first layer: it replaces old and long tool results with placeholders.

use serde_json::{Value, json};

use crate::support::{Conversation, Transcript, World};

/// Adds this many calls of `Read`, each with a result of this many bytes.
fn add_reads(conversation: Conversation, calls: usize, bytes: usize) -> Conversation {
    (0..calls).fold(conversation, |conversation, number| {
        conversation.call("Read", json!({"path": format!("src/{number}.rs")}), &"x".repeat(bytes))
    })
}

/// Returns the tool results of the view, in order.
fn results(world: &World) -> Vec<String> {
    let output = world.run(&["print", "conversation", "--compacted", "--json"]).exits(0);
    let view: Vec<Value> = serde_json::from_str(output.text()).unwrap();
    let events = view.iter().map(|item| &item["event"]);
    let responses = events.filter(|event| event["type"] == "tool_call_response");
    responses.map(|event| event["content"].as_str().unwrap().to_owned()).collect()
}

/// Returns the sequence numbers of the calls of each overlay.
fn replaced_seqs(transcript: &Transcript) -> Vec<Vec<u64>> {
    let call_seqs = |overlay: &Value| {
        let calls = overlay["tool_calls"]["calls"].as_array().unwrap();
        calls.iter().map(|call| call["seq"].as_u64().unwrap()).collect()
    };
    transcript.overlays().iter().map(call_seqs).collect()
}

#[test]
fn replaces_calls_of_j_cli_example_except_skill() {
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
    let transcript = world.write_conversation("conversation", &add_reads(example, 3, 900));
    let spec = "micro:keep_recent=3";
    world.run(&["conversation", "--strategy", spec, "--keep-last", "0"]).exits(0);
    let recent = "x".repeat(900);
    let expect = ["[Previous: used Bash]", "[Previous: used Read]", &skill, &recent, &recent, &recent];
    assert_eq!(results(&world), expect);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn profile_keeps_ten_results_and_short_ones() {
    let world = World::new();
    let conversation = add_reads(Conversation::new().turn("Look."), 1, 800);
    let conversation = add_reads(add_reads(conversation, 2, 801), 10, 5000);
    world.write_conversation("conversation", &conversation);
    world.run(&["conversation", "--profile", "micro"]).exits(0);
    let results = results(&world);
    let lengths: Vec<usize> = results.iter().map(String::len).collect();
    // The length of the text counts, not the length of its base64 encoding.
    assert_eq!(lengths[..4], [800, 21, 21, 5000]);
    assert_eq!(lengths[3..], [5000; 10]);
}

#[test]
fn later_runs_replace_only_newly_old_results() {
    let world = World::new();
    let conversation = add_reads(Conversation::new().turn("Look."), 12, 900);
    world.write_conversation("conversation", &conversation);
    let run = || world.run(&["conversation", "--profile", "micro"]).exits(0);
    run();
    run().reports("declined: no result in the range is old enough, long enough, and not exempt");

    let grown = world.write_conversation("conversation", &add_reads(conversation, 1, 900));
    run();
    run();
    // Events 3, 5, and so on are the responses.
    assert_eq!(replaced_seqs(&grown), [vec![3, 5, 7]]);
}

/// Runs `auto` with `micro` as an `always` profile and with this threshold.
fn auto(world: &World, threshold: u64, extra: &[&str]) -> Value {
    let key = "conversation.compaction.auto";
    let (always, threshold) =
        (format!("--set={key}.always=[\"micro\"]"), format!("--set={key}.token_threshold={threshold}"));
    let turns = format!("--set={key}.min_turns=1");
    let arguments = ["auto", "conversation", "--json", &always, &threshold, &turns];
    world.run(&[&arguments[..], extra].concat()).exits(0).line()
}

#[test]
fn always_micro_runs_before_threshold_is_checked() {
    let world = World::new();
    let conversation = add_reads(Conversation::new().turn("Look."), 20, 4000).message("Done.").whole_turn();
    // The conversation has 42,000 tokens, 20,000 of them in old results.
    let transcript = world.write_conversation("conversation", &conversation);
    let report = auto(&world, 24_000, &[]);
    assert_eq!(report["due"], false, "{report}");
    assert_eq!(report["always"][0]["report"]["overlays"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(transcript.overlays().len(), 1);

    // A second run has nothing to do. After three more calls, three more results are old.
    let bytes = transcript.current_bytes();
    let transcript = world.write_events("conversation", &bytes);
    let report = auto(&world, 24_000, &[]);
    assert_eq!(report["always"][0]["report"]["overlays"], json!([]), "{report}");
    transcript.assert_untouched();
    let elements: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    let grown = elements.into_iter().fold(Conversation::new(), Conversation::element);
    let transcript = world.write_conversation("conversation", &add_reads(grown, 3, 4000));
    auto(&world, 24_000, &[]);
    assert_eq!(replaced_seqs(&transcript).concat().len(), 3);
}

#[test]
fn missing_answer_above_threshold_is_a_warning() {
    let world = World::new();
    let conversation = add_reads(Conversation::new().turn("Look."), 20, 4000).message("Done.");
    let conversation = (0..4).fold(conversation, |conversation, _| conversation.whole_turn());
    let transcript = world.write_conversation("conversation", &conversation);
    world.write_file("answers.json", b"{}");
    let report = auto(&world, 5_000, &["--profile", "heavy", "--llm-replay", "answers.json"]);
    assert_eq!(report["due"], true, "{report}");
    assert!(report["warning"].to_string().contains("no answer was recorded"), "{report}");
    // The overlay of the first layer, which needs no model, is kept.
    assert_eq!(transcript.overlays().len(), 1);
    assert_eq!(results(&world)[0], "[Previous: used Read]");
}
