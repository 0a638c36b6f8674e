//! The conformance checks: every rule of schema/PROTOCOL.md that a strategy can break. They use real processes and the
//! reader and validator of the host. Nothing is appended, and the answers of models are fixed.
//!
//! A check compares two answers: to an unusual and to an ordinary request, or from a worker and from a single process.
//! It checks whether the host would accept a proposal, never which events a strategy chooses. The strategy is jailed
//! with the grants of its manifest, as with `--trust-dir`, and may also start `env`.
//!
//! Rules that the host enforces itself have no check: to exit after SIGTERM (SIGKILL follows), to write little to stderr
//! (the host drains and truncates it), to read all of stdin (a broken pipe is not an error).
//!
//! The interface is not stable.

mod ask;
mod checks;
mod conversation;
mod describe;
mod exchange;
mod rehearse;
mod single;
mod subject;
mod template;
mod worker;

use std::collections::BTreeMap;

use jp_compact_core::select::Selection;
use jp_compact_core::{Bound, Survey};
use jp_compact_schema::{Description, Determinism};
use serde::Serialize;
use serde_json::{Map, Value};

pub use checks::{CHECKS, Check, CheckLevel, find};
pub use exchange::{CheckSetup, Speaker};
pub use rehearse::{NotTaken, Rehearsal, rehearse};
pub use subject::TestedPlugin;
pub use template::{Language, create};

use ask::Request;
use conversation::Streams;
use exchange::{Case, Failed, failed, put, without_id};
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
    /// The check.
    #[serde(flatten)]
    pub check: &'static Check,
    /// Its result.
    #[serde(flatten)]
    pub verdict: CheckVerdict,
}

/// The results of the checks so far.
#[derive(Debug, Default)]
struct Findings {
    failed: BTreeMap<&'static str, String>,
    skipped: BTreeMap<&'static str, String>,
}

impl Findings {
    /// Records a failure. Only the first one of a check is kept.
    fn fail(&mut self, failed: Failed) {
        self.failed.entry(failed.id).or_insert(failed.why);
    }

    /// Records a failure under this id instead of its own.
    fn extend(&mut self, id: &'static str, made: Result<(), Failed>) {
        if let Err(Failed { why, .. }) = made {
            self.fail(Failed { id, why });
        }
    }

    fn skip(&mut self, ids: &[&'static str], why: &str) {
        for id in ids {
            self.skipped.entry(id).or_insert_with(|| why.to_owned());
        }
    }

    fn skip_from(&mut self, prefixes: &[&str], why: &str) {
        let of = CHECKS.iter().filter(|check| prefixes.iter().any(|prefix| check.id.starts_with(prefix)));
        self.skip(&of.map(|check| check.id).collect::<Vec<_>>(), why);
    }
}

/// Runs the checks of a level in order. `options` are the options that the user must set for this strategy.
pub async fn test(
    place: &CheckSetup<'_>,
    subject: &TestedPlugin,
    options: &Map<String, Value>,
    level: CheckLevel,
) -> Vec<CheckOutcome> {
    let mut findings = Findings::default();
    match describe::check(place, subject, options, level, &mut findings).await {
        Some((description, options)) => {
            match Spool::make(place.temp_dir) {
                Ok(spool) => {
                    // Created before any process is started, as in a run.
                    let jail = match place.confinement {
                        Confinement::Isolated(jail) => Some(jail.clone().with_spool(spool.folder())),
                        Confinement::Contained => None,
                    };
                    let confinement = jail.as_ref().map_or(Confinement::Contained, Confinement::Isolated);
                    let (place, description, spool) =
                        (&CheckSetup { confinement, ..*place }, &description, &spool);
                    let bench = Bench { place, subject, description, options, spool };
                    ask_for_compactions(&bench, level, &mut findings).await;
                }
                Err(error) => findings.fail(failed("S01", error)),
            }
        }
        None => findings.skip_from(&["R", "P", "N", "F", "W"], "its description allows no requests"),
    }
    let checks = CHECKS.iter().filter(|check| check.level <= level);
    checks
        .map(|check| {
            let verdict = match (findings.failed.remove(check.id), findings.skipped.remove(check.id)) {
                (Some(why), _) => CheckVerdict::Failed { why },
                (None, Some(why)) => CheckVerdict::Skipped { why },
                (None, None) => CheckVerdict::Passed,
            };
            CheckOutcome { check, verdict }
        })
        .collect()
}

/// The common parts of all exchanges of a test.
struct Bench<'a> {
    place: &'a CheckSetup<'a>,
    subject: &'a TestedPlugin,
    description: &'a Description,
    options: Map<String, Value>,
    /// The folder for events in files.
    spool: &'a Spool,
}

impl Bench<'_> {
    async fn put(&self, mut request: Request<'_>, case: Case) -> Result<Value, Failed> {
        put(self.place, self.subject, &mut request, case, &mut |_, _| {}).await.map(without_id)
    }

    /// Returns a request for one turn, or for all turns except the last.
    fn request<'a>(&'a self, survey: &'a Survey<'a>, id: &str, turn: Option<usize>) -> Option<Request<'a>> {
        let wanted = match turn {
            Some(turn) => Selection {
                from: Some(Bound::Turn(turn)),
                to: Some(Bound::Turn(turn)),
                ..Selection::default()
            },
            None => Selection { to: Some(Bound::FromEnd(1)), ..Selection::default() },
        };
        self.request_of(survey, id, wanted)
    }

    fn request_of<'a>(&'a self, survey: &'a Survey<'a>, id: &str, wanted: Selection) -> Option<Request<'a>> {
        Request::of_turns(survey, self.description, &self.options, id, wanted, self.place.deadline)
    }

    fn is_pure(&self) -> bool {
        self.description.determinism == Determinism::Pure
    }
}

async fn ask_for_compactions(bench: &Bench<'_>, level: CheckLevel, findings: &mut Findings) {
    let streams = Streams::make();
    let surveys = streams.surveys();
    let Some(ordinary) = single::core(bench, &surveys, findings).await else {
        findings.skip_from(&["F", "W"], "an ordinary request already failed");
        findings.skip(&["N05", "P12"], "an ordinary request already failed");
        return;
    };
    if level == CheckLevel::Full {
        single::odd(bench, &surveys, &ordinary, findings).await;
        // A strategy whose answers vary is reported only once.
        let is_comparable = bench.is_pure() && !findings.failed.contains_key("F07");
        worker::check(bench, &surveys, is_comparable.then_some(&*ordinary), findings).await;
    }
}

/// Formats an answer for use in a sentence.
fn truncated(answer: &Value) -> String {
    let text = answer.to_string();
    let end = text.floor_char_boundary(160);
    if end < text.len() { format!("{}...", &text[..end]) } else { text }
}
