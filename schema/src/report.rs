//! The report of a batch: the result for each transcript, and the totals.
//!
//! The host writes each transcript on its own line, so programs can also read the report line by line.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the report that this crate describes.
pub const REPORT: u32 = 1;

/// The report of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "batch-report")]
pub struct BatchReport {
    /// The version of the report format. The name of this member identifies the document.
    pub jp_compact_report: u32,
    /// The version of the host.
    pub jp_compact: String,
    /// Whether this was a dry run, which writes nothing.
    pub dry_run: bool,
    /// The estimator that counted the tokens, for example `chars/4`.
    pub estimator: String,
    /// The part of the transcripts that this run processed. Absent if it processed all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardOf>,
    /// The results for each transcript, ordered by path.
    pub transcripts: Vec<TranscriptReport>,
    /// The totals of all transcripts.
    pub total: BatchTotal,
    /// The results of the requested gates.
    pub gates: Vec<GateReport>,
    /// Whether the report has all transcripts. False after an interruption.
    pub complete: bool,
}

/// One part of the transcripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardOf {
    /// The number of this part, from 0.
    pub index: u64,
    /// The number of parts.
    pub of: u64,
}

/// The result for one transcript.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TranscriptReport {
    /// The path of the file, as found in the given path.
    pub path: String,
    /// The bytes of the path in base64, if they are not valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The id of the conversation, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// The outcome.
    pub status: Status,
    /// The SHA-256 of the file after the run. A resumed batch does not repeat work on the same bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The time from reading the first byte to the result, in milliseconds. Other transcripts run in parallel.
    pub elapsed_ms: f64,
    /// The sizes of the transcript.
    #[serde(flatten)]
    pub size: Size,
    /// The new overlays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlays: Vec<OverlayReport>,
    /// The strategies that made no overlay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declines: Vec<DeclineReport>,
    /// The lint rules that the view breaks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lint: Vec<LintReport>,
    /// Problems of the transcript that were ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Remarks for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The file that the view was written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<OutReport>,
    /// The gates that the transcript does not pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<MissReport>,
    /// The error, if the transcript failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// The outcome for a transcript.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// New overlays were made.
    Compacted,
    /// There was nothing to compact.
    #[default]
    Unchanged,
    /// The transcript already has the overlays of the same strategies for the same events.
    Skipped,
    /// An error occurred, and nothing was changed.
    Failed,
}

/// The sizes of a transcript, or of all transcripts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Size {
    /// The tokens of the view before this run.
    pub view_tokens_before: u64,
    /// The total size.
    #[serde(flatten)]
    pub all: AllSizes,
    /// The size of each content type.
    pub by_type: BTreeMap<String, Sizes>,
    /// The size of each tool's calls: arguments and content.
    pub by_tool: BTreeMap<String, Sizes>,
}

/// The total size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllSizes {
    /// In tokens.
    pub tokens: AllTokens,
    /// In bytes of text, decoded.
    pub bytes: BeforeAfter,
}

/// The tokens of the raw events, of the view, and of what JP sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllTokens {
    /// In the raw events.
    pub before: u64,
    /// In the view after the batch.
    pub after: u64,
    /// For conversations of JP, the tokens that JP itself sends. JP applies only the overlays that its own format can
    /// express. Absent for other formats, and if views are written to another folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jp: Option<BeforeAfter>,
}

/// The size of one kind of content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// In tokens.
    pub tokens: BeforeAfter,
    /// In bytes of text, decoded.
    pub bytes: BeforeAfter,
}

/// The size in the raw events and in the view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BeforeAfter {
    /// In the raw events.
    pub before: u64,
    /// In the view after the batch.
    pub after: u64,
}

/// One overlay and its origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverlayReport {
    /// The number of the overlay in the transcript, from 1.
    pub number: usize,
    /// The strategy's name.
    pub strategy: String,
    /// The strategy's version.
    pub version: String,
    /// The SHA-256 of the strategy's executable.
    pub executable_sha256: String,
    /// The tier in which the strategy was confined.
    pub tier: String,
    /// The first turn, from 0.
    pub from_turn: usize,
    /// The last turn, inclusive.
    pub to_turn: usize,
    /// The kinds of content that the overlay changes.
    pub kinds: Vec<String>,
}

/// A strategy that made no overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeclineReport {
    /// The name of the strategy.
    pub strategy: String,
    /// The version of the strategy.
    pub version: String,
    /// The reason.
    pub reason: String,
}

/// A lint rule that a view breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LintReport {
    /// The id of the rule.
    pub rule: String,
    /// The provider whose request body breaks the rule. Absent for rules about the view itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The problem and its place.
    pub message: String,
}

/// A view that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutReport {
    /// The path of the file, relative to the given folder.
    pub path: String,
    /// The SHA-256 of the file.
    pub sha256: String,
}

/// A gate that a transcript does not pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissReport {
    /// The name of the gate: its option without the dashes.
    pub gate: String,
    /// The value found.
    pub found: String,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReport {
    /// The exit code of the same failure in a run with only this transcript.
    pub code: u8,
    /// The error message.
    pub message: String,
    /// The causes, outermost first.
    pub causes: Vec<String>,
    /// The next step for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The totals of a batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchTotal {
    /// The number of transcripts.
    pub transcripts: u64,
    /// The number of transcripts with new overlays. In a dry run, those that would have new overlays.
    pub compacted: u64,
    /// The number of transcripts with nothing to compact.
    pub unchanged: u64,
    /// The number of transcripts that already had the overlays.
    pub skipped: u64,
    /// The number of transcripts that failed.
    pub failed: u64,
    /// The number of transcripts that an earlier run had completed.
    pub resumed: u64,
    /// The number of new overlays.
    pub overlays: u64,
    /// The number of violations of lint rules.
    pub violations: u64,
    /// The sizes of all transcripts that did not fail.
    #[serde(flatten)]
    pub size: Size,
    /// The share of the raw tokens that a model is not sent, in percent. For conversations of JP, it depends on what JP
    /// sends. For other transcripts, it depends on the view.
    pub saved_percent: f64,
    /// The duration, in milliseconds.
    pub elapsed_ms: f64,
}

/// The result of a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateReport {
    /// The name of the gate: its option without the dashes.
    pub gate: String,
    /// The requested value.
    pub wanted: String,
    /// Whether the gate passed.
    pub met: bool,
    /// The number of transcripts that did not pass, or the total value.
    pub found: String,
}
