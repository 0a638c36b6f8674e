//! The precedence of the newest policy (RFD 064, "Stacking Semantics"). A weaker policy or other hints restore events,
//! but only if the user named the strategy or the profile in the command.

use serde_json::{Value, json};

use crate::support::{Agent, CommandOutput, Conversation, Transcript, World};

const RESTORES: &str = "tokens, because it replaces an older policy";
const WEAKER: &str = "strip-tools:mode=strip-responses";
const PROFILE_WEAKER: &str = "--set=conversation.compaction.profiles.weak.tool_calls=strip-responses";
const KEEP_READ: &str = "--set=conversation.tools.fs_read_file.compaction=keep";

/// Returns three turns with long arguments and long output, and three turns that are kept by default.
fn conversation() -> Conversation {
    let (arguments, output) = (json!({"path": "src/".repeat(20)}), "a line of no importance\n".repeat(20));
    let call = |conversation: Conversation| {
        conversation.turn("Read it.").reasoning("It may be long.").call(
            "fs_read_file",
            arguments.clone(),
            &output,
        )
    };
    let read = (0..3).fold(Conversation::new(), |conversation, _| call(conversation).message("It is read."));
    read.whole_turn().whole_turn().whole_turn()
}

fn world() -> (World, Transcript) {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &conversation());
    (world, transcript)
}

/// Compacts the conversation successfully.
#[track_caller]
fn compact(world: &World, arguments: &[&str]) -> CommandOutput {
    world.run(&[&["conversation"], arguments].concat()).exits(0)
}

#[track_caller]
fn strip(world: &World, spec: &str) -> CommandOutput {
    compact(world, &["--strategy", spec])
}

#[track_caller]
fn view_tokens(world: &World) -> u64 {
    let line = world.run(&["show", "conversation", "--json"]).exits(0).line();
    line["tokens"]["view_after"].as_u64().unwrap()
}

/// Returns the policies for tool calls of all overlays.
fn policies(transcript: &Transcript) -> Vec<Value> {
    transcript.overlays().iter().filter_map(|overlay| overlay.get("tool_calls").cloned()).collect()
}

/// Returns the entry of the first transcript in the report of a batch.
#[track_caller]
pub(crate) fn transcript_report(output: &CommandOutput) -> Value {
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let report: Value = serde_json::from_str(output.text()).unwrap();
    report["transcripts"][0].clone()
}

#[test]
fn typed_weaker_policy_restores_and_the_same_policy_declines() {
    let (world, transcript) = world();
    strip(&world, "strip-tools");
    let stripped = view_tokens(&world);
    let dry_run = compact(&world, &["--strategy", WEAKER, "--dry-run"]);
    dry_run.reports("note: strip-tools would restore ").reports(RESTORES);
    let output = strip(&world, WEAKER);
    assert!(!output.stderr.contains("did not shrink"), "{}", output.stderr);
    let restored = view_tokens(&world) - stripped;
    output.reports(&format!("note: strip-tools restores {restored} {RESTORES}"));
    strip(&world, WEAKER).reports("declined: the view already has this policy in range");
    let output = strip(&world, "strip-tools");
    assert!(!output.stderr.contains("restore"), "{}", output.stderr);
    assert_eq!(view_tokens(&world), stripped);
    let policy = |request, response| json!({"policy": "strip", "request": request, "response": response});
    assert_eq!(policies(&transcript), [policy(true, true), policy(false, true), policy(true, true)]);
}

#[test]
fn omitted_calls_come_back_with_a_weaker_policy() {
    let (world, transcript) = world();
    strip(&world, "strip-tools:mode=omit");
    strip(&world, "strip-tools:mode=omit").reports("declined: the view already has this policy in range");
    strip(&world, "strip-tools").reports("tokens, because it replaces an older policy");
    assert_eq!(transcript.overlays().len(), 2);
    assert!(world.run(&["print", "conversation", "--compacted"]).text().contains("[compacted] fs_read_file"));
}

