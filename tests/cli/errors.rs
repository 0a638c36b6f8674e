//! Error messages: snapshots for most exit codes.

use std::fs;

use serde_json::{Value, json};

use crate::support::{CommandOutput, Conversation, STRIP, World, plugin_script};

fn world() -> World {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(5));
    world
}

/// Runs the strategy `mine`, a file with this text.
fn run_plugin(text: &str) -> CommandOutput {
    run_plugin_within("60s", text)
}

fn run_plugin_within(deadline: &str, text: &str) -> CommandOutput {
    let world = world();
    world.write_script("plugins/mine", text);
    world.run_plugin("mine", &["--deadline", deadline])
}

/// Runs the strategy `mine`, which runs these lines for a request.
fn run_lines(run: &str) -> CommandOutput {
    run_plugin(&plugin_script("mine", &json!({}), run))
}

#[test]
fn usage_error_states_the_valid_form() {
    let output = World::new().run(&["--json"]).exits(2);
    insta::assert_snapshot!(output.stderr, @r"
    error: no TRANSCRIPT was given

    hint: compact a file with `jp-compact FILE`, list the sessions of your agents with `jp-compact list`, or see `jp-compact -h`
    ");
    let output = world().run(&["--from", "conversation"]).exits(2);
    insta::assert_snapshot!(output.stderr, @r"
    error: invalid value 'conversation' for '--from [<BOUND>]': expected a turn (`5`, or `@6` as JP counts), a step (`5.2`), turns from the end (`-3`), a time ago (`5h`) or `last`, not `conversation`

    hint: if `conversation` is the conversation, write `--from last conversation`

    For more information, try '--help'.
    ");
    let output = world().run(&["conversation", "--keep-last", "1", "--to", "3"]).exits(2);
    insta::assert_snapshot!(output.stderr, @r"
    error: the argument '--keep-last <N>' cannot be used with '--to <BOUND>'

    Usage: jp-compact [OPTIONS] <TRANSCRIPT>...
           jp-compact <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn option_error_lists_valid_values() {
    let output = world().run(&["conversation", "--strategy", "strip-tools:mode=soft"]).exits(2);
    insta::assert_snapshot!(output.stderr, @r#"
    error: strategy `strip-tools` does not take these options

    Caused by:
      option `/mode`: "soft" is not one of "strip", "strip-requests", "strip-responses", "omit"

    hint: `jp-compact strategy show strip-tools` shows its options
    "#);
    let output = world().run(&["conversation", "--strategy", "strip-tools:mode=omit,mode=strip"]).exits(2);
    insta::assert_snapshot!(output.stderr, @r"
    error: invalid value 'strip-tools:mode=omit,mode=strip' for '--strategy <NAME|PATH[:OPTIONS]>': option `mode` is given twice

    For more information, try '--help'.
    ");
}

#[test]
fn read_error_states_position_and_format() {
    let world = World::new();
    world.write_events("conversation", b"[\n  {\n    \"type\": \"chat_request\",");
    let output = world.run(&["conversation"]).exits(4);
    insta::assert_snapshot!(output.stderr, @r"
    error: failed to read /here/conversation/events.json

    Caused by:
      element 0 (byte 33): the input ends in the middle of a value

    hint: JP's events.json is one JSON array of events
    ");
    let output = world.run(&["./nowhere"]).exits(4);
    insta::assert_snapshot!(output.stderr, @r"
    error: failed to find a transcript at /here/./nowhere

    hint: give a conversation folder, an events.json, or an id such as 17738399468 inside its workspace
    ");
}

#[test]
fn append_error_names_the_element() {
    let world = World::new();
    let without_timestamp = Conversation::with_turns(5).element(json!({"type": "note"}));
    world.write_conversation("conversation", &without_timestamp);
    let output = world.run(&["conversation"]).exits(4);
    insta::assert_snapshot!(output.stderr, @r"
    error: failed to append to /here/conversation/events.json

    Caused by:
      element 30 (byte 4269): `type` or `timestamp` is missing, so JP would move the conversation to its trash

    hint: repair or remove that element; commands that only read still work
    ");
}

#[test]
fn conflict_error_suggests_another_run() {
    let world = world();
    let events = world.path("conversation/events.json");
    world.write_plugin("mine", &format!("echo '[]' > {}\n{STRIP}", events.display()));
    let output = world.run_plugin("mine", &[]).exits(5);
    insta::assert_snapshot!(output.stderr, @r"
    error: /here/conversation/events.json shrank since it was read

    hint: run the command again
    ");
}

#[test]
fn unknown_strategy_error_lists_known_strategies() {
    let output = world().run(&["conversation", "--strategy", "strip-tool"]).exits(10);
    insta::assert_snapshot!(output.stderr, @r"
    error: failed to find strategy `strip-tool`

    Caused by:
      no plugin in [bin] has this name

    hint: did you mean `strip-tools`? `jp-compact strategy list` lists the strategies; `--plugin-dir DIR` searches another folder
    ");
    world().run(&["conversation", "--strategy", "nothing-like-it"]).exits(10).reports(
        "hint: the strategies are `collapse`, `digest`, `extract`, `micro`, `strip-reasoning`, `strip-tools`, \
         `summarize`, `trim`; `--plugin-dir DIR` searches another folder",
    );
}

#[test]
fn ambiguous_strategy_error_names_both_files() {
    let world = world();
    world.write_plugin("strip-tools", STRIP);
    let output = world.run_plugin("strip-tools", &[]).exits(10);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `strip-tools` is ambiguous

    Caused by:
      /here/plugins/strip-tools has the name of the bundled strategy [bin]/compact-strategy-strip-tools

    hint: rename the plugin; plugins cannot replace bundled strategies
    ");
}

/// Compacts on a machine without Landlock. The run must fail.
#[track_caller]
fn run_without_landlock(world: &World, extra: &[&str]) -> CommandOutput {
    let mut command = world.command(&[&["conversation"], extra].concat());
    world.finish(command.env("JP_COMPACT_TEST_LANDLOCK", "0")).exits(11)
}

#[test]
fn permission_error_suggests_the_grant() {
    let world = world();
    world.write_plugin("mine", STRIP);
    let output = run_without_landlock(&world, &["--strategy", "mine", "--trust-dir", "plugins"]);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `mine` may not run

    Caused by:
      /here/plugins/mine is not bundled, and cannot run in a jail: this machine lacks Landlock

    hint: use Linux 5.13 or later with `landlock` in the kernel's `lsm=` list, and a container whose seccomp profile allows landlock_create_ruleset; `--sandbox=contained` runs it with your own permissions; use that only for plugins that you know
    ");
    let output = run_without_landlock(&world, &["--sandbox=require"]);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `strip-reasoning` may not run

    Caused by:
      a jail is required, but this machine lacks Landlock

    hint: use Linux 5.13 or later with `landlock` in the kernel's `lsm=` list, and a container whose seccomp profile allows landlock_create_ruleset; `--sandbox=contained` runs strategies without a jail
    ");
    let output = run_plugin(&plugin_script("mine", &json!({"needs": ["llm"]}), STRIP)).exits(11);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `mine` may not run

    Caused by:
      it needs `llm`, which was not granted

    hint: grant it with
      jp-compact strategy trust /here/plugins/mine --grant llm,runtime:sh
    ");
}

#[test]
fn description_error_suggests_the_schema() {
    let output = run_plugin(&plugin_script("yours", &json!({}), STRIP)).exits(12);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      it describes itself as `yours`, but its file is `mine`

    hint: `jp-compact schema description` prints the schema of the answer to `describe`
    ");
}

#[test]
fn crash_error_quotes_stderr() {
    let output = run_lines("echo Traceback: >&2; echo '  no luck' >&2; exit 1").exits(13);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      it ended with exit code 1 without an answer
      the last lines of its stderr:
      | Traceback:
      |   no luck

    hint: nothing was appended; `jp-compact -v ...` prints the stderr of `mine`
    ");
    let output = run_lines(&format!("{STRIP}; exit 1")).exits(13);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      it answered, but then ended with exit code 1; the answer was discarded

    hint: nothing was appended; `jp-compact -v ...` prints the stderr of `mine`
    ");
}

#[test]
fn start_error_states_the_reason() {
    let output = run_plugin("echo no shebang\n").exits(13);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      failed to start /here/plugins/mine: Exec format error (os error 8): not a script with a `#!` line, and not an executable for this machine
    ");
}

#[test]
fn deadline_error_suggests_a_longer_deadline() {
    let output = run_plugin_within("300ms", &plugin_script("mine", &json!({}), "exec sleep 1000")).exits(14);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      it did not end within 300ms

    hint: `--deadline 5m` allows more time
    ");
}

#[test]
fn violation_error_quotes_the_line() {
    let output = run_lines("echo Hello, world").exits(15);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      line 1 of its output is not a valid message (a message must be a JSON object): Hello, world

    hint: stdout is only for replies; print debug text to stderr (`>&2` in a shell, `file=sys.stderr` in Python)
    ");
}

#[test]
fn strategy_error_includes_its_hint() {
    let error = r#"echo '{"type":"error","id":"c1","code":"no_key","message":"there is no key","transient":false,"hint":"give it one"}'"#;
    let output = run_lines(error).exits(16);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `mine` reported an error

    Caused by:
      there is no key (no_key)

    hint: `mine` suggests: give it one
    ");
}

#[test]
fn rejection_error_states_the_reason() {
    let output = run_lines(&STRIP.replace("\"from_turn\":0", "\"from_turn\":4")).exits(17);
    insta::assert_snapshot!(output.stderr, @r"
    error: the result of strategy `mine` was rejected

    Caused by:
      the turn range ends at 0, before its start 4

    hint: nothing was appended; `jp-compact -v ...` prints the stderr of `mine`
    ");
}

#[test]
fn partial_failure_counts_failed_transcripts() {
    let world = world();
    world.write_events("bad", b"{}");
    let output = world.run(&["conversation", "bad"]).exits(19);
    insta::assert_snapshot!(output.stderr, @r"
    conversation/events.json: 1 overlay appended
      1  strip-reasoning [version]  turns 0-1: reasoning
      1  strip-tools [version]  turns 0-1: tool_calls
      JP sends about 643 tokens instead of 716 (-10 %, estimated)
    error: failed to read /here/bad/events.json

    Caused by:
      byte 0: expected a JSON array of events

    hint: JP's events.json is one JSON array of events
    1 of 2 transcripts failed
    ");
}

#[test]
fn version_error_names_the_side_to_update() {
    let output = run_plugin(&plugin_script("mine", &json!({"protocols": [0]}), STRIP)).exits(20);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      the strategy is too old: it supports protocol 0 at most, this host uses 1

    hint: update the strategy, or use an older jp-compact
    ");
    let output = run_plugin(&plugin_script("mine", &json!({"protocols": [2]}), STRIP)).exits(21);
    insta::assert_snapshot!(output.stderr, @r"
    error: strategy `mine` failed

    Caused by:
      the strategy is too new: it supports protocol 2 at least, this host uses 1

    hint: update jp-compact, or use an older version of the strategy
    ");
}

#[test]
fn json_error_has_code_causes_and_hint() {
    let world = world();
    fs::remove_file(world.path("conversation/events.json")).unwrap();
    let line = world.run(&["conversation", "--json"]).exits(4).line();
    let error: &Value = &line["error"];
    assert_eq!((&error["code"], &error["kind"]), (&json!(4), &json!("transcript_invalid")));
    assert!(error["message"].as_str().unwrap().ends_with("it has no events.json"), "{error}");
    assert!(error["causes"].is_array() && error["hint"].is_string(), "{error}");
}

#[test]
fn suggestion_for_an_unknown_option_is_a_hint() {
    let output =
        World::new().run(&["list", "--jsn"]).exits(2).reports("\nhint: a similar argument exists: '--json'");
    assert!(!output.stderr.contains("tip:"), "{}", output.stderr);
}

#[test]
fn usage_error_lists_missing_arguments_as_causes() {
    let line = World::new().run(&["show", "--json"]).exits(2).line();
    let error = &line["error"];
    assert_eq!((&error["code"], &error["kind"]), (&json!(2), &json!("usage")));
    assert_eq!(error["message"], "the following required arguments were not provided:");
    assert_eq!(error["causes"], json!(["<TRANSCRIPT>"]));
}

#[test]
fn option_before_command_is_named_as_typed() {
    let output = World::new().run(&["--strategy", "strip-tools", "show", "conversation"]);
    output.exits(2).reports("`--strategy` cannot precede the command `show`");
}

#[test]
fn global_option_may_precede_command() {
    world().run(&["--quiet", "--log-format", "json", "show", "conversation"]).exits(0);
}
