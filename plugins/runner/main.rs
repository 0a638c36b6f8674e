//! `compact-runner`: confines the process it is, then becomes a strategy. It owns what lies
//! between the host's spawn and the strategy's first instruction, and it is the only room with
//! `unsafe` (all of it in `exec.rs` and `library.rs`). It refuses to start anything half confined: a step that
//! fails is the end, never a warning.
//!
//! ```text
//! compact-runner --host-pid N --dir PATH [--cpu-seconds N] [--env NAME]... [--cgroup PATH] [JAIL] -- PROGRAM ARG...
//! ```
//!
//! The order is fixed: a session of its own; death with the host; limits; a control group, where there is
//! one; the private directory;
//! no open file but the three pipes; default signals; then, where a jail was asked for, no
//! capabilities and no new privileges, a process that ends the group with the host (`keeper.rs`) where
//! processes were granted, Landlock (`jail.rs`), seccomp (`filter.rs`); exec.
//!
//! That a program runs at all is the whole report of a jail: the host says which version of
//! Landlock it found, and the runner enforces all of that version or ends. Nothing is reported
//! from inside, so there is nothing that a strategy could forge.
//!
//! Exit codes of its own are 64 when it
//! was called wrongly and 126, with one line on stderr, when it could not start the program.
//! Every other exit code and every signal is the program's.
//!
//! For a shared library the program is the runner again, as `compact-runner --dylib LIBRARY VERB`: confined by
//! then, it opens the library and speaks for it (`dylib.rs`).

#[cfg(not(unix))]
compile_error!("compact-runner confines processes with Unix calls; there is none for this system yet");

mod confine;
mod dylib;
mod environment;
mod exec;
mod filter;
mod invocation;
mod jail;
#[cfg(target_os = "linux")]
mod keeper;
mod library;

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::ExitCode;

use invocation::Invocation;

/// The exit code of a wrong call: `EX_USAGE` of sysexits.h.
const EXIT_USAGE: u8 = 64;
/// The exit code when the program did not start; the shells' code for it, too.
const EXIT_NOT_STARTED: u8 = 126;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.next_if(|word| word == "--dylib").is_some() {
        return dylib::serve(words);
    }
    let invocation = match Invocation::parse(words) {
        Ok(invocation) => invocation,
        Err(reason) => return end(EXIT_USAGE, &format!("{reason}\n{}", invocation::USAGE)),
    };
    let Err(reason) = start(&invocation);
    let program = one_line(&invocation.program);
    end(EXIT_NOT_STARTED, &format!("failed to start {program}: {reason}"))
}

/// Returns only when a step failed, with the reason.
fn start(invocation: &Invocation) -> Result<std::convert::Infallible, String> {
    let environment = environment::of_strategy(&invocation.dir, &invocation.env)?;
    confine(invocation)?;
    Err(exec::replace(&invocation.program, &invocation.args, &environment, invocation.jail.is_some()))
}

/// All that is done before anything of the strategy's is opened.
fn confine(invocation: &Invocation) -> Result<(), String> {
    confine::lead_session()?;
    confine::die_with_host(invocation.host_pid)?;
    confine::limit(invocation.cpu_seconds)?;
    invocation.cgroup.as_deref().map_or(Ok(()), confine::join)?;
    confine::enter(&invocation.dir)?;
    exec::close_inherited()?;
    exec::reset_signals()?;
    let Some(jail) = &invocation.jail else { return Ok(()) };
    confine::drop_privileges()?;
    // Before Landlock: what is in a jail reaches nothing that is in none.
    #[cfg(target_os = "linux")]
    let keeper = if jail.subprocess { Some(keeper::start(invocation.host_pid)?) } else { None };
    #[cfg(not(target_os = "linux"))]
    let keeper = None;
    jail::enforce(jail, &invocation.dir)?;
    filter::install(jail, invocation.host_pid, keeper)
}

fn end(code: u8, message: &str) -> ExitCode {
    // Nobody is left to be told when stderr is closed.
    let _ = writeln!(std::io::stderr(), "compact-runner: {message}");
    ExitCode::from(code)
}

/// A name as the user knows it, but on one line: the host reads the message by lines.
fn one_line(name: &OsStr) -> String {
    name.to_string_lossy().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
