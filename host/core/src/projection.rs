//! The projection: computes the view that a model receives. A pure, total function of the stream and its overlays
//! (RFD 064, "Projection Layer"; docs/reference/store.md#projection). The newest overlay wins, per turn or step and
//! separately for summary, reasoning and tool calls. At equal times the later overlay wins.

mod history;

use std::borrow::Cow;
use std::collections::HashMap;

use jp_compact_schema::{Hint, RequestAction, ResponseAction};

use crate::estimate::images;
use crate::event::Kind;
use crate::halves::Halves;
use crate::index::Count;
use crate::overlay::{Overlay, StoredCall, ToolPolicy};
use crate::pairs::Pairs;
use crate::slots::Slots;
use crate::stream::Stream;
use crate::view::{Item, ItemOrigin, Part, View};

pub use history::view_tokens_after_each;

/// Maximum size of one character in JSON: `\ud83d\ude00`.
const CHARACTER_BYTES_MAX: usize = 12;
const QUOTES: usize = 2;

/// Projects a stream with its own overlays.
#[must_use]
pub fn project(stream: &Stream) -> View {
    project_through(stream, stream.overlays())
}

/// Projects a stream as if it had `overlays`, such as after an append.
#[must_use]
pub fn project_through(stream: &Stream, overlays: &[Overlay]) -> View {
    planned(stream, &Plan::new(stream, overlays, None))
}

/// Same as [`project_through`], with known pairs.
#[must_use]
pub fn project_with(stream: &Stream, pairs: &Pairs, overlays: &[Overlay]) -> View {
    planned(stream, &Plan::new(stream, overlays, Some(pairs)))
}

