//! The conformance checks, for the rules of schema/PROTOCOL.md that a strategy can break. They use real processes and
//! the reader and validator of the host. Nothing is appended, and the answers of models are fixed.
//!
//! A check tests whether the host would accept a reply, never which events a strategy chooses. Some checks compare two
//! replies: to an unusual and to an ordinary request, or from a worker and from a single process. If the machine has a
//! jail, the strategy is jailed with the permissions that the user granted, and may also start `env`.
//!
//! Rules whose violation the host handles itself have no check: to exit after SIGTERM (SIGKILL follows), to write
//! little to stderr (the host drains and truncates it), to read all of stdin (a broken pipe is not an error).
//!
//! The interface is not stable.

mod ask;
mod changes;
mod checks;
mod conversation;
mod describe;
mod exchange;
mod plugin;
mod rehearse;
mod single;
mod template;
mod worker;

use std::collections::BTreeMap;

use jp_compact_core::select::Selection;
use jp_compact_core::{Bound, Survey};
use jp_compact_schema::document::{CheckReport, CheckResult};
use jp_compact_schema::{Description, Determinism};
use serde::Serialize;
use serde_json::{Map, Value};

pub use changes::{FileStamp, file_stamps};
pub use checks::{CHECKS, Check, CheckLevel, find};
pub use exchange::{CheckSetup, Speaker};
pub use plugin::{TestedPlugin, TestedPluginError};
pub use rehearse::{Rehearsal, Rejection, rehearse};
pub use template::{Language, create};

use ask::Request;
use conversation::Surveys;
use exchange::{Case, CheckFailure, exchange, failure, without_id};
use jp_compact_runtime::jail::Confinement;
use jp_compact_runtime::session::spool::Spool;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum CheckVerdict {
    /// The strategy follows the rule.
    Passed,
    /// The strategy breaks the rule.
    Failed {
        /// The behavior that was observed.
        why: String,
    },
    /// The check could not run, or the rule does not apply to this strategy.
    Skipped {
        /// The reason.
        why: String,
    },
}

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckOutcome {
    #[serde(flatten)]
    pub check: &'static Check,
    /// Its result.
    #[serde(flatten)]
    pub verdict: CheckVerdict,
}

impl CheckOutcome {
    /// Returns the result as a part of a JSON document.
    #[must_use]
    pub fn document(&self) -> CheckReport {
        let (verdict, reason) = match &self.verdict {
            CheckVerdict::Passed => (CheckResult::Passed, None),
            CheckVerdict::Failed { why } => (CheckResult::Failed, Some(why.clone())),
            CheckVerdict::Skipped { why } => (CheckResult::Skipped, Some(why.clone())),
        };
        let level = match self.check.level {
            CheckLevel::Core => "core",
            CheckLevel::Full => "full",
        };
        CheckReport {
            id: self.check.id.to_owned(),
            level: level.to_owned(),
            sent: self.check.sent.to_owned(),
            expected: self.check.expected.to_owned(),
            verdict,
            reason,
        }
    }
}

/// Returns the reasons of the failed checks, one per line.
#[must_use]
pub fn failures(outcomes: &[CheckOutcome]) -> String {
    let reasons = outcomes.iter().filter_map(|outcome| match &outcome.verdict {
        CheckVerdict::Failed { why } => Some(why.as_str()),
        CheckVerdict::Passed | CheckVerdict::Skipped { .. } => None,
    });
    reasons.collect::<Vec<_>>().join("\n")
}

/// The prefixes of the checks that send requests.
const REQUEST_CHECKS: [&str; 5] = ["R", "P", "N", "F", "W"];

/// The results of the checks so far.
#[derive(Debug, Default)]
struct Findings {
    failures: BTreeMap<&'static str, String>,
    skipped: BTreeMap<&'static str, String>,
}

impl Findings {
    /// Records a failure. Only the first failure of a check is kept.
    fn fail(&mut self, failure: CheckFailure) {
        self.failures.entry(failure.id).or_insert(failure.why);
    }

    /// Records the failure in a result, if there is one, under this id.
    fn add(&mut self, id: &'static str, result: Result<(), CheckFailure>) {
        if let Err(CheckFailure { why, .. }) = result {
            self.fail(CheckFailure { id, why });
        }
    }

    /// Records why these checks were skipped.
    fn skip(&mut self, ids: &[&'static str], why: &str) {
        for id in ids {
            self.skipped.entry(id).or_insert_with(|| why.to_owned());
        }
    }

    /// Records why all checks with these prefixes were skipped.
    fn skip_prefixes(&mut self, prefixes: &[&str], why: &str) {
        for check in &CHECKS {
            if prefixes.iter().any(|prefix| check.id.starts_with(prefix)) {
                self.skip(&[check.id], why);
            }
        }
    }
}

/// Runs the checks of a level in order. `options` are the options that the user must set for this strategy.
pub async fn test(
    setup: &CheckSetup<'_>,
    plugin: &TestedPlugin,
    options: &Map<String, Value>,
    level: CheckLevel,
) -> Vec<CheckOutcome> {
    let mut findings = Findings::default();
    match describe::check(setup, plugin, options, level, &mut findings).await {
        Some((description, options)) => {
            let (description, spool) = (&description, &Spool::new(setup.temp_dir));
            let context = CheckContext { setup, plugin, description, options, spool };
            ask_with_spool(context, level, &mut findings).await;
        }
        None => findings.skip_prefixes(&REQUEST_CHECKS, "its description allows no requests"),
    }
    let checks = CHECKS.iter().filter(|check| check.level <= level);
    checks
        .map(|check| {
            let verdict = match (findings.failures.remove(check.id), findings.skipped.remove(check.id)) {
                (Some(why), _) => CheckVerdict::Failed { why },
                (None, Some(why)) => CheckVerdict::Skipped { why },
                (None, None) => CheckVerdict::Passed,
            };
            CheckOutcome { check, verdict }
        })
        .collect()
}

/// The common parts of all exchanges of a test.
struct CheckContext<'a> {
    setup: &'a CheckSetup<'a>,
    plugin: &'a TestedPlugin,
    description: &'a Description,
    options: Map<String, Value>,
    /// The folder for events in files.
    spool: &'a Spool,
}

