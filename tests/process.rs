//! What the process door makes of strategies that misbehave. Every run is a real one, through the
//! real runner, at both tiers; after each, no process of it may be left, nor its private directory.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is a test that failed")]
#![cfg(target_os = "linux")]

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use jp_compact_engine::jail::{Abilities, Confinement, Jail};
use jp_compact_engine::process::{self, Ended, Launch, ProcessError};
use jp_compact_schema::Permissions;

const RUNNER: &str = env!("CARGO_BIN_EXE_compact-runner");
const STRATEGY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/strategy");

/// Longer than any run that ends by itself.
const NEVER: Duration = Duration::from_secs(300);
const SOON: Duration = Duration::from_millis(200);
/// A script has started long before, also on a busy machine.
const ONCE_STARTED: Duration = Duration::from_secs(2);

/// The temporary directory of one test. Whatever is started in it carries its name.
struct Place(tempfile::TempDir);

impl Place {
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

    /// Runs to the end at both tiers, and looks at what is left. Whatever it ends in, it is the same.
    #[track_caller]
    fn run(&self, launch: Launch<'_>) -> Result<Ended, ProcessError> {
        let contained = block_on(process::run(launch.clone()));
        self.is_left_clean();
        let jail = jail_of(launch.program);
        let isolated = block_on(process::run(Launch { confinement: Confinement::Isolated(&jail), ..launch }));
        self.is_left_clean();
        let ended = |result: &Result<Ended, ProcessError>| match result {
            Ok(ended) => format!("{} {} bytes", ended.status, ended.stdout.len()),
            Err(error) => error.to_string(),
        };
        assert_eq!(ended(&isolated), ended(&contained));
        isolated
    }

    #[track_caller]
    fn is_left_clean(&self) {
        // A process that was killed may take a moment to be gone.
        let patience = Instant::now();
        while self.processes() > 0 {
            assert!(patience.elapsed() < NEVER / 10, "{} processes are left", self.processes());
            std::thread::yield_now();
        }
        assert_eq!(self.files(), Vec::<String>::new());
    }

    /// How many live processes were started here: the private directory is in their environment,
    /// or, before the exec, on the runner's command line. (Both are empty for a zombie.)
    fn processes(&self) -> usize {
        let name = self.0.path().to_str().unwrap().as_bytes();
        let names_it = |file: &Path| {
            std::fs::read(file).is_ok_and(|bytes| bytes.windows(name.len()).any(|window| window == name))
        };
        let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        processes.filter(|path| names_it(&path.join("environ")) || names_it(&path.join("cmdline"))).count()
    }

    /// What lies in the directory, and in the private directories in it.
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

/// A jail that leaves the hostile strategy what it needs for its work: it is a script that starts others.
fn jail_of(program: &Path) -> Jail {
    let read = vec!["/proc".to_owned(), "/dev/zero".to_owned()];
    let granted = Permissions { subprocess: true, read, ..Permissions::default() };
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    Jail::new(Abilities::of_machine(), program, &granted, Some(&shell)).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn lines(megabytes: usize) -> Vec<Bytes> {
    // Short lines and long ones, more than one write takes, and an empty one.
    let line = Bytes::from(vec![b'x'; 1000]);
    let mut lines = vec![line; megabytes * 1000 - 2];
    lines.push(Bytes::new());
    lines.push(Bytes::from(vec![b'y'; 2000]));
    lines
}

#[track_caller]
fn answers(args: &[&str], stdin: Vec<Bytes>, expect: &str) -> Ended {
    let place = Place::new();
    let ended = place.run(Launch { stdin, ..place.launch(args) }).unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stdout), expect);
    assert!(ended.status.success(), "{}", ended.status);
    ended
}

#[test]
fn one_that_answers_has_answered() {
    let ended = answers(&["answers"], Vec::new(), "answer\n");
    assert_eq!(ended.stderr.bytes(), 0);
    assert!(!ended.wall.is_zero());
}

#[test]
fn one_that_never_reads_is_heard() {
    answers(&["never-reads"], lines(10), "answer\n");
}

#[test]
fn one_that_closes_stdin_is_heard() {
    answers(&["closes-stdin"], lines(10), "answer\n");
}

#[test]
fn one_that_answers_before_it_reads_is_sent_everything() {
    answers(&["answers-before-reading"], lines(10), "answer\n10000000\n");
}

#[test]
fn one_that_drips_is_heard_whole() {
    answers(&["drips"], Vec::new(), "drips");
}

#[test]
fn much_goes_in_and_out_at_once_and_unchanged() {
    let place = Place::new();
    let stdin = lines(10);
    let expect = stdin.concat();
    let launch = Launch { stdin, stdout_bytes_max: expect.len(), ..place.launch(&["echoes"]) };
    assert!(place.run(launch).unwrap().stdout == expect);
}

