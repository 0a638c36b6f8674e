//! The wait for the exit of a child, without reaping it. A zombie keeps its process id, so a signal to its
//! group cannot reach an unrelated process. The wait function of the async runtime would reap it.

use std::io;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for SIGCHLD.
#[derive(Debug)]
pub(super) struct ExitSignals(Signal);

impl ExitSignals {
    /// Starts to listen. Must be called before the spawn. Otherwise an early exit could be missed.
    pub(super) fn listen() -> io::Result<Self> {
        signal(SignalKind::child()).map(Self)
    }

    /// Waits until this child has exited. Returns immediately if it already has.
    pub(super) async fn wait_for(&mut self, pid: Pid) {
        while is_running(pid) {
            self.0.recv().await;
        }
    }
}

fn is_running(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}
