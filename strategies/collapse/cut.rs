//! Where a conversation is collapsed: so much of its oldest part, up to the start of a turn.

use jp_compact_strategy::schema::{CompactionRef, Range, Turn};

/// Why nothing is collapsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Nothing {
    /// There have to be a turn to collapse, and one to keep.
    TooFewTurns,
    /// Calls that are answered in a later turn hold all turns together.
    NoCut,
    /// The oldest part is a summary already.
    Summarised(Range),
}

impl Nothing {
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::TooFewTurns => "there are fewer than two turns in range".to_owned(),
            Self::NoCut => "calls that are answered in a later turn hold all turns together".to_owned(),
            Self::Summarised(Range { from_turn, to_turn }) => format!(
                "the oldest part is a summary already, of turns {from_turn} to {to_turn}, and too few tokens follow it"
            ),
        }
    }
}

/// The oldest turns of the range: whole ones that together hold at most `ratio` of the tokens that the view shows
/// of it, one at least, and never the last. `calls` are the turns of the two halves of calls: none is split.
pub(crate) fn oldest(
    turns: &[Turn],
    range: Range,
    ratio: f64,
    calls: &[(usize, usize)],
    compactions: &[CompactionRef],
) -> Result<Range, Nothing> {
    let turns: Vec<&Turn> =
        turns.iter().filter(|row| (range.from_turn..=range.to_turn).contains(&row.turn)).collect();
    let [first, .., last] = &turns[..] else { return Err(Nothing::TooFewTurns) };
    let total: u64 = turns.iter().map(|row| row.view_tokens).sum();
    let most = total as f64 * ratio;
    let (mut sum, mut to_turn) = (0, first.turn);
    for row in &turns {
        sum += row.view_tokens;
        // All that a summary says stands at its first turn: the others of it come with that.
        let is_free = row.view_tokens == 0 && row.turn == to_turn + 1;
        if row.turn < last.turn && (sum as f64 <= most || is_free) {
            to_turn = row.turn;
        }
    }
    while let Some((request, _)) = calls.iter().find(|(left, right)| *left <= to_turn && to_turn < *right) {
        to_turn = request.checked_sub(1).filter(|to| *to >= first.turn).ok_or(Nothing::NoCut)?;
    }
    let oldest = Range { from_turn: first.turn, to_turn };
    let covers = |older: &&CompactionRef| {
        older.summary && older.from_turn <= oldest.from_turn && oldest.to_turn <= older.to_turn
    };
    match compactions.iter().find(covers) {
        Some(older) => Err(Nothing::Summarised(Range { from_turn: older.from_turn, to_turn: older.to_turn })),
        None => Ok(oldest),
    }
}

#[cfg(test)]
mod tests {
    use jp_compact_strategy::schema::Kinds;

    use super::*;

    /// What is collapsed of turns of so many tokens, as `from..=to`.
    #[track_caller]
    fn check(
        tokens: &[u64],
        calls: &[(usize, usize)],
        summaries: &[(usize, usize)],
        expect: Result<usize, Nothing>,
    ) {
        let row = |(turn, view_tokens): (usize, &u64)| Turn {
            turn,
            events: 1,
            tokens: 100,
            view_tokens: *view_tokens,
            complete: true,
            kinds: Kinds::default(),
        };
        let turns: Vec<Turn> = tokens.iter().enumerate().map(row).collect();
        let summary = |(from_turn, to_turn): &(usize, usize)| CompactionRef {
            from_turn: *from_turn,
            to_turn: *to_turn,
            summary: true,
            reasoning: None,
            tool_calls: None,
        };
        let summaries: Vec<_> = summaries.iter().map(summary).collect();
        let range = Range { from_turn: 0, to_turn: tokens.len().saturating_sub(1) };
        let expect = expect.map(|to_turn| Range { from_turn: 0, to_turn });
        assert_eq!(oldest(&turns, range, 0.65, calls, &summaries), expect, "{tokens:?}");
    }

    #[test]
    fn whole_turns_of_at_most_65_percent_go() {
        check(&[10; 10], &[], &[], Ok(5));
        check(&[65, 35], &[], &[], Ok(0));
        check(&[30, 35, 35], &[], &[], Ok(1));
        check(&[30, 36, 34], &[], &[], Ok(0));
    }

    #[test]
    fn one_turn_goes_at_least_and_the_last_never() {
        check(&[900, 50, 50], &[], &[], Ok(0));
        check(&[1, 900], &[], &[], Ok(0));
        check(&[0, 0, 0], &[], &[], Ok(1));
    }

    #[test]
    fn fewer_than_two_turns_are_nothing_to_collapse() {
        check(&[], &[], &[], Err(Nothing::TooFewTurns));
        check(&[500], &[], &[], Err(Nothing::TooFewTurns));
    }

    #[test]
    fn a_call_that_is_answered_in_a_later_turn_is_not_split() {
        check(&[10; 10], &[(5, 6)], &[], Ok(4));
        check(&[10; 10], &[(5, 8), (3, 5)], &[], Ok(2));
        check(&[10; 10], &[(4, 5), (6, 7)], &[], Ok(5));
        check(&[10; 10], &[(0, 9)], &[], Err(Nothing::NoCut));
    }

    #[test]
    fn an_older_summary_goes_with_what_follows_it_and_never_alone() {
        // Its text stands at its first turn.
        check(&[20, 0, 0, 20, 20, 40], &[], &[(0, 2)], Ok(4));
        let alone = || Err(Nothing::Summarised(Range { from_turn: 0, to_turn: 2 }));
        check(&[60, 0, 0, 10, 30], &[], &[(0, 2)], alone());
        check(&[90, 0, 0, 10], &[], &[(0, 2)], alone());
        check(&[20, 0, 0, 90], &[], &[(0, 2)], alone());
    }
}
