//! The errors of sessions. Each names the session or the file. The error of the operating system is its source.

use std::io;
use std::path::PathBuf;

use jp_compact_runtime::process::ProcessError;
use jp_compact_store::StoreError;

use crate::agent::Agent;

/// A session cannot be found, copied, or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// No file and no session has this name.
    #[error("no session has the id `{id}`")]
    NotFound { id: String },
    #[error("`{id}` is the beginning of several ids: {}", candidates.join(", "))]
    Ambiguous { id: String, candidates: Vec<String> },
    #[error("the hook's input names no session")]
    Unnamed,
    /// The transcript lacks the record that holds the id of the session.
    #[error("failed to fork {}: it has no {missing}", path.display())]
    Incomplete { path: PathBuf, missing: &'static str },
    /// The path of a new session cannot be derived: the agent's folder is unknown, or the folder of the project.
    #[error("failed to find a place for a new session of {agent}")]
    NoFolder { agent: Agent },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("failed to {doing} {}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("failed to find `{program}` in PATH")]
    NoProgram { program: &'static str },
    /// The agent cannot be started, so no session was made for it.
    #[error("failed to resume a session: {reason}")]
    NotStartable { reason: String },
    /// A session is not an earlier fork, or it may be in use.
    #[error("failed to replace {}: {reason}", path.display())]
    NotReplaceable { path: PathBuf, reason: &'static str },
    /// The agent's own program failed.
    #[error("failed to run `{command}`")]
    Program { command: String, source: ProcessError },
    #[error("`{command}` ended with {status}")]
    ProgramFailed { command: String, status: String },
    #[error("`{command}` printed an invalid list: {source}")]
    ProgramOutput { command: String, source: serde_json::Error },
    /// OpenCode did not import a new session. The file is kept, because it may be the only copy of a paid summary.
    #[error("failed to import {} into OpenCode", path.display())]
    NotImported { path: PathBuf, source: Box<Self> },
}
