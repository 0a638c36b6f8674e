//! The selection of the range to compact. It applies bounds and their defaults, excludes open turns and steps, never
//! splits a call, and extends the range of a summary over older summaries (docs/reference/store.md#ranges).

use jiff::Timestamp;
use jp_compact_schema::{ContentKind, Description, STEPS};

use crate::bound::{self, Bound};
use crate::event::Kind;
pub use crate::keep::{Keep, KeepLast, WeightFn};
use crate::open::{self, OpenReason};
use crate::overlap::Overlap;
use crate::position::Position;
use crate::render::is_signed;
use crate::stream::Stream;
use crate::summary_range;
use crate::survey::Survey;
use crate::turn::TurnRange;

/// The bounds that the user gave. [`Self::with`] adds the default for each missing side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestedSelection {
    pub from: Option<Bound>,
    pub to: Option<Bound>,
    /// The rules for the events to keep at the end. If `to` is also given, the earlier end counts.
    pub keep_last: KeepLast,
}

impl RequestedSelection {
    /// Returns whether the user gave no bounds and no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the bounds, with each missing side taken from `fallback`.
    #[must_use]
    pub fn or(self, fallback: Self) -> Self {
        let from = self.from.or(fallback.from);
        if self.to.is_some() || !self.keep_last.is_empty() {
            return Self { from, ..self };
        }
        Self { from, ..fallback }
    }

    /// Adds the default for each missing side.
    #[must_use]
    pub fn with(self, keep: Keep) -> Selection {
        let Self { from, to, keep_last } = self;
        Selection { from, to, keep_last, keep }
    }
}

/// The bounds that the user gave, and the default for each missing side (`keep`).
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
    pub accepts_steps: bool,
    pub strips_reasoning: bool,
    pub writes_summary: bool,
}

impl StrategyTraits {
    /// Returns the properties of a described strategy.
    #[must_use]
    pub fn new(description: &Description) -> Self {
        let produces = |kind| description.produces.contains(&kind);
        Self {
            accepts_steps: description.has_feature(STEPS),
            strips_reasoning: produces(ContentKind::Reasoning),
            writes_summary: produces(ContentKind::Summary),
        }
    }
}

/// The turns to compact, with notes for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// The requested range, without open turns and steps, and without calls that it would split.
    pub requested: TurnRange,
    /// `requested`, extended over older summaries if the strategy writes a summary.
    pub range: TurnRange,
    /// The reasons for the differences from the range that the user requested.
    pub notes: Vec<Note>,
}

/// A note to the user about a range. `from` is the range before the change, and `to` is the range after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The last turn is still open, and was excluded.
    OpenTurn { turn: usize, reason: OpenReason },
    /// The last turn is still open, and the range ends with its last closed step.
    OpenStep { to: Position, reason: OpenReason },
    /// The strategy compacts whole turns only, and the range was reduced to these.
    Rounded { from: TurnRange, to: TurnRange },
    /// The range would have split a tool call, and was shrunk.
    Shrunk { from: TurnRange, to: TurnRange },
    /// A summary begins with a turn or with the first step of a turn, so the range was extended at its start.
    FirstStep { from: TurnRange, to: TurnRange },
    /// In an open turn, the step after a summary must begin with signed thinking, so the range was shrunk.
    Thinking { from: TurnRange, to: TurnRange },
    /// The range was extended over older summaries.
    Extended { from: TurnRange, to: TurnRange },
    /// The summary covers a part of an older summary.
    Nested { range: TurnRange, inside: TurnRange },
}

impl std::fmt::Display for Note {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OpenTurn { turn, reason } => write!(out, "turn {turn} is skipped: {reason}"),
            Self::OpenStep { to, reason: OpenReason::ToolCall } => {
                write!(
                    out,
                    "turn {} is compacted up to step {to}: a later tool call has no response yet",
                    to.turn
                )
            }
            Self::OpenStep { to, reason: OpenReason::Unanswered } => {
                write!(out, "turn {} is compacted up to step {to}: the turn is not finished", to.turn)
            }
            Self::Rounded { from, to } => {
                write!(out, "reduced {from} to {to}: the strategy compacts whole turns only")
            }
            Self::Shrunk { from, to } => {
                write!(out, "reduced {from} to {to}, to avoid splitting a tool call")
            }
            Self::FirstStep { from, to } => {
                write!(out, "extended {from} to {to}: a summary begins with a turn or a turn's first step")
            }
            Self::Thinking { from, to } => write!(
                out,
                "reduced {from} to {to}: turn {} is open, and the step after a summary in it must begin with thinking",
                from.to()
            ),
            Self::Extended { from, to } => {
                write!(out, "extended {from} to {to}, to include older summaries completely")
            }
            Self::Nested { range, inside } => write!(
                out,
                "the summary of {range} is inside the summary of {inside}: the view shows the older summary for the \
                 rest of its range; `--overlap union` writes one summary for both"
            ),
        }
    }
}

