//! Operations that the jail denies: files, other processes, programs, sockets, other kernel interfaces,
//! memory.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::ExitStatusExt as _;

use jp_compact_runtime::jail::Confinement;
use jp_compact_runtime::process;
use jp_compact_schema::Permissions;

use crate::NOBODY;
use crate::fixture::{Fixture, network, subprocess, versions};

#[test]
fn reading_files_is_denied() {
    let fixture = Fixture::new();
    fixture.check_denied(&["read", &fixture.transcript()], "EACCES");
    fixture.check_denied(&["read", "/etc/passwd"], "EACCES");
    fixture.check_denied(&["read", "/proc/self/environ"], "EACCES");
    fixture.check_denied(&["list", "/"], "EACCES");
    fixture.check_denied(&["list", "/usr"], "EACCES");
    fixture.check_denied(&["list", &fixture.path(".")], "EACCES");
    fixture.check_denied(&["symlink-and-read", &fixture.transcript()], "EACCES");
    if let Some(home) = std::env::home_dir().filter(|home| fs::read_dir(home).is_ok()) {
        fixture.check_denied(&["list", home.to_str().unwrap()], "EACCES");
    }
}

#[test]
fn writing_files_is_denied() {
    let fixture = Fixture::new();
    let new_path = || fixture.path(&format!("new-{}", fs::read_dir(fixture.base.path()).unwrap().count()));
    fixture.check_denied(&["write", &fixture.transcript()], "EACCES");
    fixture.check_denied(&["create", &new_path()], "EACCES");
    fixture.check_denied(&["mkdir", &new_path()], "EACCES");
    fixture.check_denied(&["mkfifo", &new_path()], "EACCES");
    fixture.check_denied(&["truncate", &fixture.transcript()], "EPERM");
    fixture.check_denied(&["create", &format!("/var/tmp/jp-compact-{}", std::process::id())], "EACCES");
    fs::remove_file(format!("/var/tmp/jp-compact-{}", std::process::id())).unwrap();
    // For a link or a rename between folders, the oldest Landlock version returns another error.
    for landlock in versions() {
        let jail = fixture.jail(landlock);
        for args in [["link", &fixture.transcript(), ""], ["rename", &fixture.transcript(), "mine"]] {
            let result = fixture.outcome(Confinement::Isolated(&jail), &args);
            assert!(["EXDEV", "EACCES"].contains(&&*result), "{args:?}: {result}");
        }
    }
    fixture.check_denied(&["unlink", &fixture.transcript()], "EACCES");
}

#[test]
fn changing_file_attributes_is_denied() {
    let fixture = Fixture::new();
    for attempt in ["chmod", "chown", "utimes"] {
        fixture.check_denied(&[attempt, &fixture.transcript()], "EPERM");
    }
    // Not every file system has handles and extended attributes.
    fixture.check_denied_in_jail(&["handle", &fixture.transcript()], "EPERM");
    fixture.check_denied_in_jail(&["setxattr", &fixture.transcript()], "EPERM");
    fixture.check_denied(&["inotify"], "EPERM");
}

#[test]
fn reading_extended_attributes_is_denied() {
    let fixture = Fixture::new();
    for attempt in ["getxattr", "lgetxattr", "listxattr", "llistxattr", "getxattrat", "listxattrat"] {
        // Some kernels lack the last two calls, and some file systems lack extended attributes.
        fixture.check_denied_in_jail(&[attempt, &fixture.transcript()], "EOPNOTSUPP");
    }
    let read = vec![fixture.path("data")];
    fs::write(&read[0], "").unwrap();
    let fixture = Fixture { granted: Permissions { read, ..Permissions::default() }, ..fixture };
    for attempt in ["fgetxattr", "flistxattr"] {
        fixture.check_denied_in_jail(&[attempt, &fixture.path("data")], "EOPNOTSUPP");
    }
    if fixture.outcome(Confinement::Contained, &["setxattr", &fixture.transcript()]) == "allowed" {
        let result = fixture.outcome(Confinement::Contained, &["getxattr", &fixture.transcript()]);
        assert_eq!(result, "allowed", "the check needs a file system with attributes");
    }
}

#[test]
fn leases_and_watches_on_readable_files_are_denied() {
    let fixture = Fixture::new();
    let read = vec![fixture.path("data"), fixture.path("folder")];
    fs::write(&read[0], "").unwrap();
    fs::create_dir(&read[1]).unwrap();
    let fixture = Fixture { granted: Permissions { read, ..Permissions::default() }, ..fixture };
    fixture.check_denied(&["lease", &fixture.path("data")], "EPERM");
    fixture.check_denied(&["watch-folder", &fixture.path("folder")], "EPERM");
}

