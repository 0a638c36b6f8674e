//! `jp-compact mcp`: lines of JSON-RPC to the real server, as an agent sends them, and what the files become.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use crate::interrupt::is_gone;
use crate::support::{Agent, Conversation, Model, World, described, ended};

const NOW: [&str; 3] = ["--now", "2026-11-21T07:40:00Z", "--sandbox=contained"];

/// Long results, then reasoning.
fn talk() -> Conversation {
    (0..4).fold(Conversation::bulky(2), |talk, _| talk.whole_turn())
}

/// A conversation in the folder that is served.
fn world() -> World {
    let world = World::new();
    world.conversation("house/talk", &talk());
    world
}

fn file(world: &World, name: &str) -> Vec<u8> {
    fs::read(world.path(name).join("events.json")).unwrap()
}

#[test]
fn an_agent_is_told_what_the_tools_are_and_what_they_want() {
    let world = world();
    let mut agent = Agent::of(&world, &[]);
    let listed = agent.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let wants = |tool: &Value| {
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        properties.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    let told: Vec<_> =
        tools.iter().map(|tool| format!("{}: {}", tool["name"].as_str().unwrap(), wants(tool))).collect();
    assert_eq!(
        told,
        [
            "compact: transcript profile focus dry_run",
            "stats: transcript",
            "show: transcript",
            "print: transcript compacted as",
            "reset: transcript number",
        ]
    );
    for tool in tools {
        let schema = &tool["inputSchema"];
        assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["transcript"])));
        assert_eq!(schema["additionalProperties"], false);
        let properties = schema["properties"].as_object().unwrap();
        let described = |value: &Value| value["description"].as_str().is_some_and(|text| text.len() > 30);
        assert!(described(tool) && properties.values().all(described), "{tool}");
    }
    let reads: Vec<_> = tools.iter().map(|tool| tool["annotations"]["readOnlyHint"] == true).collect();
    assert_eq!(reads, [false, true, true, true, false]);
    assert!(
        tools[3]["inputSchema"]["properties"]["as"]["enum"].as_array().unwrap().contains(&json!("source"))
    );
    agent.leave().exits(0);
}

#[test]
fn compacting_and_resetting_do_what_the_commands_do() {
    let world = world();
    world.conversation("same", &talk());
    let before = file(&world, "same");
    let mut agent = Agent::of(&world, &NOW);

    let tried = agent.call("compact", json!({"transcript": "talk", "dry_run": true})).done();
    assert_eq!(file(&world, "house/talk"), before, "{}", tried.text());

    let called = agent.call("compact", json!({"transcript": "talk", "profile": "light"})).done();
    let ran = world.run(&[&["same", "--profile", "light"], &NOW[..]].concat()).exits(0);
    assert_eq!(file(&world, "house/talk"), file(&world, "same"));
    assert_eq!(world.plain(called.text()).replace("talk/", "same/"), ran.stderr);
    assert!(called.text().contains("1 overlay appended"), "{}", called.text());

    let called = agent.call("compact", json!({"transcript": "talk", "profile": null})).done();
    let line = world.run(&[&["same", "--json"], &NOW[..]].concat()).exits(0).line();
    let mut told = called.0["structuredContent"].clone();
    assert!(told["tokens"]["before"].as_u64() > told["tokens"]["after"].as_u64(), "{told}");
    assert!(!told["overlays"].as_array().unwrap().is_empty() && told["declines"].is_array(), "{told}");
    told["path"] = line["path"].clone();
    told["written_to"] = line["written_to"].clone();
    assert_eq!(told, line);

    agent
        .call("reset", json!({"transcript": "talk", "number": 1}))
        .done()
        .says("1 overlay removed from talk");
    world.run(&["same", "--reset=1"]).exits(0);
    assert_eq!(file(&world, "house/talk"), file(&world, "same"));
    let called = agent.call("reset", json!({"transcript": "talk"})).done();
    assert!(called.0["structuredContent"]["removed"].as_u64() > Some(0), "{}", called.0);
    assert_eq!(file(&world, "house/talk"), before);
    agent.leave().exits(0);
}