#[test]
fn only_the_shown_policy_counts() {
    let (world, transcript) = world();
    strip(&world, "strip-tools");
    compact(&world, &["--strategy", WEAKER, "--from", "0", "--to", "0"]);
    // Turn 0 shows the weaker policy, and turns 1 and 2 the stronger one.
    compact(&world, &["--strategy", WEAKER, "--from", "0", "--to", "0"]).reports("declined");
    compact(&world, &["--strategy", "strip-tools", "--from", "1", "--to", "2"]).reports("declined");
    assert_eq!(transcript.overlays().len(), 2);
    strip(&world, "strip-tools");
    strip(&world, "strip-tools").reports("declined");
    assert_eq!(transcript.overlays().len(), 3);
}

#[test]
fn changed_hints_count_as_a_different_policy() {
    let (world, transcript) = world();
    let strip = ["--strategy", "strip-tools"];
    compact(&world, &strip);
    let with_hint = [&strip[..], &[KEEP_READ]].concat();
    compact(&world, &with_hint).reports("tokens, because it replaces an older policy");
    compact(&world, &with_hint).reports("declined: the view already has this policy in range");
    let unused = "--set=conversation.tools.not_used_here.compaction=keep";
    compact(&world, &[&with_hint[..], &[unused]].concat()).reports("declined");
    // The second overlay is the part that JP can apply.
    let overlays = transcript.overlays();
    let keep = json!({"fs_read_file": {"request": "keep", "response": "keep"}});
    assert_eq!((overlays.len(), &overlays[2]["tool_overrides"]), (3, &keep));
    let removed = compact(&world, &strip);
    assert!(!removed.stderr.contains("declined"), "{}", removed.stderr);
    let overlays = transcript.overlays();
    assert_eq!((overlays.len(), overlays[3].get("tool_overrides")), (4, None));
}

#[test]
fn policy_over_a_summary_declines_and_names_the_overlay() {
    let world = World::new();
    let summary =
        |from: usize, to: usize| json!({"from_turn": from, "to_turn": to, "summary": {"summary": "S"}});
    let conversation = conversation().compaction(summary(0, 1)).compaction(summary(2, 2));
    let transcript = world.write_conversation("conversation", &conversation);
    let over = |from, to| compact(&world, &["--strategy", "strip-tools", "--from", from, "--to", to]);
    over("0", "1").reports(
        "declined: turns 0-1 are summarized (overlay 1), and a policy has no effect on a summary; remove it with \
         `--reset=1`",
    );
    over("2", "2").reports("declined: turn 2 is summarized (overlay 2)");
    over("0", "2").reports("(overlays 1, 2)");
    compact(&world, &["--strategy", "strip-reasoning", "--from", "0", "--to", "1"]).reports("`--reset=1`");
    assert_eq!(transcript.overlays().len(), 0);
    over("1", "3");
    assert_eq!(transcript.overlays().len(), 1, "turn 3 is not summarized");
}

#[test]
fn typed_profile_restores_and_configured_profile_does_not() {
    let (world, transcript) = world();
    strip(&world, "strip-tools");
    let default_weak = "--set=conversation.compaction.default_profile=weak";
    for arguments in [&[PROFILE_WEAKER, default_weak][..], &[PROFILE_WEAKER, default_weak, "--compact"]] {
        compact(&world, arguments).reports(
            "tokens; only a strategy or a profile that is named in the command may do that (`--profile NAME`)",
        );
    }
    assert_eq!(transcript.overlays().len(), 1);
    for (number, arguments) in [["--profile", "weak"], ["--compact=weak", ""]].iter().enumerate() {
        let arguments: Vec<_> = arguments.iter().filter(|argument| !argument.is_empty()).copied().collect();
        compact(&world, &[&[PROFILE_WEAKER], &arguments[..]].concat()).reports(RESTORES);
        strip(&world, "strip-tools");
        assert_eq!(transcript.overlays().len(), 3 + 2 * number);
    }
    compact(&world, &["--compact=t=sres:..-3"]).reports(RESTORES);
}

