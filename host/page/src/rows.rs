//! Functions over the rows of a report that several parts of a page use.

use jp_compact_eval::is_fixed_control;
use jp_compact_schema::document::{EvalRecall, EvalReport, EvalRow, EvalStatus};

/// The minimum recall of paths, numbers, and identifiers in a recommended row, in percent.
const RECOMMENDED: [f64; 3] = [95.0, 90.0, 90.0];

/// Returns the rows that have results and are not controls, with their indexes in the report.
pub(crate) fn strategies(report: &EvalReport) -> impl Iterator<Item = (usize, &EvalRow)> {
    let rows = report.strategies.iter().enumerate();
    rows.filter(|(_, row)| row.status == EvalStatus::Ok && !is_fixed_control(row))
}

/// Returns the recommended row: among the rows that keep names, the row that saves most. If there is no such row,
/// returns the row that keeps most. Rows that save no tokens do not count. Returns `None` if no row with enough data
/// saves tokens.
pub(crate) fn best(report: &EvalReport) -> Option<(usize, &EvalRow)> {
    let rows = || strategies(report).filter(|(_, row)| pooled_recall(&row.recall).is_some());
    let most_saved = rows()
        .filter(|(_, row)| keeps_names(&row.recall) && row.saved.tokens > 0)
        .max_by(|(_, a), (_, b)| a.saved.percent.total_cmp(&b.saved.percent));
    most_saved.or_else(|| {
        let recall = |row: &EvalRow| pooled_recall(&row.recall).unwrap_or_default();
        rows()
            .filter(|(_, row)| row.saved.tokens > 0)
            .max_by(|(_, a), (_, b)| recall(a).total_cmp(&recall(b)))
    })
}

/// Returns whether a row has enough data for a recall.
pub(crate) fn has_results(report: &EvalReport) -> bool {
    strategies(report).any(|(_, row)| pooled_recall(&row.recall).is_some())
}

/// Returns whether the recall of each class with enough data reaches the recommended recall.
pub(crate) fn keeps_names(recall: &EvalRecall) -> bool {
    let classes = [recall.path, recall.number, recall.identifier];
    classes
        .into_iter()
        .zip(RECOMMENDED)
        .all(|(class, minimum)| class.percent.is_none_or(|percent| percent >= minimum))
}

/// Returns the recall of paths, numbers, and identifiers together, in percent. `None` if none of them has enough data.
pub(crate) fn pooled_recall(recall: &EvalRecall) -> Option<f64> {
    let classes = [recall.path, recall.number, recall.identifier];
    classes.iter().any(|class| class.percent.is_some()).then(|| {
        let kept: u64 = classes.iter().map(|class| class.kept).sum();
        let at_risk: u64 = classes.iter().map(|class| class.at_risk).sum();
        100.0 * kept as f64 / at_risk.max(1) as f64
    })
}

/// Returns the label of a row, which is the same as on the command line.
pub(crate) fn label(report: &EvalReport, index: usize) -> &str {
    report.strategies.get(index).map_or("", |row| row.label.as_str())
}
