//! When a provider is asked again, and after how long. Pure.

use std::time::Duration;

/// How often and when a provider is asked again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backoff {
    /// After the first time.
    pub(super) retries: u32,
    /// Before the first retry; doubled before each other.
    pub(super) first: Duration,
    /// Nobody is waited for longer, whatever a provider wishes.
    pub(super) longest: Duration,
}

impl Backoff {
    /// What is waited before the retry of this number, counted from 0; none when it is not made. A provider that
    /// wants more time than there is will not answer before that either.
    pub(super) fn before(&self, retry: u32, wish: Option<Duration>) -> Option<Duration> {
        if retry >= self.retries {
            return None;
        }
        match wish {
            Some(wish) => (wish <= self.longest).then_some(wish),
            None => Some(self.first.saturating_mul(2_u32.saturating_pow(retry)).min(self.longest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(retry: u32, wish: Option<u64>, expect: Option<u64>) {
        let backoff = Backoff { retries: 4, first: Duration::from_secs(1), longest: Duration::from_secs(5) };
        let waited = backoff.before(retry, wish.map(Duration::from_secs));
        assert_eq!(waited, expect.map(Duration::from_secs));
    }

    #[test]
    fn each_wait_is_twice_the_last_and_none_too_long() {
        check(0, None, Some(1));
        check(1, None, Some(2));
        check(2, None, Some(4));
        check(3, None, Some(5));
        check(4, None, None);
    }

    #[test]
    fn the_provider_s_wish_is_respected_or_not_waited_for() {
        check(0, Some(0), Some(0));
        check(3, Some(5), Some(5));
        check(0, Some(6), None);
        check(4, Some(0), None);
    }
}
