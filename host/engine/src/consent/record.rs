//! The approvals of the user in the state folder. There is one file per folder, with the digests of the values that
//! were shown. An unreadable file approves nothing. A folder that other users can write to is not used.
//! Approvals are decisions of the user and not a [`Cache`](private_file::Cache): a failure to read or write one is an
//! error, and the path and the version of each record are checked.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jp_compact_runtime::digest::of_bytes;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::trust::{self, Insecure};
use jp_compact_runtime::{private_file, small_file};
use serde::{Deserialize, Serialize};

use crate::config::{Foreign, ModelDecision};

/// The version of the record format.
const RECORD: u32 = 1;
/// The maximum number of approvals per folder.
const DIGESTS_MAX: usize = 512;

/// The approvals of the user.
#[derive(Debug, Clone)]
pub struct Approvals {
    /// `None` if the state folder is unknown.
    folder: Option<PathBuf>,
}

/// The approvals of one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The version of the record format.
    record: u32,
    /// The real path of the folder.
    pub path: String,
    /// The digests of the approved values.
    pub sha256: Vec<String>,
}

/// The approvals cannot be trusted, read, or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalsError {
    /// The state folder is unknown.
    NoState,
    /// Another user could have written them.
    Insecure(Insecure),
    /// The path is not valid UTF-8, so it cannot be recorded.
    NotText(PathBuf),
    /// The system reported an error.
    Io(PathBuf, String),
}

impl Approvals {
    /// Opens the approvals of the user without reading or writing them.
    #[must_use]
    pub fn open(environment: &Environment) -> Self {
        Self { folder: environment.state().map(|state| state.join("approved")) }
    }

    /// Returns whether a value was approved for a folder in exactly this form.
    ///
    /// # Errors
    /// The approvals cannot be trusted or read.
    pub fn covers(&self, root: &Path, subject: &ModelDecision) -> Result<bool, ApprovalsError> {
        let Some(folder) = &self.folder else { return Ok(false) };
        check(folder)?;
        let Some(root) = real(root) else { return Ok(false) };
        let approval = read(&file(folder, &root)).map_err(|error| failed(folder, &error))?;
        let sha256 = subject.sha256();
        Ok(approval.is_some_and(|approval| approval.path == root && approval.sha256.contains(&sha256)))
    }

    /// Approves these values for a folder, in addition to earlier ones.
    ///
    /// # Errors
    /// The approval cannot be recorded.
    pub fn approve(&self, root: &Path, shown: &[Foreign]) -> Result<(), ApprovalsError> {
        let folder = self.folder.as_ref().ok_or(ApprovalsError::NoState)?;
        check(folder)?;
        let root = real(root).ok_or_else(|| ApprovalsError::NotText(root.to_owned()))?;
        let path = file(folder, &root);
        let known = read(&path).map_err(|error| failed(folder, &error))?.filter(|known| known.path == root);
        let mut sha256 = known.map(|known| known.sha256).unwrap_or_default();
        for digest in shown.iter().map(|foreign| foreign.subject.sha256()) {
            sha256.retain(|known| *known != digest);
            sha256.push(digest);
        }
        // Keeps the file small. The user is asked again about the oldest values.
        sha256.drain(..sha256.len().saturating_sub(DIGESTS_MAX));
        let written = serde_json::to_vec_pretty(&Approval { record: RECORD, path: root, sha256 })
            .map_err(io::Error::from)
            .and_then(|text| private_file::write_durably(&path, &text, private_file::PRIVATE));
        written.map_err(|error| failed(folder, &error))
    }

    /// Removes all approvals of a folder, which may no longer exist. Returns whether there were any.
    ///
    /// # Errors
    /// The approvals cannot be removed.
    pub fn withdraw(&self, root: &Path) -> Result<bool, ApprovalsError> {
        let Some(folder) = &self.folder else { return Ok(false) };
        let root = real(root).ok_or_else(|| ApprovalsError::NotText(root.to_owned()))?;
        match fs::remove_file(file(folder, &root)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(folder, &error)),
        }
    }

    /// Returns every folder with approvals.
    ///
    /// # Errors
    /// The approvals cannot be trusted or read.
    pub fn all(&self) -> Result<Vec<Approval>, ApprovalsError> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        check(folder)?;
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(folder, &error)),
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| failed(folder, &error))?.path();
            all.extend(read(&path).map_err(|error| failed(folder, &error))?);
        }
        all.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(all)
    }
}

/// Returns the path for the record. A deleted folder keeps its old path.
fn real(root: &Path) -> Option<String> {
    let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    real.to_str().map(str::to_owned)
}

fn file(folder: &Path, root: &str) -> PathBuf {
    folder.join(format!("{}.json", of_bytes(root.as_bytes())))
}

fn check(folder: &Path) -> Result<(), ApprovalsError> {
    match trust::insecure_folder(folder) {
        Ok(None) => Ok(()),
        Ok(Some(insecure)) => Err(ApprovalsError::Insecure(insecure)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(folder, &error)),
    }
}

fn failed(folder: &Path, error: &io::Error) -> ApprovalsError {
    ApprovalsError::Io(folder.to_owned(), error.to_string())
}

fn read(path: &Path) -> io::Result<Option<Approval>> {
    let Some(bytes) = small_file::read(path, small_file::RECORD)? else { return Ok(None) };
    match serde_json::from_slice::<Approval>(&bytes) {
        Ok(approval) if approval.record == RECORD => Ok(Some(approval)),
        Ok(_) => Ok(None),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "ignored an unreadable approval");
            Ok(None)
        }
    }
}

impl ApprovalsError {
    /// Returns the next step for the user.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NoState => "set HOME, or XDG_STATE_HOME to an absolute path".into(),
            Self::Insecure(insecure) => {
                format!("run {} so that other users cannot change it", insecure.remedy())
            }
            Self::NotText(_) => "rename the folder so that its path is valid UTF-8".into(),
            Self::Io(..) => {
                "approvals are kept below $XDG_STATE_HOME/jp-compact, or ~/.local/state/jp-compact".into()
            }
        }
    }
}

impl fmt::Display for ApprovalsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoState => {
                f.write_str("failed to find the folder for approvals: neither XDG_STATE_HOME nor HOME is set")
            }
            Self::Insecure(insecure) => write!(f, "{insecure}"),
            Self::NotText(path) => write!(f, "the path {} is not valid UTF-8", path.display()),
            Self::Io(path, what) => write!(f, "failed to use the approvals in {}: {what}", path.display()),
        }
    }
}

impl std::error::Error for ApprovalsError {}
