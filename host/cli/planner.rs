//! What a batch does to each transcript: what was typed, else what is configured for it. Planned once for all that
//! have the same configuration.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use jp_compact_core::Bound;
use jp_compact_core::select::Wanted;
use jp_compact_engine::batch::{self, Files, Lines};
use jp_compact_engine::clock::Clock;
use jp_compact_engine::compact::{OnLowSaving, Opened, Ready, Run};
use jp_compact_engine::config::{self, JpOwn, Profile, Scope};
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::Failure;
use jp_compact_engine::session::Sessions;
use jp_compact_engine::store::{self, Place};
use jp_compact_schema::report::ErrorReport;
use tokio::sync::Mutex;

use crate::commands::batch::{Args, unwritten};
use crate::commands::compact::{Asked, configured};
use crate::error::Report;
use crate::setup::{Setup, Shared};

/// What decides what is done to a transcript: what was typed, else what is configured for it.
pub(crate) struct Planner<'a> {
    args: &'a Args,
    environment: &'a Environment,
    setup: Mutex<Setup<'a>>,
    pub(crate) shared: Shared,
    typed: Option<Vec<Ready>>,
    /// Whether a transcript's own configuration has a say.
    own: bool,
    now: Timestamp,
}

/// What a thread keeps: its processes, and the runs that it has planned.
pub(crate) struct Local {
    sessions: Arc<Sessions>,
    plans: RefCell<Vec<(Key, Arc<Run>)>>,
}

/// What a run follows from.
type Key = (Scope, JpOwn);

/// Thousands of transcripts have one configuration; some may have one of their own.
const PLANS_MAX: usize = 64;

impl<'a> Planner<'a> {
    /// What was typed is wrong for all transcripts or for none, and is found out before any is read.
    pub(crate) fn open(
        args: &'a Args,
        mut setup: Setup<'a>,
        environment: &'a Environment,
    ) -> Result<Self, Report> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let typed = match args.strategies.as_slice() {
            [] => None,
            specs => Some(runtime.block_on(setup.prepare_typed(specs))?),
        };
        if let Some(strategies) = &typed {
            setup.check_focus(strategies)?;
        }
        let own = typed.as_ref().is_none_or(|strategies| strategies.iter().any(Ready::needs_model));
        let now = args.running.now.map_or(Clock::System, Clock::Fixed).now();
        let shared = setup.shared();
        Ok(Self { args, environment, setup: Mutex::new(setup), shared, typed, own, now })
    }

    /// A profile that was typed is each transcript's own; one that none of them has is a slip of whoever typed.
    pub(crate) fn check_profile(&self, files: &Files) -> Result<(), Report> {
        let Some(name) = self.args.profile.as_deref() else { return Ok(()) };
        let configuration = &self.args.running.configured;
        let config_at = |place: Option<&Place>| {
            let jp = JpOwn::read(self.environment, place, None);
            config::load(self.environment, place, &configuration.files, &configuration.sets, jp)
        };
        let here = config_at(None)?;
        let Err(unknown) = here.profile(name) else { return Ok(()) };
        let mut seen = HashSet::from([config::scope(self.environment, None).root().map(Path::to_path_buf)]);
        for place in (0..files.len())
            .filter_map(|place| store::locate(files.path(place).as_os_str(), self.environment).ok())
        {
            let root = config::scope(self.environment, Some(&place)).root().map(Path::to_path_buf);
            let is_new = seen.insert(root);
            // What is wrong with a configuration is told of the transcripts that it is for.
            if is_new && config_at(Some(&place)).map_or(true, |config| config.profiles.contains_key(name)) {
                return Ok(());
            }
        }
        Err(unknown.into())
    }

    /// Where lines are gathered, if anybody wants them.
    pub(crate) fn lines(&self, report: Option<&Path>) -> Result<Option<Lines>, Report> {
        let args = self.args;
        if report.is_none() && args.junit.is_none() && !args.running.json {
            return Ok(None);
        }
        let estimator = args.running.counting.tokens.estimator().name();
        let head = (env!("CARGO_PKG_VERSION"), args.running.dry_run, estimator);
        let shard = args.shard.map(Into::into);
        let lines = Lines::begin(report, args.resume, &self.environment.temp_dir, head, shard);
        let path = report.unwrap_or(&self.environment.temp_dir);
        lines.map(Some).map_err(|error| unwritten("begin the report", path, &error))
    }

    async fn make(&self, local: &Local, opened: &Opened, jp: JpOwn) -> Result<Run, Report> {
        let mut setup = self.setup.lock().await;
        let config = setup.config_with(opened, jp)?;
        let args = self.args;
        let bounds =
            (args.from.or(args.keep_first.map(Bound::Turn)), args.to.or(args.keep_last.map(Bound::FromEnd)));
        let (strategies, profile): (_, Option<&Profile>) = match &self.typed {
            Some(strategies) => (strategies.clone(), None),
            None => {
                setup.warn(&config);
                let asked = Asked { profile: args.profile.as_deref(), form: None, bounds };
                let (strategies, profile) = configured(asked, &mut setup, &config).await?;
                setup.check_focus(&strategies)?;
                (strategies, profile)
            }
        };
        let wanted = Wanted { from: bounds.0, to: bounds.1, keep: config.keep(profile) };
        Ok(Run {
            sessions: Arc::clone(&local.sessions),
            now: self.now,
            hands_over: args.out.is_some(),
            skips: true,
            ..setup.run(strategies, &config, wanted, OnLowSaving::Warn)
        })
    }
}

impl batch::Work for Planner<'_> {
    type Local = Local;

    fn begin(&self) -> Local {
        // One process for each strategy: the threads are as many as can work at once.
        Local { sessions: Arc::new(self.shared.sessions(1)), plans: RefCell::default() }
    }

    fn sessions<'a>(&self, local: &'a Local) -> &'a Sessions {
        &local.sessions
    }

    async fn plan(&self, local: &Local, opened: &Opened) -> Result<Arc<Run>, ErrorReport> {
        let (place, stream) = (&opened.place, &opened.stream);
        let jp = if self.own {
            JpOwn::read(self.environment, Some(place), Some(stream))
        } else {
            JpOwn::default()
        };
        let scope = config::scope(self.environment, Some(place));
        // What a transcript's own files say is approved for its own folder.
        let key = (if jp.says_the_same(&JpOwn::default()) { scope.without_own() } else { scope }, jp);
        if let Some((_, run)) =
            local.plans.borrow().iter().find(|((scope, jp), _)| *scope == key.0 && jp.says_the_same(&key.1))
        {
            return Ok(Arc::clone(run));
        }
        let run =
            Arc::new(self.make(local, opened, key.1.clone()).await.map_err(|report| report.in_report())?);
        let mut plans = local.plans.borrow_mut();
        if plans.len() >= PLANS_MAX {
            plans.remove(0);
        }
        plans.push((key, Arc::clone(&run)));
        Ok(run)
    }

    fn fault(&self, failure: Failure) -> ErrorReport {
        Report::from(failure).in_report()
    }
}
