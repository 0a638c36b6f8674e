//! The page of `eval`: one sentence, the table, the frontier, the ribbons, the lost texts, the cost, and the rounds.

use jp_compact_eval::Evaluation;
use jp_compact_schema::document::{EvalRecallCount, EvalReport, EvalRow, EvalStatus};
use maud::{Markup, html};

use crate::figure::{break_even, decimal, percent, whole};
use crate::frame::{Section, page, scrollable};
use crate::rows::{best, has_results, keeps_names, label};
use crate::{Texts, cost, frontier, lost, ribbons};

/// Makes the page of an evaluation. `evaluation.cuts` has the data of the ribbons.
#[must_use]
pub fn eval_page(evaluation: &Evaluation, texts: Texts) -> String {
    let report = &evaluation.report;
    let best = best(report);
    let mut sections = vec![
        Section { id: "result", title: "Result", content: result(report, best, texts) },
        Section { id: "frontier", title: "Saved and kept", content: frontier::section(report) },
    ];
    if let Some((index, _)) = best {
        let content = ribbons::section(report, &evaluation.cuts, index);
        sections.push(Section { id: "conversation", title: "The conversation", content });
        let content = lost::section(report, &evaluation.cuts, index, texts);
        sections.push(Section { id: "lost", title: "What is missing", content });
    }
    if let Some(best) = best {
        sections.push(Section { id: "cost", title: "Cost", content: cost::cost_section(report, best) });
    }
    if let Some(content) = cost::rounds_section(report) {
        sections.push(Section { id: "rounds", title: "Compacted again and again", content });
    }
    let count = report.transcripts.len();
    let heading = format!("Evaluation of {count} transcript{}", if count == 1 { "" } else { "s" });
    page(&heading, &sections)
}

fn result(report: &EvalReport, best: Option<(usize, &EvalRow)>, texts: Texts) -> Markup {
    html! {
        @match best {
            Some((index, row)) => (sentence(report, index, row)),
            None if has_results(report) => p.lead { "No strategy with enough data saves tokens." },
            None => p.lead { "There is not enough data for a result. " (reasons(report)) },
        }
        (scrollable("All rows", &table(report, texts)))
        p.muted {
            "Of the texts that were used again after the cut, recall is the part that the view still has. It is an upper "
            "bound: a model may overlook a text that the view has. A dash for a recall means that fewer than "
            (whole("at_risk_min", report.at_risk_min)) " texts were at risk. " (crate::text::token_note(&report.estimator))
        }
        (gates(report))
    }
}

fn sentence(report: &EvalReport, index: usize, row: &EvalRow) -> Markup {
    let key = |part: &str| format!("strategies.{index}.{part}");
    html! {
        p.lead {
            code { (label(report, index)) } " saves " (percent(&key("saved.percent"), Some(row.saved.percent)))
            @if row.recall.path.percent.is_some() {
                ", keeps " (percent(&key("recall.path.percent"), row.recall.path.percent)) " of the paths that were needed later"
            }
            @if row.cache.break_even_requests.is_some() {
                ", and pays back after " (decimal(&key("cache.break_even_requests"), row.cache.break_even_requests)) " requests"
            } @else { ", and never pays back in the cache" }
            "."
        }
        p {
            @if keeps_names(&row.recall) {
                "Of the rows that keep 95 % of the paths and 90 % of the numbers and identifiers, this one saves most."
            } @else {
                "No row that saves tokens keeps 95 % of the paths and 90 % of the numbers and identifiers. "
                "Of the rows that save tokens, this one keeps most of them."
            }
        }
    }
}

/// Returns the reasons why transcripts have no cut.
fn reasons(report: &EvalReport) -> Markup {
    html! {
        ul {
            @for transcript in &report.transcripts {
                @if let Some(reason) = &transcript.not_enough_data { li { (transcript.path) ": " (reason) } }
                @if let Some(error) = &transcript.error { li { (transcript.path) ": " (error.message) } }
            }
        }
    }
}

fn table(report: &EvalReport, texts: Texts) -> Markup {
    html! {
        table.wide {
            thead {
                tr {
                    th.n { "row" } th { "strategy" } th.n { "saved" } th.n { "paths" } th.n { "numbers" }
                    th.n { "identifiers" } th.n { "words" } th.n { "commands" } th.n { "errors" } th.n { "quotes" }
                    th.n { "constraints" } th.n { "break-even" } th.n { "replay" } th.n { "rules broken" }
                }
            }
            tbody { @for (index, row) in report.strategies.iter().enumerate() { (table_row(report, index, row, texts)) } }
        }
    }
}

fn table_row(report: &EvalReport, index: usize, row: &EvalRow, texts: Texts) -> Markup {
    let key = |part: &str| format!("strategies.{index}.{part}");
    let recall = &row.recall;
    let classes: [(&str, EvalRecallCount); 8] = [
        ("path", recall.path),
        ("number", recall.number),
        ("identifier", recall.identifier),
        ("word", recall.word),
        ("command", recall.command),
        ("error", recall.error),
        ("quote", recall.quote),
        ("constraint", recall.constraint),
    ];
    html! {
        tr {
            td.n { (index) }
            td { (label(report, index)) }
            @match row.status {
                EvalStatus::Ok => {
                    td.n { (percent(&key("saved.percent"), Some(row.saved.percent))) }
                    @for (name, count) in classes {
                        td.n title={ (count.kept) " of " (count.at_risk) } {
                            (percent(&key(&format!("recall.{name}.percent")), count.percent))
                        }
                    }
                    td.n { (break_even(&key("cache.break_even_requests"), row.cache.break_even_requests)) }
                    td.n { (decimal(&key("replay.cost"), row.replay.map(|replay| replay.cost))) }
                    td.n { (whole(&key("rules_broken"), row.rules_broken as u64)) }
                }
                EvalStatus::NotEnoughData => td colspan="12" { "not enough data" },
                EvalStatus::Failed => td.lost-text colspan="12" {
                    "failed"
                    // The message can have a text of the strategy.
                    @if let Some(error) = row.error.as_ref().filter(|_| texts == Texts::Shown) { ": " (error.message) }
                },
            }
        }
    }
}

fn gates(report: &EvalReport) -> Markup {
    html! {
        @if !report.gates.is_empty() {
            h3 { "Gates" }
            ul {
                @for gate in &report.gates {
                    li {
                        code { (gate.gate) } @if gate.met { ": met" } @else { ": " span.lost-text { "not met" } }
                        @for failure in &gate.failures { "; " (failure.strategy) ": " (failure.reason) }
                    }
                }
            }
        }
    }
}
