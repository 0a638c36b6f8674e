//! The replacement of an earlier fork by a new fork. The agent no longer finds the earlier fork, but the file stays,
//! because the agent may have added turns to it. Only a session that `jp-compact` made can be replaced, never an
//! original.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jp_compact_runtime::environment::Environment;
use jp_compact_store as store;

use crate::error::SessionError;
use crate::find::find;
use crate::origin::origin_in;

/// An agent that wrote a session within this time may still run.
const QUIET: Duration = Duration::from_secs(60);

/// An earlier fork that may be replaced.
#[derive(Debug)]
pub struct EarlierFork {
    path: PathBuf,
    /// The size and the time of the last change, when the fork was checked.
    state: (u64, SystemTime),
}

/// Finds an earlier fork by its path or id, and checks that it may be replaced.
///
/// # Errors
/// There is no such session, it is not a fork, it is the session to copy, or its agent may still write it.
pub fn earlier_fork(
    named: &OsStr,
    source: &Path,
    now: Timestamp,
    environment: &Environment,
) -> Result<EarlierFork, SessionError> {
    let typed = environment.cwd.join(named);
    let is_path = typed.exists();
    let path = if is_path { typed } else { find(&named.to_string_lossy(), environment)?.path };
    let refused = |reason| SessionError::NotReplaceable { path: path.clone(), reason };
    let state = state(&path)?.ok_or_else(|| refused("it is not a single file"))?;
    if origin_in(&store::read_file(&path)?).is_none() {
        return Err(refused("it is not a fork by jp-compact"));
    }
    let real = |path: &Path| path.canonicalize().ok();
    if real(&path) == real(source) {
        return Err(refused("it is the session to copy"));
    }
    let now = SystemTime::from(now);
    if now.duration_since(state.1).is_ok_and(|age| age < QUIET) || state.1 > now {
        return Err(refused("it was written in the last minute, so its agent may still run"));
    }
    Ok(EarlierFork { path, state })
}

impl EarlierFork {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the fork to a hidden name in its folder, and returns that path. At any time, at least one of the two names
    /// leads to the bytes.
    ///
    /// # Errors
    /// The fork has changed since the check, or the hidden name is taken.
    pub fn retire(self) -> Result<PathBuf, SessionError> {
        if state(&self.path)? != Some(self.state) {
            let reason = "it was written in the meantime, so its agent still runs";
            return Err(SessionError::NotReplaceable { path: self.path, reason });
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let hidden = self.path.with_file_name(format!(".{name}.replaced"));
        fs::hard_link(&self.path, &hidden).map_err(io_error("create", &hidden))?;
        fs::remove_file(&self.path).map_err(io_error("remove", &self.path))?;
        Ok(hidden)
    }
}

/// Returns the size and the time of the last change of a file. `None` if it is a link or not a file.
fn state(path: &Path) -> Result<Option<(u64, SystemTime)>, SessionError> {
    let metadata = path.symlink_metadata().map_err(io_error("read", path))?;
    let modified = metadata.modified().map_err(io_error("read", path))?;
    Ok(metadata.is_file().then_some((metadata.len(), modified)))
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> SessionError {
    let path = path.to_path_buf();
    move |source| SessionError::Io { doing, path, source }
}
