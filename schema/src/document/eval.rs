//! The report of `eval`: what each strategy keeps of the names that the conversation used again, and what it costs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::ErrorReport;
use super::eval_cost::{EvalCache, EvalPrices, EvalReplay};
use super::tokens::{Saved, TokenCounts};

/// The report of `eval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "eval-report"))]
pub struct EvalReport {
    /// The transcripts, in the order of the command line and of their folders.
    pub transcripts: Vec<EvalTranscript>,
    /// The rows: first the controls `none` and `drop-all`, then the strategies in the order of the command line.
    pub strategies: Vec<EvalRow>,
    /// The estimator that counted the tokens, for example `pieces`.
    pub estimator: String,
    /// The prices of the cache cost.
    pub prices: EvalPrices,
    /// The context window of the replay, in tokens.
    pub window: u64,
    /// The part of the window that a replayed context may fill before it is compacted, in percent.
    pub threshold_percent: f64,
    /// The minimum number of anchors at risk for a percentage.
    pub at_risk_min: u64,
    /// The gates of the command line, in the order of the options.
    pub gates: Vec<EvalGate>,
}

/// One transcript of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalTranscript {
    /// The path of the transcript.
    pub path: String,
    /// The SHA-256 of the file. Empty if it could not be read.
    pub sha256: String,
    /// The format of the transcript. Null if it could not be read.
    pub format: Option<String>,
    /// The number of events with text.
    pub events: usize,
    /// The number of tool results.
    pub results: usize,
    /// The number of cut points that were used.
    pub cuts: usize,
    /// The cut points that were used.
    pub cut_points: Vec<EvalCutPoint>,
    /// The reason why no cut point could be used. Null if one could be used.
    pub not_enough_data: Option<String>,
    /// The failure to read the transcript. Null if it was read.
    pub error: Option<ErrorReport>,
}

/// A point at which a transcript was compacted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalCutPoint {
    /// The part of the characters of all tool results that precede the cut, in percent.
    pub percent: f64,
    /// The number of events with text before the cut.
    pub events: usize,
    /// The number of tool results before the cut.
    pub results: usize,
    /// The number of events of the assistant after the cut.
    pub assistant_after: usize,
}

/// One strategy with its options, over all cuts of all transcripts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalRow {
    /// The name of the strategy, or `none` or `drop-all`.
    pub name: String,
    /// The row as it is written on the command line, for example `extract:budget=0.3`.
    pub label: String,
    /// The options of the strategy, with their defaults.
    pub options: Map<String, Value>,
    /// The file with the recorded answers of a model. Null without one.
    pub answers: Option<String>,
    /// Whether the row has results.
    pub status: EvalStatus,
    /// The failure of the strategy. Null unless `status` is `failed`.
    pub error: Option<ErrorReport>,
    /// The transcript on which the strategy failed. Null unless `status` is `failed`.
    pub failed_on: Option<String>,
    /// The number of cuts.
    pub cuts: usize,
    /// The number of cuts at which the strategy made no overlay.
    pub declines: usize,
    /// The reasons for the declines, each once.
    pub decline_reasons: Vec<String>,
    /// The tokens of all prefixes, and of their views. `jp` is null.
    pub tokens: TokenCounts,
    /// The saving over all cuts.
    pub saved: Saved,
    /// The recall over all cuts.
    pub recall: EvalRecall,
    /// The cost of one compaction, over all cuts.
    pub cache: EvalCache,
    /// The cost of the whole sessions. Null without results.
    pub replay: Option<EvalReplay>,
    /// The recall of simple choices of the same size.
    pub controls: EvalControls,
    /// The recall after several compactions. Empty without `--rounds`.
    pub rounds: Vec<EvalRound>,
    /// The number of provider rules that the views break and the prefixes do not, over all cuts.
    pub rules_broken: usize,
    /// The time of all compactions in milliseconds. Only with `--timings`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<f64>,
}

/// The state of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EvalStatus {
    /// It has results.
    Ok,
    /// No transcript has a cut point.
    NotEnoughData,
    /// The strategy failed. The numbers are zero.
    Failed,
}

/// The recall by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalRecall {
    /// Paths of files.
    pub path: EvalRecallCount,
    /// Numbers of at least three digits.
    pub number: EvalRecallCount,
    /// Names in snake case and camel case.
    pub identifier: EvalRecallCount,
    /// Lower-case words of at least seven letters that occur in at most two events of the prefix.
    pub word: EvalRecallCount,
    /// First lines of shell commands.
    pub command: EvalRecallCount,
    /// Lines of tool results that report an error.
    pub error: EvalRecallCount,
    /// Runs of eight words of a tool result.
    pub quote: EvalRecallCount,
    /// Sentences in which the user sets a rule.
    pub constraint: EvalRecallCount,
}

/// The recall of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalRecallCount {
    /// The anchors at risk that the view still has.
    pub kept: u64,
    /// The anchors that the assistant used again before the user or a tool repeated them.
    pub at_risk: u64,
    /// `kept` in percent of `at_risk`. Null with too few anchors at risk.
    pub percent: Option<f64>,
    /// The bootstrap interval of `percent` over the transcripts: 95 % of the samples. Null with too few anchors at
    /// risk.
    pub interval: Option<[f64; 2]>,
}

/// The recall of simple choices that have at most as many tokens as the views of the row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalControls {
    /// Whole events from the end of the prefix.
    pub newest: EvalControl,
    /// Whole events in an order that depends only on their positions.
    pub random: EvalControl,
}

/// The result of a control.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalControl {
    /// The tokens of its events, over all cuts.
    pub tokens: u64,
    /// Its recall.
    pub recall: EvalRecall,
}

/// The recall after several compactions, at the last cut.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalRound {
    /// The number of compactions.
    pub n: usize,
    /// The tokens of the prefixes.
    pub view_before: u64,
    /// The tokens of their views after the last compaction.
    pub view_after: u64,
    /// The recall.
    pub recall: EvalRecall,
}

/// A gate of the command line, and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalGate {
    /// The option, for example `--require-recall 90:path`.
    pub gate: String,
    /// Whether every row meets it.
    pub met: bool,
    /// The rows that do not meet it, each with the reason.
    pub failures: Vec<EvalGateFailure>,
}

/// A row that does not meet a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct EvalGateFailure {
    /// The label of the row.
    pub strategy: String,
    /// The reason, with the number.
    pub reason: String,
}
