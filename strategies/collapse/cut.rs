//! The choice of the turns to collapse: the oldest part of the range.

use jp_compact_strategy::schema::{CompactionRef, Range, Turn};

/// The reason why there is nothing to collapse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NothingToCollapse {
    /// At least one turn to collapse and one to keep are required.
    TooFewTurns,
    /// Tool calls with responses in later turns connect all turns.
    NoCut,
    /// The oldest part already is a summary.
    Summarized(Range),
}

impl NothingToCollapse {
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::TooFewTurns => "the range has fewer than two turns".to_owned(),
            Self::NoCut => "tool calls with responses in later turns connect all turns".to_owned(),
            Self::Summarized(Range { from_turn, to_turn, .. }) => format!(
                "the oldest part already is a summary of turns {from_turn} to {to_turn}, and too few tokens follow"
            ),
        }
    }
}

/// Returns the oldest turns of the range: as few whole turns as have `ratio` of the range's tokens in the view. They are at
/// least one turn, and never include the last. `calls` has the turns of request and response of tool calls, which are not
/// split.
pub(crate) fn oldest(
    turns: &[Turn],
    range: Range,
    ratio: f64,
    calls: &[(usize, usize)],
    compactions: &[CompactionRef],
) -> Result<Range, NothingToCollapse> {
    let turns: Vec<&Turn> =
        turns.iter().filter(|row| (range.from_turn..=range.to_turn).contains(&row.turn)).collect();
    let [first, .., last] = &turns[..] else { return Err(NothingToCollapse::TooFewTurns) };
    let total: u64 = turns.iter().map(|row| row.view_tokens).sum();
    let least = total as f64 * ratio;
    let (mut sum, mut to_turn) = (0, first.turn);
    for row in &turns {
        // The text of a summary is in its first turn. The other turns of the summary are free.
        let is_free = row.view_tokens == 0 && row.turn == to_turn + 1;
        if row.turn < last.turn && ((sum as f64) < least || is_free) {
            to_turn = row.turn;
        }
        sum += row.view_tokens;
    }
    while let Some((request, _)) = calls.iter().find(|(left, right)| *left <= to_turn && to_turn < *right) {
        to_turn = request.checked_sub(1).filter(|to| *to >= first.turn).ok_or(NothingToCollapse::NoCut)?;
    }
    let oldest = Range::turns(first.turn, to_turn);
    let covers = |older: &&CompactionRef| {
        older.summary && older.from_turn <= oldest.from_turn && oldest.to_turn <= older.to_turn
    };
    match compactions.iter().find(covers) {
        Some(older) => Err(NothingToCollapse::Summarized(Range::turns(older.from_turn, older.to_turn))),
        None => Ok(oldest),
    }
}

#[cfg(test)]
mod tests {
    use jp_compact_strategy::schema::Kinds;

    use super::*;

    /// Checks the last collapsed turn of turns with these tokens.
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
            from_step: None,
            to_step: None,
            summary: true,
            reasoning: None,
            tool_calls: None,
        };
        let summaries: Vec<_> = summaries.iter().map(summary).collect();
        let range = Range::turns(0, tokens.len().saturating_sub(1));
        let expect = expect.map(|to_turn| Range::turns(0, to_turn));
        assert_eq!(oldest(&turns, range, 0.65, calls, &summaries), expect, "{tokens:?}");
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