#[test]
fn allocating_beyond_the_end_of_a_file_is_denied() {
    let fixture = Fixture::new();
    fixture.check_allowed(&["allocate"]);
    fixture.check_allowed(&["make-a-hole"]);
    fixture.check_denied(&["allocate-beyond-end"], "EPERM");
    for request in ["40", "42", "57"] {
        fixture.check_denied(&["reserve-by-ioctl", request], "EPERM");
    }
}

#[test]
fn private_directories_of_siblings_are_denied() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("sibling")).unwrap();
    fs::write(fixture.path("sibling/state"), "").unwrap();
    fixture.check_denied(&["read", &fixture.path("sibling/state")], "EACCES");
    fixture.check_denied(&["list", &fixture.path("sibling")], "EACCES");
    fixture.check_denied(&["create", &fixture.path("sibling/left-here")], "EACCES");
}

#[test]
fn inspecting_other_processes_is_denied() {
    let fixture = Fixture::new();
    fixture.check_denied(&["read-environment-of-parent"], "EACCES");
    fixture.check_denied(&["read-arguments-of-parent"], "EACCES");
    fixture.check_denied(&["list-processes"], "EACCES");
    let address = format!("{:p}", NOBODY.as_ptr());
    // The system itself may forbid this between processes that are not parent and child.
    fixture.check_denied_in_jail(&["read-memory-of-parent"], "EACCES");
    fixture.check_denied_in_jail(&["read-memory-by-call", &address], "EPERM");
    fixture.check_denied_in_jail(&["ptrace"], "EPERM");
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    if scope.is_err() || scope.is_ok_and(|scope| scope.trim() == "0") {
        for args in [&["read-memory-of-parent"][..], &["read-memory-by-call", &address], &["ptrace"]] {
            assert_eq!(fixture.outcome(Confinement::Contained, args), "allowed");
        }
    }
    fixture.check_denied(&["ptrace-me"], "EPERM");
}

#[test]
fn signals_to_other_processes_are_denied() {
    let fixture = Fixture::new();
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
        fixture.check_denied(&[attempt], "EPERM");
    }
    let fixture = Fixture::with_permissions(subprocess());
    // The keeper, which waits for the host's end, is in the group. The filter protects it up to version 5 of
    // Landlock. Later versions block signals to it.
    let oldest = fixture.jail(versions()[0]);
    assert_eq!(fixture.outcome(Confinement::Isolated(&oldest), &["stop-its-group"]), "EPERM");
    assert_eq!(fixture.outcome(Confinement::Contained, &["stop-its-group"]), "allowed");
    for attempt in [
        "signal-parent",
        "signal-thread-of-parent",
        "signal-by-thread-alone",
        "signal-by-file",
        "watch-parent",
    ] {
        fixture.check_denied(&[attempt], "EPERM");
    }
}

#[test]
fn changing_other_processes_is_denied() {
    let fixture = Fixture::new();
    for attempt in ["limit-parent", "renice-parent", "pin-parent", "outlive-host", "hide-from-host"] {
        fixture.check_denied(&[attempt], "EPERM");
    }
}

#[test]
fn creating_processes_is_denied() {
    let fixture = Fixture::new();
    fixture.check_denied(&["fork"], "EPERM");
    fixture.check_denied(&["fork-by-library"], "EPERM");
    fixture.check_denied(&["clone3"], "ENOSYS");
    if cfg!(target_arch = "x86_64") {
        fixture.check_denied(&["fork-by-its-own-call"], "EPERM");
        // Few kernels support x32, but the filter also covers its calls.
        fixture.check_denied_in_jail(&["fork-by-x32"], "EPERM");
    }
}

#[test]
fn threads_are_limited_with_a_delegated_control_group() {
    for fixture in [Fixture::new(), Fixture::with_permissions(subprocess())] {
        fixture.check_allowed(&["many-threads", "400"]);
        if process::are_bounded() {
            fixture.check_denied(&["many-threads", "600"], "EAGAIN");
        }
    }
}

#[test]
fn executing_other_programs_is_denied() {
    let fixture = Fixture::new();
    fixture.check_denied(&["exec", "/bin/echo"], "EACCES");
    fixture.check_denied(&["exec-of-its-own-making"], "EACCES");
    fixture.check_denied(&["exec-from-memory"], "EPERM");
}

