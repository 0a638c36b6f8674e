//! The rule by which automatic compaction waits for a cold prompt cache. With a cold cache, a compaction rewrites
//! nothing in the cache, so at most its summary has a cost. A compaction never waits if the window is almost full
//! (docs/decisions/0029-cost-of-auto.md).

use jp_compact_core::Survey;
use jp_compact_evidence::prompt_cache::requests_until;
use jp_compact_schema::document::{AutoWait, CacheCost, CacheState, WaitReason};

/// The condition under which a compaction waits because of its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitRule {
    /// With more tokens in the view, a compaction never waits.
    pub view_max: u64,
}

impl WaitRule {
    /// The part of a window up to which a compaction waits, in percent.
    pub const WINDOW_PERCENT: u64 = 90;

    /// Returns the rule for a context window.
    #[must_use]
    pub fn for_window(tokens: u64) -> Self {
        Self { view_max: tokens / 100 * Self::WINDOW_PERCENT + tokens % 100 * Self::WINDOW_PERCENT / 100 }
    }

    /// Returns the reason to wait with a compaction of this cost.
    pub(super) fn reason(self, cost: &CacheCost, survey: &Survey<'_>, view_tokens: u64) -> Option<AutoWait> {
        if cost.state == CacheState::Cold || view_tokens > self.view_max {
            return None;
        }
        let stream_tokens = survey.estimate.stream_tokens();
        let requests_left = requests_until(self.view_max, view_tokens, survey.stream, stream_tokens)?;
        let reason = match cost.break_even_requests {
            None => WaitReason::NeverPaysBack,
            Some(requests) if requests > requests_left => WaitReason::PaysBackTooLate,
            Some(_) => return None,
        };
        Some(AutoWait {
            reason,
            break_even_requests: cost.break_even_requests,
            requests_left: (requests_left * 10.0).round() / 10.0,
            view_max: self.view_max,
        })
    }
}

/// Returns the reason as the end of a sentence about a compaction.
#[must_use]
pub fn wait_text(wait: &AutoWait) -> String {
    let left = format!(
        "the view reaches {} % of the window after about {:.0}",
        WaitRule::WINDOW_PERCENT,
        wait.requests_left
    );
    match wait.break_even_requests {
        Some(requests) => format!("it would pay back after {:.0} requests, and {left}", requests.ceil()),
        None => format!("it would never pay back, and {left} requests"),
    }
}
