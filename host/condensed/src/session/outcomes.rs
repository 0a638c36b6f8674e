//! The outcome of each event, by the rules of `jp_compact_core::projection`, `jp_compact_core::stale`, and the
//! write-back in `jp_compact_transcripts`.

use jp_compact_core::projection::status_line;

use super::log::{EventRow, RowClass, SessionLog, ToolRow};
use crate::policies::{CallPolicy, TurnPolicy};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Kept,
    Deleted,
    Emptied,
    /// A status line replaces the content.
    Replaced,
}

/// The maximum number of bytes of an escape (`\u0041`) for one byte of text.
const ESCAPE_BYTES_MAX: usize = 6;
/// The maximum size of one character in JSON, as in `\ud83d\ude00`.
const CHARACTER_BYTES_MAX: usize = 12;
/// The size of the two quotes of a JSON string.
const QUOTE_BYTES: usize = 2;

/// The status lines of a tool, for success and for failure.
pub(super) type StatusLines = [String; 2];

/// The status lines of the tools, and the tool of each half of a call: the name in the last request with its id.
pub(super) struct IdTools {
    lines: Vec<StatusLines>,
    tools: Vec<u32>,
}

impl IdTools {
    fn new(log: &SessionLog) -> Self {
        let lines = |tool| [false, true].map(|failed| status_line(log.names.name_of(tool), failed));
        let mut tools = vec![0; log.tools.len()];
        // Sorted, because a map of so many ids would not fit the processor's cache.
        let half = |row: &EventRow| Some((log.tool(row)?.id, row.detail as usize));
        let mut halves: Vec<(u64, usize)> = log.events.iter().filter_map(half).collect();
        halves.sort_unstable();
        for halves in halves.chunk_by(|left, right| left.0 == right.0) {
            let names = halves.iter().rev().map(|(_, half)| log.tools[*half].name);
            let name = names.clone().find(|name| *name != 0).unwrap_or_default();
            halves.iter().for_each(|(_, half)| tools[*half] = name);
        }
        Self { lines: (0..log.names.tools()).map(lines).collect(), tools }
    }

    /// Returns the line that replaces a response.
    pub(super) fn status_line(&self, response: &EventRow, is_error: bool) -> &str {
        &self.lines[self.tools[response.detail as usize] as usize][usize::from(is_error)]
    }
}

/// Returns the outcome of each event. `None` if the log is not enough.
pub(super) fn outcomes(log: &SessionLog, policies: &[TurnPolicy]) -> Option<(Vec<Outcome>, IdTools)> {
    let tools = IdTools::new(log);
    let mut outcomes = Vec::with_capacity(log.len());
    let (mut next_policy, mut policy) = (policies.iter().peekable(), TurnPolicy::default());
    let mut first_changed_turn = None;
    for (turn, row) in log.turns() {
        while let Some(next) = next_policy.next_if(|next| next.from_turn <= turn) {
            policy = *next;
        }
        let outcome = outcome(log, &tools, row, &policy)?;
        if outcome != Outcome::Kept {
            first_changed_turn = first_changed_turn.or(Some(turn));
        }
        outcomes.push(outcome);
    }
    if let Some(first_turn) = first_changed_turn {
        delete_stale_reasoning(log, first_turn, &mut outcomes);
        delete_lone_reasoning(log, &mut outcomes);
    }
    Some((outcomes, tools))
}

fn outcome(log: &SessionLog, tools: &IdTools, row: &EventRow, policy: &TurnPolicy) -> Option<Outcome> {
    if matches!(row.class, RowClass::Reasoning { .. }) && policy.strips_reasoning {
        return Some(Outcome::Deleted);
    }
    let Some(tool) = log.tool(row) else { return Some(Outcome::Kept) };
    let changed = match (policy.calls, row.class) {
        (CallPolicy::Omit, _) => Some(Outcome::Deleted),
        (CallPolicy::Strip { request: true, .. }, RowClass::ToolRequest) => {
            fits(log, tool, "")?.then_some(Outcome::Emptied)
        }
        (CallPolicy::Strip { response: true, .. }, RowClass::ToolResponse { is_error }) => {
            let line = tools.status_line(row, is_error);
            let is_replaced = is_longer_than(row, tool, line)? && fits(log, tool, line)?;
            is_replaced.then_some(Outcome::Replaced)
        }
        _ => None,
    };
    Some(changed.unwrap_or(Outcome::Kept))
}

/// Returns whether `text` can replace the values of a call without making the file larger. `None` if the size of the
/// values is not known.
fn fits(log: &SessionLog, tool: &ToolRow, text: &str) -> Option<bool> {
    let edits = log.edits(tool);
    let new_bytes: usize = edits.iter().map(|edit| (edit.write)(text).len()).sum();
    let raw_bytes: usize = edits.iter().map(|edit| edit.span.range().len()).sum();
    if raw_bytes > ESCAPE_BYTES_MAX * new_bytes {
        return Some(true);
    }
    Some(new_bytes <= tool.compact_bytes? as usize)
}

