//! What the user approved, in the user's state folder: one file for each folder, with the digests of what was shown.
//! A file that cannot be read approves nothing, and neither does a folder that others could write to.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::{Foreign, Subject};
use crate::environment::Environment;
use crate::trust::{self, Insecure};
use crate::{digest, private_file, small_file};

/// The version of a record's form.
const RECORD: u32 = 1;
/// One folder has no more approvals.
const DIGESTS_MAX: usize = 512;

/// The approvals of the user.
#[derive(Debug, Clone)]
pub struct Approvals {
    /// None: there is no state folder.
    folder: Option<PathBuf>,
}

/// What was approved for one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The version of this form.
    record: u32,
    /// The folder, symbolic links resolved.
    pub path: String,
    /// The digests of what was shown.
    pub sha256: Vec<String>,
}

/// The approvals cannot be believed, read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordError {
    /// There is no folder for them.
    NoState,
    /// Others could have written them.
    Insecure(Insecure),
    /// A path that is not text cannot be written down.
    NotText(PathBuf),
    /// What the system reports.
    Io(PathBuf, String),
}

impl Approvals {
    /// Those of the user. Nothing is read or written by that.
    #[must_use]
    pub fn open(environment: &Environment) -> Self {
        Self { folder: environment.state().map(|state| state.join("approved")) }
    }

    /// Whether a value was approved for a folder, just as it is now.
    ///
    /// # Errors
    /// The approvals cannot be believed or read.
    pub fn covers(&self, root: &Path, subject: &Subject) -> Result<bool, RecordError> {
        let Some(folder) = &self.folder else { return Ok(false) };
        check(folder)?;
        let Some(root) = real(root) else { return Ok(false) };
        let approval = read(&file(folder, &root)).map_err(|error| failed(folder, &error))?;
        let sha256 = subject.sha256();
        Ok(approval.is_some_and(|approval| approval.path == root && approval.sha256.contains(&sha256)))
    }

    /// Approves these values for a folder, with those that were approved before.
    ///
    /// # Errors
    /// It cannot be written down.
    pub fn approve(&self, root: &Path, shown: &[Foreign]) -> Result<(), RecordError> {
        let folder = self.folder.as_ref().ok_or(RecordError::NoState)?;
        check(folder)?;
        let root = real(root).ok_or_else(|| RecordError::NotText(root.to_owned()))?;
        let path = file(folder, &root);
        let known = read(&path).map_err(|error| failed(folder, &error))?.filter(|known| known.path == root);
        let mut sha256 = known.map(|known| known.sha256).unwrap_or_default();
        for digest in shown.iter().map(|foreign| foreign.subject.sha256()) {
            sha256.retain(|known| *known != digest);
            sha256.push(digest);
        }
        // The file stays small. The oldest are asked about again.
        sha256.drain(..sha256.len().saturating_sub(DIGESTS_MAX));
        let written = serde_json::to_vec_pretty(&Approval { record: RECORD, path: root, sha256 })
            .map_err(io::Error::from)
            .and_then(|text| private_file::write_durably(&path, &text, private_file::PRIVATE));
        written.map_err(|error| failed(folder, &error))
    }

    /// Withdraws every approval of a folder, which need not be there any more. Returns whether there was one.
    ///
    /// # Errors
    /// It cannot be withdrawn.
    pub fn withdraw(&self, root: &Path) -> Result<bool, RecordError> {
        let Some(folder) = &self.folder else { return Ok(false) };
        let root = real(root).ok_or_else(|| RecordError::NotText(root.to_owned()))?;
        match fs::remove_file(file(folder, &root)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(folder, &error)),
        }
    }

    /// Every folder that something is approved for.
    ///
    /// # Errors
    /// The approvals cannot be believed or read.
    pub fn all(&self) -> Result<Vec<Approval>, RecordError> {
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

/// The folder as it is written down: one that is gone is known by the path that it had.
fn real(root: &Path) -> Option<String> {
    let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    real.to_str().map(str::to_owned)
}

fn file(folder: &Path, root: &str) -> PathBuf {
    folder.join(format!("{}.json", digest::of_bytes(root.as_bytes())))
}

fn check(folder: &Path) -> Result<(), RecordError> {
    match trust::insecure_folder(folder) {
        Ok(None) => Ok(()),
        Ok(Some(insecure)) => Err(RecordError::Insecure(insecure)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(folder, &error)),
    }
}

fn failed(folder: &Path, error: &io::Error) -> RecordError {
    RecordError::Io(folder.to_owned(), error.to_string())
}

fn read(path: &Path) -> io::Result<Option<Approval>> {
    let Some(bytes) = small_file::read(path, small_file::RECORD)? else { return Ok(None) };
    match serde_json::from_slice::<Approval>(&bytes) {
        Ok(approval) if approval.record == RECORD => Ok(Some(approval)),
        Ok(_) => Ok(None),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "an approval cannot be read, and counts for nothing");
            Ok(None)
        }
    }
}

impl RecordError {
    /// What to do.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NoState => "set HOME, or XDG_STATE_HOME to an absolute path".into(),
            Self::Insecure(insecure) => format!("{} keeps others from changing it", insecure.remedy()),
            Self::NotText(_) => "give the folder a name that is text".into(),
            Self::Io(..) => {
                "approvals are kept below $XDG_STATE_HOME/jp-compact, or ~/.local/state/jp-compact".into()
            }
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoState => {
                f.write_str("there is no folder for approvals: neither XDG_STATE_HOME nor HOME is set")
            }
            Self::Insecure(insecure) => write!(f, "{insecure}"),
            Self::NotText(path) => write!(f, "the path {} is not text", path.display()),
            Self::Io(path, what) => write!(f, "failed to use the approvals in {}: {what}", path.display()),
        }
    }
}

impl std::error::Error for RecordError {}
