//! `jp-compact mcp`: tests of the real server with the JSON-RPC messages of an agent.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use crate::interrupt::process_ends;
use crate::support::{Agent, Conversation, Model, World, plugin_script, wait_for_exit};

pub(crate) const NOW: [&str; 3] = ["--now", "2026-11-21T07:40:00Z", "--sandbox=contained"];

/// Returns two turns with long tool results and four turns with reasoning.
pub(crate) fn conversation() -> Conversation {
    (0..4).fold(Conversation::bulky(2), |conversation, _| conversation.whole_turn())
}

/// Returns a test environment with a conversation in the served folder, `project`.
pub(crate) fn world() -> World {
    let world = World::new();
    world.write_conversation("project/talk", &conversation());
    world
}

/// Reads the events of a conversation.
pub(crate) fn events(world: &World, name: &str) -> Vec<u8> {
    fs::read(world.path(name).join("events.json")).unwrap()
}

#[test]
fn lists_tools_with_schemas() {
    let world = world();
    let mut agent = Agent::connect(&world, &[]);
    let response = agent.request("tools/list", json!({}));
    let tools = response["result"]["tools"].as_array().unwrap();
    let parameters = |tool: &Value| {
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        properties.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    let listed_tools: Vec<_> = tools
        .iter()
        .map(|tool| format!("{}: {}", tool["name"].as_str().unwrap(), parameters(tool)))
        .collect();
    assert_eq!(
        listed_tools,
        [
            "list: max",
            "compact: transcript profile strategies inline focus dry_run require_constraints from to keep_first keep_last keep_steps keep_tokens",
            "fork: transcript profile focus dry_run keep_last keep_steps",
            "stats: transcript",
            "show: transcript",
            "diff: transcript",
            "print: transcript compacted offset max_chars as",
            "search: transcript query max",
            "expand: transcript event offset max_chars",
            "reset: transcript number",
        ]
    );
    for tool in tools {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object");
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        assert_eq!(required.contains(&json!("transcript")), tool["name"] != "list");
        assert_eq!(tool["outputSchema"]["type"], "object");
        assert_eq!(schema["additionalProperties"], false);
        let properties = schema["properties"].as_object().unwrap();
        let has_description =
            |value: &Value| value["description"].as_str().is_some_and(|text| text.len() > 30);
        assert!(properties.values().all(|property| property["type"].is_string()), "one type each: {tool}");
        assert!(has_description(tool) && properties.values().all(has_description), "{tool}");
    }
    let read_only: Vec<_> = tools.iter().map(|tool| tool["annotations"]["readOnlyHint"] == true).collect();
    assert_eq!(read_only, [true, false, false, true, true, true, true, true, true, false]);
    assert!(
        tools[6]["inputSchema"]["properties"]["as"]["enum"].as_array().unwrap().contains(&json!("source"))
    );
    agent.close().exits(0);
}

#[test]
fn compact_and_reset_match_commands() {
    let world = world();
    world.write_conversation("same", &conversation());
    let before = events(&world, "same");
    let mut agent = Agent::connect(&world, &NOW);

    let dry_run = agent.call("compact", json!({"transcript": "talk", "dry_run": true})).succeeds();
    assert_eq!(events(&world, "project/talk"), before, "{}", dry_run.text());

    let result = agent.call("compact", json!({"transcript": "talk", "profile": "light"})).succeeds();
    let output = world.run(&[&["same", "--profile", "light"], &NOW[..]].concat()).exits(0);
    assert_eq!(events(&world, "project/talk"), events(&world, "same"));
    let text = world.normalize(result.text()).replace("talk/", "same/");
    let (text, takes_effect) = text.rsplit_once("recorded; ").unwrap();
    assert_eq!(text, output.stderr);
    assert!(takes_effect.starts_with("takes effect with the next `jp query`, not in a running one"));
    assert!(result.text().contains("1 overlay appended"), "{}", result.text());

    let result = agent.call("compact", json!({"transcript": "talk", "profile": null})).succeeds();
    let line = world.run(&[&["same", "--json"], &NOW[..]].concat()).exits(0).line();
    let mut report = result.0["structuredContent"].clone();
    assert!(report["tokens"]["view_before"].as_u64() > report["tokens"]["view_after"].as_u64(), "{report}");
    assert!(!report["overlays"].as_array().unwrap().is_empty() && report["declines"].is_array(), "{report}");
    assert!(report.as_object_mut().unwrap().remove("takes_effect").is_some());
    report["path"] = line["path"].clone();
    report["written_to"] = line["written_to"].clone();
    assert_eq!(report, line);

    agent
        .call("reset", json!({"transcript": "talk", "number": 1}))
        .succeeds()
        .reports("1 overlay removed from talk");
    world.run(&["same", "--reset=1"]).exits(0);
    assert_eq!(events(&world, "project/talk"), events(&world, "same"));
    let result = agent.call("reset", json!({"transcript": "talk"})).succeeds();
    assert!(result.0["structuredContent"]["removed"].as_u64() > Some(0), "{}", result.0);
    assert_eq!(events(&world, "project/talk"), before);
    agent.close().exits(0);
}

#[test]
fn stats_show_and_print_match_commands() {
    let world = world();
    world.run(&[&["project/talk"], &NOW[..]].concat()).exits(0);
    let mut agent = Agent::connect(&world, &[]);
    for command in ["stats", "show"] {
        let result = agent.call(command, json!({"transcript": "talk"})).succeeds();
        let text = world.run(&[command, "project/talk"]).exits(0).text().replace("project/talk/", "talk/");
        assert_eq!(result.text(), text);
        assert_eq!(result.0["structuredContent"], world.run(&[command, "project/talk", "--json"]).line());
    }
    for (arguments, options) in [
        (json!({"transcript": "talk"}), &[][..]),
        (json!({"transcript": "talk", "compacted": true}), &["--compacted"]),
        (json!({"transcript": "talk", "compacted": true, "as": "json"}), &["--compacted", "--as=json"]),
        (json!({"transcript": "talk", "as": "source"}), &["--as=source"]),
        (
            json!({"transcript": "talk", "compacted": true, "as": "anthropic"}),
            &["--compacted", "--as=anthropic"],
        ),
    ] {
        let result = agent.call("print", arguments).succeeds();
        assert_eq!(result.text(), world.run(&[&["print", "project/talk"], options].concat()).exits(0).text());
    }
    assert_eq!(agent.close().exits(0).stderr, "");
}

#[test]
fn rejects_transcripts_outside_served_folder() {
    let world = world();
    let secret = world.write_conversation("secret", &conversation());
    symlink(world.path("secret"), world.path("project/way-out")).unwrap();
    fs::create_dir(world.path("project/linked")).unwrap();
    symlink(&secret.path, world.path("project/linked/events.json")).unwrap();
    let absolute = world.path("secret").to_str().unwrap().to_owned();
    let mut agent = Agent::connect(&world, &NOW);
    for transcript in ["../secret", &absolute, "talk/../../secret", "way-out", "linked", "linked/events.json"]
    {
        for tool in ["compact", "stats", "show", "print", "reset"] {
            let result =
                agent.call(tool, json!({"transcript": transcript})).fails(4).reports("is not inside");
            assert!(!result.text().contains("no importance"), "{}", result.text());
        }
    }
    agent.call("print", json!({"transcript": "../nothing"})).fails(4).reports("is not inside");
    secret.assert_untouched();
    agent.close().exits(0);
}

#[test]
fn resolves_ids_only_in_served_workspace() {
    let world = World::new();
    world.write_conversation(".jp/conversations/17738399468-above", &Conversation::with_turns(1));
    world.write_conversation("project/.jp/conversations/17738399469-here", &Conversation::with_turns(2));
    world.write_conversation("project/.jp/conversations/17738399470-sibling", &Conversation::with_turns(3));
    let mut agent = Agent::connect(&world, &[]);
    agent.call("stats", json!({"transcript": "17738399469"})).succeeds().reports("2 turns");
    agent.call("stats", json!({"transcript": "17738399468"})).fails(4);
    // A server in a subfolder of the workspace does not serve the workspace.
    let mut command = world.command(&["mcp"]);
    command.current_dir(world.path("project/.jp/conversations/17738399469-here"));
    let mut subfolder_agent = Agent::connect_command(&world, command);
    subfolder_agent.call("stats", json!({"transcript": "17738399470"})).fails(4).reports("is not inside");
    subfolder_agent.call("stats", json!({"transcript": "."})).succeeds().reports("2 turns");
    let listed = subfolder_agent.call("list", json!({})).succeeds();
    assert!(!listed.text().contains("17738399470"), "{}", listed.text());
    agent.call("list", json!({})).succeeds().reports("17738399470");
    subfolder_agent.close().exits(0);
    agent.close().exits(0);
}

#[test]
fn errors_match_command_line() {
    let world = world();
    world.write_plugin("unknown", "exit 1");
    let config = "[conversation.compaction.profiles.theirs]\nstrategies = [\"unknown\"]\n";
    world.write_file("config.toml", config.as_bytes());
    let options = ["--config", "../config.toml", "--plugin-dir", "../plugins"];
    let mut agent = Agent::connect(&world, &[&options[..], &["--allow-model"]].concat());
    for (arguments, command_line, code) in [
        (json!({"transcript": "nothing.json"}), &["nothing.json"][..], 4),
        (json!({"transcript": "talk", "profile": "none"}), &["talk", "--profile=none"], 2),
        (json!({"transcript": "talk", "focus": "the task"}), &["talk", "--focus=the task"], 2),
        (json!({"transcript": "talk", "profile": "heavy"}), &["talk", "--profile=heavy"], 18),
        (json!({"transcript": "talk", "profile": "theirs"}), &["talk", "--profile=theirs"], 11),
    ] {
        let result = agent.call("compact", arguments).fails(code);
        let mut command = world.command(&[command_line, &options[..]].concat());
        let output = world.finish(command.current_dir(world.path("project"))).exits(code.into());
        let text = world.normalize(result.text());
        assert_eq!(text.strip_suffix(&format!("\nexit code: {code}\n")), Some(&*output.stderr));
    }
    agent.call("reset", json!({"transcript": "talk", "number": 9})).fails(2).reports("overlay");
    for tool in ["show", "compact"] {
        let result = agent.call(tool, json!({"transcript": "-"})).fails(2);
        result.reports("cannot be read by the server").reports("hint: `list` lists");
    }
    let output = agent.close().exits(0);
    assert_eq!(output.stderr, "", "errors go to the client, not to stderr");
}

#[test]
fn survives_invalid_requests() {
    let world = world();
    let mut agent = Agent::connect(&world, &[]);
    agent.call("compact", json!({})).fails(2).reports("missing field `transcript`");
    agent
        .call("compact", json!({"transcript": "talk", "strategy": "x"}))
        .fails(2)
        .reports("unknown field `strategy`");
    agent.call("stats", json!({"transcript": 3})).fails(2).reports("expected a string");
    agent.call("reset", json!({"transcript": "talk", "number": 0})).fails(2).reports("nonzero");
    let forms = "expected one of `text`, `json`, `source`, `anthropic`";
    agent
        .call("print", json!({"transcript": "talk", "as": "html"}))
        .fails(2)
        .reports(forms)
        .reports("not `html`");
    agent.call("print", json!({"transcript": "talk", "as": ""})).succeeds();
    agent.call("print", json!({"transcript": ""})).fails(4);
    agent.call("delete", json!({"transcript": "talk"})).fails(2).reports("unknown tool `delete`");
    writeln!(agent.stdin.as_mut().unwrap(), "no JSON\n{{\"jsonrpc\":\"2.0\"").unwrap();
    for _ in 0..2 {
        let answer = agent.receive();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &Value::Null), "{answer}");
    }
    let answer = agent.request("no/such/method", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    agent.call("stats", json!({"transcript": "talk"})).succeeds();
    agent.close().exits(0);
}

