//! The report of a batch: what was done to each transcript, and in all. Written by the host for whoever acts on it,
//! one line for each transcript, so that it can be read line by line too.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the report that this crate describes.
pub const REPORT: u32 = 1;

/// The report of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "batch-report")]
pub struct BatchReport {
    /// What it is, and in which version.
    pub jp_compact_report: u32,
    /// The version of the host.
    pub jp_compact: String,
    /// Whether nothing was appended or written.
    pub dry_run: bool,
    /// How tokens were counted.
    pub estimator: String,
    /// Which part of all transcripts it is about, where it is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardOf>,
    /// The transcripts, in the order of their paths.
    pub transcripts: Vec<TranscriptReport>,
    /// The sums over them.
    pub total: BatchTotal,
    /// The gates that were asked for.
    pub gates: Vec<GateReport>,
    /// Whether every transcript is in it: an interrupted batch is not complete.
    pub complete: bool,
}

/// One of so many parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardOf {
    /// Its number, from 0.
    pub index: u64,
    /// How many there are.
    pub of: u64,
}

/// What became of one transcript.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TranscriptReport {
    /// The file, as it was found below the path that was given.
    pub path: String,
    /// The bytes of the path in base64, where they are no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// The conversation's id, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    /// What became of it.
    pub status: Status,
    /// SHA-256 of the file as the run left it: what was done to these bytes is not done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// How long it took, from its first byte; others were worked on meanwhile.
    pub elapsed_ms: f64,
    /// How large it is.
    #[serde(flatten)]
    pub size: Size,
    /// The overlays that were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlays: Vec<OverlayReport>,
    /// The strategies that made none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declines: Vec<DeclineReport>,
    /// The rules that the view breaks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lint: Vec<LintReport>,
    /// What is wrong with the transcript, and was passed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What somebody should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Where the view was written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out: Option<OutReport>,
    /// The gates that it does not meet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<MissReport>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// What became of a transcript.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Overlays were made.
    Compacted,
    /// There was nothing to do.
    #[default]
    Unchanged,
    /// It carries the overlays already that the same strategies made of the same events.
    Skipped,
    /// Nothing was done to it.
    Failed,
}

/// How large a transcript, or all of them are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Size {
    /// Tokens of the view before, as a model would have been sent it.
    pub view_tokens_before: u64,
    /// Everything.
    #[serde(flatten)]
    pub all: AllSizes,
    /// By content type.
    pub by_type: BTreeMap<String, Sizes>,
    /// By tool: arguments and content together.
    pub by_tool: BTreeMap<String, Sizes>,
}

/// How large everything is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllSizes {
    /// In tokens.
    pub tokens: AllTokens,
    /// In bytes of text, decoded.
    pub bytes: BeforeAfter,
}

/// How many tokens there are in the raw events, how many the view shows, and how many JP sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllTokens {
    /// In the raw events.
    pub before: u64,
    /// In the view, once the batch is done.
    pub after: u64,
    /// Of JP's conversations, what JP itself sends of them: it applies the overlays that its own grammar has. Not there
    /// for other transcripts, nor where views are written to another folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jp: Option<BeforeAfter>,
}

/// How large something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// In tokens.
    pub tokens: BeforeAfter,
    /// In bytes of text, decoded.
    pub bytes: BeforeAfter,
}

/// What there is in the raw events, and what the view shows of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BeforeAfter {
    /// In the raw events.
    pub before: u64,
    /// In the view, once the batch is done.
    pub after: u64,
}

/// One overlay, and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverlayReport {
    /// Its number in the transcript, from 1.
    pub number: usize,
    /// The strategy's name.
    pub strategy: String,
    /// The strategy's version.
    pub version: String,
    /// SHA-256 of its executable.
    pub executable_sha256: String,
    /// How far it was confined.
    pub tier: String,
    /// First turn, from 0.
    pub from_turn: usize,
    /// Last turn, inclusive.
    pub to_turn: usize,
    /// What it has an opinion on.
    pub kinds: Vec<String>,
}

/// A strategy that made no overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeclineReport {
    /// Its name.
    pub strategy: String,
    /// Its version.
    pub version: String,
    /// Why.
    pub reason: String,
}

/// A rule that a view breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LintReport {
    /// The rule.
    pub rule: String,
    /// Whose request body breaks it; none for the view itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// What is wrong, and where.
    pub message: String,
}

/// A view that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutReport {
    /// The file, below the folder that was given.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
}

/// A gate that a transcript does not meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissReport {
    /// The gate's name: the flag, without the dashes.
    pub gate: String,
    /// What was found.
    pub found: String,
}

/// Why something failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReport {
    /// The exit code that it would have by itself.
    pub code: u8,
    /// What failed.
    pub message: String,
    /// Why, outermost first.
    pub causes: Vec<String>,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The sums of a batch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchTotal {
    /// How many transcripts it is about.
    pub transcripts: u64,
    /// How many got overlays, or would get them.
    pub compacted: u64,
    /// How many had nothing to be done.
    pub unchanged: u64,
    /// How many carried what would have been made.
    pub skipped: u64,
    /// How many failed.
    pub failed: u64,
    /// How many an earlier run had done.
    pub resumed: u64,
    /// How many overlays were made.
    pub overlays: u64,
    /// How many rules views break.
    pub violations: u64,
    /// How large they are, those that failed left out.
    #[serde(flatten)]
    pub size: Size,
    /// Of the tokens of the raw events, how many percent a model is not sent: of JP's conversations by JP, of others by
    /// whoever sends their views.
    pub saved_percent: f64,
    /// How long it took.
    pub elapsed_ms: f64,
}

/// A gate, and whether it was met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateReport {
    /// Its name: the flag, without the dashes.
    pub gate: String,
    /// What was asked for.
    pub wanted: String,
    /// Whether it was met.
    pub met: bool,
    /// By how many transcripts it was not met, or what the total came to.
    pub found: String,
}
