//! A strategy that violates exactly one rule: the conformance check whose id is its mode. With the mode `none` it is
//! conformant. It does not use the SDK, which does not let a strategy violate the rules.
#![expect(clippy::unwrap_used, reason = "a panic ends the strategy with an error")]
#![expect(clippy::disallowed_methods, reason = "a strategy may start processes")]

use std::hint::black_box;
use std::io::{self, BufRead as _, BufReader, BufWriter, IsTerminal as _, StdinLock, StdoutLock, Write as _};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

/// A test writes the mode over this text in a copy of the program.
static MODE: [u8; 40] = *b"@MODE@                                  ";
/// The modes that violate a rule about summaries.
const SUMMARIES: [&str; 10] = ["D10", "P09", "P10", "P11", "P12", "N01", "N02", "N03", "N04", "N05"];
/// The exit code for a usage error.
const USAGE: u8 = 64;
/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(1000);

struct Strategy {
    mode: &'static str,
    verb: String,
    stdin: BufReader<StdinLock<'static>>,
    stdout: BufWriter<StdoutLock<'static>>,
}

/// The header of a request, and its events.
struct Request {
    header: Value,
    events: Vec<Value>,
}

fn parse(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap()
}

fn is_long(header: &Value) -> bool {
    header["events"]["count"].as_u64().is_some_and(|count| count > 100)
}

impl Strategy {
    fn is_running(&self, mode: &str) -> bool {
        self.mode == mode && self.verb == "run"
    }

    fn is_working(&self, mode: &str) -> bool {
        self.mode == mode && self.verb == "worker"
    }

