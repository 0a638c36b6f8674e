//! `jp-compact TRANSCRIPT...`: the strategies that run, the overlays that are appended, and the output.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Conversation, DECLINE, STRIP, World, plugin_script};

const NOW: [&str; 2] = ["--now", "2026-11-21T07:40:00Z"];

#[test]
fn default_strips_reasoning_and_tools_but_keeps_three_turns() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    let output = world.run(&["conversation", "--now", "2026-11-21T07:40:00Z"]).exits(0);
    assert_eq!(output.text(), "", "stdout is reserved for data");
    insta::assert_snapshot!(output.stderr, @r"
    conversation/events.json: 1 overlay appended
      1  strip-reasoning [version]  turns 0-1: reasoning
      1  strip-tools [version]  turns 0-1: tool_calls
      JP sends about 643 tokens instead of 716 (-10 %, estimated)
    ");
    let overlays = transcript.overlays();
    assert_eq!(
        overlays,
        [json!({"timestamp": "2026-11-21 07:40:00.0", "type": "compaction", "from_turn": 0, "to_turn": 1,
                "reasoning": "strip", "tool_calls": {"policy": "strip", "request": true, "response": true}})]
    );
}

#[test]
fn overlays_follow_order_of_strategies() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    let order = ["--strategy", "strip-tools:mode=omit", "-s", "strip-tools"];
    world.run(&[&["conversation"], &order[..]].concat()).exits(0);
    let overlays = transcript.overlays();
    assert_eq!(overlays[0]["tool_calls"], json!({"policy": "omit"}));
    assert_eq!(overlays[1]["tool_calls"]["policy"], "strip");
}

#[test]
fn all_strategies_see_same_snapshot() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(2));
    for name in ["first", "second"] {
        let request = world.path(&format!("{name}.json"));
        let id = if name == "first" { "c1" } else { "c2" };
        let run = format!("cat > {}\n{}", request.display(), STRIP.replace("c1", id));
        world.write_plugin(name, &run);
    }
    world.run_plugin("first", &["--strategy", "second"]).exits(0);
    let request = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(world.path(&format!("{name}.json"))).unwrap()).unwrap()
    };
    let (first, second) = (request("first"), request("second"));
    assert_eq!(second["context"]["compactions"], json!([]));
    assert_eq!(first["context"], second["context"]);
    assert_eq!((&first["id"], &second["id"]), (&json!("c1"), &json!("c2")));
}

#[test]
fn failing_strategy_discards_all_overlays() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    world.write_plugin(
        "fails",
        r#"echo '{"type":"error","id":"c2","code":"no","message":"no","transient":false}'"#,
    );
    let strategies = ["--strategy", "strip-tools", "--strategy", "fails", "--strategy", "strip-reasoning"];
    let plugins = ["--trust-dir", "plugins", "--sandbox=contained"];
    world.run(&[&["conversation"], &strategies[..], &plugins].concat()).exits(16);
    transcript.assert_untouched();
}

#[test]
fn declining_strategy_does_not_stop_others() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    world.write_plugin("declines", DECLINE);
    let output = world.run_plugin("declines", &["--strategy", "strip-tools"]).exits(0);
    assert!(output.stderr.contains("declines 1.0.0  declined: not today"), "{}", output.stderr);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn writes_nothing_when_all_strategies_decline() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    world.write_plugin("declines", DECLINE);
    world.run_plugin("declines", &[]).exits(0).reports("nothing to append");
    transcript.assert_untouched();
}

#[test]
fn second_run_has_nothing_to_do() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    world.run(&["conversation"]).exits(0);
    let after = transcript.current_bytes();
    let second_run = world.run(&["conversation", "--json"]).exits(0).line();
    assert_eq!(second_run["overlays"], json!([]));
    assert_eq!(second_run["declines"].as_array().unwrap().len(), 2);
    assert_eq!(transcript.current_bytes(), after);
}

