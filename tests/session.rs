//! Sessions with real processes, through the real runner: what one process does for one request, a worker does
//! for thousands. `tests/hostile/worker` behaves as each request's options say.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is a test that failed")]
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use jp_compact_core::reply::{Answer, Terminal};
use jp_compact_core::select::Wanted;
use jp_compact_core::{Bound, Overlap};
use jp_compact_engine::StrategyFailure;
use jp_compact_engine::compact::{Preparation, Ready, Run, Sandbox, compact, prepare};
use jp_compact_engine::describe_cache::Descriptions;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::jail::Abilities;
use jp_compact_engine::process::ProcessError;
use jp_compact_engine::registry::{Form, Origin, Plugin, Registry, Wanted as Folders};
use jp_compact_engine::session::{Body, Confined, Described, Recorded, Sessions, Spool, Starter, Watch};
use jp_compact_engine::trust::{Cleared, Trust, Word};
use jp_compact_schema::{
    Answer as Given, CompactRequest, ContentKind, Description, Events, Input, Message, NeedRequest,
    Permissions, Progress, Role, StrategyName,
};
use jp_compact_strategy::testing::request;
use serde_json::{Map, Value, json};

const STRATEGY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/worker");
/// Longer than any answer takes that comes.
const NEVER: Duration = Duration::from_secs(120);
/// Longer than a script takes to start.
const SOON: Duration = Duration::from_secs(2);

/// A folder, and the sessions in it.
struct World {
    folder: tempfile::TempDir,
    sessions: Sessions,
    features: Vec<String>,
    needs: Vec<String>,
}

impl World {
    /// With so many workers; 0 for a process a request.
    fn new(workers_max: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sessions = Sessions::new(starter(folder.path(), None), NEVER).with_workers(workers_max);
        Self { folder, sessions, features: vec!["worker".into()], needs: Vec::new() }
    }

    fn pipelined() -> Self {
        let world = Self::new(1);
        Self { features: vec!["worker".into(), "pipeline".into()], ..world }
    }

