//! Child processes. This is the only module of the host that spawns a process. It starts a strategy through
//! `compact-runner`, moves bytes through its three pipes concurrently, and enforces its deadline and limits. It must
//! not know the protocol.
//!
//! After every run (success, error, or a dropped future), no process of the strategy's group and no private directory
//! is left. The jail denies leaving the group (`setsid`). Without a jail, a process can leave the group. If
//! [`inherit_orphans`] was called, the host becomes its parent and kills it.
//!
//! There are two requirements for the caller. The thread that first polls [`run`] must live until the strategy has
//! ended, because the kernel ties the life of the strategy to the thread that spawned it. Use a current-thread runtime.
//! SIGPIPE must be ignored (the default of Rust programs), because a strategy may close stdin early.

mod child;
mod companion;
mod error;
mod exit;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod orphans;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[path = "orphans_unseen.rs"]
mod orphans;
mod pipes;
mod private_dir;
mod stderr;
#[cfg(target_os = "linux")]
mod threads;
#[cfg(not(target_os = "linux"))]
#[path = "threads_unbounded.rs"]
mod threads;
mod worker;

use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::timeout;

pub use companion::Companion;
pub use error::ProcessError;
pub use orphans::inherit_orphans;
pub(crate) use private_dir::PrivateDir;
pub use private_dir::{DEPTH_MAX, ENTRIES_MAX, Exceeded, left_behind};
pub use stderr::Stderr;
pub use threads::{TASKS_MAX, are_bounded};
pub use worker::{Worker, WorkerEnded};

use crate::jail::{Confinement, Tier};
use child::Child;
use pipes::{Pump, PumpError};

/// The default size limit of the private directory of a strategy.
pub const PRIVATE_BYTES_MAX: u64 = 256 << 20;
/// The time between SIGTERM and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(2);
/// The time that pipes may stay open after the strategy has exited.
const PIPES_OPEN_MAX: Duration = Duration::from_millis(250);
/// The exit code of the runner if it could not start the program.
const EXIT_NOT_STARTED: i32 = 126;

/// One strategy process: program, input, and limits.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// The `compact-runner` executable.
    pub runner: &'a Path,
    /// The strategy's executable or its interpreter.
    pub program: &'a Path,
    /// If this asks for a jail, the program runs in that jail or fails.
    pub confinement: Confinement<'a>,
    /// The last argument is the verb of the protocol: `describe`, `run`, or `worker`.
    pub args: &'a [&'a str],
    /// The chunks of stdin, in order. Stdin is closed after the last chunk. They are written without copying.
    pub stdin: Vec<Bytes>,
    /// The variables that were granted by name. They cannot replace the variables that every strategy has.
    pub env: &'a [(String, String)],
    /// The temporary directory of the host, in which the private directory is created.
    pub temp_dir: &'a Path,
    /// The size limit of the private directory. A strategy that exceeds it is killed.
    pub private_bytes_max: u64,
    /// Counted from the spawn. `Duration::MAX` for a worker, which has a deadline per request.
    pub deadline: Duration,
    /// The time between SIGTERM and SIGKILL. Always [`GRACE`], except in tests.
    pub grace: Duration,
    /// The size limit of stdout. A strategy that exceeds it is killed.
    pub stdout_bytes_max: usize,
}

/// The result of a strategy that exited by itself, within its deadline and limits. The caller decides whether
/// the result is a success.
#[derive(Debug)]
pub struct Ended {
    /// The exit code or signal.
    pub status: ExitStatus,
    /// The complete stdout.
    pub stdout: Vec<u8>,
    /// The kept part of stderr.
    pub stderr: Stderr,
    /// The time from the spawn to the end of the process and its output.
    pub wall: Duration,
    /// The tier at which the strategy ran.
    pub tier: Tier,
}

/// Runs one strategy until it exits. Dropping the future kills the strategy.
///
/// # Errors
/// The program could not be started, or the host had to kill it.
pub async fn run(launch: Launch<'_>) -> Result<Ended, ProcessError> {
    let callbacks = OutputCallbacks { stdout: &mut |_| {}, stderr: &mut |_| {} };
    run_with_callbacks(launch, callbacks, &mut Stderr::default()).await
}

/// Callbacks for output while it arrives. The output must not be trusted before the process has ended.
#[expect(missing_debug_implementations, reason = "functions have none")]
pub struct OutputCallbacks<'a> {
    /// Receives stdout in order.
    pub stdout: &'a mut (dyn FnMut(&[u8]) + Send),
    /// Receives stderr in order.
    pub stderr: &'a mut (dyn FnMut(&[u8]) + Send),
}

/// Same as [`run`], and passes output to callbacks while it arrives. If the error has no field for stderr, the kept
/// part of stderr is in `stderr`.
pub async fn run_with_callbacks(
    launch: Launch<'_>,
    callbacks: OutputCallbacks<'_>,
    stderr: &mut Stderr,
) -> Result<Ended, ProcessError> {
    let started = Instant::now();
    finish(Child::spawn(&launch)?, started, launch, callbacks, stderr).await
}

/// Same as [`run`], but stdin is a terminal. The bytes of `stdin` are typed there, and the terminal stays open.
pub async fn run_at_terminal(launch: Launch<'_>) -> Result<Ended, ProcessError> {
    let started = Instant::now();
    let callbacks = OutputCallbacks { stdout: &mut |_| {}, stderr: &mut |_| {} };
    finish(Child::spawn_at_terminal(&launch)?, started, launch, callbacks, &mut Stderr::default()).await
}

