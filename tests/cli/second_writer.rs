//! Runs whose transcript gets overlays of another run while a strategy runs.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{CommandOutput, Conversation, World, plugin_script};

const STRIP: &str = r#""tool_calls":{"policy":"strip","request":true,"response":true}"#;
const STRIP_REQUESTS: &str = r#""tool_calls":{"policy":"strip","request":true,"response":false}"#;
const AUTO: &str = "--set=conversation.compaction.auto";

/// A transcript of JP or of another program, and the run of another process.
struct Scene {
    world: World,
    transcript: &'static str,
    /// The file with the overlays.
    written: PathBuf,
}

impl Scene {
    fn new(transcript: &'static str) -> Self {
        let world = World::new();
        let text = "It takes a while to read this. ".repeat(40);
        let written = if transcript == "talk" {
            let conversation = (0..2).fold(Conversation::new(), |conversation, _| {
                let arguments = json!({"path": "src/main.rs", "text": text});
                conversation.turn("Read it").reasoning(&text).call("read", arguments, &text).message("Done.")
            });
            world.write_conversation("talk", &conversation).path
        } else {
            let call = json!({"id": "a", "type": "function",
                              "function": {"name": "read", "arguments": json!({"text": text}).to_string()}});
            let messages = json!({"model": "gpt-4o", "messages": [
                {"role": "user", "content": "Read it"},
                {"role": "assistant", "content": null, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "a", "content": text},
                {"role": "assistant", "content": text},
                {"role": "user", "content": "Thanks"},
                {"role": "assistant", "content": text},
            ]});
            world.write_file("chat.json", messages.to_string().as_bytes());
            world.path(".chat.json.jp-compact")
        };
        Self { world, transcript, written }
    }

    /// Runs a strategy with these members of its compaction. Meanwhile, another run strips the calls.
    fn run(&self, arguments: &[&str], members: &str) -> CommandOutput {
        let before = fs::read(&self.written).ok();
        self.world.run(&[self.transcript, "--strategy=strip-tools", "--keep-last=0", "-q"]).exits(0);
        let other = self.world.write_file("other", &fs::read(&self.written).unwrap());
        match before {
            Some(bytes) => fs::write(&self.written, bytes).unwrap(),
            None => fs::remove_file(&self.written).unwrap(),
        }
        let run = format!(
            "cp {} {}\necho '{{\"type\":\"result\",\"id\":\"c1\",\"compactions\":[{{\"from_turn\":0,\"to_turn\":0,{members}}}]}}'",
            other.display(),
            self.written.display()
        );
        let produces = json!({"produces": ["reasoning", "tool_calls", "summary"]});
        self.world.write_script("plugins/slow", &plugin_script("slow", &produces, &run));
        let common = ["--trust-dir=plugins", "--sandbox=contained", "--keep-last=0"];
        self.world.run(&[arguments, &common].concat())
    }

    fn compact(&self, extra: &[&str], members: &str) -> CommandOutput {
        self.run(&[&[self.transcript, "--strategy=slow"], extra].concat(), members)
    }

    fn auto(&self, members: &str) -> CommandOutput {
        let profile = "--set=conversation.compaction.profiles.slow.strategies=[\"slow\"]";
        let (threshold, min_turns) = (format!("{AUTO}.token_threshold=1"), format!("{AUTO}.min_turns=0"));
        self.run(&["auto", self.transcript, "--profile=slow", profile, &threshold, &min_turns], members)
    }

    /// Asserts that only the other run has appended.
    fn assert_other_only(&self) {
        assert!(fs::read(&self.written).unwrap() == fs::read(self.world.path("other")).unwrap());
    }

    /// Returns the tokens before and after the last overlay.
    fn last_effect(&self) -> (Value, Value) {
        let line = self.world.run(&["show", self.transcript, "--json"]).exits(0).line();
        let tokens = &line["overlays"].as_array().unwrap().last().unwrap()["tokens"];
        (tokens["view_before"].clone(), tokens["view_after"].clone())
    }
}

#[track_caller]
fn check(test: impl Fn(Scene)) {
    for transcript in ["talk", "chat.json"] {
        test(Scene::new(transcript));
    }
}

#[test]
fn repetition_is_declined() {
    check(|scene| {
        let reason =
            "declined: it adds nothing to the overlays that another run has appended in the meantime";
        let output = scene.compact(&[], STRIP).exits(0).reports(reason).reports("nothing to append");
        assert!(!output.stderr.contains("instead of"), "{}", output.stderr);
        scene.assert_other_only();
    });
}

#[test]
fn auto_restores_nothing() {
    check(|scene| {
        scene.auto(STRIP_REQUESTS).exits(0).reports("declined: it would make the view larger by");
        scene.assert_other_only();
    });
}

#[test]
fn report_has_the_effect_on_the_new_view() {
    for members in [STRIP_REQUESTS, r#""summary":{"summary":"It was read."}"#] {
        check(|scene| {
            let tokens = scene.compact(&["--json"], members).exits(0).line()["tokens"].clone();
            assert_eq!((tokens["view_before"].clone(), tokens["view_after"].clone()), scene.last_effect());
        });
    }
}
