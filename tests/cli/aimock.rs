//! Tests with `aimock`, an independent mock of the providers' APIs that also simulates their failures. It needs Node,
//! so these tests are ignored by default. CI runs them: it sets `JP_COMPACT_TEST_AIMOCK` to the path of `aimock`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::llm::{REPORT_ERROR, strategy_command, summary_strategy};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/aimock/fixtures.json");
/// The number of requests for an answer that always fails: the first one and its retries.
const ATTEMPTS: usize = 4;

/// A running server.
struct Aimock {
    process: Child,
    address: String,
}

impl Aimock {
    fn start(flags: &[&str]) -> Self {
        let program = std::env::var("JP_COMPACT_TEST_AIMOCK")
            .expect("JP_COMPACT_TEST_AIMOCK is not set to the path of cli.js");
        assert!(Path::new(&program).is_file(), "{program} is missing");
        let mut node = Command::new("node");
        node.arg(&program).args(["-p", "0", "-f", FIXTURES]).args(flags).stdout(Stdio::piped());
        let mut process = node.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            line.split_once("listening on ").map(|(_, address)| address.trim().to_owned())
        });
        // Keep reading. The server would block on a full pipe.
        std::thread::spawn(move || lines.count());
        Self { process, address: address.expect("aimock printed no address") }
    }

    /// Returns the number of requests that the server got.
    fn requests(&self) -> usize {
        let mut stream = TcpStream::connect(self.address.strip_prefix("http://").unwrap()).unwrap();
        stream.write_all(b"GET /v1/_requests HTTP/1.0\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<Vec<Value>>(body).unwrap().len()
    }

    /// Runs a summary with a model of this server, and checks the exit code and a part of stderr.
    #[track_caller]
    fn check(&self, model: &str, code: i32, message: &str) {
        let (world, transcript) = summary_strategy(REPORT_ERROR);
        let mut command = strategy_command(&world, "asks", &["--model", model]);
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
        let output = world.finish(&mut command).exits(code).reports(message);
        assert!(!output.stderr.contains("sekret"), "{}", output.stderr);
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

/// Checks that each provider except Ollama fails with this message after this number of requests.
#[track_caller]
fn check_failure(flags: &[&str], message: &str, requests: usize) {
    let server = Aimock::start(flags);
    let models = ["openai/m", "anthropic/m", "gemini/m"];
    std::thread::scope(|scope| {
        for model in models {
            let server = &server;
            scope.spawn(move || server.check(model, 18, message));
        }
    });
    assert_eq!(server.requests(), models.len() * requests);
}

#[test]
#[ignore = "needs Node and aimock; CI runs it"]
fn every_provider_answers() {
    let server = Aimock::start(&[]);
    for model in ["openai/m", "anthropic/m", "gemini/m", "ollama/m"] {
        server.check(model, 0, "1 overlay appended");
    }
}

#[test]
#[ignore = "needs Node and aimock; CI runs it"]
fn retries_dropped_requests() {
    check_failure(&["--chaos-drop", "1"], "HTTP 500", ATTEMPTS);
}

#[test]
#[ignore = "needs Node and aimock; CI runs it"]
fn retries_broken_connections() {
    check_failure(&["--chaos-disconnect", "1"], "the connection was lost", ATTEMPTS);
}

#[test]
#[ignore = "needs Node and aimock; CI runs it"]
fn retries_rate_limited_requests() {
    check_failure(&["--chaos-ratelimit", "1"], "HTTP 429", ATTEMPTS);
}

#[test]
#[ignore = "needs Node and aimock; CI runs it"]
fn rejects_malformed_answers_without_retrying() {
    check_failure(&["--chaos-malformed", "1"], "is not valid JSON", 1);
}
