//! The sizes of the view after each overlay of a stream, computed in one pass. A slot is weighed again only when its
//! policies change, and only once for each combination of policies. Therefore the time grows linearly with the number of
//! overlays, not quadratically.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use super::{Outcome, Plan, SummaryRun, Winners, add_listed, summary_runs};
use crate::estimate::{Estimate, tokens};
use crate::halves::Halves;
use crate::overlay::ToolPolicy;
use crate::pairs::Pairs;
use crate::stream::Stream;
use crate::view::Part;

/// Returns the tokens of the view without overlays, then with the first overlay, the first two overlays, and so on.
#[must_use]
pub fn view_tokens_after_each(stream: &Stream, pairs: &Pairs, estimate: &Estimate) -> Vec<u64> {
    let mut history = History::new(stream, pairs, estimate);
    let mut sizes = vec![history.view_tokens()];
    for index in 0..stream.overlays().len() {
        history.apply(index);
        sizes.push(history.view_tokens());
    }
    sizes
}

/// The policies for all events of a slot: whether reasoning is omitted, and the number of the policy for tool calls.
type PolicyKey = (bool, Option<usize>);

/// A plan to which the overlays are added one by one, and the weights of its slots.
struct History<'a> {
    plan: Plan<'a>,
    pairs: &'a Pairs,
    halves: Halves<'a>,
    estimate: &'a Estimate,
    /// The weight of the elements outside the conversation.
    outside: u64,
    /// The conversation's elements in each slot.
    elements: Vec<Vec<usize>>,
    /// The weight of each slot if no summary replaces it.
    weights: Vec<u64>,
    /// For each slot, the slots that share a call with it.
    linked: Vec<BTreeSet<usize>>,
    /// Whether a `selective` policy lists an element of the slot.
    has_listed: Vec<bool>,
    /// The number of each distinct policy for all calls, by the policy's debug text.
    policy_numbers: HashMap<String, usize>,
    /// The policy number of each overlay.
    overlay_policies: Vec<Option<usize>>,
    /// The weights of slots by their policies, if nothing else determines the weight.
    cache: HashMap<(usize, PolicyKey), u64>,
    /// The weight of each summary, by overlay and by `is_note`.
    summary_weights: HashMap<(usize, bool), u64>,
}

impl<'a> History<'a> {
    fn new(stream: &'a Stream, pairs: &'a Pairs, estimate: &'a Estimate) -> Self {
        let plan = Plan::empty(stream, stream.overlays(), Some(Cow::Borrowed(pairs)));
        let slot_count = plan.slots.len();
        let (mut elements, mut outside) = (vec![Vec::new(); slot_count], 0);
        let mut linked = vec![BTreeSet::new(); slot_count];
        for (element, event) in stream.events().iter().enumerate() {
            if event.kind.is_conversation() {
                let slot = plan.slots.slot(event, element);
                elements[slot].push(element);
                if let Some(partner) = pairs.partner(element) {
                    let partner_slot = plan.slots.slot(&stream.events()[partner], partner);
                    if partner_slot != slot {
                        linked[slot].insert(partner_slot);
                    }
                }
            } else if !event.kind.is_overlay() {
                outside += estimate.weight(element);
            }
        }
        let weight = |elements: &Vec<usize>| elements.iter().map(|element| estimate.weight(*element)).sum();
        Self {
            pairs,
            halves: Halves::new(stream, pairs),
            estimate,
            outside,
            weights: elements.iter().map(weight).collect(),
            elements,
            linked,
            has_listed: vec![false; slot_count],
            policy_numbers: HashMap::new(),
            overlay_policies: Vec::new(),
            cache: HashMap::new(),
            summary_weights: HashMap::new(),
            plan,
        }
    }

