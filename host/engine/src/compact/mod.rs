//! The pipeline: one transcript, some strategies, one write. All strategies of a run see one snapshot; their
//! overlays are appended together once all have ended, or none is (JP-STREAM, "Ranges" and "Two copies").

mod ask;
mod beside;
mod events;
mod guard;
mod lock;
mod open;
mod paid;
mod prepare;
mod report;
mod reset;
mod unasked;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jp_compact_core::append::{self, Entry, Made, NotAppendable};
use jp_compact_core::estimate::Estimator;
use jp_compact_core::formats::Format;
use jp_compact_core::lint::Violation;
use jp_compact_core::projection::project;
use jp_compact_core::render::Provider;
use jp_compact_core::select::{self, Nothing, Selected, Wanted};
use jp_compact_core::{Overlap, Pairs, Stream, Survey, View, splice};
use jp_compact_schema::ToolHint;

pub use guard::{Broken, MIN_SAVING, OnLowSaving};
pub(crate) use open::only_jp;
pub use open::{Opened, of_bytes, open, open_as, warnings, with_beside};
pub use paid::Paid;
pub use prepare::{Preparation, Ready, Sandbox, allow, prepare};
pub use report::{Changed, Outcome, Report, SentByJp, Step};
pub use reset::{ResetReport, reset};

use crate::config::Named;
use crate::consent::{self, Allowed, Consent, Wants};
use crate::failure::{Failure, Overtaken};
use crate::llm::Models;
use crate::session::Sessions;
use crate::store::{self, Current, Piece, Place};
use ask::Asking;
use lock::under_lock;

/// What a run does to every transcript.
#[derive(Debug)]
pub struct Run {
    /// The strategies, in the order of their overlays.
    pub strategies: Vec<Ready>,
    /// How they are asked.
    pub sessions: Arc<Sessions>,
    /// Which models there are.
    pub models: Arc<Models>,
    /// Whether a model may be asked.
    pub consent: Consent,
    /// The model that is configured.
    pub model: Option<Named>,
    /// The model that the conversation itself is held with.
    pub conversation_model: Option<Named>,
    /// The turns wanted, of every strategy that does not bring its own.
    pub wanted: Wanted,
    /// Which overlaps extend a summary.
    pub overlap: Overlap,
    /// How tools are to be compacted, by name: they beat what a strategy says of all tools.
    pub hints: BTreeMap<String, ToolHint>,
    /// How long somebody else may hold the lock of a transcript.
    pub lock_wait: Duration,
    /// The time of the run: it stamps overlays and resolves durations.
    pub now: Timestamp,
    /// Whether nothing is appended, and no model asked.
    pub dry_run: bool,
    /// Whether nothing is appended, for the caller wants the view alone.
    pub hands_over: bool,
    /// Whether a strategy is left alone whose overlay of the same events, turns and options is there already.
    pub skips: bool,
    /// How tokens are counted.
    pub estimator: Estimator,
    /// Whether a view that breaks a rule is appended to all the same.
    pub allow_invalid: bool,
    /// The providers whose own rules decide too.
    pub providers: Vec<Provider>,
    /// The least that is worth an append, as a part of the view.
    pub min_saving: f64,
    /// What becomes of less.
    pub on_low_saving: OnLowSaving,
    /// What models were paid for in vain, for a run that nobody asked for.
    pub paid: Option<Paid>,
}

/// What a run did to one transcript, and what it looked at.
#[derive(Debug)]
pub struct Worked<'a> {
    /// What it did.
    pub report: Report,
    /// What is known of the transcript, with the view as the run leaves it.
    pub survey: Survey<'a>,
    /// Whether the transcript grew while it was worked on: what was written is not what was read and more.
    pub grown: bool,
    entries: Vec<Entry>,
    made: Vec<Made>,
}

impl Run {
    /// Whether it costs a line to a worker for each strategy, and no process or model.
    #[must_use]
    pub fn is_light(&self) -> bool {
        let is_light = |ready: &Ready| self.sessions.has_workers(&ready.described) && !ready.needs_model();
        self.strategies.iter().all(is_light)
    }

    /// Decides whether the strategies may ask a model. Every run begins with it; whoever prepares something for a run
    /// may want to know before.
    ///
    /// # Errors
    /// One needs a model, and may not ask it.
    pub fn allow(&self) -> Result<Vec<Option<Allowed>>, Failure> {
        let allow = |ready: &Ready| {
            let wants = Wants {
                strategy: Some((&ready.described.description.name, &ready.options)),
                lead: &ready.lead,
                named: [self.model.as_ref(), self.conversation_model.as_ref()],
            };
            ready.needs_model().then(|| consent::allow(&self.models, &self.consent, &wants)).transpose()
        };
        self.strategies.iter().map(allow).collect()
    }
}

