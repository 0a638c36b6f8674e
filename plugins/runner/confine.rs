//! The steps of the confinement that have safe calls: session, death with the host, limits, the
//! private directory, privileges. Each says why it failed; none goes on without what it was asked for.

use std::path::Path;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit};

const DATA_BYTES_MAX: u64 = 512 << 20;
const FILE_BYTES_MAX: u64 = 64 << 20;
const OPEN_FILES_MAX: u64 = 64;

/// Leads a session of its own, so that one signal to the group reaches whatever it will start,
/// and a terminal's signals do not.
pub(crate) fn lead_session() -> Result<(), String> {
    rustix::process::setsid().map(drop).map_err(|error| format!("no session of its own: {error}"))
}

/// Dies when the host does. The signal is asked for first and the parent looked at after, so that
/// a host that died before the request is noticed. The comparison is with the host's own number,
/// not with 1: in a container the host may be 1, and orphans may go to another process.
pub(crate) fn die_with_host(host_pid: u32) -> Result<(), String> {
    // Elsewhere there is no such request; the host's own cleaning up is all there is.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| format!("no signal at the host's death: {error}"))?;
    is_child_of(host_pid)
}

/// Looks at who the parent is, now.
pub(crate) fn is_child_of(host_pid: u32) -> Result<(), String> {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_pid().unsigned_abs());
    if parent == Some(host_pid) { Ok(()) } else { Err(format!("process {host_pid} is not its host")) }
}

/// Sets what the process may use. `RLIMIT_DATA` and not `RLIMIT_AS`: node reserves more address
/// space than any sensible limit.
pub(crate) fn limit(cpu_seconds: Option<u64>) -> Result<(), String> {
    lower(Resource::Core, 0)?;
    lower(Resource::Data, DATA_BYTES_MAX)?;
    lower(Resource::Fsize, FILE_BYTES_MAX)?;
    lower(Resource::Nofile, OPEN_FILES_MAX)?;
    cpu_seconds.map_or(Ok(()), |seconds| lower(Resource::Cpu, seconds))
}

/// A limit is only ever lowered: whoever started the host may have set a smaller one.
fn lower(resource: Resource, value: u64) -> Result<(), String> {
    let inherited = rustix::process::getrlimit(resource).maximum;
    let value = Some(inherited.map_or(value, |inherited| inherited.min(value)));
    rustix::process::setrlimit(resource, Rlimit { current: value, maximum: value })
        .map_err(|error| format!("limit {resource:?} not set: {error}"))
}

/// Joins a control group, before anything is started that would have to join it too.
pub(crate) fn join(cgroup: &Path) -> Result<(), String> {
    std::fs::write(cgroup.join("cgroup.procs"), "0")
        .map_err(|error| format!("control group {}: {error}", cgroup.display()))
}

/// Goes to the private directory, which the host has made.
pub(crate) fn enter(dir: &Path) -> Result<(), String> {
    rustix::process::umask(Mode::from_raw_mode(0o077));
    std::env::set_current_dir(dir).map_err(|error| format!("private directory {}: {error}", dir.display()))
}

/// Gives up what the super-user can do beyond its own files, and every way to win it back: with
/// no new privileges the exec leaves a program of user 0 without them as well. What is left to it
/// is what any user has, and the jail bounds that.
#[cfg(target_os = "linux")]
pub(crate) fn drop_privileges() -> Result<(), String> {
    use rustix::thread::{CapabilitySet, CapabilitySets};

    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)
        .map_err(|error| format!("capabilities not dropped: {error}"))?;
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("new privileges not given up: {error}"))
}

/// There is no jail here that this could be a part of; the next step says so.
#[cfg(not(target_os = "linux"))]
pub(crate) fn drop_privileges() -> Result<(), String> {
    Ok(())
}
