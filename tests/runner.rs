//! The process environment that `compact-runner` sets up for a strategy. System programs inspect their own
//! process.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "tests start the runner")]
#![cfg(target_os = "linux")]

#[expect(dead_code, reason = "other tests need more of a trace")]
mod strace;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use strace::{Call, Strace};

const RUNNER: &str = env!("CARGO_BIN_EXE_compact-runner");

/// Runner flags for a jail that can run the system's programs.
const JAIL: [&str; 12] = [
    "--landlock",
    "1",
    "--execute",
    "/usr",
    "--execute",
    "/bin",
    "--execute",
    "/lib",
    "--execute",
    "/lib64",
    "--read",
    "/proc",
];

/// The temporary folder of one test, with a private directory.
struct TestDir {
    _base: tempfile::TempDir,
    private_dir: PathBuf,
}

impl TestDir {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let private_dir = base.path().join("private");
        std::fs::DirBuilder::new().mode(0o700).create(&private_dir).unwrap();
        Self { _base: base, private_dir }
    }

    /// Returns the command `wrapper... runner flags -- args`. The programs in `wrapper` prepare the process and
    /// then exec the arguments that follow them.
    fn runner_after(&self, wrapper: &[&str], flags: &[&str], args: &[&str]) -> Command {
        let host_pid = std::process::id().to_string();
        let dir = self.private_dir.to_str().unwrap();
        let runner_call = [&[RUNNER, "--host-pid", &host_pid, "--dir", dir], flags, &["--"], args].concat();
        let command_line = [wrapper, &runner_call].concat();
        let mut command = Command::new(command_line[0]);
        command.args(&command_line[1..]).stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn output(&self, flags: &[&str], args: &[&str]) -> String {
        stdout_of(&self.runner_after(&[], flags, args).output().unwrap())
    }

    #[track_caller]
    fn check_not_started(&self, flags: &[&str], args: &[&str], reason: &str) {
        let output = self.runner_after(&[], flags, args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let expect = format!("compact-runner: failed to start {}: {reason}", args[0]);
        assert!(stderr.starts_with(&expect), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert_eq!(output.status.code(), Some(126));
        assert_eq!(output.stdout, b"");
    }
}

#[track_caller]
fn stdout_of(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn environment_contains_fixed_and_granted_variables_only() {
    let test_dir = TestDir::new();
    let mut command = test_dir.runner_after(
        &[],
        &["--env", "GRANTED", "--env", "GRANTED_BUT_UNSET", "--env", "EMPTY"],
        &["/usr/bin/env"],
    );
    command.env_remove("GRANTED_BUT_UNSET").env("EMPTY", "").env("OTHER", "never granted");
    let stdout = stdout_of(&command.env("GRANTED", "a = b").output().unwrap());
    let dir = test_dir.private_dir.display();
    let expect = [
        "EMPTY=".to_owned(),
        "GRANTED=a = b".to_owned(),
        format!("HOME={dir}"),
        "JP_COMPACT_PROTOCOL=1".to_owned(),
        "LANG=C.UTF-8".to_owned(),
        "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
        format!("TMPDIR={dir}"),
        "TZ=UTC".to_owned(),
    ];
    assert_eq!(sorted(&stdout), expect);
}

#[test]
fn fixed_variable_cannot_be_granted() {
    TestDir::new().check_not_started(&["--env", "PATH"], &["/bin/true"], "PATH is set by the host");
    let reason = "LD_PRELOAD changes the dynamic loader";
    TestDir::new().check_not_started(&["--env", "LD_PRELOAD"], &["/bin/true"], reason);
}

#[test]
fn private_directory_is_the_working_directory_with_mode_700() {
    let test_dir = TestDir::new();
    let stdout = test_dir.output(&[], &["/usr/bin/stat", "--format=%n %a %F", "../private", "."]);
    assert_eq!(stdout, "../private 700 directory\n. 700 directory\n");
}

#[test]
fn new_files_have_mode_600() {
    let stdout = TestDir::new().output(&[], &["/bin/sh", "-c", ": >made; stat --format=%a made"]);
    assert_eq!(stdout, "600\n");
}

#[test]
fn missing_private_directory_is_an_error() {
    let test_dir = TestDir::new();
    std::fs::remove_dir(&test_dir.private_dir).unwrap();
    let expect = format!(
        "failed to enter the private directory {}: No such file or directory",
        test_dir.private_dir.display()
    );
    test_dir.check_not_started(&[], &["/bin/true"], &expect);
}

#[track_caller]
fn check_limit(limits: &str, name: &str, expect: &str) {
    let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
    let values: Vec<_> = line[name.len()..].split_whitespace().take(2).collect();
    assert_eq!(values, [expect, expect], "{name}");
}

#[test]
fn soft_and_hard_limits_are_set() {
    let limits = TestDir::new().output(&["--cpu-seconds", "61"], &["/bin/cat", "/proc/self/limits"]);
    check_limit(&limits, "Max core file size", "0");
    check_limit(&limits, "Max data size", "536870912");
    check_limit(&limits, "Max file size", "67108864");
    check_limit(&limits, "Max open files", "64");
    check_limit(&limits, "Max cpu time", "61");
}

/// Creates a control group if possible. Most users may not create one, and then the test is skipped.
#[test]
fn runner_joins_the_given_control_group() {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounted = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let Some(root) = mounted.and_then(|line| line.split(' ').nth(4)) else { return };
    let own_group = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(own_group) = own_group.lines().find_map(|line| line.strip_prefix("0::/")) else { return };
    let name = format!("jp-compact-test-{}", std::process::id());
    let group = Path::new(root).join(own_group).join(&name);
    if std::fs::create_dir(&group).is_err() {
        return;
    }
    let test_dir = TestDir::new();
    // In this jail no keeper stays in the group.
    let flags = [&JAIL[..], &["--cgroup", group.to_str().unwrap()]].concat();
    let groups = test_dir.output(&flags, &["/bin/cat", "/proc/self/cgroup"]);
    std::fs::remove_dir(&group).unwrap();
    assert!(groups.lines().any(|line| line.starts_with("0::") && line.ends_with(&name)), "{groups}");
    test_dir.check_not_started(
        &flags,
        &["/bin/true"],
        &format!("failed to join the control group {}: No such file", group.display()),
    );
}

#[test]
fn worker_has_no_processor_time_limit() {
    let limits = TestDir::new().output(&[], &["/bin/cat", "/proc/self/limits"]);
    let host_limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let cpu = |limits: &str| limits.lines().find(|line| line.starts_with("Max cpu")).map(str::to_owned);
    assert_eq!(cpu(&limits), cpu(&host_limits));
}

#[test]
fn lower_limit_of_the_host_is_kept() {
    let test_dir = TestDir::new();
    let mut command =
        test_dir.runner_after(&["/usr/bin/prlimit", "--nofile=32"], &[], &["/bin/cat", "/proc/self/limits"]);
    check_limit(&stdout_of(&command.output().unwrap()), "Max open files", "32");
}

#[test]
fn only_the_three_standard_streams_are_open() {
    let test_dir = TestDir::new();
    let wrapper = ["/bin/sh", "-c", "exec 3</dev/null 9</dev/null; exec \"$@\"", "sh"];
    let output = test_dir.runner_after(&wrapper, &[], &["/bin/ls", "/proc/self/fd"]).output().unwrap();
    // Descriptor 3 is the folder that `ls` itself reads.
    assert_eq!(sorted(&stdout_of(&output)), ["0", "1", "2", "3"]);
}

#[test]
fn strategy_leads_its_own_session() {
    let stat = TestDir::new().output(&[], &["/bin/cat", "/proc/self/stat"]);
    let fields: Vec<_> = stat.split(' ').collect();
    let (pid, group, session) = (fields[0], fields[4], fields[5]);
    assert_eq!([group, session], [pid, pid], "{stat}");
}

#[test]
fn signals_have_default_actions_and_are_unblocked() {
    let test_dir = TestDir::new();
    let wrapper = ["/usr/bin/env", "--ignore-signal=HUP,PIPE,TERM", "--block-signal=USR1,TERM"];
    let mut command =
        test_dir.runner_after(&wrapper, &[], &["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
    let stdout = stdout_of(&command.output().unwrap());
    // posix_spawn of the C library ignores two internal signals in every process.
    let internal_signals = 1 << 31 | 1 << 32;
    for line in stdout.lines() {
        let (_, mask) = line.split_once(":\t").unwrap();
        assert_eq!(u64::from_str_radix(mask, 16).unwrap() & !internal_signals, 0, "{line}");
    }
    assert_eq!(stdout.lines().count(), 2);
}

#[test]
fn exit_code_of_the_program_is_returned() {
    let output = TestDir::new().runner_after(&[], &[], &["/bin/sh", "-c", "exit 7"]).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn first_argument_of_the_program_is_its_path() {
    let stdout =
        TestDir::new().output(&[], &["/bin/sh", "-c", "echo \"$0\" \"$@\"; tr '\\0' ' ' </proc/$$/cmdline"]);
    assert!(stdout.starts_with("/bin/sh\n/bin/sh -c "), "{stdout}");
}

#[test]
fn script_without_shebang_is_not_run_by_a_shell() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/no-shebang");
    TestDir::new().check_not_started(&[], &[script.to_str().unwrap()], "Exec format error");
}

#[test]
fn missing_program_is_an_error() {
    TestDir::new().check_not_started(&[], &["/nowhere/strategy"], "No such file or directory");
}

#[test]
fn program_without_execute_permission_is_an_error() {
    TestDir::new().check_not_started(&[], &["/etc/passwd"], "Permission denied");
}

#[test]
fn unknown_option_prints_the_usage() {
    let output = TestDir::new().runner_after(&[], &["--no-such"], &["/bin/true"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.starts_with("compact-runner: unknown option --no-such\nusage: compact-runner "),
        "{stderr}"
    );
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn jail_without_landlock_is_an_error() {
    let test_dir = TestDir::new();
    test_dir.check_not_started(&["--landlock", "0"], &["/bin/true"], "a jail requires Landlock");
}

#[test]
fn jail_does_not_allow_its_program_by_default() {
    TestDir::new().check_not_started(&["--landlock", "1"], &["/bin/true"], "Permission denied");
}

#[test]
fn capabilities_are_dropped_permanently() {
    let test_dir = TestDir::new();
    let flags = [
        "--landlock",
        "1",
        "--execute",
        "/usr",
        "--execute",
        "/lib64",
        "--execute",
        "/bin",
        "--read",
        "/proc",
    ];
    let status = test_dir.output(&flags, &["/bin/cat", "/proc/self/status"]);
    for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(status.contains(&format!("{name}:\t0000000000000000\n")), "{name}: {status}");
    }
    assert!(status.contains("NoNewPrivs:\t1\n") && status.contains("Seccomp:\t2\n"), "{status}");
}

#[test]
fn runner_requires_the_host_as_its_parent() {
    let test_dir = TestDir::new();
    // The last value of an option is used.
    test_dir.check_not_started(&["--host-pid", "1"], &["/bin/true"], "process 1 is not the parent");
}

/// Starts a shell as the host. The strategy reads and writes the pipes of the test.
fn shell_host(test_dir: &TestDir, flags: &[&str], strategy: &[&str]) -> Child {
    let script = "dir=$1; shift; exec 3<&0; \"$0\" --host-pid $$ --dir \"$dir\" \"$@\" <&3 & exec 3<&- </dev/null >/dev/null; wait";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, RUNNER]).arg(&test_dir.private_dir).args(flags).arg("--").args(strategy);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn strategy_dies_with_the_host() {
    check_dies_with_the_host(&[]);
}

#[test]
fn jailed_strategy_dies_with_the_host() {
    check_dies_with_the_host(&JAIL);
}

/// The oldest and the newest Landlock version that a jail requests.
const LANDLOCKS: [&str; 2] = ["1", "6"];

#[test]
fn children_of_a_strategy_die_with_the_host() {
    let jails = LANDLOCKS.map(|landlock| [&JAIL[..], &["--landlock", landlock, "--subprocess"]].concat());
    for flags in jails.into_iter().chain([Vec::new()]) {
        // The children and grandchildren hold the pipe. It closes after the last of them has ended.
        let script = "exec 3<&0; (sleep 1000 & sleep 1000) & (cat <&3; :) & exec 3<&-; wait";
        check_command_dies_with_the_host(&flags, &["/bin/sh", "-c", script]);
    }
}

#[test]
fn strategy_with_subprocess_permission_ends_normally() {
    for landlock in LANDLOCKS {
        let test_dir = TestDir::new();
        let flags = [&JAIL[..], &["--landlock", landlock, "--subprocess"]].concat();
        let run_script =
            |script| test_dir.runner_after(&[], &flags, &["/bin/sh", "-c", script]).output().unwrap();
        // The end of the output proves that no other process holds it.
        let output = run_script("exit 7");
        assert_eq!((output.status.code(), &*output.stdout, &*output.stderr), (Some(7), &b""[..], &b""[..]));
        assert_eq!(run_script("kill -TERM $$").status.signal(), Some(15));
        let stat = String::from_utf8(run_script("cat /proc/$$/stat; ls /proc/$$/fd").stdout).unwrap();
        let fields: Vec<_> = stat.split([' ', '\n']).collect();
        assert_eq!(
            [fields[3], fields[4], fields[5]],
            [&*std::process::id().to_string(), fields[0], fields[0]]
        );
        assert!(stat.ends_with("\n0\n1\n2\n"), "{stat}");
    }
}

#[test]
fn keeper_never_has_the_pipes_of_the_strategy() {
    let Some(strace) = Strace::find(Path::new("/bin/true")) else { return };
    let jailed = [&JAIL[..], &["--landlock", "1", "--subprocess"]].concat();
    for flags in [Vec::new(), jailed] {
        let test_dir = TestDir::new();
        let options = ["-f", "-e", "trace=execve,clone,close,recvmsg,?dup2,dup3"];
        let script = "dir=$1; shift; \"$0\" --host-pid $$ --dir \"$dir\" \"$@\"; exit $?";
        let traced =
            strace.run(test_dir.private_dir.parent().unwrap(), &options.map(str::to_owned), |command| {
                command.args(["/bin/sh", "-c", script, RUNNER]).arg(&test_dir.private_dir).args(&flags);
                command.args(["--", "/bin/true"]);
            });
        assert!(traced.status.success(), "{}", traced.stderr);
        let calls = &traced.all_calls;
        let is_copy =
            |call: &Call| call.name == "clone" && call.args.iter().any(|arg| arg.contains("CLONE_PARENT"));
        let copy = calls.iter().position(is_copy).unwrap();
        let (runner, keeper) = (calls[copy].pid, calls[copy].returned().unwrap());
        let closes = |call: &&Call, number: &str| {
            let number_of_file = |file: &String| file.split('<').next() == Some(number);
            call.pid == runner && call.name == "close" && call.args.first().is_some_and(number_of_file)
        };
        for number in ["0", "1", "2"] {
            assert_eq!(calls[..copy].iter().filter(|call| closes(call, number)).count(), 1, "{calls:#?}");
        }
        // The runner gets the pipes back before it becomes the strategy. The keeper makes none of the traced calls.
        let starts_strategy = |call: &Call| call.name == "execve" && call.args[0] == "\"/bin/true\"";
        let start = calls.iter().position(starts_strategy).unwrap();
        let restored = calls[copy..start].iter().filter(|call| call.pid == runner && call.name == "recvmsg");
        assert_eq!(restored.count(), 1, "{calls:#?}");
        assert!(calls.iter().all(|call| call.pid as usize != keeper), "{calls:#?}");
    }
}

#[track_caller]
fn check_dies_with_the_host(flags: &[&str]) {
    check_command_dies_with_the_host(flags, &["/bin/cat"]);
}

/// Checks that a strategy that copies its input to its output dies with the host.
#[track_caller]
fn check_command_dies_with_the_host(flags: &[&str], strategy: &[&str]) {
    let test_dir = TestDir::new();
    let mut host = shell_host(&test_dir, flags, strategy);
    let mut stdin = host.stdin.take().unwrap();
    let mut stdout = BufReader::new(host.stdout.take().unwrap());
    stdin.write_all(b"started\n").unwrap();
    let mut answer = String::new();
    stdout.read_line(&mut answer).unwrap();
    assert_eq!(answer, "started\n");

    host.kill().unwrap();
    host.wait().unwrap();
    // The input stays open, so only the death of the strategy ends its output.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut rest = String::new();
        let _ = stdout.read_to_string(&mut rest);
        let _ = sender.send(rest);
    });
    let rest = receiver.recv_timeout(std::time::Duration::from_secs(60));
    drop(stdin);
    assert_eq!(rest.as_deref(), Ok(""), "a process still holds the output");
}
