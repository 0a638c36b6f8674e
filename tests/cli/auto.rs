//! `jp-compact auto` without a model: the trigger, and the turns that it compacts. Requests to models are tested in
//! `model_requests`.

use serde_json::{Value, json};

use crate::support::{CommandOutput, Conversation, Transcript, World, plugin_script};

const AUTO: &str = "conversation.compaction.auto";

/// Returns turns that are long enough for a digest to save tokens.
fn long_turns(turns: usize) -> Conversation {
    (0..turns).fold(Conversation::new(), |conversation, _| {
        conversation
            .turn("What does the file say?")
            .reasoning(&"It has to be read first. ".repeat(20))
            .call("fs_read_file", json!({"path": "src/main.rs"}), &"fn main() {}\n".repeat(100))
            .message(&"It says nothing at all. ".repeat(20))
    })
}

fn conversation_world(conversation: &Conversation) -> (World, Transcript) {
    let world = World::new();
    let transcript = world.write_conversation("conversation", conversation);
    (world, transcript)
}

#[track_caller]
fn auto(world: &World, extra: &[&str]) -> CommandOutput {
    world.run(&[&["auto", "conversation"], extra].concat())
}

/// Returns the reason that a dry run reports for the decision.
#[track_caller]
fn decision_reason(world: &World, extra: &[&str]) -> String {
    let output = auto(world, &[&["--dry-run", "--json"], extra].concat()).exits(0);
    output.line()["reason"].as_str().unwrap().to_owned()
}

#[track_caller]
fn is_due(world: &World, extra: &[&str]) -> bool {
    let line = auto(world, &[&["--dry-run", "--json"], extra].concat()).exits(0).line();
    line["due"].as_bool().unwrap()
}

#[track_caller]
fn view_tokens(world: &World, extra: &[&str]) -> u64 {
    let line =
        auto(world, &[&["--dry-run", "--json", "--context-window", "1"], extra].concat()).exits(0).line();
    line["report"]["tokens"]["view_before"].as_u64().unwrap()
}

/// Returns a `--set` option for a key of `auto`.
fn set_auto(pair: &str) -> String {
    format!("--set={AUTO}.{pair}")
}

/// Returns an option that makes every conversation with more than `min_turns` turns due.
fn always_due() -> String {
    set_auto("token_threshold=1")
}

fn ranges(overlays: &[Value]) -> Vec<(u64, u64)> {
    let turn = |overlay: &Value, member: &str| overlay[member].as_u64().unwrap();
    overlays.iter().map(|overlay| (turn(overlay, "from_turn"), turn(overlay, "to_turn"))).collect()
}

