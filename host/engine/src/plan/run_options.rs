//! The settings of a command, which a planner applies to every transcript.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jp_compact_core::Overlap;
use jp_compact_core::estimate::Estimator;
use jp_compact_core::render::Provider;
use jp_compact_evidence::prices::Prices;

use crate::compact::{OnLowSaving, Sandbox};

/// The settings of a command. They apply to every transcript.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Additional configuration files. They override the user's file and the workspace's file.
    pub config_files: Vec<PathBuf>,
    /// Configured values as `key=value`. They override every file.
    pub config_values: Vec<String>,
    pub sandbox: Sandbox,
    /// The time limit of one round of a request, in place of the manifest's.
    pub deadline: Option<Duration>,
    /// The value for the option `focus` of every strategy that has this option.
    pub focus: Option<String>,
    /// The overlaps that extend the range of a summary, in place of the configured setting.
    pub overlap: Option<Overlap>,
    /// The maximum wait for the lock of a transcript.
    pub lock_timeout: Duration,
    /// The time of the run, in place of the system clock.
    pub now: Option<Timestamp>,
    /// If true, the run appends nothing and asks no model.
    pub dry_run: bool,
    pub estimator: Estimator,
    /// If true, the run appends even if the view violates a lint rule.
    pub allow_invalid: bool,
    /// If true, a result whose view lost a constraint of the user is refused.
    pub require_constraints: bool,
    /// The providers whose rules the view must also satisfy.
    pub providers: Vec<Provider>,
    /// If true, a person reads the report on a terminal.
    pub on_terminal: bool,
    /// If false, the report is not shown. Then lost paths are not computed, and costs only for `auto` and `query`.
    pub shows_report: bool,
    /// The prices of cached input, in place of the built-in prices.
    pub prices: Option<Arc<Prices>>,
}

impl RunOptions {
    /// Returns whether the report lists lost paths. The search takes time, so only dry runs and terminals show them.
    pub(super) fn reports_losses(&self) -> bool {
        self.shows_report && (self.dry_run || self.on_terminal)
    }

    /// Returns the prices for the report of a run. Only dry runs, `auto`, and `query` report their cost, because it
    /// takes time.
    pub(super) fn reported_prices(&self, on_low_saving: OnLowSaving) -> Option<Arc<Prices>> {
        let is_reported = (self.shows_report && self.dry_run) || on_low_saving == OnLowSaving::Decline;
        is_reported.then(|| self.prices.clone().unwrap_or_else(|| Arc::new(Prices::built_in())))
    }
}
