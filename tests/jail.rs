//! What a strategy cannot do in the jail. Each attempt is made by a real process (`jail/probe.c`) twice,
//! started as the host starts a strategy: in the jail, where it must be denied, and contained, where it must
//! be let through, so that the check can fail. All of it for the newest version of Landlock that the jail
//! uses and for the oldest, as the user of the tests and, where that is root, as another one.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is a test that failed")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests compile their probe, and start themselves as another user"
)]
#![cfg(target_os = "linux")]

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use jp_compact_engine::jail::{Abilities, Confinement, Jail, Tier};
use jp_compact_engine::process::{self, Ended, Launch, ProcessError};
use jp_compact_schema::Permissions;

/// Another place for the executables: the user of the second round may not reach the first.
const TOOLS: &str = "JP_COMPACT_TEST_TOOLS";
const NOBODY: &str = "65534";

static RUNNER: LazyLock<PathBuf> = LazyLock::new(|| {
    let tools = std::env::var_os(TOOLS).map(PathBuf::from);
    tools.map_or_else(|| env!("CARGO_BIN_EXE_compact-runner").into(), |tools| tools.join("compact-runner"))
});
static PROBE: LazyLock<PathBuf> = LazyLock::new(|| {
    if let Some(tools) = std::env::var_os(TOOLS) {
        return Path::new(&tools).join("probe");
    }
    let probe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probe");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/jail/probe.c");
    let compiled = Command::new("cc").args(["-O1", "-pthread", source, "-o"]).arg(&probe).status().unwrap();
    assert!(compiled.success(), "the probe does not compile");
    probe
});

/// A place outside the jail: a transcript, and room for private directories.
struct Place {
    base: tempfile::TempDir,
    granted: Permissions,
}

impl Place {
    fn new() -> Self {
        Self::granting(Permissions::default())
    }

    fn granting(granted: Permissions) -> Self {
        let place = Self { base: tempfile::tempdir().unwrap(), granted };
        fs::write(place.base.path().join("events.json"), "[]").unwrap();
        place
    }

    fn path(&self, name: &str) -> String {
        self.base.path().join(name).to_str().unwrap().to_owned()
    }

    fn transcript(&self) -> String {
        self.path("events.json")
    }

    fn jail(&self, landlock: u8) -> Jail {
        Jail::new(Abilities { landlock, seccomp: true }, &PROBE, &self.granted, None).unwrap()
    }

    fn run(&self, confinement: Confinement<'_>, args: &[&str]) -> Result<Ended, ProcessError> {
        self.launch(&RUNNER, confinement, &PROBE, args)
    }

    fn launch(
        &self,
        runner: &Path,
        confinement: Confinement<'_>,
        program: &Path,
        args: &[&str],
    ) -> Result<Ended, ProcessError> {
        let launch = Launch {
            runner,
            program,
            confinement,
            args,
            stdin: Vec::new(),
            env: &[],
            temp_dir: self.base.path(),
            deadline: Duration::from_secs(60),
            grace: process::GRACE,
            stdout_bytes_max: 1 << 20,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(process::run(launch))
    }

    /// What became of an attempt.
    #[track_caller]
    fn outcome(&self, confinement: Confinement<'_>, args: &[&str]) -> String {
        let ended = self.run(confinement, args).unwrap();
        assert_eq!(ended.tier, confinement.tier());
        let said = String::from_utf8(ended.stdout).unwrap().trim_end().to_owned();
        let code = ended.status.code();
        assert!(matches!(code, Some(0 | 1)), "{args:?}: {code:?} {said} {}", ended.stderr.text());
        assert_eq!(code == Some(0), said == "let through", "{args:?}: {code:?} {said}");
        said
    }

    /// Denied in the jail, whatever the machine would have said without.
    #[track_caller]
    fn denied_here(&self, args: &[&str], error: &str) {
        for landlock in versions() {
            let jail = self.jail(landlock);
            let said = self.outcome(Confinement::Isolated(&jail), args);
            assert_eq!(said, error, "{args:?} with Landlock {landlock}");
        }
    }

    /// Denied in the jail, and let through without it.
    #[track_caller]
    fn denied(&self, args: &[&str], error: &str) {
        self.denied_here(args, error);
        assert_eq!(self.outcome(Confinement::Contained, args), "let through", "{args:?} without a jail");
    }

    #[track_caller]
    fn allowed(&self, args: &[&str]) {
        for landlock in versions() {
            let jail = self.jail(landlock);
            let said = self.outcome(Confinement::Isolated(&jail), args);
            assert_eq!(said, "let through", "{args:?} with Landlock {landlock}");
        }
    }
}

/// The oldest version and the newest of this machine.
fn versions() -> [u8; 2] {
    let abilities = Abilities::of_machine();
    assert!(abilities.tier() > Tier::Contained, "these tests need a machine that can jail: {abilities:?}");
    [1, abilities.landlock]
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn subprocess() -> Permissions {
    Permissions { subprocess: true, ..Permissions::default() }
}

fn network() -> Permissions {
    Permissions { network: true, ..Permissions::default() }
}

#[test]
fn a_program_runs_and_has_its_folder_threads_and_pairs() {
    let place = Place::new();
    for attempt in ["nothing", "use-private-folder", "thread", "pair", "signal-itself"] {
        place.allowed(&[attempt]);
    }
    // The oldest version keeps every file in its folder.
    let jail = place.jail(versions()[1]);
    assert_eq!(place.outcome(Confinement::Isolated(&jail), &["move-in-private-folder"]), "let through");
    place.allowed(&["read", "/dev/urandom"]);
    place.allowed(&["write", "/dev/null"]);
    place.allowed(&["read", PROBE.to_str().unwrap()]);
}

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
    ] {
        place.denied(&[attempt], "EPERM");
    }
    let place = Place::granting(subprocess());
    for attempt in ["signal-parent", "signal-thread-of-parent", "signal-by-thread-alone", "signal-by-file"] {
        place.denied(&[attempt], "EPERM");
    }
}

