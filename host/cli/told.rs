//! What a run did to a transcript, as a line of JSON and as people read it.

use jp_compact_core::formats::Format;
use jp_compact_engine::compact::{self, Changed, OnLowSaving, Outcome, Run};
use jp_compact_engine::environment::Environment;
use jp_compact_engine::jail::Tier;
use serde_json::{Value, json};

use crate::commands::{counted, grouped, short, turns};
use crate::lines::Lines;
use crate::sent;

/// One line of JSON: what was made, what was declined, what it saves.
pub(crate) fn as_json(report: &compact::Report, run: &Run) -> Value {
    let tier = run.strategies.iter().map(|ready| ready.described.confined.tier()).min();
    let mut overlays = Vec::new();
    let (mut declines, mut would) = (Vec::new(), Vec::new());
    for step in &report.steps {
        match &step.outcome {
            Outcome::Made(made) => overlays.extend(made.iter().map(|made| {
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
            Outcome::Would(what) => {
                would.push(json!({ "strategy": step.strategy, "version": step.version, "what": what }));
            }
            Outcome::Already(_) => {}
            Outcome::Declined(reason) => {
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
        "dry_run": run.dry_run,
        "overlays": overlays,
        "declines": declines,
        "would": would,
        "diagnostics": diagnostics,
        "logs": logs,
        "tokens": sent::run_json(report, run),
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

/// A level or a severity as people read it.
fn word(variant: &impl std::fmt::Debug) -> String {
    format!("{variant:?}").to_lowercase()
}

/// What has to be said of ranges, of the view's rules, and of what little is saved.
fn notes(report: &compact::Report, run: &Run) -> Vec<String> {
    let mut notes: Vec<_> = report.notes.iter().map(ToString::to_string).collect();
    notes.extend(report.broken.iter().map(|broken| format!("the view now breaks {broken}")));
    if let [first, more @ ..] = report.broken_before.as_slice() {
        let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
        notes.push(format!("the view breaks {first}{more}, as it did before; `jp-compact lint` lists all"));
    }
    if let Some(saved) = report.low_saving {
        let least = run.min_saving * 100.0;
        let (became, did_not) = if run.dry_run {
            ("would become", "would not become smaller")
        } else {
            ("became", "did not become smaller; `--reset=N` removes overlay N again")
        };
        notes.push(match run.on_low_saving {
            OnLowSaving::Decline => return notes,
            OnLowSaving::Warn if saved > 0.0 => {
                format!("the view {became} smaller by {:.1} %, and {least} % is worth it", saved * 100.0)
            }
            OnLowSaving::Warn => format!("the view {did_not}"),
        });
    }
    notes
}

pub(crate) fn as_text(report: &compact::Report, run: &Run, environment: &Environment) -> Lines {
    let path = short(&report.path, environment);
    if let Some(nothing) = report.nothing {
        return Lines::of(format_args!("{path}: {nothing}"));
    }
    let made: usize = report
        .steps
        .iter()
        .map(|step| if let Outcome::Made(made) = &step.outcome { made.len() } else { 0 })
        .sum();
    let verb = if run.dry_run { "would be appended" } else { "appended" };
    let mut lines = Lines::of(match made {
        0 => format!("{path}: nothing to append"),
        made if report.format == Format::Jp => format!("{path}: {} {verb}", counted(made, "overlay")),
        made => {
            let beside = short(&report.written_to, environment);
            format!("{path}: {} {verb} to {beside}", counted(made, "overlay"))
        }
    });
    for step in &report.steps {
        let name = format!("{} {}", step.strategy, step.version);
        match &step.outcome {
            Outcome::Would(what) => lines.line(format_args!("  -  {name}  {what}")),
            Outcome::Declined(reason) => lines.line(format_args!("  -  {name}  declined: {reason}")),
            Outcome::Already(number) => {
                lines.line(format_args!("  -  {name}  is there already: overlay {number}"));
            }
            Outcome::Made(made) => lines.list(
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
    if run.dry_run {
        let changed = report.changed.iter().map(|Changed { turn, before, after }| {
            format!("  turn {turn}: {} -> {} tokens", grouped(*before), grouped(*after))
        });
        lines.list("  ", changed);
    }
    sent::run_text(report, run).iter().for_each(|line| lines.line(format_args!("  {line}")));
    lines
}