fn planned(stream: &Stream, plan: &Plan<'_>) -> View {
    let overlays = plan.overlays;
    let mut items = Vec::with_capacity(stream.events().len());
    let mut count = Count::default();
    let mut push = |kind, origin, part| items.push(Item { turn: count.turn(kind), origin, part });
    let mut injected = None;
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
        let begins = |run: SummaryRun| injected.is_none_or(|before| before < run.first);
        if let Some(run) = run.or_else(|| plan.run_after_user(slot)).filter(|run| begins(*run)) {
            injected = Some(run.first);
            let text = plan.winners[run.first].summary.and_then(|overlay| overlays[overlay].summary.clone());
            let (text, at) = (text.unwrap_or_default(), event.timestamp.unwrap_or_default());
            let origin = plan.origin(run);
            if run.is_note {
                push(Kind::ChatRequest, origin, Part::SummaryNote { at, text });
            } else {
                push(Kind::TurnStart, origin, Part::SummaryStart { at });
                push(Kind::ChatRequest, origin, Part::SummaryRequest { at });
                push(Kind::Message, origin, Part::SummaryResponse { at, text });
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

/// The outcome for one event outside of summaries.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Keep,
    Omit,
    /// Stripped, but kept because it is not longer than its replacement.
    Short,
    /// Arguments become `{}`.
    Empty,
    /// Content becomes this text.
    Replace(String),
}

/// The winning overlays of one slot, by index.
#[derive(Debug, Clone, Copy, Default)]
struct Winners {
    summary: Option<usize>,
    reasoning: Option<usize>,
    /// The winner among those that apply to every call: `strip` and `omit`.
    tool_calls: Option<usize>,
}

/// A run of slots with the same winning summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SummaryRun {
    /// The first slot.
    first: usize,
    /// The last slot.
    last: usize,
    /// Whether it begins with a step. Then one user message replaces it, and otherwise a pair.
    is_note: bool,
}

struct Plan<'a> {
    stream: &'a Stream,
    overlays: &'a [Overlay],
    slots: Slots<'a>,
    /// By slot.
    winners: Vec<Winners>,
    /// The run that each slot is in.
    runs: Vec<Option<SummaryRun>>,
    /// The newest `selective` entry of each listed element.
    listed: HashMap<usize, (usize, &'a StoredCall)>,
    /// Present only if an overlay has a policy for tool calls.
    pairs: Option<Cow<'a, Pairs>>,
    /// Whether an overlay in our own grammar has one.
    ours: bool,
}

impl<'a> Plan<'a> {
    fn new(stream: &'a Stream, overlays: &'a [Overlay], pairs: Option<&'a Pairs>) -> Self {
        let of_calls = overlays.iter().any(|overlay| overlay.tool_calls.is_some());
        let pairs = of_calls.then(|| pairs.map_or_else(|| Cow::Owned(Pairs::new(stream)), Cow::Borrowed));
        let mut plan = Self::without(stream, overlays, pairs);
        (0..overlays.len()).for_each(|place| plan.win(place));
        plan.runs = runs(&plan.slots, &plan.winners, overlays);
        plan.listed = plan.pairs.as_deref().map(|pairs| listed(stream, overlays, pairs)).unwrap_or_default();
        plan
    }

    /// Makes a plan without any of the overlays.
    fn without(stream: &'a Stream, overlays: &'a [Overlay], pairs: Option<Cow<'a, Pairs>>) -> Self {
        let slots = Slots::new(stream, overlays);
        let (winners, runs) = (vec![Winners::default(); slots.len()], vec![None; slots.len()]);
        Self { stream, overlays, slots, winners, runs, listed: HashMap::new(), pairs, ours: false }
    }

    /// Adds an overlay, which wins over the previous ones in its range.
    fn win(&mut self, place: usize) {
        let (overlays, overlay) = (self.overlays, &self.overlays[place]);
        let Some(range) = overlay.reach(self.stream.turns()) else { return };
        self.ours |= !overlay.applied_by_jp && overlay.tool_calls.is_some();
        let blanket = matches!(overlay.tool_calls, Some(ToolPolicy::Strip { .. } | ToolPolicy::Omit));
        for slot in self.slots.of_range(range) {
            let slot = &mut self.winners[slot];
            let win = |winner: &mut Option<usize>| {
                if winner.is_none_or(|other| overlay.stamp >= overlays[other].stamp) {
                    *winner = Some(place);
                }
            };
            if overlay.summary.is_some() {
                win(&mut slot.summary);
            }
            if overlay.reasoning.is_some() {
                win(&mut slot.reasoning);
            }
            if blanket {
                win(&mut slot.tool_calls);
            }
        }
    }

    /// Returns the run that begins with a pair before the user events of a turn, of which it covers only the steps.
    fn run_after_user(&self, slot: usize) -> Option<SummaryRun> {
        let next = self.runs.get(slot + 1).copied().flatten().filter(|_| self.slots.is_of_user(slot))?;
        (next.first == slot + 1 && !next.is_note && !self.slots.is_of_user(slot + 1)).then_some(next)
    }

    /// Returns the turns and steps that a summary replaces.
    fn origin(&self, run: SummaryRun) -> ItemOrigin {
        let (from, to) = (self.slots.position(run.first), self.slots.position(run.last));
        let is_whole = |slot: usize| {
            let user = slot - self.slots.position(slot).step.map_or(0, |step| step + 1);
            self.runs[user] == Some(run)
        };
        let from_step = from.step.filter(|_| run.is_note);
        // The last slot of a turn ends it, unless the run leaves the user events out.
        let ends_turn = run.last + 1 == self.slots.len() || self.slots.is_of_user(run.last + 1);
        let to_step = to.step.filter(|_| !ends_turn || !is_whole(run.last));
        ItemOrigin::Summary { from: from.turn, to: to.turn, from_step, to_step }
    }

    fn outcome(&self, element: usize) -> Outcome {
        let event = &self.stream.events()[element];
        match event.kind {
            Kind::Reasoning if self.winners[self.slots.slot(event, element)].reasoning.is_some() => {
                Outcome::Omit
            }
            Kind::ToolRequest | Kind::ToolResponse { .. } => {
                let half = self.half(element);
                let partner = self.partner(element);
                // With overlays in our own grammar pairs are never split: if one half is omitted, so is the other.
                match partner {
                    Some(partner) if self.half(partner) == Outcome::Omit => Outcome::Omit,
                    _ => half,
                }
            }
            _ => Outcome::Keep,
        }
    }

    /// Returns the outcome by the newest overlay with a policy for this half of a call.
    fn half(&self, element: usize) -> Outcome {
        let event = &self.stream.events()[element];
        let blanket = self.winners[self.slots.slot(event, element)].tool_calls;
        let listed = self.listed.get(&element);
        let rank = |place: usize| (self.overlays[place].stamp, place);
        match (blanket, listed) {
            (blanket, Some((place, call))) if blanket.is_none_or(|other| rank(*place) >= rank(other)) => {
                self.by_call(element, call)
            }
            (Some(place), _) => match &self.overlays[place].tool_calls {
                Some(ToolPolicy::Omit) => Outcome::Omit,
                Some(ToolPolicy::Strip { request, response, overrides }) => {
                    let hint = overrides.get(&*self.tool_name(element));
                    let wanted =
                        |policy: bool, hint: Option<Hint>| hint.map_or(policy, |hint| hint == Hint::Strip);
                    match event.kind {
                        Kind::ToolRequest if wanted(*request, hint.and_then(|hint| hint.request)) => {
                            self.emptied(element)
                        }
                        Kind::ToolResponse { .. }
                            if wanted(*response, hint.and_then(|hint| hint.response)) =>
                        {
                            self.stripped(element)
                        }
                        _ => Outcome::Keep,
                    }
                }
                Some(ToolPolicy::Selective(_)) | None => Outcome::Keep,
            },
            (None, _) => Outcome::Keep,
        }
    }

    fn by_call(&self, element: usize, call: &StoredCall) -> Outcome {
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

    /// Returns the other half of a call, if overlays in our own grammar require it.
    fn partner(&self, element: usize) -> Option<usize> {
        self.pairs.as_ref().filter(|_| self.ours)?.partner(element)
    }

    /// Returns the tool of a half of a call: its own name, or by its id.
    fn tool_name(&self, element: usize) -> Cow<'_, str> {
        let own =
            self.pairs.as_ref().filter(|_| self.ours).and_then(|pairs| pairs.tool(self.stream, element));
        own.unwrap_or_else(|| self.name_by_id(element))
    }

    fn name_by_id(&self, element: usize) -> Cow<'_, str> {
        let named = self.pairs.as_ref().and_then(|pairs| pairs.name_by_id(self.stream, element));
        named.unwrap_or(Cow::Borrowed("unknown"))
    }

    /// Empties a request's arguments. In some formats the empty form is longer.
    fn emptied(&self, element: usize) -> Outcome {
        if self.fits(element, "") { Outcome::Empty } else { Outcome::Short }
    }

    /// Replaces a response by its status line if that is shorter. In its own conversations JP replaces all responses,
    /// and our view must equal JP's.
    fn stripped(&self, element: usize) -> Outcome {
        let line = self.status_line(element);
        let is_jps = self.stream.external().is_none();
        if is_jps || (self.is_longer_than(element, &line) && self.fits(element, &line)) {
            Outcome::Replace(line)
        } else {
            Outcome::Short
        }
    }

    /// Returns whether a response has more characters than `line`, and not fewer bytes.
    fn is_longer_than(&self, element: usize, line: &str) -> bool {
        let event = &self.stream.events()[element];
        let (body, chars) = (event.body, line.chars().count());
        if images(self.stream, event) > 0 {
            return true;
        }
        // Nearly all responses are too long to need decoding.
        if self.stream.at(body).len() > CHARACTER_BYTES_MAX * chars.max(line.len()) + QUOTES {
            return true;
        }
        let text = self.stream.stored_text(body);
        text.len() >= line.len() && text.chars().count() > chars
    }

    /// Returns whether another program's transcript does not grow when `text` replaces an element's text.
    fn fits(&self, element: usize, text: &str) -> bool {
        let event = self.stream.external().and_then(|external| external.events.get(element));
        event.is_none_or(|event| event.takes(text, self.stream.bytes()))
    }

    fn status_line(&self, element: usize) -> String {
        let failed = self.stream.events()[element].kind == Kind::ToolResponse { is_error: true };
        let status = if failed { "error" } else { "success" };
        format!("[compacted] {}: {status}", self.name_by_id(element))
    }
}

