//! Profiles, JP's inline forms, and the configured range of turns.

use serde_json::{Value, json};

use crate::summarize::{record_answers, recorded_answer};
use crate::support::{CommandOutput, Conversation, Transcript, World, hourly_turns};

pub(crate) const REASONING: &str = "strip-reasoning {}";
pub(crate) const TOOLS: &str = r#"strip-tools {"mode":"strip"}"#;
const SUMMARIZE: &str = r#"summarize {"max_tokens":4096}"#;

/// Compacts `conversation`. Returns strategy, options and turns of each appended receipt. In the arguments, `@` means
/// `conversation.compaction.`.
#[track_caller]
fn compact(world: &World, arguments: &str) -> Vec<String> {
    let transcript = Transcript::capture(world.path("conversation/events.json"));
    run(world, "conversation", arguments).exits(0);
    receipts(&transcript)
}

fn run(world: &World, transcript: &str, arguments: &str) -> CommandOutput {
    let arguments = arguments.replace('@', "conversation.compaction.");
    let arguments: Vec<_> = [transcript].into_iter().chain(arguments.split_whitespace()).collect();
    world.run(&arguments)
}

#[track_caller]
pub(crate) fn receipts(transcript: &Transcript) -> Vec<String> {
    let appended = transcript.appended();
    let receipts = appended.iter().filter(|element| element["type"] == "jp_compact_receipt");
    let lines = receipts.map(|receipt| {
        let strategy = receipt["strategy"].as_str().unwrap();
        format!("{strategy} {} {}-{}", receipt["options"], receipt["from_turn"], receipt["to_turn"])
    });
    lines.collect()
}

/// Checks the receipts that a run on six turns appends.
#[track_caller]
fn check(arguments: &str, expect: &[&str]) {
    let world = World::new();
    world.write_conversation("conversation", &hourly_turns());
    assert_eq!(compact(&world, arguments), expect, "{arguments}");
}

/// Checks the turns that both strategies of the profile `default` compact.
#[track_caller]
fn check_turns(arguments: &str, expect: &str) {
    check(arguments, &[&format!("{REASONING} {expect}"), &format!("{TOOLS} {expect}")]);
}

/// Checks that a run with these arguments is a usage error with this message.
#[track_caller]
fn check_rejected(arguments: &str, message: &str) {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &hourly_turns());
    run(&world, "conversation", arguments).exits(2).reports(message);
    transcript.assert_untouched();
}

#[test]
fn built_in_profiles_run() {
    check_turns("", "0-2");
    check_turns("--profile default", "0-2");
    check("--profile light", &["strip-reasoning {} 0-2"]);
    check("-p offline", &["digest {} 0-2"]);
}

#[test]
fn heavy_profile_summarizes_with_model() {
    for flag in ["--profile heavy", "--compact=heavy", "--set @default_profile=heavy"] {
        let world = World::new();
        let transcript = world.write_conversation("conversation", &hourly_turns());
        record_answers(&world, &json!({}), "3", &recorded_answer("They read it."));
        assert_eq!(
            compact(&world, &format!("{flag} --llm-replay answers.json")),
            [format!("{SUMMARIZE} 0-2")],
            "{flag}"
        );
        assert_eq!(
            transcript.overlays()[0]["summary"],
            json!({"summary": "They read it.\n\n## Kept verbatim\n\nPaths:\n- src/main.rs"})
        );
    }
}

#[test]
fn profile_sets_model_and_instructions() {
    let world = World::new();
    world.write_conversation("conversation", &hourly_turns());
    let options = json!({"instructions": "Paths.", "model": "p/m"});
    // The answer is replayed only for exactly this request.
    record_answers(&world, &options, "3", &recorded_answer("They read it."));
    let with_model = "--profile heavy --llm-replay answers.json --set @profiles.heavy.summary.model=p/m";
    run(&world, "conversation", with_model).exits(18).reports("no answer was recorded");
    let with_instructions = format!("{with_model} --set @profiles.heavy.summary.instructions=Paths.");
    let options = r#"{"model":"p/m","instructions":"Paths.","max_tokens":4096}"#;
    assert_eq!(compact(&world, &with_instructions), [format!("summarize {options} 0-2")]);
}

