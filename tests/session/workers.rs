//! Workers: order of requests and answers, restarts, violations, and shutdown.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jp_compact_runtime::process::ProcessError;
use jp_compact_runtime::session::Error;
use jp_compact_runtime::session::{Body, OnStop, Sessions, Watch};
use jp_compact_schema::{CompactRequest, Events, Progress};

use crate::world::{
    NEVER, SOON, START_TIME_MAX, World, block_on, check_error, error_text, reason, starter,
    with_and_without_worker,
};

#[test]
fn worker_serves_many_requests_and_a_process_only_one() {
    let world = World::new(1);
    block_on(async {
        for _ in 0..4 {
            reason(world.ask("answers").await);
        }
    });
    world.check_arrivals(&[(0, "c1"), (0, "c2"), (0, "c3"), (0, "c4")]);
    let world = World::new(0);
    block_on(async { (reason(world.ask("answers").await), reason(world.ask("answers").await)) });
    world.check_arrivals(&[(0, "c1"), (1, "c2")]);
}

/// Returns the number of running processes: each has a private directory.
fn running(world: &World) -> usize {
    let names = fs::read_dir(world.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().starts_with("jp-compact-")).count()
}

#[test]
fn workers_of_a_batch_start_before_their_first_request() {
    for (workers_max, expected) in [(1, 1), (0, 0)] {
        let world = World::new(workers_max);
        block_on(async {
            world.sessions.start_workers([world.described()].iter());
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(running(&world), expected);
            reason(world.ask("answers").await);
            world.sessions.close().await;
            assert_eq!(running(&world), 0);
        });
        world.check_arrivals(&[(0, "c1")]);
    }
}

#[test]
fn strategy_without_the_feature_gets_no_worker() {
    let world = World { features: Vec::new(), ..World::new(1) };
    block_on(async { (reason(world.ask("answers").await), reason(world.ask("answers").await)) });
    world.check_arrivals(&[(0, "c1"), (1, "c2")]);
}

#[test]
fn concurrent_requests_get_separate_workers() {
    let world = World::new(3);
    // `progresses` waits for this file.
    fs::write(world.path("marker"), "").unwrap();
    block_on(world.ask_all(["progresses"; 3])).into_iter().for_each(|answer| drop(reason(answer)));
    let processes: std::collections::BTreeSet<_> =
        world.arrivals().into_iter().map(|(process, _)| process).collect();
    assert_eq!(processes.len(), 3);
}

#[test]
fn pipelined_worker_gets_requests_ahead_and_answers_in_order() {
    let world = World::pipelined();
    block_on(world.ask_all(["answers-in-threes"; 3])).into_iter().for_each(|answer| drop(reason(answer)));
    world.check_arrivals(&[(0, "c1"), (0, "c2"), (0, "c3")]);
}

#[test]
fn answer_out_of_order_fails_only_the_first_request() {
    let world = World::pipelined();
    let [first, second, third] = block_on(world.ask_all(["writes-nothing", "answers", "answers"]));
    assert_eq!(error_text(first), "it replied to request `c2`, but the request is `c1`");
    reason(second);
    reason(third);
    assert!(world.arrivals().ends_with(&[(1, "c2".to_owned()), (1, "c3".to_owned())]));
}

#[test]
fn worker_that_ignores_its_events_serves_the_next_request() {
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
            reason(world.sessions.ask(&world.described(), header, &body, OnStop::Refuse).await);
        }
    });
    world.check_arrivals(&[(0, "c1"), (0, "c2"), (0, "c3")]);
}

#[test]
fn crashed_request_is_retried_once_on_a_new_worker() {
    let world = World::new(1);
    reason(block_on(world.ask("dies-once")));
    world.check_arrivals(&[(0, "c1"), (1, "c1")]);

    let world = World::new(1);
    let failure = block_on(world.ask("dies")).unwrap_err();
    let Error::Crashed { status, stderr, .. } = failure else { panic!("{failure:?}") };
    assert_eq!((status.code(), stderr.text().as_str()), (Some(3), "last words\n"));
    world.check_arrivals(&[(0, "c1"), (1, "c1")]);
}

#[test]
fn crash_counts_only_for_the_first_unanswered_request() {
    let world = World::pipelined();
    let [first, second, third] = block_on(world.ask_all(["dies", "dies-once", "answers"]));
    assert!(matches!(first, Err(Error::Crashed { .. })));
    reason(second);
    reason(third);
    world.check_arrivals(&[(0, "c1"), (1, "c1"), (2, "c2"), (3, "c2"), (3, "c3")]);
}

#[test]
fn timed_out_request_is_not_retried_and_the_next_is_served() {
    // On a busy machine a strategy starts late, so the deadline is doubled until both requests arrive in time.
    let mut limit = SOON;
    loop {
        let world = World::pipelined().with_deadline(limit, 1);
        let [first, second] = block_on(world.ask_all(["hangs", "answers"]));
        let Err(Error::Process(ProcessError::Deadline { deadline, .. })) = first else { panic!("{first:?}") };
        assert_eq!(deadline, limit);
        let is_late = second.is_err() || world.arrivals().len() < 2;
        if !is_late || limit > START_TIME_MAX {
            reason(second);
            return world.check_arrivals(&[(0, "c1"), (1, "c2")]);
        }
        limit *= 2;
    }
}

