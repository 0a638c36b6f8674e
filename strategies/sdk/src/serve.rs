//! The process around a strategy: its verb, its pipes, its exit status. The protocol's lines are not here.

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use jp_compact_schema::version::{ENV_PROTOCOL, EXIT_USAGE};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio;

use crate::Strategy;
use crate::converse::{Verb, converse};

/// All of a strategy's `main`.
///
/// Exits 0 when the host got its answer, an `error` too; 64 with a help text on stderr when no host has
/// started the process; 1 when a pipe broke or the host sent what is no message.
///
/// Whatever the strategy or one of its libraries prints to stdout comes out on stderr: the pipe to the host
/// is a private copy.
pub fn serve(strategy: impl Strategy) -> ExitCode {
    let verb = env::args().nth(1).as_deref().and_then(Verb::parse);
    let started_by_host = env::var_os(ENV_PROTOCOL).is_some_and(|version| !version.is_empty());
    let (Some(verb), true, false) = (verb, started_by_host, io::stdin().is_terminal()) else {
        explain(&strategy);
        return ExitCode::from(EXIT_USAGE);
    };
    let ended = private_stdout().and_then(|output| converse(&strategy, verb, io::stdin().lock(), output));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A broken pipe is a host that has heard enough.
            if error.kind() != io::ErrorKind::BrokenPipe {
                say(&format!("{}: {error}\n", strategy.describe().name));
            }
            ExitCode::FAILURE
        }
    }
}

/// The pipe to the host, which no child inherits; file descriptor 1 is stderr from here on.
fn private_stdout() -> io::Result<File> {
    let output = fcntl_dupfd_cloexec(stdio::stdout(), 3)?;
    stdio::dup2_stdout(stdio::stderr())?;
    Ok(File::from(output))
}

fn explain(strategy: &impl Strategy) {
    let description = strategy.describe();
    say(&format!(
        "{name} {version}: {text}\n\n\
         A strategy of jp-compact, which starts it as `describe`, `run` or `worker` with {ENV_PROTOCOL}\n\
         in its environment and speaks with it on stdin and stdout. To use it:\n\n  \
         jp-compact --strategy {name} <conversation>\n",
        name = description.name,
        version = description.version,
        text = description.description,
    ));
}

/// Text for people. That nobody reads it is no failure.
fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
