//! `compact-runner`: confines its own process, then executes a strategy.
//!
//! The host starts every strategy through it. Except for the SDK's C boundary, it has the only `unsafe` code of the
//! project (in `exec.rs` and `library.rs`). It must never start a strategy that is only partly confined: if a step fails,
//! the runner exits.
//!
//! ```text
//! compact-runner --host-pid N --dir PATH [--cpu-seconds N] [--env NAME]... [--cgroup PATH] [JAIL] -- PROGRAM ARG...
//! ```
//!
//! The order of the steps is fixed:
//!
//! 1. Start a new session, and request a signal at the host's death.
//! 2. Join the control group if one is given.
//! 3. Enter the private directory, close all inherited files except the three pipes, and reset the signals.
//! 4. With a jail: drop capabilities, and disable new privileges.
//! 5. Start the process that kills the group after the host's death (`keeper.rs`), if the program may start processes:
//!    always without a jail, and with a jail if subprocesses are granted.
//! 6. Set the limits. The keeper is not part of the strategy, and its start must not fail because of them.
//! 7. With a jail: apply Landlock (`jail.rs`) and seccomp (`filter.rs`).
//! 8. Execute the program.
//!
//! The runner does not report its confinement. The host passes the Landlock version that it found. The runner enforces
//! every rule of that version, or exits. A strategy therefore cannot forge a report.
//!
//! The runner exits with 64 after a usage error. If it fails to start the program, it exits with 126 and writes one
//! line to stderr. All other exit codes and all signals come from the program.
//!
//! For a shared library, the program is the runner again: `compact-runner --dylib LIBRARY VERB`. That process is already
//! confined. It opens the library and implements the protocol (`dylib.rs`).

#[cfg(not(unix))]
compile_error!("compact-runner requires a Unix system");

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

use invocation::{Invocation, JailRules};

/// The exit code after a usage error: `EX_USAGE` of sysexits.h.
const EXIT_USAGE: u8 = 64;
/// The exit code if the program did not start. Shells use the same code.
const EXIT_NOT_STARTED: u8 = 126;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.next_if(|arg| arg == "--dylib").is_some() {
        return dylib::serve(args);
    }
    let invocation = match Invocation::parse(args) {
        Ok(invocation) => invocation,
        Err(reason) => return exit_with(EXIT_USAGE, &format!("{reason}\n{}", invocation::USAGE)),
    };
    let Err(reason) = start(&invocation);
    let program = one_line(&invocation.program);
    exit_with(EXIT_NOT_STARTED, &format!("failed to start {program}: {reason}"))
}

/// Becomes the program. Returns only after a failure, with its reason.
fn start(invocation: &Invocation) -> Result<std::convert::Infallible, String> {
    let environment = environment::strategy_variables(&invocation.dir, &invocation.env)?;
    confine(invocation)?;
    Err(exec::replace(&invocation.program, &invocation.args, &environment, invocation.jail.is_some()))
}

/// Performs all steps before the exec.
fn confine(invocation: &Invocation) -> Result<(), String> {
    confine::lead_session()?;
    confine::die_with_host(invocation.host_pid)?;
    invocation.cgroup.as_deref().map_or(Ok(()), confine::join_cgroup)?;
    confine::enter_private_dir(&invocation.dir)?;
    exec::close_inherited()?;
    exec::reset_signals()?;
    let jail = invocation.jail.as_ref();
    if jail.is_some() {
        confine::drop_privileges()?;
    }
    // The keeper starts before Landlock is applied, so it is outside the jail, and the jailed program cannot signal it.
    let keeper = start_keeper(invocation.host_pid, jail)?;
    confine::set_limits(invocation.cpu_seconds)?;
    let Some(jail) = jail else { return Ok(()) };
    jail::enforce(jail, &invocation.dir)?;
    filter::install(jail, invocation.host_pid, keeper)
}

/// Starts the keeper if the program may start processes.
#[cfg(target_os = "linux")]
fn start_keeper(host_pid: u32, jail: Option<&JailRules>) -> Result<Option<u32>, String> {
    let may_start_processes = jail.is_none_or(|jail| jail.subprocess);
    if may_start_processes { keeper::start(host_pid, jail.is_some()) } else { Ok(None) }
}

#[cfg(not(target_os = "linux"))]
fn start_keeper(_host_pid: u32, _jail: Option<&JailRules>) -> Result<Option<u32>, String> {
    Ok(None)
}

/// Writes a message to stderr and returns the exit code.
fn exit_with(code: u8, message: &str) -> ExitCode {
    // If stderr is closed, the message cannot be delivered.
    let _ = writeln!(std::io::stderr(), "compact-runner: {message}");
    ExitCode::from(code)
}

/// Replaces control characters, because the host reads the message line by line.
fn one_line(name: &OsStr) -> String {
    name.to_string_lossy().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
