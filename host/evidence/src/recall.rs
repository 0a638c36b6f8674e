//! Recall: the anchors at risk at a cut, and the part of them that a view still has.

use crate::class::Class;
use crate::event_text::TextRole;
use crate::scan::is_use;
use crate::session::{AnchorId, SeenView, Session};

pub use crate::session::AtRisk;

/// A word is an anchor only if at most this many events of the prefix name it.
const WORD_EVENTS_MAX: usize = 2;
/// A quote is an anchor only if at most this many tool results of the prefix contain it.
const QUOTE_RESULTS_MAX: usize = 3;

/// Returns the anchors at risk for a prefix of `prefix` events, without constraints.
#[must_use]
pub fn at_risk(session: &Session<'_>, prefix: usize) -> Vec<AtRisk> {
    let ids = 0..session.anchor_count() as AnchorId;
    ids.filter_map(|id| at_risk_of(session, prefix, id)).collect()
}

fn at_risk_of(session: &Session<'_>, prefix: usize, id: AnchorId) -> Option<AtRisk> {
    let (class, occurrences) = (session.class(id), &session.occurrences[id as usize]);
    let split = occurrences.partition_point(|event| (*event as usize) < prefix);
    let (before, after) = occurrences.split_at(split);
    let (source, use_event) = (*before.last()? as usize, *after.first()? as usize);
    if !is_use(class, session.events[use_event].role) {
        return None;
    }
    let results =
        || before.iter().filter(|event| session.events[**event as usize].role == TextRole::Result).count();
    let is_anchor = match class {
        Class::Word => before.len() <= WORD_EVENTS_MAX,
        Class::Error => results() > 0,
        Class::Quote => (1..=QUOTE_RESULTS_MAX).contains(&results()),
        _ => true,
    };
    is_anchor.then_some(AtRisk { id, source, use_event })
}

/// The anchors of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub kept: u64,
    pub at_risk: u64,
}

/// The counts of all classes, in the order of [`Class::ALL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecallCounts([Counts; Class::ALL.len()]);

impl RecallCounts {
    #[must_use]
    pub fn counts(&self, class: Class) -> Counts {
        self.0[class as usize]
    }

    pub fn add(&mut self, class: Class, is_kept: bool) {
        let counts = &mut self.0[class as usize];
        counts.at_risk += 1;
        counts.kept += u64::from(is_kept);
    }
}

impl std::ops::AddAssign for RecallCounts {
    fn add_assign(&mut self, other: Self) {
        for (counts, other) in self.0.iter_mut().zip(other.0) {
            counts.kept += other.kept;
            counts.at_risk += other.at_risk;
        }
    }
}

/// Counts the anchors at risk and the constraints of the prefix, and how many of them a view has.
#[must_use]
pub fn recall(session: &Session<'_>, prefix: usize, at_risk: &[AtRisk], seen: &SeenView) -> RecallCounts {
    let mut counts = RecallCounts::default();
    for anchor in at_risk {
        counts.add(session.class(anchor.id), seen.contains(anchor.id));
    }
    for constraint in session.constraints.iter().filter(|constraint| constraint.event < prefix) {
        counts.add(Class::Constraint, seen.has_constraint(constraint));
    }
    counts
}