#[test]
fn other_processes_run_as_they_did() {
    let place = Place::new();
    for attempt in ["limit-parent", "renice-parent", "pin-parent", "outlive-host"] {
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
fn subprocesses_can_be_granted_and_do_not_leave_the_group() {
    let place = Place::granting(subprocess());
    place.allowed(&["fork"]);
    place.allowed(&["fork-by-library"]);
    place.denied(&["setsid-in-a-child"], "EPERM");
    place.denied_here(&["clone-namespace"], "EPERM");
    place.denied(&["read", &place.transcript()], "EACCES");
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
    // What may open connections may not wait for them, from the fourth version on.
    let newest = granted.jail(versions()[1]);
    let said = granted.outcome(Confinement::Isolated(&newest), &["tcp-listen"]);
    assert_eq!(said, if versions()[1] >= 4 { "EACCES" } else { "let through" });
    granted.denied(&["netlink"], "EPERM");
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
    assert_eq!(place.outcome(Confinement::Contained, &["much-memory"]), "ENOMEM");
}

#[test]
fn reading_can_be_granted() {
    let place = Place::new();
    let data = place.path("data");
    fs::create_dir(&data).unwrap();
    fs::write(place.path("data/file"), "x").unwrap();
    symlink(place.transcript(), place.path("data/link")).unwrap();
    let read = vec![data.clone(), place.path("not-there")];
    let place = Place { granted: Permissions { read, ..Permissions::default() }, ..place };
    place.allowed(&["read", &place.path("data/file")]);
    place.allowed(&["list", &data]);
    place.denied(&["read", &place.path("data/link")], "EACCES");
    place.denied(&["write", &place.path("data/file")], "EACCES");
}

#[test]
fn a_spool_is_read_by_name_and_not_listed() {
    let place = Place::new();
    let spool = place.path("spool");
    fs::create_dir(&spool).unwrap();
    fs::write(place.path("spool/7f3a"), "x").unwrap();
    let jail = place.jail(versions()[1]).with_spool(Path::new(&spool));
    let outcome = |args: &[&str]| place.outcome(Confinement::Isolated(&jail), args);
    assert_eq!(outcome(&["read", &place.path("spool/7f3a")]), "let through");
    assert_eq!(outcome(&["list", &spool]), "EACCES");
    assert_eq!(outcome(&["write", &place.path("spool/7f3a")]), "EACCES");
}

/// Makes an executable, in another process: a file that this one wrote may still be open in a child that
/// another test starts, and then it is too busy to be executed.
fn install(from: &Path, to: &Path) {
    let installed = Command::new("install").args(["-m", "755"]).args([from, to]).status().unwrap();
    assert!(installed.success(), "{} is not installed", to.display());
}

/// A runner that is reached through these words.
fn runner_by(place: &Place, words: &[&str]) -> PathBuf {
    let script = place.base.path().join("runner");
    let [probe, runner] = [&*PROBE, &*RUNNER].map(|path| path.display());
    let text = place.base.path().join("text");
    fs::write(&text, format!("#!/bin/sh\nexec {probe} {} {runner} \"$@\"\n", words.join(" "))).unwrap();
    install(&text, &script);
    script
}

#[track_caller]
fn fails_closed(without: &str, expect: &str) {
    let place = Place::new();
    let runner = runner_by(&place, &["without", without]);
    let launch = |confinement: Confinement<'_>| place.launch(&runner, confinement, &PROBE, &["nothing"]);
    assert!(launch(Confinement::Contained).unwrap().status.success());
    for landlock in versions() {
        let jail = place.jail(landlock);
        let Err(ProcessError::Start { reason, .. }) = launch(Confinement::Isolated(&jail)) else {
            panic!("started without {without}")
        };
        assert!(reason.contains(expect), "{reason}");
    }
}

#[test]
fn without_landlock_nothing_starts() {
    fails_closed("landlock", "the kernel has no Landlock");
}

#[test]
fn without_seccomp_nothing_starts() {
    fails_closed("seccomp", "filter of system calls not installed");
}

/// This test itself, as a process of its own.
fn itself(words: &[&str], test: &str) -> Command {
    let mut command = Command::new(&*PROBE);
    command.args(words).arg(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]);
    command
}

#[track_caller]
fn machine_without(what: &str, expect: &str) {
    let output = itself(&["without", what], "says_what_the_machine_can").arg("--ignored").output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains(expect), "{stdout}");
}

