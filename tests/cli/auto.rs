//! `jp-compact auto`: when it compacts and which turns, without a model. What a model costs is in `unasked`.

use serde_json::{Value, json};

use crate::support::{Conversation, Ran, Transcript, World, described};

const AUTO: &str = "conversation.compaction.auto";

/// Turns that are worth a list in place of them.
fn long(turns: usize) -> Conversation {
    (0..turns).fold(Conversation::new(), |conversation, _| {
        conversation
            .turn("What does the file say?")
            .reasoning(&"It has to be read first. ".repeat(20))
            .call("fs_read_file", json!({"path": "src/main.rs"}), &"fn main() {}\n".repeat(100))
            .message(&"It says nothing at all. ".repeat(20))
    })
}

fn scene(conversation: &Conversation) -> (World, Transcript) {
    let world = World::new();
    let transcript = world.conversation("conversation", conversation);
    (world, transcript)
}

#[track_caller]
fn auto(world: &World, more: &[&str]) -> Ran {
    world.run(&[&["auto", "conversation"], more].concat())
}

/// What is said of the trigger where nothing is written.
#[track_caller]
fn why(world: &World, more: &[&str]) -> String {
    let ran = auto(world, &[&["--dry-run", "--json"], more].concat()).exits(0);
    ran.line()["why"].as_str().unwrap().to_owned()
}

#[track_caller]
fn is_due(world: &World, more: &[&str]) -> bool {
    let line = auto(world, &[&["--dry-run", "--json"], more].concat()).exits(0).line();
    line["due"].as_bool().unwrap()
}

/// The tokens that a model is sent.
#[track_caller]
fn view(world: &World, more: &[&str]) -> u64 {
    let line =
        auto(world, &[&["--dry-run", "--json", "--context-window", "1"], more].concat()).exits(0).line();
    line["report"]["tokens"]["before"].as_u64().unwrap()
}

/// `key=value` of `auto`.
fn set(pair: &str) -> String {
    format!("--set={AUTO}.{pair}")
}

/// What is always due.
fn now() -> String {
    set("token_threshold=1")
}

fn ranges(overlays: &[Value]) -> Vec<(u64, u64)> {
    let turn = |overlay: &Value, end: &str| overlay[end].as_u64().unwrap();
    overlays.iter().map(|overlay| (turn(overlay, "from_turn"), turn(overlay, "to_turn"))).collect()
}

