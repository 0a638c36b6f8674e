//! A process that lives on: spawned by the same door as every other, its stdin and stdout in the caller's hands,
//! its stderr and its end in ours. It knows no protocol, and no deadline but those of the end.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::child::Child;
use super::pipes::drain;
use super::{Exceeded, Launch, PIPES_OPEN_MAX, ProcessError, Stderr, not_started};

/// A long-lived process. Dropping it kills its group.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    pipe: Option<ChildStderr>,
    stderr: Stderr,
}

/// How a long-lived process ended.
#[derive(Debug)]
pub struct WorkerEnded {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// What was kept of stderr.
    pub stderr: Stderr,
    /// What it had put too much of into its private directory.
    pub exceeded: Option<Exceeded>,
}

impl WorkerEnded {
    /// Why the program did not start, when it ended by that; for a process that wrote nothing to stdout.
    #[must_use]
    pub fn not_started(&self, program: &Path) -> Option<String> {
        not_started(program, self.status, &[], &self.stderr)
    }
}

impl Worker {
    /// Starts one. Of the launch, `stdin` and the caps are the caller's business.
    ///
    /// # Errors
    ///
    /// The runner could not be spawned.
    pub fn spawn(launch: &Launch<'_>) -> Result<(Self, ChildStdin, ChildStdout), ProcessError> {
        let mut child = Child::spawn(launch)?;
        let (stdin, stdout, pipe) = child.take_pipes()?.apart();
        Ok((Self { child, pipe: Some(pipe), stderr: Stderr::default() }, stdin, stdout))
    }

    /// Drains stderr until the process has exited. It is to be polled for as long as the process lives.
    pub async fn exited(&mut self) {
        self.exited_heard(&mut |_| {}).await;
    }

    /// As [`Worker::exited`], and says what comes on stderr while it comes.
    pub async fn exited_heard(&mut self, heard: &mut (dyn FnMut(&[u8]) + Send)) {
        let Self { child, pipe, stderr } = self;
        let drained = async {
            if let Some(open) = pipe {
                // An error ends the text as its end does.
                let _ = drain(open, stderr, heard).await;
                *pipe = None;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = child.exited() => {}
            () = drained => {}
        }
    }

    /// Waits for it to go by itself, then asks it to, then makes it. The caller has closed stdin.
    ///
    /// # Errors
    ///
    /// The process could not be watched.
    pub async fn end(self, patience: Duration, grace: Duration) -> Result<WorkerEnded, ProcessError> {
        self.end_heard(patience, grace, &mut |_| {}).await
    }

    /// As [`Worker::end`], and says what comes on stderr while it comes.
    ///
    /// # Errors
    ///
    /// As [`Worker::end`].
    pub async fn end_heard(
        mut self,
        patience: Duration,
        grace: Duration,
        heard: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<WorkerEnded, ProcessError> {
        if timeout(patience, self.exited_heard(heard)).await.is_err() {
            self.child.terminate();
            let _ = timeout(grace, self.exited_heard(heard)).await;
        }
        let Self { child, mut pipe, mut stderr } = self;
        let (status, exceeded) = child.end().await.map_err(ProcessError::Io)?;
        if let Some(pipe) = &mut pipe {
            let _ = timeout(PIPES_OPEN_MAX, drain(pipe, &mut stderr, heard)).await;
        }
        Ok(WorkerEnded { status, stderr, exceeded })
    }
}
