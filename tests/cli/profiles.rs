//! What runs where no strategy is typed: profiles, JP's inline forms, and what is configured of turns.

use serde_json::{Value, json};

use crate::summarize::{record, says};
use crate::support::{Conversation, Ran, Transcript, World, hourly};

pub(crate) const REASONING: &str = "strip-reasoning {}";
pub(crate) const TOOLS: &str = r#"strip-tools {"mode":"strip"}"#;
const SUMMARIZE: &str = r#"summarize {"max_tokens":4096}"#;

/// What a run on `conversation` appends: strategy, options and turns of each overlay. `@` is short for
/// `conversation.compaction.`
#[track_caller]
fn made(world: &World, arguments: &str) -> Vec<String> {
    let transcript = Transcript::at(world.path("conversation/events.json"));
    run(world, "conversation", arguments).exits(0);
    receipts(&transcript)
}

fn run(world: &World, transcript: &str, arguments: &str) -> Ran {
    let arguments = arguments.replace('@', "conversation.compaction.");
    let arguments: Vec<_> = [transcript].into_iter().chain(arguments.split_whitespace()).collect();
    world.run(&arguments)
}

#[track_caller]
pub(crate) fn receipts(transcript: &Transcript) -> Vec<String> {
    let appended = transcript.appended();
    let receipts = appended.iter().filter(|element| element["type"] == "jp_compact_receipt");
    let told = receipts.map(|receipt| {
        let strategy = receipt["strategy"].as_str().unwrap();
        format!("{strategy} {} {}-{}", receipt["options"], receipt["from_turn"], receipt["to_turn"])
    });
    told.collect()
}

/// What a run on six turns appends.
#[track_caller]
fn check(arguments: &str, expect: &[&str]) {
    let world = World::new();
    world.conversation("conversation", &hourly());
    assert_eq!(made(&world, arguments), expect, "{arguments}");
}

/// The turns that both strategies of the profile `default` are asked for.
#[track_caller]
fn turns(arguments: &str, expect: &str) {
    check(arguments, &[&format!("{REASONING} {expect}"), &format!("{TOOLS} {expect}")]);
}

#[track_caller]
fn refused(arguments: &str, says: &str) {
    let world = World::new();
    let transcript = world.conversation("conversation", &hourly());
    run(&world, "conversation", arguments).exits(2).says(says);
    transcript.assert_untouched();
}

#[test]
fn profiles_are_built_in() {
    turns("", "0-2");
    turns("--profile default", "0-2");
    check("--profile light", &["strip-reasoning {} 0-2"]);
    check("-p offline", &["digest {} 0-2"]);
}

#[test]
fn heavy_is_a_summary_by_a_model() {
    for flag in ["--profile heavy", "--compact=heavy", "--set @default_profile=heavy"] {
        let world = World::new();
        let transcript = world.conversation("conversation", &hourly());
        record(&world, &json!({}), "3", &says("They read it."));
        assert_eq!(
            made(&world, &format!("{flag} --llm-replay answers.json")),
            [format!("{SUMMARIZE} 0-2")],
            "{flag}"
        );
        assert_eq!(transcript.overlays()[0]["summary"], json!({"summary": "They read it."}));
    }
}

#[test]
fn the_model_and_the_instructions_of_a_profile_reach_the_model() {
    let world = World::new();
    world.conversation("conversation", &hourly());
    let options = json!({"instructions": "Paths.", "model": "p/m"});
    // What is replayed is the answer to just this request.
    record(&world, &options, "3", &says("They read it."));
    let with = "--profile heavy --llm-replay answers.json --set @profiles.heavy.summary.model=p/m";
    run(&world, "conversation", with).exits(18).says("no answer was recorded");
    let both = format!("{with} --set @profiles.heavy.summary.instructions=Paths.");
    let options = r#"{"model":"p/m","instructions":"Paths.","max_tokens":4096}"#;
    assert_eq!(made(&world, &both), [format!("summarize {options} 0-2")]);
}

