//! The selection of the turns to compact: applies bounds and their defaults, leaves out the open turn, never splits a
//! call, and extends the range of a summary over older ones (docs/reference/store.md#ranges).

use jiff::Timestamp;

use crate::bound::{self, Bound};
use crate::open::{self, Open};
use crate::overlap::{self, Overlap};
use crate::survey::Survey;
use crate::turn::TurnRange;

/// The turns to keep where the user gave no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Number of turns at the start.
    pub first: usize,
    /// Number of turns at the end.
    pub last: usize,
}

impl Keep {
    /// The default (RFD 064, "Configuration").
    pub const DEFAULT: Self = Self { first: 0, last: 3 };
}

impl Default for Keep {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The bounds that the user gave. Each missing bound is replaced by `keep` independently of the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Selection {
    pub from: Option<Bound>,
    pub to: Option<Bound>,
    pub keep: Keep,
}

/// The turns to compact, with notes for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// The requested turns without open turns and split calls.
    pub requested: TurnRange,
    /// `requested`, extended over older summaries if the strategy writes one.
    pub range: TurnRange,
    /// The differences from the bounds that the user gave.
    pub notes: Vec<Note>,
}

/// A note to the user about a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The last turn is still open, and was left out.
    OpenTurn { turn: usize, why: Open },
    /// The range would have split a tool call, and was shrunk.
    Shrunk {
        /// The requested range.
        from: TurnRange,
        /// The remaining range.
        to: TurnRange,
    },
    /// The range was extended over older summaries.
    Extended {
        /// The requested range.
        from: TurnRange,
        /// The extended range.
        to: TurnRange,
    },
    /// The summary is strictly inside an older one.
    Nested {
        /// The new summary.
        range: TurnRange,
        /// The older summary.
        inside: TurnRange,
    },
}

impl std::fmt::Display for Note {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OpenTurn { turn, why: Open::ToolCall } => {
                write!(out, "turn {turn} is skipped: one of its tool calls has no response yet")
            }
            Self::OpenTurn { turn, why: Open::Unanswered } => {
                write!(out, "turn {turn} is skipped: it does not end with an assistant message")
            }
            Self::Shrunk { from, to } => {
                write!(out, "reduced {from} to {to}, to avoid splitting a tool call")
            }
            Self::Extended { from, to } => {
                write!(out, "extended {from} to {to}, to include older summaries completely")
            }
            Self::Nested { range, inside } => write!(
                out,
                "the summary of {range} is inside the summary of {inside}: the view shows the older one around it; \
                 `--overlap union` writes one summary for both"
            ),
        }
    }
}

/// The reason why there is nothing to compact. Not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nothing {
    NoTurns,
    /// The default keeps every turn.
    Kept {
        turns: usize,
        keep: Keep,
    },
    /// The given bounds select no turn.
    Bounds {
        turns: usize,
    },
    /// Only the open turn is left.
    OpenTurn {
        turn: usize,
        why: Open,
    },
    /// Every part of the range splits a tool call.
    Split {
        /// The requested range.
        range: TurnRange,
    },
    /// Extended over older summaries, the range would split a tool call.
    ClosureSplits {
        /// The requested range.
        range: TurnRange,
        /// The extended range.
        closed: TurnRange,
    },
}

impl std::fmt::Display for Nothing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoTurns => write!(out, "nothing to compact: the conversation has no turns"),
            Self::Kept { turns, keep } => {
                let kept = match keep {
                    Keep { first: 0, last } => format!("the last {last} turns are kept"),
                    Keep { first, last } => format!("the first {first} and the last {last} turns are kept"),
                };
                let are = match turns {
                    1 => "is only 1".to_owned(),
                    turns => format!("are only {turns}"),
                };
                write!(
                    out,
                    "nothing to compact: {kept} by default, and there {are}; use `--keep-last 0` to \
                     compact them too"
                )
            }
            Self::Bounds { turns } => {
                write!(
                    out,
                    "nothing to compact: the bounds select no turns; turns are numbered 0 to {}",
                    turns - 1
                )
            }
            Self::OpenTurn { turn, why } => {
                write!(out, "nothing to compact: {}", Note::OpenTurn { turn: *turn, why: *why })
            }
            Self::Split { range } => {
                write!(out, "nothing to compact: every part of {range} would split a tool call")
            }
            Self::ClosureSplits { range, closed } => write!(
                out,
                "nothing to compact: {range}, extended to {closed} to include older summaries, would split a tool call"
            ),
        }
    }
}

/// Selects the turns for a strategy that writes no summary.
///
/// # Errors
/// The reason why there is nothing to compact.
pub fn select(survey: &Survey<'_>, wanted: Selection, now: Timestamp) -> Result<Selected, Nothing> {
    let turns = survey.stream.turns();
    if turns == 0 {
        return Err(Nothing::NoTurns);
    }
    let resolve = |from, to| bound::resolve(survey.stream, from, to, now);
    let Selection { from, to, keep } = wanted;
    let (first, last) = (from.unwrap_or(Bound::Turn(keep.first)), to.unwrap_or(Bound::FromEnd(keep.last)));
    let range = resolve(Some(first), Some(last)).ok_or_else(|| match resolve(from, to) {
        Some(_) => Nothing::Kept { turns, keep },
        None => Nothing::Bounds { turns },
    })?;
    trim(survey, range, false)
}

/// Selects the turns for a strategy that writes a summary. The range is extended over older summaries, including
/// those `accepted` in the same run, even past the user's bounds. It never includes an open turn.
///
/// # Errors
/// The reason why there is nothing to compact.
pub fn select_for_summary(
    survey: &Survey<'_>,
    selected: &Selected,
    accepted: &[TurnRange],
    overlap: Overlap,
) -> Result<Selected, Nothing> {
    let mut trimmed = trim(survey, selected.requested, true)?;
    trimmed.notes.splice(..0, selected.notes.iter().copied());
    let closed = overlap::close(trimmed.requested, survey.stream, &survey.pairs, accepted, overlap);
    if survey.pairs.split_by(closed).is_some() {
        return Err(Nothing::ClosureSplits { range: trimmed.requested, closed });
    }
    if closed != trimmed.requested {
        trimmed.notes.push(Note::Extended { from: trimmed.requested, to: closed });
    }
    let last = survey.stream.turns().saturating_sub(1);
    let summaries = survey.stream.summaries().filter_map(|(from, to)| TurnRange::new(from, to.min(last)));
    let around = summaries.chain(accepted.iter().copied()).find(|old| old.covers(closed) && *old != closed);
    if let Some(inside) = around.filter(|_| overlap == Overlap::Partial) {
        trimmed.notes.push(Note::Nested { range: closed, inside });
    }
    trimmed.range = closed;
    Ok(trimmed)
}

/// Removes an open turn, then shrinks the range until no call is split.
fn trim(survey: &Survey<'_>, range: TurnRange, for_summary: bool) -> Result<Selected, Nothing> {
    let mut notes = Vec::new();
    let mut range = range;
    let last = survey.stream.turns().saturating_sub(1);
    if let Some(why) = open::open(survey.stream, &survey.pairs, for_summary)
        && range.contains(last)
    {
        let shorter = last.checked_sub(1).and_then(|to| TurnRange::new(range.from(), to));
        range = shorter.ok_or(Nothing::OpenTurn { turn: last, why })?;
        notes.push(Note::OpenTurn { turn: last, why });
    }
    let whole = survey.pairs.shrink(range).ok_or(Nothing::Split { range })?;
    if whole != range {
        notes.push(Note::Shrunk { from: range, to: whole });
    }
    Ok(Selected { requested: whole, range: whole, notes })
}
