//! The choice of the turns and steps to collapse: the oldest part of the range.

use jp_compact_strategy::schema::{CompactionRef, Range, Turn};

/// A turn with fewer steps in range is not divided. In a chat, turns have few steps, and are read as a whole.
const DIVIDED_STEPS_MIN: usize = 5;

/// The reason why there is nothing to collapse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NothingToCollapse {
    /// At least one turn to collapse and one to keep are required, or [`DIVIDED_STEPS_MIN`] steps of the last turn.
    TooFewTurns,
    /// Tool calls with responses in later turns connect all turns.
    NoCut,
    /// The oldest part is already a summary.
    Summarized(Range),
}

impl NothingToCollapse {
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::TooFewTurns => "the range has fewer than two turns".to_owned(),
            Self::NoCut => "tool calls with responses in later turns connect all turns".to_owned(),
            Self::Summarized(range) => {
                format!("the oldest part is already a summary of {range}, and too few tokens follow")
            }
        }
    }
}

/// A step of the last turn in the range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StepWeight {
    /// The tokens of its raw events.
    pub(crate) tokens: u64,
    /// Whether its first event is reasoning. If an open turn has such steps, a summary must end before one of them.
    pub(crate) begins_with_reasoning: bool,
}

/// The facts that the choice depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) turns: &'a [Turn],
    pub(crate) compactions: &'a [CompactionRef],
    /// For each tool call with a response in a later turn, the turns of its request and its response. These calls are
    /// not split.
    pub(crate) calls: &'a [(usize, usize)],
    /// All steps of the last turn in the range. Empty if the host does not send steps.
    pub(crate) last_steps: &'a [StepWeight],
}

/// Returns the oldest part of the range: as few whole turns as have `ratio` of the range's tokens in the view. They are
/// at least one turn, and never include the last. If all other turns have too few tokens, the oldest steps of the last
/// turn are added.
pub(crate) fn oldest(facts: &Facts<'_>, range: Range, ratio: f64) -> Result<Range, NothingToCollapse> {
    let rows: Vec<&Turn> = facts.turns.iter().filter(|row| range.contains(row.turn)).collect();
    let [older @ .., last] = &rows[..] else { return Err(NothingToCollapse::TooFewTurns) };
    let total: u64 = rows.iter().map(|row| row.view_tokens).sum();
    let least = total as f64 * ratio;
    let (mut sum, mut count) = (0, 0);
    for row in older {
        // The text of a summary is in its first turn. The other turns of the summary have no tokens.
        let is_free = row.view_tokens == 0 && count > 0;
        if count > 0 && sum as f64 >= least && !is_free {
            break;
        }
        (sum, count) = (sum + row.view_tokens, count + 1);
    }
    let in_last_turn = if count == older.len() && (count == 0 || (sum as f64) < least) {
        step_end(facts, range, last, least - sum as f64)
    } else {
        None
    };
    let oldest = match (in_last_turn, older[..count].last()) {
        (Some(step), _) => Range { to_turn: last.turn, to_step: Some(step), ..range },
        (None, Some(row)) => Range { to_turn: uncut_turn(facts, range, row.turn)?, to_step: None, ..range },
        (None, None) => return Err(NothingToCollapse::TooFewTurns),
    };
    let covers = |older: &&CompactionRef| older.summary && older.range().covers(&oldest);
    match facts.compactions.iter().find(covers) {
        Some(older) => Err(NothingToCollapse::Summarized(older.range())),
        None => Ok(oldest),
    }
}

/// Returns the last turn at or before `to_turn` at which no call is split.
fn uncut_turn(facts: &Facts<'_>, range: Range, mut to_turn: usize) -> Result<usize, NothingToCollapse> {
    while let Some((request, _)) =
        facts.calls.iter().find(|(left, right)| *left <= to_turn && to_turn < *right)
    {
        to_turn =
            request.checked_sub(1).filter(|to| *to >= range.from_turn).ok_or(NothingToCollapse::NoCut)?;
    }
    Ok(to_turn)
}