impl Worked<'_> {
    /// What one of JP's has become, if anything was made.
    pub(crate) fn appended(&self) -> Option<Vec<Piece>> {
        let Self { survey, entries, made, .. } = self;
        (!made.is_empty()).then(|| append::append(survey.stream, entries, made))
    }

    /// The rules that the view breaks, and those that a rendering of it for these providers breaks.
    #[must_use]
    pub fn violations(&self, providers: &[Provider]) -> Vec<Violation> {
        let stream = self.survey.stream;
        let made = self.made.iter().map(|made| made.overlay.clone());
        let overlays: Vec<_> = stream.overlays().iter().cloned().chain(made).collect();
        guard::broken(stream, &self.survey.pairs, &overlays, &self.survey.view, providers)
    }
}

/// Runs the strategies on a transcript that was read, and appends what they made.
///
/// # Errors
/// Nothing was appended, and why.
pub async fn compact(run: &Run, opened: &Opened) -> Result<Report, Failure> {
    work(run, opened).await.map(|worked| worked.report)
}

/// The same, for whoever wants to see more than what was done.
///
/// # Errors
/// Nothing was appended, and why.
pub async fn work<'a>(run: &Run, opened: &'a Opened) -> Result<Worked<'a>, Failure> {
    // A dry run is refused what the run would be.
    let appends = !run.hands_over;
    if appends {
        match &opened.beside {
            Some(beside) => beside.check_writable()?,
            None => store::check_writable(&opened.place)?,
        }
        append::check(&opened.stream).map_err(not_appendable(opened))?;
    }
    let mut survey = Survey::with(&opened.stream, run.estimator);
    let selected = select::select(&survey, run.wanted, run.now);
    let (mut report, proposed) = propose(run, opened, &survey, &selected).await?;
    let Some(Proposed { mut asking, made, view }) = proposed else {
        let would = |step: &Step| matches!(step.outcome, Outcome::Would(_));
        if appends && run.dry_run && report.steps.iter().any(would) {
            rehearse(run, opened, &[], &[]).await?;
        }
        return Ok(Worked { report, survey, grown: false, entries: Vec::new(), made: Vec::new() });
    };
    let (made, grown) = match appends {
        true if run.dry_run => {
            rehearse(run, opened, &asking.entries, &made).await?;
            (made, false)
        }
        true => write(opened, &asking, made).await?,
        false => (made, false),
    };
    report.tell(&asking, made.clone());
    let entries = std::mem::take(&mut asking.entries);
    drop(asking);
    survey.view = view;
    Ok(Worked { report, survey, grown, entries, made })
}

/// Runs the strategies on a transcript that lies nowhere. What was made comes back: JP's with its overlays appended, of
/// any other the file that would lie beside it.
///
/// # Errors
/// Nothing was made, and why.
pub async fn compact_in_memory(run: &Run, opened: &Opened) -> Result<(Report, Option<Vec<u8>>), Failure> {
    append::check(&opened.stream).map_err(not_appendable(opened))?;
    let survey = Survey::with(&opened.stream, run.estimator);
    let selected = select::select(&survey, run.wanted, run.now);
    let (mut report, proposed) = propose(run, opened, &survey, &selected).await?;
    let bytes = proposed.map(|Proposed { asking, made, .. }| {
        let bytes = match opened.stream.format() {
            Format::Jp => {
                splice::concat(&append::append(&opened.stream, &asking.entries, &made), opened.stream.bytes())
            }
            _ => beside::file(&opened.stream, &asking.entries, &made),
        };
        report.tell(&asking, made);
        bytes
    });
    Ok((report, bytes))
}

fn not_appendable(opened: &Opened) -> impl Fn(NotAppendable) -> Failure {
    |source| Failure::NotAppendable { path: opened.place.path().to_owned(), source }
}

/// Overlays that may be appended.
struct Proposed<'a> {
    asking: Asking<'a>,
    made: Vec<Made>,
    /// What they make of the view.
    view: View,
}

