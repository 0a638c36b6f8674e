//! The conformance kit: every rule of PROTOCOL.md that a strategy can break, checked on real processes, so that
//! an author knows before a user does. It judges with the host's own reader and validator, appends nothing and
//! trusts nobody. Model answers are fixed.

mod ask;
mod checks;
mod conversation;
mod describe;
mod exchange;
mod rehearse;
mod subject;
mod template;
mod worker;

use std::collections::BTreeMap;

use jp_compact_core::select::Wanted;
use jp_compact_core::{Bound, Stream, Survey};
use jp_compact_schema::{Description, Determinism};
use serde::Serialize;
use serde_json::{Map, Value};

pub use checks::{CHECKS, Check, Level, find};
pub use exchange::Place;
pub use rehearse::{NotTaken, Rehearsal, rehearse};
pub use subject::Subject;
pub use template::{Language, create};

use crate::options;
use ask::Request;
use exchange::{Failed, Model, put, without_id};

/// What became of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// The strategy keeps the rule.
    Passed,
    /// It does not.
    Failed {
        /// What it did instead.
        why: String,
    },
    /// It could not be asked, or the rule is none for it.
    Skipped {
        /// Why.
        why: String,
    },
}

/// A check, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The check.
    #[serde(flatten)]
    pub check: &'static Check,
    /// What became of it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// What the checks found.
#[derive(Debug, Default)]
struct Findings {
    failed: BTreeMap<&'static str, String>,
    skipped: BTreeMap<&'static str, String>,
}

impl Findings {
    /// The first failure of a check is told.
    fn fail(&mut self, failed: Failed) {
        self.failed.entry(failed.id).or_insert(failed.why);
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

/// Makes the checks of a level, in their order.
pub async fn test(place: &Place<'_>, subject: &Subject, level: Level) -> Vec<Outcome> {
    let mut findings = Findings::default();
    match describe::check(place, subject, level, &mut findings).await {
        Some(description) => ask_for_compactions(place, subject, &description, level, &mut findings).await,
        None => findings.skip_from(&["R", "P", "N", "F", "W"], "its description leaves nothing to ask"),
    }
    let made = CHECKS.iter().filter(|check| check.level <= level);
    made.map(|check| {
        let verdict = match (findings.failed.remove(check.id), findings.skipped.remove(check.id)) {
            (Some(why), _) => Verdict::Failed { why },
            (None, Some(why)) => Verdict::Skipped { why },
            (None, None) => Verdict::Passed,
        };
        Outcome { check, verdict }
    })
    .collect()
}

/// What every exchange of a test has in common.
struct Bench<'a> {
    place: &'a Place<'a>,
    subject: &'a Subject,
    description: &'a Description,
    options: Map<String, Value>,
}

impl Bench<'_> {
    async fn put(&self, request: Request<'_>, model: Model) -> Result<Value, Failed> {
        put(self.place, self.subject, self.description, request, model).await.map(without_id)
    }

    /// A request for one turn, or for all but the last.
    fn request<'a>(&'a self, survey: &'a Survey<'a>, id: &str, turn: Option<usize>) -> Option<Request<'a>> {
        let wanted = match turn {
            Some(turn) => {
                Wanted { from: Some(Bound::Turn(turn)), to: Some(Bound::Turn(turn)), ..Wanted::default() }
            }
            None => Wanted { to: Some(Bound::FromEnd(1)), ..Wanted::default() },
        };
        Request::of_turns(survey, self.description, &self.options, id, wanted, self.place.deadline)
    }

    fn is_pure(&self) -> bool {
        self.description.determinism == Determinism::Pure
    }
}

async fn ask_for_compactions(
    place: &Place<'_>,
    subject: &Subject,
    description: &Description,
    level: Level,
    findings: &mut Findings,
) {
    let options = options::defaults(description);
    let bench = Bench { place, subject, description, options };
    let Some(plain) = core(&bench, findings).await else {
        findings.skip_from(&["F", "W"], "an everyday request fails already");
        findings.skip(&["N05"], "an everyday request fails already");
        return;
    };
    if level == Level::Full {
        odd(&bench, &plain, findings).await;
        // An answer that is another each time is told once.
        let plain = (!findings.failed.contains_key("F07")).then_some(plain);
        worker::check(&bench, plain.as_ref(), findings).await;
    }
}

