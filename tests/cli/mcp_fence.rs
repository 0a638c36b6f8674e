//! The fence of `jp-compact mcp` while somebody moves folders and puts links in their places, and requests that no agent
//! would send.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::support::{Agent, Conversation, STRIP, Transcript, World};

/// Said in the conversation outside, and nowhere else.
const SECRET: &str = "the code is 4711";

/// Asks a strategy that, before it answers, moves a folder of the served one away and puts a link to its copy outside in
/// its place.
#[track_caller]
fn check_moved(world: &World, moved: &str, transcript: &str) {
    let [inside, aside, outside] =
        [&format!("house/{moved}"), "house/aside", "outside"].map(|name| world.path(name));
    world.plugin(
        "moves",
        &format!("mv {0} {1}\nln -s {2} {0}\n{STRIP}", inside.display(), aside.display(), outside.display()),
    );
    let config = "[conversation.compaction.profiles.moving]\nstrategies = [\"moves\"]\nkeep_last = 0\n";
    world.file("house/.jp-compact.toml", config.as_bytes());
    let before = everything(&outside);
    let mut agent = Agent::of(world, &["--trust-dir", "../plugins", "--sandbox=contained"]);
    let called = agent.call("compact", json!({"transcript": transcript, "profile": "moving"}));
    assert!(fs::symlink_metadata(&inside).unwrap().is_symlink(), "it was not moved: {}", called.0);
    assert_eq!(everything(&outside), before, "{}", called.0);
    called.fails(4);
    agent.leave().exits(0);
}

/// Every path below a folder, with what a file holds.
fn everything(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(everything(&path));
            all.push((path.display().to_string(), Vec::new()));
        } else {
            all.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

#[test]
fn writes_no_conversation_outside_when_its_folder_is_swapped() {
    let world = World::new();
    for folder in ["house/talk", "outside"] {
        world.conversation(folder, &Conversation::of(5));
    }
    check_moved(&world, "talk", "talk");
}

#[test]
fn makes_no_lock_outside_when_the_workspace_is_swapped() {
    let world = World::new();
    for folder in ["house/.jp", "outside"] {
        world.conversation(&format!("{folder}/conversations/17738399468-x"), &Conversation::of(5));
    }
    check_moved(&world, ".jp", "17738399468");
}

#[test]
fn writes_no_overlays_beside_a_transcript_outside_when_its_folder_is_swapped() {
    let world = World::new();
    let body = json!({"model": "gpt-5", "messages": [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "function",
            "function": {"name": "read", "arguments": "{\"path\": \"a/long/path/of/a/file\"}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "It says so. ".repeat(40)},
        {"role": "assistant", "content": "It says so."},
    ]});
    for folder in ["house/logs", "outside"] {
        world.file(&format!("{folder}/body.json"), body.to_string().as_bytes());
    }
    check_moved(&world, "logs", "logs/body.json");
}

/// A folder and a link to the secret one change places without end.
#[test]
fn reads_nothing_outside_while_a_folder_and_a_link_change_places() {
    let world = World::new();
    world.conversation("house/talk", &Conversation::of(5));
    let secret: Transcript =
        world.conversation("secret", &Conversation::of(1).turn(SECRET).message("Noted."));
    symlink(world.path("secret"), world.path("house/link")).unwrap();
    let mut agent = Agent::of(&world, &[]);
    let (is_over, [talk, link]) =
        (AtomicBool::new(false), ["talk", "link"].map(|name| world.path("house").join(name)));
    let mut said: Vec<Value> = Vec::new();
    thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, &talk, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for _ in 0..800 {
            said.push(agent.ask("tools/call", json!({"name": "print", "arguments": {"transcript": "talk"}})));
            if said.last().unwrap().to_string().contains(SECRET) {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        swapping.join().unwrap();
    });
    let won = said.iter().position(|answer| answer.to_string().contains(SECRET));
    assert_eq!(won, None, "of {} requests", said.len());
    let refused = said.iter().filter(|answer| answer["result"]["isError"] == true).count();
    assert!(refused > 0 && refused < said.len(), "{refused} of {} were refused", said.len());
    secret.assert_untouched();
    agent.leave().exits(0);
}

#[test]
fn answers_a_request_of_any_size_and_any_bytes() {
    let world = World::new();
    world.conversation("house/talk", &Conversation::of(1));
    let mut agent = Agent::of(&world, &[]);
    let say = |agent: &mut Agent<'_>, parts: &[&[u8]]| {
        parts.iter().for_each(|part| agent.to.as_mut().unwrap().write_all(part).unwrap());
    };
    let long = vec![b'a'; 17 << 20];
    let refused = |answer: &Value, id: &Value, why: &str| {
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), id), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(why), "{answer}");
    };
    say(&mut agent, &[b"{\"jsonrpc\":\"2.0\",\"id\":91,\"method\":\"ping\",\"x\":\"", &long, b"\"}\n"]);
    refused(&agent.hear(), &json!(91), "more than 4194304 bytes");
    // Whether such a line ever ends is not known, nor that its id stands last.
    say(&mut agent, &[b"{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"x\":\"", &long]);
    refused(&agent.hear(), &Value::Null, "Invalid");
    say(&mut agent, &[b"\",\"id\":\"last\"}\n"]);
    refused(&agent.hear(), &json!("last"), "more than");
    let garbage: Vec<u8> =
        (0_u32..99_999).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let garbage: Vec<u8> = garbage.into_iter().filter(|byte| *byte != b'\n').collect();
    say(&mut agent, &[&garbage, b"\n"]);
    refused(&agent.hear(), &Value::Null, "Invalid");
    let deep = ["[".repeat(50_000), "]".repeat(50_000)];
    let parts = [
        b"{\"jsonrpc\":\"2.0\",\"id\":92,\"method\":\"ping\",\"x\":",
        deep[0].as_bytes(),
        deep[1].as_bytes(),
        b"}\n",
    ];
    say(&mut agent, &parts);
    refused(&agent.hear(), &json!(92), "nested too deeply");
    agent.call("stats", json!({"transcript": "talk"})).done();
    // The end of everything in the middle of a line.
    say(&mut agent, &[b"{\"jsonrpc\":\"2.0\",\"id\":93,"]);
    drop(agent.to.take());
    refused(&agent.hear(), &Value::Null, "Invalid");
    agent.leave().exits(0);
}