#[test]
fn runs_concurrent_calls_in_order() {
    let world = world();
    let mut agent = Agent::connect(&world, &NOW);
    let call = json!({"name": "compact", "arguments": {"transcript": "talk"}});
    agent.send_request("tools/call", call.clone());
    agent.send_request("tools/call", call);
    let mut answers = [agent.receive(), agent.receive()];
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let tokens = answers.map(|answer| answer["result"]["structuredContent"]["tokens"].clone());
    assert_ne!(tokens[0]["view_before"], tokens[0]["view_after"]);
    assert_eq!(
        tokens[0]["view_after"], tokens[1]["view_before"],
        "the second call must see the result of the first"
    );
    agent.close().exits(0);
}

/// J-CLI's third layer: the agent decides when to compact, and names the information to preserve.
#[test]
fn focus_reaches_the_model() {
    let world = world();
    let model = Model::with_answer("Step 2 of 5 of the release is done.");
    let mut agent = Agent::connect_with_model(&world, &model, &[]);
    let focus = "Current status of the release, steps completed so far";
    let arguments = json!({"transcript": "talk", "profile": "auto-summarize", "focus": focus});
    let result = agent.call("compact", arguments).succeeds();
    let report = &result.0["structuredContent"];
    assert!(report["tokens"]["view_before"].as_u64() > report["tokens"]["view_after"].as_u64(), "{report}");
    let requests = model.requests();
    assert!(requests[0].to_string().contains(focus), "{}", requests[0]);
    let printed = agent.call("print", json!({"transcript": "talk", "compacted": true})).succeeds();
    assert!(printed.text().contains("Step 2 of 5 of the release is done."), "{}", printed.text());
    agent.close().exits(0);
}

