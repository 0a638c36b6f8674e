//! `--from`, `--to`, `--keep-first`, `--keep-last`: which turns they mean, and what is refused.

use serde_json::{Value, json};

use crate::support::{Conversation, World, hourly};

/// The turns of a conversation of six turns, numbered 0 to 5, that these flags mean.
#[track_caller]
fn check(flags: &str, expect: impl Into<Option<(u64, u64)>>) {
    let world = World::new();
    world.conversation("conversation", &hourly());
    check_in(&world, flags, expect.into());
}

#[track_caller]
fn check_in(world: &World, flags: &str, expect: Option<(u64, u64)>) {
    let fixed =
        ["--now", "2026-03-18T16:30:00Z", "--strategy", "strip-tools:mode=omit", "--json", "--dry-run"];
    let arguments: Vec<_> =
        ["conversation"].into_iter().chain(fixed).chain(flags.split_whitespace()).collect();
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

#[track_caller]
fn refused(flags: &str, says: &str) {
    let world = World::new();
    let transcript = world.conversation("conversation", &hourly());
    let arguments: Vec<_> = ["conversation"].into_iter().chain(flags.split_whitespace()).collect();
    let ran = world.run(&arguments).exits(2).says(says);
    assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    transcript.assert_untouched();
}

#[test]
fn without_a_bound_the_last_three_turns_are_kept() {
    check("", (0, 2));
}

#[test]
fn each_side_is_replaced_on_its_own() {
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
fn keep_is_short_for_keep_last() {
    check("--keep 2", (0, 3));
    check("--keep-last 0", (0, 5));
}

#[test]
fn numbers_count_from_zero_and_end_with_the_last_turn() {
    check("--from 0 --to 0", (0, 0));
    check("--to 99", (0, 5));
    check("--from 5 --to 5", (5, 5));
    check("--from 6 --to 9", None);
    check("--from 4 --to 2", None);
    check("--keep-first 9 --keep-last 0", None);
    check("--keep-last 6", None);
}

#[test]
fn negative_numbers_count_from_the_last_turn() {
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
fn last_is_the_turn_after_the_newest_compaction() {
    let world = World::new();
    world.conversation("conversation", &hourly());
    check_in(&world, "--from last --keep-last 0", Some((0, 5)));
    world.run(&["conversation", "--strategy", "strip-reasoning", "--to", "2"]).exits(0);
    check_in(&world, "--from last --keep-last 0", Some((3, 5)));
    check_in(&world, "--to last", Some((0, 3)));
    check_in(&world, "--from last", None);
}

#[test]
fn from_without_a_value_means_last() {
    let world = World::new();
    world.conversation("conversation", &hourly());
    world.run(&["conversation", "--strategy", "strip-reasoning", "--to", "2"]).exits(0);
    check_in(&world, "--from --keep-last 0", Some((3, 5)));
    check_in(&world, "--keep-last 0 --from", Some((3, 5)));
}

#[test]
fn a_conversation_behind_from_is_not_taken_for_its_value() {
    let world = World::new();
    let transcript = world.conversation("conversation", &hourly());
    let folder = transcript.folder().to_str().unwrap();
    for name in ["conversation", "./conversation", folder] {
        let hint = world.plain(&format!("hint: `--from last {name}` if that is the conversation"));
        world.run(&["--from", name]).exits(2).says(&hint);
    }
    transcript.assert_untouched();
}

#[test]
fn bounds_that_contradict_each_other_are_refused() {
    refused("--keep-last 1 --to 3", "--keep-last");
    refused("--keep 1 --to 3", "--keep-last");
    refused("--keep-first 1 --from 3", "--keep-first");
    refused("--keep-first 1 --from", "--keep-first");
}

#[test]
fn what_is_no_bound_is_refused() {
    refused("--to", "--to");
    refused("--to yesterday", "not `yesterday`");
    refused("--from 5x", "not `5x`");
    refused("--to 99999999999999999999999", "99999999999999999999999");
    refused("--keep-last -1", "-1");
    refused("--now yesterday", "--now");
    refused("--deadline 0s", "expected a duration such as 90s or 5m");
    refused("--deadline soon", "expected a duration such as 90s or 5m");
    refused("--overlap some", "expected `partial` or `union`");
}

#[test]
fn where_the_default_keeps_all_turns_the_rule_is_named() {
    for turns in 1..=3 {
        let world = World::new();
        let transcript = world.conversation("conversation", &Conversation::of(turns));
        let ran = world.run(&["conversation"]).exits(0).says("the last 3 turns are kept");
        assert!(ran.stderr.contains("`--keep-last 0`"), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        transcript.assert_untouched();
        let line = world.run(&["conversation", "--json"]).exits(0).line();
        assert!(line["nothing"].as_str().unwrap().contains("`--keep-last 0`"), "{line}");
        assert_eq!((&line["overlays"], &line["declines"]), (&json!([]), &json!([])));
        world.run(&["conversation", "--keep-last", "0"]).exits(0).says("2 overlays appended");
    }
}

#[test]
fn a_conversation_without_a_turn_has_nothing_to_compact() {
    let world = World::new();
    let transcript = world.raw("conversation", b"[]\n");
    world.run(&["conversation", "--keep-last", "0"]).exits(0).says("the conversation has no turn");
    transcript.assert_untouched();
}
