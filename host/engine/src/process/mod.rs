//! The process door: the one place of the host where anything is spawned. It starts a strategy
//! through `compact-runner`, moves bytes through its three pipes at once, and holds it to its
//! deadline and caps. It knows no protocol: what the bytes mean is the session's business.
//!
//! However a run ends (success, error, or a future that is dropped), no process of the strategy's
//! group and no private directory is left. The jail denies leaving the group (`setsid`); without a
//! jail, what left it becomes the host's own child, and is ended as such after [`inherit_orphans`].
//!
//! Two things are asked of the caller. The thread that polls [`run`] must live as long as the
//! host, because the kernel ties the strategy's life to the thread that spawned it: so a
//! current-thread runtime on the main thread. And SIGPIPE must be ignored, as Rust's runtime
//! does, because strategies may close stdin early.

mod child;
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

pub use error::ProcessError;
pub use orphans::inherit_orphans;
pub(crate) use private_dir::PrivateDir;
pub use private_dir::{DEPTH_MAX, ENTRIES_MAX, Exceeded, left_behind};
pub use stderr::Stderr;
pub use threads::{TASKS_MAX, are_bounded};
pub use worker::{Worker, WorkerEnded};

use crate::jail::{Confinement, Tier};
use child::Child;
use pipes::{Fault, Flow};

/// What a strategy may put into its private directory where nobody says otherwise.
pub const PRIVATE_BYTES_MAX: u64 = 256 << 20;
/// How long a strategy has between SIGTERM and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(2);
/// How long the pipes may stay open after the strategy exited.
const PIPES_OPEN_MAX: Duration = Duration::from_millis(250);
/// What the runner exits with when it could not start the program.
const EXIT_NOT_STARTED: i32 = 126;

/// One strategy process: what it is started with, what it is sent, what it may use.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// The `compact-runner` executable.
    pub runner: &'a Path,
    /// The strategy's executable, or its interpreter.
    pub program: &'a Path,
    /// How it is confined. What asks for a jail runs in that jail or fails.
    pub confinement: Confinement<'a>,
    /// Its arguments; the last is the protocol's `describe` or `run`.
    pub args: &'a [&'a str],
    /// What it reads, in this order; then stdin is closed. Written from where it lies.
    pub stdin: Vec<Bytes>,
    /// The variables that were granted by name. They cannot replace those that every strategy has.
    pub env: &'a [(String, String)],
    /// Where the private directory is made: the host's temporary directory.
    pub temp_dir: &'a Path,
    /// A strategy that puts more into it is killed.
    pub private_bytes_max: u64,
    /// Counted from the spawn. `Duration::MAX` for a worker, whose deadlines stand per request.
    pub deadline: Duration,
    /// Between SIGTERM and SIGKILL; [`GRACE`] but for tests.
    pub grace: Duration,
    /// A strategy that writes more is killed.
    pub stdout_bytes_max: usize,
}

/// A strategy that ended by itself, within its deadline and caps. Whether it ended *well* is for
/// the session to say.
#[derive(Debug)]
pub struct Ended {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// All that it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What was kept of stderr.
    pub stderr: Stderr,
    /// From the spawn to the end of the process and its output.
    pub wall: Duration,
    /// How far it was confined.
    pub tier: Tier,
}

/// Runs one strategy to its end. Dropping the future kills the strategy.
///
/// # Errors
///
/// Everything that made the host end the process, and a program that could not be started.
pub async fn run(launch: Launch<'_>) -> Result<Ended, ProcessError> {
    run_heard(launch, Heard { stdout: &mut |_| {}, stderr: &mut |_| {} }).await
}

/// Who is told what a strategy writes while it comes. Nothing of that may be trusted before the end.
#[expect(missing_debug_implementations, reason = "functions have none")]
pub struct Heard<'a> {
    /// Of stdout, in order.
    pub stdout: &'a mut (dyn FnMut(&[u8]) + Send),
    /// Of stderr, in order.
    pub stderr: &'a mut (dyn FnMut(&[u8]) + Send),
}

/// As [`run`], and says what comes while it comes.
///
/// # Errors
///
/// As [`run`].
pub async fn run_heard(launch: Launch<'_>, heard: Heard<'_>) -> Result<Ended, ProcessError> {
    let started = Instant::now();
    lead(Child::spawn(&launch)?, started, launch, heard).await
}

/// As [`run`], with a terminal on stdin, on which `stdin` is typed and which stays open.
///
/// # Errors
///
/// As [`run`].
pub async fn run_at_terminal(launch: Launch<'_>) -> Result<Ended, ProcessError> {
    let started = Instant::now();
    let heard = Heard { stdout: &mut |_| {}, stderr: &mut |_| {} };
    lead(Child::spawn_at_terminal(&launch)?, started, launch, heard).await
}

