//! The frontier: the tokens that each strategy saves against the names that it keeps, and two controls with at most the
//! same number of tokens.

use jp_compact_schema::document::{EvalControl, EvalReport, EvalRow};
use maud::{Markup, html};

use crate::chart::{Axes, ChartDot, ChartLine, dots};
use crate::frame::figure;
use crate::rows::{pooled_recall, strategies};

pub(crate) fn section(report: &EvalReport) -> Markup {
    let points: Vec<ChartDot> = strategies(report)
        .filter_map(|(index, row)| {
            let y = pooled_recall(&row.recall)?;
            Some(ChartDot { x: row.saved.percent, y, label: index.to_string() })
        })
        .collect();
    let controls = [
        ChartLine { points: control_line(report, |row| row.controls.newest), label: "newest".into() },
        ChartLine { points: control_line(report, |row| row.controls.random), label: "random".into() },
    ];
    let lowest = points.iter().map(|dot| dot.x).fold(0.0, f64::min);
    let axes =
        Axes { x: "tokens saved, %", y: "names kept, %", x_range: (lowest, 100.0), y_range: (0.0, 100.0) };
    let caption = html! {
        "Each dot is a row of the table, with its number. A dot farther right saves more tokens. A higher dot keeps "
        "more paths, numbers, and identifiers. The dashed lines are the controls: the newest events, and random "
        "events, with at most the same number of tokens. A strategy below them keeps fewer names than such a simple "
        "choice of events."
    };
    match dots(axes, &points, &controls) {
        Some(svg) => {
            figure(&svg, "Tokens saved against names kept, one dot for each row of the table", &caption)
        }
        None => html! { p { "There is not enough data for a chart." } },
    }
}

/// Returns the points of one control over all rows, sorted by the tokens that the control saves.
fn control_line(report: &EvalReport, control: impl Fn(&EvalRow) -> EvalControl) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = strategies(report)
        .filter_map(|(_, row)| {
            let control = control(row);
            let before = row.tokens.view_before.max(1) as f64;
            Some((100.0 * (1.0 - control.tokens as f64 / before), pooled_recall(&control.recall)?))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}