#[test]
fn budget_covers_all_calls_of_server() {
    let world = world();
    world.write_conversation("project/other", &conversation());
    let mut answer = json!({
        "id": "x", "object": "chat.completion", "created": 1, "model": "g",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "They talked."}, "finish_reason": "stop"}],
    });
    answer["usage"] = json!({"prompt_tokens": 99_000, "completion_tokens": 1_000, "total_tokens": 100_000});
    let model = Model::with_response(ResponseTemplate::new(200).set_body_json(answer));
    let mut agent = Agent::connect_with_model(&world, &model, &["--llm-budget-tokens", "100000"]);
    agent.call("compact", json!({"transcript": "talk", "profile": "heavy"})).succeeds();
    agent.call("compact", json!({"transcript": "other", "profile": "heavy"})).fails(18).reports("budget");
    assert_eq!(model.requests().len(), 1);
    agent.close().exits(0);
}

#[test]
fn dry_run_server_writes_nothing() {
    let world = world();
    let before = events(&world, "project/talk");
    let mut agent = Agent::connect(&world, &["--dry-run", "--sandbox=contained"]);
    agent
        .call("compact", json!({"transcript": "talk", "dry_run": false}))
        .succeeds()
        .reports("would be appended");
    agent.call("reset", json!({"transcript": "talk"})).succeeds();
    assert_eq!(events(&world, "project/talk"), before);
    agent.close().exits(0);
}

