//! The report of `eval` as text. No row with numbers must have more than 80 columns.

use jp_compact_eval::{is_fixed_control, recall_of};
use jp_compact_evidence::Class;
use jp_compact_schema::document::{EvalRecallCount, EvalReport, EvalRow, EvalStatus};

use crate::sent_tokens::counting_method;
use jp_compact_terminal::escape;
use jp_compact_terminal::lines::EscapedLines;
use jp_compact_terminal::numbers::{counted, grouped};
use jp_compact_terminal::width::{cut_end, padded};

/// The width of the labels of the rows.
const LABEL_WIDTH: usize = 23;
/// The classes in the table, with their headings.
const COLUMNS: [(Class, &str); 7] = [
    (Class::Path, "path"),
    (Class::Number, "number"),
    (Class::Identifier, "ident."),
    (Class::Word, "word"),
    (Class::Quote, "quote"),
    (Class::Command, "cmd"),
    (Class::Constraint, "constr"),
];

/// Returns the report as text.
pub fn text(report: &EvalReport) -> EscapedLines {
    let mut text = EscapedLines::new();
    let cuts: usize = report.transcripts.iter().map(|transcript| transcript.cuts).sum();
    let transcripts = counted(report.transcripts.len(), "transcript");
    text.line(format_args!(
        "{transcripts}, {} (tokens: {})",
        counted(cuts, "cut"),
        counting_method(&report.estimator)
    ));
    let mut problems = Vec::new();
    for transcript in &report.transcripts {
        if let Some(reason) = &transcript.not_enough_data {
            problems.push(format!("  not enough data in {}: {reason}", transcript.path));
        }
        if let Some(error) = &transcript.error {
            problems.push(format!("  failed: {}: {}", transcript.path, error.message));
        }
    }
    text.list("  ", problems.iter());
    if cuts == 0 {
        text.line("not enough data: no transcript has a cut point");
    }
    table(report, &mut text);
    let rows = report.strategies.iter().filter(|row| !is_fixed_control(row));
    for row in rows.filter(|row| row.status == EvalStatus::Ok) {
        details(row, report, &mut text);
    }
    for gate in &report.gates {
        text.line("");
        text.line(format_args!("{}: {}", gate.gate, if gate.met { "met" } else { "not met" }));
        for failure in &gate.failures {
            text.line(format_args!("  {}: {}", failure.strategy, failure.reason));
        }
    }
    text
}

fn table(report: &EvalReport, text: &mut EscapedLines) {
    let headings: String = COLUMNS.map(|(_, heading)| format!(" {heading:>6}")).concat();
    text.line("");
    text.line(format_args!("{:LABEL_WIDTH$} {:>6}{headings}", "kept / at risk, in %", "saved"));
    for row in &report.strategies {
        let name = label(row);
        match row.status {
            EvalStatus::Ok => {
                let recalls = COLUMNS.map(|(class, _)| {
                    let percent = recall_of(&row.recall, class).percent;
                    format!(
                        " {:>6}",
                        percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1}"))
                    )
                });
                let saved = row.saved.percent;
                text.line(format_args!("{name} {saved:>6.1}{}", recalls.concat()));
            }
            EvalStatus::NotEnoughData => text.line(format_args!("{name} not enough data")),
            EvalStatus::Failed => {
                let message = row.error.as_ref().map_or("", |error| error.message.as_str());
                text.line(format_args!("{name} failed: {message}"));
            }
        }
    }
    text.line(format_args!("`-`: fewer than {} at risk", report.at_risk_min));
}

/// Returns the label of a row in its column. A long label loses its end.
fn label(row: &EvalRow) -> String {
    padded(&cut_end(&escape::line(&row.label), LABEL_WIDTH, '~'), LABEL_WIDTH)
}

fn details(row: &EvalRow, report: &EvalReport, text: &mut EscapedLines) {
    text.line("");
    text.line(&row.label);
    let tokens = &row.tokens;
    let (before, after) = (grouped(tokens.view_before), grouped(tokens.view_after));
    text.line(format_args!("  tokens      {before} to {after}, {:.1} % saved", row.saved.percent));
    for class in Class::ALL {
        let count = recall_of(&row.recall, class);
        if count.at_risk > 0 {
            let newest = recall_of(&row.controls.newest.recall, class);
            let random = recall_of(&row.controls.random.recall, class);
            text.line(format_args!("  {:<11} {}", class.as_str(), recall_line(count, newest, random)));
        }
    }
    let names = row.cache.families.iter().map(|cost| match cost.break_even_requests {
        Some(requests) => format!("{} {requests}", cost.family),
        None => format!("{} never", cost.family),
    });
    text.line(format_args!("  pays back (requests) {}", names.collect::<Vec<_>>().join(", ")));
    if let Some(replay) = &row.replay {
        text.line(format_args!(
            "  replay      cost {:.0}, largest context {}, {}, {} above {}",
            replay.cost,
            grouped(replay.largest_context),
            counted(replay.compactions, "compaction"),
            replay.above_window,
            grouped(report.window)
        ));
    }
    for round in &row.rounds {
        let classes = [Class::Path, Class::Number, Class::Identifier].map(|class| {
            let percent = recall_of(&round.recall, class).percent;
            let percent = percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1}"));
            format!("{} {percent}", class.as_str())
        });
        text.line(format_args!("  {:>2} rounds   {}", round.n, classes.join(", ")));
    }
    if row.declines > 0 {
        let declines = counted(row.declines, "cut");
        text.line(format_args!("  declined    at {declines}: {}", row.decline_reasons.join("; ")));
    }
    if row.rules_broken > 0 {
        text.line(format_args!("  violations  {} of providers' rules", row.rules_broken));
    }
    if let Some(milliseconds) = row.milliseconds {
        text.line(format_args!("  time        {milliseconds} ms"));
    }
}

/// Returns the counts of a class, its interval, and the controls of the same size.
fn recall_line(count: &EvalRecallCount, newest: &EvalRecallCount, random: &EvalRecallCount) -> String {
    let counts = format!("{} of {}", grouped(count.kept), grouped(count.at_risk));
    let (Some(percent), Some([low, high])) = (count.percent, count.interval) else {
        return format!("{counts}, not enough data");
    };
    let control = |count: &EvalRecallCount| count.percent.unwrap_or_default();
    let controls = format!("newest {:.1}, random {:.1}", control(newest), control(random));
    format!("{counts:<15} {percent:>5.1} % [{low:.1}, {high:.1}]  {controls}")
}
