//! What the jail denies: files, other processes, programs, sockets, the rest of the kernel, memory.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::ExitStatusExt as _;

use jp_compact_engine::jail::Confinement;
use jp_compact_engine::process;
use jp_compact_schema::Permissions;

use crate::NOBODY;
use crate::place::{Place, network, subprocess, versions};

#[test]
fn files_are_not_read() {
    let place = Place::new();
    place.denied(&["read", &place.transcript()], "EACCES");
    place.denied(&["read", "/etc/passwd"], "EACCES");
    place.denied(&["read", "/proc/self/environ"], "EACCES");
    place.denied(&["list", "/"], "EACCES");
    place.denied(&["list", "/usr"], "EACCES");
    place.denied(&["list", &place.path(".")], "EACCES");
    place.denied(&["symlink-and-read", &place.transcript()], "EACCES");
    if let Some(home) = std::env::home_dir().filter(|home| fs::read_dir(home).is_ok()) {
        place.denied(&["list", home.to_str().unwrap()], "EACCES");
    }
}

#[test]
fn files_are_not_written() {
    let place = Place::new();
    let fresh = || place.path(&format!("new-{}", fs::read_dir(place.base.path()).unwrap().count()));
    place.denied(&["write", &place.transcript()], "EACCES");
    place.denied(&["create", &fresh()], "EACCES");
    place.denied(&["mkdir", &fresh()], "EACCES");
    place.denied(&["mkfifo", &fresh()], "EACCES");
    place.denied(&["truncate", &place.transcript()], "EPERM");
    place.denied(&["create", &format!("/var/tmp/jp-compact-{}", std::process::id())], "EACCES");
    fs::remove_file(format!("/var/tmp/jp-compact-{}", std::process::id())).unwrap();
    // Between two folders the oldest version has another word for it.
    for landlock in versions() {
        let jail = place.jail(landlock);
        for args in [["link", &place.transcript(), ""], ["rename", &place.transcript(), "mine"]] {
            let said = place.outcome(Confinement::Isolated(&jail), &args);
            assert!(["EXDEV", "EACCES"].contains(&&*said), "{args:?}: {said}");
        }
    }
    place.denied(&["unlink", &place.transcript()], "EACCES");
}

#[test]
fn what_is_said_of_files_is_not_changed() {
    let place = Place::new();
    for attempt in ["chmod", "chown", "utimes"] {
        place.denied(&[attempt, &place.transcript()], "EPERM");
    }
    // Not every file system has handles and attributes.
    place.denied_here(&["handle", &place.transcript()], "EPERM");
    place.denied_here(&["setxattr", &place.transcript()], "EPERM");
    place.denied(&["inotify"], "EPERM");
}

#[test]
fn what_is_said_of_files_is_not_read() {
    let place = Place::new();
    for attempt in ["getxattr", "lgetxattr", "listxattr", "llistxattr", "getxattrat", "listxattrat"] {
        // Not every kernel has the last two, nor every file system attributes.
        place.denied_here(&[attempt, &place.transcript()], "EOPNOTSUPP");
    }
    let read = vec![place.path("data")];
    fs::write(&read[0], "").unwrap();
    let place = Place { granted: Permissions { read, ..Permissions::default() }, ..place };
    for attempt in ["fgetxattr", "flistxattr"] {
        place.denied_here(&[attempt, &place.path("data")], "EOPNOTSUPP");
    }
    if place.outcome(Confinement::Contained, &["setxattr", &place.transcript()]) == "let through" {
        let given = place.outcome(Confinement::Contained, &["getxattr", &place.transcript()]);
        assert_eq!(given, "let through", "a test that denies what nobody has shows nothing");
    }
}

#[test]
fn nobody_is_held_up_or_watched_by_a_file_that_can_be_read() {
    let place = Place::new();
    let read = vec![place.path("data"), place.path("folder")];
    fs::write(&read[0], "").unwrap();
    fs::create_dir(&read[1]).unwrap();
    let place = Place { granted: Permissions { read, ..Permissions::default() }, ..place };
    place.denied(&["lease", &place.path("data")], "EPERM");
    place.denied(&["watch-folder", &place.path("folder")], "EPERM");
}

