//! The projection: a pure, total function from a stream and its overlays to the view that a model receives (RFD 064,
//! "Projection Layer"; docs/reference/store.md#projection). In each turn or step the newest overlay wins, separately
//! for summary, reasoning, and tool calls. Of two overlays with the same time, the later in the stream wins.

mod deciders;
mod history;
mod shown;

use std::borrow::Cow;
use std::collections::HashMap;

use jp_compact_schema::{Hint, RequestAction, ResponseAction};

use crate::estimate::images;
use crate::event::Kind;
use crate::halves::Halves;
use crate::index::ElementCounter;
use crate::overlay::{Overlay, StoredCall, ToolPolicy};
use crate::pairs::Pairs;
use crate::position::Position;
use crate::slots::Slots;
use crate::stream::Stream;
use crate::view::{Item, ItemOrigin, Part, View};

pub use deciders::{Decider, project_with_deciders};
pub use history::view_tokens_after_each;
pub use shown::{ShownInRange, ShownOfOverlay, shown_in_range};

/// The maximum size of one character in JSON, as in `\ud83d\ude00`.
const CHARACTER_BYTES_MAX: usize = 12;
/// The size of the two quotes of a JSON string.
const QUOTE_BYTES: usize = 2;

/// Projects a stream with its own overlays.
#[must_use]
pub fn project(stream: &Stream) -> View {
    project_with_overlays(stream, stream.overlays())
}

/// Projects a stream with other overlays, such as those that it will have after an append.
#[must_use]
pub fn project_with_overlays(stream: &Stream, overlays: &[Overlay]) -> View {
    apply(stream, &Plan::new(stream, overlays, None))
}

/// Same as [`project_with_overlays`], with known pairs.
#[must_use]
pub fn project_with_pairs(stream: &Stream, pairs: &Pairs, overlays: &[Overlay]) -> View {
    apply(stream, &Plan::new(stream, overlays, Some(pairs)))
}

fn apply(stream: &Stream, plan: &Plan<'_>) -> View {
    let overlays = plan.overlays;
    let mut items = Vec::with_capacity(stream.events().len());
    let mut count = ElementCounter::default();
    let mut push = |kind, origin, part| items.push(Item { turn: count.turn(kind), origin, part });
    // The first slot of the last run whose summary is in the view.
    let mut shown_run = None;
    for (element, event) in stream.events().iter().enumerate() {
        if event.kind.is_overlay() || event.kind == Kind::Receipt {
            continue;
        }
        let origin = ItemOrigin::Kept(event.turn);
        if !event.kind.is_conversation() {
            push(event.kind, origin, Part::Kept(element));
            continue;
        }
        let slot = plan.slots.slot(event, element);
        let run = plan.runs[slot];
        let is_new = |run: &SummaryRun| shown_run.is_none_or(|first| first < run.first);
        if let Some(run) = run.or_else(|| plan.run_after_user_events(slot)).filter(is_new) {
            shown_run = Some(run.first);
            let text = plan.winners[run.first].summary.and_then(|overlay| overlays[overlay].summary.clone());
            let (text, timestamp) = (text.unwrap_or_default(), event.timestamp.unwrap_or_default());
            let origin = plan.origin(run);
            if run.is_note {
                push(Kind::ChatRequest, origin, Part::SummaryNote { timestamp, text });
            } else {
                push(Kind::TurnStart, origin, Part::SummaryStart { timestamp });
                push(Kind::ChatRequest, origin, Part::SummaryRequest { timestamp });
                push(Kind::Message, origin, Part::SummaryResponse { timestamp, text });
            }
        }
        if run.is_some() {
            continue;
        }
        match plan.outcome(element) {
            Outcome::Keep => push(event.kind, origin, Part::Kept(element)),
            Outcome::Omit => {}
            Outcome::Short => push(event.kind, origin, Part::Short(element)),
            Outcome::Empty => push(event.kind, origin, Part::Emptied(element)),
            Outcome::Replace(text) => push(event.kind, origin, Part::Replaced(element, text)),
        }
    }
    View { items }
}

/// The effect of the overlays on one event that no summary replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Keep,
    Omit,
    /// Kept despite a strip, because the event is not longer than its replacement.
    Short,
    /// Replace the arguments with `{}`.
    Empty,
    /// Replace the content with this text.
    Replace(String),
}

/// The indexes of the winning overlays of one slot.
#[derive(Debug, Clone, Copy, Default)]
struct Winners {
    summary: Option<usize>,
    reasoning: Option<usize>,
    /// The winner among the policies for all calls: `strip` and `omit`.
    tool_calls: Option<usize>,
}

/// Consecutive slots with the same winning summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SummaryRun {
    first: usize,
    last: usize,
    /// Whether one user message replaces it, because it begins inside a turn. Otherwise a synthetic pair replaces it.
    is_note: bool,
}

