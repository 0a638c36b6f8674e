//! The choice of the facts of a section, in the order of their priority.

use std::collections::HashSet;

use jp_compact_schema::{Diagnostic, Severity};

use super::fact::FactKind;
use super::limit::SectionLimit;
use super::{names, section};

/// The code of the diagnostic about the section.
const CODE: &str = "kept_verbatim";
/// A fact that is not a constraint takes at most `other_bytes` divided by this number, without its label. Otherwise, a
/// long script would leave no room for the other facts.
const FACT_DIVISOR: usize = 4;

/// The choice of the facts of a section.
pub(super) struct Choice<'a> {
    summary: &'a str,
    paths: HashSet<&'a str>,
    limit: SectionLimit,
    weight: usize,
    other_weight: usize,
    pub(super) chosen: Vec<(FactKind, &'a str)>,
    kinds: Vec<FactKind>,
    left_out: Vec<FactKind>,
}

impl<'a> Choice<'a> {
    pub(super) fn new(summary: &'a str, limit: SectionLimit) -> Self {
        let paths = names::paths(summary).collect();
        let (chosen, kinds, left_out) = (Vec::new(), Vec::new(), Vec::new());
        Self { summary, paths, limit, weight: 0, other_weight: 0, chosen, kinds, left_out }
    }

    /// Adds a fact that the summary lacks, if it fits.
    pub(super) fn offer(&mut self, fact: (FactKind, &'a str)) {
        let (kind, text) = fact;
        if self.has(kind, text) {
            return;
        }
        let weight = section::weight(fact, &self.kinds);
        let is_constraint = kind == FactKind::Constraint;
        let fits = self.weight + weight <= self.limit.bytes;
        let fits_others = is_constraint
            || (self.other_weight + weight <= self.limit.other_bytes
                && weight
                    <= self.limit.other_bytes / FACT_DIVISOR + section::weight((kind, ""), &self.kinds));
        if !fits || !fits_others {
            self.left_out.push(kind);
            return;
        }
        self.weight += weight;
        self.other_weight += if is_constraint { 0 } else { weight };
        self.paths.extend(names::paths(text));
        self.kinds.push(kind);
        self.chosen.push(fact);
    }

    fn has(&self, kind: FactKind, fact: &str) -> bool {
        match kind {
            FactKind::Constraint | FactKind::Command => self.summary.contains(fact),
            FactKind::ErrorCode => names::has_word(self.summary, fact),
            FactKind::Path => self.paths.contains(fact),
        }
    }

    pub(super) fn diagnostic(&self) -> Option<Diagnostic> {
        let chosen: Vec<FactKind> = self.chosen.iter().map(|(kind, _)| *kind).collect();
        let appended = counts(&chosen).map(|counts| format!("appended {counts} that the summary lacked"));
        let left_out = counts(&self.left_out).map(|counts| format!("left out {counts} for lack of room"));
        let parts: Vec<String> = appended.into_iter().chain(left_out).collect();
        let severity = match self.left_out.contains(&FactKind::Constraint) {
            true => Severity::Warning,
            false => Severity::Info,
        };
        let diagnostic =
            Diagnostic { severity, code: CODE.to_owned(), message: parts.join("; "), turn: None, seq: None };
        (!parts.is_empty()).then_some(diagnostic)
    }
}

/// Returns the number of facts of each kind as text. `None` without facts.
fn counts(facts: &[FactKind]) -> Option<String> {
    let count = |kind: FactKind| facts.iter().filter(|other| **other == kind).count();
    let counts = FactKind::ALL.into_iter().map(|kind| (kind, count(kind))).filter(|(_, count)| *count > 0);
    let texts: Vec<String> = counts.map(|(kind, count)| kind.counted(count)).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}
