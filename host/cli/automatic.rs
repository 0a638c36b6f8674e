//! Automatic compaction of one transcript, with its report. `auto` uses it, and `query` uses it after its turn.

use std::ffi::OsStr;
use std::path::Path;

use jp_compact_core::Survey;
use jp_compact_core::auto::{self, AutoVerdict, Threshold};
use jp_compact_core::estimate::Estimator;
use jp_compact_engine::compact::{self, RunSettings};
use jp_compact_engine::plan::{AutoRequest, ProfileOutcome};
use jp_compact_reports::automatic::{explain, reduction};
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{AlwaysReport, AutoReport, TriggerResult};

use crate::error::Report;
use crate::human::{grouped, relative_path};
use crate::lines::EscapedLines;
use crate::reports::compaction;
use crate::setup::Setup;
use crate::tokens::estimate_prefix;

/// Runs the profiles of `auto.always`, the profile if it is due, and the fallback profile if it is needed.
pub(crate) async fn compact_if_due(
    request: &AutoRequest<'_>,
    setup: &mut Setup<'_>,
    transcript: &OsStr,
    environment: &Environment,
) -> Result<(AutoReport, EscapedLines), Report> {
    let mut opened = setup.read(transcript)?;
    let mut config = setup.planner.config_and_warn(&opened)?;
    if request.context_window.is_some() {
        // A window from the command line overrides a configured threshold.
        config.auto.token_threshold = None;
    }
    let planned = match request.profile {
        Some(name) => config.calls_of(name)?,
        None => config.auto_calls()?,
    };
    let planned = planned.with_foreign_value(request.foreign_auto.as_ref());
    let profile = planned.profile.ok_or_else(Report::bug)?;
    setup.planner.check_profile_focus(&planned).await?;
    let mut text = TranscriptText::new(opened.place.path(), environment);
    let found = setup.planner.model_and_window(request, &config, &opened).await;
    let wait = found.wait_rule(&config);
    let (mut always, mut would_ask) = (Vec::new(), false);
    for (name, planned) in config.auto.always.iter().zip(config.always_calls()?) {
        let planned = planned.with_foreign_value(request.foreign_auto.as_ref());
        let applied = setup.planner.run_profile(&config, &planned, request.selection, &opened, wait).await?;
        if let ProfileOutcome::Done(run, result) = &applied {
            would_ask |= result.would_ask();
            opened = if run.io.dry_run {
                compact::with_proposed_overlays(run, &opened).await?
            } else {
                setup.read_again(transcript)?
            };
        }
        always.push(always_report(name, applied, &mut text));
    }
    let estimator = request.estimator;
    let limit = config.trigger(profile, found.window.map(|window| window.tokens));
    let verdict = auto::verdict(&Survey::with_estimator(&opened.stream, estimator), limit);
    let due = matches!(verdict, AutoVerdict::Due { .. });
    let trigger = found.trigger_report(&verdict);
    let mut explanation = explain(verdict, &opened.stream, estimator, found.model.as_deref());
    if let (Threshold::Ratio(..), Some(warning)) = (limit.threshold, &found.warning) {
        text.add_assumption(warning);
    }
    let (mut report, mut warning, mut waits, mut proposed) = (None, None, None, None);
    let mut remaining = Remaining { view: None, threshold: limit.threshold.tokens().unwrap_or(u64::MAX) };
    if due {
        match setup.planner.run_profile(&config, &planned, request.selection, &opened, wait).await? {
            ProfileOutcome::Nothing => {
                explanation.push_str("; nothing to compact: every turn since the last compaction is kept");
                text.add_line(&explanation);
                remaining.measure(&opened, estimator);
            }
            ProfileOutcome::Failed(error) => {
                let failure = Report::from(*error);
                text.add_warning("nothing was compacted", &failure);
                warning = Some(failure.document());
                remaining.measure(&opened, estimator);
            }
            ProfileOutcome::Done(run, result) => {
                report = Some(compaction::document(&result, &run));
                waits = result.wait.clone();
                would_ask |= result.would_ask();
                let waits_for_all = waits.is_some() && result.count_new_overlays() == 0;
                if !waits_for_all {
                    text.lines.append(&compaction::text(&result, &run, environment));
                    text.add_reduction(&profile.name, &result, &run);
                }
                if waits.is_none() {
                    remaining.view = Some(result.tokens_after);
                    if run.io.dry_run {
                        proposed = Some(run);
                    } else {
                        opened = setup.read_again(transcript)?;
                        remaining.measure(&opened, estimator);
                    }
                }
                if let Some(wait) = &waits {
                    let subject = if waits_for_all { "the compaction" } else { "a summary" };
                    let reason = compact::wait_text(wait);
                    explanation += &format!("; {subject} waits for a cold prompt cache: {reason}");
                    text.add_line(&explanation);
                }
            }
        }
    } else if trigger.result != TriggerResult::UnknownWindow {
        text.add_line(&explanation);
    }
    let mut fallback = None;
    let next = if remaining.is_too_large() { config.fallback_calls()? } else { None };
    // After a failed summary, no other profile runs.
    if warning.is_none()
        && let Some(next) = &next
        && let Some(name) = next.profile.map(|next| next.name.as_str()).filter(|name| *name != profile.name)
    {
        let next = next.clone().with_foreign_value(request.foreign_auto.as_ref());
        if let Some(run) = proposed {
            opened = compact::with_proposed_overlays(&run, &opened).await?;
        }
        let applied = setup.planner.run_profile(&config, &next, request.selection, &opened, wait).await?;
        if let ProfileOutcome::Done(_, result) = &applied {
            remaining.view = Some(result.tokens_after).filter(|_| result.wait.is_none());
            would_ask |= result.would_ask();
        }
        fallback = Some(always_report(name, applied, &mut text));
    }
    let mut still_due = None;
    // A dry run does not know the size of a model's summary.
    if let Some(view) = remaining.view.filter(|_| remaining.is_too_large() && !would_ask) {
        let mut has_summary = setup.planner.writes_summary(&planned).await?;
        if let Some(next) = &next {
            has_summary |= setup.planner.writes_summary(next).await?;
        }
        let remedy = if has_summary {
            ""
        } else {
            ", and no summary is enabled; set `conversation.compaction.auto.fallback_profile` to a profile with a \
             summary, such as `auto-summarize`"
        };
        still_due = Some(format!(
            "still too large: the view has {}{} tokens, more than {}{remedy}",
            estimate_prefix(estimator),
            grouped(view),
            grouped(remaining.threshold)
        ));
    }
    let document = AutoReport {
        path: opened.place.path().to_string_lossy().into_owned(),
        conversation_id: opened.place.id().map(str::to_owned),
        profile: profile.name.clone(),
        estimator: estimator.name().to_owned(),
        always,
        due,
        reason: explanation,
        trigger,
        report,
        wait: waits,
        warning,
        fallback,
        still_due,
    };
    Ok((document, text.lines))
}