async fn finish(
    child: Child,
    started: Instant,
    launch: Launch<'_>,
    callbacks: OutputCallbacks<'_>,
    stderr: &mut Stderr,
) -> Result<Ended, ProcessError> {
    let limits =
        Limits { deadline: launch.deadline, grace: launch.grace, stdout_bytes_max: launch.stdout_bytes_max };
    let (status, stdout) = run_to_end(child, launch.stdin, stderr, &limits, callbacks).await?;
    let wall = started.elapsed();
    match not_started(launch.program, status, &stdout, stderr) {
        Some(reason) => Err(ProcessError::Start { program: launch.program.to_owned(), reason }),
        None => {
            let stderr = std::mem::take(stderr);
            Ok(Ended { status, stdout, stderr, wall, tier: launch.confinement.tier() })
        }
    }
}

/// Runs a command of the user, such as one that prints a key, with the environment of the user and without a
/// jail. Returns the exit status and stdout. Dropping the future kills the command.
///
/// # Errors
/// The command could not be started, did not end in time, or wrote too much.
pub async fn run_command(
    command: &[String],
    deadline: Duration,
    stdout_bytes_max: usize,
) -> Result<(ExitStatus, Vec<u8>), ProcessError> {
    let child = Child::spawn_command(command)?;
    let limits = Limits { deadline, grace: GRACE, stdout_bytes_max };
    let callbacks = OutputCallbacks { stdout: &mut |_| {}, stderr: &mut |_| {} };
    run_to_end(child, Vec::new(), &mut Stderr::default(), &limits, callbacks).await
}

/// Replaces this process with a command of the user, with its terminal and its environment. Returns only if that fails.
#[must_use]
pub fn exec(command: &[String], folder: Option<&Path>) -> std::io::Error {
    child::exec(command, folder)
}

/// The limits of a process.
struct Limits {
    deadline: Duration,
    grace: Duration,
    stdout_bytes_max: usize,
}

/// Moves bytes through the pipes until the process has ended. No process of its group is left afterwards.
async fn run_to_end(
    mut child: Child,
    stdin: Vec<Bytes>,
    stderr: &mut Stderr,
    limits: &Limits,
    callbacks: OutputCallbacks<'_>,
) -> Result<(ExitStatus, Vec<u8>), ProcessError> {
    let mut stdout = Vec::new();
    let pump = child.take_pipes()?.pump(stdin, &mut stdout, limits.stdout_bytes_max, stderr, callbacks);
    let result = wait_until_closed(&mut child, pump, limits.deadline, limits.grace).await;
    // Kills the rest of the group before an error is returned.
    let (status, exceeded) = child.end().await.map_err(ProcessError::Io)?;
    if let Some(exceeded) = exceeded {
        return Err(ProcessError::PrivateDirTooLarge(exceeded));
    }
    match result {
        Ok(()) => Ok((status, stdout)),
        Err(KillReason::Deadline) => {
            Err(ProcessError::Deadline { deadline: limits.deadline, stderr: std::mem::take(stderr) })
        }
        Err(KillReason::PipesHeldOpen) => Err(ProcessError::PipesHeldOpen),
        Err(KillReason::PumpError(PumpError::TooLarge)) => {
            Err(ProcessError::OutputTooLarge { bytes_max: limits.stdout_bytes_max })
        }
        Err(KillReason::PumpError(PumpError::Io(error))) => Err(ProcessError::Io(error)),
    }
}

/// The reason why the host ends a process.
enum KillReason {
    Deadline,
    PipesHeldOpen,
    PumpError(PumpError),
}

/// Waits for the process to exit and for its pipes to close, or until the process must be killed. This
/// function sends SIGTERM. The caller sends SIGKILL.
async fn wait_until_closed(
    child: &mut Child,
    pump: impl Future<Output = Result<(), PumpError>>,
    deadline: Duration,
    grace: Duration,
) -> Result<(), KillReason> {
    let mut pump = std::pin::pin!(pump);
    let mut pump = Pump::new(pump.as_mut());
    if pump.until(timeout(deadline, child.exited())).await.map_err(KillReason::PumpError)?.is_err() {
        child.terminate();
        // The pipes stay open so that the last output is read and the process cannot block on them. The exit
        // status no longer matters, because the deadline has passed.
        if let Ok(Ok(())) = pump.until(timeout(grace, child.exited())).await {
            let _ = timeout(PIPES_OPEN_MAX, pump.end()).await;
        }
        return Err(KillReason::Deadline);
    }
    match timeout(PIPES_OPEN_MAX, pump.end()).await {
        Ok(ended) => ended.map_err(KillReason::PumpError),
        Err(_) => Err(KillReason::PipesHeldOpen),
    }
}

/// Returns the runner's reason if it could not start the program. A strategy can print the same message, but
/// it gains nothing, because the result is an error in both cases.
fn not_started(program: &Path, status: ExitStatus, stdout: &[u8], stderr: &Stderr) -> Option<String> {
    if status.code() != Some(EXIT_NOT_STARTED) || !stdout.is_empty() {
        return None;
    }
    let text = stderr.text();
    let message = text.strip_prefix("compact-runner: failed to start ")?.trim_end();
    let prefix = format!("{}: ", program.display());
    Some(message.strip_prefix(&prefix).unwrap_or(message).to_owned())
}
