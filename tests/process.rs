//! Runs of misbehaving strategies through `process::run`, with the real runner and at both tiers. After each
//! run no process and no private directory may remain.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(target_os = "linux")]

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use jp_compact_runtime::jail::{Abilities, Confinement, Jail};
use jp_compact_runtime::process::{self, Ended, Launch, OutputCallbacks, ProcessError, Stderr};
use jp_compact_schema::Permissions;

const RUNNER: &str = env!("CARGO_BIN_EXE_compact-runner");
const STRATEGY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/strategy");

/// Longer than any run that ends by itself.
const NEVER: Duration = Duration::from_secs(300);
const SOON: Duration = Duration::from_millis(200);
/// Enough time for a script to start and to handle a signal, even on a busy machine.
const START_TIME_MAX: Duration = Duration::from_secs(20);

/// The temporary directory of one test. Processes that start in it are found by its path.
struct TestDir(tempfile::TempDir);

impl TestDir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn launch<'a>(&'a self, args: &'a [&'a str]) -> Launch<'a> {
        Launch {
            runner: Path::new(RUNNER),
            program: Path::new(STRATEGY),
            confinement: Confinement::Contained,
            args,
            stdin: Vec::new(),
            env: &[],
            temp_dir: self.0.path(),
            private_bytes_max: process::PRIVATE_BYTES_MAX,
            deadline: NEVER,
            grace: NEVER,
            stdout_bytes_max: 1 << 20,
        }
    }

    /// Runs a strategy at both tiers, checks that nothing remains, and that both results are equal.
    #[track_caller]
    fn run(&self, launch: Launch<'_>) -> Result<Ended, ProcessError> {
        let contained = block_on(process::run(launch.clone()));
        self.check_nothing_remains();
        let jail = jail_for(launch.program);
        let isolated = block_on(process::run(Launch { confinement: Confinement::Isolated(&jail), ..launch }));
        self.check_nothing_remains();
        let outcome = |result: &Result<Ended, ProcessError>| match result {
            Ok(outcome) => format!("{} {} bytes", outcome.status, outcome.stdout.len()),
            Err(error) => error.to_string(),
        };
        assert_eq!(outcome(&isolated), outcome(&contained));
        isolated
    }

    /// Runs a strategy at both tiers to its deadline. On a busy machine it starts late, so the deadline is doubled until
    /// stderr has this line. Passes stderr to `check`.
    #[track_caller]
    fn check_stderr_at_the_deadline(&self, launch: &Launch<'_>, line: &str, check: impl Fn(&Stderr)) {
        let jail = jail_for(launch.program);
        for confinement in [Confinement::Contained, Confinement::Isolated(&jail)] {
            let mut deadline = SOON;
            let stderr = loop {
                // The strategy needs time for its reaction, so a limited grace grows with the deadline.
                let grace = if launch.grace == NEVER { NEVER } else { deadline };
                let result =
                    block_on(process::run(Launch { confinement, deadline, grace, ..launch.clone() }));
                self.check_nothing_remains();
                let Err(ProcessError::Deadline { stderr, .. }) = result else { panic!("{result:?}") };
                if stderr.text().lines().any(|other| other == line) || deadline > START_TIME_MAX {
                    break stderr;
                }
                deadline *= 2;
            };
            check(&stderr);
        }
    }

    #[track_caller]
    fn check_nothing_remains(&self) {
        // A killed process may need a moment to disappear.
        let started = Instant::now();
        while self.processes() > 0 {
            assert!(started.elapsed() < NEVER / 10, "{} processes remain", self.processes());
            std::thread::yield_now();
        }
        assert_eq!(self.files(), Vec::<String>::new());
    }

    /// Returns the number of running processes of this test. The private directory is in their environment
    /// or, before the exec, on the runner's command line. Both are empty for a zombie.
    fn processes(&self) -> usize {
        let name = self.0.path().to_str().unwrap().as_bytes();
        let mentions_test_dir = |file: &Path| {
            std::fs::read(file).is_ok_and(|bytes| bytes.windows(name.len()).any(|window| window == name))
        };
        let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        processes
            .filter(|path| {
                mentions_test_dir(&path.join("environ")) || mentions_test_dir(&path.join("cmdline"))
            })
            .count()
    }

    /// Returns the names in the directory and in its private directories.
    fn files(&self) -> Vec<String> {
        let list = |dir: &Path| -> Vec<_> {
            std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
        };
        let private = list(self.0.path());
        let inside: Vec<_> = private.iter().flat_map(|dir| list(dir)).collect();
        let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        private.iter().chain(&inside).map(name).collect()
    }
}

