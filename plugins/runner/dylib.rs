//! `compact-runner --dylib LIBRARY VERB`: opens a shared library and speaks the protocol for it. The process was
//! confined before, by the runner that it was started from; so a library runs where every program runs, and one
//! that crashes is an exit status. It knows no more of a message than where a request ends.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize;

use crate::library::Strategy;
use crate::{EXIT_NOT_STARTED, EXIT_USAGE, end, one_line};

/// As much of a message as is needed to know where a request ends.
#[derive(Deserialize)]
struct Head {
    r#type: String,
    events: Option<Events>,
}

#[derive(Deserialize)]
struct Events {
    mode: String,
}

/// All that `main` does for `--dylib`; `words` are those behind it.
pub(crate) fn serve(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let (library, verb) = (words.next(), words.next());
    let verb = verb.as_ref().and_then(|verb| verb.to_str());
    let by_host = std::env::var_os("JP_COMPACT_PROTOCOL").is_some_and(|version| !version.is_empty());
    let (Some(library), Some(verb @ ("describe" | "run" | "worker")), true, false) =
        (library, verb, by_host, io::stdin().is_terminal())
    else {
        return end(EXIT_USAGE, "a host starts `--dylib LIBRARY describe`, `run` or `worker`");
    };
    let opened = private_stdout().and_then(|output| Ok((Strategy::open(Path::new(&library))?, output)));
    let (strategy, mut output) = match opened {
        Ok(opened) => opened,
        Err(reason) => {
            return end(EXIT_NOT_STARTED, &format!("failed to start {}: {reason}", one_line(&library)));
        }
    };
    let ended = match verb {
        "describe" => {
            let line = [strategy.description.to_bytes(), b"\n"].concat();
            output.write_all(&line).map_err(|error| error.to_string())
        }
        _ => converse(&strategy, verb == "run", &mut output),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => end(1, &format!("{}: {reason}", one_line(&library))),
    }
}

/// The pipe to the host; what a library prints to descriptor 1 comes out on stderr.
fn private_stdout() -> Result<File, String> {
    let private = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3);
    let output = private.and_then(|output| {
        rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        Ok(File::from(output))
    });
    output.map_err(|error| format!("stdout cannot be kept for the protocol: {error}"))
}

/// Puts the host's requests to the library: the first, or all until stdin closes.
fn converse(strategy: &Strategy, only_one: bool, output: &mut File) -> Result<(), String> {
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    while next_line(&mut input, &mut line)? {
        let head = head(&line)?;
        if head.r#type != "compact" {
            continue;
        }
        let inline = head.events.is_some_and(|events| events.mode == "inline");
        let events = if inline { events(&mut input)? } else { Vec::new() };
        strategy.run(&line, &events, output)?;
        if only_one {
            break;
        }
    }
    Ok(())
}

/// The event lines of a request, up to its end line.
fn events(input: &mut impl BufRead) -> Result<Vec<u8>, String> {
    let (mut events, mut line) = (Vec::new(), Vec::new());
    while next_line(input, &mut line)? {
        match head(&line)?.r#type.as_str() {
            "event" => {
                events.extend_from_slice(&line);
                events.push(b'\n');
            }
            "events_end" => return Ok(events),
            _ => {}
        }
    }
    Err("the events ended before their end line".into())
}

/// The next line that is not blank, without its end. False at the end of stdin.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool, String> {
    loop {
        line.clear();
        if input.read_until(b'\n', line).map_err(|error| format!("stdin: {error}"))? == 0 {
            return Ok(false);
        }
        line.truncate(line.trim_ascii_end().len());
        if !line.is_empty() {
            return Ok(true);
        }
    }
}

fn head(line: &[u8]) -> Result<Head, String> {
    serde_json::from_slice(line).map_err(|error| format!("the host sent what is no message: {error}"))
}