/// The effects of overlays, by slot and by listed call.
struct Plan<'a> {
    stream: &'a Stream,
    overlays: &'a [Overlay],
    slots: Slots<'a>,
    /// The winners in each slot.
    winners: Vec<Winners>,
    /// The run that each slot is in.
    runs: Vec<Option<SummaryRun>>,
    listed: ListedCalls<'a>,
    /// `None` if no overlay has a policy for tool calls.
    pairs: Option<Cow<'a, Pairs>>,
    /// Whether an overlay that JP cannot read has a policy for tool calls.
    has_extended_policy: bool,
}

impl<'a> Plan<'a> {
    fn new(stream: &'a Stream, overlays: &'a [Overlay], pairs: Option<&'a Pairs>) -> Self {
        let has_policy = overlays.iter().any(|overlay| overlay.tool_calls.is_some());
        let pairs = has_policy.then(|| pairs.map_or_else(|| Cow::Owned(Pairs::new(stream)), Cow::Borrowed));
        let mut plan = Self::empty(stream, overlays, pairs);
        (0..overlays.len()).for_each(|index| plan.add_overlay(index));
        plan.runs = summary_runs(&plan.slots, &plan.winners, overlays);
        let listed = plan.pairs.as_deref().map(|pairs| listed_calls(stream, overlays, pairs));
        plan.listed = listed.unwrap_or_default();
        plan
    }

    /// Makes a plan in which no overlay has an effect yet.
    fn empty(stream: &'a Stream, overlays: &'a [Overlay], pairs: Option<Cow<'a, Pairs>>) -> Self {
        let slots = Slots::new(stream, overlays);
        let (winners, runs) = (vec![Winners::default(); slots.len()], vec![None; slots.len()]);
        let listed = ListedCalls::new();
        Self { stream, overlays, slots, winners, runs, listed, pairs, has_extended_policy: false }
    }

    /// Adds an overlay. In its range it wins over older overlays.
    fn add_overlay(&mut self, index: usize) {
        let (overlays, overlay) = (self.overlays, &self.overlays[index]);
        let Some(range) = overlay.effective_range(self.stream.turns()) else { return };
        self.has_extended_policy |= !overlay.applied_by_jp && overlay.tool_calls.is_some();
        let is_for_all_calls =
            matches!(overlay.tool_calls, Some(ToolPolicy::Strip { .. } | ToolPolicy::Omit));
        let replace_older = |winner: &mut Option<usize>| {
            if winner.is_none_or(|other| overlay.stamp >= overlays[other].stamp) {
                *winner = Some(index);
            }
        };
        for slot in self.slots.in_range(range) {
            let winners = &mut self.winners[slot];
            if overlay.summary.is_some() {
                replace_older(&mut winners.summary);
            }
            if overlay.reasoning.is_some() {
                replace_older(&mut winners.reasoning);
            }
            if is_for_all_calls {
                replace_older(&mut winners.tool_calls);
            }
        }
    }

    /// Returns the run whose synthetic pair precedes the user events in `slot`. The run covers the first steps of that
    /// turn, but not the user events.
    fn run_after_user_events(&self, slot: usize) -> Option<SummaryRun> {
        let next =
            self.runs.get(slot + 1).copied().flatten().filter(|_| self.slots.is_outside_steps(slot))?;
        (next.first == slot + 1 && !next.is_note && !self.slots.is_outside_steps(slot + 1)).then_some(next)
    }

    /// Returns the turns and steps that a summary replaces.
    fn origin(&self, run: SummaryRun) -> ItemOrigin {
        let (from, to) = (self.slots.position(run.first), self.slots.position(run.last));
        let from_step = from.step.filter(|_| run.is_note);
        // The last slot of a turn ends the whole turn, unless the run leaves out the user events.
        let ends_turn = run.last + 1 == self.slots.len() || self.slots.is_outside_steps(run.last + 1);
        let to_turn_start = run.last - to.step.map_or(0, |step| step + 1);
        let covers_user_events = self.runs[to_turn_start] == Some(run);
        let to_step = to.step.filter(|_| !ends_turn || !covers_user_events);
        ItemOrigin::Summary { from: from.turn, to: to.turn, from_step, to_step }
    }

    fn outcome(&self, element: usize) -> Outcome {
        let event = &self.stream.events()[element];
        match event.kind {
            Kind::Reasoning if self.winners[self.slots.slot(event, element)].reasoning.is_some() => {
                Outcome::Omit
            }
            Kind::ToolRequest | Kind::ToolResponse { .. } => {
                let outcome = self.half_outcome(element);
                match self.linked_pairs().and_then(|pairs| pairs.partner(element)) {
                    // If one half is omitted, so is the other.
                    Some(partner) if self.half_outcome(partner) == Outcome::Omit => Outcome::Omit,
                    _ => outcome,
                }
            }
            _ => Outcome::Keep,
        }
    }

