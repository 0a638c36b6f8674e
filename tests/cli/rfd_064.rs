//! End-to-end tests of RFD 064. Most tests are named after a section of the RFD, like those in
//! `host/core/tests/rules/rfd_064.rs`.

use serde_json::{Value, json};
use wiremock::MockServer;

use crate::summarize::{record_answers, recorded_answer};
use crate::support::{CommandOutput, Conversation, Transcript, World, hourly_turns, plugin_script};

/// Returns the stream of "Projection Example", followed by three turns that are kept.
fn example() -> Conversation {
    let path = || json!({"path": "src/main.rs"});
    Conversation::new()
        .turn("set up the project")
        .message("I'll create the project structure.")
        .call("fs_create_file", path(), "<200 lines of code>")
        .message("Created src/main.rs with a basic setup.")
        .turn("add error handling")
        .reasoning("<500 tokens of thinking>")
        .call("fs_read_file", path(), "<200 lines of code>")
        .call("fs_modify_file", path(), "<300 lines of diff>")
        .message("Added error handling to main.")
        .turn("now add logging")
        .reasoning("<400 tokens of thinking>")
        .call("fs_modify_file", path(), "<250 lines of diff>")
        .message("Added tracing-based logging.")
        .whole_turn()
        .whole_turn()
        .whole_turn()
}

/// Compacts with these arguments, and returns the view of turns 0 to 2.
#[track_caller]
fn compacted_view(world: &World, arguments: &[&str]) -> String {
    world.run(&[&["conversation"], arguments].concat()).exits(0);
    let output = world.run(&["print", "conversation", "--compacted"]).exits(0);
    output.text().split("user:\n  What does the file say?").next().unwrap().to_owned()
}

fn example_world() -> (World, Transcript) {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &example());
    (world, transcript)
}