#[test]
fn stderr_is_drained_and_its_ends_are_kept() {
    let ended = answers(&["floods-stderr"], Vec::new(), "answer\n");
    assert_eq!(ended.stderr.bytes(), 64 * 1024 * 1024 + 11);
    assert_eq!(ended.stderr.dropped_bytes(), ended.stderr.bytes() - 64 * 1024);
    assert!(ended.stderr.head().starts_with(b"first\nxxx"));
    assert!(ended.stderr.tail().ends_with(b"xxxlast\n"));
}

#[test]
fn one_that_hangs_is_ended_at_the_deadline() {
    let place = Place::new();
    let result = place.run(Launch { deadline: SOON, ..place.launch(&["hangs"]) });
    let Err(ProcessError::Deadline { deadline, .. }) = result else { panic!("{result:?}") };
    assert_eq!(deadline, SOON);
}

#[test]
fn a_flood_of_stderr_does_not_hide_the_deadline() {
    let place = Place::new();
    let launch = Launch { deadline: SOON, grace: SOON, ..place.launch(&["floods-stderr-for-ever"]) };
    let result = place.run(launch);
    assert!(matches!(result, Err(ProcessError::Deadline { .. })), "{result:?}");
}

#[test]
fn one_that_closes_its_output_and_hangs_is_ended_at_the_deadline() {
    let place = Place::new();
    let result = place.run(Launch { deadline: SOON, ..place.launch(&["closes-its-output-and-hangs"]) });
    assert!(matches!(result, Err(ProcessError::Deadline { .. })), "{result:?}");
}

#[test]
fn one_that_ignores_sigterm_is_killed_after_the_grace() {
    let place = Place::new();
    let launch = Launch { deadline: ONCE_STARTED, grace: SOON, ..place.launch(&["ignores-sigterm"]) };
    let result = place.run(launch);
    let Err(ProcessError::Deadline { stderr, .. }) = result else { panic!("{result:?}") };
    assert_eq!(stderr.text(), "deaf\n");
}

#[test]
fn the_whole_group_is_asked_to_stop() {
    let place = Place::new();
    let launch =
        Launch { deadline: ONCE_STARTED, grace: ONCE_STARTED, ..place.launch(&["its-child-obeys-sigterm"]) };
    let result = place.run(launch);
    let Err(ProcessError::Deadline { stderr, .. }) = result else { panic!("{result:?}") };
    // The shell has a word of its own about the `sleep` that was ended.
    assert_eq!(stderr.last_lines(1), "child obeyed");
}

#[test]
fn last_words_after_the_deadline_are_kept_but_are_no_answer() {
    let place = Place::new();
    let result = place.run(Launch { deadline: ONCE_STARTED, ..place.launch(&["obeys-sigterm"]) });
    let Err(ProcessError::Deadline { stderr, .. }) = result else { panic!("{result:?}") };
    assert_eq!(stderr.last_lines(1), "obeyed");
}

#[test]
fn one_that_floods_stdout_is_killed() {
    let place = Place::new();
    let result = place.run(Launch { stdout_bytes_max: 100_000, ..place.launch(&["floods-stdout"]) });
    assert!(matches!(result, Err(ProcessError::OutputTooLarge { bytes_max: 100_000 })), "{result:?}");
}

#[test]
fn the_cap_is_the_last_size_that_passes() {
    let place = Place::new();
    let run =
        |bytes| place.run(Launch { stdout_bytes_max: 100_000, ..place.launch(&["writes-bytes", bytes]) });
    assert_eq!(run("100000").unwrap().stdout.len(), 100_000);
    assert!(matches!(run("100001"), Err(ProcessError::OutputTooLarge { .. })));
}

#[test]
fn a_process_left_on_the_pipes_is_an_error() {
    let place = Place::new();
    let result = place.run(place.launch(&["leaves-a-process-on-the-pipes"]));
    assert!(matches!(result, Err(ProcessError::PipesHeldOpen)), "{result:?}");
}

#[test]
fn a_process_left_elsewhere_is_killed_without_a_word() {
    answers(&["leaves-a-silent-process"], Vec::new(), "answer\n");
}

#[test]
fn a_process_left_on_stdin_holds_nothing_up() {
    answers(&["leaves-a-process-on-stdin"], lines(10), "answer\n");
}

#[test]
fn an_exit_code_is_reported() {
    let place = Place::new();
    assert_eq!(place.run(place.launch(&["exits", "3"])).unwrap().status.code(), Some(3));
}

#[test]
fn a_signal_is_reported() {
    let place = Place::new();
    assert_eq!(place.run(place.launch(&["killed"])).unwrap().status.signal(), Some(9));
}