/// Asks the strategies, and checks what comes of it. Nothing where nothing is to be appended.
async fn propose<'a>(
    run: &'a Run,
    opened: &'a Opened,
    survey: &'a Survey<'a>,
    selected: &'a Result<Selected, Nothing>,
) -> Result<(Report, Option<Proposed<'a>>), Failure> {
    let Opened { place, stream, .. } = opened;
    let allowed = run.allow()?;
    let mut report = Report::of(opened, survey);
    if let Err(nothing) = selected
        && run.strategies.iter().all(|ready| ready.range.is_none())
    {
        report.nothing = Some(*nothing);
        return Ok((report, None));
    }
    let mut asking = Asking::new(run, place, survey, selected);
    for (ready, allowed) in run.strategies.iter().zip(&allowed) {
        asking.ask(ready, allowed.as_ref(), &mut report).await?;
    }
    if asking.entries.is_empty() {
        return Ok((report, None));
    }
    let made = append::stamp(stream, &asking.entries, run.now).map_err(not_appendable(opened))?;
    let foreseen = guard::foresee(stream, &survey.pairs, &survey.view, &made, &run.providers);
    let before = report.jp.clone();
    report.foresee(survey, &made, &foreseen.view);
    report.low_saving = Some(report.saved()).filter(|saved| *saved < run.min_saving);
    if report.low_saving.is_some() && run.on_low_saving == OnLowSaving::Decline {
        report.decline(run.min_saving);
        report.jp = before;
        asking.keep_in_vain(&report);
        return Ok((report, None));
    }
    report.changed = changed(survey, &foreseen.view);
    if !foreseen.new.is_empty() && !run.allow_invalid {
        return Err(Failure::Broken { path: place.path().to_owned(), source: Broken(foreseen.new) });
    }
    report.broken = foreseen.new;
    report.broken_before = foreseen.older;
    Ok((report, Some(Proposed { asking, made, view: foreseen.view })))
}

/// The turns of which the view changes.
fn changed(survey: &Survey<'_>, view: &View) -> Vec<Changed> {
    let (before, after) =
        (survey.turns.iter().map(|turn| turn.view_tokens), survey.view_tokens_by_turn(view));
    let turns = before.zip(after).enumerate();
    turns
        .filter(|(_, (before, after))| before != after)
        .map(|(turn, (before, after))| Changed { turn, before, after })
        .collect()
}

/// Appends in one write, and tells whether the transcript has grown meanwhile: then it is checked and stamped anew.
async fn write(
    opened: &Opened,
    asking: &Asking<'_>,
    mut made: Vec<Made>,
) -> Result<(Vec<Made>, bool), Failure> {
    let mut has_grown = false;
    let Opened { place, stream, .. } = opened;
    if let Some(beside) = &opened.beside {
        return Ok((beside::write(beside, stream, asking, made).await?, false));
    }
    let build = |current| match current {
        Current::Same => Ok(append::append(stream, &asking.entries, &made)),
        Current::Grown(bytes) => {
            let grown = Stream::parse(bytes).map_err(Overtaken::Unreadable)?;
            (made, has_grown) = (anew(&grown, asking)?, true);
            Ok(append::append(&grown, &asking.entries, &made))
        }
    };
    replace(place, stream, asking.run.lock_wait, build).await?;
    Ok((made, has_grown))
}

/// Looks whether what was made could be written, without writing it.
async fn rehearse(run: &Run, opened: &Opened, entries: &[Entry], made: &[Made]) -> Result<(), Failure> {
    let Opened { place, stream, beside } = opened;
    match beside {
        Some(beside) => {
            let bytes = beside::file(stream, entries, made);
            let attempt = || Ok(beside.rehearse(Duration::ZERO, &bytes)?);
            under_lock(beside.path(), run.lock_wait, attempt).await
        }
        None => {
            let pieces = append::append(stream, entries, made);
            let attempt = || Ok(store::rehearse(place, stream.bytes(), Duration::ZERO, &pieces)?);
            under_lock(place.path(), run.lock_wait, attempt).await
        }
    }
}

/// What was proposed, for a stream that is no longer the one that strategies have seen.
fn anew(grown: &Stream, asking: &Asking<'_>) -> Result<Vec<Made>, Overtaken> {
    append::check(grown).map_err(Overtaken::NotAppendable)?;
    asking.recheck(grown).map_err(Overtaken::Refused)?;
    let made = append::stamp(grown, &asking.entries, asking.run.now).map_err(Overtaken::NotAppendable)?;
    let foreseen = guard::foresee(grown, &Pairs::of(grown), &project(grown), &made, &asking.run.providers);
    if !foreseen.new.is_empty() && !asking.run.allow_invalid {
        return Err(Overtaken::Broken(Broken(foreseen.new)));
    }
    Ok(made)
}

/// Replaces a transcript by what `build` makes of it. Others go on, and an interrupt is heard, while the lock is waited for.
pub(crate) async fn replace(
    place: &Place,
    stream: &Stream,
    lock_wait: Duration,
    mut build: impl FnMut(Current) -> Result<Vec<Piece>, Overtaken>,
) -> Result<(), Failure> {
    let attempt = || store::replace(place, stream.bytes(), stream.body_end(), Duration::ZERO, &mut build);
    under_lock(place.path(), lock_wait, attempt).await
}
