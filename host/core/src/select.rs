//! The selection of what to compact: applies bounds and their defaults, leaves out what is open, never splits a call, and
//! extends the range of a summary over older ones (docs/reference/store.md#ranges).

use jiff::Timestamp;
use jp_compact_schema::{ContentKind, Description, STEPS};

use crate::bound::{self, Bound};
use crate::event::Kind;
pub use crate::keep::{Keep, KeepLast, Weigh};
use crate::open::{self, Open};
use crate::overlap::{self, Overlap};
use crate::position::Position;
use crate::render::is_signed;
use crate::stream::Stream;
use crate::survey::Survey;
use crate::turn::TurnRange;

/// The bounds that the user gave. Each missing side is replaced by `keep` independently of the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TypedSelection {
    pub from: Option<Bound>,
    pub to: Option<Bound>,
    /// The rules for the end. With `to`, an event is compacted if neither excludes it.
    pub keep_last: KeepLast,
}

impl TypedSelection {
    /// Returns whether it has no bound.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the bounds with the missing sides taken from `farther`.
    #[must_use]
    pub fn or(self, farther: Self) -> Self {
        let from = self.from.or(farther.from);
        if self.to.is_some() || !self.keep_last.is_empty() {
            return Self { from, ..self };
        }
        Self { from, ..farther }
    }

    /// Returns the bounds with the defaults for missing ones.
    #[must_use]
    pub fn with(self, keep: Keep) -> Selection {
        let Self { from, to, keep_last } = self;
        Selection { from, to, keep_last, keep }
    }
}

/// The bounds that the user gave, and the defaults. Each missing side is replaced by `keep` independently of the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Selection {
    pub from: Option<Bound>,
    pub to: Option<Bound>,
    pub keep_last: KeepLast,
    pub keep: Keep,
}

/// The properties of a strategy that its range depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StrategyTraits {
    /// Whether it accepts ranges with steps.
    pub steps: bool,
    /// Whether it removes reasoning.
    pub reasoning: bool,
    /// Whether it writes summaries.
    pub summary: bool,
}