/// The newest `selective` entry of each element, and the index of its overlay.
type Listed<'a> = HashMap<usize, (usize, &'a StoredCall)>;

fn listed<'a>(stream: &Stream, overlays: &'a [Overlay], pairs: &Pairs) -> Listed<'a> {
    let mut listed = Listed::new();
    let is_selective = |overlay: &Overlay| matches!(overlay.tool_calls, Some(ToolPolicy::Selective(_)));
    if overlays.iter().any(is_selective) {
        let halves = Halves::new(stream, pairs);
        for place in 0..overlays.len() {
            list(&mut listed, overlays, place, &halves, pairs);
        }
    }
    listed
}

/// Makes an overlay's `selective` entries the newest of their elements, and returns the elements. `omit` applies to
/// both halves.
fn list<'a>(
    listed: &mut Listed<'a>,
    overlays: &'a [Overlay],
    place: usize,
    halves: &Halves<'_>,
    pairs: &Pairs,
) -> Vec<usize> {
    let overlay = &overlays[place];
    let Some(ToolPolicy::Selective(calls)) = &overlay.tool_calls else { return Vec::new() };
    let mut found = Vec::new();
    for call in calls {
        let Ok(element) = halves.find(overlay, call) else { continue };
        let partner = pairs.partner(element).filter(|_| call.omit);
        for element in [Some(element), partner].into_iter().flatten() {
            let other = listed.get(&element);
            if other.is_none_or(|(other, _)| overlay.stamp >= overlays[*other].stamp) {
                listed.insert(element, (place, call));
                found.push(element);
            }
        }
    }
    found
}