#[test]
fn dry_run_changes_no_bytes_or_times() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    let output = world.run(&["conversation", "--dry-run"]).exits(0);
    assert!(output.stderr.contains("1 overlay would be appended"), "{}", output.stderr);
    transcript.assert_untouched();
    let line = world.run(&["conversation", "-n", "--json"]).exits(0).line();
    assert_eq!((&line["dry_run"], line["overlays"].as_array().unwrap().len()), (&json!(true), 2));
    assert!(line["tokens"]["view_after"].as_u64() < line["tokens"]["view_before"].as_u64());
    transcript.assert_untouched();
}

#[test]
fn dry_run_rejects_read_only_sources() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    std::os::unix::fs::symlink(&transcript.path, world.path("link.json")).unwrap();
    fs::copy(&transcript.path, world.path("copy.json")).unwrap();
    for name in ["link.json", "copy.json"] {
        let dry_run = world.run(&[name, "--dry-run"]).exits(4);
        assert_eq!(dry_run.stderr, world.run(&[name]).exits(4).stderr);
    }
    transcript.assert_untouched();
}

#[test]
fn json_reports_overlays_and_declines() {
    let world = World::new();
    let transcript =
        world.write_conversation(".jp/conversations/17738399468-a-slug", &Conversation::with_turns(5));
    world.write_plugin("declines", DECLINE.replace("c1", "c2").as_str());
    let strategies = ["--strategy", "strip-tools", "--strategy", "declines"];
    let plugins = ["--trust-dir", "plugins", "--sandbox=contained", "--json"];
    let output = world.run(&[&["17738399468"], &strategies[..], &plugins].concat()).exits(0);
    assert_eq!(output.stderr, "", "with --json, stderr must be empty");
    let line = output.line();
    assert_eq!(line["path"], transcript.path.to_str().unwrap());
    assert_eq!(line["conversation_id"], "17738399468");
    let mut overlay = line["overlays"][0].clone();
    let digest = overlay.as_object_mut().unwrap().remove("executable_sha256").unwrap();
    assert_eq!(digest.as_str().map(str::len), Some(64));
    assert_eq!(
        overlay,
        json!({"number": 1, "from_turn": 0, "to_turn": 1, "kinds": ["tool_calls"], "strategy": "strip-tools",
               "version": env!("CARGO_PKG_VERSION"), "tier": "contained", "applied_by_jp": true})
    );
    assert_eq!(
        line["declines"],
        json!([{"strategy": "declines", "version": "1.0.0", "reason": "not today"}])
    );
    assert_eq!(
        line["tokens"],
        json!({"raw": 716, "view_before": 716, "view_after": 699,
               "jp": {"raw": 716, "view_before": 716, "view_after": 699}})
    );
    assert_eq!(line["saved"], json!({"tokens": 17, "percent": 2.4, "of": "view_before"}));
    assert_eq!(line["tier"], "contained");
    let show_report = world.run(&["show", "17738399468", "--json"]).exits(0).line();
    assert_eq!(show_report["tokens"]["view_after"], line["tokens"]["view_after"]);
}

#[test]
fn quiet_prints_only_errors() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(5));
    let output = world.run(&["conversation", "-q"]).exits(0);
    assert_eq!((output.text(), output.stderr.as_str()), ("", ""));
    let line = world.run(&["conversation", "-q", "--json"]).exits(0).line();
    assert_eq!(line["declines"].as_array().unwrap().len(), 2);
    assert!(world.run(&["./nowhere", "-q"]).exits(4).stderr.starts_with("error: "));
}

#[test]
fn verbose_prints_stderr_of_strategies() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(5));
    world.write_plugin("talks", &format!("echo 'thinking hard' >&2\n{STRIP}"));
    assert!(!world.run_plugin("talks", &["--dry-run"]).exits(0).stderr.contains("thinking hard"));
    world.run_plugin("talks", &["--dry-run", "-v"]).exits(0).reports("thinking hard");
}

