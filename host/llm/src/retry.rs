//! The decision when a request to a provider is retried. Pure functions.

use std::time::Duration;

/// The retry policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backoff {
    /// The number of retries after the first attempt.
    pub(super) retries: u32,
    /// The delay before the first retry. It doubles for each further retry.
    pub(super) initial: Duration,
    /// The maximum delay. If a provider asks for a longer delay, the request is not retried.
    pub(super) max: Duration,
}

impl Backoff {
    /// Returns the delay before a retry (counted from 0), or `None` if the request is not retried. `retry_after` is the
    /// delay that the provider asks for. If it exceeds the maximum, an earlier retry would fail as well.
    pub(super) fn delay_before(&self, retry: u32, retry_after: Option<Duration>) -> Option<Duration> {
        if retry >= self.retries {
            return None;
        }
        match retry_after {
            Some(retry_after) => (retry_after <= self.max).then_some(retry_after),
            None => Some(self.initial.saturating_mul(2_u32.saturating_pow(retry)).min(self.max)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(retry: u32, retry_after: Option<u64>, expect: Option<u64>) {
        let backoff = Backoff { retries: 4, initial: Duration::from_secs(1), max: Duration::from_secs(5) };
        let delay = backoff.delay_before(retry, retry_after.map(Duration::from_secs));
        assert_eq!(delay, expect.map(Duration::from_secs));
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