/// Returns the runs of slots with the same winning summary: same text, range and time. A run continues after the user
/// events of the turn that its summary ends in, because these stay.
fn runs(slots: &Slots<'_>, winners: &[Winners], overlays: &[Overlay]) -> Vec<Option<SummaryRun>> {
    let key = |place: usize| {
        let overlay = &overlays[place];
        (overlay.summary.as_deref(), overlay.range(), overlay.stamp)
    };
    // Compare texts only where two overlays meet, not for each slot.
    let is_one = |left: usize, right: usize| left == right || key(left) == key(right);
    let mut runs: Vec<Option<SummaryRun>> = vec![None; winners.len()];
    let mut open: Option<(SummaryRun, usize)> = None;
    for (slot, winner) in winners.iter().enumerate() {
        let Some(place) = winner.summary else { continue };
        let follows = |run: &SummaryRun| {
            run.last + 1 == slot
                || (run.last + 2 == slot && winners[slot - 1].summary.is_none() && slots.is_of_user(slot - 1))
        };
        open = match open.filter(|(run, other)| follows(run) && is_one(*other, place)) {
            Some((run, _)) => Some((SummaryRun { last: slot, ..run }, place)),
            None => {
                // A pair may precede the user events of a turn whose steps its summary covers from the first on.
                let at = slots.position(slot);
                let overlay = &overlays[place];
                let is_start = overlay.from_step.is_none() && overlay.from_turn == at.turn;
                let is_note = at.step.is_some_and(|step| step > 0 || !is_start);
                Some((SummaryRun { first: slot, last: slot, is_note }, place))
            }
        };
        runs[slot] = open.map(|(run, _)| run);
    }
    // Each slot of a run gets the whole run.
    let mut whole: Option<SummaryRun> = None;
    for run in runs.iter_mut().rev().flatten() {
        whole = Some(whole.filter(|whole| whole.first == run.first).unwrap_or(*run));
        *run = whole.unwrap_or(*run);
    }
    runs
}
