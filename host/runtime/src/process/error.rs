//! Errors of a process that did not start, or that did not end by itself within its limits.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{Exceeded, Stderr};

/// An error of a child process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    #[error("failed to start the runner {}", runner.display())]
    Runner { runner: PathBuf, source: io::Error },
    #[error("failed to create its private directory in {}", temp_dir.display())]
    NoPrivateDir { temp_dir: PathBuf, source: io::Error },
    /// The runner could not execute the program.
    #[error("failed to start {}: {reason}", program.display())]
    Start { program: PathBuf, reason: String },
    /// The process was killed at its deadline.
    #[error("it did not end within {deadline:?}")]
    Deadline { deadline: Duration, stderr: Stderr },
    /// The process wrote too much to stdout and was killed.
    #[error("it wrote more than {bytes_max} bytes to stdout")]
    OutputTooLarge { bytes_max: usize },
    /// The process exceeded a limit of its private directory or of its memory, and was killed.
    #[error("it {0}")]
    PrivateDirTooLarge(Exceeded),
    /// The process exited, but one of its children kept the output open. The child was killed.
    #[error("it exited, but a process it started kept its output open")]
    PipesHeldOpen,
    #[error("failed to communicate with the process, or to wait for it")]
    Io(#[source] io::Error),
}