async fn lead(
    child: Child,
    started: Instant,
    launch: Launch<'_>,
    heard: Heard<'_>,
) -> Result<Ended, ProcessError> {
    let mut stderr = Stderr::default();
    let limits =
        Limits { deadline: launch.deadline, grace: launch.grace, stdout_bytes_max: launch.stdout_bytes_max };
    let (status, stdout) = attend(child, launch.stdin, &mut stderr, &limits, heard).await?;
    let wall = started.elapsed();
    match not_started(launch.program, status, &stdout, &stderr) {
        Some(reason) => Err(ProcessError::Start { program: launch.program.to_owned(), reason }),
        None => Ok(Ended { status, stdout, stderr, wall, tier: launch.confinement.tier() }),
    }
}

/// Runs a command of the user's, such as one that prints a key: the user's own environment, no jail. How it ended
/// and what it wrote to stdout. Dropping the future kills it.
///
/// # Errors
/// It could not be started, did not end in time, or wrote too much.
pub async fn run_command(
    words: &[String],
    deadline: Duration,
    stdout_bytes_max: usize,
) -> Result<(ExitStatus, Vec<u8>), ProcessError> {
    let child = Child::spawn_command(words)?;
    let limits = Limits { deadline, grace: GRACE, stdout_bytes_max };
    let heard = Heard { stdout: &mut |_| {}, stderr: &mut |_| {} };
    attend(child, Vec::new(), &mut Stderr::default(), &limits, heard).await
}

/// What a process is held to.
struct Limits {
    deadline: Duration,
    grace: Duration,
    stdout_bytes_max: usize,
}

/// Moves bytes through a process's pipes until it has ended; nothing of its group is left then.
async fn attend(
    mut child: Child,
    stdin: Vec<Bytes>,
    stderr: &mut Stderr,
    limits: &Limits,
    heard: Heard<'_>,
) -> Result<(ExitStatus, Vec<u8>), ProcessError> {
    let mut stdout = Vec::new();
    let flow = child.take_pipes()?.flow(stdin, &mut stdout, limits.stdout_bytes_max, stderr, heard);
    let ending = follow(&mut child, flow, limits.deadline, limits.grace).await;
    // Before anything is reported: whatever is left in the group dies now.
    let (status, exceeded) = child.end().await.map_err(ProcessError::Io)?;
    if let Some(exceeded) = exceeded {
        return Err(ProcessError::PrivateDirTooLarge(exceeded));
    }
    match ending {
        Ok(()) => Ok((status, stdout)),
        Err(Ending::Deadline) => {
            Err(ProcessError::Deadline { deadline: limits.deadline, stderr: std::mem::take(stderr) })
        }
        Err(Ending::PipesHeldOpen) => Err(ProcessError::PipesHeldOpen),
        Err(Ending::Fault(Fault::TooLarge)) => {
            Err(ProcessError::OutputTooLarge { bytes_max: limits.stdout_bytes_max })
        }
        Err(Ending::Fault(Fault::Io(error))) => Err(ProcessError::Io(error)),
    }
}

/// Why the host ends a process that did not end by itself.
enum Ending {
    Deadline,
    PipesHeldOpen,
    Fault(Fault),
}

/// Follows the process to its end and its pipes to theirs, or to the moment when it must be
/// killed. SIGTERM is sent from here, SIGKILL by the caller.
async fn follow(
    child: &mut Child,
    flow: impl Future<Output = Result<(), Fault>>,
    deadline: Duration,
    grace: Duration,
) -> Result<(), Ending> {
    let mut flow = std::pin::pin!(flow);
    let mut flow = Flow::new(flow.as_mut());
    if flow.until(timeout(deadline, child.exited())).await.map_err(Ending::Fault)?.is_err() {
        child.terminate();
        // The pipes flow on, so that last words are heard and nobody blocks on them. How it ends
        // now changes nothing: the deadline has passed.
        if let Ok(Ok(())) = flow.until(timeout(grace, child.exited())).await {
            let _ = timeout(PIPES_OPEN_MAX, flow.end()).await;
        }
        return Err(Ending::Deadline);
    }
    match timeout(PIPES_OPEN_MAX, flow.end()).await {
        Ok(ended) => ended.map_err(Ending::Fault),
        Err(_) => Err(Ending::PipesHeldOpen),
    }
}

/// The runner's reason, when it says that it could not start the program. A strategy can say the
/// same; it gains nothing by it, for a failure it is in any case.
fn not_started(program: &Path, status: ExitStatus, stdout: &[u8], stderr: &Stderr) -> Option<String> {
    if status.code() != Some(EXIT_NOT_STARTED) || !stdout.is_empty() {
        return None;
    }
    let text = stderr.text();
    let message = text.strip_prefix("compact-runner: failed to start ")?.trim_end();
    let named = format!("{}: ", program.display());
    Some(message.strip_prefix(&named).unwrap_or(message).to_owned())
}
