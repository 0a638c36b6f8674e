//! What somebody demands of a batch on the command line. A gate that is not met undoes nothing.

use std::fmt;

use jp_compact_core::render::Provider;
use jp_compact_schema::report::{BatchTotal, GateReport, MissReport, Status, TranscriptReport};

use crate::compact::Worked;

/// A gate, by its flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Of all tokens at least so many percent are saved.
    RequireSaving,
    /// Every view keeps the rules.
    RequireValid,
    /// Every view has at most so many tokens.
    RequireFit,
    /// No view has more tokens than before.
    ForbidGrowth,
    /// At most so many transcripts fail.
    MaxFailures,
}

impl Gate {
    /// Its name: the flag, without the dashes.
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

/// All that is demanded.
#[derive(Debug, Clone, Default)]
pub struct Gates {
    /// Percent of the tokens of all transcripts.
    pub require_saving: Option<f64>,
    /// The providers whose rules hold, beside those that all share.
    pub require_valid: Option<Vec<Provider>>,
    /// Tokens of each view.
    pub require_fit: Option<u64>,
    /// Whether no view may grow.
    pub forbid_growth: bool,
    /// How many transcripts may fail.
    pub max_failures: Option<u64>,
}

/// What a batch is about, where that is no transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All that was searched, and a gate over nothing is not met.
    All,
    /// All that was searched, which may be empty.
    AllOrNothing,
    /// One part of what was searched. Another part has a transcript, and its gates.
    Shard,
}

impl Gates {
    /// Whether nothing is demanded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { require_saving, require_valid, require_fit, forbid_growth, max_failures } = self;
        require_saving.is_none()
            && require_valid.is_none()
            && require_fit.is_none()
            && !forbid_growth
            && max_failures.is_none()
    }

    /// Whose rules have to be looked at.
    pub(super) fn providers(&self) -> &[Provider] {
        self.require_valid.as_deref().unwrap_or_default()
    }

    /// Those that one transcript does not meet, by what is told of it.
    pub(super) fn missed(&self, worked: &Worked<'_>, told: &TranscriptReport) -> Vec<MissReport> {
        let mut missed = Vec::new();
        let mut miss = |gate: Gate, found: String| {
            missed.push(MissReport { gate: gate.as_str().into(), found });
        };
        let (before, after) = (worked.report.tokens_before, worked.report.tokens_after);
        if let Some(most) = self.require_fit.filter(|most| after > *most) {
            miss(Gate::RequireFit, format!("the view has {after} tokens, and {most} are allowed"));
        }
        if self.forbid_growth && after > before {
            miss(Gate::ForbidGrowth, format!("the view had {before} tokens, and has {after}"));
        }
        if self.require_valid.is_some()
            && let [first, more @ ..] = told.lint.as_slice()
        {
            let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
            miss(Gate::RequireValid, format!("{}{more}", first.message));
        }
        missed
    }

    /// How all of them came out.
    fn judge(&self, Tally { total, missed, faults, .. }: &Tally, scope: Scope) -> Vec<GateReport> {
        let mut all = Vec::new();
        // A path that is not there is no transcript.
        let is_empty = total.transcripts == *faults;
        let nothing = match scope {
            _ if total.transcripts > total.failed => None,
            Scope::Shard if is_empty => Some((true, "nothing in this shard")),
            Scope::AllOrNothing if is_empty => Some((true, "no transcript")),
            _ if is_empty => Some((false, "no transcript")),
            // How many failed is known, and nothing else.
            _ => Some((false, "no transcript that did not fail")),
        };
        let mut add = |gate: Gate, wanted: String, met: bool, found: String| {
            let nothing = nothing.filter(|_| gate != Gate::MaxFailures || is_empty);
            let (met, found) = nothing.map_or((met, found), |(met, found)| (met, found.to_owned()));
            all.push(GateReport { gate: gate.as_str().into(), wanted, met, found });
        };
        let saved = total.saved_percent;
        if let Some(least) = self.require_saving {
            // Transcripts without a token save enough.
            let met = saved >= least || total.size.all.tokens.before == 0;
            let tokens = total.size.all.tokens;
            let of_views = saved_percent(tokens.before, tokens.after);
            let found = if saved < least && of_views >= least {
                format!("{saved:.1} %: the views save {of_views:.1} %, and JP does not apply every overlay")
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
                add(gate, wanted, count == 0, format!("not met by {}", counted(count)));
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

fn counted(count: u64) -> String {
    if count == 1 { "1 transcript".into() } else { format!("{count} transcripts") }
}

/// By how many transcripts gates were not met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Missed {
    valid: u64,
    fit: u64,
    growth: u64,
}

impl Missed {
    /// One more transcript.
    pub(super) fn add(&mut self, told: &TranscriptReport) {
        for miss in &told.gates {
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

/// What a batch has come to so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// The sums.
    pub total: BatchTotal,
    /// The tokens that a model is sent: of JP's conversations by JP.
    pub sent: u64,
    /// How many of the failures are paths that could not be searched.
    faults: u64,
    missed: Missed,
}

/// Of so many tokens, how many percent are not sent.
#[must_use]
pub fn saved_percent(before: u64, sent: u64) -> f64 {
    if before == 0 {
        return 0.0;
    }
    ((1.0 - sent as f64 / before as f64) * 1000.0).round() / 10.0
}

impl Tally {
    /// Nothing was done yet; so many paths could not be searched.
    #[must_use]
    pub fn new(faults: u64) -> Self {
        Self { faults, ..Self::default() }
    }

    /// Counts one more transcript.
    pub fn add(&mut self, told: &TranscriptReport, resumed: bool) {
        let total = &mut self.total;
        total.transcripts += 1;
        total.resumed += u64::from(resumed);
        total.overlays += told.overlays.len() as u64;
        total.violations += told.lint.len() as u64;
        *match told.status {
            Status::Compacted => &mut total.compacted,
            Status::Unchanged => &mut total.unchanged,
            Status::Skipped => &mut total.skipped,
            Status::Failed => &mut total.failed,
        } += 1;
        super::tell::add(&mut total.size, &told.size);
        let of_one = told.size.all.tokens;
        // What JP goes on sending is not saved, whatever our view shows.
        self.sent += of_one.jp.map_or(of_one.after, |jp| jp.after);
        total.saved_percent = saved_percent(total.size.all.tokens.before, self.sent);
        self.missed.add(told);
    }

    /// How the gates came out.
    #[must_use]
    pub fn judge(&self, gates: &Gates, scope: Scope) -> Vec<GateReport> {
        gates.judge(self, scope)
    }
}
