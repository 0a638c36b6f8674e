//! The keeper: a second process that kills the group of a strategy with subprocesses if the host dies.
//!
//! A strategy requests a signal at the host's death (`confine.rs`), but its child processes do not inherit the request.
//! The keeper is in the strategy's group, so a signal to the group also ends the keeper. It is a child of the host and not
//! of the strategy. Therefore, it does not affect the strategy's children, exit status, resource usage, or pipes.
//!
//! In the jail, the strategy can neither leave the group nor reach the keeper. The keeper can only wait and kill its own
//! group. Without a jail, a strategy can do both. The keeper kills only the processes that are still in the group.

use std::io::{self, PipeWriter, Read as _};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_current_process_group, pidfd_open};

use crate::{confine, exec, filter};

/// Starts the keeper, and returns its process id. Returns `None` without a jail on a kernel that has no pidfd.
pub(crate) fn start(host_pid: u32, jailed: bool) -> Result<Option<u32>, String> {
    let watch_error = |cause: &dyn std::fmt::Display| format!("failed to watch the host: {cause}");
    let host = i32::try_from(host_pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| watch_error(&"invalid process id"))?;
    let host = match pidfd_open(host, PidfdFlags::empty()) {
        Err(Errno::NOSYS) if !jailed => return Ok(None),
        host => host.map_err(|error| watch_error(&error))?,
    };
    // Checked after the open, so the descriptor refers to the host and not to a later process with the same id.
    confine::check_parent(host_pid)?;
    // The strategy starts only after the keeper has released its pipes. Otherwise, a strategy that closes its stdin could
    // get a request that no process reads, and the host would wait for the answer until the deadline.
    let (mut release_reader, release_writer) = io::pipe().map_err(|error| watch_error(&error))?;
    if let Some(keeper) = exec::copy_process().map_err(|error| watch_error(&error))? {
        drop(release_writer);
        release_reader.read_to_end(&mut Vec::new()).map_err(|error| watch_error(&error))?;
        return Ok(Some(keeper));
    }
    drop(release_reader);
    // Only the copy gets here. If it cannot wait, it kills the group immediately.
    if release(jailed, release_writer).is_ok() {
        exec::wait_for_exit(&host);
    }
    // This also kills the keeper.
    let _ = kill_current_process_group(Signal::KILL);
    Err(watch_error(&"the group is still alive"))
}

/// Releases the pipes and all permissions that the keeper does not need. Closes `release_writer` as soon as the pipes are
/// released.
fn release(jailed: bool, release_writer: PipeWriter) -> Result<(), String> {
    let message = |error: rustix::io::Errno| error.to_string();
    exec::block_signals()?;
    let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(message)?;
    rustix::stdio::dup2_stdin(&null).map_err(message)?;
    rustix::stdio::dup2_stdout(&null).map_err(message)?;
    rustix::stdio::dup2_stderr(&null).map_err(message)?;
    drop((null, release_writer));
    // Without a jail, the strategy can kill this process, so a filter would add nothing. The machine may also support
    // no filter.
    if jailed { filter::allow_only_wait_and_kill() } else { Ok(()) }
}
