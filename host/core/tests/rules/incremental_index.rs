//! The incremental indexer. Its index and its errors must not depend on the points at which the bytes are split.

use bytes::Bytes;
use jp_compact_core::index::{Indexer, index};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::build::Build;

/// Passes `bytes` to the indexer, first up to each of `stops`, then all.
#[track_caller]
fn check(bytes: &[u8], stops: &[usize]) {
    let mut indexer = Indexer::default();
    for stop in stops {
        indexer.advance(&bytes[..*stop]);
    }
    let bytes = Bytes::copy_from_slice(bytes);
    let (incremental, complete) = (indexer.finish(bytes.clone()), index(bytes));
    assert_eq!(format!("{incremental:?}"), format!("{complete:?}"), "stops at {stops:?}");
}

#[track_caller]
fn check_every_split(bytes: impl AsRef<[u8]>) {
    let bytes = bytes.as_ref();
    (0..=bytes.len()).for_each(|stop| check(bytes, &[stop]));
    check(bytes, &(0..=bytes.len()).collect::<Vec<_>>());
}

#[test]
fn indexes_input_split_at_any_byte() {
    check_every_split(Build::turns(2).say("caf\u{e9} \u{1f600}\n\\u00e9").unknown().bytes());
}

#[test]
fn number_may_continue_in_next_bytes() {
    check_every_split("[12, -3.5e7 , true ,null,\"\\u00e9\"]");
    check_every_split(" [ 12 ] ");
    check_every_split("[]\n");
}

#[test]
fn errors_are_reported_at_the_end() {
    for bytes in ["", " ", "{}", "[{}{}]", "[1,]", "[1]x", "[1] ]", "[tru]", "[\"\\x\"]", "[1", "[\"a\n\"]"] {
        check_every_split(bytes);
    }
}

proptest! {
    #[test]
    fn indexes_input_split_at_random_bytes(turns in 0..20usize, text in "[a-z\\\\\"\u{e9}]{0,300}", stops in prop::collection::vec(any::<Index>(), 0..20)) {
        let bytes = Build::turns(turns).say(&text).turn().bytes();
        let mut stops: Vec<usize> = stops.iter().map(|stop| stop.index(bytes.len() + 1)).collect();
        stops.sort_unstable();
        check(&bytes, &stops);
    }
}
