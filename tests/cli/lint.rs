//! `jp-compact lint`: the report on violations of providers' rules. The rules are tested in core.

use serde_json::{Value, json};

use crate::support::{Conversation, World};

/// Returns a conversation with two unanswered tool calls in the second turn, and a blank request in the third.
fn invalid_conversation() -> Conversation {
    Conversation::with_turns(1)
        .turn("Look.")
        .request("fs_read_file", json!({"path": "a"}))
        .request("fs_read_file", json!({"path": "b"}))
        .message("Interrupted.")
        .turn(" ")
        .message("Yes?")
}

#[test]
fn valid_conversation_is_clean_for_every_provider() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(2));
    for extra in [&[][..], &["--provider", "all"], &["--provider", "gemini"]] {
        let output = world.run(&[&["lint", "conversation"], extra].concat()).exits(0);
        assert_eq!((output.text(), output.stderr.as_str()), ("conversation/events.json: clean\n", ""));
    }
}

#[test]
fn violations_have_rule_turn_and_event() {
    let world = World::new();
    world.write_conversation("conversation", &invalid_conversation());
    let output = world.run(&["lint", "conversation"]).exits(3);
    insta::assert_snapshot!(output.text(), @r"
    conversation/events.json: 3 violations
      G1 turn 1 event 8: the tool request `call_2` has no response
      G1 turn 1 event 9: the tool request `call_3` has no response
      G5 turn 2 event 12: the request is blank
      see docs/reference/lint-rules.md#g1
      see docs/reference/lint-rules.md#g5
    ");
    let line = world.run(&["lint", "conversation", "--json", "--provider", "all"]).exits(3).line();
    assert_eq!(line["clean"], false);
    assert_eq!(line["providers"], json!(["anthropic", "openai", "openai-responses", "gemini", "ollama"]));
    assert_eq!(
        line["violations"][2],
        json!({"rule": "G5", "provider": null, "turn": 2, "event": 12, "message": "the request is blank"})
    );
    let violations_of = |name: &str| {
        let violations = line["violations"].as_array().unwrap().iter();
        let provider_violations = violations.filter(|violation| violation["provider"] == name);
        provider_violations
            .map(|violation| format!("{} {}", violation["rule"], violation["event"]))
            .collect::<Vec<_>>()
            .join(", ")
    };
    assert_eq!(violations_of("anthropic"), r#""A3" 8, "A3" 8, "A4" 12"#);
    assert_eq!(violations_of("openai"), r#""C2" 8, "C2" 8, "G5" 12"#);
    assert_eq!(violations_of("openai-responses"), r#""G5" 12, "R1" 8, "R1" 9"#);
    assert_eq!(violations_of("gemini"), r#""M2" 8, "G5" 12"#);
    assert_eq!(violations_of("ollama"), "");
}

#[test]
fn provider_rules_are_reported_with_provider_name() {
    let world = World::new();
    // Only some providers reject a conversation that begins with the assistant.
    world.write_conversation("conversation", &Conversation::new().message("Hello.").whole_turn());
    world.run(&["lint", "conversation"]).exits(0);
    world.run(&["lint", "conversation", "--provider", "openai"]).exits(0);
    let output = world.run(&["lint", "conversation", "--provider", "all"]).exits(3);
    insta::assert_snapshot!(output.text(), @r"
    conversation/events.json: 2 violations
      A2 (anthropic) turn 0 event 0: message 0 is the first, but is not a user message
      M1 (gemini) turn 0 event 0: message 0 is the first, but is not a user message
      see docs/reference/lint-rules.md#a2
      see docs/reference/lint-rules.md#m1
    ");
    // A compaction checks these rules only with `--provider`.
    let compact = ["conversation", "-n", "--from", "1", "--keep-last", "0"];
    let with_provider = world.run(&[&compact[..], &["--provider", "anthropic"]].concat()).exits(0);
    assert!(
        with_provider.stderr.contains("the view still violates A2 (anthropic) turn 0 event 0"),
        "{}",
        with_provider.stderr
    );
    let without_provider = world.run(&compact).exits(0);
    assert!(!without_provider.stderr.contains("A2"), "{}", without_provider.stderr);
}

#[test]
fn checks_the_view() {
    let world = World::new();
    let summarized =
        invalid_conversation().compaction(json!({"from_turn": 1, "to_turn": 2, "summary": {"summary": "S"}}));
    world.write_conversation("conversation", &summarized);
    world.run(&["lint", "conversation"]).exits(0);
    let with_blank_summary = Conversation::with_turns(2)
        .compaction(json!({"from_turn": 0, "to_turn": 0, "summary": {"summary": ""}}));
    let output = world.run_with_stdin(&["lint", "-"], &with_blank_summary.bytes()).exits(3);
    insta::assert_snapshot!(output.text(), @r"
    standard input: 1 violation
      G5 turn 0: the summary is blank
      see docs/reference/lint-rules.md#g5
    ");
}

#[test]
fn warns_when_ollama_would_truncate_view() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(2));
    let lint_ollama =
        |window| world.run(&["lint", "conversation", "--provider", "ollama", "--context-window", window]);
    let output = lint_ollama("10").exits(0);
    insta::assert_snapshot!(output.text(), @r"
    conversation/events.json: clean, with 1 warning
      O1 (ollama): the view has about 287 tokens, but the context window has 10: Ollama drops the oldest messages
      see docs/reference/lint-rules.md#o1
    ");
    assert_eq!(lint_ollama("4096").exits(0).text(), "conversation/events.json: clean\n");
    world
        .run(&["lint", "conversation", "--provider", "llama"])
        .exits(2)
        .reports("values: anthropic, openai,");
}

#[test]
fn print_renders_body_of_each_provider() {
    let world = World::new();
    world.write_conversation("conversation", &invalid_conversation());
    for (provider, member) in [
        ("anthropic", "messages"),
        ("openai", "messages"),
        ("openai-responses", "input"),
        ("gemini", "contents"),
        ("ollama", "messages"),
    ] {
        let output = world.run(&["print", "conversation", "--compacted", "--as", provider]).exits(0);
        let body: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), [member]);
        assert!(body[member].as_array().unwrap().len() > 5, "{body}");
    }
    world
        .run(&["print", "conversation", "--as", "yaml"])
        .exits(2)
        .reports("values: text, json, source, anthropic,");
}

#[test]
fn print_renders_view_or_whole_history() {
    let world = World::new();
    let conversation = Conversation::with_turns(2)
        .compaction(json!({"from_turn": 0, "to_turn": 0, "summary": {"summary": "S"}}));
    world.write_conversation("conversation", &conversation);
    let messages = |extra: &[&str]| {
        let output = world.run(&[&["print", "conversation", "--as", "openai"], extra].concat()).exits(0);
        let body: Value = serde_json::from_slice(&output.stdout).unwrap();
        body["messages"].as_array().unwrap().clone()
    };
    let compacted = messages(&["--compacted"]);
    assert_eq!(
        compacted[..2],
        [
            json!({"role": "user", "content": "[Summary of previous conversation]"}),
            json!({"role": "assistant", "content": "S"}),
        ]
    );
    assert_eq!(compacted.len(), 7);
    assert_eq!(messages(&[]).len(), 9, "expected two turns of four messages, and a final user message");
}
