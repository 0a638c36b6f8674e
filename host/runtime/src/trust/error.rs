//! Errors of trust: a plugin must not be started, or trust cannot be read or written.

use std::io;
use std::path::PathBuf;

use jp_compact_schema::Mismatch;

use super::candidate::Candidate;
use super::modes::Insecure;
use crate::registry::MANIFEST_FILE;

/// A lock file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to read the trust lock {}", path.display())]
pub struct LockError {
    pub path: PathBuf,
    #[source]
    pub cause: LockCause,
}

/// The reason why a lock file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LockCause(pub(super) String);

/// A plugin must not be started, or trust cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The manifest is invalid.
    #[error("{}: {reason}", path.join(MANIFEST_FILE).display())]
    BadManifest { path: PathBuf, reason: String },
    /// The manifest names no protocol version that this host supports.
    #[error(transparent)]
    Version(Mismatch),
    /// The bytes of the plugin are not trusted.
    #[error("{}", untrusted_message(.0))]
    NotTrusted(Box<Candidate>),
    /// Another user could change the plugin.
    #[error("{0}")]
    Insecure(Insecure),
    /// The host cannot determine which files the plugin executes, so its digest cannot cover them.
    #[error("{}: {reason}", path.display())]
    NotCovered { path: PathBuf, reason: String },
    /// The path of the plugin is not valid UTF-8, so it cannot be recorded.
    #[error("failed to record trust for {}: the path is not valid UTF-8", path.display())]
    PathNotText { path: PathBuf },
    /// The state folder is unknown.
    #[error("failed to find the state folder; set HOME or XDG_STATE_HOME")]
    NoState,
    #[error("failed to read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("failed to write to {}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

fn untrusted_message(candidate: &Candidate) -> String {
    let path = candidate.plugin.real.display();
    let change = if candidate.changed { ": it changed since it was trusted or checked" } else { "" };
    let runs = candidate.runs().iter().map(|file| format!("; it runs {}", file.real.display()));
    format!("{path} (sha256 {}){change}{}", candidate.sha256, runs.collect::<String>())
}
