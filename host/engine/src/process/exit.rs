//! Waiting for a child's exit without reaping it. A zombie keeps its number, so that a signal to
//! its group cannot reach a stranger. (The runtime's own way to wait reaps.)

use std::io;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The news that some child has exited, from the moment when it was made.
#[derive(Debug)]
pub(super) struct Exits(Signal);

impl Exits {
    /// Made before the spawn, so that no exit comes too early to be heard.
    pub(super) fn listen() -> io::Result<Self> {
        signal(SignalKind::child()).map(Self)
    }

    /// Resolves when this child has exited, now or before.
    pub(super) async fn of(&mut self, pid: Pid) {
        while still_running(pid) {
            self.0.recv().await;
        }
    }
}

fn still_running(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}