#[test]
fn looking_shows_what_the_commands_show() {
    let world = world();
    world.run(&[&["house/talk"], &NOW[..]].concat()).exits(0);
    let mut agent = Agent::of(&world, &[]);
    for command in ["stats", "show"] {
        let called = agent.call(command, json!({"transcript": "talk"})).done();
        let text = world.run(&[command, "house/talk"]).exits(0).text().replace("house/talk/", "talk/");
        assert_eq!(called.text(), text);
        assert_eq!(called.0["structuredContent"], world.run(&[command, "house/talk", "--json"]).line());
    }
    for (arguments, words) in [
        (json!({"transcript": "talk"}), &[][..]),
        (json!({"transcript": "talk", "compacted": true}), &["--compacted"]),
        (json!({"transcript": "talk", "compacted": true, "as": "json"}), &["--compacted", "--as=json"]),
        (json!({"transcript": "talk", "as": "source"}), &["--as=source"]),
        (
            json!({"transcript": "talk", "compacted": true, "as": "anthropic"}),
            &["--compacted", "--as=anthropic"],
        ),
    ] {
        let called = agent.call("print", arguments).done();
        assert_eq!(called.text(), world.run(&[&["print", "house/talk"], words].concat()).exits(0).text());
    }
    assert_eq!(agent.leave().exits(0).stderr, "");
}

#[test]
fn transcripts_outside_of_the_folder_are_neither_read_nor_written() {
    let world = world();
    let secret = world.conversation("secret", &talk());
    symlink(world.path("secret"), world.path("house/way-out")).unwrap();
    fs::create_dir(world.path("house/linked")).unwrap();
    symlink(&secret.path, world.path("house/linked/events.json")).unwrap();
    let absolute = world.path("secret").to_str().unwrap().to_owned();
    let mut agent = Agent::of(&world, &NOW);
    for transcript in ["../secret", &absolute, "talk/../../secret", "way-out", "linked", "linked/events.json"]
    {
        for tool in ["compact", "stats", "show", "print", "reset"] {
            let called = agent.call(tool, json!({"transcript": transcript})).fails(4).says("is not inside");
            assert!(!called.text().contains("no importance"), "{}", called.text());
        }
    }
    agent.call("print", json!({"transcript": "../nothing"})).fails(4).says("is not inside");
    secret.assert_untouched();
    agent.leave().exits(0);
}

#[test]
fn an_id_is_one_of_the_workspace_in_the_folder_and_of_no_other() {
    let world = World::new();
    world.conversation(".jp/conversations/17738399468-above", &Conversation::of(1));
    world.conversation("house/.jp/conversations/17738399469-here", &Conversation::of(2));
    world.conversation("house/.jp/conversations/17738399470-beside", &Conversation::of(3));
    let mut agent = Agent::of(&world, &[]);
    agent.call("stats", json!({"transcript": "17738399469"})).done().says("2 turns");
    agent.call("stats", json!({"transcript": "17738399468"})).fails(4);
    // A workspace further up is not this one.
    let mut command = world.command(&["mcp"]);
    command.current_dir(world.path("house/.jp/conversations/17738399469-here"));
    let mut inner = Agent::of_command(&world, command);
    inner.call("stats", json!({"transcript": "17738399470"})).fails(4).says("is not inside");
    inner.call("stats", json!({"transcript": "."})).done().says("2 turns");
    inner.leave().exits(0);
    agent.leave().exits(0);
}

#[test]
fn a_failure_says_what_the_command_line_says() {
    let world = world();
    world.plugin("unknown", "exit 1");
    let config = "[conversation.compaction.profiles.theirs]\nstrategies = [\"unknown\"]\n";
    world.file("config.toml", config.as_bytes());
    let options = ["--config", "../config.toml", "--plugin-dir", "../plugins"];
    let mut agent = Agent::of(&world, &[&options[..], &["--allow-model"]].concat());
    for (arguments, words, code) in [
        (json!({"transcript": "nothing.json"}), &["nothing.json"][..], 4),
        (json!({"transcript": "talk", "profile": "none"}), &["talk", "--profile=none"], 2),
        (json!({"transcript": "talk", "focus": "the task"}), &["talk", "--focus=the task"], 2),
        (json!({"transcript": "talk", "profile": "heavy"}), &["talk", "--profile=heavy"], 18),
        (json!({"transcript": "talk", "profile": "theirs"}), &["talk", "--profile=theirs"], 11),
        (json!({"transcript": "-"}), &["-"], 2),
    ] {
        let called = agent.call("compact", arguments).fails(code);
        let mut command = world.command(&[words, &options[..]].concat());
        let ran = world.finish(command.current_dir(world.path("house"))).exits(code.into());
        let text = world.plain(called.text());
        assert_eq!(text.strip_suffix(&format!("\nexit code: {code}\n")), Some(&*ran.stderr));
    }
    agent.call("reset", json!({"transcript": "talk", "number": 9})).fails(2).says("overlay");
    let left = agent.leave().exits(0);
    assert_eq!(left.stderr, "", "whoever asked is told, and nobody else");
}