#[test]
fn reports_that_open_last_turn_is_skipped() {
    let world = World::new();
    let with_open_turn =
        Conversation::with_turns(2).turn("And now?").request("fs_read_file", json!({"path": "b"}));
    let transcript = world.write_conversation("conversation", &with_open_turn);
    world
        .run(&["conversation", "--keep-last", "0"])
        .exits(0)
        .reports("turn 2 is skipped: one of its tool calls has no response");
    assert!(transcript.overlays().iter().all(|overlay| overlay["to_turn"] == 1));
    world
        .run(&["conversation", "--from", "2", "--keep-last", "0"])
        .exits(0)
        .reports("nothing to compact: turn 2");
}

#[test]
fn clock_running_backwards_keeps_overlay_order() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    world.run(&[&["conversation", "-s", "strip-tools"], &NOW[..]].concat()).exits(0);
    let earlier = ["conversation", "-s", "strip-tools:mode=omit", "--now", "2020-01-01T00:00:00Z"];
    world.run(&earlier).exits(0);
    let overlays = transcript.overlays();
    assert_eq!(overlays[1]["timestamp"], "2026-11-21 07:40:00.000000001");
    let view = world.run(&["print", "conversation", "--compacted"]).exits(0);
    assert_eq!(view.text().matches("tool call").count(), 3, "the newer policy must win:\n{}", view.text());
}

#[test]
fn reports_overlay_that_jp_does_not_apply() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(2));
    let result = r#"echo '{"type":"result","id":"c1","compactions":[{"from_turn":0,"to_turn":0,"tool_calls":
        {"policy":"selective","calls":[{"seq":4,"response":{"replace":"[seen]"}}]}}]}'"#;
    world.write_plugin("selects", &result.replace('\n', ""));
    world
        .run_plugin("selects", &[])
        .exits(0)
        .reports("1  selects 1.0.0  turn 0: tool_calls (not applied by JP itself)");
    let overlays = transcript.overlays();
    assert_eq!(overlays[0]["type"], "jp_compact_overlay");
    assert_eq!(overlays[0]["tool_calls"]["calls"][0]["id"], "call_1");
    let view = world.run(&["print", "conversation", "--compacted"]).exits(0);
    assert!(
        view.text().contains("tool result [overlay 1: 26 characters removed]:\n  [seen]\n"),
        "{}",
        view.text()
    );
    world.run(&["conversation", "--reset"]).exits(0);
    transcript.assert_same_bytes();
}

#[test]
fn summary_replaces_its_turns() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(4));
    let result = r#"echo '{"type":"result","id":"c1","compactions":[{"from_turn":0,"to_turn":2,"summary":{"summary":"They read a file."}}]}'"#;
    world.write_script("plugins/sums", &plugin_script("sums", &json!({"produces": ["summary"]}), result));
    let plugin = ["--strategy", "sums", "--trust-dir", "plugins", "--sandbox=contained", "--to", "2"];
    world.run(&[&["conversation"], &plugin[..]].concat()).exits(0);
    assert_eq!(transcript.overlays()[0]["summary"], json!({"summary": "They read a file."}));
    let view = world.run(&["print", "conversation", "--compacted"]).exits(0);
    insta::assert_snapshot!(view.text(), @r#"
    --- turn 0 (a summary of turns 0-2 of the history) [overlay 1: 453 characters removed] ---
    user:
      [Summary of previous conversation]
    assistant:
      They read a file.
    --- turn 1 (turn 3 of the history) ---
    user:
      What does the file say?
    assistant, reasoning:
      The file has to be read before anything can be said of it.
    tool call fs_read_file:
      {"path":"src/main.rs"}
    tool result:
      fn main() { println!("hello"); }
    assistant:
      It prints a greeting.
    "#);
}

#[test]
fn partial_failure_processes_all_transcripts() {
    let world = World::new();
    let valid = [
        world.write_conversation("one", &Conversation::with_turns(5)),
        world.write_conversation("three", &Conversation::with_turns(5)),
    ];
    let invalid = world.write_events("two", b"{}");
    let output = world.run(&["one", "two", "three", "--json"]).exits(19);
    let lines = output.lines();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1]["error"]["code"], 4);
    assert_eq!(lines[1]["path"], "two");
    assert!(output.stderr.contains("/here/two/events.json"), "{}", output.stderr);
    assert!(output.stderr.ends_with("1 of 3 transcripts failed\n"), "{}", output.stderr);
    valid.iter().for_each(|transcript| assert_eq!(transcript.overlays().len(), 1));
    invalid.assert_untouched();
}