/// Returns the step of the last turn that ends the oldest part: as few steps as have `least` tokens in the view. The
/// last step in range is never included. `None` if the turn cannot be divided.
fn step_end(facts: &Facts<'_>, range: Range, last: &Turn, least: f64) -> Option<usize> {
    if facts.calls.iter().any(|(request, response)| [*request, *response].contains(&last.turn)) {
        return None;
    }
    let steps = facts.last_steps;
    let end = range.to_step.map_or(steps.len(), |step| (step + 1).min(steps.len())).checked_sub(1)?;
    if end + 1 < DIVIDED_STEPS_MIN {
        return None;
    }
    let is_summarized = |step: usize| {
        let shown =
            |older: &CompactionRef| older.summary && older.range().contains_step(last.turn, Some(step));
        facts.compactions.iter().any(shown)
    };
    // The turn table has the tokens of the view by turn, not by step.
    let raw = |step: usize| if is_summarized(step) { 0 } else { steps[step].tokens };
    let scale = last.view_tokens as f64 / (0..=end).map(raw).sum::<u64>().max(1) as f64;
    let mut sum = 0.0;
    let wanted = (0..end).find(|step| {
        sum += raw(*step) as f64 * scale;
        sum >= least
    });
    let wanted = wanted.or(end.checked_sub(1))?;
    if last.complete || !steps.iter().any(|step| step.begins_with_reasoning) {
        return Some(wanted);
    }
    let may_end = |step: &usize| steps[step + 1].begins_with_reasoning;
    (0..=wanted).rev().find(may_end).or_else(|| (wanted + 1..end).find(may_end))
}

#[cfg(test)]
mod tests {
    use jp_compact_strategy::schema::Kinds;

    use super::*;

    /// Checks the last turn that is collapsed, for turns with these tokens.
    #[track_caller]
    fn check(
        tokens: &[u64],
        calls: &[(usize, usize)],
        summaries: &[(usize, usize)],
        expect: Result<usize, NothingToCollapse>,
    ) {
        let row = |(turn, view_tokens): (usize, &u64)| Turn {
            turn,
            events: 1,
            tokens: 100,
            view_tokens: *view_tokens,
            complete: true,
            steps: None,
            kinds: Kinds::default(),
        };
        let turns: Vec<Turn> = tokens.iter().enumerate().map(row).collect();
        let summary = |(from_turn, to_turn): &(usize, usize)| CompactionRef {
            from_turn: *from_turn,
            to_turn: *to_turn,
            summary: true,
            ..CompactionRef::default()
        };
        let summaries: Vec<_> = summaries.iter().map(summary).collect();
        let range = Range::turns(0, tokens.len().saturating_sub(1));
        let expect = expect.map(|to_turn| Range::turns(0, to_turn));
        let facts = Facts { turns: &turns, compactions: &summaries, calls, last_steps: &[] };
        assert_eq!(oldest(&facts, range, 0.65), expect, "{tokens:?}");
    }

    /// Returns the collapsed range of an open conversation whose last turn has these steps: tokens, negative if the
    /// step begins with reasoning.
    fn with_steps(turns: &[u64], steps: &[i64], range: &str, summaries: &[CompactionRef]) -> String {
        let last_steps: Vec<StepWeight> = steps
            .iter()
            .map(|tokens| StepWeight { tokens: tokens.unsigned_abs(), begins_with_reasoning: *tokens < 0 })
            .collect();
        let row = |(turn, view_tokens): (usize, u64)| Turn {
            turn,
            events: 1,
            tokens: view_tokens,
            view_tokens,
            complete: turn < turns.len(),
            steps: Some(steps.len()),
            kinds: Kinds::default(),
        };
        let last: u64 = last_steps.iter().map(|step| step.tokens).sum();
        let turns: Vec<Turn> = turns.iter().copied().chain([last]).enumerate().map(row).collect();
        let facts = Facts { turns: &turns, compactions: summaries, calls: &[], last_steps: &last_steps };
        match oldest(&facts, parse(range), 0.65) {
            Ok(range) => range.to_string(),
            Err(nothing) => nothing.reason(),
        }
    }

    fn parse(range: &str) -> Range {
        let end = |text: &str| {
            let (turn, step) = text.split_once('.').map_or((text, None), |(turn, step)| (turn, Some(step)));
            (turn.parse().unwrap(), step.map(|step| step.parse().unwrap()))
        };
        let (from, to) = range.split_once("..").unwrap();
        let ((from_turn, from_step), (to_turn, to_step)) = (end(from), end(to));
        Range { from_turn, to_turn, from_step, to_step }
    }

