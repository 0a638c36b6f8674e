//! Per-tool hints (RFD D17). They are configured, and stored with the overlay. Afterwards the configuration does not
//! affect the view.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Conversation, Transcript, World, plugin_script};

const KEEP_READ: &str = "conversation.tools.fs_read_file.compaction.request=keep";

/// Returns four turns. The first one reads and writes a file. The other three are kept by default.
fn conversation() -> Conversation {
    Conversation::new()
        .turn("Copy it.")
        .call("fs_read_file", json!({"path": "a.rs"}), "content of a, which is longer than its status line")
        .call("fs_create_file", json!({"path": "b.rs"}), "created b, which did not exist before this call")
        .message("Copied.")
        .whole_turn()
        .whole_turn()
        .whole_turn()
}

fn world() -> (World, Transcript) {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &conversation());
    (world, transcript)
}

/// Compacts with these `--set` values, and returns the newest overlay that affects tool calls.
#[track_caller]
fn stored_overlay(sets: &[&str], extra: &[&str]) -> Value {
    let (world, transcript) = world();
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let arguments: Vec<_> = ["conversation"].into_iter().chain(sets).chain(extra.iter().copied()).collect();
    world.run(&arguments).exits(0);
    let overlays = transcript.overlays();
    overlays.iter().rfind(|overlay| overlay["tool_calls"].is_object()).unwrap().clone()
}

#[test]
fn stores_hint_with_overlay() {
    let overlay = stored_overlay(&[KEEP_READ], &[]);
    assert_eq!(overlay["type"], "jp_compact_overlay");
    assert_eq!(overlay["tool_calls"], json!({"policy": "strip", "request": true, "response": true}));
    assert_eq!(overlay["tool_overrides"], json!({"fs_read_file": {"request": "keep"}}));
}

#[test]
fn one_word_hint_covers_request_and_response() {
    let overlay = stored_overlay(&["conversation.tools.fs_create_file.compaction=strip-requests"], &[]);
    let overrides = &overlay["tool_overrides"];
    // The profile already strips requests, so only the difference is stored.
    assert_eq!(*overrides, json!({"fs_create_file": {"response": "keep"}}));
}

#[test]
fn omits_hint_that_changes_nothing() {
    for set in [
        "conversation.tools.fs_read_file.compaction=strip",
        "conversation.tools.fs_read_file.compaction.response=strip",
        "conversation.tools.not_used_here.compaction=keep",
    ] {
        let overlay = stored_overlay(&[set], &[]);
        assert_eq!(overlay["type"], "compaction", "{set}");
        let strip = json!({"policy": "strip", "request": true, "response": true});
        assert_eq!(overlay["tool_calls"], strip, "{set}");
    }
}

#[test]
fn hint_extends_strip_but_does_not_change_omit() {
    let strip = "conversation.tools.fs_create_file.compaction.request=strip";
    let overlay = stored_overlay(&[strip, KEEP_READ], &["--compact=t=sres"]);
    let overrides = &overlay["tool_overrides"];
    assert_eq!(*overrides, json!({"fs_create_file": {"request": "strip"}}));
    let overlay_with_omit = stored_overlay(&[KEEP_READ], &["--compact=t=omit"]);
    assert_eq!(
        (&overlay_with_omit["type"], &overlay_with_omit["tool_calls"]),
        (&json!("compaction"), &json!({"policy": "omit"}))
    );
}

/// Returns turn 0 of the view.
#[track_caller]
fn first_turn(world: &World) -> String {
    let output = world.run(&["print", "conversation", "--compacted"]).exits(0);
    output.text().split("--- turn 1 ---").next().unwrap().to_owned()
}

