//! Models of somebody else's make: `aimock` answers as the providers do, and fails as they do. It is a program for
//! node, so these run where `JP_COMPACT_TEST_AIMOCK` names it, and CI sees to that.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::llm::{REPORTS, asking, command};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/aimock/fixtures.json");

/// A running server.
struct Aimock {
    process: Child,
    address: String,
}

impl Aimock {
    fn start(flags: &[&str]) -> Self {
        let program =
            std::env::var("JP_COMPACT_TEST_AIMOCK").expect("JP_COMPACT_TEST_AIMOCK names its cli.js");
        assert!(Path::new(&program).is_file(), "{program} is not there");
        let mut node = Command::new("node");
        node.arg(&program).args(["-p", "0", "-f", FIXTURES]).args(flags).stdout(Stdio::piped());
        let mut process = node.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            line.split_once("listening on ").map(|(_, address)| address.trim().to_owned())
        });
        // Whatever it goes on to say is read, so that it never waits for a reader.
        std::thread::spawn(move || lines.count());
        Self { process, address: address.expect("it says where it listens") }
    }

    /// Has a model of this server's asked for a summary.
    #[track_caller]
    fn check(&self, model: &str, code: i32, says: &str) {
        let (world, transcript) = asking(REPORTS);
        let mut command = command(&world, "asks", &["--model", model]);
        for (name, path) in [
            ("OPENAI_BASE_URL", "/v1"),
            ("ANTHROPIC_BASE_URL", ""),
            ("GOOGLE_GEMINI_BASE_URL", ""),
            ("OLLAMA_HOST", ""),
        ] {
            command.env(name, format!("{}{path}", self.address));
        }
        for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"] {
            command.env(name, "sk-sekret-0123456789");
        }
        let ran = world.finish(&mut command).exits(code).says(says);
        assert!(!ran.stderr.contains("sekret"), "{}", ran.stderr);
        if code == 0 {
            assert_eq!(transcript.overlays()[0]["summary"]["summary"], "They talked.");
        } else {
            transcript.assert_untouched();
        }
    }
}

impl Drop for Aimock {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Every provider fails so, after as many tries as it takes.
#[track_caller]
fn fails(flags: &[&str], says: &str) {
    let server = Aimock::start(flags);
    std::thread::scope(|scope| {
        for model in ["openai/m", "anthropic/m", "gemini/m"] {
            let server = &server;
            scope.spawn(move || server.check(model, 18, says));
        }
    });
}

#[test]
#[ignore = "needs node and aimock; a step of CI"]
fn every_provider_answers() {
    let server = Aimock::start(&[]);
    for model in ["openai/m", "anthropic/m", "gemini/m", "ollama/m"] {
        server.check(model, 0, "1 overlay appended");
    }
}

#[test]
#[ignore = "needs node and aimock; a step of CI"]
fn requests_that_are_dropped_are_made_again() {
    fails(&["--chaos-drop", "1"], "HTTP 500");
}

#[test]
#[ignore = "needs node and aimock; a step of CI"]
fn connections_that_break_are_made_again() {
    fails(&["--chaos-disconnect", "1"], "the connection broke");
}

#[test]
#[ignore = "needs node and aimock; a step of CI"]
fn a_limit_of_requests_is_respected() {
    fails(&["--chaos-ratelimit", "1"], "HTTP 429");
}

#[test]
#[ignore = "needs node and aimock; a step of CI"]
fn answers_that_are_broken_are_none() {
    fails(&["--chaos-malformed", "1"], "is no JSON");
}
