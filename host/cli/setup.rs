//! From a command line and the configuration to what runs on a transcript: strategies that are prepared, the
//! processes and models that they share, and the limits. One for each command.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use jp_compact_core::call::Call;
use jp_compact_core::formats::Format;
use jp_compact_core::select::Wanted;
use jp_compact_core::spec::Spec;
use jp_compact_engine::clock::Clock;
use jp_compact_engine::compact::{self, OnLowSaving, Opened, Paid, Preparation, Ready, Run};
use jp_compact_engine::config::{self, Config, JpOwn, Lead, Planned};
use jp_compact_engine::consent::{Asker, Consent};
use jp_compact_engine::describe_cache::Descriptions;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::{Failure, StrategyFailure};
use jp_compact_engine::jail::Abilities;
use jp_compact_engine::llm::Models;
use jp_compact_engine::options;
use jp_compact_engine::registry::Registry;
use jp_compact_engine::session::{Answers, Sessions, Spool, Starter, Watch};
use jp_compact_engine::trust::Trust;

use crate::args::Running;
use crate::commands::{consent, warnings};
use crate::error::Report;
use crate::exit::Exit;
use crate::output;
use crate::progress::Progress;

/// Workers of one strategy.
const WORKERS_MAX: usize = 4;

/// What the transcripts of a command share.
pub(crate) struct Setup<'a> {
    args: &'a Running,
    environment: &'a Environment,
    registry: Registry,
    trust: Trust,
    descriptions: Descriptions,
    abilities: Abilities,
    sessions: Arc<Sessions>,
    pub(crate) models: Arc<Models>,
    pub(crate) progress: Arc<Progress>,
    /// What was prepared already: thousands of transcripts have one configuration.
    prepared: Vec<(Vec<Spec>, Vec<Ready>)>,
    quiet: bool,
    /// Who decides what runs.
    asker: Asker,
    /// What was warned of already: transcripts share files.
    warned: BTreeSet<String>,
}

impl<'a> Setup<'a> {
    /// With workers where there are `several` transcripts: one is a request for each strategy, and not worth a
    /// process that lives on.
    pub(crate) fn open(
        args: &'a Running,
        several: bool,
        quiet: bool,
        asker: Asker,
        environment: &'a Environment,
    ) -> Result<Self, Report> {
        Self::with(Self::models(args, environment)?, args, several, quiet, asker, environment)
    }

    /// The models that there are: one budget and one record for all who share them.
    pub(crate) fn models(args: &Running, environment: &Environment) -> Result<Arc<Models>, Report> {
        let (files, sets) = (&args.configured.files, &args.configured.sets);
        Ok(Arc::new(args.models.open(config::models(environment, files, sets)?, environment)?))
    }

    /// As `open`, with models that others ask too.
    pub(crate) fn with(
        models: Arc<Models>,
        args: &'a Running,
        several: bool,
        quiet: bool,
        asker: Asker,
        environment: &'a Environment,
    ) -> Result<Self, Report> {
        let registry = args.discovery.registry(environment)?;
        let starter = Starter {
            runner: registry.runner().to_owned(),
            temp_dir: environment.temp_dir.clone(),
            private_bytes_max: config::private_bytes_max(
                environment,
                &args.configured.files,
                &args.configured.sets,
            )?,
            spool: Some(Arc::new(Spool::make(&environment.temp_dir)?)),
        };
        let progress = Arc::new(Progress::new(quiet));
        let (deadline, shared) = (args.deadline, (Arc::clone(&models), Arc::clone(&progress)));
        let shared = Shared { starter, deadline, models: shared.0, progress: shared.1 };
        let sessions = shared.sessions(if several { workers_max() } else { 0 });
        Ok(Self {
            trust: args.discovery.trust(environment)?,
            descriptions: Descriptions::open(environment),
            abilities: Abilities::here(environment),
            sessions: Arc::new(sessions),
            prepared: Vec::new(),
            quiet,
            asker,
            warned: BTreeSet::new(),
            args,
            environment,
            registry,
            models,
            progress,
        })
    }

    /// What is configured for a transcript.
    pub(crate) fn config(&self, opened: &Opened) -> Result<Config, Failure> {
        let Opened { place, stream, .. } = opened;
        self.config_with(opened, JpOwn::read(self.environment, Some(place), Some(stream)))
    }

    /// The same, where it is known what JP says.
    pub(crate) fn config_with(&self, opened: &Opened, jp: JpOwn) -> Result<Config, Failure> {
        let Running { configured, .. } = self.args;
        config::load(self.environment, Some(&opened.place), &configured.files, &configured.sets, jp)
    }

    /// Reads a transcript, and says what has to be said of it.
    pub(crate) fn read(&self, transcript: &OsStr) -> Result<Opened, Failure> {
        let opened = compact::open_as(transcript, self.args.written.format, self.environment)?;
        for warning in warnings(&opened.stream, opened.place.path(), self.environment) {
            self.progress.suspend(|| output::warning(&warning));
        }
        Ok(opened)
    }

    /// The format that was typed.
    pub(crate) fn format(&self) -> Option<Format> {
        self.args.written.format
    }

    /// Says what somebody should know who thinks that it is configured: once, and only where the configuration
    /// decides what runs.
    pub(crate) fn warn(&mut self, config: &Config) {
        for warning in &config.warnings {
            if !self.quiet && self.warned.insert(warning.clone()) {
                self.progress.suspend(|| output::warning(warning));
            }
        }
    }

