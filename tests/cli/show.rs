//! `jp-compact show`: the numbers and origins of overlays, and token counts.

use serde_json::json;

use crate::support::{Conversation, World};

/// Returns a conversation with overlays that JP applies, an overlay that only jp-compact applies, and a receipt without
/// an overlay.
fn conversation() -> Conversation {
    Conversation::with_turns(4)
        .compaction(json!({"from_turn": 0, "to_turn": 0, "reasoning": "strip"}))
        .compaction(json!({"from_turn": 0, "to_turn": 1, "tool_calls": {"policy": "strip", "request": true,
                           "response": false}, "tool_overrides": {"fs_read_file": {"response": "strip"}}}))
        .event("jp_compact_overlay", json!({"from_turn": 1, "to_turn": 1, "tool_calls": {"policy": "selective",
               "calls": [{"seq": 10, "id": "call_2", "response": "strip"}, {"seq": 10, "id": "call_9", "omit": true}]}}))
        .event("jp_compact_receipt", json!({"from_turn": 3, "to_turn": 3, "strategy": "gone", "version": "1"}))
        .compaction(json!({"from_turn": 9, "to_turn": 9, "tool_calls": {"policy": "omit"}}))
}

#[test]
fn lists_number_range_origin_and_effect_of_overlays() {
    let world = World::new();
    world.write_conversation("conversation", &conversation());
    world
        .run(&[
            "conversation",
            "--now",
            "2026-06-21T07:40:00Z",
            "--strategy",
            "strip-tools",
            "--sandbox=contained",
        ])
        .exits(0);
    let output = world.run(&["show", "conversation"]).exits(0);
    assert_eq!(output.stderr, "");
    insta::assert_snapshot!(world.normalize(output.text()), @r"
    conversation/events.json: 4 turns, 24 events, 5 overlays
    JP sends about 529 of 573 tokens
    jp-compact's own view has about 528 of 573 tokens, 510 of 596 bytes of text: JP does not apply overlay 3
    overlays, with the tokens of the view before and after
      1  573 -> 545  -5 %       turn 0: reasoning
         without a receipt, 2026-03-18
      2  545 -> 530  -3 %       turns 0-1: tool_calls
         without a receipt, 2026-03-18
         note: its member `tool_overrides` is kept, but not applied
      3  530 -> 529  -0 %       turn 1: tool_calls
         without a receipt, 2026-03-18
         note: JP does not apply this overlay
         note: no effect on event 10: it is not the request or response of call `call_9` in the range
      4  529 -> 529  unchanged  turn 9: tool_calls
         without a receipt, 2026-03-18
         note: JP numbers it 3: `jp conversation compact --reset=3`
         note: no effect, because its range contains no turn
      5  529 -> 528  -0 %       turn 0: tool_calls
         by strip-tools [version], contained, 2026-06-21
         note: JP numbers it 4: `jp conversation compact --reset=4`

    tokens by type                   raw        view
    tool_requests                    150         136  -9 %       █████████████████▏░
    tool_responses                   147         145  -1 %       ██████████████████▎
    reasoning                        113          85  -25 %      ██████████▊░░░░
    user                              84          84  unchanged  ██████████▋
    assistant                         81          81  unchanged  ██████████▎

    tokens by tool                   raw        view
    fs_read_file                     296         280  -5 %       █████████████████▉░

    total                            raw        view
    tokens, estimated                573         528  -8 %       █████████████████▌░
    ");
}

#[test]
fn json_has_receipts_and_totals() {
    let world = World::new();
    let transcript = world.write_conversation(".jp/conversations/17738399468", &conversation());
    world.run(&["17738399468", "--strategy", "strip-tools", "--sandbox=contained"]).exits(0);
    let line = world.run(&["show", "jp-c17738399468", "--json"]).exits(0).line();
    assert_eq!(line["path"], transcript.path.to_str().unwrap());
    assert_eq!(line["conversation_id"], "17738399468");
    assert_eq!((&line["turns"], &line["events"]), (&json!(4), &json!(24)));
    let overlays = line["overlays"].as_array().unwrap();
    let numbers: Vec<_> = overlays.iter().map(|overlay| overlay["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5], "a receipt must not be numbered");
    assert_eq!(overlays[0]["receipts"], json!([]));
    assert_eq!((&overlays[2]["applied_by_jp"], &overlays[0]["applied_by_jp"]), (&json!(false), &json!(true)));
    let receipt = &overlays[4]["receipts"][0];
    assert_eq!((&receipt["strategy"], &receipt["tier"]), (&json!("strip-tools"), &json!("contained")));
    assert_eq!(receipt["options"], json!({"mode": "strip"}));
    for digest in ["executable_sha256", "input_sha256"] {
        assert_eq!(receipt[digest].as_str().map(str::len), Some(64), "{receipt}");
    }
    let sizes: Vec<_> = overlays.iter().map(|overlay| &overlay["tokens"]).collect();
    assert!(sizes.windows(2).all(|pair| pair[0]["view_after"] == pair[1]["view_before"]), "{sizes:?}");
    assert_eq!(line["tokens"]["raw"], sizes[0]["view_before"]);
    assert_eq!(line["tokens"]["view_after"], sizes[4]["view_after"]);
    assert!(line["by_tool"]["fs_read_file"]["tokens"]["raw"].as_u64() > Some(0));
}

#[test]
fn prints_only_totals_without_overlays() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(1));
    let output = world.run(&["show", "conversation"]).exits(0);
    insta::assert_snapshot!(output.text(), @r"
    conversation/events.json: 1 turn, 6 events, 0 overlays
    JP sends about 144 of 144 tokens, 149 of 149 bytes of text

    tokens by type                   raw        view
    tool_requests                     38          38  unchanged  ███████████████████
    tool_responses                    37          37  unchanged  ██████████████████▌
    reasoning                         29          29  unchanged  ██████████████▌
    assistant                         21          21  unchanged  ██████████▌
    user                              21          21  unchanged  ██████████▌

    tokens by tool                   raw        view
    fs_read_file                      74          74  unchanged  ███████████████████

    total                            raw        view
    tokens, estimated                144         144  unchanged  ███████████████████
    ");
    world.write_events("empty", b"[]");
    let output = world.run(&["show", "empty"]).exits(0);
    insta::assert_snapshot!(output.text(), @r"
    empty/events.json: 0 turns, 0 events, 0 overlays
    JP sends about 0 of 0 tokens, 0 of 0 bytes of text

    total                            raw        view
    tokens, estimated                  0           0  unchanged
    ");
}

#[test]
fn json_names_the_estimator() {
    let world = World::new();
    let events = r#"[{"timestamp": "2026-04-02 09:00:00.0", "type": "turn_start"},
        {"timestamp": "2026-04-02 09:00:01.0", "type": "chat_request", "content": "internationalization of antidisestablishmentarianism"}]"#;
    world.write_events("words", events.as_bytes());
    let tokens = |extra: &[&str]| {
        let line = world.run(&[&["show", "words", "--json"], extra].concat()).exits(0).line();
        (line["tokens"]["raw"].clone(), line["estimator"].clone())
    };
    assert_eq!(tokens(&[]), (32.into(), "pieces".into()));
    assert_eq!(tokens(&["--tokens", "exact"]), (24.into(), "o200k".into()));
}

#[test]
fn dates_are_local_and_json_is_exact() {
    let world = World::new();
    let conversation = Conversation::with_turns(1)
        .at("2026-03-18T20:00:00Z")
        .compaction(json!({"from_turn": 0, "to_turn": 0, "reasoning": "strip"}));
    world.write_conversation("conversation", &conversation);
    let show = |zone: &str, extra: &[&str]| {
        let mut command = world.command(&[&["show", "conversation"], extra].concat());
        world.finish(command.env("TZ", zone)).exits(0)
    };
    for (zone, date) in [("UTC0", "2026-03-18"), ("JST-9", "2026-03-19"), ("No/Such_Zone", "2026-03-18")] {
        let output = show(zone, &[]);
        assert!(output.text().contains(&format!("without a receipt, {date}\n")), "{zone}: {}", output.text());
    }
    let document = show("JST-9", &["--json"]).line();
    assert_eq!(document["overlays"][0]["timestamp"], "2026-03-18 20:00:00.0");
}
