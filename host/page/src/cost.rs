//! Two charts with lines: the cost of the next requests with and without a compaction, and the recall over rounds.

use jp_compact_schema::document::{EvalReport, EvalRow};
use maud::{Markup, html};

use crate::chart::{Axes, ChartLine, lines};
use crate::figure::{break_even, decimal};
use crate::frame::{figure, scrollable};
use crate::rows::{label, pooled_recall, strategies};

/// The maximum number of requests that the chart shows.
const REQUESTS_MAX: f64 = 200.0;

/// Returns a chart with two lines, which cross where a compaction has paid for itself, if it does so within the
/// requests that the chart shows. A table of the costs follows.
pub(crate) fn cost_section(report: &EvalReport, (index, row): (usize, &EvalRow)) -> Markup {
    let Some(cost) = row.cache.families.first() else { return html! { p { "There are no prices." } } };
    let requests =
        cost.break_even_requests.map_or(20.0, |requests| (2.0 * requests).clamp(4.0, REQUESTS_MAX));
    let ends = |one_time: f64, per_request: f64| {
        vec![(0.0, one_time), (requests, one_time + requests * per_request)]
    };
    let without = ends(0.0, cost.per_request_before);
    let with = ends(cost.one_time_warm, cost.per_request_after);
    let highest = without[1].1.max(with[1].1).max(1.0);
    let axes = Axes {
        x: "requests after the compaction",
        y: "cost, in tokens of input",
        x_range: (0.0, requests),
        y_range: (0.0, highest),
    };
    let both = [
        ChartLine { points: without, label: "without".into() },
        ChartLine { points: with, label: "with".into() },
    ];
    let name = label(report, index);
    let caption = html! {
        "The cost of " code { (name) } " over all cuts, for the cache of " (cost.family) ". "
        @if cost.break_even_requests.is_some_and(|paid| paid <= requests) {
            "The lines cross where the compaction has paid for itself. "
        }
        "Prices: " (report.prices.source) ", " (report.prices.date)
        @if !report.prices.verified { ", not verified" } "."
    };
    let key = |part: &str, family: usize| format!("strategies.{index}.cache.families.{family}.{part}");
    let table = html! {
        table {
            thead { tr { th { "family" } th.n { "once, warm" } th.n { "once, cold" } th.n { "break-even, requests" } } }
            tbody {
                @for (family, cost) in row.cache.families.iter().enumerate() {
                    tr {
                        td { (cost.family) }
                        td.n { (decimal(&key("one_time_warm", family), Some(cost.one_time_warm))) }
                        td.n { (decimal(&key("one_time_cold", family), Some(cost.one_time_cold))) }
                        td.n { (break_even(&key("break_even_requests", family), cost.break_even_requests)) }
                    }
                }
            }
        }
    };
    html! {
        @if let Some(svg) = lines(axes, &both) { (figure(&svg, "Cost over requests with and without the compaction", &caption)) }
        (scrollable("Cost for each family of models", &table))
    }
}

/// Returns the recall after several compactions. `None` if no row has rounds.
pub(crate) fn rounds_section(report: &EvalReport) -> Option<Markup> {
    let rows: Vec<(usize, &EvalRow)> = strategies(report).filter(|(_, row)| !row.rounds.is_empty()).collect();
    let most = rows.iter().flat_map(|(_, row)| &row.rounds).map(|round| round.n).max()?;
    let series: Vec<ChartLine> = rows
        .iter()
        .map(|(index, row)| {
            let point = |n: usize, recall| Some((n as f64, pooled_recall(recall)?));
            let points = row.rounds.iter().filter_map(|round| point(round.n, &round.recall)).collect();
            ChartLine { points, label: index.to_string() }
        })
        .collect();
    let axes =
        Axes { x: "compactions", y: "names kept, %", x_range: (1.0, most as f64), y_range: (0.0, 100.0) };
    let caption = html! {
        "The recall of paths, numbers, and identifiers together, at the last cut, after several compactions. The "
        "table has the recall of each kind. A flat line means that a conversation can be compacted again and again "
        "without further loss."
    };
    let table = html! {
        table {
            thead { tr { th { "strategy" } th.n { "compactions" } th.n { "paths" } th.n { "numbers" } th.n { "identifiers" } } }
            tbody {
                @for (index, row) in &rows {
                    @for (at, round) in row.rounds.iter().enumerate() {
                        @let key = |class: &str| format!("strategies.{index}.rounds.{at}.recall.{class}.percent");
                        tr {
                            td { (index) " " (label(report, *index)) }
                            td.n { (round.n) }
                            td.n { (decimal(&key("path"), round.recall.path.percent)) }
                            td.n { (decimal(&key("number"), round.recall.number.percent)) }
                            td.n { (decimal(&key("identifier"), round.recall.identifier.percent)) }
                        }
                    }
                }
            }
        }
    };
    Some(html! {
        @if let Some(svg) = lines(axes, &series) { (figure(&svg, "Names kept after several compactions", &caption)) }
        details { summary { "Numbers" } (scrollable("Recall after several compactions", &table)) }
    })
}
