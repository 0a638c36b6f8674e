//! Requests with more than 8 MiB of events. A strategy in the jail reads them from the file that its request names. Its
//! result is the same as with the events on stdin.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Conversation, World};

/// A strategy that strips each tool output that ends with a digit, and logs how it received the events.
const STRATEGY: &str = r#"#!/usr/bin/python3 -I
import hashlib, json, os, sys
if sys.argv[1] == "describe":
    print(json.dumps({"type": "describe", "protocols": [1], "name": "NAME", "version": "1.0.0", "description": "d",
        "produces": ["tool_calls"], "input": "full", "features": FEATURES}))
    sys.exit()
request = json.loads(sys.stdin.readline())
events = request["events"]
def denied(attempt):
    try:
        attempt()
    except PermissionError:
        return
    sys.exit("the access was not denied")
if events["mode"] == "file":
    lines = open(events["path"], "rb").read()
    assert len(lines) == events["bytes"] and hashlib.sha256(lines).hexdigest() == events["sha256"]
    assert sys.stdin.read() == ""
    denied(lambda: os.listdir(os.path.dirname(events["path"])))
    denied(lambda: open(events["path"], "ab"))
    lines = lines.decode().splitlines(keepends=True)
else:
    lines = sys.stdin.readlines()
    assert json.loads(lines.pop())["count"] == events["count"] == len(lines)
seen = [json.loads(line) for line in lines]
calls = [{"seq": line["seq"], "response": "strip"} for line in seen
    if line["event"]["type"] == "tool_call_response" and line["event"]["content"][-1].isdigit()]
digest = hashlib.sha256("".join(lines).encode()).hexdigest()
print(json.dumps({"type": "log", "id": request["id"], "level": "info", "message": events["mode"] + " " + digest}))
print(json.dumps({"type": "result", "id": request["id"], "compactions": [
    dict(request["requested_range"], tool_calls={"policy": "selective", "calls": calls})]}))
"#;

fn conversation() -> Conversation {
    (0..10).fold(Conversation::new(), |conversation, turn| {
        let end = if turn % 3 == 0 { turn.to_string() } else { "x".to_owned() };
        let output = format!("{}{end}", "ä\n".repeat(350_000));
        conversation.turn("more").call("fs_read_file", json!({ "path": "a" }), &output).message("read")
    })
}

#[test]
fn events_file_and_stdin_give_same_result_in_jail() {
    if !Path::new("/usr/bin/python3").exists() {
        let skipped = "python3 is missing; reading events from a file is not tested";
        assert!(std::env::var_os("JP_COMPACT_TEST_ALL").is_none(), "{skipped}");
        #[expect(clippy::print_stderr, reason = "reports the skipped test")]
        {
            eprintln!("{skipped}");
        }
        return;
    }
    let answers = [("by-file", "[\"events.file\"]", "file"), ("inline", "[]", "inline")].map(
        |(name, features, expected_mode)| {
            let world = World::new();
            let transcript = world.write_conversation("conversation", &conversation());
            world.write_script(
                &format!("plugins/{name}"),
                &STRATEGY.replace("NAME", name).replace("FEATURES", features),
            );
            let arguments =
                ["conversation", "--strategy", name, "--trust-dir", "plugins", "--sandbox=require"];
            // `World::run` asserts that no temporary file is left.
            let output = world.run(&[&arguments[..], &["--keep-last", "0"]].concat()).exits(0);
            let (_, log) = output.stderr.split_once(": info: ").unwrap();
            let (received_mode, digest) = log.lines().next().unwrap().split_once(' ').unwrap();
            assert_eq!(received_mode, expected_mode);
            let overlays = transcript.appended();
            let policy = |event: &Value| event.get("tool_calls").cloned();
            (digest.to_owned(), overlays.iter().filter_map(policy).collect::<Vec<_>>())
        },
    );
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].1[0]["calls"].as_array().map(Vec::len), Some(4), "{:?}", answers[0].1);
}