#[test]
fn view_uses_stored_hints_not_configuration() {
    let (world, _) = world();
    world.run(&["conversation", "--set", KEEP_READ]).exits(0);
    let view = first_turn(&world);
    insta::assert_snapshot!(view, @r#"
    --- turn 0 ---
    user:
      Copy it.
    tool call fs_read_file:
      {"path":"a.rs"}
    tool result [overlay 2: 17 characters removed]:
      [compacted] fs_read_file: success
    tool call fs_create_file [overlay 2: 10 characters removed]:
      {}
    tool result [overlay 2: 12 characters removed]:
      [compacted] fs_create_file: success
    assistant:
      Copied.
    "#);
    // Neither the opposite hint nor a missing hint changes the view.
    world.write_file(".jp-compact.toml", b"[conversation.tools.fs_read_file]\ncompaction = \"strip\"\n");
    assert_eq!(first_turn(&world), view);
    world.write_file(".jp-compact.toml", b"[conversation.tools.fs_create_file]\ncompaction = \"keep\"\n");
    assert_eq!(first_turn(&world), view);
}

#[test]
fn show_reports_that_jp_ignores_hints() {
    let (world, _) = world();
    let output = world.run(&["conversation", "--set", KEEP_READ, "--json"]).exits(0);
    let applied = |line: &Value| -> Vec<bool> {
        let overlays = line["overlays"].as_array().unwrap().iter();
        overlays.map(|overlay| overlay["applied_by_jp"].as_bool().unwrap()).collect()
    };
    assert_eq!(applied(&output.line()), [true, false]);
    assert_eq!(applied(&world.run(&["show", "conversation", "--json"]).exits(0).line()), [true, false]);
    let show_output = world.run(&["show", "conversation"]).exits(0);
    assert_eq!(
        show_output.text().matches("JP does not apply this overlay").count(),
        1,
        "{}",
        show_output.text()
    );
}

/// Returns five turns: two read a file, one creates a file, one does both, and the last one only answers. All outputs
/// are long.
fn turns_of_each_tool() -> Conversation {
    let output = "a line of no importance\n".repeat(40);
    let read =
        |conversation: Conversation| conversation.call("fs_read_file", json!({"path": "a.rs"}), &output);
    let create = |conversation: Conversation| {
        conversation.call("fs_create_file", json!({"path": "b.rs", "content": output}), &output)
    };
    let conversation = read(read(Conversation::new().turn("Read.")).message("Read.").turn("Read again."));
    let conversation = create(conversation.message("Read.").turn("Create."));
    create(read(conversation.message("Created.").turn("Copy.")))
        .message("Copied.")
        .turn("Thanks.")
        .message("Ok.")
}

/// Returns type, turns, and policy of each overlay.
fn policies(overlays: &[Value]) -> Vec<String> {
    let policy = |overlay: &Value| {
        let of = |half: &str| overlay["tool_calls"][half].as_bool().unwrap();
        format!(
            "{} {}-{} {}/{}",
            overlay["type"].as_str().unwrap(),
            overlay["from_turn"],
            overlay["to_turn"],
            of("request"),
            of("response")
        )
    };
    overlays.iter().map(policy).collect()
}

#[test]
fn jp_gets_the_part_of_a_policy_that_it_can_apply() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &turns_of_each_tool());
    let keep = "conversation.tools.fs_read_file.compaction=keep";
    let arguments = ["conversation", "--strategy=strip-tools", "--keep-last=1", "--set", keep, "--json"];
    let line = world.run(&arguments).exits(0).line();
    assert_eq!(
        policies(&transcript.overlays()),
        ["compaction 2-2 true/true", "jp_compact_overlay 0-3 true/true"]
    );
    // JP still sends the created file of the turn with both tools. Our view does not have it.
    let tokens = &line["tokens"];
    let (ours, jp) = (tokens["view_after"].as_u64(), tokens["jp"]["view_after"].as_u64());
    assert!(ours < jp && jp < tokens["jp"]["view_before"].as_u64(), "{tokens}");
    let text = world.run(&["show", "conversation"]).exits(0);
    for tokens in [ours, jp] {
        let shown = tokens.unwrap().to_string();
        assert!(text.text().replace(',', "").contains(&shown), "{shown} is not in {}", text.text());
    }
}

#[test]
fn jp_gets_the_half_of_a_policy_that_all_calls_of_a_turn_share() {
    let world = World::new();
    let transcript = world.write_conversation("conversation", &turns_of_each_tool());
    let arguments = ["conversation", "--strategy=strip-tools", "--keep-last=1", "--set", KEEP_READ];
    world.run(&arguments).exits(0);
    assert_eq!(
        policies(&transcript.overlays()),
        [
            "compaction 0-1 false/true",
            "compaction 2-2 true/true",
            "compaction 3-3 false/true",
            "jp_compact_overlay 0-3 true/true"
        ]
    );
}

#[test]
fn policy_for_jp_ends_an_older_one_where_a_hint_keeps_calls() {
    let world = World::new();
    let strip = json!({"policy": "strip", "request": true, "response": true});
    let older = json!({"from_turn": 0, "to_turn": 3, "tool_calls": strip});
    let transcript = world.write_conversation("conversation", &turns_of_each_tool().compaction(older));
    let payload = json!({"from_turn": 0, "to_turn": 3, "tool_calls": strip});
    let reply = json!({"type": "result", "id": "c1", "compactions": [payload]});
    let members = json!({"produces": ["tool_calls"]});
    world.write_script("plugins/strips", &plugin_script("strips", &members, &format!("echo '{reply}'")));
    let keep = "conversation.tools.fs_read_file.compaction=keep";
    let line = world.run_plugin("strips", &["--set", keep, "--json"]).exits(0).line();
    assert_eq!(
        policies(&transcript.overlays()),
        [
            "compaction 0-1 false/false",
            "compaction 2-2 true/true",
            "compaction 3-3 false/false",
            "jp_compact_overlay 0-3 true/true"
        ]
    );
    let tokens = &line["tokens"]["jp"];
    assert!(
        tokens["view_before"].as_u64() < tokens["view_after"].as_u64(),
        "JP sends the kept calls: {line}"
    );
}

#[test]
fn strategy_receives_hints() {
    let (world, _) = world();
    let header_path = world.path("seen");
    let decline = r#"echo '{"type":"decline","id":"c1","reason":"seen"}'"#;
    let run = format!("read -r header\necho \"$header\" > {}\n{decline}", header_path.display());
    world.write_script("plugins/sees", &plugin_script("sees", &json!({}), &run));
    world.run_plugin("sees", &["--set", KEEP_READ, "--set", "conversation.tools.t.compaction=keep"]).exits(0);
    let header: Value = serde_json::from_str(&fs::read_to_string(header_path).unwrap()).unwrap();
    let hints = json!({"fs_read_file": {"request": "keep"}, "t": {"request": "keep", "response": "keep"}});
    assert_eq!(header["context"]["tool_hints"], hints);
}

#[test]
fn rejects_invalid_hints() {
    let (world, transcript) = world();
    for set in ["request=omit", "request=1", "answer=keep"] {
        let set = format!("conversation.tools.fs_read_file.compaction.{set}");
        world.run(&["conversation", "--set", &set]).exits(2).reports("conversation.tools");
    }
    let omit = "conversation.tools.fs_read_file.compaction=omit";
    world.run(&["conversation", "--set", omit]).exits(2).reports("a hint keeps or strips");
    transcript.assert_untouched();
}
