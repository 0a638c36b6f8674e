//! The settings of a run: strategies, decisions, inputs and outputs, and bounds. A batch shares them for all its
//! transcripts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jp_compact_core::Overlap;
use jp_compact_core::estimate::{Estimate, Estimator};
use jp_compact_core::render::Provider;
use jp_compact_core::select::Selection;
use jp_compact_evidence::prices::Prices;
use jp_compact_llm::Models;
use jp_compact_runtime::session::Sessions;
use jp_compact_schema::ToolHint;

use super::error::Error;
use super::guard::{OnGrowth, OnLowSaving};
use super::llm_failure_cache::LlmFailureCache;
use super::prepare::PreparedStrategy;
use super::wait::WaitRule;
use crate::consent::{self, Allowed, ConsentContext, ModelUseRequest};
use crate::disk_queue::ThreadDiskQueue;
use jp_compact_config::ConfiguredModel;

/// The settings of a run, the same for every transcript.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// The strategies, in the order of their overlays.
    pub strategies: Vec<PreparedStrategy>,
    pub policy: RunPolicy,
    pub io: RunIo,
    pub limits: RunLimits,
}

/// The decisions of the user and of the configuration about a run.
#[derive(Debug, Clone)]
pub struct RunPolicy {
    /// The data for the decision whether a model may be asked.
    pub consent: ConsentContext,
    pub model: Option<ConfiguredModel>,
    /// The model of the conversation.
    pub conversation_model: Option<ConfiguredModel>,
    /// The turns for strategies without their own range.
    pub selection: Selection,
    /// The overlaps that extend a summary.
    pub overlap: Overlap,
    /// How to compact each tool, by name. Takes precedence over a strategy's rule for all tools.
    pub hints: BTreeMap<String, ToolHint>,
    /// Skip a strategy if the transcript already has its overlay for the same events, turns and options.
    pub skip_existing: bool,
    /// Append even if the view violates a lint rule.
    pub allow_invalid: bool,
    /// Refuse a result whose view lost a constraint of the user.
    pub require_constraints: bool,
    /// The view must also be valid for these providers.
    pub providers: Vec<Provider>,
    pub on_low_saving: OnLowSaving,
    /// The condition under which overlays are declined because of their cost. `None` if the cost does not matter.
    pub wait: Option<WaitRule>,
    pub on_growth: OnGrowth,
}

/// The inputs and outputs of a run besides the transcript.
#[derive(Debug, Clone)]
pub struct RunIo {
    pub sessions: Arc<Sessions>,
    pub models: Arc<Models>,
    /// The time of the run. It stamps overlays and resolves durations.
    pub now: Timestamp,
    /// Waits for the disk while other transcripts continue. `None` if there are no others.
    pub disk: Option<ThreadDiskQueue>,
    /// Append nothing, and ask no model.
    pub dry_run: bool,
    /// Append nothing, because the caller only wants the view.
    pub in_memory: bool,
    pub estimator: Estimator,
    /// The estimate of a stream that begins with the transcript, so that its texts are not measured again.
    pub estimate: Option<Arc<Estimate>>,
    /// The prices with which the run reports its cost in the provider's cache. `None` if it does not report it.
    pub prices: Option<Arc<Prices>>,
    /// Report the paths that the run loses. It takes as long as reading the view.
    pub reports_losses: bool,
    /// The earlier requests without a usable answer. Only the runs of `auto` and `query` have this cache.
    pub llm_failures: Option<LlmFailureCache>,
}

/// The bounds of a run.
#[derive(Debug, Clone)]
pub struct RunLimits {
    /// The maximum wait for the lock of a transcript.
    pub lock_wait: Duration,
    /// The minimum saving, as a part of the view.
    pub min_saving: f64,
}

impl RunSettings {
    /// Decides whether the strategies may ask a model or use the network. Every run begins with this check. A caller with
    /// expensive preparations can do it earlier.
    ///
    /// # Errors
    /// A strategy needs a model, but may not ask one. Or it has the grant `network`, but may not use it.
    pub fn allow(&self) -> Result<Vec<Option<Allowed>>, Error> {
        self.strategies.iter().map(|strategy| self.allow_strategy(strategy)).collect()
    }

    fn allow_strategy(&self, strategy: &PreparedStrategy) -> Result<Option<Allowed>, Error> {
        if strategy.has_network() {
            consent::check(&self.policy.consent, &strategy.provenance, None).map_err(|denial| {
                let strategy = strategy.described.description.name.clone();
                Error::NoNetwork { strategy, denial: Box::new(denial) }
            })?;
        }
        if !strategy.needs_model() {
            return Ok(None);
        }
        let wants = ModelUseRequest {
            strategy: Some((&strategy.described.description.name, &strategy.options)),
            provenance: &strategy.provenance,
            configured_models: [self.policy.model.as_ref(), self.policy.conversation_model.as_ref()],
        };
        Ok(Some(consent::allow(&self.io.models, &self.policy.consent, &wants)?))
    }
}
