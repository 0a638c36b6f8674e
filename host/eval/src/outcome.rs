//! The result of one row of the report on one transcript.

use std::collections::BTreeSet;
use std::time::Duration;

use jp_compact_evidence::cache::CompactionCost;
use jp_compact_evidence::recall::RecallCounts;
use jp_compact_schema::document::ErrorReport;

use crate::page::PageRow;

/// The result of a row on one transcript.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowOutcome {
    pub(crate) cuts: usize,
    pub(crate) declines: usize,
    pub(crate) decline_reasons: BTreeSet<String>,
    pub(crate) raw: u64,
    pub(crate) view_before: u64,
    pub(crate) view_after: u64,
    pub(crate) recall: RecallCounts,
    pub(crate) newest: ControlOutcome,
    pub(crate) random: ControlOutcome,
    /// One entry for each family of prices.
    pub(crate) costs: Vec<CompactionCost>,
    pub(crate) rules_broken: usize,
    pub(crate) replay: Option<ReplayOutcome>,
    pub(crate) rounds: Vec<RoundOutcome>,
    pub(crate) time: Duration,
    /// The data of the page for each cut.
    pub(crate) page: Vec<PageRow>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ControlOutcome {
    pub(crate) tokens: u64,
    pub(crate) recall: RecallCounts,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReplayOutcome {
    pub(crate) cost: f64,
    pub(crate) requests: usize,
    pub(crate) largest_context: u64,
    pub(crate) compactions: usize,
    pub(crate) above_window: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundOutcome {
    pub(crate) n: usize,
    pub(crate) view_before: u64,
    pub(crate) view_after: u64,
    pub(crate) recall: RecallCounts,
}

impl ReplayOutcome {
    pub(crate) fn add(&mut self, other: &Self) {
        self.cost += other.cost;
        self.requests += other.requests;
        self.largest_context = self.largest_context.max(other.largest_context);
        self.compactions += other.compactions;
        self.above_window += other.above_window;
    }
}

/// A row that failed on a transcript.
#[derive(Debug, Clone)]
pub(crate) struct RowError {
    pub(crate) error: ErrorReport,
}
