//! The trait that a strategy implements.

use jp_compact_schema::{CompactRequest, Description};

use crate::exchange::Exchange;
use crate::outcome::{Outcome, StrategyError};

/// A function from a request to compactions. It must not keep state between requests, because the host may send a request
/// to a new process or to one that has replied to other requests.
pub trait Strategy {
    /// Returns the description of the strategy. The time limit is 2 s.
    fn describe(&self) -> Description;

    /// Replies to one request. With `input: full`, `exchange` reads the events. Unread events are skipped.
    ///
    /// # Errors
    ///
    /// The strategy failed. If there is nothing to compact, return [`Outcome::Decline`] instead.
    fn compact(
        &self,
        request: &CompactRequest,
        exchange: &mut Exchange<'_>,
    ) -> Result<Outcome, StrategyError>;
}
