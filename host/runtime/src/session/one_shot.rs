//! The processes of strategies: one per request, or a worker. No other module of this crate builds their launch.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use bytes::Bytes;
use jp_compact_core::reply::{self, CompleteReply, ReplyLine, ReplyViolation, Terminal};
use jp_compact_schema::version::{DESCRIBE_DEADLINE_MS, RESULT_BYTES_MAX};
use tokio::process::{ChildStdin, ChildStdout};

use super::error::Error;
use super::stderr_log::{self, StderrLog};
use super::watch::{LineScanner, Watch};
use super::{Confined, Described, Spool};
use crate::process::{
    self, Ended, GRACE, Launch, OutputCallbacks, PRIVATE_BYTES_MAX, ProcessError, Stderr, Worker,
};

/// Starts processes of strategies.
#[derive(Debug, Clone)]
pub struct Starter {
    /// The path of `compact-runner`.
    pub runner: PathBuf,
    /// The folder for private directories.
    pub temp_dir: PathBuf,
    /// The size limit of a private directory.
    pub private_bytes_max: u64,
    /// The time limit for `describe`.
    pub describe_deadline: Duration,
    /// The folder for large requests. It must exist before a process that can read it starts.
    pub spool: Option<std::sync::Arc<Spool>>,
}

/// Returns the time limit for `describe`: that of the protocol, or the limit that the user set for requests, if it is
/// longer. An interpreter on a busy machine may need more than two seconds to start.
#[must_use]
pub fn describe_deadline(from_user: Option<Duration>) -> Duration {
    Duration::from_millis(DESCRIBE_DEADLINE_MS).max(from_user.unwrap_or_default())
}

impl Starter {
    /// Creates a starter with the default size limit of private directories, and without a folder for large requests.
    #[must_use]
    pub fn new(runner: &Path, temp_dir: &Path) -> Self {
        Self {
            runner: runner.to_owned(),
            temp_dir: temp_dir.to_owned(),
            private_bytes_max: PRIVATE_BYTES_MAX,
            describe_deadline: describe_deadline(None),
            spool: None,
        }
    }

    fn launch<'a>(
        &'a self,
        confined: &'a Confined,
        args: &'a [&'a str],
        env: &'a [(String, String)],
        stdin: Vec<Bytes>,
        deadline: Duration,
    ) -> Launch<'a> {
        Launch {
            runner: &self.runner,
            program: &confined.program,
            confinement: confined.confinement(),
            args,
            stdin,
            env,
            temp_dir: &self.temp_dir,
            private_bytes_max: self.private_bytes_max,
            deadline,
            grace: GRACE,
            stdout_bytes_max: usize::try_from(RESULT_BYTES_MAX).unwrap_or(usize::MAX),
        }
    }

    pub(super) async fn run(
        &self,
        confined: &Confined,
        verb: &str,
        stdin: Vec<Bytes>,
        deadline: Duration,
        on_stdout: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<Ended, Error> {
        let (args, env) = (confined.args(verb), confined.env());
        let launch = self.launch(confined, &args, &env, stdin, deadline);
        let mut stderr_log =
            StderrLog::new(confined.cleared.plugin.name.as_str(), confined.copy_and_original());
        let callbacks = OutputCallbacks { stdout: on_stdout, stderr: &mut |bytes| stderr_log.append(bytes) };
        let mut kept_stderr = Stderr::default();
        let ended = process::run_with_callbacks(launch, callbacks, &mut kept_stderr).await;
        match &ended {
            Ok(Ended { stderr, .. }) | Err(ProcessError::Deadline { stderr, .. }) => stderr_log.end(stderr),
            Err(_) => stderr_log.end(&kept_stderr),
        }
        let ended = ended.map(|mut ended| {
            confined.show_original_path(&mut ended.stderr);
            ended
        });
        let ended = ended.map_err(|error| {
            Error::Process(match error {
                ProcessError::Start { program, reason } => {
                    ProcessError::Start { program: confined.display_path(program), reason }
                }
                ProcessError::Deadline { deadline, mut stderr } => {
                    confined.show_original_path(&mut stderr);
                    ProcessError::Deadline { deadline, stderr }
                }
                other => other,
            })
        })?;
        self.log_exit(confined, verb, ended.status);
        Ok(ended)
    }

    pub(super) fn worker(
        &self,
        described: &Described,
    ) -> Result<(Worker, ChildStdin, ChildStdout), ProcessError> {
        let confined = &described.confined;
        let (args, env) = (confined.args("worker"), confined.env());
        Worker::spawn(&self.launch(confined, &args, &env, Vec::new(), Duration::MAX))
    }

    /// Logs how a process ended.
    pub(super) fn log_exit(&self, confined: &Confined, verb: &str, status: ExitStatus) {
        let (name, program) = (confined.cleared.plugin.name.as_str(), &confined.program);
        tracing::debug!(strategy = name, program = %program.display(), verb, %status, "strategy ended");
    }

    /// Sends one request and reads the whole reply.
    ///
    /// # Errors
    /// The process failed, or its output is not a valid reply to `id`.
    pub(super) async fn compact(
        &self,
        described: &Described,
        id: &str,
        request: Vec<Bytes>,
        deadline: Duration,
        watch: &dyn Watch,
    ) -> Result<CompleteReply, Error> {
        let (confined, name) = (&described.confined, &described.description.name);
        let (mut scanner, mut log_count) = (LineScanner::default(), 0);
        let mut on_stdout = |output: &[u8]| {
            scanner.read(output, id, |line| match line {
                ReplyLine::Progress(progress) => watch.progress(name, id, progress),
                ReplyLine::Log(log) => {
                    log_count += 1;
                    stderr_log::log_at_most(name, log, log_count);
                }
                ReplyLine::Terminal(_) | ReplyLine::Nothing => {}
            });
        };
        let ended = self.run(confined, "run", request, deadline, &mut on_stdout).await?;
        let answer = match reply::read(&ended.stdout, id) {
            // A process that fails without a reply has crashed. The missing reply is not a protocol violation then.
            Err(ReplyViolation::NoTerminal) if !ended.status.success() => {
                return Err(Error::Crashed { status: ended.status, answered: false, stderr: ended.stderr });
            }
            other => other.map_err(Error::Violation)?,
        };
        match answer.terminal {
            Terminal::Error(error) => Err(Error::Reported { error, status: ended.status }),
            _ if !ended.status.success() => {
                Err(Error::Crashed { status: ended.status, answered: true, stderr: ended.stderr })
            }
            terminal => Ok(CompleteReply { terminal, logs: answer.logs }),
        }
    }
}
