//! Attacks on `jp-compact mcp`: folders that are replaced by symlinks during a call, and oversized or malformed
//! requests. The server must not read or write outside the served folder.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::support::{Agent, Conversation, STRIP, Transcript, World};

/// A text that occurs only in the conversation outside the served folder.
const SECRET: &str = "the code is 4711";

/// Runs a strategy that replaces a served folder with a symlink to a copy outside. Checks that the call fails, and that
/// nothing outside changes.
#[track_caller]
fn check_swapped(world: &World, folder: &str, transcript: &str) {
    let [served, moved, outside] =
        [&format!("project/{folder}"), "project/aside", "outside"].map(|name| world.path(name));
    world.write_plugin(
        "moves",
        &format!("mv {0} {1}\nln -s {2} {0}\n{STRIP}", served.display(), moved.display(), outside.display()),
    );
    let config = "[conversation.compaction.profiles.moving]\nstrategies = [\"moves\"]\nkeep_last = 0\n";
    world.write_file("project/.jp-compact.toml", config.as_bytes());
    let before = snapshot(&outside);
    let mut agent = Agent::connect(world, &["--trust-dir", "../plugins", "--sandbox=contained"]);
    let result = agent.call("compact", json!({"transcript": transcript, "profile": "moving"}));
    assert!(fs::symlink_metadata(&served).unwrap().is_symlink(), "the folder was not replaced: {}", result.0);
    assert_eq!(snapshot(&outside), before, "{}", result.0);
    result.fails(4);
    agent.close().exits(0);
}

/// Returns every path below a folder, with the content of files.
fn snapshot(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            entries.extend(snapshot(&path));
            entries.push((path.display().to_string(), Vec::new()));
        } else {
            entries.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    entries.sort();
    entries
}

#[test]
fn swapped_conversation_folder_writes_nothing_outside() {
    let world = World::new();
    for folder in ["project/talk", "outside"] {
        world.write_conversation(folder, &Conversation::with_turns(5));
    }
    check_swapped(&world, "talk", "talk");
}

#[test]
fn swapped_workspace_creates_no_lock_outside() {
    let world = World::new();
    for folder in ["project/.jp", "outside"] {
        world.write_conversation(
            &format!("{folder}/conversations/17738399468-x"),
            &Conversation::with_turns(5),
        );
    }
    check_swapped(&world, ".jp", "17738399468");
}

#[test]
fn swapped_transcript_folder_writes_no_sidecar_outside() {
    let world = World::new();
    let body = json!({"model": "gpt-5", "messages": [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "function",
            "function": {"name": "read", "arguments": "{\"path\": \"a/long/path/of/a/file\"}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "It says so. ".repeat(40)},
        {"role": "assistant", "content": "It says so."},
    ]});
    for folder in ["project/logs", "outside"] {
        world.write_file(&format!("{folder}/body.json"), body.to_string().as_bytes());
    }
    check_swapped(&world, "logs", "logs/body.json");
}

/// Exchanges a served folder and a symlink to a secret folder in a loop, during 800 requests.
#[test]
fn folder_link_race_reads_nothing_outside() {
    let world = World::new();
    world.write_conversation("project/talk", &Conversation::with_turns(5));
    let secret: Transcript =
        world.write_conversation("secret", &Conversation::with_turns(1).turn(SECRET).message("Noted."));
    symlink(world.path("secret"), world.path("project/link")).unwrap();
    let mut agent = Agent::connect(&world, &[]);
    let (is_done, [talk, link]) =
        (AtomicBool::new(false), ["talk", "link"].map(|name| world.path("project").join(name)));
    let mut answers: Vec<Value> = Vec::new();
    thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                renameat_with(CWD, &talk, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for _ in 0..800 {
            answers.push(
                agent.request("tools/call", json!({"name": "print", "arguments": {"transcript": "talk"}})),
            );
            if answers.last().unwrap().to_string().contains(SECRET) {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
        swapper.join().unwrap();
    });
    let leak = answers.iter().position(|answer| answer.to_string().contains(SECRET));
    assert_eq!(leak, None, "the secret was read; {} requests were sent", answers.len());
    let rejected = answers.iter().filter(|answer| answer["result"]["isError"] == true).count();
    assert!(rejected > 0 && rejected < answers.len(), "{rejected} of {} were refused", answers.len());
    secret.assert_untouched();
    agent.close().exits(0);
}

#[test]
fn answers_oversized_and_malformed_requests() {
    let world = World::new();
    world.write_conversation("project/talk", &Conversation::with_turns(1));
    let mut agent = Agent::connect(&world, &[]);
    let send_parts = |agent: &mut Agent<'_>, parts: &[&[u8]]| {
        parts.iter().for_each(|part| agent.stdin.as_mut().unwrap().write_all(part).unwrap());
    };
    let oversized = vec![b'a'; 17 << 20];
    let assert_rejected = |answer: &Value, id: &Value, reason: &str| {
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), id), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(reason), "{answer}");
    };
    send_parts(
        &mut agent,
        &[b"{\"jsonrpc\":\"2.0\",\"id\":91,\"method\":\"ping\",\"x\":\"", &oversized, b"\"}\n"],
    );
    assert_rejected(&agent.receive(), &json!(91), "longer than 4194304 bytes");
    // The id may be at the end of an oversized line.
    send_parts(&mut agent, &[b"{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"x\":\"", &oversized]);
    assert_rejected(&agent.receive(), &Value::Null, "Invalid");
    send_parts(&mut agent, &[b"\",\"id\":\"last\"}\n"]);
    assert_rejected(&agent.receive(), &json!("last"), "longer than");
    let garbage: Vec<u8> =
        (0_u32..99_999).map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let garbage: Vec<u8> = garbage.into_iter().filter(|byte| *byte != b'\n').collect();
    send_parts(&mut agent, &[&garbage, b"\n"]);
    assert_rejected(&agent.receive(), &Value::Null, "Invalid");
    let brackets = ["[".repeat(50_000), "]".repeat(50_000)];
    let parts = [
        b"{\"jsonrpc\":\"2.0\",\"id\":92,\"method\":\"ping\",\"x\":",
        brackets[0].as_bytes(),
        brackets[1].as_bytes(),
        b"}\n",
    ];
    send_parts(&mut agent, &parts);
    assert_rejected(&agent.receive(), &json!(92), "nested too deeply");
    agent.call("stats", json!({"transcript": "talk"})).succeeds();
    // Stdin ends within a line.
    send_parts(&mut agent, &[b"{\"jsonrpc\":\"2.0\",\"id\":93,"]);
    drop(agent.stdin.take());
    assert_rejected(&agent.receive(), &Value::Null, "Invalid");
    agent.close().exits(0);
}
