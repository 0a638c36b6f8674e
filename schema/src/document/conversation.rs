//! The reports about whole conversations: `show`, `stats`, `print`, `lint`, `fork`, and `import`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::compaction::CompactionReport;
use super::error::ErrorReport;
use super::lost_paths::LostPaths;
use super::tokens::{RawAndView, Saved, Sizes, TokenCounts, ViewTokens};

/// The report of `show`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "show-report"))]
pub struct ShowReport {
    /// The path of the transcript.
    pub path: String,
    /// The format of the transcript.
    pub format: String,
    /// The id of the conversation, if it has one.
    pub conversation_id: Option<String>,
    /// The model in a transcript of another program, as `provider/name`.
    pub model: Option<String>,
    /// The context window of that model, if it is known.
    pub context_window: Option<u64>,
    /// The estimator that counted the tokens, for example `pieces`.
    pub estimator: String,
    /// The number of turns.
    pub turns: usize,
    /// The number of events.
    pub events: usize,
    /// The size of the transcript, in bytes.
    pub file_bytes: u64,
    /// The origin of a session that `jp-compact` made. Null for any other transcript.
    pub origin: Option<ForkOrigin>,
    /// The overlays, oldest first.
    pub overlays: Vec<ShownOverlay>,
    /// The size of the conversation.
    pub tokens: TokenCounts,
    /// The effect of all overlays.
    pub saved: Saved,
    /// For a conversation of JP, the paths that stripped calls lose. Null if no overlay strips arguments.
    pub lost_paths: Option<LostPaths>,
    /// The size in bytes of decoded text.
    pub bytes: RawAndView,
    /// The size of each content type.
    pub by_type: BTreeMap<String, Sizes>,
    /// The size of each tool's calls: arguments and content.
    pub by_tool: BTreeMap<String, Sizes>,
}

/// The origin of a session that `jp-compact` made from another one. The session contains the view, so the overlays are
/// already applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ForkOrigin {
    /// The path of the copied session.
    pub source: String,
    /// The SHA-256 of the copied session.
    pub sha256: Option<String>,
    /// The time of the copy.
    pub at: Option<String>,
    /// The command that made the copy: `fork`, `resume`, or `mcp`.
    pub command: Option<String>,
    /// The number of overlays that the copy applies.
    pub overlays: Option<u64>,
    /// The overlays that the copy applies, oldest first. Empty in forks that earlier versions of jp-compact made.
    #[serde(default)]
    pub applied: Vec<AppliedOverlay>,
}

/// An overlay that a fork applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct AppliedOverlay {
    /// The time of the overlay.
    pub timestamp: String,
    /// The first turn, from 0.
    pub from_turn: usize,
    /// The last turn, inclusive.
    pub to_turn: usize,
    /// The strategies that made it.
    pub strategies: Vec<String>,
}

/// The images of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ImageReport {
    /// The number of images in the result.
    pub kept: usize,
    /// The number of images that the result lacks.
    pub lost: usize,
}

/// An overlay of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ShownOverlay {
    /// The number of the overlay, from 1.
    pub number: usize,
    /// The number that JP gives it. Null if JP does not apply it, and for other formats.
    pub jp_number: Option<usize>,
    /// The time of the overlay.
    pub timestamp: String,
    /// The first turn, from 0.
    pub from_turn: usize,
    /// The last turn, inclusive.
    pub to_turn: usize,
    /// The first step in `from_turn`. Absent for the whole turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<usize>,
    /// The last step in `to_turn`, inclusive. Absent for the whole turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_step: Option<usize>,
    /// The kinds of content that the overlay changes.
    pub kinds: Vec<String>,
    /// Whether JP itself applies the overlay.
    pub applied_by_jp: bool,
    /// The receipts as they are stored. An overlay that several strategies share has one for each.
    pub receipts: Vec<Map<String, Value>>,
    /// The tokens of the view without and with this overlay. All earlier overlays apply in both cases.
    pub tokens: ViewTokens,
    /// Further remarks.
    pub remarks: Vec<String>,
}

/// The report of `stats` on one conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "stats-report"))]
pub struct StatsReport {
    /// The path of the transcript.
    pub path: String,
    /// The id of the conversation, if it has one.
    pub conversation_id: Option<String>,
    /// The estimator that counted the tokens, for example `pieces`.
    pub estimator: String,
    /// The number of turns.
    pub turns: u64,
    /// The number of events.
    pub events: u64,
    /// The number of overlays.
    pub overlays: u64,
    /// The size of the conversation.
    pub tokens: TokenCounts,
    /// The effect of all overlays.
    pub saved: Saved,
    /// The size in bytes of decoded text.
    pub bytes: RawAndView,
    /// The size of each content type.
    pub by_type: BTreeMap<String, Sizes>,
    /// The size of each tool's calls: arguments and content.
    pub by_tool: BTreeMap<String, Sizes>,
}

/// The last line of `stats` on several conversations: the sums of those that could be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "stats-total"))]
pub struct StatsTotal {
    /// The number of conversations.
    pub transcripts: usize,
    /// The estimator that counted the tokens, for example `pieces`.
    pub estimator: String,
    /// The number of turns.
    pub turns: u64,
    /// The number of events.
    pub events: u64,
    /// The number of overlays.
    pub overlays: u64,
    /// The size of all conversations.
    pub tokens: TokenCounts,
    /// The effect of all overlays.
    pub saved: Saved,
    /// The size in bytes of decoded text.
    pub bytes: RawAndView,
    /// The size of each content type.
    pub by_type: BTreeMap<String, Sizes>,
    /// The size of each tool's calls: arguments and content.
    pub by_tool: BTreeMap<String, Sizes>,
}

