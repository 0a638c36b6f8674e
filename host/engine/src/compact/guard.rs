//! The guard before an append: what a proposal makes of the view breaks no rule that the view kept before
//! (PROVIDER-RULES), and saves something. It looks through the real projection.

use jp_compact_core::append::Made;
use jp_compact_core::lint::{self, Violation};
use jp_compact_core::overlay::Overlay;
use jp_compact_core::projection::{project_through, project_with};
use jp_compact_core::render::{Provider, as_is};
use jp_compact_core::{Pairs, Stream, View};

/// The least that a compaction should save when nobody says otherwise, as a part of the view.
pub const MIN_SAVING: f64 = 0.01;

/// What becomes of a compaction that saves too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLowSaving {
    /// It is appended, and that is said.
    Warn,
    /// Nothing is appended.
    Decline,
}

/// The rules that a proposal would break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken(pub Vec<Violation>);

impl std::fmt::Display for Broken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        out.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Broken {}

/// What a proposal would make of a stream's view.
#[derive(Debug)]
pub(super) struct Foreseen {
    /// The view.
    pub(super) view: View,
    /// What it breaks that was kept before.
    pub(super) new: Vec<Violation>,
    /// What was broken before.
    pub(super) older: Vec<Violation>,
}

/// Looks at the view as it would be with the overlays that were made, and `before` them.
pub(super) fn foresee(
    stream: &Stream,
    pairs: &Pairs,
    before: &View,
    made: &[Made],
    providers: &[Provider],
) -> Foreseen {
    let new = made.iter().map(|made| made.overlay.clone());
    let overlays: Vec<_> = stream.overlays().iter().cloned().chain(new).collect();
    let view = project_with(stream, pairs, &overlays);
    let after = broken(stream, pairs, &overlays, &view, providers);
    if after.is_empty() {
        return Foreseen { view, new: Vec::new(), older: Vec::new() };
    }
    let before = broken(stream, pairs, stream.overlays(), before, providers);
    let (mut new, mut older) = lint::introduced(&before, after);
    if !new.is_empty() {
        // What an older overlay hid, and a newer one shows again, is the history's own.
        let history = broken(stream, pairs, &[], &project_through(stream, &[]), providers);
        let (brought, shown) = lint::introduced(&history, new);
        new = brought;
        older.extend(shown);
    }
    Foreseen { view, new, older }
}

/// The rules that a view breaks, and those that its rendering for these providers breaks.
pub(super) fn broken(
    stream: &Stream,
    pairs: &Pairs,
    overlays: &[Overlay],
    view: &View,
    providers: &[Provider],
) -> Vec<Violation> {
    let mut violations = lint::view_of(stream, pairs, overlays, view);
    for provider in providers {
        violations.extend(lint::body(*provider, &as_is(stream, view, *provider)));
    }
    violations
}

/// What part of the view is saved: 0 when nothing is, negative when it grew.
pub(super) fn saved(before: u64, after: u64) -> f64 {
    if before == 0 {
        return 0.0;
    }
    1.0 - after as f64 / before as f64
}

#[cfg(test)]
mod tests {
    use jp_compact_core::formats::Format;
    use std::path::PathBuf;

    use super::*;
    use crate::compact::{Outcome, Report, Step};

    #[track_caller]
    fn check(before: u64, after: u64, expected: f64) {
        assert!((saved(before, after) - expected).abs() < 1e-9, "{}", saved(before, after));
    }

    #[test]
    fn a_saving_is_a_part_of_the_view() {
        check(200, 150, 0.25);
        check(200, 200, 0.0);
        check(200, 250, -0.25);
        check(0, 10, 0.0);
    }

    #[test]
    fn what_saves_too_little_becomes_a_decline() {
        let step = |outcome| Step {
            strategy: "s".into(),
            version: "1".into(),
            outcome,
            logs: Vec::new(),
            diagnostics: Vec::new(),
        };
        let mut report = Report {
            format: Format::Jp,
            written_to: PathBuf::new(),
            path: PathBuf::new(),
            id: None,
            nothing: None,
            notes: Vec::new(),
            steps: vec![step(Outcome::Declined("no".into())), step(Outcome::Made(Vec::new()))],
            tokens_before: 1000,
            tokens_after: 995,
            jp: None,
            changed: Vec::new(),
            low_saving: None,
            broken: Vec::new(),
            broken_before: Vec::new(),
        };
        report.decline(MIN_SAVING);
        let reasons = report.steps.iter().map(|step| match &step.outcome {
            Outcome::Declined(reason) | Outcome::Would(reason) => reason.as_str(),
            Outcome::Made(_) | Outcome::Already(_) => "made",
        });
        let low = "it would save 0.5 % of the view, and 1 % is the least";
        assert_eq!(reasons.collect::<Vec<_>>(), ["no", low]);
        assert_eq!(report.tokens_after, 1000, "the view stays as it is");
    }
}
