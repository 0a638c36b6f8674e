//! The plans of a batch: one for all transcripts with the same configuration. Its threads share the planner and plan
//! under its lock; each thread has processes and finished plans of its own.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use jp_compact_runtime::clock::Clock;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::session::Sessions;
use tokio::sync::Mutex;

use super::{Error, Launcher, Planner, Typed};
use crate::compact::{OnLowSaving, Opened, Ready, RunSettings};
use crate::config::{self, ConfigScope, JpOwn, Scopes};
use jp_compact_store::{self as store, Place};

/// Plans that a thread keeps. Thousands of transcripts have one configuration; some have their own.
const PLANS_MAX: usize = 64;

/// Plans the runs of a batch.
pub struct BatchPlanner<'a> {
    typed: Typed<'a>,
    environment: &'a Environment,
    scopes: Scopes,
    planner: Mutex<Planner<'a>>,
    launcher: Launcher,
    /// Whether a transcript's own configuration can change its run.
    has_own_config: bool,
    now: Timestamp,
    in_memory: bool,
}

/// The configuration that decides a plan.
type Key = (ConfigScope, JpOwn);

/// The processes and finished plans of one thread.
pub struct ThreadPlans {
    sessions: Arc<Sessions>,
    plans: RefCell<Vec<(Key, Arc<RunSettings>)>>,
}

impl ThreadPlans {
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }
}

impl<'a> BatchPlanner<'a> {
    /// Creates a planner. Typed strategies are prepared now, because their errors concern every transcript. With
    /// `in_memory`, runs append nothing and return the views.
    ///
    /// # Errors
    /// A strategy cannot be used.
    pub fn open(typed: Typed<'a>, in_memory: bool, mut planner: Planner<'a>) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::Spool)?;
        let has_own_config = match typed.strategies {
            [] => true,
            specs => {
                let strategies = runtime.block_on(planner.prepare_typed(specs))?;
                planner.check_focus(&strategies)?;
                strategies.iter().any(Ready::needs_model)
            }
        };
        Ok(Self {
            now: planner.options.now.map_or(Clock::System, Clock::Fixed).now(),
            launcher: planner.launcher(),
            environment: planner.environment,
            scopes: Scopes::default(),
            planner: Mutex::new(planner),
            typed,
            has_own_config,
            in_memory,
        })
    }

    /// Rejects a typed profile that neither the current folder nor any of these transcripts has.
    ///
    /// # Errors
    /// No configuration has the profile.
    pub fn check_profile(&self, paths: impl Iterator<Item = PathBuf>) -> Result<(), Error> {
        let Some(name) = self.typed.profile else { return Ok(()) };
        let planner = self.planner.blocking_lock();
        let (files, values) = (&planner.options.config_files, &planner.options.config_values);
        let config_at = |place: Option<&Place>| {
            let jp = JpOwn::read(self.environment, place, None);
            config::load(self.environment, place, files, values, jp)
        };
        let here = config_at(None)?;
        let Err(unknown) = here.profile(name) else { return Ok(()) };
        let mut seen = HashSet::from([config::scope(self.environment, None).root().map(Path::to_path_buf)]);
        for place in paths.filter_map(|path| store::locate(path.as_os_str(), self.environment).ok()) {
            let root = config::scope(self.environment, Some(&place)).root().map(Path::to_path_buf);
            let is_new = seen.insert(root);
            // An invalid configuration is reported with the transcripts that it concerns.
            if is_new && config_at(Some(&place)).map_or(true, |config| config.profiles.contains_key(name)) {
                return Ok(());
            }
        }
        Err(unknown.into())
    }

    /// Begins a thread with one process per strategy. More would not help, because there are as many threads as can
    /// work at once.
    #[must_use]
    pub fn begin_thread(&self) -> ThreadPlans {
        ThreadPlans { sessions: Arc::new(self.launcher.sessions(1)), plans: RefCell::default() }
    }

    /// Plans the run of a transcript, or returns a finished plan for the same configuration.
    ///
    /// # Errors
    /// A strategy or profile cannot be used, or the configuration is wrong.
    pub async fn plan(&self, thread: &ThreadPlans, opened: &Opened) -> Result<Arc<RunSettings>, Error> {
        let (place, stream) = (&opened.place, &opened.stream);
        let jp = if self.has_own_config {
            JpOwn::read(self.environment, Some(place), Some(stream))
        } else {
            JpOwn::default()
        };
        let scope = self.scopes.scope(self.environment, Some(place));
        // The settings of a transcript's own files are approved for its own folder.
        let key = (if jp.has_same_effect(&JpOwn::default()) { scope.without_own() } else { scope }, jp);
        let is_same = |(scope, jp): &Key| *scope == key.0 && jp.has_same_effect(&key.1);
        if let Some((_, run)) = thread.plans.borrow().iter().find(|(other, _)| is_same(other)) {
            return Ok(Arc::clone(run));
        }
        let run = Arc::new(self.make(thread, opened, key.1.clone()).await?);
        let mut plans = thread.plans.borrow_mut();
        if plans.len() >= PLANS_MAX {
            plans.remove(0);
        }
        plans.push((key, Arc::clone(&run)));
        Ok(run)
    }

    async fn make(&self, thread: &ThreadPlans, opened: &Opened, jp: JpOwn) -> Result<RunSettings, Error> {
        let mut planner = self.planner.lock().await;
        let config = planner.config_with(opened, jp)?;
        let (strategies, wanted) = planner.strategies(&self.typed, &config).await?;
        let mut run = planner.run(strategies, &config, wanted, OnLowSaving::Warn);
        run.policy.skip_existing = true;
        run.io.sessions = Arc::clone(&thread.sessions);
        run.io.now = self.now;
        run.io.in_memory = self.in_memory;
        Ok(run)
    }
}
