//! The parameters of an evaluation, and its rows.

use jp_compact_core::estimate::Estimator;
use jp_compact_core::select::{KeepLast, Selection};
use jp_compact_engine::compact::{Error, RunSettings};
use jp_compact_evidence::prices::Prices;
use jp_compact_schema::document::ErrorReport;
use serde_json::{Map, Value};

/// The numbers of compactions of [`crate::rounds`].
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

/// A row of the report.
#[derive(Debug, Clone, PartialEq)]
pub struct RowSpec {
    pub kind: RowKind,
    pub name: String,
    /// The row as on the command line.
    pub label: String,
    /// The options, with their defaults.
    pub options: Map<String, Value>,
    /// The file with recorded answers.
    pub answers: Option<String>,
}

/// The way in which a row makes its view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// The whole prefix.
    Whole,
    /// Nothing.
    Nothing,
    /// A strategy.
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
#[must_use]
pub fn whole_selection() -> Selection {
    Selection { keep_last: KeepLast::turns(0), ..Selection::default() }
}

/// Makes the settings of each row's strategy for one more thread. `None` for a control.
pub type MakeRuns<'a> = dyn Fn() -> Vec<Option<RunSettings>> + 'a;

/// Converts an error for the report. The caller provides it, because exit codes and hints belong to the command line.
pub type DescribeError<'a> = dyn Fn(Error) -> ErrorReport + Sync + 'a;