    fn writes_summaries(&self) -> bool {
        SUMMARIES.contains(&self.mode) || ["summary", "own-range"].contains(&self.mode)
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.stdout, "{message}").unwrap();
        if self.mode != "W02" {
            self.stdout.flush().unwrap();
        }
    }

    fn describe(&mut self) -> ExitCode {
        let properties = json!({"n": {"type": "integer", "default": 1}});
        let mut description = json!({
            "type": "describe", "protocols": [1], "name": "broken", "version": "1.0.0",
            "description": "Break one rule", "produces": ["reasoning", "tool_calls"], "input": "full",
            "scope": "range", "features": ["worker", "pipeline", "events.file"], "determinism": "pure",
            "options_schema": {"type": "object", "properties": properties, "additionalProperties": false},
        });
        let members = description.as_object_mut().unwrap();
        if self.writes_summaries() {
            members["produces"] = json!(["summary"]);
        }
        match self.mode {
            "required" => {
                members["options_schema"] =
                    json!({"type": "object", "properties": {"m": {"type": "integer"}}, "required": ["m"]});
            }
            "P14" | "P01-steps" => members["features"].as_array_mut().unwrap().push("steps".into()),
            "D10" | "N02" | "N03" | "N04" | "summary" => drop(members.insert("needs".into(), json!(["llm"]))),
            "N05" => {
                members.insert("needs".into(), json!(["llm"]));
                members["determinism"] = "stochastic".into();
            }
            "F09" => drop(members.shift_remove("options_schema")),
            "D01" => return ExitCode::from(3),
            "D02" => drop(members.shift_remove("input")),
            "D03" => members["name"] = "another".into(),
            "D04" => members["protocols"] = json!([2]),
            "D05" => members["produces"] = json!([]),
            "D06" => members["options_schema"]["properties"]["n"]["default"] = "one".into(),
            "D08" => members["version"] = std::process::id().to_string().into(),
            "D09" => {
                let mut line = String::new();
                self.stdin.read_line(&mut line).unwrap();
                assert!(!line.contains("x_later"), "an unknown key");
            }
            _ => {}
        }
        self.write(&description);
        ExitCode::SUCCESS
    }

    /// Returns the next line that is not blank.
    fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let mut line = Vec::new();
            if self.stdin.read_until(b'\n', &mut line).unwrap() == 0 {
                return None;
            }
            assert!(!self.is_running("F08") || line.ends_with(b"\n"), "the last newline is missing");
            assert!(!self.is_running("F03") || !line.ends_with(b"\r\n"), "CRLF");
            if self.is_running("F04") {
                line.truncate(1 << 20);
            }
            if self.mode == "F05" {
                let text = String::from_utf8(line).unwrap();
                line = text.split(['\u{85}', '\u{2028}', '\u{2029}']).next().unwrap().into();
            }
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }

    fn next_request(&mut self) -> Option<Request> {
        let mut request: Option<Request> = None;
        while let Some(line) = self.next_line() {
            let message = parse(&line);
            match message["type"].as_str().unwrap() {
                "compact" if message["events"]["mode"] == "file" => {
                    let events = std::fs::read(message["events"]["path"].as_str().unwrap()).unwrap();
                    let events = events.trim_ascii_end().split(|byte| *byte == b'\n').map(parse).collect();
                    return Some(Request { header: message, events });
                }
                "compact" => {
                    let is_long = is_long(&message);
                    request = Some(Request { header: message, events: Vec::new() });
                    if is_long && self.is_working("W02-deaf") {
                        thread::sleep(LONG);
                    }
                    // The worker W05 then reads the events of this request as the next request, and fails.
                    if is_long && (self.is_working("W05") || self.is_working("W05-deaf")) {
                        return request;
                    }
                }
                "event" => request.as_mut().expect("a header precedes the events").events.push(message),
                "events_end" => return request,
                _ => assert!(!self.is_running("F02") && !self.is_working("W07"), "an unknown message"),
            }
        }
        None
    }

    fn write_needs(&mut self, request: &Value, key: &str, state: Option<String>) {
        let messages = json!([{"role": "user", "content": "Summarize."}]);
        let requests = json!({key: {"kind": "llm.complete", "messages": messages}});
        let mut needs = json!({"type": "needs", "id": request["id"], "requests": requests});
        if let Some(state) = state {
            needs["state"] = state.into();
        }
        self.write(&needs);
    }

    fn write_summary(&mut self, request: &Value) {
        let answers = request["answers"].as_object().unwrap();
        let has_text = |answer: &Value| answer["ok"]["text"].is_string();
        assert!(self.mode != "N05" || answers.values().all(has_text), "the model refused");
        let rounds = answers.len();
        match self.mode {
            "N03" => return self.write_needs(request, &format!("k{rounds}"), None),
            "D10" | "N01" | "N05" | "summary" if rounds == 0 => {
                return self.write_needs(request, "k0", None);
            }
            "N02" if rounds < 2 => return self.write_needs(request, "k", None),
            "N04" if rounds == 0 => return self.write_needs(request, "k", Some("x".repeat(65_537))),
            _ => {}
        }
        let text = if self.mode == "P09" { " " } else { "What was said." };
        let range = &request["range"];
        let mut compaction = json!({
            "from_turn": range["from_turn"], "to_turn": range["to_turn"], "summary": {"summary": text},
        });
        // `own-range` proposes another range and follows the second request, which is exact. P11 and P12 do not follow it.
        let is_exact = request["range_exact"] == true;
        let has_overlay = request["context"]["compactions"].as_array().is_some_and(|found| !found.is_empty())
            && request["requested_range"]["from_turn"] == 0;
        if has_overlay && (self.mode == "P11" || self.mode == "own-range" && !is_exact) {
            compaction["from_turn"] = 1.into();
        }
        if self.mode == "P12" && is_exact {
            compaction["from_turn"] = 2.into();
        }
        let compactions = vec![compaction; if self.mode == "P10" { 2 } else { 1 }];
        self.write(&json!({"type": "result", "id": request["id"], "compactions": compactions}));
    }

    /// Returns the proposal for a request: to strip the reasoning of its range.
    fn compactions(&self, request: &Value) -> Value {
        let requested = &request["requested_range"];
        let mut range = json!({"from_turn": requested["from_turn"], "to_turn": requested["to_turn"]});
        // Turn 1 has four steps, so step 9 does not exist.
        if self.mode == "P14" && requested.get("to_step").is_some() {
            range["to_step"] = 9.into();
        }
        let with = |key: &str, value: Value| {
            let mut compaction = range.clone();
            compaction[key] = value;
            compaction
        };
        let mut strip = with("reasoning", "strip".into());
        let last = requested["to_turn"].as_u64().unwrap();
        match self.mode {
            "P01" | "P01-steps" => return json!([]),
            "P02" => strip["reasonning"] = "strip".into(),
            "P03" => strip["from_turn"] = (last + 1).into(),
            "P04" => strip["to_turn"] = (last + 1).into(),
            "P05" => return json!([range]),
            "P06" => return json!([with("summary", json!({"summary": "text"}))]),
            "P07" => strip["to_turn"] = last.min(2).into(),
            "P08" => {
                let calls = json!([{"seq": 0, "response": "strip"}]);
                return json!([with("tool_calls", json!({"policy": "selective", "calls": calls}))]);
            }
            "P13" => return vec![strip; 1025].into(),
            _ => {}
        }
        json!([strip])
    }

    fn decline(&mut self, id: &Value, reason: &str) {
        self.write(&json!({"type": "decline", "id": id, "reason": reason}));
    }

    fn write_error(&mut self, id: &Value, code: &str, message: &str) {
        self.write(&json!({"type": "error", "id": id, "code": code, "message": message}));
    }

    /// Fails because of an unusual request.
    fn check_request(&self, Request { header, events }: &Request) {
        let is_unknown = |key: &String| key.starts_with("x_");
        let context = header["context"].as_object().unwrap();
        assert!(!self.is_running("F01") || !context.keys().any(is_unknown), "an unknown key");
        let options = header["options"].as_object().unwrap();
        assert!(self.mode != "F09" || options.is_empty(), "an option");
        assert!(self.mode != "F10" || events.len() != 1, "an empty turn");
        let is_unknown = |line: &Value| line["event"]["type"].as_str().unwrap().starts_with("x_");
        assert!(!self.is_running("F11") || !events.iter().any(is_unknown), "an unknown event");
    }

    fn answer(&mut self, request: &Request) {
        let header = &request.header;
        if self.writes_summaries() {
            return self.write_summary(header);
        }
        self.check_request(request);
        let mut id = header["id"].clone();
        match self.mode {
            "required" if header["options"].get("m").is_none() => {
                return self.write_error(&id, "options_invalid", "m is missing");
            }
            "F12" if self.verb == "run" && header["events"]["mode"] == "file" => {
                return self.decline(&id, "a file");
            }
            "F06" if header["dry_run"] == true => return self.decline(&id, "a dry run"),
            "F07" => return self.decline(&id, &std::process::id().to_string()),
            "W01" if self.verb == "worker" => return self.decline(&id, "as a worker I do nothing"),
            "R01" => thread::sleep(Duration::from_secs(60)),
            "R04" => self.stdout.write_all(&vec![b'x'; 9 << 20]).unwrap(),
            "R05" => return,
            "R07" => self.stdout.write_all(b"\xff\n").unwrap(),
            "R08" => self.stdout.write_all(b"scanning ...\n").unwrap(),
            "R09" => self.write(&json!({"type": "progress", "id": id, "done": "half"})),
            "R09-diagnostics" => {
                let diagnostics = json!([{"severity": "fatal", "message": "m"}]);
                let compactions = self.compactions(header);
                return self.write(&json!({
                    "type": "result", "id": id, "compactions": compactions, "diagnostics": diagnostics,
                }));
            }
            "R10" => id = "c1".into(),
            "R11" => return self.write_error(&id, "internal", "no"),
            _ => {}
        }
        self.write(&json!({"type": "result", "id": id, "compactions": self.compactions(header)}));
        if self.mode == "R06" {
            self.decline(&id, "or not");
        }
    }

    /// Answers the requests, and returns the exit code.
    fn serve(&mut self) -> ExitCode {
        let mut number = 0;
        while let Some(request) = self.next_request() {
            self.answer(&request);
            if is_long(&request.header) && self.is_working("W05-deaf") {
                thread::sleep(LONG);
            }
            let is_file = request.header["events"]["mode"] == "file";
            assert!(!is_file || !self.is_working("W06"), "after a file");
            number += 1;
            // W04 ends after request 7. The first worker of the test gets fewer requests, so no other check fails.
            if self.verb == "run" || (self.mode == "W04" && number == 7) {
                break;
            }
        }
        match self.mode {
            "R02" if self.verb == "run" => return ExitCode::from(3),
            "R03" => drop(Command::new("sleep").arg("20").spawn().unwrap()),
            "W03" if self.verb == "worker" => return ExitCode::from(3),
            "W03-more" if self.verb == "worker" => self.stdout.write_all(b"\nmore\n").unwrap(),
            "W03-late" if self.verb == "worker" => wait_for_sigterm(),
            _ => {}
        }
        ExitCode::SUCCESS
    }

    /// Returns the exit code for a wrong call, or success in the mode that violates the rule.
    fn reject(&self, id: &str) -> ExitCode {
        if self.mode == id { ExitCode::SUCCESS } else { ExitCode::from(USAGE) }
    }
}

fn wait_for_sigterm() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { signal(SignalKind::terminate()).unwrap().recv().await });
}

fn main() -> ExitCode {
    let mut strategy = Strategy {
        mode: str::from_utf8(black_box(&MODE)).unwrap().trim_end(),
        verb: std::env::args().nth(1).unwrap_or_default(),
        stdin: BufReader::with_capacity(1 << 16, io::stdin().lock()),
        stdout: BufWriter::new(io::stdout().lock()),
    };
    if std::env::var_os("JP_COMPACT_PROTOCOL").is_none_or(|value| value.is_empty()) {
        return strategy.reject("S02");
    }
    if io::stdin().is_terminal() {
        return strategy.reject("S04");
    }
    match &*strategy.verb {
        "describe" => strategy.describe(),
        "run" | "worker" => strategy.serve(),
        _ => strategy.reject("S03"),
    }
}