#[test]
fn logs_to_stderr_without_transcript_text() {
    let world = world();
    world.write_script(
        "plugins/chatty",
        &plugin_script("chatty", &json!({}), "echo loud and clear >&2; exit 3"),
    );
    let config = "[conversation.compaction.profiles.theirs]\nstrategies = [\"chatty\"]\n";
    world.write_file("project/.jp-compact.toml", config.as_bytes());
    let mut agent = Agent::connect(&world, &["--trust-dir", "../plugins", "--sandbox=contained", "-vv"]);
    agent
        .call("compact", json!({"transcript": "talk", "profile": "theirs"}))
        .fails(13)
        .reports("loud and clear");
    agent.call("print", json!({"transcript": "talk"})).succeeds().reports("no importance");
    let output = agent.close().exits(0).reports("loud and clear");
    assert!(!output.stderr.contains("no importance"), "{}", output.stderr);
}

/// Starts a `compact` call with a strategy that does not end. Returns the client, the id of the request and the process
/// ids of the strategy.
fn start_endless_call(world: &World) -> (Agent<'_>, u64, Vec<String>) {
    let pid_pipe = world.path("pids");
    assert!(Command::new("/bin/mkfifo").arg(&pid_pipe).status().unwrap().success());
    world.write_plugin(
        "endless",
        &format!("sleep 1000 & echo $$ $! > {}\nexec sleep 1000", pid_pipe.display()),
    );
    let config = "[conversation.compaction.profiles.theirs]\nstrategies = [\"endless\"]\n";
    world.write_file("project/.jp-compact.toml", config.as_bytes());
    let mut agent = Agent::connect(world, &["--trust-dir", "../plugins", "--sandbox=contained"]);
    let arguments = json!({"transcript": "talk", "profile": "theirs"});
    let id = agent.send_request("tools/call", json!({"name": "compact", "arguments": arguments}));
    // Opening a named pipe for reading blocks until the strategy opens it for writing.
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(fs::read_to_string(pid_pipe)));
    let pids = receiver.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
    (agent, id, pids.split_whitespace().map(str::to_owned).collect())
}

