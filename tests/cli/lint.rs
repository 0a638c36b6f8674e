//! `jp-compact lint`: what providers would refuse, named by rule, turn and event. The rules are tested in core.

use serde_json::{Value, json};

use crate::support::{Conversation, World};

/// The second turn calls what nobody answers, twice; the third says nothing.
fn broken() -> Conversation {
    Conversation::of(1)
        .turn("Look.")
        .request("fs_read_file", json!({"path": "a"}))
        .request("fs_read_file", json!({"path": "b"}))
        .message("Interrupted.")
        .turn(" ")
        .message("Yes?")
}

#[test]
fn a_conversation_that_every_provider_takes_is_clean() {
    let world = World::new();
    world.conversation("conversation", &Conversation::of(2));
    for more in [&[][..], &["--provider", "all"], &["--provider", "gemini"]] {
        let ran = world.run(&[&["lint", "conversation"], more].concat()).exits(0);
        assert_eq!((ran.text(), ran.stderr.as_str()), ("conversation/events.json: clean\n", ""));
    }
}

#[test]
fn each_violation_has_its_rule_turn_and_event() {
    let world = World::new();
    world.conversation("conversation", &broken());
    let ran = world.run(&["lint", "conversation"]).exits(3);
    insta::assert_snapshot!(ran.text(), @r"
    conversation/events.json: 3 violations
      G1 turn 1 event 8: the tool request `call_2` has no response
      G1 turn 1 event 9: the tool request `call_3` has no response
      G5 turn 2 event 12: the request is blank
    ");
    let line = world.run(&["lint", "conversation", "--json", "--provider", "all"]).exits(3).line();
    assert_eq!(line["clean"], false);
    assert_eq!(line["providers"], json!(["anthropic", "openai", "openai-responses", "gemini", "ollama"]));
    assert_eq!(
        line["violations"][2],
        json!({"rule": "G5", "provider": null, "turn": 2, "event": 12, "message": "the request is blank"})
    );
    let of_provider = |name: &str| {
        let found = line["violations"].as_array().unwrap().iter().filter(|found| found["provider"] == name);
        found.map(|found| format!("{} {}", found["rule"], found["event"])).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(of_provider("anthropic"), r#""A3" 8, "A3" 8, "A4" 12"#);
    assert_eq!(of_provider("openai"), r#""C2" 8, "C2" 8, "G5" 12"#);
    assert_eq!(of_provider("openai-responses"), r#""G5" 12, "R1" 8, "R1" 9"#);
    assert_eq!(of_provider("gemini"), r#""M2" 8, "G5" 12"#);
    assert_eq!(of_provider("ollama"), "");
}

#[test]
fn a_providers_own_rules_are_told_with_its_name() {
    let world = World::new();
    // No rule of all: that the assistant begins.
    world.conversation("conversation", &Conversation::new().message("Hello.").whole_turn());
    world.run(&["lint", "conversation"]).exits(0);
    world.run(&["lint", "conversation", "--provider", "openai"]).exits(0);
    let ran = world.run(&["lint", "conversation", "--provider", "all"]).exits(3);
    insta::assert_snapshot!(ran.text(), @r"
    conversation/events.json: 2 violations
      A2 (anthropic) turn 0 event 0: message 0 is the first, and not the user's
      M1 (gemini) turn 0 event 0: message 0 is the first, and not the user's
    ");
    // The guard looks at them where it is told to.
    let compact = ["conversation", "-n", "--from", "1", "--keep-last", "0"];
    let asked = world.run(&[&compact[..], &["--provider", "anthropic"]].concat()).exits(0);
    assert!(asked.stderr.contains("the view breaks A2 (anthropic) turn 0 event 0"), "{}", asked.stderr);
    let unasked = world.run(&compact).exits(0);
    assert!(!unasked.stderr.contains("A2"), "{}", unasked.stderr);
}

#[test]
fn it_is_the_view_that_is_looked_at() {
    let world = World::new();
    let covered = broken().compaction(json!({"from_turn": 1, "to_turn": 2, "summary": {"summary": "S"}}));
    world.conversation("conversation", &covered);
    world.run(&["lint", "conversation"]).exits(0);
    let blank =
        Conversation::of(2).compaction(json!({"from_turn": 0, "to_turn": 0, "summary": {"summary": ""}}));
    let ran = world.pipe(&["lint", "-"], &blank.bytes()).exits(3);
    insta::assert_snapshot!(ran.text(), @r"
    standard input: 1 violation
      G5 turn 0: the summary is blank
    ");
}

#[test]
fn a_view_that_ollama_would_cut_is_a_warning() {
    let world = World::new();
    world.conversation("conversation", &Conversation::of(2));
    let with =
        |window| world.run(&["lint", "conversation", "--provider", "ollama", "--context-window", window]);
    let ran = with("10").exits(0);
    insta::assert_snapshot!(ran.text(), @r"
    conversation/events.json: clean, with 1 warning
      O1 (ollama): about 70 tokens do not fit a window of 10: Ollama drops the oldest messages
    ");
    assert_eq!(with("4096").exits(0).text(), "conversation/events.json: clean\n");
    world.run(&["lint", "conversation", "--provider", "llama"]).exits(2).says("values: anthropic, openai,");
}

#[test]
fn a_rendered_body_is_the_providers() {
    let world = World::new();
    world.conversation("conversation", &broken());
    for (provider, member) in [
        ("anthropic", "messages"),
        ("openai", "messages"),
        ("openai-responses", "input"),
        ("gemini", "contents"),
        ("ollama", "messages"),
    ] {
        let ran = world.run(&["print", "conversation", "--compacted", "--as", provider]).exits(0);
        let body: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), [member]);
        assert!(body[member].as_array().unwrap().len() > 5, "{body}");
    }
    world
        .run(&["print", "conversation", "--as", "yaml"])
        .exits(2)
        .says("values: text, json, source, anthropic,");
}

#[test]
fn a_rendered_body_is_of_the_view_or_of_the_whole() {
    let world = World::new();
    let build =
        Conversation::of(2).compaction(json!({"from_turn": 0, "to_turn": 0, "summary": {"summary": "S"}}));
    world.conversation("conversation", &build);
    let of = |more: &[&str]| {
        let ran = world.run(&[&["print", "conversation", "--as", "openai"], more].concat()).exits(0);
        let body: Value = serde_json::from_slice(&ran.stdout).unwrap();
        body["messages"].as_array().unwrap().clone()
    };
    let compacted = of(&["--compacted"]);
    assert_eq!(
        compacted[..2],
        [
            json!({"role": "user", "content": "[Summary of previous conversation]"}),
            json!({"role": "assistant", "content": "S"}),
        ]
    );
    assert_eq!(compacted.len(), 7);
    assert_eq!(of(&[]).len(), 9, "two turns of four messages, and the user's turn to speak");
}
