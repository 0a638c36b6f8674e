//! The comparison of two copies of a conversation by their raw events. Overlays and receipts do not count: after a
//! reset or an append one copy may have some that the other does not, and no event would be lost
//! (docs/reference/store.md#two-copies).

use bytes::Bytes;

use jp_compact_core::event::Kind;
use jp_compact_core::index::{self, Index};

/// The result of a comparison: the other copy, relative to the copy that JP would load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyComparison {
    /// It has the same raw events.
    Equal,
    /// It has only the first events of the loaded copy.
    Shorter,
    /// It has an event that would be lost, or cannot be read.
    Disagrees,
}

/// Compares the copy that JP would load with another copy.
#[must_use]
pub(crate) fn compare(loaded: &Bytes, other: &Bytes) -> CopyComparison {
    if loaded == other {
        return CopyComparison::Equal;
    }
    let (Ok(loaded), Ok(other)) = (index::index(loaded.clone()), index::index(other.clone())) else {
        return CopyComparison::Disagrees;
    };
    let (mut loaded, mut other) = (raw_events(&loaded), raw_events(&other));
    loop {
        match (loaded.next(), other.next()) {
            (None, None) => return CopyComparison::Equal,
            (Some(_), None) => return CopyComparison::Shorter,
            (Some(event), Some(other_event)) if event == other_event => {}
            _ => return CopyComparison::Disagrees,
        }
    }
}

fn raw_events(index: &Index) -> impl Iterator<Item = &[u8]> {
    let events = index.events.iter();
    let raw = events.filter(|event| !event.kind.is_overlay() && event.kind != Kind::Receipt);
    raw.map(|event| index.bytes_at(event.span))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = r#"{"type":"chat_request","timestamp":"2026-01-01 00:00:00.0","content":"a"}"#;
    const RESPONSE: &str = r#"{"type":"chat_response","timestamp":"2026-01-01 00:00:00.0","message":"b"}"#;
    const DELTA: &str = r#"{"type":"config_delta","timestamp":"2026-01-01 00:00:00.0","delta":{}}"#;
    const OVERLAY: &str = r#"{"type":"compaction","timestamp":"2027-01-01 00:00:00.0","from_turn":0,"to_turn":0,"reasoning":"strip"}"#;
    const RECEIPT: &str =
        r#"{"type":"jp_compact_receipt","timestamp":"2027-01-01 00:00:00.0","from_turn":0,"to_turn":0}"#;

    #[track_caller]
    fn check(loaded: &[&str], other: &[&str], expected: CopyComparison) {
        let file = |elements: &[&str]| Bytes::from(format!("[{}]\n", elements.join(",")));
        assert_eq!(compare(&file(loaded), &file(other)), expected);
    }

    #[test]
    fn ignores_overlays_and_receipts() {
        check(&[REQUEST, RESPONSE], &[REQUEST, RESPONSE, OVERLAY, RECEIPT], CopyComparison::Equal);
        check(&[REQUEST, OVERLAY, RECEIPT, RESPONSE], &[REQUEST, RESPONSE], CopyComparison::Equal);
        check(&[], &[OVERLAY], CopyComparison::Equal);
    }

    #[test]
    fn compares_all_other_elements_in_order() {
        check(&[REQUEST, RESPONSE], &[REQUEST, OVERLAY], CopyComparison::Shorter);
        check(&[REQUEST], &[REQUEST, RESPONSE], CopyComparison::Disagrees);
        check(&[REQUEST, RESPONSE], &[RESPONSE, REQUEST], CopyComparison::Disagrees);
        check(&[REQUEST, DELTA], &[REQUEST], CopyComparison::Shorter);
        check(&[REQUEST], &[REQUEST, r#"{"type":"bookmark"}"#], CopyComparison::Disagrees);
        check(&[REQUEST], &[], CopyComparison::Shorter);
    }

    #[test]
    fn ignores_white_space_between_elements() {
        let spaced = Bytes::from(format!("[\n  {REQUEST},\n\n  {RESPONSE}\n]\n"));
        assert_eq!(compare(&spaced, &Bytes::from(format!("[{REQUEST},{RESPONSE}]"))), CopyComparison::Equal);
    }

    #[test]
    fn unreadable_copies_disagree_unless_identical() {
        check(&[REQUEST], &["{"], CopyComparison::Disagrees);
        check(&["{"], &["{"], CopyComparison::Equal);
    }
}