#[test]
fn siblings_are_out_of_reach() {
    let place = Place::new();
    fs::create_dir(place.path("sibling")).unwrap();
    fs::write(place.path("sibling/state"), "").unwrap();
    place.denied(&["read", &place.path("sibling/state")], "EACCES");
    place.denied(&["list", &place.path("sibling")], "EACCES");
    place.denied(&["create", &place.path("sibling/left-here")], "EACCES");
}

#[test]
fn other_processes_are_not_looked_into() {
    let place = Place::new();
    place.denied(&["read-environment-of-parent"], "EACCES");
    place.denied(&["read-arguments-of-parent"], "EACCES");
    place.denied(&["list-processes"], "EACCES");
    let here = format!("{:p}", NOBODY.as_ptr());
    // The system itself may keep those apart that are not each other's children.
    place.denied_here(&["read-memory-of-parent"], "EACCES");
    place.denied_here(&["read-memory-by-call", &here], "EPERM");
    place.denied_here(&["ptrace"], "EPERM");
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    if scope.is_err() || scope.is_ok_and(|scope| scope.trim() == "0") {
        for args in [&["read-memory-of-parent"][..], &["read-memory-by-call", &here], &["ptrace"]] {
            assert_eq!(place.outcome(Confinement::Contained, args), "let through");
        }
    }
    place.denied(&["ptrace-me"], "EPERM");
}

#[test]
fn other_processes_are_not_signalled() {
    let place = Place::new();
    for attempt in [
        "signal-parent",
        "signal-thread-of-parent",
        "signal-all",
        "queue-signal-to-parent",
        "signal-by-descriptor",
        "signal-by-thread-alone",
        "signal-by-file",
        "watch-parent",
    ] {
        place.denied(&[attempt], "EPERM");
    }
    let place = Place::granting(subprocess());
    // What waits for the host's end is in the group. From the sixth version on, no signal reaches it.
    let oldest = place.jail(versions()[0]);
    assert_eq!(place.outcome(Confinement::Isolated(&oldest), &["stop-its-group"]), "EPERM");
    assert_eq!(place.outcome(Confinement::Contained, &["stop-its-group"]), "let through");
    for attempt in [
        "signal-parent",
        "signal-thread-of-parent",
        "signal-by-thread-alone",
        "signal-by-file",
        "watch-parent",
    ] {
        place.denied(&[attempt], "EPERM");
    }
}

#[test]
fn other_processes_run_as_they_did() {
    let place = Place::new();
    for attempt in ["limit-parent", "renice-parent", "pin-parent", "outlive-host", "hide-from-host"] {
        place.denied(&[attempt], "EPERM");
    }
}

#[test]
fn there_are_no_processes_of_its_own() {
    let place = Place::new();
    place.denied(&["fork"], "EPERM");
    place.denied(&["fork-by-library"], "EPERM");
    place.denied(&["clone3"], "ENOSYS");
    if cfg!(target_arch = "x86_64") {
        place.denied(&["fork-by-its-own-call"], "EPERM");
        // Few kernels have x32; the guard is there for those.
        place.denied_here(&["fork-by-x32"], "EPERM");
    }
}

#[test]
fn threads_are_bounded_where_a_control_group_is_delegated() {
    for place in [Place::new(), Place::granting(subprocess())] {
        place.allowed(&["many-threads", "400"]);
        if process::are_bounded() {
            place.denied(&["many-threads", "600"], "EAGAIN");
        }
    }
}

#[test]
fn no_other_program_is_executed() {
    let place = Place::new();
    place.denied(&["exec", "/bin/echo"], "EACCES");
    place.denied(&["exec-of-its-own-making"], "EACCES");
    place.denied(&["exec-from-memory"], "EPERM");
}