#[test]
#[ignore = "it speaks to other tests"]
#[expect(clippy::print_stdout, reason = "it speaks to other tests")]
fn says_what_the_machine_can() {
    println!("{:?}", Abilities::of_machine());
}

#[test]
fn what_is_missing_is_seen() {
    let here = Abilities::of_machine();
    assert!(here.seccomp);
    machine_without("landlock", "Abilities { landlock: 0, seccomp: true }");
    machine_without("seccomp", &format!("Abilities {{ landlock: {}, seccomp: false }}", here.landlock));
}

#[track_caller]
fn interprets(interpreter: &str, args: &[&str], expect: &str) {
    let interpreter = Path::new(interpreter).canonicalize().unwrap();
    let place = Place::new();
    for landlock in versions() {
        let abilities = Abilities { landlock, seccomp: true };
        let jail = Jail::new(abilities, &PROBE, &place.granted, Some(&interpreter)).unwrap();
        let ended = place.launch(&RUNNER, Confinement::Isolated(&jail), &interpreter, args).unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stdout), expect, "{}", ended.stderr.text());
        assert!(ended.status.success());
    }
}

#[test]
fn interpreters_run() {
    interprets("/bin/sh", &["-c", "cat </etc/passwd; exec expr 1 + 1"], "2\n");
    for (path, code) in
        [("/usr/bin/python3", "import json, random; print(2)"), ("/usr/bin/node", "console.log(2)")]
    {
        let flag = if path.ends_with("node") { "-e" } else { "-c" };
        if Path::new(path).exists() {
            interprets(path, &[flag, code], "2\n");
        }
    }
}

#[test]
fn a_script_without_its_runtime_says_what_to_grant() {
    let place = Place::new();
    let script = place.path("strategy");
    fs::write(place.path("text"), "#!/bin/sh\necho hello\n").unwrap();
    let abilities = Abilities::of_machine();
    let script = Path::new(&script);
    install(Path::new(&place.path("text")), script);
    let launch = |interpreter| {
        let jail = Jail::new(abilities, script, &place.granted, interpreter).unwrap();
        place.launch(&RUNNER, Confinement::Isolated(&jail), script, &[])
    };
    let error = launch(None).unwrap_err().to_string();
    assert!(error.ends_with("a script needs the grant `runtime`"), "{error}");
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    assert_eq!(launch(Some(&*shell)).unwrap().stdout, b"hello\n");
}

#[test]
fn all_of_it_holds_for_another_user() {
    if !is_root() {
        return;
    }
    let tools = tempfile::tempdir().unwrap();
    fs::set_permissions(tools.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let own = std::env::current_exe().unwrap();
    for (name, path) in [("compact-runner", &*RUNNER), ("probe", &*PROBE), ("tests", &own)] {
        install(path, &tools.path().join(name));
    }
    let room = tools.path().join("room");
    fs::create_dir(&room).unwrap();
    fs::set_permissions(&room, fs::Permissions::from_mode(0o1777)).unwrap();
    let mut command = Command::new(tools.path().join("probe"));
    command.args(["as", NOBODY]).arg(tools.path().join("tests")).args(["--skip", "all_of_it_holds"]);
    command
        .env_clear()
        .env(TOOLS, tools.path())
        .env("TMPDIR", &room)
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &room);
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains(" passed; 0 failed; 1 ignored;"), "{stdout}");
}