/// The reason why there is nothing to compact. Not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NothingToCompact {
    NoTurns,
    /// The given rules and the defaults keep everything that the bounds select.
    Kept {
        turns: usize,
        steps: usize,
        keep: Keep,
        /// Whether the rules for the end were given. Otherwise, they are defaults, as those for the start are.
        is_last_given: bool,
        has_bounds: bool,
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
    /// The range consists of the open turn only.
    OpenTurn {
        turn: usize,
        reason: OpenReason,
    },
    /// In the open turn, a summary may end only before signed thinking, and no step of the range is directly before it.
    Thinking {
        /// The range that the summary would have.
        range: TurnRange,
    },
    /// The range splits a tool call, and `Pairs::shrink` leaves nothing of it.
    Split {
        /// The requested range.
        range: TurnRange,
    },
    /// Extended over older summaries, the range would split a tool call or the open turn.
    ExtensionSplits {
        /// The range before the extension.
        range: TurnRange,
        extended: TurnRange,
    },
}

impl std::fmt::Display for NothingToCompact {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoTurns => write!(out, "nothing to compact: the conversation has no turns"),
            Self::Kept { turns, steps, keep, is_last_given, has_bounds } => {
                let none = KeepLast::default();
                let (given, default) = if *is_last_given { (keep.last, none) } else { (none, keep.last) };
                let (given, defaults) = (Keep { first: 0, last: given }, Keep { last: default, ..*keep });
                let rules = [("given rules", given.to_string()), ("defaults", defaults.to_string())];
                let rules = rules.into_iter().filter(|(_, kept)| !kept.is_empty());
                let rules: String = rules.map(|(rules, kept)| format!("the {rules} keep {kept}, ")).collect();
                let rest = match has_bounds {
                    true => "the bounds select nothing else".to_owned(),
                    false => format!(
                        "the conversation has {} and {}",
                        counted(*turns, "turn"),
                        counted(*steps, "step")
                    ),
                };
                let hint = match (defaults.first, defaults.last.is_empty()) {
                    (0, true) => "",
                    (0, false) => {
                        "; use `--keep-last 0` to compact them too, or `--keep-steps N` to keep only the newest steps"
                    }
                    (_, true) => "; use `--keep-first 0` to compact them too",
                    (_, false) => "; use `--keep-first 0` and `--keep-last 0` to compact them too",
                };
                write!(out, "nothing to compact: {rules}and {rest}{hint}")
            }
            Self::NoWholeTurn { range } => {
                write!(
                    out,
                    "nothing to compact: the strategy compacts whole turns only, and there are none in {range}"
                )
            }
            Self::Bounds { turns } => {
                write!(
                    out,
                    "nothing to compact: the bounds select no turns; turns are numbered 0 to {}",
                    turns - 1
                )
            }
            Self::OpenTurn { turn, reason } => {
                write!(out, "nothing to compact: {}", Note::OpenTurn { turn: *turn, reason: *reason })
            }
            Self::Thinking { range } => write!(
                out,
                "nothing to compact: turn {} is open, and a summary may end only before a step that begins with thinking; no \
                 such step follows in {range}; use a strategy that strips, such as `strip-tools`",
                range.to()
            ),
            Self::Split { range } => {
                write!(out, "nothing to compact: {range} splits tool calls, and nothing is left without them")
            }
            Self::ExtensionSplits { range, extended } => write!(
                out,
                "nothing to compact: {range}, extended over summaries to {extended}, would split a call or an open turn"
            ),
        }
    }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Resolves the bounds that the user gave. The range may begin or end inside a turn, and may contain open steps.