/// The view after the profile, compared with the limit.
struct Remaining {
    /// The tokens of the view. `None` if nothing is due, or if a compaction waits.
    view: Option<u64>,
    threshold: u64,
}

impl Remaining {
    fn measure(&mut self, opened: &compact::Opened, estimator: Estimator) {
        let survey = Survey::with_estimator(&opened.stream, estimator);
        self.view = Some(survey.estimate.view_tokens(&survey.view));
    }

    fn is_too_large(&self) -> bool {
        self.view.is_some_and(|view| view > self.threshold)
    }
}

/// The text about one transcript. Lines that are added here begin with its path.
struct TranscriptText {
    path: String,
    lines: EscapedLines,
}

impl TranscriptText {
    fn new(path: &Path, environment: &Environment) -> Self {
        Self { path: relative_path(path, environment), lines: EscapedLines::new() }
    }

    fn add_line(&mut self, line: &str) {
        self.lines.line(format_args!("{}: {line}", self.path));
    }

    /// Adds a warning about a value that is assumed.
    fn add_assumption(&mut self, warning: &str) {
        self.lines.line(format_args!("warning: {}: {warning}", self.path));
    }

    /// Adds a failure that does not fail the command. `effect` is its effect on the transcript.
    fn add_warning(&mut self, effect: &str, failure: &Report) {
        self.lines.append(&failure.text_after(&format!("warning: {}: {effect}: ", self.path)));
    }

    fn add_reduction(&mut self, profile: &str, report: &compact::RunReport, run: &RunSettings) {
        if let Some(line) = reduction(profile, report, run) {
            self.add_line(&line);
        }
    }
}

/// Returns the report of a profile of `auto.always`, or of the fallback profile.
fn always_report(profile: &str, applied: ProfileOutcome, text: &mut TranscriptText) -> AlwaysReport {
    let mut document = AlwaysReport { profile: profile.to_owned(), report: None, warning: None };
    match applied {
        ProfileOutcome::Nothing => {}
        ProfileOutcome::Failed(error) => {
            let failure = Report::from(*error);
            text.add_warning(&format!("profile `{profile}` changed nothing"), &failure);
            document.warning = Some(failure.document());
        }
        ProfileOutcome::Done(run, report) => {
            text.add_reduction(profile, &report, &run);
            document.report = Some(compaction::document(&report, &run));
        }
    }
    document
}

/// Returns the warning that a transcript was skipped because its context window is unknown, or that it is still too
/// large. It is not in the text of [`compact_if_due`], because `auto` prints it even with `--quiet`.
pub(crate) fn limit_warning(report: &AutoReport, environment: &Environment) -> Option<String> {
    let is_unknown = report.trigger.result == TriggerResult::UnknownWindow;
    let reason = if is_unknown { Some(&report.reason) } else { report.still_due.as_ref() };
    reason.map(|reason| format!("{}: {reason}", relative_path(Path::new(&report.path), environment)))
}
