//! Test fixture: a folder with sessions, and a strategy whose behavior the request options select.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use jp_compact_core::reply::{CompleteReply, Terminal};
use jp_compact_runtime::registry::{Plugin, PluginForm, PluginOrigin};
use jp_compact_runtime::session::Error;
use jp_compact_runtime::session::{Body, Confined, Described, OnStop, Sessions, Spool, Starter};
use jp_compact_runtime::trust::Cleared;
use jp_compact_schema::{CompactRequest, ContentKind, Description, Permissions, StrategyName};
use jp_compact_strategy::testing::request;
use serde_json::Value;

const STRATEGY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/worker");
/// Longer than any answer takes.
pub(crate) const NEVER: Duration = Duration::from_secs(120);
/// A deadline in which a script normally starts.
pub(crate) const SOON: Duration = Duration::from_millis(500);
/// Longer than a script takes to start, even on a busy machine.
pub(crate) const START_TIME_MAX: Duration = Duration::from_secs(10);

/// A folder with sessions.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) sessions: Sessions,
    pub(crate) features: Vec<String>,
    pub(crate) needs: Vec<String>,
}

impl World {
    /// Creates sessions with up to `workers_max` workers. 0 starts one process per request.
    pub(crate) fn new(workers_max: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sessions = Sessions::new(starter(folder.path(), None), NEVER).with_workers(workers_max);
        Self { folder, sessions, features: vec!["worker".into()], needs: Vec::new() }
    }

    pub(crate) fn pipelined() -> Self {
        let world = Self::new(1);
        Self { features: vec!["worker".into(), "pipeline".into()], ..world }
    }

    pub(crate) fn with_deadline(self, deadline: Duration, workers_max: usize) -> Self {
        let sessions = Sessions::new(starter(self.folder.path(), None), deadline).with_workers(workers_max);
        Self { sessions, ..self }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn described(&self) -> Described {
        let name = "worker";
        Described {
            takes_defaults: true,
            confined: confined(name),
            description: Description {
                produces: vec![ContentKind::Summary],
                features: self.features.clone(),
                needs: self.needs.clone(),
                ..Description::new(name, "1.0.0", "for a test")
            },
        }
    }

    pub(crate) fn header(&self, mode: &str) -> CompactRequest {
        let mut header = request(0, 0, &[]);
        header.id = self.sessions.id();
        let options =
            [("mode", mode.to_owned()), ("note", self.path("note")), ("marker", self.path("marker"))];
        header.options =
            options.map(|(name, value)| (name.to_owned(), Value::from(value))).into_iter().collect();
        header
    }

    pub(crate) async fn ask(&self, mode: &str) -> Result<CompleteReply, Error> {
        self.sessions.ask(&self.described(), self.header(mode), &Body::Nothing, OnStop::Refuse).await
    }

    /// Sends all requests at the same time, and waits for all answers.
    pub(crate) async fn ask_all<const N: usize>(
        &self,
        modes: [&str; N],
    ) -> [Result<CompleteReply, Error>; N] {
        let mut answers = modes.map(|mode| Some(Box::pin(self.ask(mode))));
        let mut results = modes.map(|_| None);
        std::future::poll_fn(|context| {
            for (pending, result) in answers.iter_mut().zip(&mut results) {
                if let Some(future) = pending
                    && let std::task::Poll::Ready(answer) = future.as_mut().poll(context)
                {
                    (*pending, *result) = (None, Some(answer));
                }
            }
            if results.iter().all(Option::is_some) {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
        results.map(Option::unwrap)
    }

    /// Returns the process and the id of each request in order of arrival. Processes are numbered from 0.
    pub(crate) fn arrivals(&self) -> Vec<(usize, String)> {
        let note = fs::read_to_string(self.path("note")).unwrap_or_default();
        let mut processes: Vec<&str> = Vec::new();
        let numbered_arrival = |line| {
            let (process, id): (&str, &str) = str::split_once(line, ' ').unwrap();
            let index = processes.iter().position(|known| *known == process).unwrap_or_else(|| {
                processes.push(process);
                processes.len() - 1
            });
            (index, id.to_owned())
        };
        note.lines().map(numbered_arrival).collect()
    }

    #[track_caller]
    pub(crate) fn check_arrivals(&self, expect: &[(usize, &str)]) {
        let arrivals = self.arrivals();
        assert_eq!(arrivals.iter().map(|(process, id)| (*process, id.as_str())).collect::<Vec<_>>(), expect);
    }
}

pub(crate) fn starter(folder: &Path, spool: Option<Arc<Spool>>) -> Starter {
    Starter { spool, ..Starter::new(&cargo_bin("compact-runner"), folder) }
}

/// Returns the strategy as a plugin without a jail, because it writes notes outside of its folder.
pub(crate) fn confined(name: &str) -> Confined {
    let (name, path) = (StrategyName::parse(name).unwrap(), PathBuf::from(STRATEGY));
    let (real, form) = (path.clone(), PluginForm::Executable);
    let plugin = Plugin { name, path, real, origin: PluginOrigin::Path, form, shadowed: false };
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

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[track_caller]
pub(crate) fn reason(answer: Result<CompleteReply, Error>) -> String {
    match answer.unwrap().terminal {
        Terminal::Decline(decline) => decline.reason,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn error_text(answer: Result<CompleteReply, Error>) -> String {
    answer.unwrap_err().to_string()
}

/// Runs a mode with one process and with a worker.
#[track_caller]
pub(crate) fn with_and_without_worker(mode: &str, check: impl Fn(Result<CompleteReply, Error>)) {
    for workers_max in [0, 1] {
        check(block_on(World::new(workers_max).ask(mode)));
    }
}

#[track_caller]
pub(crate) fn check_error(mode: &str, expect: &str) {
    with_and_without_worker(mode, |answer| assert_eq!(error_text(answer), expect));
}
