//! Requests and answers, one by one: what one process does for one request, a worker does for thousands.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jp_compact_engine::StrategyFailure;
use jp_compact_engine::process::ProcessError;
use jp_compact_engine::session::{Body, Sessions, Watch};
use jp_compact_schema::{CompactRequest, Events, Progress};

use crate::world::{NEVER, SOON, World, block_on, both, both_fail, failed, reason, starter};

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
    both_fail("leaves-a-process-and-exits", "it exited, but a process it started kept its output open");
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
fn one_that_is_no_longer_needed_has_time_to_go() {
    let world = World::new(1);
    block_on(async {
        reason(world.ask("takes-leave").await);
        world.sessions.close().await;
    });
    world.arrived(&[(0, "c1"), (0, "goodbye")]);
}

#[test]
fn how_a_process_exits_that_reports_an_error_is_recorded() {
    let failure = block_on(World::new(0).ask("reports-and-exits")).unwrap_err();
    let StrategyFailure::Reported { error, status } = failure else { panic!("{failure:?}") };
    assert_eq!((error.code.as_str(), status.code()), ("mine", Some(7)));
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