impl CheckContext<'_> {
    /// Sends a request to a new process. Returns the answer without its id.
    async fn send(&self, mut request: Request<'_>, case: Case) -> Result<Value, CheckFailure> {
        exchange(self.setup, self.plugin, &mut request, case, &mut |_, _| {}).await.map(without_id)
    }

    /// Returns a request for one turn, or for all turns except the last.
    fn request<'a>(&'a self, survey: &'a Survey<'a>, id: &str, turn: Option<usize>) -> Option<Request<'a>> {
        let selection = match turn {
            Some(turn) => Selection {
                from: Some(Bound::turn(turn)),
                to: Some(Bound::turn(turn)),
                ..Selection::default()
            },
            None => Selection { to: Some(Bound::FromEnd(1)), ..Selection::default() },
        };
        self.request_for(survey, id, selection)
    }

    /// Returns a request for these turns.
    fn request_for<'a>(
        &'a self,
        survey: &'a Survey<'a>,
        id: &str,
        selection: Selection,
    ) -> Option<Request<'a>> {
        Request::of_turns(survey, self.description, &self.options, id, selection, self.setup.deadline)
    }

    fn is_pure(&self) -> bool {
        self.description.determinism == Determinism::Pure
    }
}

/// Runs the checks that send requests. As in a run, the folder for events exists before the first request.
async fn ask_with_spool(context: CheckContext<'_>, level: CheckLevel, findings: &mut Findings) {
    let folder = match context.spool.folder() {
        Ok(folder) => folder,
        Err(error) => {
            findings.fail(failure("S01", error));
            findings.skip_prefixes(&REQUEST_CHECKS, "the folder for events cannot be created");
            return;
        }
    };
    let jail = match context.setup.confinement {
        Confinement::Isolated(jail) => Some(jail.clone().with_spool(folder)),
        Confinement::Contained => None,
    };
    let confinement = jail.as_ref().map_or(Confinement::Contained, Confinement::Isolated);
    let setup = &CheckSetup { confinement, ..*context.setup };
    ask_for_compactions(&CheckContext { setup, ..context }, level, findings).await;
}

async fn ask_for_compactions(context: &CheckContext<'_>, level: CheckLevel, findings: &mut Findings) {
    let surveys = Surveys::get();
    let Some(ordinary) = single::check_ordinary(context, surveys, findings).await else {
        findings.skip_prefixes(&["F", "W"], "an ordinary request already failed");
        findings.skip(&["N05", "P12", "P14"], "an ordinary request already failed");
        return;
    };
    if level == CheckLevel::Full {
        single::check_unusual(context, surveys, &ordinary, findings).await;
        // A strategy whose answers vary is reported only once.
        let is_comparable = context.is_pure() && !findings.failures.contains_key("F07");
        worker::check(context, surveys, is_comparable.then_some(&*ordinary), findings).await;
    }
}

/// Formats an answer for use in a sentence.
fn truncated(answer: &Value) -> String {
    let text = answer.to_string();
    let end = text.floor_char_boundary(160);
    if end < text.len() { format!("{}...", &text[..end]) } else { text }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    #[test]
    fn checks_with_requests_are_skipped_without_a_folder_for_events() {
        let base = tempfile::tempdir().unwrap();
        let runner = Path::new("/bin/false");
        let setup = &CheckSetup {
            runner,
            temp_dir: base.path(),
            private_bytes_max: 0,
            deadline: Duration::ZERO,
            describe_deadline: Duration::ZERO,
            confinement: Confinement::Contained,
            env: &[],
        };
        let plugin = &TestedPlugin::at(Path::new("/bin/sh"), runner).unwrap();
        let description = &Description::new("sh", "1.0.0", "for a test");
        let (options, spool) = (Map::new(), &Spool::new(&base.path().join("missing")));
        let context = CheckContext { setup, plugin, description, options, spool };
        let mut findings = Findings::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(ask_with_spool(context, CheckLevel::Full, &mut findings));
        assert_eq!(findings.failures.keys().collect::<Vec<_>>(), [&"S01"]);
        let sends_request = |check: &&Check| REQUEST_CHECKS.iter().any(|prefix| check.id.starts_with(prefix));
        let mut expect: Vec<_> = CHECKS.iter().filter(sends_request).map(|check| &check.id).collect();
        expect.sort();
        assert_eq!(findings.skipped.keys().collect::<Vec<_>>(), expect);
    }
}