///
/// # Errors
/// The reason why there is nothing to compact.
pub fn resolve(
    survey: &Survey<'_>,
    selection: Selection,
    now: Timestamp,
) -> Result<TurnRange, NothingToCompact> {
    resolve_without_survey(survey.stream, &|element| survey.estimate.weight(element), selection, now)
}

/// Same as [`resolve`], without a survey. `weight_of` is called only if the selection keeps a number of tokens.
///
/// # Errors
/// Same as [`resolve`].
pub fn resolve_without_survey(
    stream: &Stream,
    weight_of: WeightFn<'_>,
    selection: Selection,
    now: Timestamp,
) -> Result<TurnRange, NothingToCompact> {
    let turns = stream.turns();
    if turns == 0 {
        return Err(NothingToCompact::NoTurns);
    }
    let Selection { from, to, keep_last, keep } = selection;
    let rules = if to.is_none() && keep_last.is_empty() { keep.last } else { keep_last };
    let from_or_default = from.unwrap_or(Bound::turn(keep.first));
    let rules_end = rules.end(stream, weight_of);
    let range = bound::resolve(stream, Some(from_or_default), to, now).and_then(|bounds| {
        let ends = [rules_end?, bounds.end()];
        TurnRange::between(bounds.start(), ends.into_iter().min_by_key(|end| end.end_key())?)
    });
    let is_last_given = !keep_last.is_empty();
    // If the given rules keep everything, the default for the start does not matter.
    let is_default_first = from.is_none() && !(is_last_given && rules_end.is_none());
    range.ok_or_else(|| match bound::resolve(stream, from, to, now) {
        None => NothingToCompact::Bounds { turns },
        Some(_) => NothingToCompact::Kept {
            turns,
            steps: stream.steps().total(),
            keep: Keep { first: if is_default_first { keep.first } else { 0 }, last: rules },
            is_last_given,
            // `--keep-first 0` is stored as a bound, but excludes nothing.
            has_bounds: from.is_some_and(|from| from != Bound::turn(0)) || to.is_some(),
        },
    })
}

/// Selects the turns for a strategy that compacts whole turns and writes no summary.
///
/// # Errors
/// The reason why there is nothing to compact.
pub fn select(
    survey: &Survey<'_>,
    selection: Selection,
    now: Timestamp,
) -> Result<Selected, NothingToCompact> {
    select_for_strategy(survey, resolve(survey, selection, now)?, StrategyTraits::default())
}

/// Selects the part of a range that a strategy may compact, without the rules for summaries. If the strategy compacts
/// whole turns only, the part has whole turns only.
///
/// # Errors
/// The reason why there is nothing to compact.
pub fn select_for_strategy(
    survey: &Survey<'_>,
    range: TurnRange,
    traits: StrategyTraits,
) -> Result<Selected, NothingToCompact> {
    trim(survey, range, StrategyTraits { writes_summary: false, ..traits })
}

/// Selects the turns for a strategy that writes a summary. The range is extended over older summaries, even past the
/// user's bounds. `accepted` has the ranges of this run's earlier summaries. The range never includes an open step.
///
/// # Errors
/// The reason why there is nothing to compact.
pub fn select_for_summary(
    survey: &Survey<'_>,
    selected: &Selected,
    traits: StrategyTraits,
    accepted: &[TurnRange],
    overlap: Overlap,
) -> Result<Selected, NothingToCompact> {
    let mut trimmed = trim(survey, selected.requested, StrategyTraits { writes_summary: true, ..traits })?;
    trimmed.notes.splice(..0, selected.notes.iter().copied());
    let range = summary_bounds(survey, &mut trimmed)?;
    let (stream, pairs) = (survey.stream, &survey.pairs);
    let extended = summary_range::extend_over_summaries(range, stream, pairs, accepted, overlap);
    let whole = if traits.accepts_steps { Some(extended) } else { whole_turns_around(survey, extended) };
    let extended = whole.ok_or(NothingToCompact::ExtensionSplits { range, extended })?;
    if pairs.split_by(stream, extended).is_some() {
        return Err(NothingToCompact::ExtensionSplits { range, extended });
    }
    if summary_range::last_end(stream, pairs, extended.end()) != Some(extended.end()) {
        return Err(NothingToCompact::Thinking { range: extended });
    }
    if extended != range {
        trimmed.notes.push(Note::Extended { from: range, to: extended });
    }
    let mut older = survey.stream.summaries().chain(accepted.iter().copied());
    if overlap == Overlap::Partial
        && let Some(inside) = older.find(|older| older.covers(extended) && *older != extended)
    {
        trimmed.notes.push(Note::Nested { range: extended, inside });
    }
    trimmed.range = extended;
    Ok(trimmed)
}

