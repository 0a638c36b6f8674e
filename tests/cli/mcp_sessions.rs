//! `jp-compact mcp`: the tools that return hidden events, the sessions of the served folder, and
//! the results of all tools. The client of these tests validates each result against its published
//! schema.

use std::fs;

use serde_json::{Value, json};

use crate::mcp::{NOW, conversation, events, world};
use crate::support::{Agent, Conversation, Transcript, World};

#[test]
fn hidden_detail_is_found_and_expanded() {
    let world = World::new();
    world.write_conversation("project/conversation", &Conversation::with_turns(5));
    let mut agent = Agent::connect(&world, &[]);
    agent.call("compact", json!({"transcript": "conversation", "keep_last": 1})).succeeds();
    let view = agent.call("print", json!({"transcript": "conversation", "compacted": true})).succeeds();
    assert!(view.text().contains("[compacted]"), "{}", view.text());
    agent.call("diff", json!({"transcript": "conversation"})).succeeds().reports("result fs_read_fi");

    let found = agent.call("search", json!({"transcript": "conversation", "query": "PRINTLN"})).succeeds();
    let event = found.0["structuredContent"]["matches"][0].clone();
    assert_eq!((&event["turn"], &event["type"]), (&json!(0), &json!("tool_call_response")));
    let expand = json!({"transcript": "conversation", "event": event["event"]});
    agent.call("expand", expand).succeeds().reports("fn main() { println!(");
    agent
        .call("expand", json!({"transcript": "conversation", "event": 9999}))
        .fails(2)
        .reports("no event 9999");
    agent.close().exits(0);
}

#[test]
fn long_text_of_diff_names_no_option() {
    let world = World::new();
    world.write_conversation("project/conversation", &Conversation::with_turns(50));
    let mut agent = Agent::connect(&world, &[]);
    agent.call("compact", json!({"transcript": "conversation", "keep_last": 1})).succeeds();
    let diff = agent.call("diff", json!({"transcript": "conversation"})).succeeds();
    assert!(diff.text().contains(" smaller changes; the JSON output lists all\n"), "{}", diff.text());
    agent.close().exits(0);
}