/// Returns whether a response has an image, or has more characters than `line` and not fewer bytes. `None` if its text
/// is not known.
fn is_longer_than(row: &EventRow, tool: &ToolRow, line: &str) -> Option<bool> {
    let chars = line.chars().count();
    if tool.text.is_some_and(|text| text.has_image)
        || row.body_bytes() > CHARACTER_BYTES_MAX * chars.max(line.len()) + QUOTE_BYTES
    {
        return Some(true);
    }
    let text = tool.text?;
    Some(text.bytes as usize >= line.len() && text.chars as usize > chars)
}

/// Deletes the signed reasoning from the first changed turn on, except for the open turn.
fn delete_stale_reasoning(log: &SessionLog, first_turn: usize, outcomes: &mut [Outcome]) {
    let open = open_event(&log.events, outcomes);
    for ((turn, row), outcome) in log.turns().zip(outcomes).take(open) {
        if turn >= first_turn && row.class == (RowClass::Reasoning { is_signed: true }) {
            *outcome = Outcome::Deleted;
        }
    }
}

/// Returns the index of the request that begins the open turn, or the number of events.
fn open_event(events: &[EventRow], outcomes: &[Outcome]) -> usize {
    let before = |index: usize| {
        let is_shown = |index: &usize| outcomes[*index] != Outcome::Deleted;
        (0..index).rev().filter(is_shown).map(|index| (index, events[index].class))
    };
    let is_model_output =
        |class: RowClass| matches!(class, RowClass::Message { .. } | RowClass::Reasoning { .. });
    let follows_call = |index: usize| {
        before(index).map(|(_, class)| class).find(|class| !is_model_output(*class))
            == Some(RowClass::ToolRequest)
    };
    let is_result = |class: RowClass| matches!(class, RowClass::ToolResponse { .. });
    let is_answer = |index: usize| {
        follows_call(before(index).find(|(_, class)| !is_result(*class)).map_or(0, |(last, _)| last + 1))
    };
    let (mut request, mut has_calls, mut has_results) = (None, false, false);
    for (index, class) in before(events.len()) {
        match class {
            RowClass::ToolResponse { .. } if is_answer(index) => (request, has_results) = (None, true),
            RowClass::ToolRequest => (request, has_calls) = (None, true),
            RowClass::ChatRequest => request = Some(index),
            RowClass::Message { is_blank: true } => {}
            RowClass::Message { .. } if request.is_some() => break,
            RowClass::Message { .. } if has_calls || (has_results && follows_call(index)) => {}
            RowClass::Message { .. } => return events.len(),
            RowClass::TurnStart | RowClass::Reasoning { .. } | RowClass::ToolResponse { .. } => {}
        }
    }
    request.unwrap_or(if has_calls { 0 } else { events.len() })
}

/// Deletes reasoning whose whole output is deleted.
fn delete_lone_reasoning(log: &SessionLog, outcomes: &mut [Outcome]) {
    // Whether any output stays before the next reasoning or the next speaker. `None` without output.
    let mut output_stays = None;
    let mut next_event: Option<(RowClass, Option<usize>)> = None;
    for (row, outcome) in log.events.iter().zip(outcomes).rev() {
        let stays = *outcome != Outcome::Deleted;
        match row.class {
            RowClass::Reasoning { .. } => {
                if output_stays == Some(false) {
                    *outcome = Outcome::Deleted;
                }
            }
            RowClass::Message { .. } | RowClass::ToolRequest => {
                let is_last_output =
                    next_event.is_some_and(|(class, _)| matches!(class, RowClass::Reasoning { .. }));
                output_stays = Some(stays || (!is_last_output && output_stays == Some(true)));
            }
            // The result of a tool that the provider ran itself is in the same message.
            RowClass::ToolResponse { .. } if next_event.is_some_and(|(_, line)| line == row.line()) => {}
            _ => output_stays = None,
        }
        next_event = Some((row.class, row.line()));
    }
}

/// Returns whether each line is deleted, because none of its events is left.
pub(super) fn deleted_lines(log: &SessionLog, outcomes: &[Outcome]) -> Vec<bool> {
    let mut deleted = vec![false; log.lines.len()];
    let rows = || log.events.iter().zip(outcomes).filter_map(|(row, outcome)| Some((row.line()?, *outcome)));
    rows().filter(|(_, outcome)| *outcome == Outcome::Deleted).for_each(|(line, _)| deleted[line] = true);
    rows().filter(|(_, outcome)| *outcome != Outcome::Deleted).for_each(|(line, _)| deleted[line] = false);
    deleted
}
