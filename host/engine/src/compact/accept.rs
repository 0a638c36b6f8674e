//! The host's verdict on the proposal of one strategy. The proposal is compared with the overlays of the transcript and
//! with the earlier proposals of the run.

use jp_compact_core::append;
use jp_compact_core::select::Selected;
use jp_compact_core::validate::{self, Compaction, Refusal};
use jp_compact_schema::Payload;

use super::ask::ProposalCollector;
use super::effect::Effect;
use super::proposal::{Proposal, Verdict, validation_context};
use super::{PreparedStrategy, Step, StrategyOutcome, receipt};

impl<'a> ProposalCollector<'a> {
    pub(super) fn validate(
        &self,
        strategy: &PreparedStrategy,
        selected: &Selected,
        payloads: Vec<Payload>,
    ) -> Result<Vec<Compaction>, Refusal> {
        let accepted = append::summary_ranges(&self.entries);
        let (stream, pairs) = (self.survey.stream, &self.survey.pairs);
        let context = validation_context(self.run, stream, pairs, strategy, selected, &accepted);
        validate::validate(&context, payloads)
    }

    /// Accepts the valid compactions of a proposal completely, or not at all.
    pub(super) fn accept(
        &mut self,
        proposal: Proposal<'a>,
        compactions: Vec<Compaction>,
        step: &mut Step,
    ) -> Verdict {
        let Proposal { strategy, payloads, .. } = &proposal;
        step.restored_tokens = 0;
        if let Some(number) = self.find_equal_overlays(strategy, &compactions) {
            step.outcome = StrategyOutcome::AlreadyExists(number);
            return Verdict::Unused(format!("it would repeat overlay {number}"));
        }
        let effect = Effect { survey: self.survey, earlier: &self.entries, compactions: &compactions };
        let growth = effect.growth();
        let reason = if effect.adds_nothing(self.is_changed) {
            Some(match self.is_changed {
                true => {
                    "it adds nothing to the overlays that another run has appended in the meantime".to_owned()
                }
                false => "it adds nothing to the overlays that this run already proposes".to_owned(),
            })
        } else {
            self.run.policy.on_growth.reason_to_decline(growth).filter(|_| growth > 0)
        };
        if let Some(reason) = reason {
            step.outcome = StrategyOutcome::Declined(reason.clone());
            step.add_declined_summaries(strategy, payloads);
            return Verdict::Unused(reason);
        }
        step.restored_tokens = if growth > 0 && effect.replaces_policy() { growth } else { 0 };
        // A digest costs as much as all the rest. Only stored overlays need it.
        let is_stored = !self.run.io.dry_run && !self.run.io.in_memory;
        let input_sha256 = if is_stored { self.input_sha256().to_owned() } else { String::new() };
        for compaction in compactions {
            self.entries.push(receipt::entry(strategy, compaction, &input_sha256, proposal.merges));
            self.entry_steps.push(proposal.step_index);
        }
        self.proposals.push(proposal);
        Verdict::Accepted
    }
}
