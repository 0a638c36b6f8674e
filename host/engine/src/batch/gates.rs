//! Gates: requirements for a batch from the command line. A gate that is not met fails the run, but undoes nothing.

use std::collections::BTreeSet;
use std::fmt;

use jp_compact_core::render::Provider;
use jp_compact_schema::document::{ErrorKind, Saved, SavedOf};
use jp_compact_schema::report::{BatchTotal, GateReport, LintReport, MissReport, Status, TranscriptReport};

use crate::percent::{compared_percent, exact_percent};

/// A gate, named after its flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// The batch saves at least this percentage of all tokens.
    RequireSaving,
    /// Every view is valid.
    RequireValid,
    /// No result loses a constraint of the user. A result that loses one is refused.
    RequireConstraints,
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
            Self::RequireConstraints => "require-constraints",
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
    /// The required saving, as a percentage of the tokens of all transcripts.
    pub require_saving: Option<f64>,
    /// The providers whose rules apply in addition to the common rules.
    pub require_valid: Option<Vec<Provider>>,
    /// Whether a result that loses a constraint of the user fails the run.
    pub require_constraints: bool,
    /// The maximum number of tokens of each view.
    pub require_fit: Option<u64>,
    /// Whether a view must not grow.
    pub forbid_growth: bool,
    /// The maximum number of failed transcripts.
    pub max_failures: Option<u64>,
}

/// Decides whether the gates are met if the batch finds no transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateScope {
    /// The gates are not met.
    All,
    /// The gates are met, because the user allowed an empty batch. A path that cannot be searched still counts as a
    /// failure.
    AllOrEmpty,
    /// The gates are met, because only this shard is empty. The shards with transcripts evaluate them.
    Shard,
}

impl Gates {
    /// Returns whether no gate is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self {
            require_saving,
            require_valid,
            require_constraints,
            require_fit,
            forbid_growth,
            max_failures,
        } = self;
        require_saving.is_none()
            && require_valid.is_none()
            && !require_constraints
            && require_fit.is_none()
            && !forbid_growth
            && max_failures.is_none()
    }

    /// Returns the providers whose rules must be checked.
    pub(super) fn providers(&self) -> &[Provider] {
        self.require_valid.as_deref().unwrap_or_default()
    }

    /// Returns the checks that need the view or the proposals, as names for a report entry. The other gates need only
    /// the entry.
    pub(super) fn checks(&self) -> Vec<String> {
        let constraints = self.require_constraints.then_some(Gate::RequireConstraints.as_str());
        let providers = self.providers().iter().map(|provider| provider.as_str());
        constraints.into_iter().chain(providers).map(str::to_owned).collect()
    }

    /// Returns the gates that a transcript does not meet, from its report entry.
    pub(super) fn missed(&self, entry: &TranscriptReport) -> Vec<MissReport> {
        let mut missed = Vec::new();
        let mut add = |gate: Gate, found: String| {
            missed.push(MissReport { gate: gate.as_str().into(), found });
        };
        let (before, after) = (entry.size.tokens.view_before, entry.size.tokens.view_after);
        if let Some(maximum) = self.require_fit.filter(|maximum| after > *maximum) {
            add(Gate::RequireFit, format!("the view has {after} tokens; at most {maximum} are allowed"));
        }
        if self.forbid_growth && after > before {
            add(Gate::ForbidGrowth, format!("the view grew from {before} to {after} tokens"));
        }
        // An earlier run can have checked the rules of other providers, too.
        let is_required = |lint: &&LintReport| {
            let provider = lint.provider.as_deref();
            provider.is_none_or(|name| self.providers().iter().any(|provider| provider.as_str() == name))
        };
        let violations: Vec<_> = entry.lint.iter().filter(is_required).collect();
        if self.require_valid.is_some()
            && let [first, others @ ..] = violations.as_slice()
        {
            let and_others =
                if others.is_empty() { String::new() } else { format!(" (and {} more)", others.len()) };
            add(Gate::RequireValid, format!("{}{and_others}", first.message));
        }
        missed
    }

    /// Evaluates the gates for all transcripts.
    fn evaluate(&self, tally: &Tally, scope: GateScope) -> Vec<GateReport> {
        let Tally { total, missed, .. } = tally;
        let result_without_successes = tally.result_without_successes(scope);
        let mut reports = Vec::new();
        let mut add = |gate: Gate, wanted: String, met: bool, found: String| {
            let (met, found) = match result_without_successes {
                // The number of failures is known even if no transcript succeeded. A path that cannot be searched is a
                // failure, too.
                Some(_) if gate == Gate::MaxFailures && (!tally.is_empty() || !met) => (met, found),
                Some((met, found)) => (met, found.to_owned()),
                None => (met, found),
            };
            reports.push(GateReport { gate: gate.as_str().into(), wanted, met, found });
        };
        if let Some(minimum) = self.require_saving {
            let (met, found) = evaluate_saving(total, minimum);
            add(Gate::RequireSaving, format!("{minimum} %"), met, found);
        }
        if let Some(providers) = &self.require_valid {
            let names: Vec<_> = providers.iter().map(|provider| provider.as_str()).collect();
            add(Gate::RequireValid, names.join(", "), missed.valid == 0, failing(missed.valid));
        }
        if self.require_constraints {
            let found = failing(missed.constraints);
            add(Gate::RequireConstraints, "all constraints".into(), missed.constraints == 0, found);
        }
        if let Some(maximum) = self.require_fit {
            add(Gate::RequireFit, format!("{maximum} tokens"), missed.fit == 0, failing(missed.fit));
        }
        if self.forbid_growth {
            add(Gate::ForbidGrowth, "no growth".into(), missed.growth == 0, failing(missed.growth));
        }
        if let Some(maximum) = self.max_failures {
            let found = match total.failed {
                1 => "1 transcript failed".into(),
                failed => format!("{failed} transcripts failed"),
            };
            add(Gate::MaxFailures, maximum.to_string(), total.failed <= maximum, found);
        }
        reports
    }
}

