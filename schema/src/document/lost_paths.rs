//! The paths that stripped calls lose, in the reports of conversations of JP.

use serde::{Deserialize, Serialize};

/// The different paths in the arguments and results that `tool_calls = "strip"` removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct LostPaths {
    /// The number of different paths in the stripped arguments and results.
    pub stripped: usize,
    /// The number of these paths that the view does not name anywhere.
    pub lost: usize,
    /// Whether much is lost: at least five paths, and at least a quarter of the stripped paths.
    pub is_much: bool,
    /// A policy that JP applies too and that loses fewer. Null if the stripped arguments name no
    /// lost path.
    pub better: Option<BetterPolicy>,
}

/// A policy that loses fewer paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct BetterPolicy {
    /// The value of `tool_calls` in a profile, `strip-responses`.
    pub tool_calls: String,
    /// The number of paths that the view would not name with it.
    pub lost: usize,
}