    /// Applies the next overlay.
    fn apply(&mut self, index: usize) {
        let overlay = &self.plan.overlays[index];
        let policy = match &overlay.tool_calls {
            Some(policy @ (ToolPolicy::Strip { .. } | ToolPolicy::Omit)) => {
                let next = self.policy_numbers.len();
                Some(*self.policy_numbers.entry(format!("{policy:?}")).or_insert(next))
            }
            _ => None,
        };
        self.overlay_policies.push(policy);
        let Some(range) = overlay.effective_range(self.plan.stream.turns()) else { return };
        let slots: Vec<usize> = self.plan.slots.in_range(range).collect();
        let previous: Vec<Winners> = slots.iter().map(|slot| self.plan.winners[*slot]).collect();
        let had_extended_policy = self.plan.has_extended_policy;
        self.plan.add_overlay(index);
        let mut dirty = BTreeSet::new();
        for (slot, previous) in slots.into_iter().zip(previous) {
            let current = self.plan.winners[slot];
            let may_outrank_listed = previous.tool_calls != current.tool_calls && self.has_listed[slot];
            if may_outrank_listed || self.policy_key(previous) != self.policy_key(current) {
                dirty.insert(slot);
            }
        }
        let plan = &mut self.plan;
        if overlay.summary.is_some() {
            plan.runs = summary_runs(&plan.slots, &plan.winners, plan.overlays);
        }
        for element in add_listed(&mut plan.listed, plan.overlays, index, &self.halves, self.pairs) {
            let slot = plan.slots.slot(&plan.stream.events()[element], element);
            self.has_listed[slot] = true;
            dirty.insert(slot);
        }
        if plan.has_extended_policy != had_extended_policy {
            // From now on the halves of a call are treated alike, and tool names may differ.
            self.cache.clear();
            dirty = (0..self.weights.len()).collect();
        }
        let linked: Vec<_> = dirty.iter().flat_map(|slot| self.linked[*slot].iter().copied()).collect();
        dirty.extend(linked);
        for slot in dirty {
            self.weights[slot] = self.slot_weight(slot);
        }
    }

    fn policy_key(&self, winners: Winners) -> PolicyKey {
        let policy = winners.tool_calls.and_then(|index| self.overlay_policies.get(index).copied().flatten());
        (winners.reasoning.is_some(), policy)
    }

    /// Returns the weight of a slot if no summary replaces it.
    fn slot_weight(&mut self, slot: usize) -> u64 {
        let is_cacheable = !self.has_listed[slot] && self.linked[slot].is_empty();
        let key = (slot, self.policy_key(self.plan.winners[slot]));
        if is_cacheable && let Some(weight) = self.cache.get(&key) {
            return *weight;
        }
        let weight_of = |element: usize| match self.plan.outcome(element) {
            Outcome::Keep | Outcome::Short => self.estimate.weight(element),
            Outcome::Omit => 0,
            Outcome::Empty => self.estimate.part_weight(&Part::Emptied(element)),
            Outcome::Replace(text) => self.estimate.part_weight(&Part::Replaced(element, text)),
        };
        let weight = self.elements[slot].iter().map(|element| weight_of(*element)).sum();
        if is_cacheable {
            self.cache.insert(key, weight);
        }
        weight
    }

    fn view_tokens(&mut self) -> u64 {
        let (mut sum, mut counted_run) = (self.outside, None);
        for slot in 0..self.weights.len() {
            match self.plan.runs[slot] {
                None => sum += self.weights[slot],
                // Only a slot before the first event is empty. It does not show the summary.
                Some(run) if counted_run != Some(run.first) && !self.elements[slot].is_empty() => {
                    counted_run = Some(run.first);
                    sum += self.summary_weight(run);
                }
                Some(_) => {}
            }
        }
        tokens(sum)
    }

    /// Returns the weight of the synthetic events that replace a run.
    fn summary_weight(&mut self, run: SummaryRun) -> u64 {
        let Some(index) = self.plan.winners[run.first].summary else { return 0 };
        let (plan, estimate) = (&self.plan, self.estimate);
        *self.summary_weights.entry((index, run.is_note)).or_insert_with(|| {
            let text = plan.overlays[index].summary.clone().unwrap_or_default();
            let timestamp = jiff::Timestamp::UNIX_EPOCH;
            if run.is_note {
                return estimate.part_weight(&Part::SummaryNote { timestamp, text });
            }
            estimate.part_weight(&Part::SummaryRequest { timestamp })
                + estimate.part_weight(&Part::SummaryResponse { timestamp, text })
        })
    }
}