/// Returns a jail with the permissions that the hostile strategy needs: it is a script that starts processes.
fn jail_for(program: &Path) -> Jail {
    let read = vec!["/proc".to_owned(), "/dev/zero".to_owned()];
    let granted = Permissions { subprocess: true, read, ..Permissions::default() };
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    Jail::new(Abilities::detect(), program, &granted, Some(&shell)).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn lines(megabytes: usize) -> Vec<Bytes> {
    // Many short lines that exceed one write, an empty line, and a longer line.
    let line = Bytes::from(vec![b'x'; 1000]);
    let mut lines = vec![line; megabytes * 1000 - 2];
    lines.push(Bytes::new());
    lines.push(Bytes::from(vec![b'y'; 2000]));
    lines
}

#[track_caller]
fn check_answer(args: &[&str], stdin: Vec<Bytes>, expect: &str) -> Ended {
    let test_dir = TestDir::new();
    let output = test_dir.run(Launch { stdin, ..test_dir.launch(args) }).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), expect);
    assert!(output.status.success(), "{}", output.status);
    output
}

#[test]
fn answer_is_returned() {
    let output = check_answer(&["answers"], Vec::new(), "answer\n");
    assert_eq!(output.stderr.bytes(), 0);
    assert!(!output.wall.is_zero());
}

#[test]
fn answer_without_reading_is_returned() {
    check_answer(&["never-reads"], lines(10), "answer\n");
}

#[test]
fn answer_after_closing_stdin_is_returned() {
    check_answer(&["closes-stdin"], lines(10), "answer\n");
}

#[test]
fn answer_before_reading_is_returned_and_all_input_is_sent() {
    check_answer(&["answers-before-reading"], lines(10), "answer\n10000000\n");
}

#[test]
fn answer_in_small_pieces_is_returned() {
    check_answer(&["drips"], Vec::new(), "drips");
}

#[test]
fn large_input_and_output_pass_unchanged_at_the_same_time() {
    let test_dir = TestDir::new();
    let stdin = lines(10);
    let expect = stdin.concat();
    let launch = Launch { stdin, stdout_bytes_max: expect.len(), ..test_dir.launch(&["echoes"]) };
    assert!(test_dir.run(launch).unwrap().stdout == expect);
}

#[test]
fn stderr_is_drained_and_its_head_and_tail_are_kept() {
    let output = check_answer(&["floods-stderr"], Vec::new(), "answer\n");
    assert_eq!(output.stderr.bytes(), 64 * 1024 * 1024 + 11);
    assert_eq!(output.stderr.dropped_bytes(), output.stderr.bytes() - 64 * 1024);
    assert!(output.stderr.head().starts_with(b"first\nxxx"));
    assert!(output.stderr.tail().ends_with(b"xxxlast\n"));
}

#[test]
fn hanging_strategy_is_ended_at_the_deadline() {
    let test_dir = TestDir::new();
    let result = test_dir.run(Launch { deadline: SOON, ..test_dir.launch(&["hangs"]) });
    let Err(ProcessError::Deadline { deadline, .. }) = result else { panic!("{result:?}") };
    assert_eq!(deadline, SOON);
}

#[test]
fn deadline_ends_a_flood_of_stderr() {
    let test_dir = TestDir::new();
    let launch = Launch { deadline: SOON, grace: SOON, ..test_dir.launch(&["floods-stderr-for-ever"]) };
    let result = test_dir.run(launch);
    assert!(matches!(result, Err(ProcessError::Deadline { .. })), "{result:?}");
}

#[test]
fn strategy_that_closes_its_output_is_ended_at_the_deadline() {
    let test_dir = TestDir::new();
    let result = test_dir.run(Launch { deadline: SOON, ..test_dir.launch(&["closes-its-output-and-hangs"]) });
    assert!(matches!(result, Err(ProcessError::Deadline { .. })), "{result:?}");
}

