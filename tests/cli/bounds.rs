//! `--from`, `--to`, `--keep-first` and `--keep-last`: the turns that they select, and the values that are rejected.

use serde_json::{Value, json};

use crate::support::{Conversation, World, hourly_turns};

/// Checks which turns these options select in a conversation with turns 0 to 5.
#[track_caller]
fn check(flags: &str, expect: impl Into<Option<(u64, u64)>>) {
    let world = World::new();
    world.write_conversation("conversation", &hourly_turns());
    check_in(&world, flags, expect.into());
}

/// Like `check`, with the conversation in this environment.
#[track_caller]
fn check_in(world: &World, flags: &str, expect: Option<(u64, u64)>) {
    let fixed_arguments =
        ["--now", "2026-03-18T16:30:00Z", "--strategy", "strip-tools:mode=omit", "--json", "--dry-run"];
    let arguments: Vec<_> =
        ["conversation"].into_iter().chain(fixed_arguments).chain(flags.split_whitespace()).collect();
    let line = world.run(&arguments).exits(0).line();
    let turn = |overlay: &Value, member: &str| overlay[member].as_u64().unwrap();
    let overlay = line["overlays"].get(0);
    assert_eq!(
        overlay.map(|overlay| (turn(overlay, "from_turn"), turn(overlay, "to_turn"))),
        expect,
        "{flags}"
    );
    assert_eq!(line["nothing"].is_null(), expect.is_some(), "{line}");
}

/// Checks that a run with these options is a usage error with this message.
#[track_caller]
fn check_rejected(flags: &str, message: &str) {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &hourly_turns());
    let arguments: Vec<_> = ["conversation"].into_iter().chain(flags.split_whitespace()).collect();
    let output = world.run(&arguments).exits(2).reports(message);
    assert!(output.stderr.starts_with("error: "), "{}", output.stderr);
    transcript.assert_untouched();
}

#[test]
fn keeps_last_three_turns_by_default() {
    check("", (0, 2));
}

#[test]
fn each_option_replaces_only_its_side() {
    check("--from 1", (1, 2));
    check("--to 4", (0, 4));
    check("--keep-first 2", (2, 2));
    check("--keep-last 1", (0, 4));
    check("--from 1 --to 4", (1, 4));
    check("--keep-first 2 --keep-last 1", (2, 4));
    check("--from 1 --keep-last 2", (1, 3));
    check("--keep-first 1 --to 3", (1, 3));
}

#[test]
fn keep_is_alias_of_keep_last() {
    check("--keep 2", (0, 3));
    check("--keep-last 0", (0, 5));
}

#[test]
fn turn_numbers_start_at_zero_and_clamp_at_last_turn() {
    check("--from 0 --to 0", (0, 0));
    check("--to 99", (0, 5));
    check("--from 5 --to 5", (5, 5));
    check("--from 6 --to 9", None);
    check("--from 4 --to 2", None);
    check("--keep-first 9 --keep-last 0", None);
    check("--keep-last 6", None);
}

#[test]
fn negative_numbers_count_from_end() {
    check("--from -1 --keep-last 0", (4, 5));
    check("--from=-1 --keep-last 0", (4, 5));
    check("--from -99 --keep-last 0", (0, 5));
    check("--to -2", (0, 3));
    check("--to -99", None);
}

#[test]
fn durations_count_back_from_now() {
    check("--from 4h --keep-last 0", (3, 5));
    check("--to 4h", (0, 2));
    check("--from 1d --to 90m", (0, 5));
    check("--from 4h30m --to 4h30m", (2, 2));
    check("--from 1m --keep-last 0", None);
    check("--to 7h", None);
}

#[test]
fn kept_turns_can_be_a_duration() {
    check("--keep-last 4h", (0, 2));
    check("--keep-last 91m", (0, 4));
    check("--keep-last 4h30m", (0, 2));
    check("--keep-last 7h", None);
    check("--keep-first 90m --keep-last 0", (2, 5));
    check("--keep-first 1h --keep-last 2h", (2, 4));
    check_rejected("--keep-last soon", "expected a number of turns, or a duration such as `1h` or `2d`");
}

#[test]
fn last_means_turn_after_newest_compaction() {
    let world = World::new();
    world.write_conversation("conversation", &hourly_turns());
    check_in(&world, "--from last --keep-last 0", Some((0, 5)));
    world.run(&["conversation", "--strategy", "strip-reasoning", "--to", "2"]).exits(0);
    check_in(&world, "--from last --keep-last 0", Some((3, 5)));
    check_in(&world, "--to last", Some((0, 3)));
    check_in(&world, "--from last", None);
}

#[test]
fn from_without_value_means_last() {
    let world = World::new();
    world.write_conversation("conversation", &hourly_turns());
    world.run(&["conversation", "--strategy", "strip-reasoning", "--to", "2"]).exits(0);
    check_in(&world, "--from --keep-last 0", Some((3, 5)));
    check_in(&world, "--keep-last 0 --from", Some((3, 5)));
}

#[test]
fn from_does_not_consume_transcript_argument() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &hourly_turns());
    let folder = transcript.folder().to_str().unwrap();
    for name in ["conversation", "./conversation", folder] {
        let hint =
            world.normalize(&format!("hint: if `{name}` is the conversation, write `--from last {name}`"));
        world.run(&["--from", name]).exits(2).reports(&hint);
    }
    transcript.assert_untouched();
}

#[test]
fn rejects_conflicting_bounds() {
    check_rejected("--keep-last 1 --to 3", "--keep-last");
    check_rejected("--keep 1 --to 3", "--keep-last");
    check_rejected("--keep-first 1 --from 3", "--keep-first");
    check_rejected("--keep-first 1 --from", "--keep-first");
}

#[test]
fn rejects_invalid_bounds() {
    check_rejected("--to", "--to");
    check_rejected("--to yesterday", "not `yesterday`");
    check_rejected("--from 5x", "not `5x`");
    check_rejected("--to 99999999999999999999999", "99999999999999999999999");
    check_rejected("--keep-last -1", "-1");
    check_rejected("--now yesterday", "--now");
    check_rejected("--deadline 0s", "expected a duration longer than 0s, such as 90s or 5m");
    check_rejected("--deadline soon", "expected a duration such as 90s or 5m");
    check_rejected("--overlap some", "expected `partial` or `union`");
}

#[test]
fn explains_default_when_all_turns_are_kept() {
    for turns in 1..=3 {
        let world = World::new();
        let transcript = world.write_conversation("conversation", &Conversation::with_turns(turns));
        let output = world.run(&["conversation"]).exits(0).reports("keep the last 3 turns");
        assert!(output.stderr.contains("`--keep-last 0`"), "{}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
        transcript.assert_untouched();
        let line = world.run(&["conversation", "--json"]).exits(0).line();
        assert!(line["nothing"].as_str().unwrap().contains("`--keep-last 0`"), "{line}");
        assert_eq!((&line["overlays"], &line["declines"]), (&json!([]), &json!([])));
        world.run(&["conversation", "--keep-last", "0"]).exits(0).reports("1 overlay appended");
    }
}

#[test]
fn conversation_without_turns_has_nothing_to_compact() {
    let world = World::new();
    let transcript = world.write_events("conversation", b"[]\n");
    world.run(&["conversation", "--keep-last", "0"]).exits(0).reports("the conversation has no turns");
    transcript.assert_untouched();
}
