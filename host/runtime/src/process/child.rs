//! The children of the host, which are spawned only here. A [`Child`] is signaled through its process group and reaped
//! once, and its private directory is removed. If the owning future is dropped, `Drop` does this.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::pty;

use super::exit::ExitSignals;
use super::orphans::{self, SpawnGuard};
use super::pipes::Pipes;
use super::private_dir::{Exceeded, PrivateDir, ProcessScope, SizeWatch};
use super::threads::Group;
use super::{Launch, ProcessError};
use crate::jail::Confinement;

/// Invariant: until `reaped` is set, `pid` and the process group with the same number (if there is one)
/// belong to this child. Every signal is therefore sent before the child is reaped.
#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    pid: Pid,
    exit_signals: ExitSignals,
    may_leave_orphans: bool,
    reaped: bool,
    // Keeps the terminal open.
    _terminal: Option<OwnedFd>,
    // Dropped after `Drop` below has run, when no process of the strategy is left.
    watch: Option<SizeWatch>,
    _group: Option<Group>,
}

impl Child {
    /// Starts the runner, which then executes the strategy. This function must not use `pre_exec` or set a
    /// process group. `pre_exec` would turn the spawn into a fork, whose cost grows with the memory of the
    /// host. A process group would prevent the runner from leading a session.
    pub(super) fn spawn(launch: &Launch<'_>) -> Result<Self, ProcessError> {
        Self::spawn_on(launch, Stdio::piped())
    }

    /// Same as [`Self::spawn`], with a terminal for stdin.
    pub(super) fn spawn_at_terminal(launch: &Launch<'_>) -> Result<Self, ProcessError> {
        let (host_end, program_end) = terminal().map_err(ProcessError::Io)?;
        let stdin = host_end.try_clone().map_err(ProcessError::Io)?;
        let mut child = Self::spawn_on(launch, program_end.into())?;
        child.process.stdin = Some(ChildStdin::from(stdin));
        child._terminal = Some(host_end);
        Ok(child)
    }

    fn spawn_on(launch: &Launch<'_>, stdin: Stdio) -> Result<Self, ProcessError> {
        let runner_error = |source| ProcessError::Runner { runner: launch.runner.to_owned(), source };
        let exit_signals = ExitSignals::listen().map_err(ProcessError::Io)?;
        let dir = PrivateDir::make(launch.temp_dir)
            .map_err(|source| ProcessError::NoPrivateDir { temp_dir: launch.temp_dir.to_owned(), source })?;
        let watch = SizeWatch::new(dir, launch.private_bytes_max);
        let group = launch.confinement.limits_threads().then(Group::make).flatten();
        let spawn = SpawnGuard::new();
        let process = command(launch.runner.as_os_str())
            .args(runner_args(launch, watch.path(), group.as_ref()).map_err(runner_error)?)
            .env_clear()
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .spawn()
            .map_err(runner_error)?;
        let may_leave_orphans = launch.confinement.may_leave_orphans();
        let mut child = Self::new(process, spawn, exit_signals, may_leave_orphans, Some(watch));
        child._group = group;
        Ok(child)
    }

    /// Starts a command of the user: with the environment of this process and without a runner or jail. The
    /// command gets its own process group, so that all of its processes can be killed.
    pub(super) fn spawn_command(command_line: &[String]) -> Result<Self, ProcessError> {
        let (program, args) =
            command_line.split_first().ok_or_else(|| ProcessError::Io(io::ErrorKind::InvalidInput.into()))?;
        let exit_signals = ExitSignals::listen().map_err(ProcessError::Io)?;
        let spawn = SpawnGuard::new();
        let process = command(program.as_ref()).args(args).process_group(0).spawn();
        let start_error =
            |error: io::Error| ProcessError::Start { program: program.into(), reason: error.to_string() };
        Ok(Self::new(process.map_err(start_error)?, spawn, exit_signals, false, None))
    }

    fn new(
        process: std::process::Child,
        spawn: SpawnGuard,
        exit_signals: ExitSignals,
        may_leave_orphans: bool,
        watch: Option<SizeWatch>,
    ) -> Self {
        let pid = Pid::from_child(&process);
        spawn.add(pid);
        Self {
            process,
            pid,
            exit_signals,
            may_leave_orphans,
            reaped: false,
            _terminal: None,
            watch,
            _group: None,
        }
    }

    /// Returns the three pipes. Fails on the second call.
    pub(super) fn take_pipes(&mut self) -> Result<Pipes, ProcessError> {
        let (stdin, stdout, stderr) =
            (self.process.stdin.take(), self.process.stdout.take(), self.process.stderr.take());
        Pipes::new(stdin, stdout, stderr).map_err(ProcessError::Io)
    }

