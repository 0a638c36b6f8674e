//! The process of a strategy: command line, pipes, and exit status.

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use jp_compact_schema::version::{ENV_PROTOCOL, EXIT_USAGE};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio;

use crate::converse::{Verb, converse};
use crate::strategy::Strategy;

/// Runs a strategy. Call it in `main`, and return its exit code.
///
/// The exit code is 0 after a reply, even after an `error`. It is 64, with a usage message on stderr, if no host started the
/// process. It is 1 if a pipe broke or the host sent an invalid message.
///
/// Output of the strategy or its libraries to stdout goes to stderr, because the pipe to the host is a private copy.
pub fn serve(strategy: impl Strategy) -> ExitCode {
    let verb = env::args().nth(1).as_deref().and_then(Verb::parse);
    let started_by_host = env::var_os(ENV_PROTOCOL).is_some_and(|version| !version.is_empty());
    let (Some(verb), true, false) = (verb, started_by_host, io::stdin().is_terminal()) else {
        print_usage(&strategy);
        return ExitCode::from(EXIT_USAGE);
    };
    let ended = private_stdout().and_then(|output| converse(&strategy, verb, io::stdin().lock(), output));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The host closes the pipe when it needs no more output.
            if error.kind() != io::ErrorKind::BrokenPipe {
                print_error(&format!("{}: {error}\n", strategy.describe().name));
            }
            ExitCode::FAILURE
        }
    }
}

/// Returns the pipe to the host, which child processes do not inherit, and redirects file descriptor 1 to stderr.
fn private_stdout() -> io::Result<File> {
    let output = fcntl_dupfd_cloexec(stdio::stdout(), 3)?;
    stdio::dup2_stdout(stdio::stderr())?;
    Ok(File::from(output))
}

fn print_usage(strategy: &impl Strategy) {
    let description = strategy.describe();
    print_error(&format!(
        "{name} {version}: {text}\n\n\
         This is a strategy for jp-compact. jp-compact starts it with `describe`, `run` or `worker`, sets\n\
         {ENV_PROTOCOL}, and uses stdin and stdout. To use it:\n\n  \
         jp-compact --strategy {name} <conversation>\n",
        name = description.name,
        version = description.version,
        text = description.description,
    ));
}

/// Prints to stderr, and ignores errors, because they cannot be reported elsewhere.
fn print_error(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