    /// Returns the outcome for a half of a call, ignoring the other half.
    fn half_outcome(&self, element: usize) -> Outcome {
        let event = &self.stream.events()[element];
        let winner = self.winners[self.slots.slot(event, element)].tool_calls;
        if let Some((_, call)) = self.listed_winner(element, winner) {
            return self.listed_outcome(element, call);
        }
        match winner.and_then(|winner| self.overlays[winner].tool_calls.as_ref()) {
            Some(ToolPolicy::Omit) => Outcome::Omit,
            Some(ToolPolicy::Strip { request, response, overrides }) => {
                let hint = overrides.get(&*self.tool_name(element));
                let is_strip =
                    |policy: bool, hint: Option<Hint>| hint.map_or(policy, |hint| hint == Hint::Strip);
                match event.kind {
                    Kind::ToolRequest if is_strip(*request, hint.and_then(|hint| hint.request)) => {
                        self.emptied(element)
                    }
                    Kind::ToolResponse { .. } if is_strip(*response, hint.and_then(|hint| hint.response)) => {
                        self.stripped(element)
                    }
                    _ => Outcome::Keep,
                }
            }
            Some(ToolPolicy::Selective(_)) | None => Outcome::Keep,
        }
    }

    /// Returns the `selective` entry of a half of a call, and the index of its overlay, if the entry wins over
    /// `winner`.
    fn listed_winner(&self, element: usize, winner: Option<usize>) -> Option<(usize, &StoredCall)> {
        let rank = |index: usize| (self.overlays[index].stamp, index);
        let (index, call) = *self.listed.get(&element)?;
        winner.is_none_or(|winner| rank(index) >= rank(winner)).then_some((index, call))
    }

    /// Returns the outcome for a half of a call that a `selective` policy lists.
    fn listed_outcome(&self, element: usize, call: &StoredCall) -> Outcome {
        match (self.stream.events()[element].kind, call.request, &call.response) {
            _ if call.omit => Outcome::Omit,
            (Kind::ToolRequest, Some(RequestAction::Strip), _) => self.emptied(element),
            (Kind::ToolResponse { .. }, _, Some(ResponseAction::Strip)) => self.stripped(element),
            (Kind::ToolResponse { .. }, _, Some(ResponseAction::Replace(text))) => {
                Outcome::Replace(text.clone())
            }
            _ => Outcome::Keep,
        }
    }

    /// Returns the pairs if the two halves of a call must be treated alike. JP treats each half separately. The view
    /// must equal JP's unless an overlay that JP cannot read has a policy for tool calls.
    fn linked_pairs(&self) -> Option<&Pairs> {
        self.pairs.as_deref().filter(|_| self.has_extended_policy)
    }

    /// Returns the tool name of a request or response.
    fn tool_name(&self, element: usize) -> Cow<'_, str> {
        let name = self.linked_pairs().and_then(|pairs| pairs.tool(self.stream, element));
        name.unwrap_or_else(|| self.tool_name_by_id(element))
    }

    fn tool_name_by_id(&self, element: usize) -> Cow<'_, str> {
        let name = self.pairs.as_ref().and_then(|pairs| pairs.name_by_id(self.stream, element));
        name.unwrap_or(Cow::Borrowed("unknown"))
    }

    /// Empties a request's arguments, unless the transcript would grow: in some formats the empty form is longer.
    fn emptied(&self, element: usize) -> Outcome {
        if self.fits(element, "") { Outcome::Empty } else { Outcome::Short }
    }

    /// Replaces a response with its status line if the line is shorter. In JP's own conversations it replaces every
    /// response, because JP does so, and the view must equal JP's.
    fn stripped(&self, element: usize) -> Outcome {
        let line = self.status_line(element);
        if self.stream.is_jp() || (self.is_longer_than(element, &line) && self.fits(element, &line)) {
            Outcome::Replace(line)
        } else {
            Outcome::Short
        }
    }

    /// Returns whether a response has an image, or has more characters than `line` and not fewer bytes.
    fn is_longer_than(&self, element: usize, line: &str) -> bool {
        let event = &self.stream.events()[element];
        let (body, chars) = (event.body, line.chars().count());
        if images(self.stream, event) > 0 {
            return true;
        }
        // For nearly all responses, the stored size already proves this, and nothing is decoded.
        if body.len() > CHARACTER_BYTES_MAX * chars.max(line.len()) + QUOTE_BYTES {
            return true;
        }
        let text = self.stream.stored_text(body);
        text.len() >= line.len() && text.chars().count() > chars
    }

    /// Returns whether `text` can replace an element's text. It must not make another program's transcript larger.
    fn fits(&self, element: usize, text: &str) -> bool {
        let event = self.stream.external().and_then(|external| external.events.get(element));
        event.is_none_or(|event| event.can_hold(text, self.stream.index()))
    }

    fn status_line(&self, element: usize) -> String {
        let failed = self.stream.events()[element].kind == Kind::ToolResponse { is_error: true };
        status_line(&self.tool_name_by_id(element), failed)
    }
}

