//! The input of a hook. Claude Code, Codex, and Gemini CLI write the same members to stdin.

use std::path::PathBuf;

use jp_compact_runtime::environment::Environment;
use jp_compact_store::StoreError;
use serde::Deserialize;

use crate::error::SessionError;
use crate::find::find;

/// The members of a hook's input that are read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct HookInput {
    pub hook_event_name: Option<String>,
    /// At the start of a session: `startup`, `resume`, `clear`, or `compact`.
    pub source: Option<String>,
    pub session_id: Option<String>,
    pub transcript_path: Option<PathBuf>,
}

/// Returns the file of the session for which a hook runs: the file that the agent names, else the file of the session
/// with the given id.
///
/// # Errors
/// The agent names no existing file, and no session has the id, or the agent names no session at all.
pub fn session_of_hook(input: &HookInput, environment: &Environment) -> Result<PathBuf, SessionError> {
    let named = input.transcript_path.as_ref().filter(|path| !path.as_os_str().is_empty());
    if let Some(path) = named.map(|path| environment.cwd.join(path)).filter(|path| path.is_file()) {
        return Ok(path);
    }
    match (input.session_id.as_deref(), named) {
        (Some(id), _) if !id.is_empty() => Ok(find(id, environment)?.path),
        (_, Some(path)) => Err(StoreError::NotFound { path: environment.cwd.join(path) }.into()),
        _ => Err(SessionError::Unnamed),
    }
}
