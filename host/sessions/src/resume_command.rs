//! The command with which a user resumes a session. `fork` prints it, and `resume` executes it.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::process;

use crate::error::SessionError;

/// The program that sets variables for another program.
pub(crate) const ENV: &str = "env";

/// A command and the folder in which it must run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeCommand {
    /// The folder of the session, if it is not the current folder.
    folder: Option<PathBuf>,
    words: Vec<String>,
}

impl ResumeCommand {
    pub(crate) fn new(words: &[&str], folder: Option<&Path>, current: &Path) -> Self {
        let folder = folder.filter(|folder| *folder != current).map(Path::to_path_buf);
        Self { folder, words: words.iter().map(|word| (*word).to_owned()).collect() }
    }

    /// Checks that the command can be started, before a session is made for it.
    ///
    /// # Errors
    /// The folder of the session does not exist, or the agent is not in `PATH`.
    pub fn check(&self, environment: &Environment) -> Result<(), SessionError> {
        if let Some(folder) = self.folder.as_deref().filter(|folder| !folder.is_dir()) {
            let reason = format!("its agent worked in {}, which does not exist", folder.display());
            return Err(SessionError::NotStartable { reason });
        }
        if self.program_in_path(environment).is_some() {
            return Ok(());
        }
        Err(SessionError::NotStartable { reason: format!("`{}` is not in PATH", self.program()) })
    }

    /// Returns the absolute path of the agent's program.
    fn program_in_path(&self, environment: &Environment) -> Option<PathBuf> {
        let path = environment.variables.get("PATH").unwrap_or_default();
        let mut paths =
            std::env::split_paths(&path).map(|folder| environment.cwd.join(folder).join(self.program()));
        paths.find(|path| {
            path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        })
    }

    /// Returns the name of the agent's program, which may follow `env` and its variables.
    fn program(&self) -> &str {
        let is_env = self.words.first().is_some_and(|word| word == ENV);
        let is_program = |word: &&String| !is_env || (*word != ENV && !word.contains('='));
        self.words.iter().find(is_program).map_or("", String::as_str)
    }

    /// Replaces this process with the command. Returns only if that fails.
    #[must_use]
    pub fn exec(&self, environment: &Environment) -> io::Error {
        // `exec` changes to the folder of the session. A relative folder in PATH would then be another folder, so the
        // program gets its absolute path.
        let path = self.program_in_path(environment);
        let path = path.as_deref().and_then(Path::to_str).unwrap_or(self.program());
        let mut words = self.words.clone();
        if let Some(program) = words.iter_mut().find(|word| *word == self.program()) {
            path.clone_into(program);
        }
        process::exec(&words, self.folder.as_deref())
    }
}

impl fmt::Display for ResumeCommand {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(folder) = &self.folder {
            write!(out, "cd {} && ", quoted(&folder.display().to_string()))?;
        }
        let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        out.write_str(&words.join(" "))
    }
}

/// Quotes a word for a shell, if that is necessary.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=@,+%".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use jp_compact_runtime::environment::Variables;

    use super::*;

    #[test]
    fn agent_after_env_must_be_in_path() {
        let folder = tempfile::tempdir().unwrap();
        let variables = Variables::These([("PATH".to_owned(), folder.path().display().to_string())].into());
        let environment = Environment { variables, ..Environment::bare("/") };
        let words = ["env", "OPENHANDS_CONVERSATIONS_DIR=/c", "openhands", "--resume", "a=1"];
        let command = ResumeCommand::new(&words, None, "/".as_ref());
        std::fs::write(folder.path().join("env"), "").unwrap();
        let error = command.check(&environment).unwrap_err();
        assert_eq!(error.to_string(), "failed to resume a session: `openhands` is not in PATH");
        let program = folder.path().join("openhands");
        std::fs::write(&program, "").unwrap();
        assert!(command.check(&environment).is_err(), "the file is not executable");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(command.check(&environment).is_ok());
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let command =
            ResumeCommand::new(&["pi", "--session", "/a b/it's"], Some("/x y".as_ref()), "/".as_ref());
        assert_eq!(command.to_string(), r"cd '/x y' && pi --session '/a b/it'\''s'");
        let here = ResumeCommand::new(&["codex", "resume", "a-1"], Some("/x".as_ref()), "/x".as_ref());
        assert_eq!(here.to_string(), "codex resume a-1");
    }
}