#[test]
fn sockets_are_denied() {
    let fixture = Fixture::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let _socket = UnixDatagram::bind(fixture.path("socket")).unwrap();
    let name = format!("jp-compact-{}-{port}", std::process::id());
    let _abstract_socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    fixture.check_denied(&["tcp", &port], "EPERM");
    fixture.check_denied(&["tcp-listen"], "EPERM");
    fixture.check_denied_in_jail(&["tcp6"], "EPERM");
    fixture.check_denied(&["udp"], "EPERM");
    fixture.check_denied(&["netlink"], "EPERM");
    fixture.check_denied_in_jail(&["vsock"], "EPERM");
    fixture.check_denied_in_jail(&["packet"], "EPERM");
    let with_network = Fixture::with_permissions(network());
    for address in [&fixture.path("socket"), &format!("@{name}")] {
        fixture.check_denied(&["unix", address], "EPERM");
        for fixture in [&fixture, &with_network] {
            fixture.check_denied(&["datagram-from-a-pair", address], "EPERM");
            fixture.check_denied(&["datagram-from-a-raw-pair", address], "EPERM");
        }
    }
    with_network.check_allowed(&["tcp", &port]);
    with_network.check_allowed(&["udp"]);
    with_network.check_denied(&["unix", &fixture.path("socket")], "EPERM");
    with_network.check_denied(&["netlink"], "EPERM");
}

#[test]
fn network_permission_does_not_allow_listening() {
    const MPTCP: &str = "262";
    let (without_permission, with_network) = (Fixture::new(), Fixture::with_permissions(network()));
    for fixture in [&without_permission, &with_network] {
        fixture.check_denied(&["listen-unbound", "0"], "EPERM");
        // Not every kernel supports MPTCP.
        fixture.check_denied_in_jail(&["listen-unbound", MPTCP], "EPERM");
        fixture.check_denied(&["listen-on-a-pair"], "EPERM");
        fixture.check_denied(&["accept"], "EPERM");
        fixture.check_denied(&["accept4"], "EPERM");
    }
    for landlock in versions() {
        let jail = with_network.jail(landlock);
        let result = with_network.outcome(Confinement::Isolated(&jail), &["tcp-listen"]);
        // From version 4 on, Landlock denies the bind already.
        assert_eq!(result, if landlock >= 4 { "EACCES" } else { "EPERM" });
    }
    // Some resolvers bind their socket.
    with_network.check_allowed(&["udp-bind"]);
}

#[test]
fn other_kernel_interfaces_are_denied() {
    let fixture = Fixture::new();
    // Some of these calls are denied without a jail too, depending on the machine.
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
        fixture.check_denied_in_jail(&[attempt], "EPERM");
    }
    for attempt in ["statmount", "listmount"] {
        fixture.check_denied_in_jail(&[attempt], "EPERM");
    }
    fixture.check_denied(&["shared-segment"], "EPERM");
    fixture.check_denied(&["message-queue"], "EPERM");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn system_calls_of_another_architecture_end_the_process() {
    let fixture = Fixture::new();
    let signal = |confinement: Confinement<'_>| {
        fixture.run(confinement, &["call-of-another-architecture"]).unwrap().status.signal()
    };
    // On a machine without these calls, the attempt fails with a signal.
    let (bad_system_call, fault) = (Some(31), Some(11));
    let contained = signal(Confinement::Contained);
    assert!([None, fault].contains(&contained), "{contained:?}");
    for landlock in versions() {
        let isolated = signal(Confinement::Isolated(&fixture.jail(landlock)));
        assert_eq!(isolated, if contained.is_none() { bad_system_call } else { fault });
    }
}

#[test]
fn memory_outside_the_limits_is_denied() {
    let fixture = Fixture::new();
    fixture.check_denied(&["shared-memory"], "EPERM");
    fixture.check_denied(&["growing-memory"], "EPERM");
    Fixture::with_permissions(subprocess()).check_allowed(&["shared-memory"]);
    // Sent descriptors keep deleted files, whose size the host cannot see.
    fixture.check_denied(&["send-descriptor"], "EPERM");
    Fixture::with_permissions(subprocess()).check_denied(&["send-descriptor"], "EPERM");
    assert_eq!(fixture.outcome(Confinement::Contained, &["much-memory"]), "ENOMEM");
}
