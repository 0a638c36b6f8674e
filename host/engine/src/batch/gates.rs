//! Gates: requirements for a batch from the command line. A gate that is not met fails the run, but undoes nothing.

use std::fmt;

use jp_compact_core::render::Provider;
use jp_compact_schema::document::{Saved, SavedOf};
use jp_compact_schema::report::{BatchTotal, GateReport, MissReport, Status, TranscriptReport};

use crate::compact::Worked;

/// A gate, named after its flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// The batch saves at least this percentage of all tokens.
    RequireSaving,
    /// Every view is valid.
    RequireValid,
    /// Every view has at most this many tokens.
    RequireFit,
    /// No view has more tokens than before.
    ForbidGrowth,
    /// At most this many transcripts fail.
    MaxFailures,
}

impl Gate {
    /// Returns the flag without its dashes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequireSaving => "require-saving",
            Self::RequireValid => "require-valid",
            Self::RequireFit => "require-fit",
            Self::ForbidGrowth => "forbid-growth",
            Self::MaxFailures => "max-failures",
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The gates of a run.
#[derive(Debug, Clone, Default)]
pub struct Gates {
    /// The required percentage of the tokens of all transcripts.
    pub require_saving: Option<f64>,
    /// The providers whose rules apply in addition to the common rules.
    pub require_valid: Option<Vec<Provider>>,
    /// The maximum number of tokens of each view.
    pub require_fit: Option<u64>,
    /// Whether a view must not grow.
    pub forbid_growth: bool,
    /// The maximum number of failed transcripts.
    pub max_failures: Option<u64>,
}

/// The meaning of a batch without transcripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateScope {
    /// Everything that was searched. Gates are not met without transcripts.
    All,
    /// Everything that was searched, and it may be empty.
    AllOrNothing,
    /// One part of what was searched. Another part has transcripts and evaluates the gates.
    Shard,
}

impl Gates {
    /// Returns whether no gate is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { require_saving, require_valid, require_fit, forbid_growth, max_failures } = self;
        require_saving.is_none()
            && require_valid.is_none()
            && require_fit.is_none()
            && !forbid_growth
            && max_failures.is_none()
    }

    /// Returns the providers whose rules must be checked.
    pub(super) fn providers(&self) -> &[Provider] {
        self.require_valid.as_deref().unwrap_or_default()
    }

    /// Returns the gates that a transcript does not meet.
    pub(super) fn missed(&self, worked: &Worked<'_>, entry: &TranscriptReport) -> Vec<MissReport> {
        let mut missed = Vec::new();
        let mut miss = |gate: Gate, found: String| {
            missed.push(MissReport { gate: gate.as_str().into(), found });
        };
        let (before, after) = (worked.report.tokens_before, worked.report.tokens_after);
        if let Some(most) = self.require_fit.filter(|most| after > *most) {
            miss(Gate::RequireFit, format!("the view has {after} tokens; at most {most} are allowed"));
        }
        if self.forbid_growth && after > before {
            miss(Gate::ForbidGrowth, format!("the view grew from {before} to {after} tokens"));
        }
        if self.require_valid.is_some()
            && let [first, more @ ..] = entry.lint.as_slice()
        {
            let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
            miss(Gate::RequireValid, format!("{}{more}", first.message));
        }
        missed
    }

    /// Evaluates the gates for all transcripts.
    fn judge(&self, Tally { total, missed, faults, .. }: &Tally, scope: GateScope) -> Vec<GateReport> {
        let mut all = Vec::new();
        // A path that does not exist is not a transcript.
        let is_empty = total.transcripts == *faults;
        let nothing = match scope {
            _ if total.transcripts > total.failed => None,
            GateScope::Shard if is_empty => Some((true, "nothing in this shard")),
            GateScope::AllOrNothing if is_empty => Some((true, "no transcript")),
            _ if is_empty => Some((false, "no transcript")),
            // Only the number of failures is known.
            _ => Some((false, "no successful transcript")),
        };
        let mut add = |gate: Gate, wanted: String, met: bool, found: String| {
            let nothing = nothing.filter(|_| gate != Gate::MaxFailures || is_empty);
            let (met, found) = nothing.map_or((met, found), |(met, found)| (met, found.to_owned()));
            all.push(GateReport { gate: gate.as_str().into(), wanted, met, found });
        };
        let saved = total.saved.percent;
        if let Some(least) = self.require_saving {
            // Transcripts without any token count as saved.
            let met = saved >= least || total.size.tokens.raw == 0;
            let of_views = total.size.tokens.saved_of_raw().percent;
            let found = if saved < least && of_views >= least {
                format!("{saved:.1} %: the views save {of_views:.1} %, but JP does not apply every overlay")
            } else {
                format!("{saved:.1} %")
            };
            add(Gate::RequireSaving, format!("{least} %"), met, found);
        }
        let counts = [
            (Gate::RequireValid, self.require_valid.is_some(), self.names(), missed.valid),
            (Gate::RequireFit, self.require_fit.is_some(), self.fit(), missed.fit),
            (Gate::ForbidGrowth, self.forbid_growth, "no growth".into(), missed.growth),
        ];
        for (gate, asked, wanted, count) in counts {
            if asked {
                add(gate, wanted, count == 0, failing(count));
            }
        }
        if let Some(most) = self.max_failures {
            let found = format!("{} failed", counted(total.failed));
            add(Gate::MaxFailures, most.to_string(), total.failed <= most, found);
        }
        all
    }

    fn fit(&self) -> String {
        format!("{} tokens", self.require_fit.unwrap_or_default())
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.providers().iter().map(|provider| provider.as_str()).collect();
        names.join(", ")
    }
}