#[test]
fn single_transcript_failure_keeps_its_exit_code() {
    let world = World::new();
    world.write_events("two", b"{}");
    let line = world.run(&["two", "--json"]).exits(4).line();
    assert_eq!(line["error"]["code"], 4);
}

#[test]
fn compacts_repeated_argument_once() {
    let world = World::new();
    let transcript = world.write_conversation("one", &Conversation::with_turns(5));
    world.run(&["one", "one/events.json"]).exits(0);
    assert_eq!(transcript.overlays().len(), 1);
}

#[test]
fn missing_transcript_prints_next_commands() {
    let world = World::new();
    world.run(&["--strategy", "strip-tools"]).exits(2).reports("`jp-compact list`");
}

#[test]
fn misspelled_command_compacts_nothing() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &Conversation::with_turns(5));
    world.run(&["shwo", "conversation"]).exits(2).reports("`shwo` is not a command, an existing path");
    world
        .run(&["prin", "conversation", "--json"])
        .exits(2)
        .reports("did you mean `jp-compact print conversation`?");
    transcript.assert_untouched();
    world.write_conversation("shwo", &Conversation::with_turns(5));
    world.run(&["shwo", "conversation"]).exits(0);
}

#[test]
fn prints_log_messages_and_diagnostics() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(2));
    let run = r#"
echo '{"type":"progress","id":"c1","done":1,"total":2}'
echo '{"type":"log","id":"c1","level":"warn","message":"odd \u001b[31mcall"}'
echo
echo '{"type":"a-later-message","id":"c1"}'
echo '{"type":"result","id":"c1","compactions":[{"from_turn":0,"to_turn":0,"tool_calls":{"policy":"omit"}}],"diagnostics":[{"severity":"warning","code":"orphan","message":"a lone half","turn":1}]}'"#;
    world.write_plugin("chatty", run);
    let output = world.run_plugin("chatty", &["--dry-run"]).exits(0);
    insta::assert_snapshot!(output.stderr, @r"
    conversation/events.json: 1 overlay would be appended
      1  chatty 1.0.0  turn 0: tool_calls
         chatty 1.0.0: warn: odd \u{1b}[31mcall
         chatty 1.0.0: warning in turn 1: a lone half
      turn 0: 144 -> 70 tokens
      JP would send about 213 tokens instead of 287 (-26 %, estimated)
      prompt cache (anthropic, cold): the compaction would cost nothing
    ");
    let line = world.run_plugin("chatty", &["--dry-run", "--json"]).exits(0).line();
    assert_eq!(line["diagnostics"][0]["found"]["code"], "orphan");
}

#[test]
fn dry_run_prints_effect_per_turn() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(5));
    let dry_run = world.run(&["conversation", "--dry-run", "--strategy", "strip-reasoning"]).exits(0);
    insta::assert_snapshot!(dry_run.stderr, @r"
    conversation/events.json: 1 overlay would be appended
      1  strip-reasoning [version]  turns 0-1: reasoning
      turn 0: 144 -> 115 tokens
      turn 1: 144 -> 115 tokens
      JP would send about 660 tokens instead of 716 (-8 %, estimated)
      prompt cache (anthropic, cold): the compaction would cost nothing
    ");
    let line =
        world.run(&["conversation", "--dry-run", "--json", "--strategy", "strip-reasoning"]).exits(0).line();
    let turns = line["turns"].as_array().unwrap();
    assert_eq!(turns.iter().map(|turn| turn["turn"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1]);
    for turn in turns {
        assert!(turn["view_after"].as_u64() < turn["view_before"].as_u64(), "{turn}");
    }
    // The real run has the same effect.
    let real_run = world.run(&["conversation", "--json", "--strategy", "strip-reasoning"]).exits(0).line();
    assert_eq!(real_run["turns"], line["turns"]);
    assert_eq!(real_run["tokens"], line["tokens"]);
}