#[test]
fn strategy_that_ignores_sigterm_is_killed_after_the_grace() {
    let test_dir = TestDir::new();
    let launch = Launch { grace: SOON, ..test_dir.launch(&["ignores-sigterm"]) };
    test_dir.check_stderr_at_the_deadline(&launch, "ignoring", |stderr| {
        assert_eq!(stderr.text(), "ignoring\n");
    });
}

#[test]
fn sigterm_is_sent_to_the_whole_group() {
    let test_dir = TestDir::new();
    let launch = Launch { grace: SOON, ..test_dir.launch(&["its-child-obeys-sigterm"]) };
    // The shell also prints a line about the killed `sleep`.
    test_dir.check_stderr_at_the_deadline(&launch, "child obeyed", |stderr| {
        assert_eq!(stderr.last_lines(1), "child obeyed");
    });
}

#[test]
fn stderr_after_the_deadline_is_kept_but_stdout_is_ignored() {
    let test_dir = TestDir::new();
    test_dir.check_stderr_at_the_deadline(&test_dir.launch(&["obeys-sigterm"]), "waiting", |stderr| {
        assert_eq!(stderr.last_lines(1), "obeyed");
    });
}

#[test]
fn flood_of_stdout_is_an_error() {
    let test_dir = TestDir::new();
    let result = test_dir.run(Launch { stdout_bytes_max: 100_000, ..test_dir.launch(&["floods-stdout"]) });
    assert!(matches!(result, Err(ProcessError::OutputTooLarge { bytes_max: 100_000 })), "{result:?}");
}

#[test]
fn output_limit_is_inclusive() {
    let test_dir = TestDir::new();
    let run = |bytes| {
        test_dir.run(Launch { stdout_bytes_max: 100_000, ..test_dir.launch(&["writes-bytes", bytes]) })
    };
    assert_eq!(run("100000").unwrap().stdout.len(), 100_000);
    assert!(matches!(run("100001"), Err(ProcessError::OutputTooLarge { .. })));
}

#[test]
fn process_that_holds_the_pipes_is_an_error() {
    let test_dir = TestDir::new();
    let result = test_dir.run(test_dir.launch(&["leaves-a-process-on-the-pipes"]));
    assert!(matches!(result, Err(ProcessError::PipesHeldOpen)), "{result:?}");
}

#[test]
fn stderr_is_kept_after_an_error_without_a_field_for_it() {
    for mode in ["reports-and-leaves-a-process-on-the-pipes", "reports-and-floods-stdout"] {
        let test_dir = TestDir::new();
        let mut stderr = Stderr::default();
        let callbacks = OutputCallbacks { stdout: &mut |_| {}, stderr: &mut |_| {} };
        let args = [mode];
        let launch = test_dir.launch(&args);
        let result = block_on(process::run_with_callbacks(launch, callbacks, &mut stderr));
        let is_expected =
            matches!(result, Err(ProcessError::PipesHeldOpen | ProcessError::OutputTooLarge { .. }));
        assert!(is_expected, "{mode}: {result:?}");
        assert_eq!(stderr.text(), "reported\n", "{mode}");
    }
}

#[test]
fn process_without_the_pipes_is_killed_silently() {
    check_answer(&["leaves-a-silent-process"], Vec::new(), "answer\n");
}

#[test]
fn process_that_holds_stdin_does_not_delay_the_answer() {
    check_answer(&["leaves-a-process-on-stdin"], lines(10), "answer\n");
}

#[test]
fn exit_code_is_reported() {
    let test_dir = TestDir::new();
    assert_eq!(test_dir.run(test_dir.launch(&["exits", "3"])).unwrap().status.code(), Some(3));
}

#[test]
fn signal_is_reported() {
    let test_dir = TestDir::new();
    assert_eq!(test_dir.run(test_dir.launch(&["killed"])).unwrap().status.signal(), Some(9));
}

#[test]
fn private_directory_without_permissions_is_removed() {
    check_answer(&["locks-its-directory"], Vec::new(), "answer\n");
}

#[test]
fn processor_time_is_limited_to_the_deadline_plus_a_second() {
    let test_dir = TestDir::new();
    let deadline = Duration::from_millis(59_001);
    let output = test_dir.run(Launch { deadline, ..test_dir.launch(&["shows-limits"]) }).unwrap();
    let limits = String::from_utf8(output.stdout).unwrap();
    let cpu = limits.lines().find(|line| line.starts_with("Max cpu time")).unwrap();
    assert_eq!(cpu.split_whitespace().collect::<Vec<_>>()[3..5], ["61", "61"]);
}