/// Formats the number of transcripts that do not meet a gate.
fn failing(count: u64) -> String {
    if count == 1 { "1 failing transcript".into() } else { format!("{count} failing transcripts") }
}

fn counted(count: u64) -> String {
    if count == 1 { "1 transcript".into() } else { format!("{count} transcripts") }
}

/// The number of transcripts that miss each gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Missed {
    valid: u64,
    fit: u64,
    growth: u64,
}

impl Missed {
    /// Adds a transcript.
    pub(super) fn add(&mut self, entry: &TranscriptReport) {
        for miss in &entry.gates {
            let count = match &*miss.gate {
                name if name == Gate::RequireValid.as_str() => &mut self.valid,
                name if name == Gate::RequireFit.as_str() => &mut self.fit,
                name if name == Gate::ForbidGrowth.as_str() => &mut self.growth,
                _ => continue,
            };
            *count += 1;
        }
    }
}

/// The running totals of a batch.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// The sums over all transcripts.
    pub total: BatchTotal,
    /// The tokens that a model receives. JP decides this for its own conversations.
    pub sent: u64,
    /// The number of failures that are paths which could not be searched.
    faults: u64,
    missed: Missed,
}

impl Tally {
    /// Creates empty totals, except for the number of paths that could not be searched.
    #[must_use]
    pub fn new(faults: u64) -> Self {
        let saved = Saved::new(SavedOf::Raw, 0, 0);
        Self { total: BatchTotal { saved, ..BatchTotal::default() }, faults, ..Self::default() }
    }

    /// Adds a transcript.
    pub fn add(&mut self, entry: &TranscriptReport, resumed: bool) {
        let total = &mut self.total;
        total.transcripts += 1;
        total.resumed += u64::from(resumed);
        total.overlays += entry.overlays.len() as u64;
        total.violations += entry.lint.len() as u64;
        *match entry.status {
            Status::Compacted => &mut total.compacted,
            Status::Unchanged => &mut total.unchanged,
            Status::Skipped => &mut total.skipped,
            Status::Failed => &mut total.failed,
        } += 1;
        super::entry::add(&mut total.size, &entry.size);
        let of_one = entry.size.tokens;
        // Tokens that JP still sends are not saved, even if the view does not contain them.
        self.sent += of_one.jp.map_or(of_one.view_after, |jp| jp.view_after);
        total.saved = Saved::new(SavedOf::Raw, total.size.tokens.raw, self.sent);
        self.missed.add(entry);
    }

    /// Evaluates the gates.
    #[must_use]
    pub fn judge(&self, gates: &Gates, scope: GateScope) -> Vec<GateReport> {
        gates.judge(self, scope)
    }
}
