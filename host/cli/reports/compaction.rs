//! The report of a run on one transcript, as a document and as text.

use jp_compact_engine::compact::{
    self, OnLowSaving, PreparedStrategy, RunSettings, Step, StrategyOutcome, TurnChange,
};
use jp_compact_reports::{cache_cost, lost_paths};
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{
    ChangedTurn, CompactionReport, DeclineReport, DiagnosticReport, LogReport, WouldReport,
};
use jp_compact_transcripts::Format;

use crate::human::{counted, grouped, overlay_range, relative_path};
use crate::lines::{EscapedLines, LISTED_MAX};
use jp_compact_reports::sent_tokens;

/// Returns the report as a document.
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
        cache_cost: report.cache_cost.clone(),
        lost_paths: report.lost_paths.clone(),
        restored_tokens: report.restored_tokens(),
        overlays: Vec::new(),
        declines: Vec::new(),
        would: Vec::new(),
        diagnostics: Vec::new(),
        logs: Vec::new(),
        turns: report.changed_turns.iter().map(changed_turn).collect(),
        tier: tier.map(|tier| tier.to_string()),
        nothing: report.nothing_to_compact.map(|nothing| nothing.to_string()),
        notes: notes(report, run),
    };
    for (step, ready) in report.steps.iter().zip(&run.strategies) {
        add_step(&mut document, step, ready);
    }
    document
}

fn changed_turn(&TurnChange { turn, before, after }: &TurnChange) -> ChangedTurn {
    ChangedTurn { turn, view_before: before, view_after: after }
}

/// Adds the result of a strategy.
fn add_step(document: &mut CompactionReport, step: &Step, ready: &PreparedStrategy) {
    let (strategy, version) = (&step.strategy, &step.version);
    match &step.outcome {
        StrategyOutcome::NewOverlays(overlays) => {
            document.overlays.extend(overlays.iter().map(|made| compact::overlay_report(made, step, ready)));
        }
        StrategyOutcome::WouldAsk(request) => document.would.push(WouldReport {
            strategy: strategy.clone(),
            version: version.clone(),
            request: request.clone(),
        }),
        StrategyOutcome::AlreadyExists(_) => {}
        StrategyOutcome::Declined(reason) => document.declines.push(DeclineReport {
            strategy: strategy.clone(),
            version: version.clone(),
            reason: reason.clone(),
        }),
    }
    document.diagnostics.extend(
        step.diagnostics
            .iter()
            .map(|diagnostic| DiagnosticReport { strategy: strategy.clone(), found: diagnostic.clone() }),
    );
    document.logs.extend(step.logs.iter().map(|(level, message)| LogReport {
        strategy: strategy.clone(),
        level: *level,
        message: message.clone(),
    }));
}

/// Returns the name of a level or severity in lower case.
fn lower_case(variant: &impl std::fmt::Debug) -> String {
    format!("{variant:?}").to_lowercase()
}

/// Returns the notes about ranges, violated rules, and a low saving.
fn notes(report: &compact::RunReport, run: &RunSettings) -> Vec<String> {
    let mut notes: Vec<_> = report.notes.iter().map(ToString::to_string).collect();
    notes.extend(report.restore_notes(run.io.dry_run));
    notes.extend(
        report.introduced_violations.iter().map(|violation| format!("the view now violates {violation}")),
    );
    if let [first, others @ ..] = report.existing_violations.as_slice() {
        let count = if others.is_empty() { String::new() } else { format!(" (and {} more)", others.len()) };
        notes.push(format!("the view still violates {first}{count}; `jp-compact lint` lists all violations"));
    }
    if let (Some(saved), OnLowSaving::Warn, 0) =
        (report.low_saving, run.policy.on_low_saving, report.restored_tokens())
    {
        notes.push(low_saving_note(saved, run));
    }
    notes
}

fn low_saving_note(saved: f64, run: &RunSettings) -> String {
    if saved > 0.0 {
        let verb = if run.io.dry_run { "would shrink" } else { "shrank" };
        let (saved, minimum) = (saved * 100.0, compact::percent_of(run.limits.min_saving));
        return format!("the view {verb} by only {saved:.1} %, less than {minimum} % (min_saving)");
    }
    if run.io.dry_run {
        "the view would not shrink".to_owned()
    } else {
        "the view did not shrink; `--reset=N` removes overlay N".to_owned()
    }
}