/// Returns the range for a summary, ignoring older summaries, and reduces the requested range to it.
fn summary_bounds(survey: &Survey<'_>, selected: &mut Selected) -> Result<TurnRange, NothingToCompact> {
    let (stream, pairs) = (survey.stream, &survey.pairs);
    let requested = selected.requested;
    let wide = summary_range::from_first_step(requested);
    if wide != requested {
        selected.notes.push(Note::FirstStep { from: requested, to: wide });
    }
    let is_cut = summary_range::last_end(stream, pairs, wide.end()) != Some(wide.end());
    let nothing = || {
        if is_cut {
            NothingToCompact::Thinking { range: wide }
        } else {
            NothingToCompact::Split { range: wide }
        }
    };
    let range = summary_range::allowed(stream, pairs, wide).ok_or_else(nothing)?;
    selected.requested = requested.intersection(range).ok_or_else(nothing)?;
    if range != wide {
        selected.notes.push(match is_cut {
            true => Note::Thinking { from: wide, to: range },
            false => Note::Shrunk { from: wide, to: range },
        });
    }
    Ok(range)
}

/// Extends a range to whole turns. `None` if the range ends inside the open turn, which must not be covered.
fn whole_turns_around(survey: &Survey<'_>, range: TurnRange) -> Option<TurnRange> {
    let ends_in_open_turn = range.end().step.is_some()
        && range.to() + 1 == survey.stream.turns()
        && open::open_reason(survey.stream, &survey.pairs, true).is_some();
    if ends_in_open_turn { None } else { TurnRange::new(range.from(), range.to()) }
}

/// Excludes open turns and steps, then shrinks the range until it splits no call.
fn trim(survey: &Survey<'_>, range: TurnRange, traits: StrategyTraits) -> Result<Selected, NothingToCompact> {
    let mut notes = Vec::new();
    let mut range = range;
    if range.has_steps() && !traits.accepts_steps {
        let whole = range.whole_turns().ok_or(NothingToCompact::NoWholeTurn { range })?;
        notes.push(Note::Rounded { from: range, to: whole });
        range = whole;
    }
    let last = survey.stream.turns().saturating_sub(1);
    if let Some(reason) = open::open_reason(survey.stream, &survey.pairs, traits.writes_summary)
        && range.contains(last)
    {
        let closed_step = last_closed_step(survey, last, traits);
        let end = closed_step.or(last.checked_sub(1).map(Position::turn));
        if end.is_none_or(|end| end.end_key() < range.end().end_key()) {
            let shorter = end.and_then(|end| TurnRange::between(range.start(), end));
            range = shorter.ok_or(NothingToCompact::OpenTurn { turn: last, reason })?;
            notes.push(match closed_step {
                Some(to) => Note::OpenStep { to, reason },
                None => Note::OpenTurn { turn: last, reason },
            });
        }
    }
    let shrunk = survey.pairs.shrink(survey.stream, range).ok_or(NothingToCompact::Split { range })?;
    if shrunk != range {
        notes.push(Note::Shrunk { from: range, to: shrunk });
    }
    Ok(Selected { requested: shrunk, range: shrunk, notes })
}

/// Returns the last step of an open turn that a strategy may compact. `None` if it may compact no step.
fn last_closed_step(survey: &Survey<'_>, turn: usize, traits: StrategyTraits) -> Option<Position> {
    if !traits.accepts_steps || (traits.strips_reasoning && has_signed_thought(survey.stream, turn)) {
        return None;
    }
    open::closed_steps(survey.stream, &survey.pairs).checked_sub(1).map(|step| Position::step(turn, step))
}

/// Returns whether a turn has reasoning that its provider requires in the next request. In an open turn, such reasoning
/// must stay (A6, R2, M5).
fn has_signed_thought(stream: &Stream, turn: usize) -> bool {
    let newest_first = stream.events().iter().enumerate().rev();
    newest_first
        .skip_while(|(_, event)| event.turn > turn)
        .take_while(|(_, event)| event.turn == turn)
        .any(|(element, event)| event.kind == Kind::Reasoning && is_signed(stream, element))
}
