//! `compact-runner --dylib LIBRARY VERB`: opens a shared library and implements the protocol for it.
//!
//! The runner that started this process has already confined it, so a library has the same confinement as a program. If the
//! library crashes, the host sees the exit status. This module parses messages only to find the end of a request.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize;

use crate::library::LoadedStrategy;
use crate::{EXIT_NOT_STARTED, EXIT_USAGE, exit_with, one_line};

/// The fields of a message that determine the end of a request.
#[derive(Deserialize)]
struct MessageHead {
    r#type: String,
    events: Option<EventsMode>,
}

#[derive(Deserialize)]
struct EventsMode {
    mode: String,
}

/// Runs `--dylib` with the `args` after it.
pub(crate) fn serve(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let (library, verb) = (args.next(), args.next());
    let verb = verb.as_ref().and_then(|verb| verb.to_str());
    let is_started_by_host =
        std::env::var_os("JP_COMPACT_PROTOCOL").is_some_and(|version| !version.is_empty());
    let (Some(library), Some(verb @ ("describe" | "run" | "worker")), true, false) =
        (library, verb, is_started_by_host, io::stdin().is_terminal())
    else {
        return exit_with(
            EXIT_USAGE,
            "`--dylib LIBRARY describe`, `run`, or `worker` must be started by a host",
        );
    };
    let started =
        private_stdout().and_then(|output| Ok((LoadedStrategy::open(Path::new(&library))?, output)));
    let (strategy, mut output) = match started {
        Ok(started) => started,
        Err(reason) => {
            return exit_with(EXIT_NOT_STARTED, &format!("failed to start {}: {reason}", one_line(&library)));
        }
    };
    let result = match verb {
        "describe" => {
            let line = [strategy.description.to_bytes(), b"\n"].concat();
            output.write_all(&line).map_err(|error| error.to_string())
        }
        _ => serve_requests(&strategy, verb == "run", &mut output),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => exit_with(1, &format!("{}: {reason}", one_line(&library))),
    }
}

/// Returns the pipe to the host, and redirects descriptor 1 to stderr, so output of the library cannot break the protocol.
fn private_stdout() -> Result<File, String> {
    let descriptor = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3);
    let output = descriptor.and_then(|descriptor| {
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(File::from(descriptor))
    });
    output.map_err(|error| format!("failed to duplicate stdout: {error}"))
}

/// Passes the first request to the library, or all requests until stdin closes.
fn serve_requests(strategy: &LoadedStrategy, only_one: bool, output: &mut File) -> Result<(), String> {
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    while next_line(&mut input, &mut line)? {
        let head = parse_head(&line)?;
        if head.r#type != "compact" {
            continue;
        }
        let inline = head.events.is_some_and(|events| events.mode == "inline");
        let events = if inline { read_events(&mut input)? } else { Vec::new() };
        strategy.run(&line, &events, output)?;
        if only_one {
            break;
        }
    }
    Ok(())
}

/// Reads the event lines of a request, up to its end line.
fn read_events(input: &mut impl BufRead) -> Result<Vec<u8>, String> {
    let (mut events, mut line) = (Vec::new(), Vec::new());
    while next_line(input, &mut line)? {
        match parse_head(&line)?.r#type.as_str() {
            "event" => {
                events.extend_from_slice(&line);
                events.push(b'\n');
            }
            "events_end" => return Ok(events),
            _ => {}
        }
    }
    Err("stdin ended before the line `events_end`".into())
}

/// Reads the next nonblank line without its line end. Returns false at the end of stdin.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool, String> {
    loop {
        line.clear();
        if input.read_until(b'\n', line).map_err(|error| format!("failed to read stdin: {error}"))? == 0 {
            return Ok(false);
        }
        line.truncate(line.trim_ascii_end().len());
        if !line.is_empty() {
            return Ok(true);
        }
    }
}

fn parse_head(line: &[u8]) -> Result<MessageHead, String> {
    serde_json::from_slice(line).map_err(|error| format!("invalid message from the host: {error}"))
}
