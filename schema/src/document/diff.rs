//! The report of `diff`: the changes between two views of a conversation, and the overlays that made them.

use serde::{Deserialize, Serialize};

use super::compaction::{DeclineReport, WouldReport};
use super::tokens::{Saved, TokenCounts, ViewTokens};

/// The report of `diff`. A program that writes a long report computes `changes` while it writes them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "diff-report", rename = "DiffReport"))]
pub struct DiffReport<C = Vec<DiffChange>> {
    /// The path of the transcript.
    pub path: String,
    /// The format of the transcript.
    pub format: String,
    /// The id of the conversation, if it has one.
    pub conversation_id: Option<String>,
    /// Whether the changes are from a dry run.
    pub dry_run: bool,
    /// The estimator that counted the tokens, for example `pieces`.
    pub estimator: String,
    /// The size of the conversation. `view_before` is the view without the compared overlays, `view_after` the view
    /// with them. Both views are whole, even with `--turn`.
    pub tokens: TokenCounts,
    /// The effect of the compared overlays.
    pub saved: Saved,
    /// The compared events by change. With `--turn`, only those of the turn or step.
    pub events: ChangeCounts,
    /// The overlays that caused a change, oldest first.
    pub overlays: Vec<DiffOverlay>,
    /// In a dry run, the strategies that made no overlay.
    pub declines: Vec<DeclineReport>,
    /// In a dry run, the requests that were not sent to a model.
    pub would: Vec<WouldReport>,
    /// In a dry run, the reason why no strategy was asked.
    pub nothing: Option<String>,
    /// The changes, in the order of the conversation.
    pub changes: C,
}

/// The number of events by their change. A summary counts as one event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ChangeCounts {
    /// The same in both views.
    pub kept: u64,
    /// Not in the second view.
    pub removed: u64,
    /// A part of the text is left, or the arguments of a call are empty.
    pub shortened: u64,
    /// Another text replaces the whole text.
    pub replaced: u64,
    /// A summary replaces the event.
    pub summarized: u64,
    /// The texts of new summaries.
    pub added: u64,
    /// An older overlay hid the event or a part of it, and a newer one shows it again.
    pub restored: u64,
}

impl ChangeCounts {
    /// Returns the count of a kind.
    pub fn of_kind(&mut self, kind: ChangeKind) -> &mut u64 {
        match kind {
            ChangeKind::Removed => &mut self.removed,
            ChangeKind::Shortened => &mut self.shortened,
            ChangeKind::Replaced => &mut self.replaced,
            ChangeKind::Summarized => &mut self.summarized,
            ChangeKind::Added => &mut self.added,
            ChangeKind::Restored => &mut self.restored,
        }
    }
}

/// The difference of an event between two views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The second view does not show the event.
    Removed,
    /// A part of the text is left, or the arguments of a call are empty.
    Shortened,
    /// Another text replaces the whole text.
    Replaced,
    /// A summary replaces the event.
    Summarized,
    /// The text of a new summary.
    Added,
    /// The second view shows more of the event than the first.
    Restored,
}

impl ChangeKind {
    /// Returns the name in a document.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Shortened => "shortened",
            Self::Replaced => "replaced",
            Self::Summarized => "summarized",
            Self::Added => "added",
            Self::Restored => "restored",
        }
    }
}

/// The content of a changed event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeContent {
    /// A message of the user.
    User,
    /// A message or data of the assistant.
    Assistant,
    /// Reasoning of the assistant.
    Reasoning,
    /// The arguments of a tool call.
    ToolRequest,
    /// The response of a tool.
    ToolResponse,
    /// The text of a summary.
    Summary,
}

/// An overlay that caused a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct DiffOverlay {
    /// The number of the overlay, from 1.
    pub number: usize,
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
    /// The strategies' names, joined by commas. Null without a receipt.
    pub strategy: Option<String>,
    /// The version of the first strategy. Null without a receipt.
    pub version: Option<String>,
    /// The number of its changes.
    pub events: usize,
    /// The tokens of the changed events in both views.
    pub tokens: ViewTokens,
    /// The characters of the changed events in both views.
    pub characters: ViewCharacters,
}

/// One changed event, or the text of a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct DiffChange {
    /// The kind of change.
    pub change: ChangeKind,
    /// The number of the overlay that determines the form of the event in the second view. Null if there is none.
    pub overlay: Option<usize>,
    /// The turn of the history. For a summary, the first turn that it replaces.
    pub turn: usize,
    /// The step in the turn. Null for messages of the user, and for a summary that replaces whole turns.
    pub step: Option<usize>,
    /// The number of the event. Null for a summary.
    pub event: Option<u64>,
    /// The content of the event.
    pub content: ChangeContent,
    /// The name of the tool, for a call or its response.
    pub tool: Option<String>,
    /// Whether it is the response of a tool that failed.
    pub is_error: bool,
    /// The tokens in both views, each rounded up.
    pub tokens: ViewTokens,
    /// The characters in both views.
    pub characters: ViewCharacters,
    /// The changed lines. Null with `--stat`.
    pub hunks: Option<Vec<DiffHunk>>,
}

/// The characters of a text in two views.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ViewCharacters {
    /// Before the change.
    pub view_before: u64,
    /// After the change.
    pub view_after: u64,
}

/// Changed lines with their context, as in unified text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct DiffHunk {
    /// The number of the first line in the first view, from 1. Without lines in this view, the number of the line
    /// before.
    pub old_start: usize,
    /// The number of lines in the first view.
    pub old_lines: usize,
    /// The number of the first line in the second view, from 1. Without lines in this view, the number of the line
    /// before.
    pub new_start: usize,
    /// The number of lines in the second view.
    pub new_lines: usize,
    /// The lines. Each begins with `-`, `+`, or a space.
    pub lines: Vec<String>,
}
