//! The example plugins, end to end: each runs on a conversation with its `plugin.toml`, and the view must have the
//! effect that the plugin describes. An example whose interpreter is missing is skipped with a message, or fails if
//! `JP_COMPACT_TEST_ALL` is set, as in `.ci/run`.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may panic, and starts processes")]

#[cfg(target_os = "linux")]
#[path = "plugins/embed.rs"]
mod embed;
#[path = "examples/world.rs"]
#[expect(dead_code, reason = "other test crates use the rest")]
mod world;

use serde_json::{Value, json};
use world::{Conversation, World};

/// Returns two turns that read, write and run, and two turns without calls.
fn conversation() -> Conversation {
    let mut conversation = Conversation::default();
    conversation.turn("look at it");
    conversation.call("r1", "fs_read_file", &json!({"path": "a.rs"}), &"old ".repeat(8000), false);
    conversation.call(
        "t1",
        "cargo_test",
        &json!({"package": "clock"}),
        "3 failed: `ä` is\u{2028}two bytes",
        true,
    );
    conversation.call("g1", "fs_grep_files", &json!({"pattern": "len"}), "a.rs:41", false);
    conversation.turn("fix it");
    conversation.call(
        "w1",
        "fs_modify_file",
        &json!({"path": "a.rs", "patch": "x".repeat(4000)}),
        "done",
        false,
    );
    conversation.call("g1", "fs_grep_files", &json!({"pattern": "len"}), "b.rs:7", false);
    conversation.call(
        "r2",
        "fs_read_file",
        &json!({"path": "b.rs"}),
        &format!("{}END", "ü\"\n".repeat(900)),
        false,
    );
    conversation.turn("thanks");
    conversation.turn("bye");
    conversation
}

/// Returns whether the arguments and the output of a call are as expected.
type Matcher = fn(&Value, &str) -> bool;

/// Runs an example and checks the arguments and the output of each call in the view, in order.
#[track_caller]
fn check(spec: &str, expect: &[(&str, Matcher)]) {
    let name = spec.split(':').next().unwrap();
    let Some(world) = World::with_plugin(name) else { return };
    let calls = world.compact(spec, &conversation());
    let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, expect.iter().map(|(id, _)| *id).collect::<Vec<_>>(), "{spec}");
    for (call, (_, matches)) in calls.iter().zip(expect) {
        assert!(matches(&call.arguments, &call.output), "{spec}: {call:?}");
    }
}

fn stripped(_: &Value, output: &str) -> bool {
    output.starts_with("[compacted] ")
}

fn unchanged(arguments: &Value, output: &str) -> bool {
    !arguments.as_object().unwrap().is_empty()
        && !output.starts_with('[')
        && !output.contains("characters cut")
}

#[test]
fn keep_errors_keeps_failed_calls() {
    check(
        "keep-errors",
        &[
            ("r1", stripped),
            ("t1", unchanged),
            ("g1", stripped),
            ("w1", stripped),
            ("g1", stripped),
            ("r2", stripped),
        ],
    );
    check(
        r#"keep-errors:{"keep":["fs_grep_files"]}"#,
        &[
            ("r1", stripped),
            ("t1", unchanged),
            ("g1", unchanged),
            ("w1", stripped),
            ("g1", unchanged),
            ("r2", stripped),
        ],
    );
}

#[test]
fn drop_large_strips_results_above_max_tokens() {
    check(
        "drop-large",
        &[
            ("r1", stripped),
            ("t1", unchanged),
            ("g1", unchanged),
            ("w1", unchanged),
            ("g1", unchanged),
            ("r2", stripped),
        ],
    );
    check(
        "drop-large:max_tokens=5000",
        &[
            ("r1", stripped),
            ("t1", unchanged),
            ("g1", unchanged),
            ("w1", unchanged),
            ("g1", unchanged),
            ("r2", unchanged),
        ],
    );
}

#[test]
fn dedupe_keeps_the_last_of_identical_calls() {
    check(
        "dedupe",
        &[("r1", unchanged), ("t1", unchanged), ("w1", unchanged), ("g1", unchanged), ("r2", unchanged)],
    );
    let note = |_: &Value, output: &str| output == "[the same call was made again in turn 1]";
    check(
        "dedupe:mode=note",
        &[
            ("r1", unchanged),
            ("t1", unchanged),
            ("g1", note),
            ("w1", unchanged),
            ("g1", unchanged),
            ("r2", unchanged),
        ],
    );
}

#[test]
fn supersede_replaces_reads_before_a_later_write() {
    let changed = |_: &Value, output: &str| output == "[changed in turn 1]";
    check(
        "supersede",
        &[
            ("r1", changed),
            ("t1", unchanged),
            ("g1", unchanged),
            ("w1", unchanged),
            ("g1", unchanged),
            ("r2", unchanged),
        ],
    );
}