#[test]
fn an_unknown_profile_is_refused_with_those_there_are() {
    let known = "auto-summarize, collapse, default, heavy, light, micro, offline";
    refused("--profile nope", "there is no profile `nope`");
    refused("--profile nope", known);
    refused("--profile nope --dry-run --json", known);
    refused("--set @default_profile=nope", known);
}

#[test]
fn what_runs_is_said_once() {
    refused("--profile light --strategy digest", "cannot be used with");
    refused("--compact --strategy digest", "cannot be used with");
    refused("--compact=r --profile light", "cannot be used with");
    refused("--reset --profile light", "cannot be used with");
    refused("--reset --compact", "cannot be used with");
}

#[test]
fn compact_takes_a_profile_or_an_inline_form() {
    turns("--compact", "0-2");
    check("--compact --set @default_profile=light", &["strip-reasoning {} 0-2"]);
    check("--compact=light", &["strip-reasoning {} 0-2"]);
    turns("--compact=r+t", "0-2");
    turns("--compact=reasoning+tools --keep 1", "0-4");
    check("--compact=t=o", &[r#"strip-tools {"mode":"omit"} 0-2"#]);
}

#[test]
fn the_turns_of_an_inline_form_count_from_1() {
    check("--compact=t=sreq:2..-1", &[r#"strip-tools {"mode":"strip-requests"} 1-4"#]);
    check("--compact=t=sres:..", &[r#"strip-tools {"mode":"strip-responses"} 0-5"#]);
    check("--compact=r:5", &["strip-reasoning {} 4-5"]);
    check("--compact=r:-3", &["strip-reasoning {} 0-2"]);
    let world = World::new();
    world.conversation("conversation", &hourly());
    record(&world, &json!({}), "3", &says("They read it."));
    assert_eq!(made(&world, "--compact=s:..-3 --llm-replay answers.json"), [format!("{SUMMARIZE} 0-2")]);
}

#[test]
fn an_inline_form_that_is_none_is_refused_with_what_was_expected() {
    refused("--compact=nope", "`--compact=nope` names no profile and is no inline form: expected `r`");
    refused(
        "--compact=nope",
        "the profiles are auto-summarize, collapse, default, heavy, light, micro, offline; an inline form is",
    );
    refused("--compact=t=all", "expected `strip`, `strip-requests`, `strip-responses` or `omit`, not `all`");
    refused("--compact=r:0..2", "there is no turn `0`");
    refused("--compact=r:a..b", "not `a`");
    refused("--compact=r=x", "`r` takes no value");
    refused("--compact=r:", "expected turns behind `:`");
}

#[test]
fn what_stands_behind_compact_without_a_sign_is_not_taken_for_a_conversation() {
    for word in ["heavy", "r+t", "t=sreq:5..-3"] {
        refused(&format!("--compact {word}"), &format!("hint: `--compact={word}` runs a profile"));
    }
    let world = World::new();
    world.conversation("conversation", &hourly());
    world.conversation("other", &hourly());
    run(&world, "conversation", "--compact other").exits(0);
    run(&world, "conversation", "--compact ./heavy").exits(4).says("there is no transcript");
}

#[test]
fn an_inline_form_with_turns_of_its_own_takes_no_others() {
    for flag in ["--from 1", "--to 4", "--keep-first 1", "--keep-last 1"] {
        refused(&format!("--compact=r:..-3 {flag}"), "the inline form brings its own turns");
        let world = World::new();
        world.conversation("conversation", &hourly());
        run(&world, "conversation", &format!("--compact=r {flag}")).exits(0).says("1 overlay appended");
    }
}

#[test]
fn a_profile_goes_before_an_inline_form_of_its_name() {
    check("--compact=t --set @profiles.t.reasoning=strip", &["strip-reasoning {} 0-2"]);
    check("--compact=t", &[r#"strip-tools {"mode":"strip"} 0-2"#]);
}

#[test]
fn turns_are_kept_as_configured() {
    turns("--set @keep_last=1", "0-4");
    turns("--set @keep_first=2", "2-2");
    turns("--set @keep_first=1 --set @keep_last=0", "1-5");
    check("--strategy strip-reasoning --set @keep_last=1", &["strip-reasoning {} 0-4"]);
    check("--compact=r --set @keep_first=1", &["strip-reasoning {} 1-2"]);
}

#[test]
fn a_profile_keeps_its_own_turns() {
    turns("--set @profiles.default.keep_last=1", "0-4");
    turns("--set @profiles.default.keep_first=1", "1-2");
    turns("--set @profiles.default.keep_last=1 --set @keep_last=5 --set @keep_first=1", "1-4");
    turns("--set @profiles.light.keep_last=1", "0-2");
}

#[test]
fn a_profile_does_not_encode_a_range() {
    refused("--set @profiles.light.from=1", "profile `light` has `from`, and a profile says no range");
    refused("--set @profiles.light.to=-1", "profile `light` has `to`, and a profile says no range");
}

#[test]
fn what_is_typed_replaces_what_is_configured_of_its_own_side() {
    for set in ["@", "@profiles.default."] {
        let set = format!("--set {set}keep_first=1 --set {set}keep_last=2");
        turns(&set, "1-3");
        turns(&format!("{set} --from 2"), "2-3");
        turns(&format!("{set} --keep-first 0"), "0-3");
        turns(&format!("{set} --to 4"), "1-4");
        turns(&format!("{set} --keep-last 0"), "1-5");
        turns(&format!("{set} --from 0 --to 5"), "0-5");
    }
}

#[test]
fn the_strategies_of_a_profile_are_asked_for_the_turns_of_one_snapshot() {
    let world = World::new();
    world.conversation("conversation", &hourly());
    assert_eq!(made(&world, "--profile light --to 1"), ["strip-reasoning {} 0-1"]);
    // Were the second to see the overlay of the first, `last` would be another turn to it.
    assert_eq!(made(&world, "--from last --to 4"), [format!("{REASONING} 2-4"), format!("{TOOLS} 2-4")]);
}

#[test]
fn a_profile_may_list_strategies_with_options() {
    let list =
        r#"--set @profiles.p.strategies=[{name="strip-tools",options={mode="omit"}},"strip-reasoning"]"#;
    check(&format!("{list} -p p"), &[r#"strip-tools {"mode":"omit"} 0-2"#, "strip-reasoning {} 0-2"]);
    let wrong = list.replace("omit", "melt");
    refused(&format!("{wrong} -p p"), "melt");
    let world = World::new();
    let transcript = world.conversation("conversation", &hourly());
    let unknown = list.replace("strip-tools", "strip-tolls");
    run(&world, "conversation", &format!("{unknown} -p p")).exits(10).says("strip-tolls");
    transcript.assert_untouched();
}

#[test]
fn a_policy_of_a_profile_is_replaced_by_its_key() {
    let tools = |mode: &str| format!(r#"strip-tools {{"mode":"{mode}"}} 0-2"#);
    check("--set @profiles.default.tool_calls=omit", &["strip-reasoning {} 0-2", &tools("omit")]);
    let table = r#"--set @profiles.p.tool_calls={policy="strip",request=false,response=true} -p p"#;
    check(table, &[&tools("strip-responses")]);
}

#[test]
fn what_a_compaction_has_to_save_is_configured() {
    let world = World::new();
    world.conversation("conversation", &hourly());
    let quiet = run(&world, "conversation", "-n");
    assert!(!quiet.stderr.contains("is worth it"), "{}", quiet.stderr);
    run(&world, "conversation", "-n --set @min_saving=0.99").exits(0).says("and 99 % is worth it");
    // A model is not even asked.
    run(&world, "conversation", "-p heavy --llm-replay answers.json --set @min_saving=0.99").exits(2);
    world.file("answers.json", b"{}");
    let heavy = "-p heavy --llm-replay answers.json";
    run(&world, "conversation", heavy).exits(18).says("no answer was recorded");
    let declined = run(&world, "conversation", &format!("{heavy} --set @min_saving=0.99")).exits(0);
    declined.says("no model was asked: a summary of turns 0-2 could save").says("and 99 % is the least");
}

#[test]
fn which_overlaps_extend_a_summary_is_configured() {
    let nested = "-p offline --from 1 --to 2";
    for (arguments, expect) in [
        (nested.to_owned(), "digest {} 1-2"),
        (format!("{nested} --set @overlap=union"), "digest {} 0-4"),
        (format!("{nested} --set @overlap=union --overlap partial"), "digest {} 1-2"),
    ] {
        let older = json!({"from_turn": 0, "to_turn": 4, "summary": {"summary": "S"}});
        let world = World::new();
        world.conversation("conversation", &Conversation::bulky(6).compaction(older));
        assert_eq!(made(&world, &arguments), [expect], "{arguments}");
    }
}

/// JP's own rules: tool calls of all turns but the first, reasoning of all but the first and the last.
fn rules() -> Value {
    json!({"conversation": {"compaction": {"rules": ["t=o:2..", {"reasoning": "strip"}]}}})
}

const BY_RULES: [&str; 2] = [r#"strip-tools {"mode":"omit"} 1-5"#, "strip-reasoning {} 1-4"];

#[test]
fn jp_s_rules_are_the_default_profile_where_no_layer_names_another() {
    for from_base in [true, false] {
        let world = World::new();
        let conversation = hourly();
        let conversation = if from_base {
            conversation
        } else {
            conversation.event("config_delta", json!({ "delta": rules() }))
        };
        world.conversation("conversation", &conversation);
        if from_base {
            world.file("conversation/base_config.json", rules().to_string().as_bytes());
        }
        let before = Transcript::at(world.path("conversation/events.json"));
        let fresh = || std::fs::write(&before.path, before.before()).unwrap();
        for arguments in ["", "--profile rules", "--compact", "--set @default_profile=rules"] {
            assert_eq!(made(&world, arguments), BY_RULES, "{arguments}");
            fresh();
        }
        assert_eq!(made(&world, "--set @default_profile=light"), ["strip-reasoning {} 0-2"]);
        fresh();
        world.file(".jp-compact.toml", b"conversation.compaction.default_profile = \"light\"\n");
        assert_eq!(made(&world, ""), ["strip-reasoning {} 0-2"]);
    }
}

#[test]
fn rules_that_are_not_followed_are_told_where_the_configuration_decides() {
    let world = World::new();
    let transcript = world.conversation("conversation", &hourly());
    let wrong = rules().to_string().replace("t=o", "t=melt");
    world.file("conversation/base_config.json", wrong.as_bytes());
    let ran = run(&world, "conversation", "-n").exits(0);
    assert_eq!(ran.stderr.matches("warning: JP's compaction rules in ").count(), 1, "{}", ran.stderr);
    for silent in ["-n --quiet", "-n --strategy strip-tools"] {
        let ran = run(&world, "conversation", silent).exits(0);
        assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
    }
    transcript.assert_untouched();
}

#[test]
fn what_is_typed_replaces_an_end_of_jp_s_rules() {
    let world = World::new();
    let transcript = world.conversation("conversation", &hourly());
    world.file("conversation/base_config.json", rules().to_string().as_bytes());
    let tools = |turns: &str| format!(r#"strip-tools {{"mode":"omit"}} {turns}"#);
    assert_eq!(made(&world, "--keep-last 1"), [tools("1-4"), "strip-reasoning {} 1-4".into()]);
    std::fs::write(&transcript.path, transcript.before()).unwrap();
    assert_eq!(made(&world, "--from 2"), [tools("2-5"), "strip-reasoning {} 2-4".into()]);
}

#[test]
fn a_conversation_that_keeps_every_turn_says_so_with_what_is_configured() {
    let world = World::new();
    let transcript = world.conversation("conversation", &Conversation::of(4));
    run(&world, "conversation", "--set @keep_last=9").exits(0).says("the last 9 turns are kept");
    transcript.assert_untouched();
}
