//! One exchange with one process: `describe`, or one `compact`. Takes nothing from a process that failed
//! (PROTOCOL.md, "Ends").

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use jp_compact_core::reply::{self, Answer, Terminal, Violation};
use jp_compact_schema::version::{DESCRIBE_DEADLINE_MS, RESULT_BYTES_MAX};
use jp_compact_schema::{DescribeRequest, Description, Host, agree, from_line, to_line};

use crate::environment::Environment;
use crate::failure::StrategyFailure;
use crate::process::{self, Ended, GRACE, Launch, ProcessError};
use crate::trust::Cleared;

/// A plugin that may run and has described itself.
#[derive(Debug, Clone)]
pub struct Described {
    /// The plugin, and what is started of it.
    pub cleared: Cleared,
    /// What it said.
    pub description: Description,
}

/// How processes are started.
#[derive(Debug, Clone)]
pub struct Starter {
    /// The runner's executable.
    pub runner: PathBuf,
    /// Where private directories are made.
    pub temp_dir: PathBuf,
}

impl Starter {
    async fn run(
        &self,
        cleared: &Cleared,
        verb: &str,
        stdin: Vec<u8>,
        deadline: Duration,
    ) -> Result<Ended, StrategyFailure> {
        let program = &*cleared.program;
        let args: Vec<_> = cleared.args.iter().map(String::as_str).chain([verb]).collect();
        let env = cleared.permissions.env.iter();
        let env: Vec<_> = env.filter_map(|name| Some((name.clone(), Environment::granted(name)?))).collect();
        let launch = Launch {
            runner: &self.runner,
            program,
            args: &args,
            stdin: vec![Bytes::from(stdin)],
            env: &env,
            temp_dir: &self.temp_dir,
            deadline,
            grace: GRACE,
            stdout_bytes_max: usize::try_from(RESULT_BYTES_MAX).unwrap_or(usize::MAX),
        };
        let ended = process::run(launch).await.map_err(|error| match error {
            // Where its copy lies would tell nobody which file it is.
            ProcessError::Start { program, reason }
                if cleared.folder.is_none() && program == cleared.program =>
            {
                let program = cleared.plugin.path.clone();
                StrategyFailure::Process(ProcessError::Start { program, reason })
            }
            other => StrategyFailure::Process(other),
        })?;
        tracing::debug!(program = %program.display(), verb, status = %ended.status, wall = ?ended.wall, "strategy ended");
        if ended.stderr.bytes() > 0 {
            tracing::info!(program = %program.display(), "{}", ended.stderr.text().trim_end());
        }
        Ok(ended)
    }

    /// Asks a plugin to describe itself. Whether what it says will do is for [`check`] to say.
    ///
    /// # Errors
    /// It cannot be started, fails, or says what is no description.
    pub async fn describe(&self, cleared: &Cleared) -> Result<Description, StrategyFailure> {
        let host = Host {
            name: "jp-compact".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            // What this host can do for a strategy beside the plain exchange: nothing yet.
            features: Vec::new(),
        };
        let question = to_line(&DescribeRequest::new(host)).unwrap_or_default();
        let deadline = Duration::from_millis(DESCRIBE_DEADLINE_MS);
        let ended = self.run(cleared, "describe", question, deadline).await?;
        if !ended.status.success() {
            return Err(StrategyFailure::Crashed {
                status: ended.status,
                answered: false,
                stderr: ended.stderr,
            });
        }
        read_description(&ended.stdout)
    }

    /// Sends one request and reads the whole reply.
    ///
    /// # Errors
    /// The process did not end well, or its output is no reply to `id`.
    pub async fn compact(
        &self,
        cleared: &Cleared,
        id: &str,
        request: Vec<u8>,
        deadline: Duration,
    ) -> Result<Answer, StrategyFailure> {
        let ended = self.run(cleared, "run", request, deadline).await?;
        let answer = match reply::read(&ended.stdout, id) {
            // Whoever fails without a word has crashed; what it did not say is no violation.
            Err(Violation::NoTerminal) if !ended.status.success() => {
                return Err(StrategyFailure::Crashed {
                    status: ended.status,
                    answered: false,
                    stderr: ended.stderr,
                });
            }
            other => other.map_err(StrategyFailure::Violation)?,
        };
        match answer.terminal {
            Terminal::Error(error) => Err(StrategyFailure::Reported { error, status: ended.status }),
            _ if !ended.status.success() => {
                Err(StrategyFailure::Crashed { status: ended.status, answered: true, stderr: ended.stderr })
            }
            terminal => Ok(Answer { terminal, logs: answer.logs }),
        }
    }
}

/// Whether a description is one that the host can work with, of the plugin that it was said of.
///
/// # Errors
/// It is not.
pub fn check(description: &Description, cleared: &Cleared) -> Result<(), StrategyFailure> {
    agree(&description.protocols).map_err(StrategyFailure::Version)?;
    let name = &cleared.plugin.name;
    if description.name != name.as_str() {
        let found_as = if cleared.plugin.manifest().is_some() { "manifest" } else { "file" };
        let what = format!("it calls itself `{}`, and its {found_as} is `{name}`", description.name);
        return Err(StrategyFailure::BadDescription { what });
    }
    if description.produces.is_empty() {
        let what = "it produces nothing: `produces` is empty".into();
        return Err(StrategyFailure::BadDescription { what });
    }
    Ok(())
}

/// Reads the one line that `describe` answers with.
fn read_description(output: &[u8]) -> Result<Description, StrategyFailure> {
    let bad = |what: String| StrategyFailure::BadDescription { what };
    let text =
        std::str::from_utf8(output).map_err(|error| bad(format!("its description is not UTF-8: {error}")))?;
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let Some(line) = lines.next() else { return Err(bad("it described nothing".into())) };
    if lines.next().is_some() {
        return Err(bad("it wrote more than one line for a description".into()));
    }
    from_line(line.as_bytes()).map_err(|error| bad(format!("its description cannot be read: {error}")))
}