#[test]
fn worker_that_exits_after_each_answer_is_restarted() {
    let world = World::pipelined();
    let modes = ["answers-once-and-exits", "answers-once-and-exits", "answers"];
    block_on(world.ask_all(modes)).into_iter().for_each(|answer| drop(reason(answer)));
    assert_eq!(world.arrivals().last(), Some(&(2, "c3".to_owned())));
}

#[test]
fn worker_is_replaced_after_a_thousand_requests() {
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
fn invalid_replies_are_violations_with_and_without_workers() {
    check_error("answers-with-another-id", "it replied to request `c999`, but the request is `c1`");
    check_error(
        "answers-half",
        "line 1 of its output is not a valid message (EOF while parsing a string at line 1 column 13): {\"type\":\"decl",
    );
    check_error("answers-in-latin-1", "its output is not UTF-8 at byte 38");
    check_error("exits-without-output", "its output ended without a result, decline, needs or error");
    with_and_without_worker("answers-twice", |answer| {
        assert!(error_text(answer).starts_with(
            "it sent another line after its terminal reply: {\"type\":\"decline\",\"id\":\"c1\""
        ));
    });
    check_error("logs-9-mb", "it wrote more than 8388608 bytes to stdout");
    check_error("reports", "no (mine)");
    check_error("leaves-a-process-and-exits", "it exited, but a process it started kept its output open");
}

#[test]
fn violation_ends_the_worker_and_is_not_retried() {
    let world = World::new(1);
    block_on(async {
        error_text(world.ask("answers-half").await);
        reason(world.ask("answers").await);
    });
    world.check_arrivals(&[(0, "c1"), (1, "c2")]);
}

#[test]
fn size_limit_applies_to_each_reply() {
    let world = World::new(1);
    block_on(async {
        for _ in 0..3 {
            reason(world.ask("logs-5-mb").await);
        }
    });
    world.check_arrivals(&[(0, "c1"), (0, "c2"), (0, "c3")]);
}

#[test]
fn last_line_without_a_line_break_is_accepted() {
    with_and_without_worker("answers-without-newline", |answer| drop(reason(answer)));
}

#[test]
fn reported_error_does_not_end_the_worker() {
    let world = World::new(1);
    block_on(async {
        error_text(world.ask("reports").await);
        reason(world.ask("answers").await);
    });
    world.check_arrivals(&[(0, "c1"), (0, "c2")]);
}

#[test]
fn slow_exit_of_a_worker_does_not_delay_others() {
    let world = World::new(1);
    block_on(async {
        let slow = reason(world.ask("lingers").await).split_once(' ').unwrap().0.to_owned();
        // The worker creates the marker after it has closed its stdin.
        while !Path::new(&world.path("marker")).exists() {
            tokio::task::yield_now().await;
        }
        reason(world.ask("answers").await);
        assert!(Path::new("/proc").join(&slow).exists(), "the slow worker must still be running");
        world.sessions.close().await;
        assert!(!Path::new("/proc").join(&slow).exists(), "closing must end the slow worker");
    });
    world.check_arrivals(&[(0, "c1"), (1, "c2")]);
}

#[test]
fn unused_worker_gets_time_to_exit() {
    let world = World::new(1);
    block_on(async {
        reason(world.ask("exits-slowly").await);
        world.sessions.close().await;
    });
    world.check_arrivals(&[(0, "c1"), (0, "goodbye")]);
}

#[test]
fn exit_status_after_a_reported_error_is_recorded() {
    let failure = block_on(World::new(0).ask("reports-and-exits")).unwrap_err();
    let Error::Reported { error, status } = failure else { panic!("{failure:?}") };
    assert_eq!((error.code.as_str(), status.code()), ("mine", Some(7)));
}

#[test]
fn closing_ends_all_workers() {
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

/// Records the calls. Progress also creates the marker, so that the strategy continues.
#[derive(Debug, Default)]
struct RecordingWatch {
    marker: PathBuf,
    events: Mutex<Vec<String>>,
}

impl Watch for RecordingWatch {
    fn progress(&self, strategy: &str, id: &str, progress: &Progress) {
        let Progress { done, total, message, .. } = progress;
        self.events.lock().unwrap().push(format!("{strategy} {id} {done} {total:?} {message:?}"));
        fs::write(&self.marker, "").unwrap();
    }

    fn ended(&self, id: &str) {
        self.events.lock().unwrap().push(format!("{id} ended"));
    }
}

#[test]
fn progress_is_received_before_the_answer() {
    for workers_max in [0, 1] {
        let world = World::new(workers_max);
        let watch =
            Arc::new(RecordingWatch { marker: world.path("marker").into(), ..RecordingWatch::default() });
        let sessions = Sessions::new(starter(world.folder.path(), None), NEVER)
            .with_workers(workers_max)
            .watched_by(Arc::clone(&watch) as Arc<dyn Watch>);
        let world = World { sessions, ..world };
        reason(block_on(world.ask("progresses")));
        assert_eq!(*watch.events.lock().unwrap(), ["worker c1 1 Some(2) Some(\"half\")", "c1 ended"]);
    }
}
