//! The report of a run: what each strategy did, and what the view and JP's own come to.

use std::path::PathBuf;

use jp_compact_core::append::Made;
use jp_compact_core::formats::Format;
use jp_compact_core::jp_view::{Difference, JpView, jp_view};
use jp_compact_core::lint::Violation;
use jp_compact_core::overlay::Overlay;
use jp_compact_core::select::{Note, Nothing};
use jp_compact_core::{Survey, View};
use jp_compact_schema::{Diagnostic, Level};

use super::ask::Asking;
use super::{Opened, guard};
use crate::store::Beside;

/// What a run did to one transcript.
#[derive(Debug)]
pub struct Report {
    /// The file.
    pub path: PathBuf,
    /// The form that it is written in.
    pub format: Format,
    /// The file that its overlays are in: itself, or the one beside it.
    pub written_to: PathBuf,
    /// The conversation's id, where it has one.
    pub id: Option<String>,
    /// Why no strategy was asked.
    pub nothing: Option<Nothing>,
    /// What has to be said of the ranges.
    pub notes: Vec<Note>,
    /// What each strategy did, in order.
    pub steps: Vec<Step>,
    /// Tokens of the view before, estimated.
    pub tokens_before: u64,
    /// Tokens of the view after, estimated.
    pub tokens_after: u64,
    /// What JP itself sends, where the conversation is JP's.
    pub jp: Option<SentByJp>,
    /// The turns of which a model is sent something else than before, in order.
    pub changed: Vec<Changed>,
    /// What part of the view is saved, where that is less than it should be.
    pub low_saving: Option<f64>,
    /// The rules that the view breaks now, and did not before: they were allowed.
    pub broken: Vec<Violation>,
    /// The rules that it broke before.
    pub broken_before: Vec<Violation>,
}

/// What JP itself sends of one of its conversations: an overlay that only we apply changes nothing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentByJp {
    /// Tokens before, estimated.
    pub before: u64,
    /// Tokens after, estimated.
    pub after: u64,
    /// Why that is not the view, where it is not.
    pub why: Option<Difference>,
}

impl SentByJp {
    /// What JP sends of a stream with these overlays, whose view has so many tokens.
    fn now(survey: &Survey<'_>, overlays: &[Overlay], view_tokens: u64) -> (u64, Option<Difference>) {
        match jp_view(survey.stream, overlays) {
            Some(JpView { view, why }) => (survey.estimate.view_tokens(&view), Some(why)),
            None => (view_tokens, None),
        }
    }
}

/// What becomes of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// Its number.
    pub turn: usize,
    /// Tokens of the view before.
    pub before: u64,
    /// Tokens of the view after; of a run of summarised turns, all stand at the first.
    pub after: u64,
}

/// What one strategy did.
#[derive(Debug)]
pub struct Step {
    /// Its name.
    pub strategy: String,
    /// Its version.
    pub version: String,
    /// What came of it.
    pub outcome: Outcome,
    /// Log lines that it wrote, level and text.
    pub logs: Vec<(Level, String)>,
    /// What it noticed.
    pub diagnostics: Vec<Diagnostic>,
}

/// What came of asking one strategy.
#[derive(Debug)]
pub enum Outcome {
    /// Overlays.
    Made(Vec<Made>),
    /// Nothing, and why.
    Declined(String),
    /// Nothing, for it would ask a model and this is a dry run: what it would do.
    Would(String),
    /// Nothing, for it is there already: the number of the overlay.
    Already(usize),
}

impl Report {
    /// The report of a transcript that nothing was done to yet.
    pub(super) fn of(opened: &Opened, survey: &Survey<'_>) -> Self {
        let Opened { place, beside, stream } = opened;
        let tokens = survey.estimate.view_tokens(&survey.view);
        let jp = (stream.format() == Format::Jp).then(|| {
            let (now, why) = SentByJp::now(survey, stream.overlays(), tokens);
            SentByJp { before: now, after: now, why }
        });
        Self {
            path: place.path().to_owned(),
            format: stream.format(),
            written_to: beside.as_ref().map_or(place.path(), Beside::path).to_owned(),
            id: place.id().map(str::to_owned),
            nothing: None,
            notes: Vec::new(),
            steps: Vec::new(),
            tokens_before: tokens,
            tokens_after: tokens,
            jp,
            changed: Vec::new(),
            low_saving: None,
            broken: Vec::new(),
            broken_before: Vec::new(),
        }
    }

    /// What part of the view is saved: negative when it grew.
    #[must_use]
    pub fn saved(&self) -> f64 {
        guard::saved(self.tokens_before, self.tokens_after)
    }

    /// Gives up what was made, for it saves too little.
    pub(super) fn decline(&mut self, min_saving: f64) {
        let (saved, least) = (self.saved() * 100.0, min_saving * 100.0);
        let reason = format!("it would save {saved:.1} % of the view, and {least} % is the least");
        for step in &mut self.steps {
            if let Outcome::Made(_) = step.outcome {
                step.outcome = Outcome::Declined(reason.clone());
            }
        }
        self.tokens_after = self.tokens_before;
    }

    /// Foresees what the view, and what JP sends, come to.
    pub(super) fn foresee(&mut self, survey: &Survey<'_>, made: &[Made], view: &View) {
        self.tokens_after = survey.estimate.view_tokens(view);
        if let Some(jp) = &mut self.jp {
            let made = made.iter().map(|made| made.overlay.clone());
            let overlays: Vec<_> = survey.stream.overlays().iter().cloned().chain(made).collect();
            (jp.after, jp.why) = SentByJp::now(survey, &overlays, self.tokens_after);
        }
    }

    /// Tells of the overlays that were made, each by whom.
    pub(super) fn tell(&mut self, asking: &Asking<'_>, made: Vec<Made>) {
        for made in made {
            let step = &mut self.steps[asking.owners[made.entry]];
            if let Outcome::Made(overlays) = &mut step.outcome {
                overlays.push(made);
            }
        }
    }

    pub(super) fn note(&mut self, notes: &[Note]) {
        for note in notes {
            if !self.notes.contains(note) {
                self.notes.push(*note);
            }
        }
    }
}
