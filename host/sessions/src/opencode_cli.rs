//! OpenCode's own program. Its sessions are in a database, so only the program reads and writes them.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::process;
use serde::Deserialize;

use crate::agent::Agent;
use crate::error::SessionError;
use crate::find::SessionFile;
use crate::fork::{NewSession, remove, write};
use crate::list::SessionRow;
use crate::resume_command::{ResumeCommand, quoted};

/// The name of the program.
const OPENCODE: &str = "opencode";
/// The current folder can be a cloned repository, whose plugins the program would execute.
const NO_PLUGINS: &str = "export OPENCODE_DISABLE_PROJECT_CONFIG=1 OPENCODE_PURE=1; ";
const DEADLINE: Duration = Duration::from_secs(60);
/// The time limit for the list, so that the sessions of other agents are not delayed for long.
const LIST_DEADLINE: Duration = Duration::from_secs(10);
const STDOUT_BYTES_MAX: usize = 16 << 20;

/// The installed program.
#[derive(Debug, Clone)]
pub struct OpenCode {
    program: PathBuf,
}

/// A row of `opencode session list --format json`.
#[derive(Debug, Deserialize)]
struct ListedSession {
    id: String,
    title: Option<String>,
    directory: Option<PathBuf>,
    updated: Option<u64>,
}

impl OpenCode {
    /// Finds the program in `PATH`.
    #[must_use]
    pub fn find(environment: &Environment) -> Option<Self> {
        let path = environment.variables.get("PATH")?;
        let programs = std::env::split_paths(&path).map(|folder| environment.cwd.join(folder).join(OPENCODE));
        programs.into_iter().find(|program| program.is_file()).map(|program| Self { program })
    }

    /// Returns whether a text has the form of a session's id.
    #[must_use]
    pub fn is_session_id(text: &str) -> bool {
        text.len() == 30
            && text.starts_with("ses_")
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    }

    /// Returns the command that imports a file, for the user.
    #[must_use]
    pub fn manual_import(file: &Path) -> String {
        format!("{OPENCODE} import {}", quoted(&file.display().to_string()))
    }

    /// Exports a session into a file. Into a pipe, the program writes only the first 64 or 128 KiB.
    ///
    /// # Errors
    /// The program failed.
    pub async fn export(&self, id: &str, file: &Path) -> Result<(), SessionError> {
        let script = r#"umask 077 && exec "$0" export "$1" > "$2""#;
        self.run(script, "export", &[id, &file.display().to_string()], DEADLINE).await.map(drop)
    }

    /// Imports a file in the folder of its session.
    ///
    /// # Errors
    /// The program failed.
    pub async fn import(&self, file: &Path, folder: Option<&Path>) -> Result<(), SessionError> {
        let folder = folder.filter(|folder| folder.is_dir()).unwrap_or(Path::new("."));
        let script = r#"cd "$2" && exec "$0" import "$1""#;
        let arguments = [&*file.display().to_string(), &*folder.display().to_string()];
        self.run(script, "import", &arguments, DEADLINE).await.map(drop)
    }

    /// Lists the sessions of the current project.
    ///
    /// # Errors
    /// The program failed, or its output is not valid.
    pub(crate) async fn list(&self) -> Result<Vec<SessionRow>, SessionError> {
        let command = "session list";
        let stdout = self.run(r#"exec "$0" session list --format json"#, command, &[], LIST_DEADLINE).await?;
        // Without sessions, the program prints nothing.
        let json = if stdout.trim_ascii().is_empty() { b"[]" } else { &stdout[..] };
        let listed: Vec<ListedSession> = serde_json::from_slice(json).map_err(|source| {
            SessionError::ProgramOutput { command: format!("{OPENCODE} {command}"), source }
        })?;
        Ok(listed.into_iter().map(ListedSession::into_row).collect())
    }

    async fn run(
        &self,
        script: &str,
        command: &str,
        arguments: &[&str],
        deadline: Duration,
    ) -> Result<Vec<u8>, SessionError> {
        let program = self.program.display().to_string();
        let script = format!("{NO_PLUGINS}{script}");
        let shell = ["sh", "-c", &script, &program];
        let words: Vec<String> = shell.iter().chain(arguments).map(|word| (*word).to_owned()).collect();
        let command = format!("{OPENCODE} {command}");
        match process::run_command(&words, deadline, STDOUT_BYTES_MAX).await {
            Ok((status, stdout)) if status.success() => Ok(stdout),
            Ok((status, _)) => Err(SessionError::ProgramFailed { command, status: status.to_string() }),
            Err(source) => Err(SessionError::Program { command, source }),
        }
    }
}

impl ListedSession {
    fn into_row(self) -> SessionRow {
        let modified = UNIX_EPOCH + Duration::from_millis(self.updated.unwrap_or_default());
        let file =
            SessionFile { agent: Agent::Opencode, id: self.id, path: PathBuf::new(), bytes: 0, modified };
        SessionRow { file, title: self.title, folder: self.directory, fork_of: None }
    }
}

/// An exported session in a private folder. Dropping it removes the folder.
#[derive(Debug)]
pub struct ExportedSession {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl ExportedSession {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Exports a session of OpenCode.
///
/// # Errors
/// The program is not installed, or it failed.
pub async fn export(id: &str, environment: &Environment) -> Result<ExportedSession, SessionError> {
    let program = OpenCode::find(environment).ok_or(SessionError::NoProgram { program: OPENCODE })?;
    let path = environment.temp_dir.clone();
    let folder = tempfile::Builder::new().prefix("jp-compact-").tempdir_in(&environment.temp_dir);
    let folder = folder.map_err(|source| SessionError::Io { doing: "create a folder in", path, source })?;
    let path = folder.path().join(format!("{id}.json"));
    program.export(id, &path).await?;
    Ok(ExportedSession { _folder: folder, path })
}

/// Writes a session. If it is a fork of a session in OpenCode's database (`is_imported`), OpenCode imports it. Any other
/// file of OpenCode may be foreign, and the import loads the configuration of the folder that the file names, so the
/// user gets the command.
///
/// # Errors
/// The session cannot be written, or the import failed.
pub async fn install(
    session: &mut NewSession,
    is_imported: bool,
    environment: &Environment,
) -> Result<(), SessionError> {
    write(session)?;
    if session.agent != Agent::Opencode {
        return Ok(());
    }
    match OpenCode::find(environment).filter(|_| is_imported) {
        Some(program) => {
            if let Err(error) = program.import(&session.path, session.folder.as_deref()).await {
                return Err(SessionError::NotImported { path: session.path.clone(), source: error.into() });
            }
            // The file is temporary.
            remove(session)?;
        }
        None => {
            let folder = session.folder.as_deref().filter(|folder| folder.is_dir());
            let file = session.path.display().to_string();
            let import = ResumeCommand::new(&[OPENCODE, "import", &file], folder, &environment.cwd);
            session.notes.push(format!("import it first: {import}"));
        }
    }
    Ok(())
}
