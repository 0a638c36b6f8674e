//! The report of a batch: the result for each transcript, and the totals.
//!
//! The host writes each transcript on its own line, so programs can also read the report line by line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::{DeclineReport, ErrorReport, OverlayReport, RawAndView, Saved, Sizes, TokenCounts};

/// The version of the report that this crate describes.
pub const REPORT: u32 = 1;

/// The report of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "batch-report"))]
pub struct BatchReport {
    /// The version of the report format. The name of this member identifies the document.
    pub jp_compact_report: u32,
    /// The version of the host.
    pub jp_compact: String,
    /// Whether this was a dry run, which writes nothing.
    pub dry_run: bool,
    /// The estimator that counted the tokens, for example `pieces`.
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
    /// The error that ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
    /// Whether the report has all transcripts. False after an interruption.
    pub complete: bool,
}

/// One part of the transcripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ShardOf {
    /// The number of this part, from 0.
    pub index: u64,
    /// The number of parts.
    pub of: u64,
}

/// The result for one transcript.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
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
    /// The effect of this run.
    pub saved: Saved,
    /// The tokens that the view shows again, because a new policy replaces an older one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restored_tokens: u64,
    /// The new overlays. An overlay that several strategies share has one entry for each.
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
    /// The file that the view was written to. If the transcript failed, the view of an earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<OutReport>,
    /// The checks of the view that were requested: `require-constraints`, and the providers of `require-valid`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// The gates that the transcript does not pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<MissReport>,
    /// The error, if the transcript failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The outcome for a transcript.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Size {
    /// The size in tokens.
    pub tokens: TokenCounts,
    /// The size in bytes of decoded text.
    pub bytes: RawAndView,
    /// The size of each content type.
    pub by_type: BTreeMap<String, Sizes>,
    /// The size of each tool's calls: arguments and content.
    pub by_tool: BTreeMap<String, Sizes>,
}

/// A lint rule that a view breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct OutReport {
    /// The path of the file, relative to the given folder.
    pub path: String,
    /// The SHA-256 of the file.
    pub sha256: String,
}

/// A gate that a transcript does not pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct MissReport {
    /// The name of the gate: its option without the dashes.
    pub gate: String,
    /// The problem: the measured value, or the first violation of a lint rule.
    pub found: String,
}

/// The totals of a batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
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
    /// The raw tokens that are not sent to a model. For a conversation of JP, these are the raw tokens minus the tokens
    /// that JP sends. For another transcript, they are the raw tokens minus the tokens of the view.
    pub saved: Saved,
    /// The duration, in milliseconds.
    pub elapsed_ms: f64,
}

/// The result of a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
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