#[test]
fn unknown_profile_error_lists_known_profiles() {
    let known_profiles = "auto-summarize, collapse, default, heavy, light, micro, offline";
    check_rejected("--profile nope", "there is no profile `nope`");
    check_rejected("--profile nope", known_profiles);
    check_rejected("--profile nope --dry-run --json", known_profiles);
    check_rejected("--set @default_profile=nope", known_profiles);
}

#[test]
fn rejects_conflicting_options() {
    check_rejected("--profile light --strategy digest", "cannot be used with");
    check_rejected("--compact --strategy digest", "cannot be used with");
    check_rejected("--compact=r --profile light", "cannot be used with");
    check_rejected("--reset --profile light", "cannot be used with");
    check_rejected("--reset --compact", "cannot be used with");
}

#[test]
fn compact_option_takes_profile_or_inline_form() {
    check_turns("--compact", "0-2");
    check("--compact --set @default_profile=light", &["strip-reasoning {} 0-2"]);
    check("--compact=light", &["strip-reasoning {} 0-2"]);
    check_turns("--compact=r+t", "0-2");
    check_turns("--compact=reasoning+tools --keep 1", "0-4");
    check("--compact=t=o", &[r#"strip-tools {"mode":"omit"} 0-2"#]);
}

#[test]
fn inline_form_counts_turns_from_one() {
    check("--compact=t=sreq:2..-1", &[r#"strip-tools {"mode":"strip-requests"} 1-4"#]);
    check("--compact=t=sres:..", &[r#"strip-tools {"mode":"strip-responses"} 0-5"#]);
    check("--compact=r:5", &["strip-reasoning {} 4-5"]);
    check("--compact=r:-3", &["strip-reasoning {} 0-2"]);
    let world = World::new();
    world.write_conversation("conversation", &hourly_turns());
    record_answers(&world, &json!({}), "3", &recorded_answer("They read it."));
    assert_eq!(compact(&world, "--compact=s:..-3 --llm-replay answers.json"), [format!("{SUMMARIZE} 0-2")]);
}

#[test]
fn invalid_inline_form_error_states_expectation() {
    check_rejected("--compact=nope", "it is neither a profile nor an inline form: expected `r`");
    check_rejected(
        "--compact=nope",
        "the profiles are agent, auto-summarize, collapse, default, heavy, light, micro, offline; an inline form is",
    );
    check_rejected(
        "--compact=t=all",
        "expected `strip`, `strip-requests`, `strip-responses` or `omit`, not `all`",
    );
    check_rejected("--compact=r:0..2", "turn `0` does not exist");
    check_rejected("--compact=r:a..b", "not `a`");
    check_rejected("--compact=r=x", "`r` takes no value");
    check_rejected("--compact=r:", "expected turns after `:`");
}

#[test]
fn compact_option_without_equals_sign_is_explained() {
    for word in ["heavy", "r+t", "t=sreq:5..-3"] {
        check_rejected(&format!("--compact {word}"), &format!("hint: `--compact={word}` runs the profile"));
    }
    let world = World::new();
    world.write_conversation("conversation", &hourly_turns());
    world.write_conversation("other", &hourly_turns());
    run(&world, "conversation", "--compact other").exits(0);
    run(&world, "conversation", "--compact ./heavy").exits(4).reports("failed to find a transcript");
}

#[test]
fn inline_range_conflicts_with_range_options() {
    for flag in ["--from 1", "--to 4", "--keep-first 1", "--keep-last 1"] {
        check_rejected(&format!("--compact=r:..-3 {flag}"), "the inline form already selects turns");
        let world = World::new();
        world.write_conversation("conversation", &hourly_turns());
        run(&world, "conversation", &format!("--compact=r {flag}")).exits(0).reports("1 overlay appended");
    }
}

#[test]
fn profile_takes_precedence_over_inline_form() {
    check("--compact=t --set @profiles.t.reasoning=strip", &["strip-reasoning {} 0-2"]);
    check("--compact=t", &[r#"strip-tools {"mode":"strip"} 0-2"#]);
}

#[test]
fn respects_configured_keep_options() {
    check_turns("--set @keep_last=1", "0-4");
    check_turns("--set @keep_first=2", "2-2");
    check_turns("--set @keep_first=1 --set @keep_last=0", "1-5");
    check("--strategy strip-reasoning --set @keep_last=1", &["strip-reasoning {} 0-4"]);
    check("--compact=r --set @keep_first=1", &["strip-reasoning {} 1-2"]);
}

#[test]
fn profile_overrides_keep_options() {
    check_turns("--set @profiles.default.keep_last=1", "0-4");
    check_turns("--set @profiles.default.keep_first=1", "1-2");
    check_turns("--set @profiles.default.keep_last=1 --set @keep_last=5 --set @keep_first=1", "1-4");
    check_turns("--set @profiles.light.keep_last=1", "0-2");
}

#[test]
fn rejects_range_in_profile() {
    check_rejected(
        "--set @profiles.light.from=1",
        "profile `light` has `from`, but a profile cannot set a range",
    );
    check_rejected(
        "--set @profiles.light.to=-1",
        "profile `light` has `to`, but a profile cannot set a range",
    );
}

#[test]
fn option_overrides_configured_bound_of_same_side() {
    for set in ["@", "@profiles.default."] {
        let set = format!("--set {set}keep_first=1 --set {set}keep_last=2");
        check_turns(&set, "1-3");
        check_turns(&format!("{set} --from 2"), "2-3");
        check_turns(&format!("{set} --keep-first 0"), "0-3");
        check_turns(&format!("{set} --to 4"), "1-4");
        check_turns(&format!("{set} --keep-last 0"), "1-5");
        check_turns(&format!("{set} --from 0 --to 5"), "0-5");
    }
}

#[test]
fn strategies_of_profile_share_one_snapshot() {
    let world = World::new();
    world.write_conversation("conversation", &hourly_turns());
    assert_eq!(compact(&world, "--profile light --to 1"), ["strip-reasoning {} 0-1"]);
    // `last` would be a different turn if the second strategy saw the overlay of the first.
    assert_eq!(compact(&world, "--from last --to 4"), [format!("{REASONING} 2-4"), format!("{TOOLS} 2-4")]);
}

#[test]
fn profile_lists_strategies_with_options() {
    let profile =
        r#"--set @profiles.p.strategies=[{name="strip-tools",options={mode="omit"}},"strip-reasoning"]"#;
    check(&format!("{profile} -p p"), &[r#"strip-tools {"mode":"omit"} 0-2"#, "strip-reasoning {} 0-2"]);
    let invalid = profile.replace("omit", "melt");
    check_rejected(&format!("{invalid} -p p"), "melt");
    let world = World::new();
    let transcript = world.write_conversation("conversation", &hourly_turns());
    let unknown = profile.replace("strip-tools", "strip-tolls");
    run(&world, "conversation", &format!("{unknown} -p p")).exits(10).reports("strip-tolls");
    transcript.assert_untouched();
}

#[test]
fn set_option_replaces_policy_of_profile() {
    let tools = |mode: &str| format!(r#"strip-tools {{"mode":"{mode}"}} 0-2"#);
    check("--set @profiles.default.tool_calls=omit", &["strip-reasoning {} 0-2", &tools("omit")]);
    let table = r#"--set @profiles.p.tool_calls={policy="strip",request=false,response=true} -p p"#;
    check(table, &[&tools("strip-responses")]);
}

#[test]
fn min_saving_is_configurable() {
    let world = World::new();
    world.write_conversation("conversation", &hourly_turns());
    let output = run(&world, "conversation", "-n");
    assert!(!output.stderr.contains("(min_saving)"), "{}", output.stderr);
    run(&world, "conversation", "-n --set @min_saving=0.99").exits(0).reports("less than 99 % (min_saving)");
    // The file of answers must exist, even if no request is sent.
    run(&world, "conversation", "-p heavy --llm-replay answers.json --set @min_saving=0.99").exits(2);
    world.write_file("answers.json", b"{}");
    let heavy = "-p heavy --llm-replay answers.json";
    run(&world, "conversation", heavy).exits(18).reports("no answer was recorded");
    let declined = run(&world, "conversation", &format!("{heavy} --set @min_saving=0.99")).exits(0);
    declined.reports("no model was asked: a summary of turns 0-2 could save").reports("the minimum is 99 %");
}

#[test]
fn overlap_mode_is_configurable() {
    let inner_range = "-p offline --from 1 --to 2";
    for (arguments, expect) in [
        (inner_range.to_owned(), "digest {} 1-2"),
        (format!("{inner_range} --set @overlap=union"), "digest {} 0-4"),
        (format!("{inner_range} --set @overlap=union --overlap partial"), "digest {} 1-2"),
    ] {
        let summary = json!({"from_turn": 0, "to_turn": 4, "summary": {"summary": "S"}});
        let world = World::new();
        world.write_conversation("conversation", &Conversation::bulky(6).compaction(summary));
        assert_eq!(compact(&world, &arguments), [expect], "{arguments}");
    }
}

/// Returns rules of JP. They omit the tool calls of all turns but the first, and strip the reasoning of all turns but
/// the first and the last.
fn rules() -> Value {
    json!({"conversation": {"compaction": {"rules": ["t=o:2..", {"reasoning": "strip"}]}}})
}

const BY_RULES: [&str; 2] = [r#"strip-tools {"mode":"omit"} 1-5"#, "strip-reasoning {} 1-4"];

#[test]
fn jp_rules_are_default_profile_unless_configured() {
    for from_base in [true, false] {
        let world = World::new();
        let conversation = hourly_turns();
        let conversation = if from_base {
            conversation
        } else {
            conversation.event("config_delta", json!({ "delta": rules() }))
        };
        world.write_conversation("conversation", &conversation);
        if from_base {
            world.write_file("conversation/base_config.json", rules().to_string().as_bytes());
        }
        let transcript = Transcript::capture(world.path("conversation/events.json"));
        let restore = || std::fs::write(&transcript.path, transcript.original_bytes()).unwrap();
        for arguments in ["", "--profile rules", "--compact", "--set @default_profile=rules"] {
            assert_eq!(compact(&world, arguments), BY_RULES, "{arguments}");
            restore();
        }
        assert_eq!(compact(&world, "--set @default_profile=light"), ["strip-reasoning {} 0-2"]);
        restore();
        world.write_file(".jp-compact.toml", b"conversation.compaction.default_profile = \"light\"\n");
        assert_eq!(compact(&world, ""), ["strip-reasoning {} 0-2"]);
    }
}

#[test]
fn warns_about_invalid_jp_rules() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &hourly_turns());
    let invalid_rules = rules().to_string().replace("t=o", "t=melt");
    world.write_file("conversation/base_config.json", invalid_rules.as_bytes());
    let output = run(&world, "conversation", "-n").exits(0);
    assert_eq!(
        output.stderr.matches("warning: ignored JP's compaction rules in ").count(),
        1,
        "{}",
        output.stderr
    );
    for arguments in ["-n --quiet", "-n --strategy strip-tools"] {
        let output = run(&world, "conversation", arguments).exits(0);
        assert!(!output.stderr.contains("warning"), "{}", output.stderr);
    }
    transcript.assert_untouched();
}

#[test]
fn option_overrides_bound_of_jp_rules() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &hourly_turns());
    world.write_file("conversation/base_config.json", rules().to_string().as_bytes());
    let tools = |turns: &str| format!(r#"strip-tools {{"mode":"omit"}} {turns}"#);
    assert_eq!(compact(&world, "--keep-last 1"), [tools("1-4"), "strip-reasoning {} 1-4".into()]);
    std::fs::write(&transcript.path, transcript.original_bytes()).unwrap();
    assert_eq!(compact(&world, "--from 2"), [tools("2-5"), "strip-reasoning {} 2-4".into()]);
}

#[test]
fn explains_when_configuration_keeps_all_turns() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(4));
    run(&world, "conversation", "--set @keep_last=9").exits(0).reports("keep the last 9 turns");
    transcript.assert_untouched();
}