#[test]
fn truncate_keeps_head_and_tail() {
    let cut = |_: &Value, output: &str| {
        let (head, rest) = output.split_once("\n[... ").unwrap();
        let (count, tail) = rest.split_once(" characters cut ...]\n").unwrap();
        let length = head.chars().count() + tail.chars().count() + count.parse::<usize>().unwrap();
        head.chars().count() == 400
            && [32_000, 2_703].contains(&length)
            && "old ü\"\nEND".contains(tail.chars().last().unwrap())
    };
    check(
        "truncate",
        &[
            ("r1", cut),
            ("t1", unchanged),
            ("g1", unchanged),
            ("w1", unchanged),
            ("g1", unchanged),
            ("r2", cut),
        ],
    );
    let short_output = |_: &Value, output: &str| output == "\n[... 2700 characters cut ...]\nEND";
    let long_output = |_: &Value, output: &str| output == "\n[... 31997 characters cut ...]\nld ";
    check(
        "truncate:head=0,tail=3",
        &[
            ("r1", long_output),
            ("t1", unchanged),
            ("g1", unchanged),
            ("w1", unchanged),
            ("g1", unchanged),
            ("r2", short_output),
        ],
    );
}

#[test]
fn drop_arguments_strips_large_arguments() {
    let dropped = |arguments: &Value, output: &str| *arguments == json!({}) && output == "done";
    check(
        "drop-arguments",
        &[
            ("r1", unchanged),
            ("t1", unchanged),
            ("g1", unchanged),
            ("w1", dropped),
            ("g1", unchanged),
            ("r2", unchanged),
        ],
    );
}

/// Returns a call without a response, whose id occurs again in later turns, and an event of an unknown type.
fn irregular_conversation() -> Conversation {
    let mut conversation = Conversation::default();
    conversation.turn("look at a");
    conversation.open_call("c", "fs_read_file", &json!({"path": "a.rs"}));
    conversation.turn("look at b");
    conversation.call("c", "fs_read_file", &json!({"path": "b.rs"}), &"b ".repeat(3000), false);
    conversation.push(json!({"type": "x_of_a_later_version", "id": "c", "content": "?"}));
    conversation.turn("look at a, and at b again");
    conversation.call("c", "fs_read_file", &json!({"path": "a.rs"}), &"a ".repeat(3000), false);
    conversation.call("d", "fs_read_file", &json!({"path": "b.rs"}), "gone", true);
    conversation.turn("and now?");
    conversation.call("c", "fs_read_file", &json!({"path": "b.rs"}), "b, whole", false);
    conversation.turn("thanks");
    conversation.turn("bye");
    conversation
}

#[test]
fn call_without_a_response_gets_no_response() {
    let note = "[the same call was made again in turn 3]";
    let expect: [(&str, &[&str]); 6] = [
        ("dedupe", &["", "a a", "b, whole"]),
        ("dedupe:mode=note", &["", note, "a a", note, "b, whole"]),
        ("supersede", &["", "[read again in turn 3]", "a a", "gone", "b, whole"]),
        ("keep-errors", &["", "[compacted]", "[compacted]", "gone", "[compacted]"]),
        ("drop-large", &["", "[compacted]", "[compacted]", "gone", "b, whole"]),
        ("truncate", &["", "b b", "a a", "gone", "b, whole"]),
    ];
    for (spec, outputs) in expect {
        let Some(world) = World::with_plugin(spec.split(':').next().unwrap()) else { continue };
        let calls = world.compact(spec, &irregular_conversation());
        let is_expected = calls.iter().zip(outputs).all(|(call, output)| call.output.starts_with(output));
        assert!(calls.len() == outputs.len() && is_expected, "{spec}: {calls:?}");
        assert_eq!(calls[0].output, "", "{spec}: the call has no response");
    }
}

#[test]
fn strategy_with_nothing_to_do_declines() {
    for name in world::EXAMPLES {
        let Some(world) = World::with_plugin(name) else { continue };
        let mut conversation = Conversation::default();
        for turn in 0..5 {
            conversation.turn(&format!("turn {turn}"));
        }
        let report = world.report(name, &conversation);
        assert_eq!(report["overlays"], json!([]), "{name}: {report}");
    }
}

/// Returns the shell blocks of the author's guide that are marked for this test, in order.
fn commands() -> Vec<String> {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/plugins/README.md")).unwrap();
    let blocks = guide.split("<!-- run -->\n```sh\n").skip(1);
    blocks.map(|block| block.split_once("\n```").unwrap().0.to_owned()).collect()
}

#[test]
fn commands_of_the_guide_work() {
    if !["sh", "jq"].into_iter().all(world::has) {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sample");
    let copied = std::process::Command::new("cp").arg("-r").arg(sample).arg(base.path()).status().unwrap();
    assert!(copied.success());
    let folder = assert_cmd::cargo::cargo_bin("jp-compact").parent().unwrap().to_owned();
    let mut outputs = Vec::new();
    for commands in commands() {
        let mut shell = std::process::Command::new("sh");
        shell.env_clear().env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display()));
        let output = shell.arg("-ec").arg(&commands).current_dir(base.path()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{commands}: {stderr}{}", String::from_utf8_lossy(&output.stdout));
        outputs.push(String::from_utf8(output.stdout).unwrap() + &stderr);
    }
    assert_eq!(outputs.len(), 4);
    assert!(
        outputs[1].contains("the host would append its compaction") && outputs[1].contains(" 0 failed"),
        "{}",
        outputs[1]
    );
    assert!(outputs[1].contains("by strip-all 1.0.0"), "{}", outputs[1]);
    assert!(outputs[2].contains(" 0 failed"), "{}", outputs[2]);
    assert!(outputs[3].starts_with(r#"{"type":"result","id":"c1","#), "{}", outputs[3]);
}

#[test]
fn guide_names_every_example() {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/plugins/README.md")).unwrap();
    for name in world::EXAMPLES {
        assert!(guide.contains(&format!("| `{name}` |")), "{name}");
    }
}
