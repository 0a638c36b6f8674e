//! The controls: simple choices of whole events with at most as many tokens as a view. A strategy that keeps less than
//! these has no merit.

use sha2::{Digest, Sha256};

/// Returns the newest events, until the next one would exceed `budget`. `tokens` has the tokens of each event.
#[must_use]
pub fn newest(tokens: &[u64], budget: u64) -> Vec<usize> {
    let mut left = budget;
    let mut chosen = Vec::new();
    for (event, tokens) in tokens.iter().enumerate().rev() {
        match left.checked_sub(*tokens) {
            Some(rest) => left = rest,
            None => break,
        }
        chosen.push(event);
    }
    chosen
}

/// Takes the events in the order of `order`, skips those that do not fit into the rest of `budget`, and returns the
/// others. `order` is a [`random_order`] of at least as many events as `tokens` has.
#[must_use]
pub fn random(order: &[usize], tokens: &[u64], budget: u64) -> Vec<usize> {
    let mut left = budget;
    let fits = |event: &usize| match tokens.get(*event).and_then(|tokens| left.checked_sub(*tokens)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    order.iter().copied().filter(fits).collect()
}

/// Returns the events in the order of the SHA-256 of `"0:"` and the number of the event.
#[must_use]
pub fn random_order(events: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..events).collect();
    order.sort_by_cached_key(|event| Sha256::digest(format!("0:{event}")));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_stops_at_the_first_event_that_does_not_fit() {
        for (budget, expected) in
            [(0, &[3][..]), (5, &[3, 2]), (14, &[3, 2]), (15, &[3, 2, 1]), (99, &[3, 2, 1, 0])]
        {
            assert_eq!(newest(&[1, 10, 5, 0], budget), expected, "{budget}");
        }
        assert!(newest(&[1, 10, 5], 4).is_empty(), "the older event would fit");
    }

    #[test]
    fn random_order_is_that_of_the_digests() {
        let order = random_order(4);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3]);
        let digests: Vec<_> = order.iter().map(|event| Sha256::digest(format!("0:{event}"))).collect();
        assert!(digests.is_sorted());
    }

    #[test]
    fn random_skips_events_that_do_not_fit() {
        assert_eq!(random(&[2, 0, 3, 1], &[4, 3, 9, 1], 5), [0, 3]);
        assert_eq!(random(&[2, 0, 3, 1], &[4, 3], 9), [0, 1], "later events are not in the prefix");
    }
}