impl StrategyTraits {
    /// Returns the properties of a described strategy.
    #[must_use]
    pub fn new(description: &Description) -> Self {
        let produces = |kind| description.produces.contains(&kind);
        let summary = produces(ContentKind::Summary);
        Self {
            steps: description.has_feature(STEPS) && !summary,
            reasoning: produces(ContentKind::Reasoning),
            summary,
        }
    }
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
    /// The last turn is still open, and the range ends with its last closed step.
    OpenStep { to: Position, why: Open },
    /// The strategy compacts whole turns only, and the range was reduced to these.
    Rounded {
        /// The requested range.
        from: TurnRange,
        /// Its whole turns.
        to: TurnRange,
    },
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
            Self::OpenStep { to, why: Open::ToolCall } => {
                write!(
                    out,
                    "turn {} is compacted up to step {to}: a later tool call has no response yet",
                    to.turn
                )
            }
            Self::OpenStep { to, why: Open::Unanswered } => {
                write!(out, "turn {} is compacted up to step {to}: it is not finished", to.turn)
            }
            Self::Rounded { from, to } => {
                write!(out, "reduced {from} to {to}: the strategy compacts whole turns only")
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
    /// The rules that the user gave keep everything.
    KeptByRule {
        turns: usize,
        steps: usize,
        keep: KeepLast,
    },
    /// The range has no whole turn, and the strategy compacts whole turns only.
    NoWholeTurn {
        /// The requested range.
        range: TurnRange,
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
                    Keep { first: 0, last } => format!("{last} are kept"),
                    Keep { first, last } => format!("the first {first} and {last} are kept"),
                };
                let are = match turns {
                    1 => "is only 1".to_owned(),
                    turns => format!("are only {turns}"),
                };
                write!(
                    out,
                    "nothing to compact: {kept} by default, and there {are}; use `--keep-last 0` to compact them too, or \
                     `--keep-steps N` to keep only the newest steps"
                )
            }
            Self::KeptByRule { turns, steps, keep } => write!(
                out,
                "nothing to compact: {keep} are kept, and the conversation has {} and {}",
                counted(*turns, "turn"),
                counted(*steps, "step")
            ),
            Self::NoWholeTurn { range } => {
                write!(
                    out,
                    "nothing to compact: the strategy compacts whole turns only, and {range} has none"
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

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Resolves the bounds that the user gave. The range may begin or end inside a turn, and may contain open steps.
///
/// # Errors
/// The reason why there is nothing to compact.
pub fn resolve(survey: &Survey<'_>, wanted: Selection, now: Timestamp) -> Result<TurnRange, Nothing> {
    resolve_in(survey.stream, &|element| survey.estimate.weight(element), wanted, now)
}

/// Same as [`resolve`], for a stream of which no survey is needed. `weigh` is called only for a number of tokens to keep.
///
/// # Errors
/// Same as [`resolve`].
pub fn resolve_in(
    stream: &Stream,
    weigh: Weigh<'_>,
    wanted: Selection,
    now: Timestamp,
) -> Result<TurnRange, Nothing> {
    let turns = stream.turns();
    if turns == 0 {
        return Err(Nothing::NoTurns);
    }
    let Selection { from, to, keep_last, keep } = wanted;
    let first = from.unwrap_or(Bound::turn(keep.first));
    let kept_by = |rule: KeepLast| {
        let bounds = bound::resolve(stream, Some(first), to, now)?;
        let end = rule.end(stream, weigh)?;
        let ends = [end, bounds.end()].into_iter().min_by_key(|end| end.end_key())?;
        TurnRange::between(bounds.start(), ends)
    };
    let is_default = to.is_none() && keep_last.is_empty();
    let rule = if is_default { keep.last } else { keep_last };
    kept_by(rule).ok_or_else(|| match bound::resolve(stream, from, to, now) {
        None => Nothing::Bounds { turns },
        Some(_) if is_default => Nothing::Kept { turns, keep },
        Some(_) if keep_last.is_empty() => Nothing::Kept { turns, keep },
        Some(_) => Nothing::KeptByRule { turns, steps: stream.steps().total(), keep: keep_last },
    })
}

/// Selects the turns for a strategy that compacts whole turns and writes no summary.
///
/// # Errors
/// The reason why there is nothing to compact.
pub fn select(survey: &Survey<'_>, wanted: Selection, now: Timestamp) -> Result<Selected, Nothing> {
    select_for(survey, resolve(survey, wanted, now)?, StrategyTraits::default())
}

/// Selects the part of a range that a strategy may compact, without regard to summaries. A strategy that compacts whole
/// turns only never gets a part of a turn.
///
/// # Errors
/// The reason why there is nothing to compact.
pub fn select_for(
    survey: &Survey<'_>,
    range: TurnRange,
    traits: StrategyTraits,
) -> Result<Selected, Nothing> {
    trim(survey, range, StrategyTraits { summary: false, ..traits })
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
    let traits = StrategyTraits { summary: true, ..StrategyTraits::default() };
    let mut trimmed = trim(survey, selected.requested, traits)?;
    trimmed.notes.splice(..0, selected.notes.iter().copied());
    let range = trimmed.requested;
    let closed = overlap::close(range, survey.stream, &survey.pairs, accepted, overlap);
    let closed = whole_turns_around(survey, closed).ok_or(Nothing::ClosureSplits { range, closed })?;
    if survey.pairs.split_by(survey.stream, closed).is_some() {
        return Err(Nothing::ClosureSplits { range, closed });
    }
    if closed != range {
        trimmed.notes.push(Note::Extended { from: range, to: closed });
    }
    let around = survey.stream.summaries().chain(accepted.iter().copied());
    let around = around.into_iter().find(|old| old.covers(closed) && *old != closed);
    if let Some(inside) = around.filter(|_| overlap == Overlap::Partial) {
        trimmed.notes.push(Note::Nested { range: closed, inside });
    }
    trimmed.range = closed;
    Ok(trimmed)
}

/// Extends a range to whole turns. `None` if the last turn is open, because it must not be covered.
fn whole_turns_around(survey: &Survey<'_>, range: TurnRange) -> Option<TurnRange> {
    let ends_open = range.end().step.is_some()
        && range.to() + 1 == survey.stream.turns()
        && open::open(survey.stream, &survey.pairs, true).is_some();
    if ends_open { None } else { TurnRange::new(range.from(), range.to()) }
}

/// Removes what is open, then shrinks the range until no call is split.
fn trim(survey: &Survey<'_>, range: TurnRange, traits: StrategyTraits) -> Result<Selected, Nothing> {
    let mut notes = Vec::new();
    let mut range = range;
    if range.is_stepped() && !traits.steps {
        let whole = range.whole_turns().ok_or(Nothing::NoWholeTurn { range })?;
        notes.push(Note::Rounded { from: range, to: whole });
        range = whole;
    }
    let last = survey.stream.turns().saturating_sub(1);
    if let Some(why) = open::open(survey.stream, &survey.pairs, traits.summary)
        && range.contains(last)
    {
        let closed = closed_end(survey, last, traits);
        let end = closed.or(last.checked_sub(1).map(Position::turn));
        if end.is_none_or(|end| end.end_key() < range.end().end_key()) {
            let shorter = end.and_then(|end| TurnRange::between(range.start(), end));
            range = shorter.ok_or(Nothing::OpenTurn { turn: last, why })?;
            notes.push(match closed {
                Some(to) => Note::OpenStep { to, why },
                None => Note::OpenTurn { turn: last, why },
            });
        }
    }
    let whole = survey.pairs.shrink(survey.stream, range).ok_or(Nothing::Split { range })?;
    if whole != range {
        notes.push(Note::Shrunk { from: range, to: whole });
    }
    Ok(Selected { requested: whole, range: whole, notes })
}

/// Returns the last step of the open turn that a strategy may compact.
fn closed_end(survey: &Survey<'_>, turn: usize, traits: StrategyTraits) -> Option<Position> {
    if !traits.steps || (traits.reasoning && has_signed_thought(survey.stream, turn)) {
        return None;
    }
    open::closed_steps(survey.stream, &survey.pairs).checked_sub(1).map(|step| Position::step(turn, step))
}

/// Returns whether a turn has reasoning that its provider wants back. In an open turn it must stay (A6, R2, M5).
fn has_signed_thought(stream: &Stream, turn: usize) -> bool {
    let events = stream.events().iter().enumerate().rev();
    let mut thoughts = events
        .skip_while(|(_, event)| event.turn > turn)
        .take_while(|(_, event)| event.turn == turn)
        .filter(|(_, event)| event.kind == Kind::Reasoning);
    thoughts.any(|(element, _)| is_signed(stream, element))
}