#[test]
fn cancelled_call_stops_and_server_continues() {
    let world = world();
    let before = events(&world, "project/talk");
    let (mut agent, id, pids) = start_endless_call(&world);
    let params = json!({"requestId": id, "reason": "no time"});
    agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    assert!(pids.iter().all(|pid| process_ends(pid)), "{pids:?}");
    agent.call("compact", json!({"transcript": "talk", "dry_run": true})).succeeds();
    assert_eq!(events(&world, "project/talk"), before);
    agent.close().exits(0);
}

#[test]
fn closed_stdin_stops_running_strategies() {
    let world = world();
    let before = events(&world, "project/talk");
    let (mut agent, id, pids) = start_endless_call(&world);
    drop(agent.stdin.take());
    // The running call may or may not be answered.
    let answers: Vec<_> = agent.stdout.by_ref().map(|line| line.unwrap()).collect();
    assert!(
        answers.len() <= 1 && answers.iter().all(|line| line.contains(&format!("\"id\":{id}"))),
        "{answers:?}"
    );
    wait_for_exit(&world, agent.server).exits(0);
    assert!(pids.iter().all(|pid| process_ends(pid)), "{pids:?}");
    assert_eq!(events(&world, "project/talk"), before);
}

#[test]
fn signal_stops_server_and_strategies() {
    for signal in [Signal::TERM, Signal::INT] {
        let world = world();
        let (agent, _, pids) = start_endless_call(&world);
        kill_process(Pid::from_child(&agent.server), signal).unwrap();
        let Agent { server, stdin: _open, .. } = agent;
        wait_for_exit(&world, server).exits(130);
        assert!(pids.iter().all(|pid| process_ends(pid)), "{pids:?}");
    }
}

#[test]
fn handles_immediate_close_and_invalid_folders() {
    let world = world();
    let output = Agent::start(&world, world.command(&["mcp", "project"])).close().exits(0);
    assert_eq!(output.stderr, "");
    world.run(&["mcp", "nothing"]).exits(4).reports("nothing");
    world.run(&["mcp", "project/talk/events.json"]).exits(4);
    let help = world.run(&["mcp", "--help"]).exits(0);
    assert!(
        help.text().contains(r#"{"mcpServers": {"jp-compact": {"command": "jp-compact", "args": ["mcp","#)
    );
    assert!(!help.text().contains("--json"), "{}", help.text());
}
