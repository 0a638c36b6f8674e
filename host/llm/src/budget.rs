//! The limits of a run: how many tokens models may read and write, and how many requests are sent. A request
//! reserves its tokens before it is sent, so concurrent requests cannot exceed the limit together.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The default token limit of a run.
pub const TOKENS_MAX: u64 = 2_000_000;
/// The default request limit of a run.
pub const REQUESTS_MAX: u64 = 500;
/// The longest answer of any model. A request without its own limit reserves at most this much for the answer.
pub(super) const ANSWER_TOKENS_MAX: u64 = 128_000;

/// The tokens and requests of a run.
#[derive(Debug)]
pub(super) struct Budget {
    tokens_max: u64,
    requests_max: u64,
    used: Mutex<Used>,
    /// Notified when a reservation ends.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Used {
    tokens: u64,
    reserved: u64,
    requests: u64,
}

/// The reserved tokens of one request. They are released on drop.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    budget: &'a Budget,
    tokens: u64,
    /// The limit to send with the request. `None` if the limit of the provider is low enough.
    pub(super) max_tokens: Option<u64>,
}

impl Budget {
    pub(super) fn new(tokens_max: u64, requests_max: u64) -> Self {
        Self { tokens_max, requests_max, used: Mutex::default(), changed: Notify::new() }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks whether this many requests and tokens fit into the remaining budget. Reserves nothing.
    pub(super) fn check(&self, requests: u64, tokens: u64) -> Result<(), String> {
        let used = self.used();
        if requests > self.requests_max.saturating_sub(used.requests) {
            return Err(self.no_requests(&used, requests));
        }
        let remaining = self.tokens_max.saturating_sub(used.tokens);
        if tokens > remaining { Err(self.no_tokens(remaining, tokens)) } else { Ok(()) }
    }

    /// Reserves the tokens of one request. Waits for concurrent requests if they hold tokens that this request needs.
    pub(super) async fn reserve(
        &self,
        input: u64,
        requested: Option<u64>,
    ) -> Result<Reservation<'_>, String> {
        loop {
            let changed = self.changed.notified();
            {
                let mut used = self.used();
                let remaining = self.tokens_max.saturating_sub(used.tokens);
                let free = remaining.saturating_sub(used.reserved);
                let needed = input.saturating_add(requested.unwrap_or(1));
                if needed <= free {
                    let available = free - input;
                    let max_tokens = requested.or((available < ANSWER_TOKENS_MAX).then_some(available));
                    let tokens = input + max_tokens.unwrap_or(ANSWER_TOKENS_MAX);
                    used.reserved += tokens;
                    return Ok(Reservation { budget: self, tokens, max_tokens });
                }
                if used.reserved == 0 {
                    return Err(self.no_tokens(remaining, needed));
                }
            }
            changed.await;
        }
    }

    /// Counts one request before it is sent.
    pub(super) fn count_request(&self) -> Result<(), String> {
        let mut used = self.used();
        if used.requests >= self.requests_max {
            return Err(self.no_requests(&used, 1));
        }
        used.requests += 1;
        Ok(())
    }

    /// Adds used tokens.
    pub(super) fn spend(&self, tokens: u64) {
        let mut used = self.used();
        used.tokens = used.tokens.saturating_add(tokens);
    }

    /// Returns the tokens that were used.
    pub(super) fn spent(&self) -> u64 {
        self.used().tokens
    }

    fn no_tokens(&self, remaining: u64, needed: u64) -> String {
        format!(
            "about {needed} tokens are needed, and the budget of {} has {remaining} left",
            self.tokens_max
        )
    }

    fn no_requests(&self, used: &Used, needed: u64) -> String {
        let remaining = self.requests_max.saturating_sub(used.requests);
        let requests = if needed == 1 { "1 request is".into() } else { format!("{needed} requests are") };
        format!("{requests} needed, and the budget of {} has {remaining} left", self.requests_max)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.budget.used().reserved -= self.tokens;
        self.budget.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn granted_tokens(
        budget: &Budget,
        input: u64,
        requested: Option<u64>,
    ) -> Result<Option<u64>, String> {
        budget.reserve(input, requested).await.map(|reserved| reserved.max_tokens)
    }

    #[tokio::test]
    async fn grants_only_the_remaining_tokens() {
        let budget = Budget::new(100, 1);
        assert_eq!(granted_tokens(&budget, 40, Some(60)).await, Ok(Some(60)));
        assert_eq!(granted_tokens(&budget, 40, None).await, Ok(Some(60)));
        budget.spend(50);
        assert_eq!(granted_tokens(&budget, 40, None).await, Ok(Some(10)));
        let error = granted_tokens(&budget, 40, Some(11)).await.unwrap_err();
        assert_eq!(error, "about 51 tokens are needed, and the budget of 100 has 50 left");
        budget.spend(u64::MAX);
        assert!(granted_tokens(&budget, 0, None).await.is_err());
    }

    #[tokio::test]
    async fn limits_answers_only_if_little_is_left() {
        let budget = Budget::new(TOKENS_MAX, 1);
        assert_eq!(granted_tokens(&budget, 1_000, None).await, Ok(None));
        assert_eq!(granted_tokens(&budget, TOKENS_MAX - 10, None).await, Ok(Some(10)));
        assert!(granted_tokens(&budget, u64::MAX, None).await.is_err());
    }

    #[tokio::test]
    async fn waits_for_concurrent_requests() {
        let budget = Budget::new(100, 1);
        let first = budget.reserve(40, Some(40)).await.unwrap();
        let second = budget.reserve(10, Some(30));
        tokio::pin!(second);
        let pending = tokio::select! {
            biased;
            _ = &mut second => false,
            () = tokio::task::yield_now() => true,
        };
        assert!(pending);
        budget.spend(45);
        drop(first);
        assert_eq!(second.await.map(|reserved| reserved.max_tokens), Ok(Some(30)));
    }

    #[test]
    fn counts_requests() {
        let budget = Budget::new(100, 2);
        assert!(budget.count_request().is_ok() && budget.check(1, 100).is_ok());
        assert_eq!(budget.check(2, 0).unwrap_err(), "2 requests are needed, and the budget of 2 has 1 left");
        assert!(budget.count_request().is_ok());
        assert_eq!(
            budget.count_request().unwrap_err(),
            "1 request is needed, and the budget of 2 has 0 left"
        );
        assert_eq!(
            budget.check(0, 101).unwrap_err(),
            "about 101 tokens are needed, and the budget of 100 has 100 left"
        );
    }
}