    fn with_deadline(self, deadline: Duration, workers_max: usize) -> Self {
        let sessions = Sessions::new(starter(self.folder.path(), None), deadline).with_workers(workers_max);
        Self { sessions, ..self }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn described(&self) -> Described {
        let name = "worker";
        Described {
            confined: confined(name),
            description: Description {
                produces: vec![ContentKind::Summary],
                features: self.features.clone(),
                needs: self.needs.clone(),
                ..Description::new(name, "1.0.0", "for a test")
            },
        }
    }

    fn header(&self, mode: &str) -> CompactRequest {
        let mut header = request(0, 0, &[]);
        header.id = self.sessions.id();
        let options =
            [("mode", mode.to_owned()), ("note", self.path("note")), ("marker", self.path("marker"))];
        header.options =
            options.map(|(name, value)| (name.to_owned(), Value::from(value))).into_iter().collect();
        header
    }

    async fn ask(&self, mode: &str) -> Result<Answer, StrategyFailure> {
        self.sessions.ask(&self.described(), self.header(mode), &Body::Nothing).await
    }

    /// Asks all at once, and waits for all.
    async fn ask_all<const N: usize>(&self, modes: [&str; N]) -> [Result<Answer, StrategyFailure>; N] {
        let mut answers = modes.map(|mode| Some(Box::pin(self.ask(mode))));
        let mut done = modes.map(|_| None);
        std::future::poll_fn(|context| {
            for (waiting, done) in answers.iter_mut().zip(&mut done) {
                if let Some(future) = waiting
                    && let std::task::Poll::Ready(answer) = future.as_mut().poll(context)
                {
                    (*waiting, *done) = (None, Some(answer));
                }
            }
            if done.iter().all(Option::is_some) {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
        done.map(Option::unwrap)
    }

    /// Which process got which request, in the order in which they arrived: processes are numbered from 0.
    fn arrivals(&self) -> Vec<(usize, String)> {
        let note = fs::read_to_string(self.path("note")).unwrap_or_default();
        let mut processes: Vec<&str> = Vec::new();
        let number = |line| {
            let (process, id): (&str, &str) = str::split_once(line, ' ').unwrap();
            let place = processes.iter().position(|known| *known == process).unwrap_or_else(|| {
                processes.push(process);
                processes.len() - 1
            });
            (place, id.to_owned())
        };
        note.lines().map(number).collect()
    }

    #[track_caller]
    fn arrived(&self, expect: &[(usize, &str)]) {
        let arrivals = self.arrivals();
        assert_eq!(arrivals.iter().map(|(process, id)| (*process, id.as_str())).collect::<Vec<_>>(), expect);
    }
}

fn starter(folder: &Path, spool: Option<Arc<Spool>>) -> Starter {
    Starter { runner: cargo_bin("compact-runner"), temp_dir: folder.to_owned(), spool }
}

/// The strategy as a plugin that may run, contained: it takes notes outside any jail.
fn confined(name: &str) -> Confined {
    let (name, path) = (StrategyName::parse(name).unwrap(), PathBuf::from(STRATEGY));
    let (real, form) = (path.clone(), Form::Executable);
    let plugin = Plugin { name, path, real, origin: Origin::Path, form, shadowed: false };
    let cleared = Cleared {
        program: plugin.path.clone(),
        plugin,
        sha256: "0".repeat(64),
        args: Vec::new(),
        folder: None,
        permissions: Permissions::default(),
        interpreter: None,
        lock: None,
    };
    Confined::contained(cleared, &cargo_bin("compact-runner")).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[track_caller]
fn reason(answer: Result<Answer, StrategyFailure>) -> String {
    match answer.unwrap().terminal {
        Terminal::Decline(decline) => decline.reason,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn failed(answer: Result<Answer, StrategyFailure>) -> String {
    answer.unwrap_err().to_string()
}

/// Asks for one mode, from one process and from a worker.
#[track_caller]
fn both(mode: &str, check: impl Fn(Result<Answer, StrategyFailure>)) {
    for workers_max in [0, 1] {
        check(block_on(World::new(workers_max).ask(mode)));
    }
}

#[track_caller]
fn both_fail(mode: &str, expect: &str) {
    both(mode, |answer| assert_eq!(failed(answer), expect));
}

#[test]
fn one_worker_serves_many_and_one_process_one() {
    let world = World::new(1);
    block_on(async {
        for _ in 0..4 {
            reason(world.ask("answers").await);
        }
    });
    world.arrived(&[(0, "c1"), (0, "c2"), (0, "c3"), (0, "c4")]);
    let world = World::new(0);
    block_on(async { (reason(world.ask("answers").await), reason(world.ask("answers").await)) });
    world.arrived(&[(0, "c1"), (1, "c2")]);
}

#[test]
fn without_the_feature_there_is_no_worker() {
    let world = World { features: Vec::new(), ..World::new(1) };
    block_on(async { (reason(world.ask("answers").await), reason(world.ask("answers").await)) });
    world.arrived(&[(0, "c1"), (1, "c2")]);
}

#[test]
fn each_of_several_at_once_has_a_worker_of_its_own() {
    let world = World::new(3);
    // None could answer before all three have been sent, were they behind one another.
    fs::write(world.path("marker"), "").unwrap();
    block_on(world.ask_all(["progresses"; 3])).into_iter().for_each(|answer| drop(reason(answer)));
    let processes: std::collections::BTreeSet<_> =
        world.arrivals().into_iter().map(|(process, _)| process).collect();
    assert_eq!(processes.len(), 3);
}

#[test]
fn a_pipelined_worker_is_sent_requests_ahead_and_answers_in_order() {
    let world = World::pipelined();
    block_on(world.ask_all(["hoards"; 3])).into_iter().for_each(|answer| drop(reason(answer)));
    world.arrived(&[(0, "c1"), (0, "c2"), (0, "c3")]);
}

#[test]
fn an_answer_out_of_order_is_a_violation_of_the_first_alone() {
    let world = World::pipelined();
    let [first, second, third] = block_on(world.ask_all(["says-nothing", "answers", "answers"]));
    assert_eq!(failed(first), "it answered the request `c2`, and was asked `c1`");
    reason(second);
    reason(third);
    assert!(world.arrivals().ends_with(&[(1, "c2".to_owned()), (1, "c3".to_owned())]));
}

#[test]
fn a_worker_reads_on_to_the_end_of_events_that_it_did_not_need() {
    let world = World::new(1);
    let events = |header: &mut CompactRequest| {
        let lines: Vec<u8> = (0..2000)
            .flat_map(|seq| format!("{{\"type\":\"event\",\"seq\":{seq}}}\n").into_bytes())
            .collect();
        header.events = Some(Events::Inline { count: 2000 });
        Body::Events { lines: lines.into(), count: 2000 }
    };
    block_on(async {
        for _ in 0..3 {
            let mut header = world.header("answers");
            let body = events(&mut header);
            reason(world.sessions.ask(&world.described(), header, &body).await);
        }
    });
    world.arrived(&[(0, "c1"), (0, "c2"), (0, "c3")]);
}

#[test]
fn one_that_dies_is_tried_once_more_on_a_fresh_one() {
    let world = World::new(1);
    reason(block_on(world.ask("dies-once")));
    world.arrived(&[(0, "c1"), (1, "c1")]);

    let world = World::new(1);
    let failure = block_on(world.ask("dies")).unwrap_err();
    let StrategyFailure::Crashed { status, stderr, .. } = failure else { panic!("{failure:?}") };
    assert_eq!((status.code(), stderr.text().as_str()), (Some(3), "last words\n"));
    world.arrived(&[(0, "c1"), (1, "c1")]);
}

#[test]
fn only_the_first_of_the_unanswered_has_used_an_attempt() {
    let world = World::pipelined();
    let [first, second, third] = block_on(world.ask_all(["dies", "dies-once", "answers"]));
    assert!(matches!(first, Err(StrategyFailure::Crashed { .. })));
    reason(second);
    reason(third);
    world.arrived(&[(0, "c1"), (1, "c1"), (2, "c2"), (3, "c2"), (3, "c3")]);
}

#[test]
fn a_deadline_is_not_tried_again_and_the_next_is_served() {
    let world = World::pipelined().with_deadline(SOON, 1);
    let [first, second] = block_on(world.ask_all(["hangs", "answers"]));
    let Err(StrategyFailure::Process(ProcessError::Deadline { deadline, .. })) = first else {
        panic!("{first:?}")
    };
    assert_eq!(deadline, SOON);
    reason(second);
    world.arrived(&[(0, "c1"), (1, "c2")]);
}

#[test]
fn one_that_exits_after_each_answer_is_started_again() {
    let world = World::pipelined();
    let modes = ["answers-once-and-exits", "answers-once-and-exits", "answers"];
    block_on(world.ask_all(modes)).into_iter().for_each(|answer| drop(reason(answer)));
    assert_eq!(world.arrivals().last(), Some(&(2, "c3".to_owned())));
}

#[test]
fn after_a_thousand_requests_there_is_a_fresh_one() {
    let world = World::new(1);
    block_on(async {
        for _ in 0..1001 {
            reason(world.ask("answers").await);
        }
    });
    let arrivals = world.arrivals();
    assert_eq!(arrivals[999], (0, "c1000".to_owned()));
    assert_eq!(arrivals[1000], (1, "c1001".to_owned()));
}

#[test]
fn what_is_no_answer_is_a_violation_either_way() {
    both_fail("answers-as-somebody", "it answered the request `c999`, and was asked `c1`");
    both_fail(
        "answers-half",
        "line 1 of its output is no message (EOF while parsing a string at line 1 column 13): {\"type\":\"decl",
    );
    both_fail("answers-in-latin-1", "its output is not UTF-8 at byte 38");
    both_fail("ends-without-a-word", "it ended without a result, decline, needs or error");
    both("answers-twice", |answer| {
        assert!(
            failed(answer).starts_with("it went on after its answer: {\"type\":\"decline\",\"id\":\"c1\"")
        );
    });
    both_fail("logs-9-mb", "it wrote more than 8388608 bytes to stdout");
    both_fail("reports", "no (mine)");
}

#[test]
fn a_violation_costs_the_process_and_is_not_tried_again() {
    let world = World::new(1);
    block_on(async {
        failed(world.ask("answers-half").await);
        reason(world.ask("answers").await);
    });
    world.arrived(&[(0, "c1"), (1, "c2")]);
}

#[test]
fn replies_are_capped_one_by_one() {
    let world = World::new(1);
    block_on(async {
        for _ in 0..3 {
            reason(world.ask("logs-5-mb").await);
        }
    });
    world.arrived(&[(0, "c1"), (0, "c2"), (0, "c3")]);
}

#[test]
fn a_last_line_without_its_end_is_a_line() {
    both("answers-without-newline", |answer| drop(reason(answer)));
}

#[test]
fn a_reported_error_costs_no_worker() {
    let world = World::new(1);
    block_on(async {
        failed(world.ask("reports").await);
        reason(world.ask("answers").await);
    });
    world.arrived(&[(0, "c1"), (0, "c2")]);
}

#[test]
fn one_that_takes_its_time_to_go_holds_nobody_up() {
    let world = World::new(1);
    block_on(async {
        let slow = reason(world.ask("lingers").await).split_once(' ').unwrap().0.to_owned();
        // From here on it reads nothing more.
        while !Path::new(&world.path("marker")).exists() {
            tokio::task::yield_now().await;
        }
        reason(world.ask("answers").await);
        assert!(Path::new("/proc").join(&slow).exists(), "it was waited for");
        world.sessions.close().await;
        assert!(!Path::new("/proc").join(&slow).exists(), "it was left");
    });
    world.arrived(&[(0, "c1"), (1, "c2")]);
}

#[test]
fn closing_leaves_no_worker() {
    for mode in ["answers", "lingers"] {
        let world = World::new(2);
        block_on(async {
            let process = reason(world.ask(mode).await).split_once(' ').unwrap().0.to_owned();
            assert!(Path::new("/proc").join(&process).exists());
            world.sessions.close().await;
            assert!(!Path::new("/proc").join(&process).exists());
        });
    }
}

#[test]
fn what_is_needed_is_given_round_by_round() {
    both("needs-once", |answer| assert_eq!(reason(answer), "was answered"));
    both("needs-twice", |answer| assert_eq!(reason(answer), "was answered"));
    both("needs-something-new", |answer| assert_eq!(reason(answer), "was not answered"));
}

#[test]
fn needs_end() {
    both_fail("needs-for-ever", "it answered `needs` more than 8 times");
    both_fail("needs-the-same-again", "it needs `s0`, a key that it has used before");
    both_fail("needs-to-keep-much", "its `state` has 65537 bytes, 65536 are allowed");
    let world = World::new(1);
    failed(block_on(world.ask("needs-for-ever")));
    world.arrived(&[(0, "c1"); 9]);
}

#[test]
fn a_model_answers_whom_it_was_granted() {
    both_fail("needs-a-model", "it needs `llm`, which was not granted");
    let question = NeedRequest::LlmComplete {
        model: None,
        system: None,
        messages: vec![Message { role: Role::User, content: "hello".into() }],
        max_tokens: None,
    };
    let text = Map::from_iter([("text".to_owned(), json!("hi there")), ("model".to_owned(), json!("m"))]);
    let recorded = Recorded::default().with(&question, Given::Ok(text));
    for (recorded, expect) in [(recorded, "was answered"), (Recorded::default(), "was not answered")] {
        for workers_max in [0, 1] {
            let world = World::new(workers_max);
            let sessions = Sessions::new(starter(world.folder.path(), None), NEVER)
                .answered_by(Arc::new(recorded.clone()));
            let world =
                World { sessions: sessions.with_workers(workers_max), needs: vec!["llm".into()], ..world };
            assert_eq!(reason(block_on(world.ask("needs-a-model"))), expect);
        }
    }
}

/// Lets the strategy go on once its progress was seen.
#[derive(Debug, Default)]
struct Watching {
    marker: PathBuf,
    seen: Mutex<Vec<String>>,
}

impl Watch for Watching {
    fn progress(&self, strategy: &str, id: &str, progress: &Progress) {
        let Progress { done, total, message, .. } = progress;
        self.seen.lock().unwrap().push(format!("{strategy} {id} {done} {total:?} {message:?}"));
        fs::write(&self.marker, "").unwrap();
    }

    fn ended(&self, id: &str) {
        self.seen.lock().unwrap().push(format!("{id} ended"));
    }
}

#[test]
fn progress_is_seen_while_it_comes() {
    for workers_max in [0, 1] {
        let world = World::new(workers_max);
        let watching = Arc::new(Watching { marker: world.path("marker").into(), ..Watching::default() });
        let sessions = Sessions::new(starter(world.folder.path(), None), NEVER)
            .with_workers(workers_max)
            .watched_by(Arc::clone(&watching) as Arc<dyn Watch>);
        let world = World { sessions, ..world };
        reason(block_on(world.ask("progresses")));
        assert_eq!(*watching.seen.lock().unwrap(), ["worker c1 1 Some(2) Some(\"half\")", "c1 ended"]);
    }
}

/// A conversation of so many turns, with a summary of turns 1 to 3, each request that long.
fn conversation(folder: &Path, turns: usize, request_chars: usize) -> PathBuf {
    let mut events = Vec::new();
    for turn in 0..turns {
        let at = |second: usize| format!("2026-01-01 00:{turn:02}:{second:02}.0");
        events.push(json!({"timestamp": at(0), "type": "turn_start"}));
        events
            .push(json!({"timestamp": at(1), "type": "chat_request", "content": "x".repeat(request_chars)}));
        events.push(json!({"timestamp": at(2), "type": "chat_response", "message": "answer"}));
    }
    events.push(
        json!({"timestamp": "2026-01-02 00:00:00.0", "type": "compaction", "from_turn": 1, "to_turn": 3,
        "summary": {"summary": "older"}}),
    );
    let place = folder.join("17738399468-sample");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("events.json"), serde_json::to_string_pretty(&events).unwrap()).unwrap();
    place
}

fn run(sessions: Sessions, strategies: Vec<Ready>, dry_run: bool) -> Run {
    Run {
        strategies,
        sessions,
        wanted: Wanted { to: Some(Bound::FromEnd(0)), ..Wanted::default() },
        hints: std::collections::BTreeMap::new(),
        estimator: jp_compact_core::estimate::Estimator::Characters,
        overlap: Overlap::Partial,
        lock_wait: NEVER,
        now: "2026-02-01T00:00:00Z".parse().unwrap(),
        dry_run,
    }
}

/// Runs a mode on a conversation, and returns what the report shows of it.
fn compacted(world: &World, transcript: &Path, run: &Run) -> Result<String, String> {
    let environment = Environment::bare(world.folder.path());
    let report = block_on(compact(run, transcript.as_os_str(), &environment)).map_err(|failure| {
        std::error::Error::source(&failure).map(ToString::to_string).unwrap_or_default()
    })?;
    Ok(report.steps.iter().map(|step| format!("{:?}\n", step.outcome)).collect())
}

fn ready(world: &World, mode: &str, input: Input) -> Ready {
    let mut described = world.described();
    described.description.input = input;
    Ready { described, options: world.header(mode).options }
}

#[test]
fn a_range_that_is_not_closed_is_asked_for_exactly_once_more() {
    for workers_max in [0, 1] {
        let world = World::new(workers_max);
        let transcript = conversation(world.folder.path(), 6, 1);
        let sessions = || Sessions::new(starter(world.folder.path(), None), NEVER).with_workers(workers_max);
        let own = run(sessions(), vec![ready(&world, "chooses-its-own-range", Input::None)], true);
        let made = compacted(&world, &transcript, &own).unwrap();
        assert!(made.contains("from_turn: 1, to_turn: 4"), "{made}");
        assert_eq!(world.arrivals().len(), 2);
        assert!(world.arrivals().iter().all(|(_, id)| id == "c1"));

        let insisting = run(sessions(), vec![ready(&world, "insists-on-its-own-range", Input::None)], true);
        let refused = compacted(&world, &transcript, &insisting).unwrap_err();
        assert!(refused.contains("range_not_closed"), "{refused}");
        assert_eq!(world.arrivals().len(), 4);
    }
}

#[test]
fn many_events_are_read_from_a_private_file_that_is_removed() {
    let world = World { features: vec!["worker".into(), "events.file".into()], ..World::new(0) };
    let transcript = conversation(world.folder.path(), 9, 1_000_000);
    let spool = Arc::new(Spool::make(world.folder.path()).unwrap());
    let folder = spool.folder().to_owned();
    let sessions = Sessions::new(starter(world.folder.path(), Some(spool)), NEVER);
    let twice = vec![ready(&world, "reads-a-file", Input::Full), ready(&world, "reads-a-file", Input::Full)];
    let run = run(sessions, twice, true);
    let declined = compacted(&world, &transcript, &run).unwrap();
    let (first, second) = declined.trim().split_once('\n').unwrap();
    assert_eq!(first, second, "one file for each range and scope");
    let path = first.strip_prefix("Declined(\"400 27 ").unwrap().strip_suffix("\")").unwrap();
    assert_eq!(Path::new(path).parent(), Some(folder.as_path()));
    assert!(!Path::new(path).exists());
    assert!(folder.exists());
    drop(run);
    assert!(!folder.exists());
}

#[test]
fn without_the_feature_events_come_inline() {
    let world = World::new(0);
    let transcript = conversation(world.folder.path(), 9, 1_000_000);
    let spool = Arc::new(Spool::make(world.folder.path()).unwrap());
    let sessions = Sessions::new(starter(world.folder.path(), Some(spool)), NEVER);
    let run = run(sessions, vec![ready(&world, "is-sent-events", Input::Full)], true);
    assert_eq!(compacted(&world, &transcript, &run).unwrap(), "Declined(\"inline\")\n");
}

#[test]
fn bundled_strategies_answer_the_same_either_way() {
    let world = World::new(0);
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample/events.json");
    let environment =
        Environment { exe: Some(cargo_bin("jp-compact")), ..Environment::bare(world.folder.path()) };
    let registry = Registry::discover(&environment, &Folders::default()).unwrap();
    let trust = Trust::open(&environment, &Word::default()).unwrap();
    let answers = [0, 1, 3].map(|workers_max| {
        let starter = starter(world.folder.path(), None);
        let specs =
            ["strip-reasoning", "strip-tools", "strip-tools:mode=omit"].map(|spec| spec.parse().unwrap());
        let preparation = Preparation {
            registry: &registry,
            trust: &trust,
            descriptions: &Descriptions::open(&environment),
            starter: &starter,
            sandbox: Sandbox::Unsaid,
            abilities: Abilities::of_machine(),
        };
        let strategies = block_on(prepare(&specs, &preparation, &environment));
        let run = run(Sessions::new(starter, NEVER).with_workers(workers_max), strategies.unwrap(), true);
        compacted(&world, &sample, &run).unwrap()
    });
    assert!(answers[0].contains("Made("), "{}", answers[0]);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}