#[test]
fn what_makes_no_sense_is_answered_and_the_next_call_works() {
    let world = world();
    let mut agent = Agent::of(&world, &[]);
    agent.call("compact", json!({})).fails(2).says("missing field `transcript`");
    agent
        .call("compact", json!({"transcript": "talk", "strategy": "x"}))
        .fails(2)
        .says("unknown field `strategy`");
    agent.call("stats", json!({"transcript": 3})).fails(2).says("expected a string");
    agent.call("reset", json!({"transcript": "talk", "number": 0})).fails(2).says("nonzero");
    agent.call("print", json!({"transcript": "talk", "as": "html"})).fails(2).says("not `html`");
    agent.call("print", json!({"transcript": ""})).fails(4);
    agent.call("delete", json!({"transcript": "talk"})).fails(2).says("there is no tool `delete`");
    writeln!(agent.to.as_mut().unwrap(), "no JSON\n{{\"jsonrpc\":\"2.0\"").unwrap();
    for _ in 0..2 {
        let answer = agent.hear();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &Value::Null), "{answer}");
    }
    let answer = agent.ask("no/such/method", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    agent.call("stats", json!({"transcript": "talk"})).done();
    agent.leave().exits(0);
}

#[test]
fn two_calls_at_once_do_not_overtake_each_other() {
    let world = world();
    let mut agent = Agent::of(&world, &NOW);
    let call = json!({"name": "compact", "arguments": {"transcript": "talk"}});
    agent.begin("tools/call", call.clone());
    agent.begin("tools/call", call);
    let mut told = [agent.hear(), agent.hear()];
    told.sort_by_key(|answer| answer["id"].as_u64());
    let tokens = told.map(|answer| answer["result"]["structuredContent"]["tokens"].clone());
    assert_ne!(tokens[0]["before"], tokens[0]["after"]);
    assert_eq!(tokens[0]["after"], tokens[1]["before"], "the second sees what the first did");
    agent.leave().exits(0);
}

/// J-CLI's third layer: the agent itself says when, and what has to be preserved.
#[test]
fn an_agent_compacts_by_itself_and_says_what_to_preserve() {
    let world = world();
    let model = Model::saying("Step 2 of 5 of the release is done.");
    let mut agent = Agent::asking(&world, &model, &[]);
    let focus = "Current status of the release, steps completed so far";
    let arguments = json!({"transcript": "talk", "profile": "auto-summarize", "focus": focus});
    let called = agent.call("compact", arguments).done();
    let told = &called.0["structuredContent"];
    assert!(told["tokens"]["before"].as_u64() > told["tokens"]["after"].as_u64(), "{told}");
    let asked = model.asked();
    assert!(asked[0].to_string().contains(focus), "{}", asked[0]);
    let printed = agent.call("print", json!({"transcript": "talk", "compacted": true})).done();
    assert!(printed.text().contains("Step 2 of 5 of the release is done."), "{}", printed.text());
    agent.leave().exits(0);
}

#[test]
fn a_budget_is_of_the_server_and_not_of_a_call() {
    let world = world();
    world.conversation("house/other", &talk());
    let mut answer = json!({
        "id": "x", "object": "chat.completion", "created": 1, "model": "g",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "They talked."}, "finish_reason": "stop"}],
    });
    answer["usage"] = json!({"prompt_tokens": 99_000, "completion_tokens": 1_000, "total_tokens": 100_000});
    let model = Model::answering(ResponseTemplate::new(200).set_body_json(answer));
    let mut agent = Agent::asking(&world, &model, &["--llm-budget-tokens", "100000"]);
    agent.call("compact", json!({"transcript": "talk", "profile": "heavy"})).done();
    agent.call("compact", json!({"transcript": "other", "profile": "heavy"})).fails(18).says("budget");
    assert_eq!(model.asked().len(), 1);
    agent.leave().exits(0);
}

#[test]
fn a_server_of_dry_runs_writes_nothing() {
    let world = world();
    let before = file(&world, "house/talk");
    let mut agent = Agent::of(&world, &["--dry-run", "--sandbox=contained"]);
    agent.call("compact", json!({"transcript": "talk", "dry_run": false})).done().says("would be appended");
    agent.call("reset", json!({"transcript": "talk"})).done();
    assert_eq!(file(&world, "house/talk"), before);
    agent.leave().exits(0);
}

