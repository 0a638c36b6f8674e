//! The `digest` strategy, which writes summaries without a model.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::{Conversation, Transcript, World};

/// Compacts all turns but the last one, and returns the digest.
#[track_caller]
fn digest(world: &World, transcript: &Transcript) -> String {
    world.run(&["conversation", "--strategy", "digest", "--keep-last", "1"]).exits(0);
    transcript.overlays()[0]["summary"]["summary"].as_str().unwrap().to_owned()
}

#[test]
fn lists_requests_files_commands_and_errors() {
    let output = "a line of no importance\n".repeat(60);
    let conversation = Conversation::new()
        .turn("Rename `parse` to `read`.\n\nBe careful:\n```\nnever touch vendor/\n```")
        .reasoning("This must not be in the digest.")
        .call("fs_read_file", json!({"path": "src/a.rs"}), &output)
        .call("fs_modify_file", json!({"path": "src/a.rs", "patterns": []}), "1 line")
        .failing_call("cargo_test", json!({"package": "a"}), "2 of 9 failed")
        .call("fs_create_file", json!({"path": "src/b.rs", "content": output}), "created")
        .call("cargo_test", json!({"package": "a"}), "9 of 9 passed")
        .message("Renamed.")
        .turn("Clean up.")
        .call("fs_move_file", json!({"source": "src/b.rs", "destination": "src/c.rs"}), "moved")
        .call("fs_delete_file", json!({"path": "old.txt"}), "deleted")
        .call("Bash", json!({"command": "make lint"}), "Exit code: 2\nno rule to make target `lint`")
        .failing_call("fs_read_file", json!({"path": "nowhere.rs"}), "no such file")
        .message("All but `make lint` is done.")
        .turn("Thanks.")
        .message("You are welcome.");
    let world = World::new();
    let transcript = world.write_conversation("conversation", &conversation);
    insta::assert_snapshot!(digest(&world, &transcript), @r#"
    Turns 0 to 1 of this conversation, as listed by a program from its events. No model wrote this.

    ## What the user asked

    Turn 0:
    ````
    Rename `parse` to `read`.

    Be careful:
    ```
    never touch vendor/
    ```
    ````

    Turn 1:
    ```
    Clean up.
    ```

    ## Files written

    - `src/a.rs`: modified in turn 0
    - `src/c.rs`: created in turn 1

    ## Files deleted

    - `src/b.rs`: deleted in turn 1
    - `old.txt`: deleted in turn 1

    ## Commands

    - `cargo_test package=a`: done in turn 0, the last of 2 runs
    - `make lint`: exit 2 in turn 1

    ## Errors still open

    `make lint`, exit 2 in turn 1:
    ```
    Exit code: 2
    no rule to make target `lint`
    ```

    reading `nowhere.rs`, failed in turn 1:
    ```
    no such file
    ```

    ## What the assistant said last

    ```
    All but `make lint` is done.
    ```
    "#);
}

#[test]
fn same_input_gives_same_bytes() {
    let sample = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample/events.json")).unwrap();
    let world = World::new();
    let compacted_bytes = || {
        let transcript = world.write_events("conversation", &sample);
        let options = ["--now", "2026-11-21T07:40:00Z", "--keep-last", "1"];
        world.run(&[&["conversation", "--strategy", "digest"][..], &options].concat()).exits(0);
        transcript.current_bytes()
    };
    assert_eq!(compacted_bytes(), compacted_bytes());
}

#[test]
fn digests_the_sample() {
    let sample = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample/events.json")).unwrap();
    let world = World::new();
    let transcript = world.write_events("conversation", &sample);
    insta::assert_snapshot!(digest(&world, &transcript), @r#"
    Turns 0 to 2 of this conversation, as listed by a program from its events. No model wrote this.

    ## What the user asked

    Turn 0:
    ```
    The tests of `duration` fail since this morning. Why?
    ```

    Turn 1:
    ```
    Please fix it.
    ```

    Turn 2:
    ```
    Does anything else in the crate cut strings by bytes?
    ```

    ## Files written

    - `src/duration.rs`: modified in turn 1

    ## Files read

    - `src/format.rs`: read in turn 2

    ## Commands

    - `cargo_test package=clock filter=duration`: done in turn 1, the last of 2 runs

    ## What the assistant said last

    ```
    Two places in `src/format.rs`, lines 41 and 58. Both cut text that this crate has written itself, in ASCII, so they cannot panic today.
    ```
    "#);
}

#[test]
fn declines_digest_that_is_not_shorter() {
    let world = World::new();
    let transcript = world
        .write_conversation("conversation", &Conversation::new().turn("Hello.").message("Hello.").turn("?"));
    let output = world.run(&["conversation", "--strategy", "digest", "--keep-last", "1"]).exits(0);
    assert!(output.stderr.contains("would not be shorter"), "{}", output.stderr);
    transcript.assert_untouched();
}

#[test]
fn digest_has_an_eighth_of_the_context_window() {
    let world = World::new();
    let turns = (0..120).fold(Conversation::new(), |before, turn| {
        before.turn(&format!("Request {turn}. {}", "word ".repeat(140))).message("It is done.")
    });
    let transcript = world.write_conversation("conversation", &turns);
    world.run(&["auto", "conversation", "--context-window", "20000", "--profile", "offline"]).exits(0);
    let summary = transcript.overlays()[0]["summary"]["summary"].as_str().unwrap().to_owned();
    assert!((3_000..=7_500).contains(&summary.len()), "{}", summary.len());
    assert!(summary.contains("earlier messages left out.") && !summary.contains("Request 0."), "{summary}");
}

/// Returns the digest of all turns but the last, for a window of this number of tokens.
#[track_caller]
fn digest_for_window(turns: &Conversation, window: &str) -> String {
    let world = World::new();
    let transcript = world.write_conversation("conversation", turns);
    let options = ["--keep-last", "1", "--context-window", window, "--require-constraints"];
    world.run(&[&["conversation", "--strategy", "digest"], &options[..]].concat()).exits(0);
    transcript.overlays()[0]["summary"]["summary"].as_str().unwrap().to_owned()
}

#[test]
fn constraints_take_the_room_of_quotes() {
    let rules: String = (0..40)
        .map(|n| {
            format!(
                "Never touch the generated file src/module_{n}/generated_{n}.rs because the build owns it.\n"
            )
        })
        .collect();
    let turns = (0..60).fold(Conversation::new().turn(&rules).message("Fine."), |before, turn| {
        before.turn(&format!("Request {turn}. {}", "word ".repeat(140))).message("It is done.")
    });
    let summary = digest_for_window(&turns, "20000");
    assert_eq!(summary.matches("Never touch the generated file").count(), 40, "{summary}");
}

#[test]
fn newest_message_is_whole_if_it_fits() {
    let turns = |text: &str| {
        (0..40).fold(Conversation::new(), |before, turn| {
            before.turn(&format!("Request {turn}. {text}")).message(&text.repeat(2))
        })
    };
    let text = "\u{6c34}".repeat(990);
    assert!(digest_for_window(&turns(&text), "20000").contains(&format!("Request 38. {text}")));
    for window in ["2048", "4096", "8192"] {
        let summary = digest_for_window(&turns(&text), window);
        assert!(summary.contains("Request 38. \u{6c34}\u{6c34}"), "{window}: {summary}");
    }
}