    /// Waits until the process has exited, without reaping it. Kills the process if its private directory or its
    /// memory exceeds a limit.
    pub(super) async fn exited(&mut self) {
        // A process that must not start others is alone in its session.
        let scope = if self.may_leave_orphans { ProcessScope::Session } else { ProcessScope::Process };
        loop {
            let Self { exit_signals, pid, watch, .. } = self;
            let Some(watch) = watch else { return exit_signals.wait_for(*pid).await };
            tokio::select! {
                biased;
                () = exit_signals.wait_for(*pid) => return,
                () = watch.due() => {}
            }
            if watch.measure(Some((*pid, scope))).is_some() {
                self.signal(Signal::KILL);
            }
        }
    }

    /// Sends SIGTERM to the group.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills the rest of the group and reaps the process. Returns the exit status and the limit that its private
    /// directory or its memory exceeded.
    pub(super) async fn end(mut self) -> io::Result<(ExitStatus, Option<Exceeded>)> {
        self.signal(Signal::KILL);
        self.exit_signals.wait_for(self.pid).await;
        let status = self.reap()?;
        Ok((status, self.watch.as_mut().and_then(|watch| watch.measure(None))))
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = self.process.wait();
        self.reaped = true;
        orphans::remove(self.pid, self.may_leave_orphans);
        status
    }

    /// Signals the group, or only the process if the runner has not created the group yet. A signal without a
    /// receiver is not an error, because then no process is left.
    fn signal(&self, signal: Signal) {
        if kill_process_group(self.pid, signal).is_err() {
            let _ = kill_process(self.pid, signal);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
            if let Err(error) = self.reap() {
                tracing::debug!(%error, "failed to reap a strategy");
            }
        }
    }
}

/// Starts an executable that belongs to the host, without a runner or jail. It must end when its stdin ends, because
/// the host neither kills nor reaps it. In its own group, Ctrl-C on a terminal does not end it before the host.
pub(super) fn start_companion(program: &Path) -> io::Result<(ChildStdin, ChildStdout)> {
    let spawn = SpawnGuard::new();
    let mut process =
        command(program.as_os_str()).env_clear().stderr(Stdio::null()).process_group(0).spawn()?;
    // Otherwise it would be killed as an orphan of a strategy.
    spawn.add(Pid::from_child(&process));
    process.stdin.take().zip(process.stdout.take()).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
}

/// Replaces this process with a command. Returns only if that fails.
pub(super) fn exec(command_line: &[String], folder: Option<&Path>) -> io::Error {
    let Some((program, args)) = command_line.split_first() else { return io::ErrorKind::InvalidInput.into() };
    let mut command = command(program.as_ref());
    command.args(args).stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    folder.map(|folder| command.current_dir(folder));
    command.exec()
}

/// Builds a command with piped stdin, stdout, and stderr.
#[expect(clippy::disallowed_methods, reason = "the only place in the host that starts a process")]
fn command(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Opens a new terminal. Returns the end for the host and the end for the program.
fn terminal() -> io::Result<(OwnedFd, File)> {
    let host_end =
        pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY | pty::OpenptFlags::CLOEXEC)?;
    pty::grantpt(&host_end)?;
    pty::unlockpt(&host_end)?;
    let name = pty::ptsname(&host_end, Vec::new())?;
    let program_end =
        rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((host_end, program_end.into()))
}

fn runner_args(launch: &Launch<'_>, dir: &Path, group: Option<&Group>) -> io::Result<Vec<OsString>> {
    let mut args: Vec<OsString> = vec!["--host-pid".into(), std::process::id().to_string().into()];
    args.extend(["--dir".into(), dir.into()]);
    if launch.deadline < Duration::MAX {
        args.extend(["--cpu-seconds".into(), cpu_seconds(launch.deadline).to_string().into()]);
    }
    if let Some(group) = group {
        args.extend(["--cgroup".into(), group.path().into()]);
    }
    // Values are passed in the environment of the runner, because every user can read a command line.
    for (name, _) in launch.env {
        args.extend(["--env".into(), name.into()]);
    }
    if let Confinement::Isolated(jail) = launch.confinement {
        args.extend(jail.args());
    }
    args.extend(["--".into(), std::path::absolute(launch.program)?.into()]);
    args.extend(launch.args.iter().map(OsString::from));
    Ok(args)
}

/// Returns the limit of processor time. A process with one thread cannot use more of it than wall time. The extra
/// second lets the deadline fire first.
fn cpu_seconds(deadline: Duration) -> u64 {
    deadline.as_secs().saturating_add(u64::from(deadline.subsec_nanos() > 0)).saturating_add(1)
}
