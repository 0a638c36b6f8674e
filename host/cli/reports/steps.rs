//! The steps of a conversation, turn by turn.

use std::collections::BTreeMap;

use jp_compact_core::estimate::Estimator;
use jp_compact_core::estimate::tokens;
use jp_compact_core::event::Kind;
use jp_compact_core::{Position, Stream, Survey, open};

use crate::human::{counted, grouped};
use crate::lines::EscapedLines;

/// One step.
#[derive(Default)]
struct StepRow {
    weight: u64,
    /// The number of calls of each tool.
    tools: BTreeMap<String, usize>,
}

/// The steps as text.
pub(crate) fn text(stream: &Stream, estimator: Estimator) -> EscapedLines {
    let survey = Survey::with(stream, estimator);
    let rows = rows(&survey);
    let last = stream.turns().saturating_sub(1);
    let closed = open::closed_steps(stream, &survey.pairs);
    let is_closed = |turn: usize, step: usize| turn < last || step < closed;
    let mut text = EscapedLines::new();
    for (turn, rows) in rows.iter().enumerate() {
        text.line(format_args!("turn {turn}: {}", counted(rows.len(), "step")));
        let lines = rows.iter().enumerate().map(|(step, row)| {
            let calls = row.tools.iter().map(|(tool, count)| match count {
                1 => tool.clone(),
                count => format!("{tool} ({count})"),
            });
            let calls: Vec<String> = calls.collect();
            let open = if is_closed(turn, step) { "" } else { "  open" };
            let (at, tokens) = (Position::step(turn, step), grouped(tokens(row.weight)));
            format!("  {at}  {tokens} tokens  {}{open}", calls.join(", ")).trim_end().to_owned()
        });
        lines.for_each(|line| text.line(line));
    }
    text
}

/// Returns the steps of each turn.
fn rows(survey: &Survey<'_>) -> Vec<Vec<StepRow>> {
    let stream = survey.stream;
    let steps = stream.steps();
    let empty = |turn| (0..steps.count(turn)).map(|_| StepRow::default()).collect();
    let mut rows: Vec<Vec<StepRow>> = (0..stream.turns()).map(empty).collect();
    for (element, event) in
        stream.events().iter().enumerate().filter(|(_, event)| event.kind.is_conversation())
    {
        let Some(row) = steps.step(element).and_then(|step| rows[event.turn].get_mut(step)) else { continue };
        row.weight += survey.estimate.weight(element);
        if event.kind == Kind::ToolRequest {
            *row.tools.entry(stream.text(event.name).into_owned()).or_default() += 1;
        }
    }
    rows
}
