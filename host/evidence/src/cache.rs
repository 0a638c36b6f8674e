//! The cost of a compaction when the provider caches prefixes. A compaction changes the prefix, so the events after the
//! first change are written into the cache again. Costs are in tokens of uncached input.

use crate::prices::PriceFamily;

/// The sizes of a compaction, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CompactionSizes {
    /// The prefix before the compaction.
    pub before: u64,
    /// The view after it.
    pub after: u64,
    /// The leading events that are equal in both, up to the last cache breakpoint.
    pub unchanged: u64,
    /// The input that a model read for a summary.
    pub summary_input: u64,
    /// The output that a model wrote.
    pub summary_output: u64,
}

/// The cost of one compaction or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CompactionCost {
    pub unchanged: u64,
    pub summary: f64,
    pub one_time_warm: f64,
    pub one_time_cold: f64,
    pub per_request_before: f64,
    pub per_request_after: f64,
}

impl CompactionCost {
    #[must_use]
    pub fn new(sizes: &CompactionSizes, prices: &PriceFamily) -> Self {
        let (before, after) = (sizes.before as f64, sizes.after as f64);
        let unchanged = sizes.unchanged as f64;
        let summary = sizes.summary_input as f64 + sizes.summary_output as f64 * prices.output;
        let rewritten = (after - unchanged) * prices.write + unchanged * prices.read - before * prices.read;
        Self {
            unchanged: sizes.unchanged,
            summary,
            one_time_warm: rewritten.max(0.0) + summary,
            one_time_cold: summary,
            per_request_before: before * prices.read,
            per_request_after: after * prices.read,
        }
    }

    /// Returns the number of requests after which the compactions have paid for themselves. `None` if they save nothing.
    #[must_use]
    pub fn break_even(&self) -> Option<f64> {
        self.break_even_of(self.one_time_warm)
    }

    /// Like [`Self::break_even`], if the compactions cost `one_time`.
    #[must_use]
    pub fn break_even_of(&self, one_time: f64) -> Option<f64> {
        let saved = self.per_request_before - self.per_request_after;
        (saved > 0.0).then(|| one_time / saved)
    }
}

impl std::ops::AddAssign for CompactionCost {
    fn add_assign(&mut self, other: Self) {
        self.unchanged += other.unchanged;
        self.summary += other.summary;
        self.one_time_warm += other.one_time_warm;
        self.one_time_cold += other.one_time_cold;
        self.per_request_before += other.per_request_before;
        self.per_request_after += other.per_request_after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices::Prices;

    #[track_caller]
    fn check(sizes: CompactionSizes, one_time: f64, break_even: Option<f64>) {
        let prices = Prices::built_in();
        let cost = CompactionCost::new(&sizes, &prices.families[0]);
        assert!((cost.one_time_warm - one_time).abs() < 1e-9, "{cost:?}");
        assert_eq!(cost.break_even().map(|requests| (requests * 100.0).round() / 100.0), break_even);
    }

    #[test]
    fn cost_follows_the_definition() {
        let sizes = CompactionSizes { before: 1000, after: 400, unchanged: 0, ..CompactionSizes::default() };
        // 400 * 1.25 - 1000 * 0.05, and 600 * 0.05 are saved.
        check(sizes, 450.0, Some(15.0));
        // 300 * 1.25 + 100 * 0.05 - 1000 * 0.05
        check(CompactionSizes { unchanged: 100, ..sizes }, 330.0, Some(11.0));
        check(CompactionSizes { after: 10, ..sizes }, 0.0, Some(0.0));
        check(CompactionSizes { after: 1000, unchanged: 1000, ..sizes }, 0.0, None);
        check(CompactionSizes { after: 1200, unchanged: 1000, ..sizes }, 250.0, None);
        check(CompactionSizes { summary_input: 100, summary_output: 10, ..sizes }, 600.0, Some(20.0));
    }
}
