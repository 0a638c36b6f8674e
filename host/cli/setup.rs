//! The setup of commands that compact: it gives the shared arguments and the callbacks of a terminal to the engine's
//! planner.

use std::ffi::OsStr;
use std::sync::Arc;

use jp_compact_config as config;
use jp_compact_engine::compact::Opened;
use jp_compact_engine::consent::Asker;
use jp_compact_engine::plan::{Planner, RunOptions, User};
use jp_compact_llm::Models;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::session::Watch;
use jp_compact_transcripts::Format;

use crate::args::RunArgs;
use crate::error::Report;
use crate::input::{open_as, open_to_append, warnings};
use crate::output;
use crate::prices::read_prices;
use crate::prompt;
use jp_compact_help::progress::ProgressLine;

/// The planner of a command, and its progress line.
pub(crate) struct Setup<'a> {
    pub(crate) planner: Planner<'a>,
    pub(crate) progress: Arc<ProgressLine>,
    format: Option<Format>,
    dry_run: bool,
    environment: &'a Environment,
}

impl<'a> Setup<'a> {
    /// Opens the models and the planner. With `several` transcripts, strategies can run as worker processes.
    pub(crate) fn open(
        args: &RunArgs,
        several: bool,
        quiet: bool,
        asker: Asker,
        environment: &'a Environment,
    ) -> Result<Self, Report> {
        Self::with(Self::models(args, environment)?, args, several, quiet, asker, environment)
    }

    /// Opens the models. All setups that share them have one budget and one record of answers.
    pub(crate) fn models(args: &RunArgs, environment: &Environment) -> Result<Arc<Models>, Report> {
        let (files, sets) = (&args.configured.files, &args.configured.sets);
        Ok(Arc::new(args.models.open(config::load_model_settings(environment, files, sets)?, environment)?))
    }

    /// Opens the planner with models that other setups may share.
    pub(crate) fn with(
        models: Arc<Models>,
        args: &RunArgs,
        several: bool,
        quiet: bool,
        asker: Asker,
        environment: &'a Environment,
    ) -> Result<Self, Report> {
        let progress = Arc::new(ProgressLine::new(output::hides_progress(quiet, environment)));
        let registry_and_trust = (args.discovery.registry(environment)?, args.discovery.trust(environment)?);
        let user = user(asker, &progress);
        let options = options(args, environment)?;
        let planner = Planner::open(options, user, registry_and_trust, models, several, environment)?;
        let (format, dry_run) = (args.input.format, args.dry_run);
        Ok(Self { planner, progress, format, dry_run, environment })
    }

    /// Reads a transcript, and prints the warnings about it.
    pub(crate) fn read(&self, transcript: &OsStr) -> Result<Opened, Report> {
        self.warn(open_as(transcript, self.format, self.environment)?)
    }

    /// Reads a transcript again, without its warnings.
    pub(crate) fn read_again(&self, transcript: &OsStr) -> Result<Opened, Report> {
        open_as(transcript, self.format, self.environment)
    }

    /// Reads a transcript that the run will append to. A dry run reads it as [`Self::read`] does.
    pub(crate) fn read_to_append(&self, transcript: &OsStr) -> Result<Opened, Report> {
        if self.dry_run {
            return self.read(transcript);
        }
        self.warn(open_to_append(transcript, self.format, self.environment)?)
    }

    fn warn(&self, opened: Opened) -> Result<Opened, Report> {
        for warning in warnings(&opened.stream, opened.place.path(), self.environment) {
            self.progress.suspend(|| output::warning(&warning));
        }
        Ok(opened)
    }
}

fn options(args: &RunArgs, environment: &Environment) -> Result<RunOptions, Report> {
    Ok(RunOptions {
        config_files: args.configured.files.clone(),
        config_values: args.configured.sets.clone(),
        sandbox: args.discovery.sandbox(),
        deadline: args.deadline,
        focus: args.focus.clone(),
        overlap: args.overlap,
        lock_timeout: args.lock_timeout,
        now: args.now,
        dry_run: args.dry_run,
        estimator: args.counting.tokens.estimator(environment)?,
        allow_invalid: args.allow_invalid,
        require_constraints: args.require_constraints,
        providers: args.provider.clone().map(|providers| providers.0).unwrap_or_default(),
        on_terminal: !args.json && output::is_terminal(),
        shows_report: true,
        prices: read_prices(args, environment)?.map(Arc::new),
    })
}

/// Returns the user at this terminal. Without a terminal, the planner never asks for trust.
fn user(asker: Asker, progress: &Arc<ProgressLine>) -> User {
    let progress_line = Arc::clone(progress);
    User {
        asker,
        watch: Arc::clone(progress) as Arc<dyn Watch>,
        warn: Arc::new(move |warning| progress_line.suspend(|| output::warning(warning))),
        trust: output::can_ask().then(prompt::trust_prompt),
    }
}