#[test]
fn environment_contains_only_fixed_and_granted_variables() {
    let test_dir = TestDir::new();
    let env = [("GRANTED".to_owned(), "yes".to_owned())];
    let output = test_dir.run(Launch { env: &env, ..test_dir.launch(&["shows-environment"]) }).unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<_> = stdout.lines().map(|line| line.split_once('=').unwrap().0).collect();
    names.sort_unstable();
    // The shell adds PWD.
    let expect = ["GRANTED", "HOME", "JP_COMPACT_PROTOCOL", "LANG", "PATH", "PWD", "TMPDIR", "TZ"];
    assert_eq!(names, expect);
    assert!(stdout.contains("GRANTED=yes\n"));
}

#[track_caller]
fn check_not_started(program: &str, expect: &str) {
    let test_dir = TestDir::new();
    let error = test_dir.run(Launch { program: Path::new(program), ..test_dir.launch(&[]) }).unwrap_err();
    assert!(matches!(error, ProcessError::Start { .. }), "{error:?}");
    assert!(error.to_string().starts_with(&format!("failed to start {program}: {expect}")), "{error}");
}

#[test]
fn missing_program_is_a_start_error() {
    check_not_started("/nowhere/a: b", "No such file or directory");
}

#[test]
fn script_without_shebang_is_a_start_error() {
    check_not_started(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/no-shebang"), "Exec format error");
}

#[test]
fn strategy_that_imitates_the_runner_can_only_fail_itself() {
    let test_dir = TestDir::new();
    let output = test_dir.run(test_dir.launch(&["imitates-the-runner", "0"])).unwrap();
    assert!(output.status.success());
    let error = test_dir.run(test_dir.launch(&["imitates-the-runner", "126"])).unwrap_err();
    assert!(matches!(error, ProcessError::Start { .. }), "{error:?}");
}

#[test]
fn missing_runner_error_contains_its_path() {
    let test_dir = TestDir::new();
    let result = test_dir.run(Launch { runner: Path::new("/nowhere/runner"), ..test_dir.launch(&[]) });
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), "failed to start the runner /nowhere/runner");
}

#[test]
fn dropping_the_future_kills_the_group() {
    let test_dir = TestDir::new();
    block_on(async {
        let run = pin!(process::run(Launch { stdin: lines(1), ..test_dir.launch(&["marks-and-hangs"]) }));
        let wait_for_mark = async {
            while !test_dir.files().contains(&"marked".to_owned()) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            result = run => panic!("{result:?}"),
            () = wait_for_mark => {}
        }
        assert!(test_dir.processes() > 0, "the search for processes must find the strategy");
    });
    test_dir.check_nothing_remains();
}

#[test]
fn dropping_the_future_immediately_kills_the_runner() {
    let test_dir = TestDir::new();
    block_on(async {
        let run = process::run(test_dir.launch(&["hangs"]));
        tokio::select! {
            biased;
            result = run => panic!("{result:?}"),
            () = std::future::ready(()) => {}
        }
    });
    test_dir.check_nothing_remains();
}

#[test]
fn runner_without_a_group_is_killed_by_its_process_id() {
    let test_dir = TestDir::new();
    let runner = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/slow-runner"));
    let result = test_dir.run(Launch { runner, deadline: SOON, ..test_dir.launch(&[]) });
    assert!(matches!(result, Err(ProcessError::Deadline { .. })), "{result:?}");
}

#[test]
fn concurrent_runs_report_their_own_exit_codes() {
    let test_dir = Rc::new(TestDir::new());
    let codes: Vec<_> = (1..=20_u8).map(|code| code.to_string()).collect();
    let results = block_on(async {
        let local = tokio::task::LocalSet::new();
        let mut running = tokio::task::JoinSet::new();
        for code in codes.clone() {
            let test_dir = Rc::clone(&test_dir);
            let run = async move {
                let status = process::run(test_dir.launch(&["exits", &code])).await.unwrap().status;
                (code, status.code())
            };
            running.spawn_local_on(run, &local);
        }
        local.run_until(running.join_all()).await
    });
    assert_eq!(results.len(), codes.len());
    for (code, status) in results {
        assert_eq!(status.map(|status| status.to_string()), Some(code));
    }
    test_dir.check_nothing_remains();
}