#[test]
fn there_are_no_sockets() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let _named = UnixDatagram::bind(place.path("socket")).unwrap();
    let name = format!("jp-compact-{}-{port}", std::process::id());
    let _abstract = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    place.denied(&["tcp", &port], "EPERM");
    place.denied(&["tcp-listen"], "EPERM");
    place.denied_here(&["tcp6"], "EPERM");
    place.denied(&["udp"], "EPERM");
    place.denied(&["netlink"], "EPERM");
    place.denied_here(&["vsock"], "EPERM");
    place.denied_here(&["packet"], "EPERM");
    let granted = Place::granting(network());
    for to in [&place.path("socket"), &format!("@{name}")] {
        place.denied(&["unix", to], "EPERM");
        for place in [&place, &granted] {
            place.denied(&["datagram-from-a-pair", to], "EPERM");
            place.denied(&["datagram-from-a-raw-pair", to], "EPERM");
        }
    }
    granted.allowed(&["tcp", &port]);
    granted.allowed(&["udp"]);
    granted.denied(&["unix", &place.path("socket")], "EPERM");
    granted.denied(&["netlink"], "EPERM");
}

#[test]
fn what_may_open_connections_may_not_wait_for_them() {
    const MPTCP: &str = "262";
    let (nothing, granted) = (Place::new(), Place::granting(network()));
    for place in [&nothing, &granted] {
        place.denied(&["listen-unbound", "0"], "EPERM");
        // A kernel may be without it.
        place.denied_here(&["listen-unbound", MPTCP], "EPERM");
        place.denied(&["listen-on-a-pair"], "EPERM");
        place.denied(&["accept"], "EPERM");
        place.denied(&["accept4"], "EPERM");
    }
    for landlock in versions() {
        let jail = granted.jail(landlock);
        let said = granted.outcome(Confinement::Isolated(&jail), &["tcp-listen"]);
        // From the fourth version on, it is not even bound.
        assert_eq!(said, if landlock >= 4 { "EACCES" } else { "EPERM" });
    }
    // Some resolvers bind the socket that they ask with.
    granted.allowed(&["udp-bind"]);
}

#[test]
fn the_rest_of_the_kernel_is_closed() {
    let place = Place::new();
    // What of these a machine allows without a jail is its own affair.
    for attempt in [
        "io_uring",
        "keyring",
        "bpf",
        "perf",
        "userfaultfd",
        "kernel-log",
        "unshare",
        "clone-namespace",
        "setns",
        "mount",
    ] {
        place.denied_here(&[attempt], "EPERM");
    }
    for attempt in ["statmount", "listmount"] {
        place.denied_here(&[attempt], "EPERM");
    }
    place.denied(&["shared-segment"], "EPERM");
    place.denied(&["message-queue"], "EPERM");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_another_architecture_are_the_end() {
    let place = Place::new();
    let signal = |confinement: Confinement<'_>| {
        place.run(confinement, &["call-of-another-architecture"]).unwrap().status.signal()
    };
    // Where the machine itself has no such calls, they are a fault.
    let (denied, fault) = (Some(31), Some(11));
    let contained = signal(Confinement::Contained);
    assert!([None, fault].contains(&contained), "{contained:?}");
    for landlock in versions() {
        let isolated = signal(Confinement::Isolated(&place.jail(landlock)));
        assert_eq!(isolated, if contained.is_none() { denied } else { fault });
    }
}

#[test]
fn memory_that_no_limit_counts_is_not_to_be_had() {
    let place = Place::new();
    place.denied(&["shared-memory"], "EPERM");
    place.denied(&["growing-memory"], "EPERM");
    Place::granting(subprocess()).allowed(&["shared-memory"]);
    // Nor disk that the host does not see.
    place.denied(&["send-descriptor"], "EPERM");
    assert_eq!(place.outcome(Confinement::Contained, &["much-memory"]), "ENOMEM");
}