/// The output of `print --json`: the events in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(transparent)]
#[cfg_attr(feature = "generate", schemars(title = "print-report"))]
pub struct PrintReport(pub Vec<PrintItem>);

/// One event that a model receives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct PrintItem {
    /// The turn in the view.
    pub turn: usize,
    /// The source of the event.
    pub origin: PrintOrigin,
    /// The event, with decoded text.
    pub event: Map<String, Value>,
}

/// The source of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PrintOrigin {
    /// A turn of the history.
    Kept(usize),
    /// A summary of turns of the history.
    Summary {
        /// The first turn, from 0.
        from: usize,
        /// The last turn, inclusive.
        to: usize,
    },
}

/// The report of `lint`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "lint-report"))]
pub struct LintDocument {
    /// The path of the transcript.
    pub path: String,
    /// The id of the conversation, if it has one.
    pub conversation_id: Option<String>,
    /// The providers whose rules were checked. Null without `--provider`.
    pub providers: Option<Vec<String>>,
    /// Whether no rule is violated. Warnings do not count.
    pub clean: bool,
    /// The violations and the warnings.
    pub violations: Vec<ViolationReport>,
}

/// A rule that a view violates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ViolationReport {
    /// The id of the rule.
    pub rule: String,
    /// The provider whose request body violates the rule. Null for rules about the view itself.
    pub provider: Option<String>,
    /// The turn of the history.
    pub turn: Option<usize>,
    /// The number of the event.
    pub event: Option<u64>,
    /// The problem.
    pub message: String,
}

/// The report of `fork`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "fork-report"))]
pub struct ForkReport {
    /// The path of the new transcript.
    pub path: String,
    /// The path of the copied transcript.
    pub source: String,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// The number of turns of the copy.
    pub turns: usize,
    /// The number of turns that were left out.
    pub cut: usize,
    /// The numbers of the overlays of the source.
    pub overlays: ForkOverlays,
    /// The compaction of the copy, with `--compact`.
    pub report: Option<CompactionReport>,
    /// The failure of that compaction. The copy remains.
    pub error: Option<ErrorReport>,
    /// The new session, if the source is another agent's. It contains a view, so it has no overlays.
    pub session: Option<ForkedSession>,
}

/// The new session of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ForkedSession {
    /// The agent: the name of its format.
    pub agent: String,
    /// The id of the new session.
    pub id: String,
    /// The title of the new session.
    pub title: String,
    /// The folder in which the agent worked.
    pub folder: Option<String>,
    /// The bytes of the source.
    pub source_bytes: u64,
    /// The bytes of the new session.
    pub bytes: u64,
    /// The number of overlays that the new session applies.
    pub applied_overlays: usize,
    /// The images of the source. Those in hidden content are lost.
    pub images: ImageReport,
    /// The command that resumes the new session.
    pub resume: String,
    /// Remarks.
    pub notes: Vec<String>,
}

/// The report of `list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "list-report"))]
pub struct SessionListReport {
    /// The sessions, newest first.
    pub sessions: Vec<ListedSession>,
    /// The agents whose sessions could not be listed, with the reason.
    pub notes: Vec<String>,
}

/// A session of an agent, or a conversation of JP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ListedSession {
    /// The agent: the name of its format.
    pub agent: String,
    /// The id that `fork` and `resume` accept.
    pub id: String,
    /// The title, or the beginning of the first prompt.
    pub title: Option<String>,
    /// The time of the last write.
    pub modified: String,
    /// The bytes of the file. Null for a database.
    pub bytes: Option<u64>,
    /// The file. Null for a database.
    pub path: Option<String>,
    /// The folder in which the agent worked.
    pub folder: Option<String>,
    /// The session of which this one is a fork by `jp-compact`.
    pub fork_of: Option<String>,
    /// The content. Null for a database, and for a session that is too large or cannot be read.
    pub counts: Option<SessionCounts>,
}

/// The content of a listed session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct SessionCounts {
    /// The number of turns.
    pub turns: usize,
    /// The number of steps.
    pub steps: usize,
    /// The tokens of the view, estimated with `pieces`.
    pub tokens: u64,
    /// The number of overlays.
    pub overlays: usize,
}

/// The numbers of the overlays of a source: the copied ones, and those that were left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ForkOverlays {
    /// Copied unchanged.
    pub kept: Vec<usize>,
    /// Limited to the copied turns.
    pub clipped: Vec<usize>,
    /// Left out, because their turns are not copied.
    pub gone: Vec<usize>,
    /// Left out, because they also summarize turns that are not copied.
    pub summary_dropped: Vec<usize>,
}

/// The report of `import`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "import-report"))]
pub struct ImportReport {
    /// The path of the new conversation.
    pub path: String,
    /// The path of the source.
    pub source: String,
    /// The format of the source.
    pub format: String,
    /// The number of turns.
    pub turns: usize,
    /// The number of events.
    pub events: usize,
    /// The number of imported overlays.
    pub overlays: usize,
    /// The images of the source. JP's conversations have no form for them.
    pub images: ImageReport,
}