#[test]
fn what_is_logged_goes_to_stderr_and_tells_no_transcript() {
    let world = world();
    world.script("plugins/chatty", &described("chatty", &json!({}), "echo loud and clear >&2; exit 3"));
    let config = "[conversation.compaction.profiles.theirs]\nstrategies = [\"chatty\"]\n";
    world.file("house/.jp-compact.toml", config.as_bytes());
    let mut agent = Agent::of(&world, &["--trust-dir", "../plugins", "--sandbox=contained", "-vv"]);
    agent
        .call("compact", json!({"transcript": "talk", "profile": "theirs"}))
        .fails(13)
        .says("loud and clear");
    agent.call("print", json!({"transcript": "talk"})).done().says("no importance");
    let left = agent.leave().exits(0).says("loud and clear");
    assert!(!left.stderr.contains("no importance"), "{}", left.stderr);
}

/// A server in whose `compact` a strategy works that does not end, and the strategy's processes.
fn busy(world: &World) -> (Agent<'_>, u64, Vec<String>) {
    let told = world.path("told");
    assert!(Command::new("/bin/mkfifo").arg(&told).status().unwrap().success());
    world.plugin("tells", &format!("sleep 1000 & echo $$ $! > {}\nexec sleep 1000", told.display()));
    let config = "[conversation.compaction.profiles.theirs]\nstrategies = [\"tells\"]\n";
    world.file("house/.jp-compact.toml", config.as_bytes());
    let mut agent = Agent::of(world, &["--trust-dir", "../plugins", "--sandbox=contained"]);
    let arguments = json!({"transcript": "talk", "profile": "theirs"});
    let id = agent.begin("tools/call", json!({"name": "compact", "arguments": arguments}));
    // A pipe is opened for reading when somebody opens it for writing.
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(fs::read_to_string(told)));
    let pids = receiver.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    (agent, id, pids.split_whitespace().map(str::to_owned).collect())
}

#[test]
fn what_is_cancelled_ends_and_the_server_goes_on() {
    let world = world();
    let before = file(&world, "house/talk");
    let (mut agent, id, pids) = busy(&world);
    let params = json!({"requestId": id, "reason": "no time"});
    agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    assert!(pids.iter().all(|pid| is_gone(pid)), "{pids:?}");
    agent.call("compact", json!({"transcript": "talk", "dry_run": true})).done();
    assert_eq!(file(&world, "house/talk"), before);
    agent.leave().exits(0);
}

#[test]
fn an_agent_that_goes_takes_its_strategies_along() {
    let world = world();
    let before = file(&world, "house/talk");
    let (mut agent, id, pids) = busy(&world);
    drop(agent.to.take());
    // What was asked is answered, or not: it went.
    let rest: Vec<_> = agent.from.by_ref().map(|line| line.unwrap()).collect();
    assert!(rest.len() <= 1 && rest.iter().all(|line| line.contains(&format!("\"id\":{id}"))), "{rest:?}");
    ended(&world, agent.server).exits(0);
    assert!(pids.iter().all(|pid| is_gone(pid)), "{pids:?}");
    assert_eq!(file(&world, "house/talk"), before);
}

#[test]
fn a_signal_ends_the_server_and_its_strategies() {
    for signal in [Signal::TERM, Signal::INT] {
        let world = world();
        let (agent, _, pids) = busy(&world);
        kill_process(Pid::from_child(&agent.server), signal).unwrap();
        let Agent { server, to: _open, .. } = agent;
        ended(&world, server).exits(130);
        assert!(pids.iter().all(|pid| is_gone(pid)), "{pids:?}");
    }
}

#[test]
fn who_says_nothing_or_no_protocol_is_no_agent() {
    let world = world();
    let nothing = Agent::silent(&world, world.command(&["mcp", "house"])).leave().exits(0);
    assert_eq!(nothing.stderr, "");
    world.run(&["mcp", "nothing"]).exits(4).says("nothing");
    world.run(&["mcp", "house/talk/events.json"]).exits(4);
    let help = world.run(&["mcp", "--help"]).exits(0);
    assert!(
        help.text().contains(r#"{"mcpServers": {"jp-compact": {"command": "jp-compact", "args": ["mcp","#)
    );
    assert!(!help.text().contains("--json"), "{}", help.text());
}
