//! Why a strategy's process gave no output that the host would look at. What was being run is
//! said by whoever ran it; these say what went wrong, as causes.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{Exceeded, Stderr};

/// A run that ended in another way than by the strategy's own exit.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProcessError {
    /// The runner itself could not be spawned.
    Runner {
        /// The runner's executable.
        runner: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Its private directory could not be made.
    NoPrivateDir {
        /// Where.
        temp_dir: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The runner could not start the program.
    Start {
        /// The strategy's executable.
        program: PathBuf,
        /// The runner's reason.
        reason: String,
    },
    /// The deadline passed; the strategy was killed.
    Deadline {
        /// How long it had.
        deadline: Duration,
        /// What it wrote to stderr meanwhile.
        stderr: Stderr,
    },
    /// It wrote more to stdout than it may, and was killed.
    OutputTooLarge {
        /// What it may write.
        bytes_max: usize,
    },
    /// It put too much into its private directory, and was killed.
    PrivateDirTooLarge(Exceeded),
    /// It exited, and something that it started kept its output open. That was killed.
    PipesHeldOpen,
    /// A pipe or the process could not be watched.
    Io(io::Error),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runner { runner, .. } => write!(f, "the runner {} could not be spawned", runner.display()),
            Self::NoPrivateDir { temp_dir, .. } => {
                write!(f, "its private directory could not be made in {}", temp_dir.display())
            }
            Self::Start { program, reason } => {
                write!(f, "{} could not be started: {reason}", program.display())
            }
            Self::Deadline { deadline, .. } => write!(f, "it did not end within {deadline:?}"),
            Self::OutputTooLarge { bytes_max } => write!(f, "it wrote more than {bytes_max} bytes to stdout"),
            Self::PrivateDirTooLarge(exceeded) => {
                write!(f, "it put {exceeded} into its private directory")
            }
            Self::PipesHeldOpen => write!(f, "it exited, but a process it started kept its output open"),
            Self::Io(_) => write!(f, "its pipes could not be followed"),
        }
    }
}

impl std::error::Error for ProcessError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Runner { source, .. } | Self::NoPrivateDir { source, .. } | Self::Io(source) => {
                Some(source)
            }
            _ => None,
        }
    }
}
