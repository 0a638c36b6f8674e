//! The plan of a run: the strategies that compact a transcript, their turns, and the limits. [`Planner`] computes it
//! from the user's selection and the transcript's configuration. Commands and servers use the same planner, so they
//! plan in the same way. This module never reads command-line arguments and never prints; [`User`] has the callbacks
//! for output.

mod auto;
mod batch;
mod choice;
mod error;
mod focus;
mod run_options;
mod warnings;

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jp_compact_config::call::Call;
use jp_compact_config::inline;
use jp_compact_core::select::{Keep, RequestedSelection, Selection};
use jp_compact_core::spec::Spec;
use jp_compact_runtime::clock::Clock;
use jp_compact_runtime::describe_cache::Descriptions;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Abilities;
use jp_compact_runtime::registry::Registry;
use jp_compact_runtime::session::{Answers, Sessions, Spool, Starter, Watch, describe_deadline};
use jp_compact_runtime::trust::{self, Candidate, Trust};

use crate::compact::{
    self, LlmFailureCache, OnGrowth, OnLowSaving, Opened, Preparation, PreparedStrategy, RunIo, RunLimits,
    RunPolicy, RunSettings, StrategyRunError,
};
use crate::consent::{Asker, ConsentContext};
use jp_compact_config::{self as config, Config, JpSettings, PlannedCalls};
use jp_compact_llm::Models;

pub use auto::{AutoRequest, AutoWindow, ProfileOutcome, range_to_compact};
pub use batch::{BatchPlanner, ThreadPlans};
pub use choice::CommandLineChoice;
pub use error::Error;
pub use run_options::RunOptions;
use warnings::ShownWarnings;

/// The maximum number of worker processes of one strategy.
const WORKERS_MAX: usize = 4;

/// Asks the user whether to trust a plugin.
pub type TrustPrompt = Arc<dyn Fn(&Candidate) -> BoxFuture<'static, io::Result<bool>> + Send + Sync>;

/// The origin of a run, and the callbacks that report to the user and ask the user.
#[derive(Clone)]
pub struct User {
    /// The origin of the request.
    pub asker: Asker,
    /// Follows the progress of strategies.
    pub watch: Arc<dyn Watch>,
    /// Shows a warning.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
    /// Asks for trust. `None` without a terminal.
    pub trust: Option<TrustPrompt>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("User").field("asker", &self.asker).finish_non_exhaustive()
    }
}

/// Plans the runs of a command. It prepares each list of strategies once.
pub struct Planner<'a> {
    options: RunOptions,
    user: User,
    environment: &'a Environment,
    registry: Registry,
    trust: Trust,
    descriptions: Descriptions,
    abilities: Abilities,
    sessions: Arc<Sessions>,
    models: Arc<Models>,
    /// A cache of prepared strategies. Most transcripts share one configuration and so its strategies.
    prepared: Vec<(Vec<Spec>, Vec<PreparedStrategy>)>,
    shown_warnings: ShownWarnings,
}

impl<'a> Planner<'a> {
    /// Creates a planner for the strategies of a registry. Without `many_transcripts`, only strategies with `mode =
    /// "worker"` run as workers. For a single transcript, each strategy gets one request, so a worker would save
    /// nothing.
    ///
    /// # Errors
    /// A configuration file is invalid.
    pub fn open(
        options: RunOptions,
        user: User,
        (registry, trust): (Registry, Trust),
        models: Arc<Models>,
        many_transcripts: bool,
        environment: &'a Environment,
    ) -> Result<Self, Error> {
        let (files, values) = (&options.config_files, &options.config_values);
        let starter = Starter {
            private_bytes_max: config::load_private_bytes_max(environment, files, values)?,
            describe_deadline: describe_deadline(options.deadline),
            spool: Some(Arc::new(Spool::new(&environment.temp_dir))),
            ..Starter::new(registry.runner(), &environment.temp_dir)
        };
        let launcher = Launcher {
            starter,
            deadline: options.deadline,
            models: Arc::clone(&models),
            watch: Arc::clone(&user.watch),
        };
        Ok(Self {
            sessions: Arc::new(launcher.sessions(if many_transcripts { default_workers() } else { 0 })),
            descriptions: Descriptions::open(environment),
            abilities: Abilities::detect_with_limits(environment),
            prepared: Vec::new(),
            shown_warnings: ShownWarnings::default(),
            options,
            user,
            environment,
            registry,
            trust,
            models,
        })
    }

