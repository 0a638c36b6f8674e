//! The extension of a summary's range over existing summaries (RFD 064, "Summary Overlap Resolution").

use jp_compact_core::TurnRange;
use jp_compact_core::overlap::{Overlap, extend};

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