#[test]
fn projection_example_default_profile() {
    let (world, _) = example_world();
    insta::assert_snapshot!(compacted_view(&world, &[]), @r"
    --- turn 0 ---
    user:
      set up the project
    assistant:
      I'll create the project structure.
    tool call fs_create_file [overlay 1: 17 characters removed]:
      {}
    tool result [overlay 1: 16 characters added]:
      [compacted] fs_create_file: success
    assistant:
      Created src/main.rs with a basic setup.
    --- turn 1 ---
    user:
      add error handling
    [overlay 1: 1 event, 24 characters removed]
    tool call fs_read_file [overlay 1: 17 characters removed]:
      {}
    tool result [overlay 1: 14 characters added]:
      [compacted] fs_read_file: success
    tool call fs_modify_file [overlay 1: 17 characters removed]:
      {}
    tool result [overlay 1: 16 characters added]:
      [compacted] fs_modify_file: success
    assistant:
      Added error handling to main.
    --- turn 2 ---
    user:
      now add logging
    [overlay 1: 1 event, 24 characters removed]
    tool call fs_modify_file [overlay 1: 17 characters removed]:
      {}
    tool result [overlay 1: 16 characters added]:
      [compacted] fs_modify_file: success
    assistant:
      Added tracing-based logging.
    --- turn 3 ---
    ");
}

#[test]
fn projection_example_default_profile_with_per_tool_hints() {
    let (world, _) = example_world();
    // The hints of "Per-Tool Compaction Hints" for the tools of the example.
    let hints = "[conversation.tools.fs_read_file.compaction]\nrequest = \"keep\"\nresponse = \"strip\"\n\
                 [conversation.tools.fs_create_file.compaction]\nrequest = \"strip\"\nresponse = \"keep\"\n\
                 [conversation.tools.fs_modify_file.compaction]\nrequest = \"strip\"\nresponse = \"strip\"\n";
    world.write_file(".jp-compact.toml", hints.as_bytes());
    insta::assert_snapshot!(compacted_view(&world, &[]), @r#"
    --- turn 0 ---
    user:
      set up the project
    assistant:
      I'll create the project structure.
    tool call fs_create_file [overlay 5: 17 characters removed]:
      {}
    tool result:
      <200 lines of code>
    assistant:
      Created src/main.rs with a basic setup.
    --- turn 1 ---
    user:
      add error handling
    [overlay 1: 1 event, 24 characters removed]
    tool call fs_read_file:
      {"path":"src/main.rs"}
    tool result [overlay 5: 14 characters added]:
      [compacted] fs_read_file: success
    tool call fs_modify_file [overlay 5: 17 characters removed]:
      {}
    tool result [overlay 5: 16 characters added]:
      [compacted] fs_modify_file: success
    assistant:
      Added error handling to main.
    --- turn 2 ---
    user:
      now add logging
    [overlay 1: 1 event, 24 characters removed]
    tool call fs_modify_file [overlay 5: 17 characters removed]:
      {}
    tool result [overlay 5: 16 characters added]:
      [compacted] fs_modify_file: success
    assistant:
      Added tracing-based logging.
    --- turn 3 ---
    "#);
}

#[test]
fn projection_example_heavy_profile() {
    let (world, transcript) = example_world();
    let text = "Set up a Rust project at src/main.rs.";
    record_answers(&world, &json!({}), "3", &recorded_answer(text));
    let view = compacted_view(&world, &["--profile", "heavy", "--llm-replay", "answers.json"]);
    insta::assert_snapshot!(view, @r"
    --- turn 0 (a summary of turns 0-2 of the history) [overlay 1: 373 characters removed] ---
    user:
      [Summary of previous conversation]
    assistant:
      Set up a Rust project at src/main.rs.
    --- turn 1 (turn 3 of the history) ---
    ");
    let overlays = transcript.overlays();
    assert_eq!(overlays.len(), 1, "expected only the summary");
    let members: Vec<_> = overlays[0].as_object().unwrap().keys().collect();
    assert_eq!(members, ["type", "timestamp", "from_turn", "to_turn", "summary"]);
}

#[test]
fn when_summary_is_set_reasoning_and_tool_calls_are_ignored() {
    let (world, transcript) = example_world();
    record_answers(&world, &json!({}), "3", &recorded_answer("Set up."));
    let policies = ["reasoning", "tool_calls"]
        .map(|policy| format!("conversation.compaction.profiles.heavy.{policy}=strip"));
    let heavy = ["--profile", "heavy", "--set", &policies[0], "--set", &policies[1]];
    for selection in [heavy.as_slice(), &["--compact=r+t+s"]] {
        let arguments = [&["conversation", "--llm-replay", "answers.json"], selection].concat();
        world.run(&arguments).exits(0).reports("1 overlay appended");
        assert!(transcript.overlays()[0]["summary"].is_object(), "{selection:?}");
        std::fs::write(&transcript.path, transcript.original_bytes()).unwrap();
    }
}

/// Checks the turns that a run on six turns covers. Turns 0 and 1 are already compacted.
#[track_caller]
fn check_range(arguments: &str, expect: Option<(u64, u64)>) {
    let world = World::new();
    let earlier_overlay = json!({"from_turn": 0, "to_turn": 1, "tool_calls": {"policy": "omit"}});
    world.write_conversation("conversation", &hourly_turns().compaction(earlier_overlay));
    let fixed_arguments = ["conversation", "--profile", "light", "--now", "2026-03-18T16:30:00Z", "--json"];
    let command_line: Vec<_> = fixed_arguments.into_iter().chain(arguments.split_whitespace()).collect();
    let line = world.run(&command_line).exits(0).line();
    let overlay = line["overlays"].get(0);
    let turns =
        overlay.map(|overlay| (overlay["from_turn"].as_u64().unwrap(), overlay["to_turn"].as_u64().unwrap()));
    assert_eq!(turns, expect, "{arguments}");
}

#[test]
fn the_compact_command_flags() {
    check_range("", Some((0, 2)));
    check_range("--from 1", Some((1, 2)));
    check_range("--to 4", Some((0, 4)));
    check_range("--keep 1", Some((0, 4)));
    check_range("--keep-last 1", Some((0, 4)));
    check_range("--from 5h --to 1h", Some((2, 5)));
}

#[test]
fn range_bounds() {
    check_range("--from 5 --keep 0", Some((5, 5)));
    check_range("--to -3", Some((0, 2)));
    check_range("--from 5h --keep 0", Some((2, 5)));
    check_range("--from last --keep 0", Some((2, 5)));
    check_range("--from --keep 0", Some((2, 5)));
}

#[test]
fn bounds_are_stored_as_absolute_turns() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &hourly_turns());
    let bounds = ["--from", "-4", "--to", "2h", "--now", "2026-03-18T16:30:00Z"];
    world.run(&[&["conversation", "--profile", "light"][..], &bounds].concat()).exits(0);
    let overlay = &transcript.overlays()[0];
    assert_eq!((&overlay["from_turn"], &overlay["to_turn"]), (&json!(1), &json!(4)));
}

/// Splits a printed view into its turns.
fn split_turns(view: &str) -> Vec<&str> {
    view.split("--- turn ").skip(1).collect()
}

#[test]
fn stacking_semantics() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(32));
    // Compaction A is a summary of turns 0-20. Compaction B, a later one, strips the responses of turns 0-30.
    let compaction_a = ["--profile", "offline", "--from", "0", "--to", "20", "--now", "2026-04-01T00:00:00Z"];
    let compaction_b = ["--compact=t=sres", "--from", "0", "--to", "30", "--now", "2026-04-02T00:00:00Z"];
    for arguments in [compaction_a.as_slice(), &compaction_b] {
        world.run(&[&["conversation"], arguments].concat()).exits(0);
    }
    let output = world.run(&["print", "conversation", "--compacted"]).exits(0);
    let view = split_turns(output.text());
    // Turn 5: the summary of A, which replaces turns 0-20. Turn 21 follows it.
    assert_eq!(view.len(), 12, "{view:#?}");
    assert!(view[0].contains("[Summary of previous conversation]"), "{view:#?}");
    // Turn 25: B strips the tool calls, and the reasoning is kept.
    assert!(view[5].contains("turn 25 of the history"), "{view:#?}");
    assert!(view[5].contains("[compacted] fs_read_file: success") && view[5].contains("src/main.rs"));
    assert!(view[5].contains("The file has to be read"), "{view:#?}");
    // Turn 31: outside both ranges.
    assert!(view[11].contains("println!"), "{view:#?}");
}