#[test]
fn automatic_runs_restore_nothing() {
    // The run as a whole saves tokens, because the reasoning is long. Only the policy for calls would restore events.
    let long_reasoning = "It may be long. ".repeat(400);
    let turns = (0..3).fold(Conversation::new(), |conversation, _| {
        let read = conversation.turn("Read it.").reasoning(&long_reasoning);
        read.call("fs_read_file", json!({"path": "a.rs"}), &"a line of no importance\n".repeat(20))
            .message("It is read.")
    });
    let conversation = turns.whole_turn().whole_turn().whole_turn();
    for command in [&["auto", "--profile", "weak"][..], &["auto"]] {
        let world = World::new();
        let transcript = world.write_conversation("conversation", &conversation);
        strip(&world, "strip-tools");
        // Two rules prevent a restoration: `auto` continues after the last overlay of the same kind, and it declines a
        // proposal that makes the view larger.
        let options = [
            "conversation",
            PROFILE_WEAKER,
            "--set=conversation.compaction.profiles.weak.reasoning=strip",
            "--set=conversation.compaction.auto.profile=weak",
            "--set=conversation.compaction.auto.min_turns=0",
            "--context-window=100",
            "--from=0",
            "--to=2",
        ];
        world.run(&[command, &options[..]].concat()).exits(0).reports("1 overlay appended");
        assert_eq!(policies(&transcript).len(), 1, "{command:?}");
        assert_eq!(transcript.overlays().len(), 2, "{command:?}");
    }
}

#[test]
fn batch_restores_only_with_its_option() {
    let (world, transcript) = world();
    strip(&world, "strip-tools");
    let batch = ["batch", "conversation", "--strategy", WEAKER];
    let report = |extra: &[&str]| transcript_report(&world.run(&[&batch[..], &["--json"], extra].concat()));
    let declined = report(&[]);
    let reason = declined["declines"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("it would make the view larger by "), "{reason}");
    assert!(reason.ends_with(" tokens; `--restore` allows that"), "{reason}");
    assert_eq!((&declined["status"], transcript.overlays().len()), (&json!("unchanged"), 1));
    let restored = report(&["--restore"]);
    assert_eq!(restored["status"], "compacted");
    assert_eq!(
        restored["notes"],
        json!([format!("strip-tools restores {} {RESTORES}", restored["restored_tokens"])])
    );
    assert_eq!(report(&["--restore"])["status"], "skipped");
    assert_eq!(transcript.overlays().len(), 2);
}

#[test]
fn batch_of_records_restores_only_with_its_option() {
    let (world, transcript) = world();
    strip(&world, "strip-tools");
    let transcript: Value = serde_json::from_slice(&transcript.current_bytes()).unwrap();
    let record = json!({"id": 1, "transcript": transcript}).to_string();
    let answer = |extra: &[&str]| {
        let arguments = [&["batch", "--ndjson", "--strategy", WEAKER], extra].concat();
        world.run_with_stdin(&arguments, record.as_bytes()).exits(0).line()
    };
    let declined = answer(&[]);
    assert_eq!((&declined["new_overlays"], declined.get("restored_tokens")), (&json!(0), None));
    let restored = answer(&["--restore"]);
    assert_eq!(restored["new_overlays"], 1);
    assert!(restored["restored_tokens"].as_u64() > Some(0), "{restored}");
}