    /// Leaves out the parts of reports that take time and that nothing else needs: costs and lost paths.
    pub fn hide_report(&mut self) {
        self.options.shows_report = false;
    }

    #[must_use]
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Loads the configuration for a transcript.
    ///
    /// # Errors
    /// A file cannot be read, or a key or value in it is invalid.
    pub fn config(&self, opened: &Opened) -> Result<Config, config::Error> {
        let Opened { place, stream, .. } = opened;
        self.config_with(opened, JpSettings::read(self.environment, Some(place), Some(stream)))
    }

    /// Like [`Self::config`], and shows the warnings that were not shown before.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn config_and_warn(&mut self, opened: &Opened) -> Result<Config, config::Error> {
        let config = self.config(opened)?;
        self.warn(&config);
        Ok(config)
    }

    /// Like [`Self::config`], for settings of JP that were already read.
    fn config_with(&self, opened: &Opened, jp: JpSettings) -> Result<Config, config::Error> {
        let RunOptions { config_files, config_values, .. } = &self.options;
        let config = config::load(self.environment, Some(&opened.place), config_files, config_values, jp)?;
        Ok(if opened.stream.format().is_of_other_agent() { config.for_agent_transcript() } else { config })
    }

    /// Plans the run of a transcript.
    ///
    /// # Errors
    /// A strategy or profile cannot be used, or the configuration is invalid.
    pub async fn plan(
        &mut self,
        typed: &CommandLineChoice<'_>,
        opened: &Opened,
    ) -> Result<RunSettings, Error> {
        let config = self.config(opened)?;
        let (strategies, selection) = self.prepare_strategies(typed, &config).await?;
        let mut run = self.run_settings(strategies, &config, selection, OnLowSaving::Warn);
        run.policy.on_growth = typed.on_growth();
        Ok(run)
    }

    /// Plans the run of a profile or an inline form. Without typed bounds, it compacts all turns that the configuration
    /// does not keep.
    ///
    /// # Errors
    /// A strategy or profile cannot be used.
    pub async fn plan_inline(
        &mut self,
        inline: &str,
        selection: RequestedSelection,
        config: &Config,
        on_low_saving: OnLowSaving,
    ) -> Result<RunSettings, Error> {
        self.warn(config);
        let typed = CommandLineChoice { inline: Some(inline), selection, ..CommandLineChoice::default() };
        let (strategies, keep) = self.prepare_profile(&typed, config).await?;
        self.check_focus(&strategies)?;
        let mut run = self.run_settings(strategies, config, selection.with(keep), on_low_saving);
        run.policy.on_growth = typed.on_growth();
        Ok(run)
    }

    /// Prepares the strategies that the user typed, or those of the profile. Also returns the turns to compact.
    ///
    /// # Errors
    /// A strategy or profile cannot be used.
    pub async fn prepare_strategies(
        &mut self,
        typed: &CommandLineChoice<'_>,
        config: &Config,
    ) -> Result<(Vec<PreparedStrategy>, Selection), Error> {
        let (strategies, keep) = match typed.strategies {
            [] => {
                self.warn(config);
                self.prepare_profile(typed, config).await?
            }
            specs => (self.prepare_typed(specs).await?, config.keep(None)),
        };
        self.check_focus(&strategies)?;
        Ok((strategies, typed.selection.with(keep)))
    }

    /// Prepares strategies that the user typed.
    ///
    /// # Errors
    /// A strategy cannot be used.
    pub async fn prepare_typed(&mut self, specs: &[Spec]) -> Result<Vec<PreparedStrategy>, Error> {
        self.prepare(specs, &config::Provenance::typed()).await
    }

    /// Prepares the calls of a profile or an inline form, each with its own turns.
    ///
    /// # Errors
    /// A strategy cannot be used.
    pub async fn prepare_calls(
        &mut self,
        planned: &PlannedCalls<'_>,
    ) -> Result<Vec<PreparedStrategy>, Error> {
        let specs: Vec<Spec> = planned.calls.iter().map(Call::spec).collect();
        let mut strategies = self.prepare(&specs, &planned.provenance).await?;
        for (strategy, call) in strategies.iter_mut().zip(&planned.calls) {
            strategy.range = call.range;
        }
        Ok(strategies)
    }

    /// Prepares the calls of the typed profile, the inline form, or the default profile.
    async fn prepare_profile(
        &mut self,
        typed: &CommandLineChoice<'_>,
        config: &Config,
    ) -> Result<(Vec<PreparedStrategy>, Keep), Error> {
        let planned = match (typed.profile, typed.inline) {
            (None, Some(text)) => resolve_inline(text, config)?,
            (Some(name), _) => config.calls_of(name)?,
            (None, None) => config.default_calls()?,
        };
        if !typed.selection.is_empty()
            && planned.profile.is_none()
            && planned.calls.iter().any(|call| call.range.is_some())
        {
            return Err(Error::ConflictingTurns);
        }
        let planned = planned.with_bounds(typed.selection);
        Ok((self.prepare_calls(&planned).await?, config.keep(planned.profile)))
    }

    async fn prepare(
        &mut self,
        specs: &[Spec],
        provenance: &config::Provenance,
    ) -> Result<Vec<PreparedStrategy>, Error> {
        if let Some((_, cached)) = self.prepared.iter().find(|(prepared_specs, _)| prepared_specs == specs) {
            let mut strategies = cached.clone();
            strategies.iter_mut().for_each(|strategy| strategy.provenance = provenance.clone());
            return Ok(strategies);
        }
        // If a plugin is not trusted, the user is asked, and the next iteration tries again.
        loop {
            let preparation = Preparation {
                registry: &self.registry,
                trust: &self.trust,
                descriptions: &self.descriptions,
                starter: self.sessions.starter(),
                sandbox: self.options.sandbox,
                abilities: self.abilities,
            };
            match compact::prepare(specs, provenance, &preparation, self.environment).await {
                Err(error) => {
                    let error = match &self.user.trust {
                        Some(_) => describe_untrusted(error, &preparation).await,
                        None => error,
                    };
                    self.ask_for_trust(error).await?;
                }
                Ok(mut strategies) => {
                    for strategy in &mut strategies {
                        self.set_focus(strategy)?;
                    }
                    self.prepared.push((specs.to_vec(), strategies.clone()));
                    return Ok(strategies);
                }
            }
        }
    }

    /// If the error is that a plugin is not trusted, asks the user to trust it.
    ///
    /// # Errors
    /// Any other error, or the same error if the user refuses.
    async fn ask_for_trust(&mut self, error: compact::Error) -> Result<(), Error> {
        let compact::Error::Strategy { name, source } = &error else { return Err(error.into()) };
        let (StrategyRunError::Trust(trust::Error::NotTrusted(candidate)), Some(ask)) =
            (source.as_ref(), &self.user.trust)
        else {
            return Err(error.into());
        };
        if !ask(candidate).await.map_err(Error::Prompt)? {
            return Err(error.into());
        }
        self.trust
            .grant(candidate, &candidate.questions())
            .map_err(|source| compact::Error::strategy(name, source))?;
        Ok(())
    }

    /// Shows the warnings of a configuration that were not shown before.
    fn warn(&mut self, config: &Config) {
        self.shown_warnings.new_warnings(config).into_iter().for_each(|warning| (self.user.warn)(warning));
    }

    /// Returns the settings for a run of these strategies on one transcript.
    #[must_use]
    pub fn run_settings(
        &self,
        strategies: Vec<PreparedStrategy>,
        config: &Config,
        selection: Selection,
        on_low_saving: OnLowSaving,
    ) -> RunSettings {
        let options = &self.options;
        // `auto` and `query` must not pay for a failed request again. A replayed answer costs nothing.
        let caches_failures = on_low_saving == OnLowSaving::Decline && !self.models.replays();
        RunSettings {
            strategies,
            policy: RunPolicy {
                consent: self.consent(config),
                model: config.configured_model(),
                conversation_model: config.conversation_model(),
                selection,
                hints: config.hints.clone(),
                overlap: options.overlap.unwrap_or(config.overlap),
                skip_existing: false,
                allow_invalid: options.allow_invalid,
                require_constraints: options.require_constraints,
                providers: options.providers.clone(),
                on_low_saving,
                wait: None,
                on_growth: OnGrowth::DeclineConfigured,
            },
            io: RunIo {
                disk: None,
                sessions: Arc::clone(&self.sessions),
                models: Arc::clone(&self.models),
                now: options.now.map_or(Clock::System, Clock::Fixed).now(),
                dry_run: options.dry_run,
                in_memory: false,
                estimator: options.estimator,
                estimate: None,
                prices: options.reported_prices(on_low_saving),
                reports_losses: options.reports_losses(),
                llm_failures: caches_failures.then(|| LlmFailureCache::open(self.environment)),
            },
            limits: RunLimits { lock_wait: options.lock_timeout, min_saving: config.min_saving },
        }
    }

    /// Returns the data that decide whether a run with this configuration may ask a model.
    #[must_use]
    pub fn consent(&self, config: &Config) -> ConsentContext {
        ConsentContext::new(config.scope().clone(), self.user.asker, self.environment)
    }

    /// Creates sessions for one more thread, with at most one worker per strategy.
    #[must_use]
    pub fn thread_sessions(&self) -> Arc<Sessions> {
        Arc::new(self.launcher().sessions(1))
    }

    /// Ends the worker processes.
    pub async fn close(&self) {
        self.sessions.close().await;
    }

    fn launcher(&self) -> Launcher {
        Launcher {
            starter: self.sessions.starter().clone(),
            deadline: self.options.deadline,
            models: Arc::clone(&self.models),
            watch: Arc::clone(&self.user.watch),
        }
    }
}

