//! From what a user wants to the turns that are compacted: bounds and their defaults, the open turn left out,
//! no call split, and for a summary the extension over older ones (JP-STREAM, "Ranges").

use jiff::Timestamp;

use crate::bound::{self, Bound};
use crate::open::{self, Open};
use crate::overlap::{self, Overlap};
use crate::survey::Survey;
use crate::turn::TurnRange;

/// What is kept where the user named no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// So many turns at the beginning.
    pub first: usize,
    /// So many turns at the end.
    pub last: usize,
}

impl Keep {
    /// What is kept when nobody says otherwise (RFD 064, "Configuration").
    pub const DEFAULT: Self = Self { first: 0, last: 3 };
}

impl Default for Keep {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The two ends as the user gave them. For a missing one `keep` says what is left out: each end is replaced on
/// its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The first turn.
    pub from: Option<Bound>,
    /// The last turn.
    pub to: Option<Bound>,
    /// What is kept without them.
    pub keep: Keep,
}

/// The turns to compact, and what has to be said of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// The turns that were asked for, open and split ones left out.
    pub requested: TurnRange,
    /// The same, extended over older summaries where the strategy writes one.
    pub range: TurnRange,
    /// Where it differs from what the user typed.
    pub notes: Vec<Note>,
}

/// What the user is told about a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The last turn is still open, and was left out.
    OpenTurn {
        /// Its number.
        turn: usize,
        /// Why.
        why: Open,
    },
    /// The range would have split a tool call, and was shrunk.
    Shrunk {
        /// What was asked for.
        from: TurnRange,
        /// What is left.
        to: TurnRange,
    },
    /// The range was extended over older summaries.
    Extended {
        /// What was asked for.
        from: TurnRange,
        /// What it became.
        to: TurnRange,
    },
    /// The summary lies strictly inside an older one.
    Nested {
        /// The new one.
        range: TurnRange,
        /// The older one.
        inside: TurnRange,
    },
}

impl std::fmt::Display for Note {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OpenTurn { turn, why: Open::ToolCall } => {
                write!(out, "turn {turn} is left out: a tool call in it waits for its answer")
            }
            Self::OpenTurn { turn, why: Open::Unanswered } => {
                write!(out, "turn {turn} is left out: it does not end in a message of the assistant")
            }
            Self::Shrunk { from, to } => write!(out, "{from} would split a tool call, and became {to}"),
            Self::Extended { from, to } => {
                write!(out, "{from} became {to}, to be closed over older summaries")
            }
            Self::Nested { range, inside } => write!(
                out,
                "the summary of {range} lies inside that of {inside}: the view shows the older one around it; \
                 `--overlap union` writes one summary of both"
            ),
        }
    }
}

/// Why there is nothing to compact. Not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nothing {
    /// The stream has no turn.
    NoTurns,
    /// The default keeps every turn there is.
    Kept {
        /// How many turns there are.
        turns: usize,
        /// What is kept of them.
        keep: Keep,
    },
    /// The bounds given leave nothing.
    Bounds {
        /// How many turns there are.
        turns: usize,
    },
    /// All that is left is the open turn.
    OpenTurn {
        /// Its number.
        turn: usize,
        /// Why.
        why: Open,
    },
    /// No part of the range is without half a tool call.
    Split {
        /// What was asked for.
        range: TurnRange,
    },
    /// Closed over older summaries, the range would split a tool call.
    ClosureSplits {
        /// What was asked for.
        range: TurnRange,
        /// What it became.
        closed: TurnRange,
    },
}

impl std::fmt::Display for Nothing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoTurns => write!(out, "nothing to compact: the conversation has no turn"),
            Self::Kept { turns, keep } => {
                let kept = match keep {
                    Keep { first: 0, last } => format!("the last {last} turns are kept"),
                    Keep { first, last } => format!("the first {first} and the last {last} turns are kept"),
                };
                let are = match turns {
                    1 => "is 1 turn".to_owned(),
                    turns => format!("are {turns}"),
                };
                write!(
                    out,
                    "nothing to compact: {kept} unless a bound says otherwise, and there {are}; `--keep-last 0` \
                     compacts them too"
                )
            }
            Self::Bounds { turns } => {
                write!(
                    out,
                    "nothing to compact: no turn lies between the bounds, turns are numbered 0 to {}",
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
                "nothing to compact: closed over older summaries, {range} became {closed}, which would split a tool call"
            ),
        }
    }
}

/// The turns that a strategy without summaries is asked for.
///
/// # Errors
/// Why there is nothing to compact.
pub fn select(survey: &Survey<'_>, wanted: Wanted, now: Timestamp) -> Result<Selected, Nothing> {
    let turns = survey.stream.turns();
    if turns == 0 {
        return Err(Nothing::NoTurns);
    }
    let resolve = |from, to| bound::resolve(survey.stream, from, to, now);
    let Wanted { from, to, keep } = wanted;
    let (first, last) = (from.unwrap_or(Bound::Turn(keep.first)), to.unwrap_or(Bound::FromEnd(keep.last)));
    let range = resolve(Some(first), Some(last)).ok_or_else(|| match resolve(from, to) {
        Some(_) => Nothing::Kept { turns, keep },
        None => Nothing::Bounds { turns },
    })?;
    trim(survey, range, false)
}

/// The turns that a strategy is asked for that writes a summary: closed over older ones, `accepted` in the
/// same run among them. Closure beats the user's bounds, and never enters an open turn.
///
/// # Errors
/// Why there is nothing to compact.
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

/// Leaves out an open turn, and shrinks until no call is split.
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
