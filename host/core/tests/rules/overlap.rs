//! The extension of a summary's range over existing summaries (RFD 064, "Summary Overlap Resolution").

use std::collections::BTreeSet;

use jp_compact_core::overlap::{Overlap, extend};
use jp_compact_core::{Pairs, TurnRange, summary_range};
use proptest::prelude::*;
use serde_json::json;

use crate::build::{Build, compaction};

#[track_caller]
fn check(
    range: (usize, usize),
    summaries: &[(usize, usize)],
    partial: (usize, usize),
    union: (usize, usize),
) {
    let range = TurnRange::new(range.0, range.1).unwrap();
    let summaries = summaries.iter().filter_map(|(from, to)| TurnRange::new(*from, *to));
    let summaries: Vec<TurnRange> = summaries.collect();
    for (overlap, expected) in [(Overlap::Partial, partial), (Overlap::Union, union)] {
        let reversed = extend(range, summaries.iter().rev().copied(), overlap);
        let extended = extend(range, summaries.iter().copied(), overlap);
        assert_eq!((extended.from(), extended.to()), expected, "{overlap:?}");
        assert_eq!(extended, reversed, "{overlap:?} depends on the order");
    }
}

#[test]
fn separate_ranges_do_not_extend() {
    check((3, 5), &[], (3, 5), (3, 5));
    check((3, 5), &[(0, 2), (6, 9)], (3, 5), (3, 5));
}

#[test]
fn partial_overlap_extends_to_union() {
    check((3, 5), &[(0, 3)], (0, 5), (0, 5));
    check((3, 5), &[(5, 8)], (3, 8), (3, 8));
    check((3, 5), &[(0, 4), (4, 8)], (0, 8), (0, 8));
}

#[test]
fn only_union_extends_inside_older_summary() {
    check((3, 5), &[(0, 9)], (3, 5), (0, 9));
    check((3, 5), &[(3, 9)], (3, 5), (3, 9));
    check((3, 5), &[(3, 5)], (3, 5), (3, 5));
}

#[test]
fn range_around_older_summary_does_not_extend() {
    check((3, 9), &[(4, 5)], (3, 9), (3, 9));
    check((3, 9), &[(3, 5), (9, 9)], (3, 9), (3, 9));
}

#[test]
fn extends_to_a_fixpoint() {
    check((3, 5), &[(5, 7), (7, 9), (9, 12), (13, 14)], (3, 12), (3, 12));
    check((3, 5), &[(9, 12), (7, 9), (5, 7), (0, 2)], (3, 12), (3, 12));
    // (2, 5) contains the range until (4, 8) extends it.
    check((3, 4), &[(2, 5), (4, 8)], (2, 8), (2, 8));
}

#[test]
fn ignores_overlay_with_inverted_range() {
    check((3, 5), &[(6, 2), (5, 4)], (3, 5), (3, 5));
}

#[test]
fn parses_names_of_rules() {
    assert_eq!("partial".parse(), Ok(Overlap::Partial));
    assert_eq!("union".parse(), Ok(Overlap::Union));
    assert_eq!(Overlap::default(), Overlap::Partial);
    assert_eq!("both".parse::<Overlap>(), Err("expected `partial` or `union`, not `both`".into()));
}

/// Applies the rule of RFD 064 to sets of turn numbers: while a summary overlaps the range, and neither contains the
/// other, the range grows to the union. With `Union`, it also grows if the summary contains it.
fn extend_turns(range: (usize, usize), summaries: &[(usize, usize)], overlap: Overlap) -> (usize, usize) {
    let mut turns: BTreeSet<usize> = (range.0..=range.1).collect();
    loop {
        let splits = |summary: &BTreeSet<usize>| match overlap {
            Overlap::Partial => {
                !summary.is_disjoint(&turns) && !summary.is_subset(&turns) && !turns.is_subset(summary)
            }
            Overlap::Union => !summary.is_disjoint(&turns) && !summary.is_subset(&turns),
        };
        let sets = summaries.iter().map(|(from, to)| (*from..=*to).collect::<BTreeSet<usize>>());
        let Some(summary) = sets.into_iter().find(|summary| splits(summary)) else {
            return (*turns.first().unwrap(), *turns.last().unwrap());
        };
        turns.extend(summary);
    }
}

/// Returns a random range within 12 turns.
fn turns() -> impl Strategy<Value = (usize, usize)> {
    (0..12usize, 0..12usize).prop_map(|(one, other)| (one.min(other), one.max(other)))
}

proptest! {
    #[test]
    fn extension_on_positions_equals_extension_on_turns(
        range in turns(), summaries in prop::collection::vec(turns(), 0..6), is_union in any::<bool>(),
    ) {
        let overlap = if is_union { Overlap::Union } else { Overlap::Partial };
        let expected = extend_turns(range, &summaries, overlap);
        let expected = TurnRange::new(expected.0, expected.1).unwrap();
        let whole_turns = |(from, to): (usize, usize)| TurnRange::new(from, to).unwrap();
        let positions = summaries.iter().copied().map(whole_turns);
        prop_assert_eq!(extend(whole_turns(range), positions.clone(), overlap), expected);

        // The same for summaries in a stream, whose turns have steps, and for summaries of the same run.
        let (stored, accepted) = summaries.split_at(summaries.len() / 2);
        let build = stored.iter().enumerate().fold(Build::turns(12), |build, (number, (from, to))| {
            let summary = json!({"summary": {"summary": "S"}});
            build.element(compaction(100 + i64::try_from(number).unwrap(), *from, *to, summary))
        });
        let (stream, accepted) = (build.stream(), accepted.iter().copied().map(whole_turns).collect::<Vec<_>>());
        let found = summary_range::extend_over_summaries(
            whole_turns(range), &stream, &Pairs::new(&stream), &accepted, overlap,
        );
        prop_assert_eq!(found, expected);
    }
}