/// Starts the processes of strategies.
struct Launcher {
    starter: Starter,
    deadline: Option<Duration>,
    models: Arc<Models>,
    watch: Arc<dyn Watch>,
}

impl Launcher {
    /// Creates sessions with this maximum number of workers per strategy.
    fn sessions(&self, workers: usize) -> Sessions {
        Sessions::new(self.starter.clone(), self.deadline)
            .with_workers(workers)
            .answered_by(Arc::clone(&self.models) as Arc<dyn Answers>)
            .watched_by(Arc::clone(&self.watch))
    }
}

/// Resolves the value of `--compact`. An empty value selects the default profile. If a value is both the name of a
/// profile and an inline form, it selects the profile.
fn resolve_inline<'a>(text: &str, config: &'a Config) -> Result<PlannedCalls<'a>, Error> {
    if text.is_empty() {
        return Ok(config.default_calls()?);
    }
    if config.profiles.contains_key(text) {
        return Ok(config.calls_of(text)?);
    }
    let calls = inline::parse(text).map_err(|reason| Error::BadInline {
        text: text.to_owned(),
        reason,
        profiles: config.profiles.keys().cloned().collect(),
    })?;
    Ok(PlannedCalls::typed(calls))
}

/// Asks an untrusted plugin for its description, which the trust prompt shows. Returns the same error with the
/// description, or the error of the plugin.
async fn describe_untrusted(mut error: compact::Error, preparation: &Preparation<'_>) -> compact::Error {
    if let compact::Error::Strategy { name, source } = &mut error
        && let StrategyRunError::Trust(trust::Error::NotTrusted(candidate)) = source.as_mut()
        && let Err(source) = preparation.describe_candidate(candidate).await
    {
        return compact::Error::strategy(name, source);
    }
    error
}

fn default_workers() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(WORKERS_MAX)
}
