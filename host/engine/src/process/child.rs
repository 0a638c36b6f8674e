//! A process the host started: spawned here and nowhere else, signalled by its group, reaped
//! once, its private directory removed. Whatever happens to the future that owns it, `Drop`
//! leaves nothing behind.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::pty;

use super::exit::Exits;
use super::orphans::Family;
use super::pipes::Pipes;
use super::private_dir::{Exceeded, PrivateDir, Watch, Who};
use super::threads::Group;
use super::{Launch, ProcessError};
use crate::jail::Confinement;

/// Invariant: until `reaped`, `pid` is this child's and so is the group of that number, if there
/// is one; so every signal is sent before the child is reaped.
#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    pid: Pid,
    exits: Exits,
    may_leave_orphans: bool,
    reaped: bool,
    // A terminal is one for as long as its other end is held.
    _terminal: Option<OwnedFd>,
    // Both are dropped after `Drop` below has run, when no process is left in them.
    watch: Option<Watch>,
    _group: Option<Group>,
}

impl Child {
    /// Starts the runner, which becomes the strategy. No `pre_exec` and no process group are set
    /// here: the first would make the spawn a fork, whose cost grows with the host's memory; with
    /// the second the runner could not lead a session.
    pub(super) fn spawn(launch: &Launch<'_>) -> Result<Self, ProcessError> {
        Self::spawn_on(launch, Stdio::piped())
    }

    /// As [`Self::spawn`], with a terminal for stdin.
    pub(super) fn spawn_at_terminal(launch: &Launch<'_>) -> Result<Self, ProcessError> {
        let (held, given) = terminal().map_err(ProcessError::Io)?;
        let typed = held.try_clone().map_err(ProcessError::Io)?;
        let mut child = Self::spawn_on(launch, given.into())?;
        child.process.stdin = Some(ChildStdin::from(typed));
        child._terminal = Some(held);
        Ok(child)
    }

    fn spawn_on(launch: &Launch<'_>, stdin: Stdio) -> Result<Self, ProcessError> {
        let failed = |source| ProcessError::Runner { runner: launch.runner.to_owned(), source };
        let exits = Exits::listen().map_err(ProcessError::Io)?;
        let dir = PrivateDir::make(launch.temp_dir)
            .map_err(|source| ProcessError::NoPrivateDir { temp_dir: launch.temp_dir.to_owned(), source })?;
        let watch = Watch::new(dir, launch.private_bytes_max);
        let group = launch.confinement.bounds_threads().then(Group::make).flatten();
        let family = Family::gather();
        let process = command(launch.runner.as_os_str())
            .args(runner_args(launch, watch.path(), group.as_ref()).map_err(failed)?)
            .env_clear()
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .spawn()
            .map_err(failed)?;
        let may_leave_orphans = launch.confinement.may_leave_orphans();
        let mut child = Self::of(process, family, exits, may_leave_orphans, Some(watch));
        child._group = group;
        Ok(child)
    }

    /// Starts a command of the user's as the user: with the environment of this process, without runner or jail,
    /// in a group of its own, so that the whole of it can be ended.
    pub(super) fn spawn_command(words: &[String]) -> Result<Self, ProcessError> {
        let (program, args) =
            words.split_first().ok_or_else(|| ProcessError::Io(io::ErrorKind::InvalidInput.into()))?;
        let exits = Exits::listen().map_err(ProcessError::Io)?;
        let family = Family::gather();
        let process = command(program.as_ref()).args(args).process_group(0).spawn();
        let failed =
            |error: io::Error| ProcessError::Start { program: program.into(), reason: error.to_string() };
        Ok(Self::of(process.map_err(failed)?, family, exits, false, None))
    }

    fn of(
        process: std::process::Child,
        family: Family,
        exits: Exits,
        may_leave_orphans: bool,
        watch: Option<Watch>,
    ) -> Self {
        let pid = Pid::from_child(&process);
        family.add(pid);
        Self { process, pid, exits, may_leave_orphans, reaped: false, _terminal: None, watch, _group: None }
    }

    /// The three pipes, once.
    pub(super) fn take_pipes(&mut self) -> Result<Pipes, ProcessError> {
        let (stdin, stdout, stderr) =
            (self.process.stdin.take(), self.process.stdout.take(), self.process.stderr.take());
        Pipes::new(stdin, stdout, stderr).map_err(ProcessError::Io)
    }

    /// Resolves when the process has exited; it is not reaped by that. One that puts too much into its private
    /// directory is killed.
    pub(super) async fn exited(&mut self) {
        // A process that may start no other is alone.
        let who = if self.may_leave_orphans { Who::Session } else { Who::Process };
        loop {
            let Self { exits, pid, watch, .. } = self;
            let Some(watch) = watch else { return exits.of(*pid).await };
            tokio::select! {
                biased;
                () = exits.of(*pid) => return,
                () = watch.is_due() => {}
            }
            if watch.look(Some((*pid, who))).is_some() {
                self.signal(Signal::KILL);
            }
        }
    }

    /// Asks the whole group to stop.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills whatever is left of the group, the process itself included, and reaps it. How it ended, and whether it
    /// had put too much into its private directory.
    pub(super) async fn end(mut self) -> io::Result<(ExitStatus, Option<Exceeded>)> {
        self.signal(Signal::KILL);
        self.exits.of(self.pid).await;
        let status = self.reap()?;
        Ok((status, self.watch.as_mut().and_then(|watch| watch.look(None))))
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = self.process.wait();
        self.reaped = true;
        Family::gather().bereave(self.pid, self.may_leave_orphans);
        status
    }

    /// To the group; to the process alone while the runner has not made the group yet. That a
    /// signal reaches nobody is no failure: then nobody is left.
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

/// A program that is about to be started, its three streams the host's.
#[expect(clippy::disallowed_methods, reason = "the one place of the host that spawns")]
fn command(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The two ends of a new terminal: the one to type on, and the one that a program has.
fn terminal() -> io::Result<(OwnedFd, File)> {
    let held = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY | pty::OpenptFlags::CLOEXEC)?;
    pty::grantpt(&held)?;
    pty::unlockpt(&held)?;
    let name = pty::ptsname(&held, Vec::new())?;
    let given = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((held, given.into()))
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
    // The values go through the runner's environment: every user can read a command line.
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

/// A process that is alone cannot use more processor time than wall time; the second more leaves
/// the last word to the deadline.
fn cpu_seconds(deadline: Duration) -> u64 {
    deadline.as_secs().saturating_add(u64::from(deadline.subsec_nanos() > 0)).saturating_add(1)
}