/// Runs a strategy that summarizes the requested range. With `chooses_range` it summarizes turns 2 to 3 instead, unless
/// the range is exact.
fn run_summarizer(world: &World, chooses_range: bool, bounds: [&str; 2]) -> CommandOutput {
    let echo_result = |range: &str| {
        let result = r#"{"type":"result","id":"c1","compactions":[RANGE,"summary":{"summary":"S"}}]}"#;
        format!("echo '{}'", result.replace("RANGE", range))
    };
    let requested = echo_result("'\"$range\"'");
    let chosen = if chooses_range { echo_result(r#"{"from_turn":2,"to_turn":3"#) } else { requested.clone() };
    let run = format!(
        "read -r header\necho \"$header\" >> {}\n\
         range=$(echo \"$header\" | sed 's/.*\"range\":\\({{[^}}]*\\)}}.*/\\1/')\n\
         case \"$header\" in\n*'\"range_exact\":true'*) {requested} ;;\n*) {chosen} ;;\nesac",
        world.path("seen").display(),
    );
    world.write_script("plugins/sums", &plugin_script("sums", &json!({"produces": ["summary"]}), &run));
    let plugin = ["--strategy", "sums", "--trust-dir", "plugins", "--sandbox=contained"];
    world.run(&[&["conversation"], &plugin[..], &["--from", bounds[0], "--to", bounds[1]]].concat())
}

/// Returns the requested range, the range and `range_exact` of each request.
fn requests(world: &World) -> Vec<(Value, Value, bool)> {
    let text = std::fs::read_to_string(world.path("seen")).unwrap();
    let headers = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ranges = headers.map(|header| {
        let exact = header["range_exact"].as_bool().unwrap();
        (header["requested_range"].clone(), header["range"].clone(), exact)
    });
    ranges.collect()
}

fn range(from: u64, to: u64) -> Value {
    json!({"from_turn": from, "to_turn": to})
}

/// Returns six turns with a summary of this range.
fn with_summary(from: u64, to: u64) -> (World, Transcript) {
    let older = json!({"from_turn": from, "to_turn": to, "summary": {"summary": "older"}});
    let world = World::new();
    let transcript = world.write_conversation("conversation", &hourly_turns().compaction(older));
    (world, transcript)
}

#[test]
fn summary_overlap_resolution_extends_what_is_asked_for() {
    for (summarized, requested, expect) in [
        ((0, 2), (1, 4), (0, 4)),
        ((2, 4), (0, 3), (0, 4)),
        ((2, 3), (0, 4), (0, 4)),
        ((0, 4), (1, 2), (1, 2)),
        ((0, 1), (2, 4), (2, 4)),
    ] {
        let (world, transcript) = with_summary(summarized.0, summarized.1);
        let bounds = [requested.0.to_string(), requested.1.to_string()];
        run_summarizer(&world, false, [&bounds[0], &bounds[1]]).exits(0);
        let expect = range(expect.0, expect.1);
        assert_eq!(
            requests(&world),
            [(range(requested.0, requested.1), expect.clone(), false)],
            "{summarized:?}"
        );
        let overlay = &transcript.overlays()[0];
        assert_eq!(json!({"from_turn": overlay["from_turn"], "to_turn": overlay["to_turn"]}), expect);
    }
}

#[test]
fn summary_overlap_resolution_repeats_until_none_is_partial() {
    let summary = |from, to| json!({"from_turn": from, "to_turn": to, "summary": {"summary": "older"}});
    let world = World::new();
    world.write_conversation(
        "conversation",
        &hourly_turns().compaction(summary(0, 2)).compaction(summary(2, 3)),
    );
    run_summarizer(&world, false, ["3", "4"]).exits(0);
    assert_eq!(requests(&world), [(range(3, 4), range(0, 4), false)]);
}

#[test]
fn summary_overlap_resolution_repeats_request_for_chosen_range() {
    let (world, transcript) = with_summary(1, 2);
    run_summarizer(&world, true, ["0", "4"]).exits(0);
    let requested = || range(0, 4);
    assert_eq!(requests(&world), [(requested(), requested(), false), (requested(), range(1, 3), true)]);
    let overlay = &transcript.overlays()[0];
    assert_eq!((&overlay["from_turn"], &overlay["to_turn"]), (&json!(1), &json!(3)));
}

#[test]
fn strategy_that_ignores_the_extended_range_is_asked_once_more() {
    // The strategy answers for the requested range, 1 to 4. The older summary of 0 to 2 extends it to 0 to 4.
    for (follows_reason, exit) in [(true, 0), (false, 17)] {
        let (world, transcript) = with_summary(0, 2);
        let pattern = if follows_reason { r#"*'"reason":"overlap"'*"# } else { "never" };
        let run = format!(
            "read -r header\necho \"$header\" >> {}\n\
             name=requested_range\ncase \"$header\" in\n{pattern}) name=range ;;\nesac\n\
             range=$(echo \"$header\" | sed \"s/.*\\\"$name\\\":\\({{[^}}]*\\)}}.*/\\1/\")\n\
             echo '{{\"type\":\"result\",\"id\":\"c1\",\"compactions\":['\"$range\"',\"summary\":{{\"summary\":\"Paid words.\"}}}}]}}'",
            world.path("seen").display(),
        );
        world.write_script("plugins/sums", &plugin_script("sums", &json!({"produces": ["summary"]}), &run));
        let plugin = ["--strategy", "sums", "--trust-dir", "plugins", "--sandbox=contained"];
        let output = world.run(&[&["conversation"], &plugin[..], &["--from", "1", "--to", "4"]].concat());
        let output = output.exits(exit);
        let (requested, extended) = (range(1, 4), range(0, 4));
        let expected = [(requested.clone(), extended.clone(), false), (requested, extended, true)];
        assert_eq!(requests(&world), expected);
        let seen = std::fs::read_to_string(world.path("seen")).unwrap();
        let reasons: Vec<_> = seen.lines().map(|line| line.contains(r#""reason":"overlap""#)).collect();
        assert_eq!(reasons, [false, true]);
        if follows_reason {
            let overlay = &transcript.overlays()[0];
            assert_eq!((&overlay["from_turn"], &overlay["to_turn"]), (&json!(0), &json!(4)));
        } else {
            output.reports("range_not_closed").reports("Paid words.");
            assert_eq!(transcript.overlays().len(), 0, "a rejected summary must not be stored");
        }
    }
}

#[test]
fn summary_overlap_resolution_ignores_other_policies() {
    let (world, transcript) = with_summary(1, 3);
    world.run(&["conversation"]).exits(0);
    let overlays = transcript.overlays();
    assert_eq!(overlays.len(), 1);
    assert!(overlays[0]["from_turn"] == 0 && overlays[0]["to_turn"] == 2, "{overlays:?}");
}

#[test]
fn raw_stream_invariant() {
    let world = World::new();
    let strip_overlay =
        json!({"from_turn": 0, "to_turn": 5, "reasoning": "strip", "tool_calls": {"policy": "omit"}});
    let summary_overlay = json!({"from_turn": 0, "to_turn": 2, "summary": {"summary": "OLDER WORDS"}});
    let transcript = world.write_conversation(
        "conversation",
        &Conversation::bulky(6).compaction(strip_overlay).compaction(summary_overlay),
    );
    let arguments = ["conversation", "--profile", "offline", "--to", "4"];
    world.run(&arguments).exits(0);
    let summary = transcript.overlays()[0]["summary"]["summary"].as_str().unwrap().to_owned();
    assert!(!summary.contains("OLDER WORDS"), "{summary}");
    assert!(summary.contains("src/main.rs"), "the digest must include calls that the view omits: {summary}");
}

#[test]
fn dry_run_lists_the_effects_on_each_turn() {
    let (world, transcript) = example_world();
    let output = world.run(&["conversation", "--dry-run"]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    conversation/events.json: 1 overlay would be appended
      1  strip-reasoning [version]  turns 0-2: reasoning
      1  strip-tools [version]  turns 0-2: tool_calls
      turn 0: 137 -> 132 tokens
      turn 1: 202 -> 171 tokens
      turn 2: 131 -> 105 tokens
      JP would send about 836 tokens instead of 899 (-7 %, estimated)
      prompt cache (anthropic, cold): the compaction would cost nothing
    ");
    transcript.assert_untouched();
}

#[test]
fn a_dry_run_cannot_preview_summaries() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(MockServer::start());
    let (world, transcript) = example_world();
    let run_heavy = |extra: &[&str]| {
        let mut command = world.command(&[&["conversation", "--profile", "heavy"], extra].concat());
        command.env("OPENAI_BASE_URL", server.uri()).env("OPENAI_API_KEY", "k");
        world.finish(&mut command)
    };
    let request_count = || {
        let requests = runtime.block_on(server.received_requests()).unwrap();
        requests.iter().filter(|request| request.method == "POST").count()
    };
    run_heavy(&["--dry-run", "--model", "openai/g"])
        .exits(0)
        .reports("would summarize turns 0-2 using openai/g");
    // The model of the profile takes precedence over the command line.
    let profile_model = "conversation.compaction.profiles.heavy.summary.model=anthropic/claude-haiku-4-5";
    run_heavy(&["--dry-run", "--model", "openai/g", "--set", profile_model])
        .exits(0)
        .reports("would summarize turns 0-2 using anthropic/claude-haiku-4-5");
    let two_strategies = r#"conversation.compaction.profiles.heavy={strategies=["strip-tools","summarize"]}"#;
    run_heavy(&["--dry-run", "--model", "openai/g", "--set", two_strategies])
        .exits(0)
        .reports("strip-tools [version]  turns 0-2: tool_calls")
        .reports("turn 1: 202 -> 193 tokens")
        .reports("would summarize turns 0-2 using openai/g");
    assert_eq!(request_count(), 0);
    run_heavy(&["--model", "openai/g"]).exits(18);
    assert_eq!(request_count(), 1, "the real run must send a request");
    transcript.assert_untouched();
}
