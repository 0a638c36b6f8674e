//! The parameters of an evaluation, and its rows.

use jp_compact_core::estimate::Estimator;
use jp_compact_core::render::Provider;
use jp_compact_core::select::{KeepLast, Selection};
use jp_compact_engine::compact::{Error, RunSettings};
use jp_compact_evidence::cut::DEFAULT_CUTS;
use jp_compact_evidence::prices::Prices;
use jp_compact_schema::document::ErrorReport;
use serde_json::{Map, Value};

/// The numbers of compactions after which [`crate::rounds`] measures the recall.
pub const ROUNDS: [usize; 5] = [1, 2, 3, 5, 10];

/// The parameters of an evaluation, the same for all rows.
#[derive(Debug, Clone)]
pub struct EvalOptions {
    /// The cut points, in percent of the characters of the tool output.
    pub cuts: Vec<f64>,
    /// Whether several compactions in a row are evaluated.
    pub rounds: bool,
    /// Whether the report has the time of the compactions.
    pub timings: bool,
    /// Whether the data of the page are collected.
    pub page: bool,
    /// The context window of the replay, in tokens.
    pub window: u64,
    /// The part of the window that a replayed context may fill, in percent.
    pub threshold_percent: f64,
    pub estimator: Estimator,
    pub prices: Prices,
}

/// The default context window of a replay, in tokens.
pub const DEFAULT_WINDOW: u64 = 200_000;
/// The default part of the window that a replayed context may fill, in percent.
pub const DEFAULT_THRESHOLD: f64 = 75.0;

impl EvalOptions {
    /// Returns the default parameters.
    #[must_use]
    pub fn new(estimator: Estimator) -> Self {
        Self {
            cuts: DEFAULT_CUTS.to_vec(),
            rounds: false,
            timings: false,
            page: false,
            window: DEFAULT_WINDOW,
            threshold_percent: DEFAULT_THRESHOLD,
            estimator,
            prices: Prices::built_in(),
        }
    }
}

/// Prepares the settings of a run for an evaluation: the run selects all turns, writes nothing, and reports broken
/// rules instead of failing.
pub fn prepare_run(run: &mut RunSettings) {
    run.io.in_memory = true;
    run.io.dry_run = false;
    run.policy.selection = whole_selection();
    run.policy.skip_existing = false;
    run.policy.allow_invalid = true;
    if run.policy.providers.is_empty() {
        run.policy.providers = Provider::ALL.to_vec();
    }
}

/// A row of the report.
#[derive(Debug, Clone, PartialEq)]
pub struct RowSpec {
    pub kind: RowKind,
    pub name: String,
    /// The row as it is written on the command line.
    pub label: String,
    /// The options, with their defaults.
    pub options: Map<String, Value>,
    /// The file with recorded answers.
    pub answers: Option<String>,
}

/// How a row makes its view of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// The view is the whole prefix.
    Whole,
    /// The view is empty.
    Nothing,
    /// A strategy compacts the prefix.
    Strategy,
}

impl RowSpec {
    /// Returns the controls that are in every report.
    #[must_use]
    pub fn fixed_controls() -> [Self; 2] {
        [(RowKind::Whole, "none"), (RowKind::Nothing, "drop-all")].map(|(kind, name)| Self {
            kind,
            name: name.to_owned(),
            label: name.to_owned(),
            options: Map::new(),
            answers: None,
        })
    }
}

/// Returns the selection of everything: no turn and no step is kept.
pub(crate) fn whole_selection() -> Selection {
    Selection { keep_last: KeepLast::turns(0), ..Selection::default() }
}

/// Makes the settings of all rows for one more thread. `None` for a control, which has no strategy.
pub type MakeRuns<'a> = dyn Fn() -> Vec<Option<RunSettings>> + 'a;

/// Converts an error for the report. The caller provides it, because exit codes and hints belong to the command line.
pub type DescribeError<'a> = dyn Fn(Error) -> ErrorReport + Sync + 'a;