#[test]
fn a_locked_directory_is_removed() {
    answers(&["locks-its-directory"], Vec::new(), "answer\n");
}

#[test]
fn processor_time_is_limited_to_a_second_more_than_the_deadline() {
    let place = Place::new();
    let deadline = Duration::from_millis(59_001);
    let ended = place.run(Launch { deadline, ..place.launch(&["shows-limits"]) }).unwrap();
    let limits = String::from_utf8(ended.stdout).unwrap();
    let cpu = limits.lines().find(|line| line.starts_with("Max cpu time")).unwrap();
    assert_eq!(cpu.split_whitespace().collect::<Vec<_>>()[3..5], ["61", "61"]);
}

#[test]
fn granted_variables_arrive_and_no_others() {
    let place = Place::new();
    let env = [("GRANTED".to_owned(), "yes".to_owned())];
    let ended = place.run(Launch { env: &env, ..place.launch(&["shows-environment"]) }).unwrap();
    let stdout = String::from_utf8(ended.stdout).unwrap();
    let mut names: Vec<_> = stdout.lines().map(|line| line.split_once('=').unwrap().0).collect();
    names.sort_unstable();
    // The shell adds PWD.
    let expect = ["GRANTED", "HOME", "JP_COMPACT_PROTOCOL", "LANG", "PATH", "PWD", "TMPDIR", "TZ"];
    assert_eq!(names, expect);
    assert!(stdout.contains("GRANTED=yes\n"));
}

#[track_caller]
fn does_not_start(program: &str, expect: &str) {
    let place = Place::new();
    let error = place.run(Launch { program: Path::new(program), ..place.launch(&[]) }).unwrap_err();
    assert!(matches!(error, ProcessError::Start { .. }), "{error:?}");
    assert!(error.to_string().starts_with(&format!("{program} could not be started: {expect}")), "{error}");
}

#[test]
fn a_program_that_is_missing_does_not_start() {
    does_not_start("/nowhere/a: b", "No such file or directory");
}

#[test]
fn a_script_without_shebang_does_not_start() {
    does_not_start(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/no-shebang"), "Exec format error");
}

#[test]
fn the_runners_words_in_a_strategys_mouth_are_no_more_than_a_failure() {
    let place = Place::new();
    let ended = place.run(place.launch(&["says-what-the-runner-says", "0"])).unwrap();
    assert!(ended.status.success());
    let error = place.run(place.launch(&["says-what-the-runner-says", "126"])).unwrap_err();
    assert!(matches!(error, ProcessError::Start { .. }), "{error:?}");
}

#[test]
fn a_runner_that_is_missing_is_named() {
    let place = Place::new();
    let result = place.run(Launch { runner: Path::new("/nowhere/runner"), ..place.launch(&[]) });
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), "the runner /nowhere/runner could not be spawned");
}

#[test]
fn dropping_the_future_kills_the_group() {
    let place = Place::new();
    block_on(async {
        let run = pin!(process::run(Launch { stdin: lines(1), ..place.launch(&["marks-and-hangs"]) }));
        let marked = async {
            while !place.files().contains(&"marked".to_owned()) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            result = run => panic!("{result:?}"),
            () = marked => {}
        }
        assert!(place.processes() > 0, "a test that cannot see its processes shows nothing");
    });
    place.is_left_clean();
}

#[test]
fn dropping_the_future_at_once_kills_the_runner() {
    let place = Place::new();
    block_on(async {
        let run = process::run(place.launch(&["hangs"]));
        tokio::select! {
            biased;
            result = run => panic!("{result:?}"),
            () = std::future::ready(()) => {}
        }
    });
    place.is_left_clean();
}

#[test]
fn a_runner_without_a_group_is_reached_by_its_number() {
    let place = Place::new();
    let runner = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/slow-runner"));
    let result = place.run(Launch { runner, deadline: SOON, ..place.launch(&[]) });
    assert!(matches!(result, Err(ProcessError::Deadline { .. })), "{result:?}");
}

#[test]
fn many_at_once_do_not_hear_each_others_ends() {
    let place = Rc::new(Place::new());
    let codes: Vec<_> = (1..=20_u8).map(|code| code.to_string()).collect();
    let ended = block_on(async {
        let local = tokio::task::LocalSet::new();
        let mut running = tokio::task::JoinSet::new();
        for code in codes.clone() {
            let place = Rc::clone(&place);
            let run = async move {
                let status = process::run(place.launch(&["exits", &code])).await.unwrap().status;
                (code, status.code())
            };
            running.spawn_local_on(run, &local);
        }
        local.run_until(running.join_all()).await
    });
    assert_eq!(ended.len(), codes.len());
    for (code, status) in ended {
        assert_eq!(status.map(|status| status.to_string()), Some(code));
    }
    place.is_left_clean();
}
