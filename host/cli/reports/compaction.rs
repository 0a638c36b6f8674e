//! The report of a run on one transcript, as a line of JSON and as text.

use jp_compact_engine::compact::{self, Changed, OnLowSaving, RunSettings, StrategyOutcome};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Tier;
use jp_compact_transcripts::Format;
use serde_json::{Value, json};

use super::sent_tokens;
use crate::human::{counted, grouped, short, turns};
use crate::lines::EscapedLines;

/// The report as JSON.
pub(crate) fn json(report: &compact::RunReport, run: &RunSettings) -> Value {
    let tier = run.strategies.iter().map(|ready| ready.described.confined.tier()).min();
    let mut overlays = Vec::new();
    let (mut declines, mut would) = (Vec::new(), Vec::new());
    for step in &report.steps {
        match &step.outcome {
            StrategyOutcome::Made(made) => overlays.extend(made.iter().map(|made| {
                json!({
                    "number": made.number,
                    "from_turn": made.overlay.from_turn,
                    "to_turn": made.overlay.to_turn,
                    "kinds": made.overlay.kinds(),
                    "strategy": step.strategy,
                    "version": step.version,
                    "applied_by_jp": made.overlay.applied_by_jp,
                })
            })),
            StrategyOutcome::Would(what) => {
                would.push(json!({ "strategy": step.strategy, "version": step.version, "what": what }));
            }
            StrategyOutcome::Already(_) => {}
            StrategyOutcome::Declined(reason) => {
                declines
                    .push(json!({ "strategy": step.strategy, "version": step.version, "reason": reason }));
            }
        }
    }
    let diagnostics: Vec<_> = report
        .steps
        .iter()
        .flat_map(|step| {
            step.diagnostics.iter().map(|found| json!({ "strategy": step.strategy, "found": found }))
        })
        .collect();
    let logs: Vec<_> = report
        .steps
        .iter()
        .flat_map(|step| {
            let strategy = &step.strategy;
            step.logs.iter().map(
                move |(level, message)| json!({ "strategy": strategy, "level": level, "message": message }),
            )
        })
        .collect();
    json!({
        "path": report.path.to_string_lossy(),
        "format": report.format.as_str(),
        "written_to": report.written_to.to_string_lossy(),
        "conversation_id": report.id,
        "dry_run": run.io.dry_run,
        "overlays": overlays,
        "declines": declines,
        "would": would,
        "diagnostics": diagnostics,
        "logs": logs,
        "tokens": sent_tokens::run_json(report, run),
        "turns": report.changed.iter().map(|Changed { turn, before, after }| {
            json!({ "turn": turn, "before": before, "after": after })
        }).collect::<Vec<_>>(),
        "saved": {
            "tokens": i128::from(report.tokens_before) - i128::from(report.tokens_after),
            "percent": (report.saved() * 1000.0).round() / 10.0,
        },
        "tier": tier.map(Tier::as_str),
        "nothing": report.nothing.map(|nothing| nothing.to_string()),
        "notes": notes(report, run),
    })
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
                    let (from, to) = (made.overlay.from_turn, made.overlay.to_turn);
                    let kinds = made.overlay.kinds().join(", ");
                    let is_jps = report.format == Format::Jp;
                    let theirs = if made.overlay.applied_by_jp || !is_jps {
                        ""
                    } else {
                        " (not applied by JP itself)"
                    };
                    format!("  {}  {name}  {}: {kinds}{theirs}", made.number, turns(from, to))
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
