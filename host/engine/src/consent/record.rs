//! The approvals of the user in the state folder. Each approved folder has one record with the digests of the values
//! that were shown. An invalid record approves nothing. If other users can write to the folder of the records, no
//! record is used. Approvals are decisions of the user and not a [`Cache`](private_file::Cache), so a failure to read
//! or write one is an error. The path and the version of each record are checked.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jp_compact_runtime::digest;
use jp_compact_runtime::environment::{self, Environment};
use jp_compact_runtime::trust::{self, Insecure};
use jp_compact_runtime::{private_file, small_file};
use serde::{Deserialize, Serialize};

use jp_compact_config::{ForeignValue, ModelDecision};

/// The version of the record format.
const RECORD_VERSION: u32 = 1;
/// The maximum number of approved values per folder.
const DIGESTS_MAX: usize = 512;

/// The approvals of the user.
#[derive(Debug, Clone)]
pub struct Approvals {
    /// The folder of the records. `None` if the state folder is unknown.
    folder: Option<PathBuf>,
}

/// The approvals of one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The version of the record format.
    record: u32,
    /// The path of the folder, without symbolic links.
    pub path: String,
    /// The digests of the approved values.
    pub sha256: Vec<String>,
}

/// The approvals cannot be trusted, read, or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalsError {
    /// The state folder is unknown.
    NoState,
    /// Another user could have written the records.
    Insecure(Insecure),
    /// The path is not valid UTF-8, so it cannot be recorded.
    NotUtf8(PathBuf),
    /// The operating system reported an error.
    Io(PathBuf, String),
}

impl Approvals {
    /// Opens the approvals of the user without reading or writing them.
    #[must_use]
    pub fn open(environment: &Environment) -> Self {
        Self { folder: environment.state().map(|state| state.join("approved")) }
    }

    /// Returns whether the user approved exactly this decision for a folder.
    ///
    /// # Errors
    /// The approvals cannot be trusted or read.
    pub fn covers(&self, root: &Path, decision: &ModelDecision) -> Result<bool, ApprovalsError> {
        let Some(folder) = &self.folder else { return Ok(false) };
        check_permissions(folder)?;
        let Some(path) = real_path(root) else { return Ok(false) };
        let approval = read(&record_path(folder, &path)).map_err(|error| io_error(folder, &error))?;
        let sha256 = decision.sha256();
        Ok(approval.is_some_and(|approval| approval.path == path && approval.sha256.contains(&sha256)))
    }

    /// Approves these values for a folder. Earlier approvals stay valid.
    ///
    /// # Errors
    /// The approval cannot be recorded.
    pub fn approve(&self, root: &Path, values: &[ForeignValue]) -> Result<(), ApprovalsError> {
        let folder = self.folder.as_ref().ok_or(ApprovalsError::NoState)?;
        check_permissions(folder)?;
        let path = real_path(root).ok_or_else(|| ApprovalsError::NotUtf8(root.to_owned()))?;
        let record = record_path(folder, &path);
        let previous = read(&record).map_err(|error| io_error(folder, &error))?;
        let previous = previous.filter(|approval| approval.path == path);
        let mut sha256 = previous.map(|approval| approval.sha256).unwrap_or_default();
        for digest in values.iter().map(|foreign| foreign.decision.sha256()) {
            sha256.retain(|previous| *previous != digest);
            sha256.push(digest);
        }
        // The limit keeps the record small. The user must approve the oldest values again.
        sha256.drain(..sha256.len().saturating_sub(DIGESTS_MAX));
        serde_json::to_vec_pretty(&Approval { record: RECORD_VERSION, path, sha256 })
            .map_err(io::Error::from)
            .and_then(|json| private_file::write_durably(&record, &json, private_file::PRIVATE))
            .map_err(|error| io_error(folder, &error))
    }

    /// Removes all approvals of a folder. The folder may have been deleted. Returns whether there were approvals.
    ///
    /// # Errors
    /// The approvals cannot be removed.
    pub fn withdraw(&self, root: &Path) -> Result<bool, ApprovalsError> {
        let Some(folder) = &self.folder else { return Ok(false) };
        let path = real_path(root).ok_or_else(|| ApprovalsError::NotUtf8(root.to_owned()))?;
        match fs::remove_file(record_path(folder, &path)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(io_error(folder, &error)),
        }
    }

    /// Returns the approvals of every folder, sorted by path.
    ///
    /// # Errors
    /// The approvals cannot be trusted or read.
    pub fn all(&self) -> Result<Vec<Approval>, ApprovalsError> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        check_permissions(folder)?;
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error(folder, &error)),
        };
        let mut approvals: Vec<Approval> = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| io_error(folder, &error))?.path();
            approvals.extend(read(&path).map_err(|error| io_error(folder, &error))?);
        }
        approvals.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(approvals)
    }
}

fn real_path(path: &Path) -> Option<String> {
    environment::real_path(path).to_str().map(str::to_owned)
}

fn record_path(folder: &Path, approved_path: &str) -> PathBuf {
    folder.join(format!("{}.json", digest::of_bytes(approved_path.as_bytes())))
}

/// Checks that no other user can write to the folder of the records.
fn check_permissions(folder: &Path) -> Result<(), ApprovalsError> {
    match trust::insecure_folder(folder) {
        Ok(None) => Ok(()),
        Ok(Some(insecure)) => Err(ApprovalsError::Insecure(insecure)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error(folder, &error)),
    }
}

fn io_error(folder: &Path, error: &io::Error) -> ApprovalsError {
    ApprovalsError::Io(folder.to_owned(), error.to_string())
}

/// Reads a record. Returns `None` if it does not exist or is invalid.
fn read(path: &Path) -> io::Result<Option<Approval>> {
    let Some(bytes) = small_file::read(path, small_file::RECORD)? else { return Ok(None) };
    match serde_json::from_slice::<Approval>(&bytes) {
        Ok(approval) if approval.record == RECORD_VERSION => Ok(Some(approval)),
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
            Self::NotUtf8(_) => "rename the folder so that its path is valid UTF-8".into(),
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
            Self::NotUtf8(path) => write!(f, "the path {} is not valid UTF-8", path.display()),
            Self::Io(path, reason) => {
                write!(f, "failed to use the approvals in {}: {reason}", path.display())
            }
        }
    }
}

impl std::error::Error for ApprovalsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_for_a_foreign_folder_is_about_the_folder() {
        let insecure = Insecure { path: "/approved".into(), mode: 0o700, why: trust::Why::Owner(65534) };
        assert_eq!(
            ApprovalsError::Insecure(insecure).hint(),
            "run `chown \"$(id -u)\" /approved` so that other users cannot change it"
        );
    }
}