/// Returns the text that replaces a stripped response.
#[must_use]
pub fn status_line(tool: &str, failed: bool) -> String {
    format!("[compacted] {tool}: {}", if failed { "error" } else { "success" })
}

/// The newest `selective` entry of each listed element, and the index of the entry's overlay.
type ListedCalls<'a> = HashMap<usize, (usize, &'a StoredCall)>;

fn listed_calls<'a>(stream: &Stream, overlays: &'a [Overlay], pairs: &Pairs) -> ListedCalls<'a> {
    let mut listed = ListedCalls::new();
    let is_selective = |overlay: &Overlay| matches!(overlay.tool_calls, Some(ToolPolicy::Selective(_)));
    if overlays.iter().any(is_selective) {
        let halves = Halves::new(stream, pairs);
        for index in 0..overlays.len() {
            add_listed(&mut listed, overlays, index, &halves, pairs);
        }
    }
    listed
}

/// Adds the `selective` entries of one overlay, and returns the elements whose newest entry is from this overlay.
/// `omit` applies to both halves of a call.
fn add_listed<'a>(
    listed: &mut ListedCalls<'a>,
    overlays: &'a [Overlay],
    index: usize,
    halves: &Halves<'_>,
    pairs: &Pairs,
) -> Vec<usize> {
    let overlay = &overlays[index];
    let mut changed = Vec::new();
    let Some(ToolPolicy::Selective(calls)) = &overlay.tool_calls else { return changed };
    for call in calls.iter().filter(|_| overlay.is_applied()) {
        let Ok(element) = halves.find(overlay, call) else { continue };
        let partner = pairs.partner(element).filter(|_| call.omit);
        for element in [Some(element), partner].into_iter().flatten() {
            let other = listed.get(&element);
            if other.is_none_or(|(other, _)| overlay.stamp >= overlays[*other].stamp) {
                listed.insert(element, (index, call));
                changed.push(element);
            }
        }
    }
    changed
}

/// Returns the run of each slot. The slots of a run have the same winning summary: the same text, range, and time. The
/// user events of the turn in which the summary ends stay in the view, but do not end the run.
fn summary_runs(slots: &Slots<'_>, winners: &[Winners], overlays: &[Overlay]) -> Vec<Option<SummaryRun>> {
    let key = |index: usize| {
        let overlay = &overlays[index];
        (overlay.summary.as_deref(), overlay.range(), overlay.stamp)
    };
    // Texts are compared only where two overlays meet, not for each slot.
    let is_same_summary = |left: usize, right: usize| left == right || key(left) == key(right);
    let mut runs: Vec<Option<SummaryRun>> = vec![None; winners.len()];
    // The last run so far, and the overlay of its last slot.
    let mut last_run: Option<(SummaryRun, usize)> = None;
    for (slot, winner) in winners.iter().enumerate() {
        let Some(index) = winner.summary else { continue };
        let is_next = |run: &SummaryRun| {
            run.last + 1 == slot
                || (run.last + 2 == slot
                    && winners[slot - 1].summary.is_none()
                    && slots.is_outside_steps(slot - 1))
        };
        let run = match last_run.filter(|(run, other)| is_next(run) && is_same_summary(*other, index)) {
            Some((run, _)) => SummaryRun { last: slot, ..run },
            None => SummaryRun {
                first: slot,
                last: slot,
                is_note: is_note(slots.position(slot), &overlays[index]),
            },
        };
        last_run = Some((run, index));
        runs[slot] = Some(run);
    }
    // So far, the run of each slot ends with that slot, so only the last slot has the whole run.
    let mut whole: Option<SummaryRun> = None;
    for run in runs.iter_mut().rev().flatten() {
        *run = whole.filter(|whole| whole.first == run.first).unwrap_or(*run);
        whole = Some(*run);
    }
    runs
}

/// Returns whether a user message, and not a synthetic pair, replaces the run that starts at a position. A pair
/// precedes the user events of the turn, so it replaces a run of steps only if the run's overlay starts with the turn.
fn is_note(start: Position, overlay: &Overlay) -> bool {
    let starts_with_turn = overlay.from_step.is_none() && overlay.from_turn == start.turn;
    start.step.is_some_and(|step| step > 0 || !starts_with_turn)
}