/// Returns whether the batch saves enough, and the saving.
fn evaluate_saving(total: &BatchTotal, minimum: f64) -> (bool, String) {
    let tokens = total.size.tokens;
    let saved = exact_percent(total.saved.tokens, tokens.raw);
    let saved_by_views = exact_percent(tokens.saved_of_raw().tokens, tokens.raw);
    let mut found = format!("{} %", compared_percent(saved, minimum));
    if saved < minimum && saved_by_views >= minimum {
        let by_views = compared_percent(saved_by_views, minimum);
        found += &format!(": the views save {by_views} %, but JP does not apply every overlay");
    }
    // Nothing can be saved if the transcripts have no tokens.
    (saved >= minimum || tokens.raw == 0, found)
}

/// Formats the number of transcripts that do not meet a gate.
fn failing(count: u64) -> String {
    if count == 1 { "1 failing transcript".into() } else { format!("{count} failing transcripts") }
}

/// The number of transcripts that miss each gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct MissCounts {
    valid: u64,
    /// The transcripts whose result was refused, because it lost a constraint.
    constraints: u64,
    fit: u64,
    growth: u64,
}

impl MissCounts {
    fn add(&mut self, entry: &TranscriptReport) {
        let is_refused = entry.error.as_ref().is_some_and(|error| error.kind == ErrorKind::GateNotMet);
        self.constraints += u64::from(is_refused);
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
    /// The number of paths that could not be searched. They count as failed transcripts.
    faults: u64,
    missed: MissCounts,
}

impl Tally {
    /// Creates totals without transcripts. `faults` is the number of paths that cannot be searched.
    #[must_use]
    pub fn new(faults: u64) -> Self {
        let saved = Saved::new(SavedOf::Raw, 0, 0);
        Self { total: BatchTotal { saved, ..BatchTotal::default() }, faults, ..Self::default() }
    }

    pub fn add(&mut self, entry: &TranscriptReport, resumed: bool) {
        let total = &mut self.total;
        total.transcripts += 1;
        total.resumed += u64::from(resumed);
        let numbers: BTreeSet<usize> = entry.overlays.iter().map(|overlay| overlay.number).collect();
        total.overlays += numbers.len() as u64;
        total.violations += entry.lint.len() as u64;
        *match entry.status {
            Status::Compacted => &mut total.compacted,
            Status::Unchanged => &mut total.unchanged,
            Status::Skipped => &mut total.skipped,
            Status::Failed => &mut total.failed,
        } += 1;
        super::entry::add_size(&mut total.size, &entry.size);
        let tokens = entry.size.tokens;
        // Tokens that JP still sends are not saved, even if the view does not contain them.
        self.sent += tokens.jp.map_or(tokens.view_after, |jp| jp.view_after);
        total.saved = Saved::new(SavedOf::Raw, total.size.tokens.raw, self.sent);
        self.missed.add(entry);
    }

    #[must_use]
    pub fn evaluate_gates(&self, gates: &Gates, scope: GateScope) -> Vec<GateReport> {
        gates.evaluate(self, scope)
    }

    /// Returns whether no transcript was found. A path that does not exist is not a transcript.
    fn is_empty(&self) -> bool {
        self.total.transcripts == self.faults
    }

    /// Returns the common result of the gates if no transcript succeeded: whether they are met, and the finding.
    fn result_without_successes(&self, scope: GateScope) -> Option<(bool, &'static str)> {
        if self.total.transcripts > self.total.failed {
            return None;
        }
        Some(match scope {
            _ if !self.is_empty() => (false, "no successful transcript"),
            GateScope::Shard => (true, "nothing in this shard"),
            GateScope::AllOrEmpty => (true, "no transcript"),
            GateScope::All => (false, "no transcript"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_other_providers_are_not_required() {
        let violation = |provider: Option<&str>| LintReport {
            rule: "X1".into(),
            provider: provider.map(str::to_owned),
            message: "it breaks X1".into(),
        };
        let missed = |provider| {
            let gates = Gates { require_valid: Some(vec![Provider::Gemini]), ..Gates::default() };
            let lint = vec![violation(provider)];
            gates.missed(&TranscriptReport { lint, ..TranscriptReport::default() }).len()
        };
        assert_eq!([None, Some("gemini"), Some("openai")].map(missed), [1, 1, 0]);
    }
}