/// The requests of every day. Returns the answer to the plain one, unless one of them fails.
async fn core(bench: &Bench<'_>, findings: &mut Findings) -> Option<Value> {
    let (plain, talk, overlaid) = (conversation::plain(), conversation::talk(), conversation::overlaid());
    let odd_id = "c\"\\/\u{1F980}\u{7f} \u{e9}";
    let cases: [(&str, &Stream, Option<usize>, &str); 5] = [
        ("the plain conversation", &plain, None, "c1"),
        ("one turn of it", &plain, Some(1), "c2"),
        ("an odd id", &plain, None, odd_id),
        ("nothing but talk", &talk, None, "c3"),
        ("a conversation with overlays", &overlaid, None, "c4"),
    ];
    let (mut first, mut sound) = (None, true);
    for (place, (name, stream, turn, id)) in cases.into_iter().enumerate() {
        let survey = Survey::of(stream);
        let Some(request) = bench.request(&survey, id, turn) else { continue };
        match bench.put(request, Model::Answers).await {
            Ok(answer) if place == 0 => first = Some(answer),
            Ok(_) => {}
            Err(failed) => {
                let over = failed.id == "R01";
                sound = false;
                findings.fail(Failed { why: format!("{name}: {}", failed.why), ..failed });
                // One that hangs would hang at every request.
                if over {
                    return None;
                }
            }
        }
    }
    first.filter(|_| sound)
}

/// The requests that are odd, each with the check that it is for.
async fn odd(bench: &Bench<'_>, plain: &Value, findings: &mut Findings) {
    let (conversation, strange, long) =
        (conversation::plain(), conversation::strange(), conversation::long());
    let (survey, strange, long) = (Survey::of(&conversation), Survey::of(&strange), Survey::of(&long));
    let same = |id| bench.request(&survey, id, None);
    // What is not the same to the same request is not compared with what it says to an odd one.
    let mut comparable = bench.is_pure();
    if !comparable {
        findings.skip(&["F07"], "it is stochastic");
    } else if let Some(request) = same("f7") {
        let again = bench.put(request, Model::Answers).await;
        comparable = again.as_ref() == Ok(plain);
        if !comparable {
            let why =
                again.map_or_else(|failed| failed.why, |answer| format!("it answered {}", shortly(&answer)));
            findings.fail(Failed { id: "F07", why });
        }
    }
    let cases = [
        ("F01", same("f1").map(Request::with_unknown_keys), true),
        ("F02", same("f2").map(Request::with_unknown_messages), true),
        ("F03", same("f3").map(Request::with_blank_lines), true),
        ("F04", bench.request(&long, "f4", None), false),
        ("F05", bench.request(&strange, "f5", None), false),
        ("F06", same("f6").map(Request::dry), true),
    ];
    for (id, request, is_same) in cases {
        let Some(request) = request else { continue };
        match bench.put(request, Model::Answers).await {
            Err(failed) => findings.fail(Failed { id, why: failed.why }),
            Ok(answer) if comparable && is_same && answer != *plain => {
                findings.fail(Failed { id, why: format!("it answered {}", shortly(&answer)) });
            }
            Ok(_) => {}
        }
    }
    if bench.description.needs.is_empty() {
        findings.skip(&["N05"], "it needs nothing");
    } else if let Some(request) = same("n5")
        && let Err(failed) = bench.put(request, Model::Refuses).await
    {
        findings.fail(Failed { id: "N05", why: failed.why });
    }
}

/// An answer as part of a sentence.
fn shortly(answer: &Value) -> String {
    let text = answer.to_string();
    let end = text.floor_char_boundary(160);
    if end < text.len() { format!("{}...", &text[..end]) } else { text }
}
