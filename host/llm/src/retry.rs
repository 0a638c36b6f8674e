//! Decides when a request to a provider is retried. Pure functions.

use std::time::Duration;

/// The retry policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backoff {
    /// The number of retries after the first attempt.
    pub(super) retries: u32,
    /// The delay before the first retry. It doubles for each further retry.
    pub(super) first: Duration,
    /// The maximum delay. A provider that asks for more is not retried.
    pub(super) longest: Duration,
}

impl Backoff {
    /// Returns the delay before a retry (counted from 0), or `None` if there is no retry. If the provider
    /// asks for more than the maximum delay, a retry would fail as well.
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
    fn delays_double_up_to_the_maximum() {
        check(0, None, Some(1));
        check(1, None, Some(2));
        check(2, None, Some(4));
        check(3, None, Some(5));
        check(4, None, None);
    }

    #[test]
    fn respects_or_rejects_the_delay_of_the_provider() {
        check(0, Some(0), Some(0));
        check(3, Some(5), Some(5));
        check(0, Some(6), None);
        check(4, Some(0), None);
    }
}