    /// Prepares strategies that the user typed.
    pub(crate) async fn prepare_typed(&mut self, specs: &[Spec]) -> Result<Vec<Ready>, Report> {
        self.prepare(specs, &Lead::typed()).await
    }

    /// Prepares strategies; whoever sits at a terminal may be asked for trust.
    async fn prepare(&mut self, specs: &[Spec], lead: &Lead) -> Result<Vec<Ready>, Report> {
        let led = |ready: Vec<Ready>| {
            ready.into_iter().map(|ready| Ready { lead: lead.clone(), ..ready }).collect()
        };
        if let Some((_, ready)) = self.prepared.iter().find(|(known, _)| known == specs) {
            return Ok(led(ready.clone()));
        }
        loop {
            let preparation = Preparation {
                registry: &self.registry,
                trust: &self.trust,
                descriptions: &self.descriptions,
                starter: self.sessions.starter(),
                sandbox: self.args.discovery.sandbox(),
                abilities: self.abilities,
            };
            match compact::prepare(specs, lead, &preparation, self.environment).await {
                Err(failure) => {
                    let failure = consent::introduce(failure, &preparation).await;
                    consent::settle(failure, &mut self.trust).await?;
                }
                Ok(mut ready) => {
                    for ready in &mut ready {
                        self.focus(ready)?;
                    }
                    self.prepared.push((specs.to_vec(), ready.clone()));
                    return Ok(ready);
                }
            }
        }
    }

    /// Tells a strategy that can be told so what to pay attention to.
    fn focus(&self, ready: &mut Ready) -> Result<(), Failure> {
        let Some(text) = &self.args.focus else { return Ok(()) };
        let description = &ready.described.description;
        options::focus(&mut ready.options, description, text)
            .map_err(|what| Failure::of_strategy(&description.name, StrategyFailure::BadOptions { what }))
    }

    /// Whether somebody said what to pay attention to.
    pub(crate) fn has_focus(&self) -> bool {
        self.args.focus.is_some()
    }

    /// Refuses a focus that none of the strategies would hear of.
    pub(crate) fn check_focus(&self, strategies: &[Ready]) -> Result<(), Report> {
        if self.args.focus.is_none()
            || strategies.iter().any(|ready| ready.options.contains_key(options::FOCUS))
        {
            return Ok(());
        }
        let names: Vec<_> = strategies.iter().map(|ready| &*ready.described.description.name).collect();
        let message = format!(
            "`--focus` says nothing to {}: no strategy of the run has an option `focus`",
            names.join(", ")
        );
        Err(Report::new(Exit::Usage, message, Some("`--profile heavy` and `--strategy summarize` have one")))
    }

    /// Prepares the calls of a profile or of an inline form, each for the turns that it brings.
    pub(crate) async fn prepare_calls(&mut self, planned: &Planned<'_>) -> Result<Vec<Ready>, Report> {
        let specs: Vec<Spec> = planned.calls.iter().map(Call::spec).collect();
        let mut ready = self.prepare(&specs, &planned.lead).await?;
        for (ready, call) in ready.iter_mut().zip(&planned.calls) {
            ready.range = call.range;
        }
        Ok(ready)
    }

    /// The run of strategies on one transcript.
    pub(crate) fn run(
        &self,
        strategies: Vec<Ready>,
        config: &Config,
        wanted: Wanted,
        on_low_saving: OnLowSaving,
    ) -> Run {
        let args = self.args;
        Run {
            strategies,
            sessions: Arc::clone(&self.sessions),
            models: Arc::clone(&self.models),
            consent: self.consent(config),
            model: config.configured_model(),
            conversation_model: config.conversation_model(),
            wanted,
            hints: config.hints.clone(),
            overlap: args.overlap.unwrap_or(config.overlap),
            lock_wait: args.lock_timeout,
            now: args.now.map_or(Clock::System, Clock::Fixed).now(),
            dry_run: args.dry_run,
            hands_over: false,
            skips: false,
            estimator: args.counting.tokens.estimator(),
            allow_invalid: args.allow_invalid,
            providers: args.provider.clone().map(|providers| providers.0).unwrap_or_default(),
            min_saving: config.min_saving,
            on_low_saving,
            // What is replayed costs nothing.
            paid: (on_low_saving == OnLowSaving::Decline && !self.models.replays())
                .then(|| Paid::open(self.environment)),
        }
    }

    /// Whether what a configuration leads to may ask a model.
    pub(crate) fn consent(&self, config: &Config) -> Consent {
        Consent::new(config.scope().clone(), self.asker, self.environment)
    }

    /// What the threads of a batch make their processes with.
    pub(crate) fn shared(&self) -> Shared {
        Shared {
            starter: self.sessions.starter().clone(),
            deadline: self.args.deadline,
            models: Arc::clone(&self.models),
            progress: Arc::clone(&self.progress),
        }
    }

    /// Ends the processes that live on.
    pub(crate) async fn close(&self) {
        self.sessions.close().await;
    }
}

/// What sessions are made with.
pub(crate) struct Shared {
    starter: Starter,
    deadline: Option<Duration>,
    models: Arc<Models>,
    pub(crate) progress: Arc<Progress>,
}

impl Shared {
    /// Processes that nobody else has: so many for each strategy.
    pub(crate) fn sessions(&self, workers: usize) -> Sessions {
        Sessions::new(self.starter.clone(), self.deadline)
            .with_workers(workers)
            .answered_by(Arc::clone(&self.models) as Arc<dyn Answers>)
            .watched_by(Arc::clone(&self.progress) as Arc<dyn Watch>)
    }
}

/// As many as the machine can run at once, within reason.
fn workers_max() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(WORKERS_MAX)
}