    #[test]
    fn divides_the_last_turn_if_the_others_have_too_few_tokens() {
        for (turns, steps, range, expect) in [
            (&[][..], &[10; 10][..], "0..0.9", "turns 0 to 0.6"),
            (&[], &[10; 10], "0.0..0.9", "steps 0.0 to 0.6"),
            (&[], &[10; 10], "0..0.4", "turns 0 to 0.3"),
            (&[5, 5], &[10; 10], "0..2.9", "turns 0 to 2.6"),
            (&[900], &[10; 10], "0..1.9", "turn 0"),
            (&[], &[10], "0..0.0", "the range has fewer than two turns"),
            (&[], &[10; 4], "0..0.3", "the range has fewer than two turns"),
            (&[10], &[100], "0..1.0", "turn 0"),
        ] {
            assert_eq!(with_steps(turns, steps, range, &[]), expect, "{turns:?} {steps:?} {range}");
        }
    }

    #[test]
    fn ends_before_a_step_that_begins_with_reasoning() {
        for (steps, expect) in [
            (&[10, 10, -10, 10, 10, 10, 10][..], "turns 0 to 0.1"),
            (&[10, 10, 10, 10, 10, -10, -10], "turns 0 to 0.4"),
            (&[10, 10, 10, 10, 10, 10, -10], "turns 0 to 0.5"),
            (&[-10, 10, 10, 10, 10], "the range has fewer than two turns"),
        ] {
            let range = format!("0..0.{}", steps.len() - 1);
            assert_eq!(with_steps(&[], steps, &range, &[]), expect, "{steps:?}");
        }
    }

    #[test]
    fn steps_of_an_older_summary_count_no_tokens() {
        let older = CompactionRef {
            from_turn: 0,
            to_turn: 0,
            to_step: Some(5),
            summary: true,
            ..CompactionRef::default()
        };
        let steps = [100, 100, 100, 100, 100, 100, 10, 10, 10, 10];
        assert_eq!(with_steps(&[], &steps, "0..0.9", std::slice::from_ref(&older)), "turns 0 to 0.8");
        assert_eq!(
            with_steps(&[], &steps, "0..0.5", &[older]),
            "the oldest part is already a summary of turns 0 to 0.5, and too few tokens follow"
        );
    }

    #[test]
    fn collapses_whole_turns_from_65_percent() {
        check(&[10; 10], &[], &[], Ok(6));
        check(&[65, 35], &[], &[], Ok(0));
        check(&[30, 35, 35], &[], &[], Ok(1));
        check(&[30, 34, 26, 10], &[], &[], Ok(2));
    }

    #[test]
    fn collapses_at_least_one_turn_but_not_the_last() {
        check(&[900, 50, 50], &[], &[], Ok(0));
        check(&[1, 900], &[], &[], Ok(0));
        check(&[0, 0, 0], &[], &[], Ok(1));
    }

    #[test]
    fn requires_two_turns() {
        check(&[], &[], &[], Err(NothingToCollapse::TooFewTurns));
        check(&[500], &[], &[], Err(NothingToCollapse::TooFewTurns));
    }

    #[test]
    fn does_not_split_calls_across_turns() {
        check(&[10; 10], &[(6, 7)], &[], Ok(5));
        check(&[10; 10], &[(5, 8), (3, 5)], &[], Ok(2));
        check(&[10; 10], &[(4, 5), (7, 8)], &[], Ok(6));
        check(&[10; 10], &[(0, 9)], &[], Err(NothingToCollapse::NoCut));
    }

    #[test]
    fn older_summary_is_collapsed_only_with_later_turns() {
        // The text of a summary is in its first turn.
        check(&[20, 0, 0, 20, 20, 40], &[], &[(0, 2)], Ok(4));
        let alone = || Err(NothingToCollapse::Summarized(Range::turns(0, 2)));
        check(&[65, 0, 0, 10, 25], &[], &[(0, 2)], alone());
        check(&[90, 0, 0, 10], &[], &[(0, 2)], alone());
        check(&[20, 0, 0, 90], &[], &[(0, 2)], alone());
    }
}
