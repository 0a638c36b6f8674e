//! The keeper of a strategy with subprocesses: a second process that kills the strategy's group if the host dies.
//!
//! A strategy requests a signal at the host's death (`confine.rs`), but its child processes do not inherit the request.
//! The keeper is in the strategy's group, so SIGKILL to the group also ends the keeper. It blocks all other signals. It
//! is a child of the host and not of the strategy. Therefore, it does not affect the strategy's children, exit status,
//! resource usage, or pipes.
//!
//! The keeper can only wait and kill its own group. In a jail, the strategy can neither leave the group nor reach the
//! keeper. Without a jail, it can do both, and the keeper kills only the processes that are still in the group.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{IntoRawFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Pid, PidfdFlags, Signal, kill_current_process_group, pidfd_open};
use rustix::stdio;

use crate::{confine, exec, filter};

/// The size of the control data for three descriptors.
const CONTROL_BYTES: usize = cmsg_space!(ScmRights(3));

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
    // The parent is checked after the open, so the descriptor refers to the host and not to a later process with the
    // same id.
    confine::check_parent(host_pid)?;
    // The copy must never have the pipes of the strategy. Otherwise, a strategy that closes its stdin could get a request
    // that no process reads, and the host would wait for the answer until the deadline. A copy that closes the pipes
    // itself would delay the strategy until that is done, so the pipes are in a socket while the process is copied.
    let pipes = ParkedPipes::park().map_err(|error| watch_error(&error))?;
    // Signals are blocked before the copy, so that none can end the keeper.
    exec::block_signals()?;
    if let Some(keeper) = exec::copy_process().map_err(|error| watch_error(&error))? {
        exec::unblock_signals()?;
        pipes.restore().map_err(|error| watch_error(&error))?;
        return Ok(Some(keeper));
    }
    // Only the copy gets here. Without a jail, the strategy can kill this process, so a filter would add nothing. The
    // machine may also support no filter. If the filter or the wait fails, the group is killed immediately.
    if !jailed || filter::allow_only_wait_and_kill().is_ok() {
        exec::wait_for_exit(&host);
    }
    // This also kills the keeper.
    let _ = kill_current_process_group(Signal::KILL);
    Err(watch_error(&"the group is still alive"))
}

/// The three pipes of the strategy, in a socket and not open in this process.
struct ParkedPipes {
    receiver: OwnedFd,
    _sender: OwnedFd,
}

impl ParkedPipes {
    /// Moves the descriptors 0, 1, and 2 into a socket.
    fn park() -> Result<Self, Errno> {
        let (sender, receiver) =
            socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let pipes = [stdio::stdin(), stdio::stdout(), stdio::stderr()];
        control.push(SendAncillaryMessage::ScmRights(&pipes));
        sendmsg(&sender, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
        exec::close_pipes();
        Ok(Self { receiver, _sender: sender })
    }

    /// Moves the descriptors back. The kernel assigns the lowest free numbers in order, which are 0, 1, and 2.
    fn restore(self) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        recvmsg(&self.receiver, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::empty())?;
        let mut numbers = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(pipes) = message {
                numbers.extend(pipes.map(IntoRawFd::into_raw_fd));
            }
        }
        if numbers == [0, 1, 2] { Ok(()) } else { Err(Errno::BADF) }
    }
}