#[test]
fn what_fills_its_share_of_the_window_is_compacted() {
    let (world, transcript) = scene(&Conversation::of(8));
    let ran = auto(&world, &["--context-window", "1000"]).exits(0);
    insta::assert_snapshot!(ran.stderr, @"conversation/events.json: nothing is due: JP sends a model about 278 tokens (chars/4), and 750 are allowed");
    transcript.assert_untouched();
    let ran = auto(&world, &["--context-window", "100"]).exits(0);
    insta::assert_snapshot!(ran.stderr, @r"
    conversation/events.json: 2 overlays appended
      1  strip-reasoning [version]  turns 0-4: reasoning
      2  strip-tools [version]  turns 0-4: tool_calls
      JP sends a model about 199 tokens, was 278 (-28 %, chars/4)
    conversation/events.json: auto compacted turns 0-4 with profile `default`: about 278 -> 199 tokens (-28 %, chars/4)
    ");
    assert_eq!(ranges(&transcript.overlays()), [(0, 4), (0, 4)]);
    let ran = auto(&world, &["--context-window", "100"]).exits(0);
    insta::assert_snapshot!(ran.stderr, @"conversation/events.json: due: JP sends a model about 199 tokens (chars/4), more than 75; nothing to compact: no turn is newer than the last compaction, but those that are kept");
}

#[test]
fn it_is_due_above_the_share_and_not_at_it() {
    let (world, _) = scene(&Conversation::of(8));
    let view = view(&world, &[]);
    let tokens = |tokens: u64| is_due(&world, &[&set(&format!("token_threshold={tokens}"))]);
    assert_eq!((tokens(view), tokens(view - 1)), (false, true));
    let window = |window: u64, more: &[&str]| {
        is_due(&world, &[&["--context-window", &window.to_string()], more].concat())
    };
    assert_eq!((window(view, &[]), window(view * 4 / 3 + 2, &[])), (true, false));
    let half = set("trigger_ratio=0.5");
    assert_eq!((window(view * 2 - 2, &[&half]), window(view * 2, &[&half])), (true, false));
    // What was typed goes before what is configured.
    assert!(!window(view * 2, &[&now()]));
}

#[test]
fn a_profile_may_be_due_in_its_own_way() {
    let (world, _) = scene(&Conversation::of(8));
    let view = view(&world, &[]);
    let own = "--set=conversation.compaction.profiles.light.trigger_ratio=0.1";
    let window = format!("--context-window={}", view * 5);
    assert!(!is_due(&world, &[&window, own]));
    assert!(is_due(&world, &[&window, own, "--profile", "light"]));
}

#[test]
fn a_conversation_has_to_have_more_turns_than_min_turns() {
    let (world, transcript) = scene(&Conversation::of(5));
    let text = why(&world, &[&now()]);
    assert_eq!(
        text,
        "nothing is due: the conversation has 5 turns, and more than 5 are needed (auto.min_turns)"
    );
    auto(&world, &[&now()]).exits(0).says(&text);
    transcript.assert_untouched();
    assert!(is_due(&world, &[&now(), &set("min_turns=4")]));
}

#[test]
fn the_window_is_that_of_the_model_that_is_nearest() {
    let (world, _) = scene(&Conversation::of(8));
    world.file(
        "windows.toml",
        b"[llm]\nmodel = \"openai/g\"\n[llm.models.\"openai/g\"]\ncontext_window = 2000\n",
    );
    let allowed = |more: &[&str], tokens: &str| {
        let why = why(&world, more);
        assert!(why.ends_with(&format!(", and {tokens} are allowed")), "{why}");
    };
    let windows = ["--config", "windows.toml"];
    allowed(&windows, "1,500");
    allowed(&["--model", "openai/gpt-4o"], "96,000");
    world.file(
        "conversation/base_config.json",
        br#"{"assistant":{"model":{"id":{"provider":"anthropic","name":"claude-haiku-4-5"}}}}"#,
    );
    allowed(&windows, "150,000");
    allowed(&[&windows[..], &["--model", "openai/g"]].concat(), "1,500");
    allowed(&[&windows[..], &["--model", "openai/g", "--context-window", "4000"]].concat(), "3,000");
}

#[test]
fn without_a_window_nothing_is_due_and_that_is_said() {
    let (world, transcript) = scene(&Conversation::of(8));
    let ran = auto(&world, &[]).exits(0);
    insta::assert_snapshot!(ran.stderr, @"conversation/events.json: skipped: the context window is not known, for no model is named; give `--context-window N`, or set `conversation.compaction.auto.token_threshold`");
    let ran = auto(&world, &["--model", "openai/nobody-knows"]).exits(0);
    insta::assert_snapshot!(ran.stderr, @"conversation/events.json: skipped: the context window of `openai/nobody-knows` is not known; give `--context-window N`, or set `conversation.compaction.auto.token_threshold`");
    assert_eq!(auto(&world, &["--json"]).exits(0).line()["due"], false);
    transcript.assert_untouched();
    auto(&world, &[&now()]).exits(0);
    assert_eq!(transcript.overlays().len(), 2);
}

#[test]
fn what_was_compacted_does_not_count() {
    let (world, _) = scene(&Conversation::of(8));
    let before = view(&world, &[]);
    let line = world.run(&["conversation", "--json"]).exits(0).line();
    let after = line["tokens"]["after"].as_u64().unwrap();
    assert!(after < before);
    assert!(!is_due(&world, &[&set(&format!("token_threshold={after}"))]));
}

#[test]
fn asking_for_it_is_consent() {
    let (world, transcript) = scene(&Conversation::of(8));
    auto(&world, &[&now(), &set("enabled=false")]).exits(0);
    assert_eq!(transcript.overlays().len(), 2);
}

#[test]
fn the_profile_is_the_configured_one_unless_another_is_named() {
    let kinds = |more: &[&str]| {
        let (world, transcript) = scene(&Conversation::of(8));
        let line = auto(&world, &[&[&now()[..], "--json"], more].concat()).exits(0).line();
        (line["profile"].as_str().unwrap().to_owned(), transcript.overlays().len())
    };
    assert_eq!(kinds(&[]), ("default".into(), 2));
    assert_eq!(kinds(&[&set("profile=light")]), ("light".into(), 1));
    assert_eq!(kinds(&[&set("profile=light"), "--profile", "default"]), ("default".into(), 2));
    let (world, _) = scene(&Conversation::of(8));
    auto(&world, &["--profile", "nope"]).exits(2).says("there is no profile `nope`");
}

/// Which turns a profile compacts where these overlays are.
#[track_caller]
fn from_the_last(older: &[Value], profile: &str, expect: &[(u64, u64)]) {
    let conversation =
        older.iter().fold(long(10), |conversation, older| conversation.compaction(older.clone()));
    let (world, transcript) = scene(&conversation);
    auto(&world, &[&now(), "--profile", profile]).exits(0);
    assert_eq!(ranges(&transcript.overlays()), expect, "{profile} after {older:?}");
}

#[test]
fn it_goes_on_where_the_last_compaction_of_its_kind_ended() {
    let reasoning = |to: u64| json!({"from_turn": 0, "to_turn": to, "reasoning": "strip"});
    let summary = |from: u64, to: u64| json!({"from_turn": from, "to_turn": to, "summary": {"summary": "S"}});
    let tools = json!({"from_turn": 0, "to_turn": 2, "tool_calls": {"policy": "omit"}});
    from_the_last(&[], "offline", &[(0, 6)]);
    from_the_last(&[reasoning(5)], "offline", &[(0, 6)]);
    from_the_last(&[reasoning(5)], "light", &[(6, 6)]);
    from_the_last(&[summary(0, 2)], "offline", &[(3, 6)]);
    from_the_last(&[summary(0, 2), reasoning(5), summary(3, 3)], "offline", &[(4, 6)]);
    from_the_last(&[summary(3, 4), summary(0, 2)], "offline", &[(5, 6)]);
    // Each strategy of a profile for itself: what only one of them has done is not done by the other.
    from_the_last(&[reasoning(4)], "default", &[(5, 6), (0, 6)]);
    from_the_last(&[reasoning(4), tools], "default", &[(5, 6), (3, 6)]);
    from_the_last(&[reasoning(6)], "light", &[]);
}

#[test]
fn it_keeps_what_the_profile_keeps() {
    let (world, transcript) = scene(&long(10));
    let keep = |key: &str| format!("--set=conversation.compaction.profiles.light.{key}");
    auto(&world, &[&now(), "--profile=light", &keep("keep_last=5"), &keep("keep_first=2")]).exits(0);
    assert_eq!(ranges(&transcript.overlays()), [(2, 4)]);
}

#[test]
fn of_the_turns_of_jps_rules_those_are_compacted_that_are_newer() {
    let (world, transcript) = scene(&long(10));
    let rules = br#"{"conversation":{"compaction":{"rules":[{"keep_last":1,"reasoning":"strip"}]}}}"#;
    world.file("conversation/base_config.json", rules);
    for _ in 0..3 {
        auto(&world, &[&now(), "--profile=rules", "--set=conversation.compaction.min_saving=0"]).exits(0);
    }
    // JP keeps the first turn where a rule does not say.
    assert_eq!(ranges(&transcript.overlays()), [(1, 8)]);
}

#[test]
fn what_always_runs_runs_first_and_counts() {
    let (world, transcript) = scene(&long(10));
    let view = view(&world, &[]);
    let threshold = set(&format!("token_threshold={}", view - 1));
    let always = set("always=[\"light\"]");
    assert!(is_due(&world, &[&threshold]));
    let ran = auto(&world, &[&threshold, &always]).exits(0);
    insta::assert_snapshot!(ran.stderr, @r"
    conversation/events.json: auto compacted turns 0-6 with profile `light`: about 5,535 -> 4,800 tokens (-13 %, chars/4)
    conversation/events.json: nothing is due: JP sends a model about 4,800 tokens (chars/4), and 5,534 are allowed
    ");
    assert_eq!(ranges(&transcript.overlays()), [(0, 6)]);
    // And where it is due all the same, both run; what ran already is not done again.
    let line = auto(&world, &[&now(), &always, "--json"]).exits(0).line();
    assert_eq!(line["always"], json!([{"profile": "light", "report": null, "warning": null}]));
    assert_eq!(line["report"]["overlays"][0]["strategy"], "strip-tools");
    assert_eq!(ranges(&transcript.overlays()), [(0, 6), (0, 6)]);
}

#[test]
fn what_always_runs_in_a_dry_run_is_not_counted_and_that_is_said() {
    let (world, transcript) = scene(&long(10));
    let ran = auto(&world, &["--dry-run", "--context-window=100000", &set("always=[\"light\"]")]).exits(0);
    insta::assert_snapshot!(ran.stderr, @r"
    conversation/events.json: auto would compact turns 0-6 with profile `light`: about 5,535 -> 4,800 tokens (-13 %, chars/4)
    conversation/events.json: the trigger does not count that: nothing is appended by a dry run
    conversation/events.json: nothing is due: JP sends a model about 5,535 tokens (chars/4), and 75,000 are allowed
    ");
    transcript.assert_untouched();
}

#[test]
fn what_saves_too_little_is_declined_and_by_hand_a_warning() {
    let (world, transcript) = scene(&Conversation::of(8));
    let least = "--set=conversation.compaction.min_saving=0.9";
    auto(&world, &[&now(), least]).exits(0).says("% of the view, and 90 % is the least");
    transcript.assert_untouched();
    world.run(&["conversation", least]).exits(0).says("and 90 % is worth it");
    assert_eq!(transcript.overlays().len(), 2);
}

#[test]
fn a_dry_run_says_what_would_be_done() {
    let (world, transcript) = scene(&Conversation::of(8));
    let ran = auto(&world, &[&now(), "--dry-run", "--profile=light"]).exits(0);
    insta::assert_snapshot!(ran.stderr, @r"
    conversation/events.json: 1 overlay would be appended
      1  strip-reasoning [version]  turns 0-4: reasoning
      turn 0: 35 -> 23 tokens
      turn 1: 35 -> 23 tokens
      turn 2: 35 -> 23 tokens
      turn 3: 35 -> 23 tokens
      turn 4: 35 -> 23 tokens
      JP would send a model about 217 tokens, was 278 (-22 %, chars/4)
    conversation/events.json: auto would compact turns 0-4 with profile `light`: about 278 -> 217 tokens (-22 %, chars/4)
    ");
    transcript.assert_untouched();
}

#[test]
fn a_script_reads_one_line_for_each_transcript() {
    let (world, _) = scene(&Conversation::of(8));
    let line = auto(&world, &[&now(), "--json"]).exits(0).line();
    let members: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
    let all =
        ["path", "conversation_id", "profile", "always", "due", "why", "estimator", "report", "warning"];
    assert_eq!(members, all);
    assert_eq!(
        (&line["due"], &line["warning"], &line["estimator"]),
        (&json!(true), &json!(null), &json!("chars/4"))
    );
    assert_eq!(line["report"]["overlays"].as_array().unwrap().len(), 2);
    assert!(line["report"]["saved"]["percent"].as_f64().unwrap() > 0.0);
}

#[test]
fn every_transcript_is_looked_at_for_itself() {
    let (world, small) = scene(&Conversation::of(6));
    let large = world.conversation("large", &long(10));
    world.raw("bad", b"{}");
    let threshold = set("token_threshold=2000");
    let ran = world.run(&["auto", "conversation", "bad", "large", &threshold, "--json"]).exits(19);
    let lines = ran.lines();
    assert_eq!((&lines[0]["due"], &lines[2]["due"]), (&json!(false), &json!(true)));
    assert_eq!(lines[1]["error"]["code"], 4);
    small.assert_untouched();
    assert_eq!(large.overlays().len(), 2);
}

#[test]
fn ten_runs_append_what_one_does() {
    for profile in ["default", "light", "offline"] {
        let (world, transcript) = scene(&long(10));
        let run = |saving: &str| {
            let least = format!("--set=conversation.compaction.min_saving={saving}");
            auto(&world, &[&now(), "--profile", profile, &least]).exits(0);
        };
        run("0.01");
        let once = transcript.now();
        for saving in ["0", "0.01", "0", "0.01", "0", "0.01", "0", "0.01", "0"] {
            run(saving);
        }
        assert!(transcript.now() == once, "{profile}");
    }
}

#[test]
fn tokens_can_be_counted_exactly() {
    let (world, _) = scene(&long(10));
    let exact = view(&world, &["--tokens=exact"]);
    assert_ne!(view(&world, &[]), exact);
    let at = |tokens: u64| is_due(&world, &["--tokens=exact", &set(&format!("token_threshold={tokens}"))]);
    assert_eq!((at(exact), at(exact - 1)), (false, true));
    let ran = auto(&world, &["--tokens=exact", "--context-window=100000"]).exits(0);
    assert!(ran.stderr.contains("tokens (o200k)") && !ran.stderr.contains("about"), "{}", ran.stderr);
}

#[test]
fn a_failure_that_is_not_a_summarys_keeps_its_code() {
    let (world, transcript) = scene(&Conversation::of(8));
    world.plugin("odd", "exit 3");
    let sums = described("sums", &json!({"produces": ["summary"]}), "exit 3");
    world.script("plugins/sums", &sums);
    let run = |strategies: &str, more: &[&str]| {
        let profile = format!("--set=conversation.compaction.profiles.p.strategies={strategies}");
        let all = [&now()[..], &profile, "--profile=p", "--trust-dir=plugins", "--sandbox=contained"];
        auto(&world, &[&all[..], more].concat())
    };
    run("[\"odd\"]", &[]).exits(13);
    run("[\"odd\", \"sums\"]", &[]).exits(13);
    run("[\"missing\"]", &[]).exits(10);
    run("[\"sums\"]", &[])
        .exits(0)
        .says("warning: conversation/events.json: nothing was compacted: strategy `sums`");
    run("[\"sums\"]", &[&set("on_failure=fail")]).exits(18);
    run("[{name = \"strip-tools\", options = {mode = \"all\"}}]", &[]).exits(2);
    transcript.assert_untouched();
}

#[test]
fn stdin_is_not_compacted() {
    let (world, _) = scene(&Conversation::of(8));
    world.run(&["auto", "-"]).exits(2);
}

#[test]
fn the_examples_of_its_help_work() {
    let world = World::new();
    let transcript = world.conversation(".jp/conversations/17738399468-review", &Conversation::of(8));
    let help = world.run(&["auto", "--help"]).exits(0);
    let examples: Vec<_> =
        help.text().lines().filter_map(|line| line.strip_prefix("  jp-compact ")).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        world.run(&example.split(' ').collect::<Vec<_>>()).exits(0);
    }
    transcript.assert_untouched();
}
