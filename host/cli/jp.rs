//! What JP sees: it starts every `jp-*` on PATH without arguments, writes one line and waits. `describe` is
//! answered in JP's form; `init` is answered by ending, until this executable is more than a command line.

use std::io::BufRead as _;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::Report;
use crate::exit::Exit;
use crate::output;

/// How long a pipe may be silent.
const WAIT: Duration = Duration::from_millis(500);

/// Answers JP, or says how the executable is used.
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
        _ => {
            let hint = "compact a conversation with `jp-compact .jp/conversations/17738399468-review`, or see \
                        `jp-compact --help`";
            output::people(&Report::new(Exit::Usage, "there is no TRANSCRIPT to compact", Some(hint)).text());
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

/// The first line of stdin, if it comes in time. The thread that waits for a later one ends with the process.
fn first_line() -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).is_ok() {
            // Nobody listens any more once the time is over.
            let _ = sender.send(line);
        }
    });
    receiver.recv_timeout(WAIT).ok()
}