#[test]
fn settings_of_the_served_folder_apply_to_sessions() {
    const SESSION: &str = "0f9c2b1e-4d3a-4b6c-8d7e-9f0a1b2c3d4e";
    let world = World::new();
    write_session(&world, SESSION, "project");
    let profile = "[conversation.compaction.profiles.mine]\nstrategies = [\"strip-tools\"]\n";
    world.write_file("project/.jp-compact.toml", profile.as_bytes());
    world.write_file("project/later.toml", b"conversation.compaction.keep_last = 0\n");
    let mut agent = Agent::connect(&world, &["--config", "later.toml"]);
    let arguments = json!({"transcript": SESSION, "profile": "mine", "dry_run": true});
    for tool in ["compact", "fork"] {
        let answer = agent.call(tool, arguments.clone()).succeeds();
        let report = answer.0["structuredContent"].to_string();
        assert!(report.contains(r#""strategy":"strip-tools""#), "{tool}: {report}");
    }
    agent.close().exits(0);
}

#[test]
fn print_has_pages() {
    let world = World::new();
    world.write_conversation("project/conversation", &Conversation::with_turns(5));
    let mut agent = Agent::connect(&world, &[]);
    let whole = agent.call("print", json!({"transcript": "conversation", "as": "json"})).succeeds();
    assert_eq!(whole.0["structuredContent"]["text"], whole.text());
    assert_eq!(whole.0["structuredContent"]["next_offset"], Value::Null);
    let (mut joined, mut offset) = (String::new(), json!(0));
    while !offset.is_null() {
        let arguments =
            json!({"transcript": "conversation", "as": "json", "offset": offset, "max_chars": 999});
        let page = agent.call("print", arguments).succeeds();
        let text = page.0["structuredContent"]["text"].as_str().unwrap();
        assert!(page.text().starts_with(text), "{}", page.text());
        joined += text;
        offset = page.0["structuredContent"]["next_offset"].clone();
    }
    assert_eq!(joined, whole.text());
    agent.close().exits(0);
}

/// Writes a session of Claude Code that worked in a folder.
pub(crate) fn write_session(world: &World, id: &str, folder: &str) -> Transcript {
    let folder = world.path(folder);
    let line = |kind: &str, uuid: &str, parent: Value, content: Value| {
        json!({"type": kind, "sessionId": id, "cwd": folder, "uuid": uuid, "parentUuid": parent, "version": "2.1.0",
               "timestamp": "2026-03-18T12:00:00Z", "message": {"role": kind, "content": content}})
    };
    let (output, call) = ("a line of no importance\n".repeat(500), json!({"command": "make"}));
    let lines = [
        line("user", "a", Value::Null, json!("The codeword is heron.")),
        line(
            "assistant",
            "b",
            json!("a"),
            json!([{"type": "tool_use", "id": "t1", "name": "Bash", "input": call}]),
        ),
        line(
            "user",
            "c",
            json!("b"),
            json!([{"type": "tool_result", "tool_use_id": "t1", "content": output}]),
        ),
        line("assistant", "d", json!("c"), json!([{"type": "text", "text": "Noted."}])),
        line("user", "e", json!("d"), json!("And now?")),
        line("assistant", "f", json!("e"), json!([{"type": "text", "text": "Nothing."}])),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = world.home(".claude/projects/p").join(format!("{id}.jsonl"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    Transcript::capture(path)
}

#[test]
fn only_sessions_of_the_served_folder_are_listed_and_opened() {
    let world = World::new();
    world.write_conversation("project/conversation", &Conversation::with_turns(5));
    let (mine, other) = ("01a1fd18-25ed-7671-90cc-5ecb92e14c45", "02a1fd18-25ed-7671-90cc-5ecb92e14c45");
    let session = write_session(&world, mine, "project");
    write_session(&world, other, "elsewhere");
    let mut agent = Agent::connect(&world, &[]);
    let listed = agent.call("list", json!({})).succeeds();
    let ids: Vec<_> =
        listed.0["structuredContent"]["sessions"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, [mine]);
    agent.call("search", json!({"transcript": mine, "query": "heron"})).succeeds().reports("event 0, turn 0");
    agent.call("search", json!({"transcript": other, "query": "heron"})).fails(4);
    agent.call("compact", json!({"transcript": other, "keep_last": 1})).fails(4);
    let compacted = agent.call("compact", json!({"transcript": mine, "keep_last": 1})).succeeds();
    let effect = format!(
        "recorded; takes effect when the session is resumed from a copy, not in the running session: \
         `jp-compact fork {}` makes the copy",
        session.path.display()
    );
    assert!(
        compacted.reports(&effect).0["structuredContent"]["takes_effect"]
            .as_str()
            .unwrap()
            .starts_with(&effect)
    );
    for transcript in [other, "../elsewhere", session.path.to_str().unwrap(), "conversation", "-"] {
        let result = agent.call("fork", json!({"transcript": transcript}));
        assert_eq!(result.0["isError"], true, "{transcript}: {}", result.0);
    }
    let sessions = || fs::read_dir(session.path.parent().unwrap()).unwrap().count();
    let before = sessions();
    agent.call("fork", json!({"transcript": mine, "dry_run": true})).succeeds();
    assert_eq!(sessions(), before);
    let forked = agent.call("fork", json!({"transcript": mine, "profile": "light"})).succeeds();
    let copy = &forked.0["structuredContent"]["session"];
    assert!(
        copy["bytes"].as_u64() < copy["source_bytes"].as_u64(),
        "the recorded overlay is applied: {copy}"
    );
    let id = copy["id"].as_str().unwrap().to_owned();
    forked.reports(&format!(
        "the user resumes the copy with: cd {} && claude --resume {id}",
        world.path("project").display()
    ));
    assert_eq!(session.current_bytes(), session.original_bytes());
    agent.close().exits(0);
}

#[test]
fn every_tool_has_a_result_that_matches_its_schema() {
    let world = world();
    let id = "01a1fd18-25ed-7671-90cc-5ecb92e14c45";
    write_session(&world, id, "project");
    let mut agent = Agent::connect(&world, &NOW);
    let answer = agent.request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap();
    let calls = [
        ("list", json!({})),
        ("compact", json!({"transcript": id, "keep_last": 1})),
        ("fork", json!({"transcript": id, "profile": "default", "keep_last": 1})),
        ("stats", json!({"transcript": id})),
        ("show", json!({"transcript": id})),
        ("diff", json!({"transcript": id})),
        ("print", json!({"transcript": id, "compacted": true})),
        ("search", json!({"transcript": id, "query": "heron"})),
        ("expand", json!({"transcript": id, "event": 0})),
        ("reset", json!({"transcript": id})),
    ];
    assert_eq!(
        calls.each_ref().map(|(tool, _)| json!(tool)).to_vec(),
        tools.iter().map(|tool| tool["name"].clone()).collect::<Vec<_>>()
    );
    for (tool, arguments) in calls {
        // The client validates each result. A failure has the same schema.
        agent.call(tool, arguments).succeeds();
        agent.call(tool, json!({"unknown": 1})).fails(2);
    }
    agent.close().exits(0);
}

#[test]
fn client_names_strategies_or_inline_form() {
    let world = world();
    world.write_conversation("same", &conversation());
    let mut agent = Agent::connect(&world, &[&NOW[..], &["--allow-model"]].concat());
    for (arguments, command_line) in [
        (
            json!({"strategies": ["strip-tools:mode=omit", "strip-reasoning"]}),
            &["-s", "strip-tools:mode=omit", "-s", "strip-reasoning"][..],
        ),
        (json!({"inline": "r+t"}), &["--compact=r+t"]),
    ] {
        let mut call = json!({"transcript": "talk", "keep_last": 1});
        call.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        let result = agent.call("compact", call).succeeds();
        assert!(!result.0["structuredContent"]["overlays"].as_array().unwrap().is_empty(), "{}", result.0);
        world.run(&[&["same", "--keep-last", "1"], command_line, &NOW[..]].concat()).exits(0);
        assert_eq!(events(&world, "project/talk"), events(&world, "same"));
        agent.call("reset", json!({"transcript": "talk"})).succeeds();
        world.run(&["same", "--reset"]).exits(0);
    }
    for (strategy, reason) in [
        ("../plugins/evil", "is a path"),
        ("micro:@/etc/passwd", "names a file"),
        ("summarize:model=openai/g", "names a model"),
        ("nothing", "nothing"),
    ] {
        let result = agent.call("compact", json!({"transcript": "talk", "strategies": [strategy]}));
        assert_eq!(result.0["isError"], true, "{strategy}");
        result.reports(reason);
    }
    agent
        .call("compact", json!({"transcript": "talk", "profile": "light", "inline": "r"}))
        .fails(2)
        .reports("only one of");
    agent.close().exits(0);
}
