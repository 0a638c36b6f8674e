//! What a strategy finds when `compact-runner` has started it: real processes that look at
//! themselves with the system's own programs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is a test that failed")]
#![expect(clippy::disallowed_methods, reason = "these tests start the runner as the host does")]
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const RUNNER: &str = env!("CARGO_BIN_EXE_compact-runner");

/// A jail for the system's own programs.
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

/// The place of one test, and the private directory in it.
struct Place {
    _base: tempfile::TempDir,
    dir: PathBuf,
}

impl Place {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("private");
        std::fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
        Self { _base: base, dir }
    }

    /// The runner, called as `flags -- words`, by a program that has set the stage: `stage`
    /// replaces itself with the words that follow it.
    fn staged(&self, stage: &[&str], flags: &[&str], words: &[&str]) -> Command {
        let host_pid = std::process::id().to_string();
        let dir = self.dir.to_str().unwrap();
        let call = [&[RUNNER, "--host-pid", &host_pid, "--dir", dir], flags, &["--"], words].concat();
        let all = [stage, &call].concat();
        let mut command = Command::new(all[0]);
        command.args(&all[1..]).stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn output(&self, flags: &[&str], words: &[&str]) -> String {
        succeeded(&self.staged(&[], flags, words).output().unwrap())
    }

    #[track_caller]
    fn not_started(&self, flags: &[&str], words: &[&str], reason: &str) {
        let output = self.staged(&[], flags, words).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let expect = format!("compact-runner: failed to start {}: {reason}", words[0]);
        assert!(stderr.starts_with(&expect), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert_eq!(output.status.code(), Some(126));
        assert_eq!(output.stdout, b"");
    }
}

#[track_caller]
fn succeeded(output: &Output) -> String {
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
fn the_environment_is_the_fixed_names_and_the_granted_ones() {
    let place = Place::new();
    let mut command = place.staged(
        &[],
        &["--env", "GRANTED", "--env", "GRANTED_BUT_UNSET", "--env", "EMPTY"],
        &["/usr/bin/env"],
    );
    command.env_remove("GRANTED_BUT_UNSET").env("EMPTY", "").env("OTHER", "never granted");
    let stdout = succeeded(&command.env("GRANTED", "a = b").output().unwrap());
    let dir = place.dir.display();
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
fn a_fixed_name_cannot_be_granted() {
    Place::new().not_started(&["--env", "PATH"], &["/bin/true"], "PATH is set by the host");
}

#[test]
fn the_private_directory_is_the_working_directory_and_closed_to_others() {
    let place = Place::new();
    let stdout = place.output(&[], &["/usr/bin/stat", "--format=%n %a %F", "../private", "."]);
    assert_eq!(stdout, "../private 700 directory\n. 700 directory\n");
}

#[test]
fn files_a_strategy_makes_are_closed_to_others() {
    let stdout = Place::new().output(&[], &["/bin/sh", "-c", ": >made; stat --format=%a made"]);
    assert_eq!(stdout, "600\n");
}

#[test]
fn a_directory_that_is_missing_is_named() {
    let place = Place::new();
    std::fs::remove_dir(&place.dir).unwrap();
    let expect = format!("private directory {}: No such file or directory", place.dir.display());
    place.not_started(&[], &["/bin/true"], &expect);
}

#[track_caller]
fn limit_is(limits: &str, name: &str, expect: &str) {
    let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
    let values: Vec<_> = line[name.len()..].split_whitespace().take(2).collect();
    assert_eq!(values, [expect, expect], "{name}");
}

#[test]
fn limits_are_set_soft_and_hard() {
    let limits = Place::new().output(&["--cpu-seconds", "61"], &["/bin/cat", "/proc/self/limits"]);
    limit_is(&limits, "Max core file size", "0");
    limit_is(&limits, "Max data size", "536870912");
    limit_is(&limits, "Max file size", "67108864");
    limit_is(&limits, "Max open files", "64");
    limit_is(&limits, "Max cpu time", "61");
}

/// A control group that is there already: whoever runs these tests may seldom make one.
#[test]
fn it_joins_the_control_group_that_it_is_told() {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounted = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let Some(root) = mounted.and_then(|line| line.split(' ').nth(4)) else { return };
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(own) = own.lines().find_map(|line| line.strip_prefix("0::/")) else { return };
    let name = format!("jp-compact-test-{}", std::process::id());
    let group = Path::new(root).join(own).join(&name);
    if std::fs::create_dir(&group).is_err() {
        return;
    }
    let place = Place::new();
    let flags = ["--cgroup", group.to_str().unwrap()];
    let said = place.output(&flags, &["/bin/cat", "/proc/self/cgroup"]);
    std::fs::remove_dir(&group).unwrap();
    assert!(said.lines().any(|line| line.starts_with("0::") && line.ends_with(&name)), "{said}");
    place.not_started(&flags, &["/bin/true"], &format!("control group {}: No such file", group.display()));
}

#[test]
fn a_worker_has_no_limit_of_processor_time() {
    let limits = Place::new().output(&[], &["/bin/cat", "/proc/self/limits"]);
    let own = std::fs::read_to_string("/proc/self/limits").unwrap();
    let cpu = |limits: &str| limits.lines().find(|line| line.starts_with("Max cpu")).map(str::to_owned);
    assert_eq!(cpu(&limits), cpu(&own));
}

#[test]
fn a_smaller_limit_of_the_host_stands() {
    let place = Place::new();
    let mut command =
        place.staged(&["/usr/bin/prlimit", "--nofile=32"], &[], &["/bin/cat", "/proc/self/limits"]);
    limit_is(&succeeded(&command.output().unwrap()), "Max open files", "32");
}

#[test]
fn no_file_is_open_but_the_three_pipes() {
    let place = Place::new();
    let stage = ["/bin/sh", "-c", "exec 3</dev/null 9</dev/null; exec \"$@\"", "sh"];
    let output = place.staged(&stage, &[], &["/bin/ls", "/proc/self/fd"]).output().unwrap();
    // The 3 is the folder that `ls` itself reads.
    assert_eq!(sorted(&succeeded(&output)), ["0", "1", "2", "3"]);
}

#[test]
fn it_leads_a_session_of_its_own() {
    let stat = Place::new().output(&[], &["/bin/cat", "/proc/self/stat"]);
    let fields: Vec<_> = stat.split(' ').collect();
    let (pid, group, session) = (fields[0], fields[4], fields[5]);
    assert_eq!([group, session], [pid, pid], "{stat}");
}

#[test]
fn signals_have_their_defaults() {
    let place = Place::new();
    let stage = ["/usr/bin/env", "--ignore-signal=HUP,PIPE,TERM", "--block-signal=USR1,TERM"];
    let mut command = place.staged(&stage, &[], &["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]);
    let stdout = succeeded(&command.output().unwrap());
    // The C library's posix_spawn ignores its own two signals in every process it starts.
    let internal = 1 << 31 | 1 << 32;
    for line in stdout.lines() {
        let (_, mask) = line.split_once(":\t").unwrap();
        assert_eq!(u64::from_str_radix(mask, 16).unwrap() & !internal, 0, "{line}");
    }
    assert_eq!(stdout.lines().count(), 2);
}

#[test]
fn the_exit_code_is_the_programs() {
    let output = Place::new().staged(&[], &[], &["/bin/sh", "-c", "exit 7"]).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn the_first_word_of_the_program_is_its_path() {
    let stdout =
        Place::new().output(&[], &["/bin/sh", "-c", "echo \"$0\" \"$@\"; tr '\\0' ' ' </proc/$$/cmdline"]);
    assert!(stdout.starts_with("/bin/sh\n/bin/sh -c "), "{stdout}");
}

#[test]
fn a_script_without_shebang_is_not_handed_to_a_shell() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/no-shebang");
    Place::new().not_started(&[], &[script.to_str().unwrap()], "Exec format error");
}

#[test]
fn a_program_that_is_missing_is_named() {
    Place::new().not_started(&[], &["/nowhere/strategy"], "No such file or directory");
}

#[test]
fn a_program_that_may_not_be_executed_is_named() {
    Place::new().not_started(&[], &["/etc/passwd"], "Permission denied");
}

#[test]
fn a_wrong_call_shows_the_usage() {
    let output = Place::new().staged(&[], &["--no-such"], &["/bin/true"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.starts_with("compact-runner: unknown option --no-such\nusage: compact-runner "),
        "{stderr}"
    );
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn a_jail_without_landlock_starts_nothing() {
    let place = Place::new();
    place.not_started(&["--landlock", "0"], &["/bin/true"], "a jail without Landlock is none");
}

#[test]
fn a_jail_grants_its_own_program_only_when_told() {
    Place::new().not_started(&["--landlock", "1"], &["/bin/true"], "Permission denied");
}

#[test]
fn privileges_are_given_up_for_good() {
    let place = Place::new();
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
    let status = place.output(&flags, &["/bin/cat", "/proc/self/status"]);
    for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(status.contains(&format!("{name}:\t0000000000000000\n")), "{name}: {status}");
    }
    assert!(status.contains("NoNewPrivs:\t1\n") && status.contains("Seccomp:\t2\n"), "{status}");
}

#[test]
fn a_runner_whose_parent_is_not_the_host_starts_nothing() {
    let place = Place::new();
    // The later number is the one that counts.
    place.not_started(&["--host-pid", "1"], &["/bin/true"], "process 1 is not its host");
}

/// A shell as host, whose strategy is between the two pipes of the test.
fn shell_host(place: &Place, flags: &[&str], strategy: &[&str]) -> Child {
    let script = "dir=$1; shift; exec 3<&0; \"$0\" --host-pid $$ --dir \"$dir\" \"$@\" <&3 & exec 3<&- </dev/null >/dev/null; wait";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, RUNNER]).arg(&place.dir).args(flags).arg("--").args(strategy);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn the_strategy_dies_with_the_host() {
    dies_with_the_host(&[]);
}

#[test]
fn the_strategy_dies_with_the_host_in_a_jail() {
    dies_with_the_host(&JAIL);
}

/// The newest Landlock that a jail asks for, and the oldest.
const LANDLOCKS: [&str; 2] = ["1", "6"];

#[test]
fn what_a_strategy_starts_dies_with_the_host() {
    for landlock in LANDLOCKS {
        let flags = [&JAIL[..], &["--landlock", landlock, "--subprocess"]].concat();
        // The strategy's children and theirs hold the pipe; it ends with the last of them.
        let script = "exec 3<&0; (sleep 1000 & sleep 1000) & (cat <&3; :) & exec 3<&-; wait";
        dies_with_the_host_as(&flags, &["/bin/sh", "-c", script]);
    }
}

#[test]
fn a_strategy_that_may_start_processes_ends_as_any_other() {
    for landlock in LANDLOCKS {
        let place = Place::new();
        let flags = [&JAIL[..], &["--landlock", landlock, "--subprocess"]].concat();
        let output = |script| place.staged(&[], &flags, &["/bin/sh", "-c", script]).output().unwrap();
        // That the output ends says that nobody else holds it.
        let ended = output("exit 7");
        assert_eq!((ended.status.code(), &*ended.stdout, &*ended.stderr), (Some(7), &b""[..], &b""[..]));
        assert_eq!(output("kill -TERM $$").status.signal(), Some(15));
        let stat = String::from_utf8(output("cat /proc/$$/stat; ls /proc/$$/fd").stdout).unwrap();
        let fields: Vec<_> = stat.split([' ', '\n']).collect();
        assert_eq!(
            [fields[3], fields[4], fields[5]],
            [&*std::process::id().to_string(), fields[0], fields[0]]
        );
        assert!(stat.ends_with("\n0\n1\n2\n"), "{stat}");
    }
}

#[track_caller]
fn dies_with_the_host(flags: &[&str]) {
    dies_with_the_host_as(flags, &["/bin/cat"]);
}

/// The strategy writes what it reads.
#[track_caller]
fn dies_with_the_host_as(flags: &[&str], strategy: &[&str]) {
    let place = Place::new();
    let mut host = shell_host(&place, flags, strategy);
    let mut stdin = host.stdin.take().unwrap();
    let mut stdout = BufReader::new(host.stdout.take().unwrap());
    stdin.write_all(b"started\n").unwrap();
    let mut answer = String::new();
    stdout.read_line(&mut answer).unwrap();
    assert_eq!(answer, "started\n");

    host.kill().unwrap();
    host.wait().unwrap();
    // Its input is open, so that nothing but its death ends its output.
    let (ended, waits) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut rest = String::new();
        let _ = stdout.read_to_string(&mut rest);
        let _ = ended.send(rest);
    });
    let rest = waits.recv_timeout(std::time::Duration::from_secs(60));
    drop(stdin);
    assert_eq!(rest.as_deref(), Ok(""), "somebody lives who holds the output");
}
