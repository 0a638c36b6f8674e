//! The steps of the confinement that need no `unsafe` code: session, host's death, limits, control group, private
//! directory, privileges.
//!
//! Each step returns the reason of its failure. A step must never succeed partly.

use std::path::Path;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit};

const DATA_BYTES_MAX: u64 = 512 << 20;
const FILE_BYTES_MAX: u64 = 64 << 20;
const OPEN_FILES_MAX: u64 = 64;

/// Starts a new session. One signal to the group then reaches all processes of the strategy, and the terminal's signals
/// do not reach them.
pub(crate) fn lead_session() -> Result<(), String> {
    rustix::process::setsid().map(drop).map_err(|error| format!("failed to start a session: {error}"))
}

/// Requests a SIGKILL at the host's death. The parent is checked after the request, to detect a host that died before it.
/// The parent is compared with the host's process id and not with 1, because in a container the host may be 1, and orphans
/// may get another parent.
pub(crate) fn die_with_host(host_pid: u32) -> Result<(), String> {
    // Other systems have no such request. There, only the host kills its strategies.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| format!("failed to request a signal at the host's death: {error}"))?;
    check_parent(host_pid)
}

/// Checks that the host is still the parent.
pub(crate) fn check_parent(host_pid: u32) -> Result<(), String> {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_pid().unsigned_abs());
    if parent == Some(host_pid) { Ok(()) } else { Err(format!("process {host_pid} is not the parent")) }
}

/// Sets the resource limits. It uses `RLIMIT_DATA` and not `RLIMIT_AS`, because Node.js reserves more address space than
/// any useful limit.
pub(crate) fn set_limits(cpu_seconds: Option<u64>) -> Result<(), String> {
    lower(Resource::Core, 0)?;
    lower(Resource::Data, DATA_BYTES_MAX)?;
    lower(Resource::Fsize, FILE_BYTES_MAX)?;
    lower(Resource::Nofile, OPEN_FILES_MAX)?;
    cpu_seconds.map_or(Ok(()), |seconds| lower(Resource::Cpu, seconds))
}

/// Sets a limit. A lower inherited hard limit stays, but not a lower soft limit.
fn lower(resource: Resource, value: u64) -> Result<(), String> {
    let inherited = rustix::process::getrlimit(resource).maximum;
    let value = Some(inherited.map_or(value, |inherited| inherited.min(value)));
    rustix::process::setrlimit(resource, Rlimit { current: value, maximum: value })
        .map_err(|error| format!("failed to set the limit {resource:?}: {error}"))
}

/// Joins a control group. Later child processes inherit it.
pub(crate) fn join_cgroup(cgroup: &Path) -> Result<(), String> {
    std::fs::write(cgroup.join("cgroup.procs"), "0")
        .map_err(|error| format!("failed to join the control group {}: {error}", cgroup.display()))
}

/// Changes to the private directory, which the host has created.
pub(crate) fn enter_private_dir(dir: &Path) -> Result<(), String> {
    rustix::process::umask(Mode::from_raw_mode(0o077));
    std::env::set_current_dir(dir)
        .map_err(|error| format!("failed to enter the private directory {}: {error}", dir.display()))
}

/// Drops all capabilities permanently. With `no_new_privs`, the exec does not restore them even for user 0. The program
/// then has the rights of an ordinary user, which the jail restricts further.
#[cfg(target_os = "linux")]
pub(crate) fn drop_privileges() -> Result<(), String> {
    use rustix::thread::{CapabilitySet, CapabilitySets};

    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)
        .map_err(|error| format!("failed to drop capabilities: {error}"))?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| format!("failed to disable new privileges: {error}"))
}

/// Does nothing, because the jail of this system fails in a later step.
#[cfg(not(target_os = "linux"))]
pub(crate) fn drop_privileges() -> Result<(), String> {
    Ok(())
}
