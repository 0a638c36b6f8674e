//! A long-lived process. It is spawned like every other process. The caller owns stdin and stdout. This
//! module drains stderr and ends the process. It must not know the protocol or the deadlines of requests.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::child::Child;
use super::pipes::drain;
use super::{Exceeded, Launch, PIPES_OPEN_MAX, ProcessError, Stderr, not_started};

/// A running worker. Dropping it kills its process group.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    stderr_pipe: Option<ChildStderr>,
    stderr: Stderr,
}

/// The status and stderr of a worker that has ended.
#[derive(Debug)]
pub struct WorkerEnded {
    /// The exit code or signal.
    pub status: ExitStatus,
    /// The kept part of stderr.
    pub stderr: Stderr,
    /// The limit that its private directory or its memory exceeded.
    pub exceeded: Option<Exceeded>,
}

impl WorkerEnded {
    /// Returns why the program did not start. Only meaningful if the process wrote nothing to stdout.
    #[must_use]
    pub fn not_started(&self, program: &Path) -> Option<String> {
        not_started(program, self.status, &[], &self.stderr)
    }
}

impl Worker {
    /// Starts a worker. This module does not write `stdin` and does not enforce the deadline or the limit of stdout.
    /// The caller does.
    ///
    /// # Errors
    /// The runner could not be started.
    pub fn spawn(launch: &Launch<'_>) -> Result<(Self, ChildStdin, ChildStdout), ProcessError> {
        let mut child = Child::spawn(launch)?;
        let (stdin, stdout, stderr_pipe) = child.take_pipes()?.into_pipes();
        Ok((Self { child, stderr_pipe: Some(stderr_pipe), stderr: Stderr::default() }, stdin, stdout))
    }

    /// Drains stderr until the process has exited. Must be polled for as long as the process lives.
    pub async fn exited(&mut self) {
        self.exited_with(&mut |_| {}).await;
    }

    /// Same as [`Worker::exited`], and passes stderr to a callback while it arrives.
    pub async fn exited_with(&mut self, on_stderr: &mut (dyn FnMut(&[u8]) + Send)) {
        let Self { child, stderr_pipe, stderr } = self;
        let drain_stderr = async {
            if let Some(pipe) = stderr_pipe {
                // A read error ends the text like a closed pipe does.
                let _ = drain(pipe, stderr, on_stderr).await;
                *stderr_pipe = None;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = child.exited() => {}
            () = drain_stderr => {}
        }
    }

    /// Waits for the process to exit by itself, then sends SIGTERM, then SIGKILL. The caller must have closed stdin.
    ///
    /// # Errors
    /// The process could not be watched.
    pub async fn end(self, exit_time_max: Duration, grace: Duration) -> Result<WorkerEnded, ProcessError> {
        self.end_with(exit_time_max, grace, &mut |_| {}).await
    }

    /// Same as [`Worker::end`], and passes stderr to a callback while it arrives.
    pub async fn end_with(
        mut self,
        exit_time_max: Duration,
        grace: Duration,
        on_stderr: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<WorkerEnded, ProcessError> {
        if timeout(exit_time_max, self.exited_with(on_stderr)).await.is_err() {
            self.child.terminate();
            let _ = timeout(grace, self.exited_with(on_stderr)).await;
        }
        let Self { child, mut stderr_pipe, mut stderr } = self;
        let (status, exceeded) = child.end().await.map_err(ProcessError::Io)?;
        if let Some(pipe) = &mut stderr_pipe {
            let _ = timeout(PIPES_OPEN_MAX, drain(pipe, &mut stderr, on_stderr)).await;
        }
        Ok(WorkerEnded { status, stderr, exceeded })
    }
}
