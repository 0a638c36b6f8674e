//! The answers to JP. JP starts every `jp-*` on PATH without arguments, writes one line, and waits. This module answers
//! `describe`, and rejects `init` because the executable is not a JP plugin yet.

use std::io::BufRead as _;
use std::sync::mpsc;
use std::time::Duration;

use jp_compact_help::overview;
use jp_compact_runtime::clock::Clock;
use jp_compact_runtime::environment::Environment;
use serde_json::{Value, json};

use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;

/// The limit of the wait for JP's line. Without a line, a person or another program started the executable.
const FIRST_LINE_WAIT_MAX: Duration = Duration::from_millis(500);

/// Answers JP, or prints the overview of the current folder or the usage hint.
pub(crate) fn serve() -> Exit {
    let line = if output::stdin_is_terminal() { None } else { first_line() };
    let message: Option<Value> = line.and_then(|line| serde_json::from_str(&line).ok());
    let answers = match message.as_ref().and_then(|message| message.get("type")).and_then(Value::as_str) {
        Some("describe") => vec![json!({
            "type": "describe",
            "name": "compact",
            "version": env!("CARGO_PKG_VERSION"),
            "description": env!("CARGO_PKG_DESCRIPTION"),
        })],
        Some("init") => vec![
            json!({ "type": "ready" }),
            json!({ "type": "exit", "code": 2, "reason": "run jp-compact itself" }),
        ],
        _ if message.is_none() && print_overview() => return Exit::Done,
        _ => {
            let hint = "compact a conversation with `jp-compact .jp/conversations/17738399468-review`, or see \
                        `jp-compact --help`";
            let report = Report::new(Exit::Usage, "no TRANSCRIPT was given", Some(hint));
            output::failure(&report.failure(None), &report.text());
            return Exit::Usage;
        }
    };
    for answer in answers {
        if output::json_line(&answer).is_err() {
            return Exit::Transcript;
        }
    }
    Exit::Done
}

/// Prints the conversations of the current folder, if there are any.
fn print_overview() -> bool {
    let Ok(environment) = Environment::of_process() else { return false };
    let Some(lines) = overview(Clock::System.now(), &environment) else { return false };
    let mut text = EscapedLines::new();
    lines.iter().for_each(|line| text.line(line));
    output::text(&text).is_ok()
}

/// Returns the first line of stdin if it arrives in time. The thread that reads may remain until the process ends.
fn first_line() -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).is_ok() {
            // The receiver is gone after the timeout.
            let _ = sender.send(line);
        }
    });
    receiver.recv_timeout(FIRST_LINE_WAIT_MAX).ok()
}
