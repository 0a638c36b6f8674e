//! The report of a run on one transcript, as a document and as text.

use jp_compact_engine::compact::{self, Changed, OnLowSaving, Ready, RunSettings, Step, StrategyOutcome};
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{
    ChangedTurn, CompactionReport, DeclineReport, DiagnosticReport, LogReport, WouldReport,
};
use jp_compact_transcripts::Format;

use super::sent_tokens;
use crate::human::{counted, covered, grouped, short};
use crate::lines::EscapedLines;

/// The report as a document.
pub(crate) fn document(report: &compact::RunReport, run: &RunSettings) -> CompactionReport {
    let tier = run.strategies.iter().map(|ready| ready.described.confined.tier()).min();
    let tokens = report.tokens();
    let mut document = CompactionReport {
        path: report.path.to_string_lossy().into_owned(),
        format: report.format.to_string(),
        written_to: report.written_to.to_string_lossy().into_owned(),
        conversation_id: report.id.clone(),
        dry_run: run.io.dry_run,
        estimator: run.io.estimator.name().to_owned(),
        tokens,
        saved: tokens.saved_of_view(),
        overlays: Vec::new(),
        declines: Vec::new(),
        would: Vec::new(),
        diagnostics: Vec::new(),
        logs: Vec::new(),
        turns: report.changed.iter().map(changed).collect(),
        tier: tier.map(|tier| tier.to_string()),
        nothing: report.nothing.map(|nothing| nothing.to_string()),
        notes: notes(report, run),
    };
    for (step, ready) in report.steps.iter().zip(&run.strategies) {
        add(&mut document, step, ready);
    }
    document
}

fn changed(&Changed { turn, before, after }: &Changed) -> ChangedTurn {
    ChangedTurn { turn, view_before: before, view_after: after }
}

/// Adds the result of a strategy.
fn add(document: &mut CompactionReport, step: &Step, ready: &Ready) {
    let (strategy, version) = (&step.strategy, &step.version);
    match &step.outcome {
        StrategyOutcome::Made(made) => {
            document.overlays.extend(made.iter().map(|made| compact::overlay(made, step, ready)));
        }
        StrategyOutcome::Would(what) => document.would.push(WouldReport {
            strategy: strategy.clone(),
            version: version.clone(),
            what: what.clone(),
        }),
        StrategyOutcome::Already(_) => {}
        StrategyOutcome::Declined(reason) => document.declines.push(DeclineReport {
            strategy: strategy.clone(),
            version: version.clone(),
            reason: reason.clone(),
        }),
    }
    document.diagnostics.extend(
        step.diagnostics
            .iter()
            .map(|found| DiagnosticReport { strategy: strategy.clone(), found: found.clone() }),
    );
    document.logs.extend(step.logs.iter().map(|(level, message)| LogReport {
        strategy: strategy.clone(),
        level: *level,
        message: message.clone(),
    }));
}

/// The name of a level or severity in lower case.
fn word(variant: &impl std::fmt::Debug) -> String {
    format!("{variant:?}").to_lowercase()
}

/// The notes about ranges, violated rules, and a low saving.
fn notes(report: &compact::RunReport, run: &RunSettings) -> Vec<String> {
    let mut notes: Vec<_> = report.notes.iter().map(ToString::to_string).collect();
    notes.extend(report.broken.iter().map(|broken| format!("the view now violates {broken}")));
    if let [first, more @ ..] = report.broken_before.as_slice() {
        let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
        notes.push(format!("the view still violates {first}{more}; `jp-compact lint` lists all violations"));
    }
    if let Some(saved) = report.low_saving {
        let least = run.limits.min_saving * 100.0;
        let (became, did_not) = if run.io.dry_run {
            ("would shrink", "would not shrink")
        } else {
            ("shrank", "did not shrink; `--reset=N` removes overlay N")
        };
        notes.push(match run.policy.on_low_saving {
            OnLowSaving::Decline => return notes,
            OnLowSaving::Warn if saved > 0.0 => {
                format!("the view {became} by only {:.1} %, less than {least} % (min_saving)", saved * 100.0)
            }
            OnLowSaving::Warn => format!("the view {did_not}"),
        });
    }
    notes
}

/// The report as text.
pub(crate) fn text(
    report: &compact::RunReport,
    run: &RunSettings,
    environment: &Environment,
) -> EscapedLines {
    let path = short(&report.path, environment);
    if let Some(nothing) = report.nothing {
        return EscapedLines::single(format_args!("{path}: {nothing}"));
    }
    let made: usize = report
        .steps
        .iter()
        .map(|step| if let StrategyOutcome::Made(made) = &step.outcome { made.len() } else { 0 })
        .sum();
    let verb = if run.io.dry_run { "would be appended" } else { "appended" };
    let mut lines = EscapedLines::single(match made {
        0 => format!("{path}: nothing to append"),
        made if report.format == Format::Jp => format!("{path}: {} {verb}", counted(made, "overlay")),
        made => {
            let sidecar_path = short(&report.written_to, environment);
            format!("{path}: {} {verb} to {sidecar_path}", counted(made, "overlay"))
        }
    });
    for step in &report.steps {
        let name = format!("{} {}", step.strategy, step.version);
        match &step.outcome {
            StrategyOutcome::Would(what) => lines.line(format_args!("  -  {name}  {what}")),
            StrategyOutcome::Declined(reason) => lines.line(format_args!("  -  {name}  declined: {reason}")),
            StrategyOutcome::Already(number) => {
                lines.line(format_args!("  -  {name}  already appended: overlay {number}"));
            }
            StrategyOutcome::Made(made) => lines.list(
                "  ",
                made.iter().map(|made| {
                    let kinds = made.overlay.kinds().join(", ");
                    let is_jps = report.format == Format::Jp;
                    let theirs = if made.overlay.applied_by_jp || !is_jps {
                        ""
                    } else {
                        " (not applied by JP itself)"
                    };
                    format!("  {}  {name}  {}: {kinds}{theirs}", made.number, covered(&made.overlay))
                }),
            ),
        }
        let logs = step.logs.iter().map(|(level, text)| format!("     {name}: {}: {text}", word(level)));
        lines.list("     ", logs);
        let diagnostics = step.diagnostics.iter().map(|found| {
            let turn = found.turn.map_or(String::new(), |turn| format!(" in turn {turn}"));
            format!("     {name}: {}{turn}: {}", word(&found.severity), found.message)
        });
        lines.list("     ", diagnostics);
    }
    lines.list("  ", notes(report, run).iter().map(|note| format!("  note: {note}")));
    if run.io.dry_run {
        let changed = report.changed.iter().map(|Changed { turn, before, after }| {
            format!("  turn {turn}: {} -> {} tokens", grouped(*before), grouped(*after))
        });
        lines.list("  ", changed);
    }
    sent_tokens::run_text(report, run).iter().for_each(|line| lines.line(format_args!("  {line}")));
    lines
}
