//! Ends the group of a strategy that was granted processes when the host ends and cannot do it itself. A process asks
//! to die with the host (`confine.rs`), and what it starts inherits no such request. So a second process of ours
//! stays beside such a strategy. It is in the strategy's group, so that whatever ends the group ends it too. It is a
//! child of the host's and not of the strategy's: the strategy has the children that it has started and no other, and
//! its exit status, its usage and its pipes are its own.
//!
//! The jail lets the strategy neither leave the group nor reach this process, which waits and can do nothing else
//! than kill its own group.

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Pid, PidfdFlags, Signal, kill_current_process_group, pidfd_open};

use crate::{confine, exec, filter};

/// Starts it, and returns its number.
pub(crate) fn start(host_pid: u32) -> Result<u32, String> {
    let failed = |what: &dyn std::fmt::Display| format!("the host's end cannot be waited for: {what}");
    let host =
        i32::try_from(host_pid).ok().and_then(Pid::from_raw).ok_or_else(|| failed(&"no such number"))?;
    let host = pidfd_open(host, PidfdFlags::empty()).map_err(|error| failed(&error))?;
    // It was opened before: so what is open is the host, and no process that has its number now.
    confine::is_child_of(host_pid)?;
    if let Some(keeper) = exec::copy().map_err(|error| failed(&error))? {
        return Ok(keeper);
    }
    // In the copy. Where it cannot wait, it is not safe to go on.
    if let_go().is_ok() {
        exec::wait_for_end_of(&host);
    }
    // With this it ends, too.
    let _ = kill_current_process_group(Signal::KILL);
    Err(failed(&"the group was not ended"))
}

/// Lets go of the pipes, and of all that it will not need.
fn let_go() -> Result<(), String> {
    let failed = |error: rustix::io::Errno| error.to_string();
    exec::block_signals()?;
    let nothing = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    rustix::stdio::dup2_stdin(&nothing).map_err(failed)?;
    rustix::stdio::dup2_stdout(&nothing).map_err(failed)?;
    rustix::stdio::dup2_stderr(&nothing).map_err(failed)?;
    drop(nothing);
    filter::let_nothing_but_wait_and_kill()
}
