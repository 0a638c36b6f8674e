//! The data of the page that are too large for the JSON report: the events of each cut, their state in the view of each
//! strategy, and the later uses of anchors. The data contain text of the transcript, so a page must escape them.

use jp_compact_schema::document::EvalReport;

/// A report with the data of its page.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    pub report: EvalReport,
    /// The cuts, in the order of the transcripts. Empty unless page data was requested.
    pub cuts: Vec<PageCut>,
}

/// One cut of one transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct PageCut {
    /// The index of the transcript in the report.
    pub transcript: usize,
    /// The index of the cut in its `cut_points`.
    pub cut: usize,
    /// All events of the transcript that have text. The prefix is `events[..prefix]`.
    pub events: Vec<PageEvent>,
    pub prefix: usize,
    /// One entry for each row of the report that has results.
    pub rows: Vec<PageRow>,
}

/// One event of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageEvent {
    /// The number of the turn, from 0.
    pub turn: usize,
    /// The number of the step in the turn. `None` for the user's events.
    pub step: Option<usize>,
    pub kind: PageEventKind,
    /// The name of the tool, for calls and results.
    pub tool: Option<String>,
    pub tokens: u64,
    /// The beginning of the text, at most [`EXCERPT_CHARS`] characters.
    pub excerpt: String,
    /// The number of characters of the whole text.
    pub chars: usize,
}

/// The maximum length of [`PageEvent::excerpt`].
pub const EXCERPT_CHARS: usize = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageEventKind {
    User,
    Assistant,
    Reasoning,
    Call,
    Result,
}

/// The result of one row of the report at one cut.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageRow {
    /// The index of the row in the report.
    pub row: usize,
    /// One entry for each event of the prefix.
    pub shown: Vec<Shown>,
    pub tokens_before: u64,
    pub tokens_after: u64,
    /// The anchors at risk, in the order of their later uses. Constraints are not in this list, because they have no
    /// later use.
    pub uses: Vec<PageUse>,
    /// The constraints of the user that the view no longer has.
    pub lost_constraints: Vec<PageConstraint>,
}

/// The state of an event of the prefix in the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    Kept,
    /// The view shows the event with less text. The value is the number of its tokens in the view.
    Shortened(u64),
    Removed,
    /// A summary replaces the event.
    Summarized,
}

/// A later use of an anchor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageUse {
    /// The name of the class, as in the report: `path`, `number`, `identifier`, `word`, `command`, `error`, `quote`.
    pub class: &'static str,
    /// The text of the anchor.
    pub text: String,
    /// The index of the last event of the prefix that has the anchor.
    pub source: usize,
    /// The index of the event that uses it.
    pub use_event: usize,
    /// Whether the view has the anchor.
    pub kept: bool,
}

/// A sentence of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageConstraint {
    pub text: String,
    /// The index of its event.
    pub source: usize,
}
