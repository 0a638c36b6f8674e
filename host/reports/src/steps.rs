//! The steps of a conversation, turn by turn.

use std::collections::BTreeMap;

use jp_compact_core::estimate::Estimator;
use jp_compact_core::estimate::tokens;
use jp_compact_core::event::Kind;
use jp_compact_core::{Position, Stream, Survey, open};

use jp_compact_terminal::lines::EscapedLines;
use jp_compact_terminal::numbers::{counted, grouped};

#[derive(Default)]
struct StepRow {
    weight: u64,
    /// The number of calls of each tool.
    calls: BTreeMap<String, usize>,
}

/// Returns the steps as text.
pub fn text(stream: &Stream, estimator: Estimator) -> EscapedLines {
    let survey = Survey::with_estimator(stream, estimator);
    let last_turn = stream.turns().saturating_sub(1);
    // Only the last turn can have open steps.
    let closed_steps = open::closed_steps(stream, &survey.pairs);
    let mut text = EscapedLines::new();
    for (turn, rows) in rows_by_turn(&survey).iter().enumerate() {
        text.line(format_args!("turn {turn}: {}", counted(rows.len(), "step")));
        for (step, row) in rows.iter().enumerate() {
            let is_open = turn == last_turn && step >= closed_steps;
            let mark = if is_open { "  open" } else { "" };
            let (position, tokens) = (Position::step(turn, step), grouped(tokens(row.weight)));
            let line = format!("  {position}  {tokens} tokens  {}{mark}", row.call_list());
            text.line(line.trim_end());
        }
    }
    text
}

impl StepRow {
    /// Returns the names of the tools. A number follows if a tool was called more than once.
    fn call_list(&self) -> String {
        let calls = self.calls.iter().map(|(tool, count)| match count {
            1 => tool.clone(),
            count => format!("{tool} ({count})"),
        });
        calls.collect::<Vec<_>>().join(", ")
    }
}

fn rows_by_turn(survey: &Survey<'_>) -> Vec<Vec<StepRow>> {
    let stream = survey.stream;
    let steps = stream.steps();
    let empty_rows = |turn| (0..steps.count(turn)).map(|_| StepRow::default()).collect();
    let mut rows: Vec<Vec<StepRow>> = (0..stream.turns()).map(empty_rows).collect();
    for (element, event) in stream.events().iter().enumerate() {
        if !event.kind.is_conversation() {
            continue;
        }
        let Some(row) = steps.step(element).and_then(|step| rows[event.turn].get_mut(step)) else { continue };
        row.weight += survey.estimate.weight(element);
        if event.kind == Kind::ToolRequest {
            *row.calls.entry(stream.text(event.name).into_owned()).or_default() += 1;
        }
    }
    rows
}