#[test]
fn batch_proposes_a_policy_again_that_a_newer_one_replaced() {
    let (world, transcript) = world();
    let batch = || world.run(&["batch", "conversation", "--strategy", "strip-tools", "--json"]).exits(0);
    let status = |output: &CommandOutput| transcript_report(output)["status"].clone();
    assert_eq!(status(&batch()), "compacted");
    assert_eq!(status(&batch()), "skipped");
    strip(&world, WEAKER);
    assert_eq!(status(&batch()), "compacted", "the newer overlay hides less");
    assert_eq!(status(&batch()), "skipped");
    assert_eq!(transcript.overlays().len(), 3);
    let with_hint =
        [&["batch", "conversation", "--strategy", "strip-tools", "--restore", "--json"][..], &[KEEP_READ]]
            .concat();
    assert_eq!(status(&world.run(&with_hint).exits(0)), "compacted", "the hints have changed");
    assert_eq!(status(&world.run(&with_hint).exits(0)), "skipped");
}

#[test]
fn document_has_the_restored_tokens() {
    let (world, _) = world();
    let first = compact(&world, &["--strategy", "strip-tools", "--json"]).line();
    assert_eq!(first["restored_tokens"], 0);
    let line = compact(&world, &["--strategy", WEAKER, "--json"]).line();
    let restored = line["restored_tokens"].as_i64().unwrap();
    assert_eq!(line["notes"], json!([format!("strip-tools restores {restored} {RESTORES}")]));
    assert!(restored > 0 && line["saved"]["tokens"] == -restored, "{line}");
}

#[test]
fn mcp_restores_with_a_named_profile_only() {
    let world = World::new();
    world.write_conversation("project/conversation", &conversation());
    world.run(&["project/conversation", "--strategy", "strip-tools"]).exits(0);
    let default_weak = "--set=conversation.compaction.default_profile=weak";
    let mut agent = Agent::connect(&world, &[PROFILE_WEAKER, default_weak]);
    let declined = agent.call("compact", json!({"transcript": "conversation"})).succeeds();
    assert!(declined.text().contains("it would make the view larger by "), "{}", declined.text());
    let restored = agent.call("compact", json!({"transcript": "conversation", "profile": "weak"})).succeeds();
    assert!(restored.text().contains(RESTORES), "{}", restored.text());
    assert!(restored.0["structuredContent"]["restored_tokens"].as_u64() > Some(0));
    agent.close().exits(0);
}

#[test]
fn strategy_that_adds_nothing_to_the_run_declines() {
    let (world, transcript) = world();
    let twice = compact(&world, &["--strategy", "strip-tools:mode=omit", "--strategy", "strip-tools"]);
    assert!(!twice.stderr.contains("declined"), "the second replaces the first: {}", twice.stderr);
    assert_eq!(transcript.overlays().len(), 2);
    let (world, transcript) = self::world();
    compact(&world, &["--strategy", "strip-tools", "--strategy", "strip-tools"])
        .reports("declined: it adds nothing to the overlays that this run already proposes");
    compact(&world, &["--strategy", "digest", "--strategy", "strip-reasoning"])
        .reports("declined: it adds nothing to the overlays that this run already proposes");
    assert_eq!(transcript.overlays().len(), 2);
}

#[test]
fn micro_restores_results_that_other_options_keep() {
    let world = World::new();
    let conversation = (0..4).fold(Conversation::new().turn("Look."), |conversation, number| {
        conversation.call("Read", json!({"number": number}), &"x".repeat(900))
    });
    let transcript = world.write_conversation("conversation", &conversation.message("Seen."));
    let micro = |spec: &str| compact(&world, &["--strategy", spec, "--keep-last", "0"]);
    micro("micro:keep_recent=1");
    micro("micro:keep_recent=3").reports("because it replaces an older policy");
    micro("micro:keep_recent=3").reports("declined");
    let overlays = transcript.overlays();
    let calls = overlays[1]["tool_calls"]["calls"].as_array().unwrap();
    let entries: Vec<_> =
        calls.iter().map(|call| (call["seq"].as_u64().unwrap(), &call["response"])).collect();
    assert_eq!(entries, [(5, &json!("keep")), (7, &json!("keep"))]);
    let view = world.run(&["print", "conversation", "--compacted"]).exits(0);
    assert_eq!(view.text().matches("[Previous: used Read]").count(), 1);
}
