//! The effect of each overlay of a stream on the view without it, computed in one pass. A slot is weighed again only
//! when its policies change, and only once per combination of policies. The work grows linearly with the number of
//! overlays, not quadratically.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use super::{Outcome, Plan, SummaryRun, list, runs};
use crate::estimate::{Estimate, tokens};
use crate::halves::Halves;
use crate::overlay::ToolPolicy;
use crate::pairs::Pairs;
use crate::stream::Stream;
use crate::view::Part;

/// Counts the tokens of the view without overlays, then with the first, the first two, and so on.
#[must_use]
pub fn view_tokens_after_each(stream: &Stream, pairs: &Pairs, estimate: &Estimate) -> Vec<u64> {
    let mut history = History::new(stream, pairs, estimate);
    let mut all = vec![history.tokens()];
    for place in 0..stream.overlays().len() {
        history.add(place);
        all.push(history.tokens());
    }
    all
}

/// The policies for a slot's events as a whole.
type PolicyKey = (bool, Option<usize>);

struct History<'a> {
    plan: Plan<'a>,
    pairs: &'a Pairs,
    halves: Halves<'a>,
    estimate: &'a Estimate,
    /// The weight of elements in no turn.
    outside: u64,
    /// The conversation's elements, by slot.
    elements: Vec<Vec<usize>>,
    /// The weight of each slot's events outside of summaries.
    weights: Vec<u64>,
    /// For each slot, the slots that share a call with it.
    linked: Vec<BTreeSet<usize>>,
    /// Slots with elements that a `selective` lists.
    has_listed: Vec<bool>,
    /// An index per distinct policy.
    policies: HashMap<String, usize>,
    /// The policy index of each overlay with a policy for all calls.
    policy_of: Vec<Option<usize>>,
    /// The weight of a slot with these policies and without policies for single calls.
    cache: HashMap<(usize, PolicyKey), u64>,
    /// The weight of each summary.
    summaries: HashMap<(usize, bool), u64>,
}

impl<'a> History<'a> {
    fn new(stream: &'a Stream, pairs: &'a Pairs, estimate: &'a Estimate) -> Self {
        let plan = Plan::without(stream, stream.overlays(), Some(Cow::Borrowed(pairs)));
        let slots = plan.slots.len();
        let (mut elements, mut outside) = (vec![Vec::new(); slots], 0);
        let mut linked = vec![BTreeSet::new(); slots];
        for (element, event) in stream.events().iter().enumerate() {
            if event.kind.is_conversation() {
                let slot = plan.slots.slot(event, element);
                elements[slot].push(element);
                let partner = pairs.partner(element);
                let other = partner.map(|partner| plan.slots.slot(&stream.events()[partner], partner));
                if let Some(other) = other.filter(|other| *other != slot) {
                    linked[slot].insert(other);
                }
            } else if !event.kind.is_overlay() {
                outside += estimate.weight(element);
            }
        }
        let weigh = |elements: &Vec<usize>| elements.iter().map(|element| estimate.weight(*element)).sum();
        Self {
            pairs,
            halves: Halves::new(stream, pairs),
            estimate,
            outside,
            weights: elements.iter().map(weigh).collect(),
            elements,
            linked,
            has_listed: vec![false; slots],
            policies: HashMap::new(),
            policy_of: Vec::new(),
            cache: HashMap::new(),
            summaries: HashMap::new(),
            plan,
        }
    }

    /// Applies the next overlay.
    fn add(&mut self, place: usize) {
        let overlay = &self.plan.overlays[place];
        let policy = match &overlay.tool_calls {
            Some(policy @ (ToolPolicy::Strip { .. } | ToolPolicy::Omit)) => {
                let next = self.policies.len();
                Some(*self.policies.entry(format!("{policy:?}")).or_insert(next))
            }
            _ => None,
        };
        self.policy_of.push(policy);
        let Some(range) = overlay.reach(self.plan.stream.turns()) else { return };
        let range: Vec<usize> = self.plan.slots.of_range(range).collect();
        let before: Vec<_> = range.iter().map(|slot| self.plan.winners[*slot]).collect();
        let was_ours = self.plan.ours;
        self.plan.win(place);
        let mut dirty = BTreeSet::new();
        for (slot, before) in range.into_iter().zip(before) {
            let after = self.plan.winners[slot];
            let moved = before.tool_calls != after.tool_calls && self.has_listed[slot];
            if moved || self.policy_key(before) != self.policy_key(after) {
                dirty.insert(slot);
            }
        }
        if overlay.summary.is_some() {
            self.plan.runs = runs(&self.plan.slots, &self.plan.winners, self.plan.overlays);
        }
        let plan = &mut self.plan;
        for element in list(&mut plan.listed, plan.overlays, place, &self.halves, self.pairs) {
            let slot = self.plan.slots.slot(&self.plan.stream.events()[element], element);
            self.has_listed[slot] = true;
            dirty.insert(slot);
        }
        if self.plan.ours != was_ours {
            // From here on calls are paired, and their tool names can differ.
            self.cache.clear();
            dirty = (0..self.weights.len()).collect();
        }
        let linked: Vec<_> = dirty.iter().flat_map(|slot| self.linked[*slot].iter().copied()).collect();
        dirty.extend(linked);
        for slot in dirty {
            self.weights[slot] = self.weigh(slot);
        }
    }

    fn policy_key(&self, winners: super::Winners) -> PolicyKey {
        let policy = winners.tool_calls.and_then(|place| self.policy_of.get(place).copied().flatten());
        (winners.reasoning.is_some(), policy)
    }

    fn weigh(&mut self, slot: usize) -> u64 {
        let is_alone = !self.has_listed[slot] && self.linked[slot].is_empty();
        let key = (slot, self.policy_key(self.plan.winners[slot]));
        if is_alone && let Some(weight) = self.cache.get(&key) {
            return *weight;
        }
        let shown = |element: usize| match self.plan.outcome(element) {
            Outcome::Keep | Outcome::Short => self.estimate.weight(element),
            Outcome::Omit => 0,
            Outcome::Empty => self.estimate.shown(&Part::Emptied(element)),
            Outcome::Replace(text) => self.estimate.shown(&Part::Replaced(element, text)),
        };
        let weight = self.elements[slot].iter().map(|element| shown(*element)).sum();
        if is_alone {
            self.cache.insert(key, weight);
        }
        weight
    }

    fn tokens(&mut self) -> u64 {
        let (mut sum, mut counted) = (self.outside, None);
        for slot in 0..self.weights.len() {
            match self.plan.runs[slot] {
                None => sum += self.weights[slot],
                // A turn can be empty only if it is before the first event.
                Some(run) if counted != Some(run.first) && !self.elements[slot].is_empty() => {
                    counted = Some(run.first);
                    sum += self.summary(run);
                }
                Some(_) => {}
            }
        }
        tokens(sum)
    }

    /// Returns the weight of the synthetic events that replace a run.
    fn summary(&mut self, run: SummaryRun) -> u64 {
        let Some(place) = self.plan.winners[run.first].summary else { return 0 };
        let (plan, estimate) = (&self.plan, self.estimate);
        *self.summaries.entry((place, run.is_note)).or_insert_with(|| {
            let text = plan.overlays[place].summary.clone().unwrap_or_default();
            let at = jiff::Timestamp::UNIX_EPOCH;
            if run.is_note {
                return estimate.shown(&Part::SummaryNote { at, text });
            }
            estimate.shown(&Part::SummaryRequest { at }) + estimate.shown(&Part::SummaryResponse { at, text })
        })
    }
}