#[test]
fn compacts_above_share_of_context_window() {
    let (world, transcript) = conversation_world(&Conversation::with_turns(8));
    let output = auto(&world, &["--context-window", "4000"]).exits(0);
    insta::assert_snapshot!(output.stderr, @"conversation/events.json: not due: JP sends about 1,145 tokens (estimated), and 3,000 are allowed");
    transcript.assert_untouched();
    let output = auto(&world, &["--context-window", "100"]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    warning: conversation/events.json: still too large: the view has about 964 tokens, more than 75, and no summary is enabled; set `conversation.compaction.auto.fallback_profile` to a profile with a summary, such as `auto-summarize`
    conversation/events.json: 1 overlay appended
      1  strip-reasoning [version]  turns 0-4: reasoning
      1  strip-tools [version]  turns 0-4: tool_calls
      JP sends about 964 tokens instead of 1,145 (-16 %, estimated)
      prompt cache (anthropic, cold): the compaction costs nothing
    conversation/events.json: auto compacted turns 0-4 with profile `default`: about 1,145 -> 964 tokens (-16 %, estimated)
    ");
    assert_eq!(ranges(&transcript.overlays()), [(0, 4)]);
    let output = auto(&world, &["--context-window", "100"]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    warning: conversation/events.json: still too large: the view has about 964 tokens, more than 75, and no summary is enabled; set `conversation.compaction.auto.fallback_profile` to a profile with a summary, such as `auto-summarize`
    conversation/events.json: due: JP sends about 964 tokens (estimated), more than 75; nothing to compact: every turn since the last compaction is kept
    ");
}

#[test]
fn triggers_above_threshold_not_at_it() {
    let (world, _) = conversation_world(&Conversation::with_turns(8));
    let view_size = view_tokens(&world, &[]);
    let due_at_threshold = |tokens: u64| is_due(&world, &[&set_auto(&format!("token_threshold={tokens}"))]);
    assert_eq!((due_at_threshold(view_size), due_at_threshold(view_size - 1)), (false, true));
    let due_in_window = |window: u64, extra: &[&str]| {
        is_due(&world, &[&["--context-window", &window.to_string()], extra].concat())
    };
    assert_eq!((due_in_window(view_size, &[]), due_in_window(view_size * 4 / 3 + 2, &[])), (true, false));
    let half_ratio = set_auto("trigger_ratio=0.5");
    assert_eq!(
        (due_in_window(view_size * 2 - 2, &[&half_ratio]), due_in_window(view_size * 2, &[&half_ratio])),
        (true, false)
    );
    // The option overrides the configured threshold.
    assert!(!due_in_window(view_size * 2, &[&always_due()]));
}

#[test]
fn profile_overrides_trigger_ratio() {
    let (world, _) = conversation_world(&Conversation::with_turns(8));
    let view_size = view_tokens(&world, &[]);
    let ratio = "--set=conversation.compaction.profiles.light.trigger_ratio=0.1";
    let window = format!("--context-window={}", view_size * 5);
    assert!(!is_due(&world, &[&window, ratio]));
    assert!(is_due(&world, &[&window, ratio, "--profile", "light"]));
}

#[test]
fn requires_more_turns_than_min_turns() {
    let (world, transcript) = conversation_world(&Conversation::with_turns(5));
    let reason = decision_reason(&world, &[&always_due()]);
    assert_eq!(
        reason,
        "not due: the conversation has 5 turns, and more than 5 are required (auto.min_turns)"
    );
    auto(&world, &[&always_due()]).exits(0).reports(&reason);
    transcript.assert_untouched();
    assert!(is_due(&world, &[&always_due(), &set_auto("min_turns=4")]));
}

#[test]
fn context_window_comes_from_most_specific_model() {
    let (world, _) = conversation_world(&Conversation::with_turns(8));
    world.write_file(
        "windows.toml",
        b"[llm]\nmodel = \"openai/g\"\n[llm.models.\"openai/g\"]\ncontext_window = 2000\n",
    );
    let assert_allowed = |extra: &[&str], tokens: &str| {
        let reason = decision_reason(&world, extra);
        assert!(reason.ends_with(&format!(", and {tokens} are allowed")), "{reason}");
    };
    let config = ["--config", "windows.toml"];
    assert_allowed(&config, "1,500");
    assert_allowed(&["--model", "openai/gpt-4o"], "96,000");
    world.write_file(
        "conversation/base_config.json",
        br#"{"assistant":{"model":{"id":{"provider":"anthropic","name":"claude-haiku-4-5"}}}}"#,
    );
    assert_allowed(&config, "150,000");
    assert_allowed(&[&config[..], &["--model", "openai/g"]].concat(), "1,500");
    assert_allowed(&[&config[..], &["--model", "openai/g", "--context-window", "4000"]].concat(), "3,000");
}

#[test]
fn unknown_context_window_is_reported_and_skips() {
    let (world, transcript) = conversation_world(&Conversation::with_turns(8));
    let output = auto(&world, &[]).exits(0);
    insta::assert_snapshot!(output.stderr, @"warning: conversation/events.json: skipped: the context window is unknown because no model is configured; give `--context-window N`, or set `conversation.compaction.auto.token_threshold`");
    let output = auto(&world, &["--model", "openai/unknown"]).exits(0);
    insta::assert_snapshot!(output.stderr, @"warning: conversation/events.json: skipped: the context window of `openai/unknown` is unknown; give `--context-window N`, or set `conversation.compaction.auto.token_threshold`");
    assert_eq!(auto(&world, &["--json"]).exits(0).line()["due"], false);
    transcript.assert_untouched();
    auto(&world, &[&always_due()]).exits(0);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn trigger_ignores_compacted_content() {
    let (world, _) = conversation_world(&Conversation::with_turns(8));
    let before = view_tokens(&world, &[]);
    let line = world.run(&["conversation", "--json"]).exits(0).line();
    let after = line["tokens"]["view_after"].as_u64().unwrap();
    assert!(after < before);
    assert!(!is_due(&world, &[&set_auto(&format!("token_threshold={after}"))]));
}

#[test]
fn runs_even_if_auto_is_disabled() {
    let (world, transcript) = conversation_world(&Conversation::with_turns(8));
    auto(&world, &[&always_due(), &set_auto("enabled=false")]).exits(0);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn profile_option_overrides_configuration() {
    let profile_and_overlays = |extra: &[&str]| {
        let (world, transcript) = conversation_world(&Conversation::with_turns(8));
        let line = auto(&world, &[&[&always_due()[..], "--json"], extra].concat()).exits(0).line();
        (line["profile"].as_str().unwrap().to_owned(), transcript.overlays().len())
    };
    assert_eq!(profile_and_overlays(&[]), ("default".into(), 1));
    assert_eq!(profile_and_overlays(&[&set_auto("profile=light")]), ("light".into(), 1));
    assert_eq!(
        profile_and_overlays(&[&set_auto("profile=light"), "--profile", "default"]),
        ("default".into(), 1)
    );
    let (world, _) = conversation_world(&Conversation::with_turns(8));
    auto(&world, &["--profile", "nope"]).exits(2).reports("there is no profile `nope`");
}

/// Checks which turns a profile compacts in a conversation with these overlays.
#[track_caller]
fn check_ranges(older: &[Value], profile: &str, expect: &[(u64, u64)]) {
    let conversation =
        older.iter().fold(long_turns(10), |conversation, overlay| conversation.compaction(overlay.clone()));
    let (world, transcript) = conversation_world(&conversation);
    auto(&world, &[&always_due(), "--profile", profile]).exits(0);
    assert_eq!(ranges(&transcript.overlays()), expect, "{profile} after {older:?}");
}

#[test]
fn continues_after_last_compaction_of_same_kind() {
    let reasoning = |to: u64| json!({"from_turn": 0, "to_turn": to, "reasoning": "strip"});
    let tools = json!({"from_turn": 0, "to_turn": 2, "tool_calls": {"policy": "omit"}});
    check_ranges(&[reasoning(5)], "light", &[(6, 6)]);
    // Each strategy of a profile continues after its own overlays.
    check_ranges(&[reasoning(4)], "default", &[(5, 6), (0, 6)]);
    check_ranges(&[reasoning(4), tools], "default", &[(5, 6), (3, 6)]);
    check_ranges(&[reasoning(6)], "light", &[]);
}

#[test]
fn summary_includes_earlier_summaries() {
    let reasoning = |to: u64| json!({"from_turn": 0, "to_turn": to, "reasoning": "strip"});
    let summary = |from: u64, to: u64| json!({"from_turn": from, "to_turn": to, "summary": {"summary": "S"}});
    check_ranges(&[], "offline", &[(0, 6)]);
    check_ranges(&[reasoning(5)], "offline", &[(0, 6)]);
    check_ranges(&[summary(0, 2)], "offline", &[(0, 6)]);
    check_ranges(&[summary(0, 2), reasoning(5), summary(3, 3)], "offline", &[(0, 6)]);
    check_ranges(&[summary(3, 4), summary(0, 2)], "offline", &[(0, 6)]);
    check_ranges(&[summary(0, 6)], "offline", &[]);
}

#[test]
fn summary_includes_earlier_summary_of_kept_turns() {
    let older = json!({"from_turn": 1, "to_turn": 1, "summary": {"summary": "S"}});
    let (world, transcript) = conversation_world(&long_turns(10).compaction(older));
    let keep = "--set=conversation.compaction.keep_first=3";
    auto(&world, &[&always_due(), "--profile", "offline", keep]).exits(0);
    assert_eq!(ranges(&transcript.overlays()), [(1, 6)]);
}

#[test]
fn respects_keep_options_of_profile() {
    let (world, transcript) = conversation_world(&long_turns(10));
    let keep = |key: &str| format!("--set=conversation.compaction.profiles.light.{key}");
    auto(&world, &[&always_due(), "--profile=light", &keep("keep_last=5"), &keep("keep_first=2")]).exits(0);
    assert_eq!(ranges(&transcript.overlays()), [(2, 4)]);
}

#[test]
fn jp_rules_compact_only_newer_turns() {
    let (world, transcript) = conversation_world(&long_turns(10));
    let rules = br#"{"conversation":{"compaction":{"rules":[{"keep_last":1,"reasoning":"strip"}]}}}"#;
    world.write_file("conversation/base_config.json", rules);
    for _ in 0..3 {
        auto(&world, &[&always_due(), "--profile=rules", "--set=conversation.compaction.min_saving=0"])
            .exits(0);
    }
    // JP keeps the first turn by default.
    assert_eq!(ranges(&transcript.overlays()), [(1, 8)]);
}

#[test]
fn typed_bounds_override_the_bounds_of_jp_rules() {
    for (bound, expected) in [("--keep-last=8", (1, 1)), ("--from=4", (4, 8))] {
        let (world, transcript) = conversation_world(&long_turns(10));
        let rules = br#"{"conversation":{"compaction":{"rules":[{"keep_last":1,"reasoning":"strip"}]}}}"#;
        world.write_file("conversation/base_config.json", rules);
        let min_saving = "--set=conversation.compaction.min_saving=0";
        auto(&world, &[&always_due(), "--profile=rules", min_saving, bound]).exits(0);
        assert_eq!(ranges(&transcript.overlays()), [expected], "{bound}");
    }
}

#[test]
fn typed_bounds_apply_to_always_profiles() {
    let (world, transcript) = conversation_world(&long_turns(10));
    let always = set_auto("always=[\"light\"]");
    let min_saving = "--set=conversation.compaction.min_saving=0";
    auto(&world, &["--context-window=100000", &always, min_saving, "--keep-last=8"]).exits(0);
    assert_eq!(ranges(&transcript.overlays()), [(0, 1)]);
}

#[test]
fn reduction_has_the_tokens_that_jp_sends() {
    let call = |conversation: Conversation, _| {
        conversation.call("Read", json!({"path": "src/lib.rs"}), &"word ".repeat(200))
    };
    let (world, _) = conversation_world(&(0..6).fold(Conversation::new().turn("Look."), call));
    let profile = "--set=conversation.compaction.profiles.t.strategies=[{name=\"trim\",options={preset=\"clear-tool-uses\"}}]";
    let keep = "--set=conversation.compaction.profiles.t.keep_last=0";
    let always = set_auto("always=[\"t\"]");
    let output = auto(&world, &["--context-window=100000", &always, profile, keep]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    conversation/events.json: auto compacted turn 0 with profile `t`: about 1,443 -> 1,443 tokens (unchanged, estimated)
    conversation/events.json: not due: the conversation has 1 turn, and more than 5 are required (auto.min_turns)
    ");
}

#[test]
fn always_profiles_run_before_trigger_is_evaluated() {
    let (world, transcript) = conversation_world(&long_turns(10));
    let view_size = view_tokens(&world, &[]);
    let threshold = set_auto(&format!("token_threshold={}", view_size - 1));
    let always = set_auto("always=[\"light\"]");
    assert!(is_due(&world, &[&threshold]));
    let output = auto(&world, &[&threshold, &always]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    conversation/events.json: auto compacted turns 0-6 with profile `light`: about 9,933 -> 8,870 tokens (-11 %, estimated)
    conversation/events.json: not due: JP sends about 8,870 tokens (estimated), and 9,932 are allowed
    ");
    assert_eq!(ranges(&transcript.overlays()), [(0, 6)]);
    // The threshold is always exceeded, so both profiles run. `light` finds nothing new to compact.
    let line = auto(&world, &[&always_due(), &always, "--json"]).exits(0).line();
    assert_eq!(line["always"], json!([{"profile": "light", "report": null, "warning": null}]));
    assert_eq!(line["report"]["overlays"][0]["strategy"], "strip-tools");
    assert_eq!(ranges(&transcript.overlays()), [(0, 6), (0, 6)]);
}

#[test]
fn dry_run_counts_the_savings_of_always_profiles() {
    let (world, transcript) = conversation_world(&long_turns(10));
    let output =
        auto(&world, &["--dry-run", "--context-window=100000", &set_auto("always=[\"light\"]")]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    conversation/events.json: auto would compact turns 0-6 with profile `light`: about 9,933 -> 8,870 tokens (-11 %, estimated)
    conversation/events.json: not due: JP sends about 8,870 tokens (estimated), and 75,000 are allowed
    ");
    transcript.assert_untouched();
}

#[test]
fn small_saving_is_declined_by_auto_and_warned_by_compact() {
    let (world, transcript) = conversation_world(&Conversation::with_turns(8));
    let min_saving = "--set=conversation.compaction.min_saving=0.9";
    auto(&world, &[&always_due(), min_saving]).exits(0).reports("% of the view; the minimum is 90 %");
    transcript.assert_untouched();
    world.run(&["conversation", min_saving]).exits(0).reports("less than 90 % (min_saving)");
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn dry_run_previews_compaction() {
    let (world, transcript) = conversation_world(&Conversation::with_turns(8));
    let output = auto(&world, &[&always_due(), "--dry-run", "--profile=light"]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    warning: conversation/events.json: still too large: the view has about 1,004 tokens, more than 1, and no summary is enabled; set `conversation.compaction.auto.fallback_profile` to a profile with a summary, such as `auto-summarize`
    conversation/events.json: 1 overlay would be appended
      1  strip-reasoning [version]  turns 0-4: reasoning
      turn 0: 144 -> 115 tokens
      turn 1: 144 -> 115 tokens
      turn 2: 144 -> 115 tokens
      turn 3: 144 -> 115 tokens
      turn 4: 144 -> 115 tokens
      JP would send about 1,004 tokens instead of 1,145 (-12 %, estimated)
      prompt cache (anthropic, cold): the compaction would cost nothing
    conversation/events.json: auto would compact turns 0-4 with profile `light`: about 1,145 -> 1,004 tokens (-12 %, estimated)
    ");
    transcript.assert_untouched();
}

#[test]
fn json_prints_one_line_per_transcript() {
    let (world, _) = conversation_world(&Conversation::with_turns(8));
    let line = auto(&world, &[&always_due(), "--json"]).exits(0).line();
    let members: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "path",
        "conversation_id",
        "profile",
        "estimator",
        "always",
        "due",
        "reason",
        "trigger",
        "report",
        "wait",
        "warning",
        "fallback",
        "still_due",
    ];
    assert_eq!(members, expected);
    let (trigger, tokens) = (&line["trigger"], &line["report"]["tokens"]);
    assert_eq!((&trigger["result"], &trigger["view_tokens"]), (&json!("due"), &tokens["view_before"]));
    assert!(trigger["threshold"].as_u64() < trigger["view_tokens"].as_u64(), "{trigger}");
    assert_eq!(
        (&line["due"], &line["warning"], &line["estimator"]),
        (&json!(true), &json!(null), &json!("pieces"))
    );
    assert_eq!(line["report"]["overlays"].as_array().unwrap().len(), 2);
    assert!(line["report"]["saved"]["percent"].as_f64().unwrap() > 0.0);
}

#[test]
fn evaluates_each_transcript_separately() {
    let (world, not_due) = conversation_world(&Conversation::with_turns(6));
    let due = world.write_conversation("large", &long_turns(10));
    world.write_events("bad", b"{}");
    let threshold = set_auto("token_threshold=2000");
    let output = world.run(&["auto", "conversation", "bad", "large", &threshold, "--json"]).exits(19);
    let lines = output.lines();
    assert_eq!((&lines[0]["due"], &lines[2]["due"]), (&json!(false), &json!(true)));
    assert_eq!(lines[1]["error"]["code"], 4);
    not_due.assert_untouched();
    assert_eq!(due.overlays().len(), 1);
}

#[test]
fn repeated_runs_append_nothing() {
    for profile in ["default", "light", "offline"] {
        let (world, transcript) = conversation_world(&long_turns(10));
        let run = |saving: &str| {
            let min_saving = format!("--set=conversation.compaction.min_saving={saving}");
            auto(&world, &[&always_due(), "--profile", profile, &min_saving]).exits(0);
        };
        run("0.01");
        let after_first_run = transcript.current_bytes();
        for saving in ["0", "0.01", "0", "0.01", "0", "0.01", "0", "0.01", "0"] {
            run(saving);
        }
        assert!(transcript.current_bytes() == after_first_run, "{profile}");
    }
}

#[test]
fn tokens_exact_counts_with_tokenizer() {
    let (world, _) = conversation_world(&long_turns(10));
    let exact_count = view_tokens(&world, &["--tokens=exact"]);
    assert_ne!(view_tokens(&world, &[]), exact_count);
    let due_at_threshold =
        |tokens: u64| is_due(&world, &["--tokens=exact", &set_auto(&format!("token_threshold={tokens}"))]);
    assert_eq!((due_at_threshold(exact_count), due_at_threshold(exact_count - 1)), (false, true));
    let output = auto(&world, &["--tokens=exact", "--context-window=100000"]).exits(0);
    assert!(
        output.stderr.contains("tokens (o200k)") && !output.stderr.contains("about"),
        "{}",
        output.stderr
    );
}

#[test]
fn failure_without_summary_keeps_its_exit_code() {
    let (world, transcript) = conversation_world(&Conversation::with_turns(8));
    world.write_plugin("odd", "exit 3");
    let summarizer = plugin_script("sums", &json!({"produces": ["summary"]}), "exit 3");
    world.write_script("plugins/sums", &summarizer);
    let run = |strategies: &str, extra: &[&str]| {
        let profile = format!("--set=conversation.compaction.profiles.p.strategies={strategies}");
        let options =
            [&always_due()[..], &profile, "--profile=p", "--trust-dir=plugins", "--sandbox=contained"];
        auto(&world, &[&options[..], extra].concat())
    };
    run("[\"odd\"]", &[]).exits(13);
    run("[\"odd\", \"sums\"]", &[]).exits(13);
    run("[\"missing\"]", &[]).exits(10);
    run("[\"sums\"]", &[])
        .exits(0)
        .reports("warning: conversation/events.json: nothing was compacted: strategy `sums`");
    run("[\"sums\"]", &[&set_auto("on_failure=fail")]).exits(18);
    run("[{name = \"strip-tools\", options = {mode = \"all\"}}]", &[]).exits(2);
    transcript.assert_untouched();
}

#[test]
fn rejects_stdin() {
    let (world, _) = conversation_world(&Conversation::with_turns(8));
    world.run(&["auto", "-"]).exits(2);
}

#[test]
fn examples_in_help_work() {
    let world = World::new();
    let transcript =
        world.write_conversation(".jp/conversations/17738399468-review", &Conversation::with_turns(8));
    let help = world.run(&["auto", "--help"]).exits(0);
    let examples: Vec<_> =
        help.text().lines().filter_map(|line| line.strip_prefix("  jp-compact ")).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        world.run(&example.split(' ').collect::<Vec<_>>()).exits(0);
    }
    transcript.assert_untouched();
}

/// Two profiles, for tool calls and for reasoning.
fn two_profiles() -> [String; 4] {
    let profile = |name: &str, strategy: &str| {
        format!("--set=conversation.compaction.profiles.{name}.strategies=[\"{strategy}\"]")
    };
    let [first, second] =
        [("one", "strip-tools"), ("two", "strip-reasoning")].map(|(name, it)| profile(name, it));
    [first, second, "--profile=one".to_owned(), set_auto("fallback_profile=two")]
}

#[test]
fn dry_run_does_not_count_a_saving_twice() {
    let profile = |name: &str, mode: &str| {
        format!("--set=conversation.compaction.profiles.{name}.tool_calls=\"{mode}\"")
    };
    let profiles = [profile("one", "strip-responses"), profile("two", "strip"), "--profile=one".to_owned()];
    let (world, _) = conversation_world(&long_turns(10));
    let report = |extra: &[&str]| {
        let fallback = set_auto("fallback_profile=two");
        let options =
            [&profiles[0], &profiles[1], &profiles[2], &fallback, &always_due(), "--json", "--strict"];
        let line = auto(&world, &[&options[..], extra].concat()).exits(3).line();
        let tokens = |report: &Value| report["report"]["tokens"].clone();
        (tokens(&line), tokens(&line["fallback"]), line["still_due"].clone())
    };
    assert_eq!(report(&["-n"]), report(&[]));
}

/// Runs `auto --strict` with these options on long turns, all of which it compacts.
#[track_caller]
fn strict_auto(options: &[String], threshold: u64, extra: &[&str]) -> CommandOutput {
    let (world, _) = conversation_world(&long_turns(10));
    let threshold = set_auto(&format!("token_threshold={threshold}"));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    auto(
        &world,
        &[&options[..], &["--keep-last=0", "--keep-first=0", "--strict", &threshold], extra].concat(),
    )
}

#[test]
fn strict_dry_run_applies_always_profiles() {
    let [first, second, ..] = two_profiles();
    let options = [first, second, "--profile=one".to_owned(), set_auto("always=[\"two\"]")];
    let report = strict_auto(&options, 1, &["--json"]).exits(3).line();
    let after = report["report"]["tokens"]["view_after"].as_u64().unwrap();
    assert_eq!(
        strict_auto(&options, 1, &["--json", "-n"]).exits(3).line()["report"]["tokens"],
        report["report"]["tokens"]
    );
    for extra in [&[][..], &["-n"]] {
        strict_auto(&options, after + 5, extra).exits(0);
        strict_auto(&options, after - 5, extra).exits(3);
    }
}

#[test]
fn dry_run_counts_the_savings_of_profile_and_fallback() {
    let profiles = two_profiles();
    let run = |threshold: u64, extra: &[&str]| strict_auto(&profiles, threshold, extra);
    let report = run(1, &["--json"]).exits(3).line();
    let fallback = &report["fallback"]["report"]["tokens"];
    let after = fallback["view_after"].as_u64().unwrap();
    assert!(after < fallback["view_before"].as_u64().unwrap(), "{report}");
    for extra in [&[][..], &["-n"]] {
        let output = run(after + 5, extra).exits(0);
        assert!(output.stderr.contains("`two`"), "{}", output.stderr);
        run(after - 5, extra).exits(3);
    }
}
