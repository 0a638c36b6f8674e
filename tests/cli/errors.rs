//! What a person reads when something fails: one snapshot for every exit code that this version ends with.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Conversation, Ran, STRIP, World, described};

fn world() -> World {
    let world = World::new();
    world.conversation("conversation", &Conversation::of(5));
    world
}

/// A run of the plugin `mine`, which consists of this text.
fn of_plugin(text: &str) -> Ran {
    of_plugin_within("60s", text)
}

fn of_plugin_within(deadline: &str, text: &str) -> Ran {
    let world = world();
    world.script("plugins/mine", text);
    world.run_plugin("mine", &["--deadline", deadline])
}

fn of_run(run: &str) -> Ran {
    of_plugin(&described("mine", &json!({}), run))
}

#[test]
fn wrong_usage() {
    let ran = World::new().run(&["--json"]).exits(2);
    insta::assert_snapshot!(ran.stderr, @r"
    error: there is no TRANSCRIPT to compact

    hint: give a conversation: `jp-compact .jp/conversations/17738399468-review`, or see `jp-compact --help`
    ");
    let ran = world().run(&["--from", "conversation"]).exits(2);
    insta::assert_snapshot!(ran.stderr, @r"
    error: invalid value 'conversation' for '--from [<BOUND>]': expected a turn (`5`), turns from the end (`-3`), a time ago (`5h`) or `last`, not `conversation`

    hint: `--from last conversation` if that is the conversation

    For more information, try '--help'.
    ");
    let ran = world().run(&["conversation", "--keep-last", "1", "--to", "3"]).exits(2);
    insta::assert_snapshot!(ran.stderr, @r"
    error: the argument '--keep-last <N>' cannot be used with '--to <BOUND>'

    Usage: jp-compact [OPTIONS] <TRANSCRIPT>...
           jp-compact <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn wrong_options() {
    let ran = world().run(&["conversation", "--strategy", "strip-tools:mode=soft"]).exits(2);
    insta::assert_snapshot!(ran.stderr, @r#"
    error: strategy `strip-tools` does not take these options

    Caused by:
      option `/mode`: "soft" is not one of "strip", "strip-requests", "strip-responses", "omit"

    hint: `jp-compact strategy show strip-tools` shows its options
    "#);
    let ran = world().run(&["conversation", "--strategy", "strip-tools:mode=omit,mode=strip"]).exits(2);
    insta::assert_snapshot!(ran.stderr, @r"
    error: invalid value 'strip-tools:mode=omit,mode=strip' for '--strategy <NAME|PATH[:OPTIONS]>': option `mode` is given twice

    For more information, try '--help'.
    ");
}

#[test]
fn a_transcript_that_is_invalid() {
    let world = World::new();
    world.raw("conversation", b"[\n  {\n    \"type\": \"chat_request\",");
    let ran = world.run(&["conversation"]).exits(4);
    insta::assert_snapshot!(ran.stderr, @r"
    error: failed to read /here/conversation/events.json

    Caused by:
      element 0 (byte 33): the input ends in the middle of a value

    hint: a transcript is JP's events.json: one JSON array of events
    ");
    let ran = world.run(&["./nowhere"]).exits(4);
    insta::assert_snapshot!(ran.stderr, @r"
    error: there is no transcript at /here/./nowhere

    hint: give a conversation folder, an events.json, or an id such as 17738399468 inside its workspace
    ");
}

#[test]
fn a_transcript_that_cannot_be_appended_to() {
    let world = World::new();
    let timeless = Conversation::of(5).element(json!({"type": "note"}));
    world.conversation("conversation", &timeless);
    let ran = world.run(&["conversation"]).exits(4);
    insta::assert_snapshot!(ran.stderr, @r"
    error: failed to append to /here/conversation/events.json

    Caused by:
      element 30 (byte 4269): an element without `type` or `timestamp`, for which JP would move the conversation to its trash

    hint: mend or remove that element; reading commands work as it is
    ");
}

#[test]
fn a_conflict() {
    let world = world();
    let events = world.path("conversation/events.json");
    world.plugin("mine", &format!("echo '[]' > {}\n{STRIP}", events.display()));
    let ran = world.run_plugin("mine", &[]).exits(5);
    insta::assert_snapshot!(ran.stderr, @r"
    error: /here/conversation/events.json shrank since it was read

    hint: run it again on what is there now
    ");
}

#[test]
fn a_strategy_that_is_not_found() {
    let ran = world().run(&["conversation", "--strategy", "strip-tool"]).exits(10);
    insta::assert_snapshot!(ran.stderr, @r"
    error: there is no strategy `strip-tool`

    Caused by:
      found in [bin]: `collapse`, `digest`, `micro`, `strip-reasoning`, `strip-tools`, `summarize`

    hint: --plugin-dir DIR adds a folder to look in
    ");
}

#[test]
fn a_strategy_that_is_ambiguous() {
    let world = world();
    world.plugin("strip-tools", STRIP);
    let ran = world.run_plugin("strip-tools", &[]).exits(10);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `strip-tools` is ambiguous

    Caused by:
      /here/plugins/strip-tools bears the name of the bundled [bin]/compact-strategy-strip-tools

    hint: rename the plugin; a bundled strategy cannot be replaced
    ");
}

/// What a machine without Landlock says.
#[track_caller]
fn without_a_jail(world: &World, words: &[&str]) -> Ran {
    let mut command = world.command(&[&["conversation"], words].concat());
    world.finish(command.env("JP_COMPACT_TEST_LANDLOCK", "0")).exits(11)
}

#[test]
fn a_strategy_that_may_not_run() {
    let world = world();
    world.plugin("mine", STRIP);
    let ran = without_a_jail(&world, &["--strategy", "mine", "--trust-dir", "plugins"]);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `mine` may not run

    Caused by:
      /here/plugins/mine is not bundled, and there is no jail to run it in: this machine lacks Landlock

    hint: use Linux 5.13 or later with `landlock` in the kernel's `lsm=` list, and a container whose profile lets landlock_create_ruleset through; `--sandbox=contained` runs it with your own permissions: do that only if you know what it does
    ");
    let ran = without_a_jail(&world, &["--sandbox=require"]);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `strip-reasoning` may not run

    Caused by:
      `--sandbox=require` asks for a jail, and there is none: this machine lacks Landlock

    hint: use Linux 5.13 or later with `landlock` in the kernel's `lsm=` list, and a container whose profile lets landlock_create_ruleset through; `--sandbox=contained` runs strategies without one
    ");
    let ran = of_plugin(&described("mine", &json!({"needs": ["llm"]}), STRIP)).exits(11);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `mine` may not run

    Caused by:
      it needs `llm`, which was not granted

    hint: grant it with
      jp-compact strategy trust /here/plugins/mine --grant llm,runtime:sh
    ");
}

#[test]
fn a_description_that_is_invalid() {
    let ran = of_plugin(&described("yours", &json!({}), STRIP)).exits(12);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      it calls itself `yours`, and its file is `mine`

    hint: `jp-compact schema description` prints what a strategy has to answer `describe` with
    ");
}

#[test]
fn a_strategy_that_crashes() {
    let ran = of_run("echo Traceback: >&2; echo '  no luck' >&2; exit 1").exits(13);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      it ended with exit code 1 and no answer
      its last words on stderr:
      | Traceback:
      |   no luck

    hint: nothing was appended; `jp-compact -v ...` shows what `mine` writes to stderr
    ");
    let ran = of_run(&format!("{STRIP}; exit 1")).exits(13);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      it answered, and then ended with exit code 1: nothing is taken from a process that fails

    hint: nothing was appended; `jp-compact -v ...` shows what `mine` writes to stderr
    ");
}

#[test]
fn a_strategy_that_cannot_start() {
    let ran = of_plugin("echo no shebang\n").exits(13);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      /here/plugins/mine could not be started: Exec format error (os error 8): neither a script with a `#!` line nor an executable of this machine
    ");
}

#[test]
fn a_strategy_that_misses_its_deadline() {
    let ran = of_plugin_within("300ms", &described("mine", &json!({}), "exec sleep 1000")).exits(14);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      it did not end within 300ms

    hint: `--deadline 5m` gives it more time; a description has to come within 2 s
    ");
}

#[test]
fn a_strategy_that_violates_the_protocol() {
    let ran = of_run("echo Hello, world").exits(15);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      line 1 of its output is no message (a message is a JSON object): Hello, world

    hint: nothing was appended; `jp-compact schema reply` prints what a strategy may answer
    ");
}

#[test]
fn a_strategy_that_reports_an_error() {
    let error = r#"echo '{"type":"error","id":"c1","code":"no_key","message":"there is no key","transient":false,"hint":"give it one"}'"#;
    let ran = of_run(error).exits(16);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `mine` reported an error

    Caused by:
      there is no key (no_key)

    hint: `mine` suggests: give it one
    ");
}

#[test]
fn a_payload_that_is_refused() {
    let ran = of_run(&STRIP.replace("\"from_turn\":0", "\"from_turn\":4")).exits(17);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `mine` was rejected

    Caused by:
      turn range ends at 0, before it starts at 4

    hint: nothing was appended; `jp-compact -v ...` shows what `mine` writes to stderr
    ");
}

#[test]
fn several_transcripts_of_which_some_failed() {
    let world = world();
    world.raw("bad", b"{}");
    let ran = world.run(&["conversation", "bad"]).exits(19);
    insta::assert_snapshot!(ran.stderr, @r"
    conversation/events.json: 2 overlays appended
      1  strip-reasoning [version]  turns 0-1: reasoning
      2  strip-tools [version]  turns 0-1: tool_calls
      JP sends a model about 142 tokens, was 174 (-18 %, chars/4)
    error: failed to read /here/bad/events.json

    Caused by:
      byte 0: expected a JSON array of events

    hint: a transcript is JP's events.json: one JSON array of events
    1 of 2 transcripts failed
    ");
}

#[test]
fn versions_that_do_not_meet() {
    let ran = of_plugin(&described("mine", &json!({"protocols": [0]}), STRIP)).exits(20);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      the strategy is too old: it speaks protocol 0 at most, this host 1

    hint: update the strategy, or use an older jp-compact
    ");
    let ran = of_plugin(&described("mine", &json!({"protocols": [2]}), STRIP)).exits(21);
    insta::assert_snapshot!(ran.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      the strategy is too new: it speaks protocol 2 at least, this host 1

    hint: update jp-compact, or use an older version of the strategy
    ");
}

#[test]
fn an_error_as_json_has_its_code_causes_and_hint() {
    let world = world();
    fs::remove_file(world.path("conversation/events.json")).unwrap();
    let line = world.run(&["conversation", "--json"]).exits(4).line();
    let error: &Value = &line["error"];
    assert_eq!(error["code"], 4);
    assert!(error["message"].as_str().unwrap().ends_with("it holds no events.json"), "{error}");
    assert!(error["causes"].is_array() && error["hint"].is_string(), "{error}");
}
