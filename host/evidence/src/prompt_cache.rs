//! The effect of a compaction on a provider's prompt cache: the part of the cached view that stays valid, and whether
//! the cache still has the conversation.

use jiff::{SignedDuration, Timestamp};
use jp_compact_core::estimate::{Estimate, tokens};
use jp_compact_core::event::{Event, Kind};
use jp_compact_core::view::Part;
use jp_compact_core::{Stream, View};

use crate::prices::PriceFamily;

/// The leading tokens of a view that a compaction leaves unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnchangedPrefix {
    /// The tokens up to the first change.
    pub tokens: u64,
    /// The tokens up to the last end of a request before the first change.
    pub request_tokens: u64,
}

impl UnchangedPrefix {
    /// Compares the view of the last request with the view after a compaction.
    #[must_use]
    pub fn new(stream: &Stream, estimate: &Estimate, before: &View, after: &View) -> Self {
        let (old, new) = (before.items(), after.items());
        let is_equal = |part: &Part, other: &Part| match (whole_element(part), whole_element(other)) {
            (Some(element), Some(other)) => element == other,
            _ => part == other,
        };
        let equal = old.iter().zip(new).take_while(|(old, new)| is_equal(&old.part, &new.part)).count();
        let (mut weight, mut request_weight, mut last_step) = (0, 0, None);
        // The first changed event is part of the loop because a request may end before it.
        for (index, item) in old.iter().enumerate().take(equal + 1) {
            let step = item.part.element().and_then(|element| step_of_model(stream, element));
            if step.is_some() && step != last_step {
                (request_weight, last_step) = (weight, step);
            }
            if index < equal {
                weight += estimate.part_weight(&item.part);
            }
        }
        if equal == old.len() {
            request_weight = weight;
        }
        Self { tokens: tokens(weight), request_tokens: tokens(request_weight) }
    }

    /// Returns the tokens that the cache of a provider still has.
    #[must_use]
    pub fn cached_tokens(&self, family: &PriceFamily) -> u64 {
        match family.block {
            0 => self.request_tokens,
            block => self.tokens - self.tokens % block,
        }
    }
}

/// Returns the element that a part shows whole.
fn whole_element(part: &Part) -> Option<usize> {
    match part {
        Part::Kept(element) | Part::Short(element) => Some(*element),
        _ => None,
    }
}

/// Returns the turn and the step of an event of the model.
fn step_of_model(stream: &Stream, element: usize) -> Option<(usize, usize)> {
    let event = &stream.events()[element];
    is_of_model(event).then(|| Some((event.turn, stream.steps().step(element)?)))?
}

fn is_of_model(event: &Event) -> bool {
    event.kind.is_chat_response() || event.kind == Kind::ToolRequest
}

/// The age of a cache, compared with the provider's time to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheAge {
    /// The cache has the conversation.
    Fresh,
    /// The cache has forgotten the conversation.
    Expired,
    /// The transcript has no times.
    Unknown,
}

impl CacheAge {
    /// Compares the time of the last request with the clock. After a request in the future, the cache is fresh, because
    /// clocks differ.
    #[must_use]
    pub fn new(last_request: Option<Timestamp>, now: Timestamp, family: &PriceFamily) -> Self {
        let Some(last_request) = last_request else { return Self::Unknown };
        let ttl = SignedDuration::from_mins(family.ttl_minutes.into());
        if now.duration_since(last_request) > ttl { Self::Expired } else { Self::Fresh }
    }
}

/// Returns the time of the last request, which is the time of the newest event of the model. `None` if the transcript
/// has no times.
#[must_use]
pub fn last_request(stream: &Stream) -> Option<Timestamp> {
    let times = stream.events().iter().filter(|event| is_of_model(event)).filter_map(|event| event.timestamp);
    // A reader uses the epoch for an event without a time.
    times.max().filter(|time| *time != Timestamp::UNIX_EPOCH)
}

/// Returns the number of requests until a view has more than `limit` tokens, if the conversation grows as it did so
/// far. `None` if it has not grown.
#[must_use]
pub fn requests_until(limit: u64, view_tokens: u64, stream: &Stream, stream_tokens: u64) -> Option<f64> {
    let steps = stream.steps().total();
    let growth = stream_tokens as f64 / steps as f64;
    (steps > 0 && stream_tokens > 0).then(|| limit.saturating_sub(view_tokens) as f64 / growth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices::Prices;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn cache_is_fresh_until_its_time_to_live_has_passed() {
        let prices = Prices::built_in();
        let last = time("2026-03-18T12:00:00Z");
        for (now, expected) in [
            ("2026-03-18T12:00:00Z", CacheAge::Fresh),
            ("2026-03-18T12:05:00Z", CacheAge::Fresh),
            ("2026-03-18T12:05:01Z", CacheAge::Expired),
            ("2027-03-18T12:00:00Z", CacheAge::Expired),
            // The clock is earlier than the last request.
            ("2026-03-18T11:00:00Z", CacheAge::Fresh),
            ("1990-01-01T00:00:00Z", CacheAge::Fresh),
        ] {
            assert_eq!(CacheAge::new(Some(last), time(now), &prices.families[0]), expected, "{now}");
        }
        assert_eq!(CacheAge::new(None, last, &prices.families[0]), CacheAge::Unknown);
        let extremes = [Timestamp::MIN, Timestamp::MAX];
        for (last, now) in extremes.iter().flat_map(|last| extremes.iter().map(move |now| (*last, *now))) {
            let expired = last == Timestamp::MIN && now == Timestamp::MAX;
            let expected = if expired { CacheAge::Expired } else { CacheAge::Fresh };
            assert_eq!(CacheAge::new(Some(last), now, &prices.families[0]), expected);
        }
    }
}
