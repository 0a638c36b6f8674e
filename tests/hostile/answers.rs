//! A conformant strategy with one defect in its answers. The mode selects the defect. A table in the tests has the
//! expected results.
#![expect(clippy::unwrap_used, reason = "a panic ends the strategy with an error")]
#![expect(clippy::disallowed_methods, reason = "a strategy may start processes")]

use std::hint::black_box;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, StdinLock, Write as _};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

/// A test writes the mode over this text in a copy of the program.
static MODE: [u8; 40] = *b"@MODE@                                  ";
/// The exit code for a usage error.
const USAGE: u8 = 64;
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(1000);

fn describe(mode: &str) -> Value {
    let kind = if mode.contains("summary") { "summary" } else { "reasoning" };
    json!({
        "type": "describe", "protocols": [1], "name": "answers", "version": "1.0.0", "description": "Misbehave",
        "produces": [kind], "input": "none", "features": ["worker"], "determinism": "pure",
    })
}

fn compaction(mode: &str, request: &Value) -> Value {
    let is_summary = mode.contains("summary");
    let range = &request[if is_summary { "range" } else { "requested_range" }];
    let mut compaction = json!({"from_turn": range["from_turn"], "to_turn": range["to_turn"]});
    let text = match mode {
        "writes an empty summary" => String::new(),
        "writes a large summary" => "x".repeat(300 << 10),
        "writes a summary of 10 MB" => "x".repeat(10_000_000),
        _ => "What was said.".to_owned(),
    };
    if is_summary {
        compaction["summary"] = json!({"summary": text});
    } else {
        compaction["reasoning"] = "strip".into();
    }
    let last = range["to_turn"].as_u64().unwrap();
    match mode {
        "inverts its range" => compaction["from_turn"] = (last + 1).into(),
        "leaves its range" => compaction["to_turn"] = (last + 1).into(),
        "goes beyond its kinds" => compaction["tool_calls"] = json!({"policy": "omit"}),
        "stamps itself" => compaction["timestamp"] = "2999-01-01 00:00:00.0".into(),
        _ => {}
    }
    compaction
}

/// Returns the bytes of the reply.
fn reply(mode: &str, verb: &str, request: &Value) -> Vec<u8> {
    let id = if mode == "answers with another id" { &"c999".into() } else { &request["id"] };
    let line =
        format!("{}\n", json!({"type": "result", "id": id, "compactions": [compaction(mode, request)]}));
    let after = |bytes: &[u8]| [bytes, line.as_bytes()].concat();
    let replaced = |from: &str, to: &str| {
        assert!(line.contains(from), "{line}");
        line.replacen(from, to, 1).into_bytes()
    };
    match mode {
        "writes half a message" => format!("{}\n", &line[..line.len() / 2]).into_bytes(),
        "answers twice" => line.repeat(2).into_bytes(),
        "writes a word first" => after(b"scanning ...\n"),
        "logs first" => {
            let log = json!({"type": "log", "id": id, "level": "info", "message": "first"});
            after(format!("{log}\n").as_bytes())
        }
        "writes Latin-1" => after(b"\xe9\n"),
        "writes a BOM" => after(b"\xef\xbb\xbf"),
        "writes NULs" => after(b"\0\0\0\n"),
        "nests deep" => after(format!("{}\n", "[".repeat(100_000)).as_bytes()),
        "nests deep in an ignored member" => {
            let nested = "[".repeat(100_000) + &"]".repeat(100_000);
            replaced("\"id\":", &format!("\"x_deep\":{nested},\"id\":"))
        }
        "writes huge numbers" => replaced("\"to_turn\":", "\"to_turn\":99999999999999999999"),
        "writes a key twice" => replaced("\"to_turn\"", "\"from_turn\":0,\"to_turn\""),
        "writes no last newline" if verb == "run" => line.trim_end().into(),
        "writes nothing" => Vec::new(),
        _ => line.into_bytes(),
    }
}

fn write(mode: &str, reply: &[u8]) {
    let mut stdout = io::stdout().lock();
    for part in reply.chunks(if mode == "drips" { 1 } else { usize::MAX }) {
        stdout.write_all(part).unwrap();
        stdout.flush().unwrap();
    }
}

/// Misbehaves before the answer, or instead of it.
fn misbehave(mode: &str) {
    match mode {
        "hangs" => thread::sleep(NEVER),
        "ignores SIGTERM" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let _entered = runtime.enter();
            let _ignored = signal(SignalKind::terminate()).unwrap();
            thread::sleep(NEVER);
        }
        "floods stdout" => loop {
            io::stdout().write_all(&[b'x'; 1 << 16]).unwrap();
        },
        "writes much to stderr" => {
            let block = vec![b'x'; 1 << 20];
            for _ in 0..64 {
                io::stderr().write_all(&block).unwrap();
            }
        }
        "takes all memory" => drop(black_box((0..64).map(|_| vec![0_u8; 1 << 28]).collect::<Vec<_>>())),
        "kills itself" => kill_process(getpid(), Signal::KILL).unwrap(),
        "leaves a process" => drop(Command::new("sleep").arg("1000").spawn().unwrap()),
        // The only descriptor of the pipe is replaced.
        "closes stdin" => rustix::stdio::dup2_stdin(io::stderr()).unwrap(),
        _ => {}
    }
}

fn serve(mode: &str, verb: &str, stdin: StdinLock<'_>) -> ExitCode {
    for line in BufReader::with_capacity(1 << 16, stdin).split(b'\n') {
        let line = line.unwrap();
        if line.trim_ascii().is_empty() {
            continue;
        }
        let request: Value = serde_json::from_slice(&line).unwrap();
        if request["type"] != "compact" {
            continue;
        }
        if verb == "run" {
            misbehave(mode);
        }
        write(mode, &reply(mode, verb, &request));
        if verb == "run" {
            break;
        }
    }
    if mode == "fails after its answer" && verb == "run" { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn main() -> ExitCode {
    let mode = str::from_utf8(black_box(&MODE)).unwrap().trim_end();
    let verb = std::env::args().nth(1).unwrap_or_default();
    let stdin = io::stdin().lock();
    if std::env::var_os("JP_COMPACT_PROTOCOL").is_none_or(|value| value.is_empty()) || stdin.is_terminal() {
        return ExitCode::from(USAGE);
    }
    match &*verb {
        "describe" => {
            write(mode, format!("{}\n", describe(mode)).as_bytes());
            ExitCode::SUCCESS
        }
        "run" | "worker" => serve(mode, &verb, stdin),
        _ => ExitCode::from(USAGE),
    }
}