/// Returns the report as text.
pub(crate) fn text(
    report: &compact::RunReport,
    run: &RunSettings,
    environment: &Environment,
) -> EscapedLines {
    if let Some(nothing) = report.nothing_to_compact {
        let path = relative_path(&report.path, environment);
        return EscapedLines::single(format_args!("{path}: {nothing}"));
    }
    let mut lines = EscapedLines::single(headline(report, run, environment));
    lines.append(&outcome_text(report, run));
    lines
}

/// Returns the results of the strategies, and the sizes of the view.
pub(crate) fn outcome_text(report: &compact::RunReport, run: &RunSettings) -> EscapedLines {
    let mut lines = EscapedLines::new();
    for step in &report.steps {
        add_step_text(&mut lines, step, report.format);
    }
    lines.list("  ", notes(report, run).iter().map(|note| format!("  note: {note}")));
    if run.io.dry_run {
        let changed = report.changed_turns.iter().map(|TurnChange { turn, before, after }| {
            format!("  turn {turn}: {} -> {} tokens", grouped(*before), grouped(*after))
        });
        lines.list("  ", changed);
    }
    sent_tokens::run_text(report, run).iter().for_each(|line| lines.line(format_args!("  {line}")));
    if let Some(cost) = &report.cache_cost {
        lines.line(format_args!("  {}", cache_cost::line(cost, run.io.dry_run)));
    }
    // The suggested command strips reasoning if this run would do so.
    let strips_reasoning =
        run.io.dry_run && report.new_overlays().any(|(_, new)| new.overlay.reasoning.is_some());
    let inline = if strips_reasoning { "r+" } else { "" };
    let paths = report.lost_paths.as_ref();
    if let Some(line) = paths.and_then(|paths| lost_paths::line(paths, run.io.dry_run, inline)) {
        lines.line(format_args!("  {line}"));
    }
    lines
}

/// Returns the number of new overlays, and the file that they are appended to.
fn headline(report: &compact::RunReport, run: &RunSettings, environment: &Environment) -> String {
    let path = relative_path(&report.path, environment);
    let overlays = report.count_new_overlays();
    if overlays == 0 {
        return format!("{path}: nothing to append");
    }
    let verb = if run.io.dry_run { "would be appended" } else { "appended" };
    let count = counted(overlays, "overlay");
    if report.format == Format::Jp {
        return format!("{path}: {count} {verb}");
    }
    format!("{path}: {count} {verb} to {}", relative_path(&report.written_to, environment))
}

/// Adds the result of a strategy, its logs, and its diagnostics.
fn add_step_text(lines: &mut EscapedLines, step: &Step, format: Format) {
    let name = format!("{} {}", step.strategy, step.version);
    match &step.outcome {
        StrategyOutcome::WouldAsk(request) => lines.line(format_args!("  -  {name}  {request}")),
        StrategyOutcome::Declined(reason) => lines.line(format_args!("  -  {name}  declined: {reason}")),
        StrategyOutcome::AlreadyExists(number) => {
            lines.line(format_args!("  -  {name}  already appended: overlay {number}"));
        }
        StrategyOutcome::NewOverlays(overlays) => {
            let entries = overlays.iter().map(|made| {
                let kinds = made.overlay.policy_names().join(", ");
                let is_ignored_by_jp = format == Format::Jp && !made.overlay.applied_by_jp;
                let remark = if is_ignored_by_jp { " (not applied by JP itself)" } else { "" };
                format!("  {}  {name}  {}: {kinds}{remark}", made.number, overlay_range(&made.overlay))
            });
            lines.list("  ", entries);
        }
    }
    for (level, text) in step.logs.iter().take(LISTED_MAX) {
        lines.labeled_wrapped(&format!("     {name}: {}: ", lower_case(level)), "     ", text);
    }
    lines.hidden_count("     ", step.logs.len().saturating_sub(LISTED_MAX));
    let diagnostics = step.diagnostics.iter().map(|diagnostic| {
        let turn = diagnostic.turn.map_or(String::new(), |turn| format!(" in turn {turn}"));
        format!("     {name}: {}{turn}: {}", lower_case(&diagnostic.severity), diagnostic.message)
    });
    lines.list("     ", diagnostics);
}
