//! The plans of a batch. Transcripts with the same configuration share a plan. A lock protects the planner and the plans
//! that all threads share. Each thread has its own processes, and its own cache of plans with these processes.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use jp_compact_runtime::clock::Clock;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::session::Sessions;
use tokio::sync::Mutex;

use super::{CommandLineChoice, Error, Launcher, Planner};
use crate::compact::{OnGrowth, OnLowSaving, Opened, PreparedStrategy, RunSettings};
use crate::disk_queue::{DiskQueue, ThreadDiskQueue};
use jp_compact_config::{self as config, ConfigScope, JpSettings, Scopes, Source};
use jp_compact_store::{self as store, Place};

/// The maximum number of plans in a cache. Most transcripts share one configuration, and some have their own.
const PLANS_MAX: usize = 64;

/// Plans the runs of a batch.
pub struct BatchPlanner<'a> {
    typed: CommandLineChoice<'a>,
    environment: &'a Environment,
    scopes: Scopes,
    shared: Mutex<SharedPlans<'a>>,
    launcher: Launcher,
    /// Whether settings from JP's files can change a run. Strategies from the command line do not use
    /// them unless they need a model.
    uses_jp_settings: bool,
    now: Timestamp,
    in_memory: bool,
    on_growth: OnGrowth,
}

/// The planner of all threads, and the plans that it made. A thread replaces the sessions of a plan by its own.
struct SharedPlans<'a> {
    planner: Planner<'a>,
    plans: PlanCache,
}

/// Plans by their configuration. The oldest plan is first.
#[derive(Default)]
struct PlanCache(Vec<(PlanKey, Arc<RunSettings>)>);

impl PlanCache {
    fn find(&self, key: &PlanKey) -> Option<Arc<RunSettings>> {
        let (_, run) = self.0.iter().find(|(cached_key, _)| cached_key.has_same_effect(key))?;
        Some(Arc::clone(run))
    }

    fn insert(&mut self, key: PlanKey, run: Arc<RunSettings>) {
        if self.0.len() >= PLANS_MAX {
            self.0.remove(0);
        }
        self.0.push((key, run));
    }
}

/// The configuration that determines a plan.
#[derive(Clone)]
struct PlanKey {
    scope: ConfigScope,
    jp: JpSettings,
    /// The settings of the conversation, with their origin.
    settings: Option<(Source, String)>,
    /// Whether an agent other than JP wrote the transcript. Such transcripts have their own default profile.
    is_of_other_agent: bool,
}

impl PlanKey {
    fn has_same_effect(&self, other: &Self) -> bool {
        self.scope == other.scope
            && self.settings == other.settings
            && self.is_of_other_agent == other.is_of_other_agent
            && self.jp.has_same_effect(&other.jp)
    }
}

/// The processes and cached plans of one thread.
pub struct ThreadPlans {
    sessions: Arc<Sessions>,
    disk: ThreadDiskQueue,
    plans: RefCell<PlanCache>,
}

impl ThreadPlans {
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Returns the number of appends that wait for the disk.
    #[must_use]
    pub fn pending_appends(&self) -> usize {
        self.disk.pending()
    }
}

impl<'a> BatchPlanner<'a> {
    /// Creates a planner. Strategies from the command line are prepared immediately, because their errors concern every
    /// transcript. With `in_memory`, runs append nothing and return the views. With `restore`, a proposal may make a
    /// view larger.
    ///
    /// # Errors
    /// A strategy cannot be used.
    pub fn open(
        typed: CommandLineChoice<'a>,
        in_memory: bool,
        restore: bool,
        mut planner: Planner<'a>,
    ) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::Runtime)?;
        // The report of a batch has neither costs nor lost paths.
        planner.hide_report();
        let uses_jp_settings = match typed.strategies {
            [] => true,
            specs => {
                let strategies = runtime.block_on(planner.prepare_typed(specs))?;
                planner.check_focus(&strategies)?;
                strategies.iter().any(PreparedStrategy::needs_model)
            }
        };
        Ok(Self {
            now: planner.options.now.map_or(Clock::System, Clock::Fixed).now(),
            launcher: planner.launcher(),
            environment: planner.environment,
            scopes: Scopes::default(),
            shared: Mutex::new(SharedPlans { planner, plans: PlanCache::default() }),
            typed,
            uses_jp_settings,
            in_memory,
            on_growth: OnGrowth::in_batch(restore),
        })
    }

    /// Rejects the profile of `--profile` if no configuration defines it: neither that of the current folder nor that
    /// of one of these transcripts.
    ///
    /// # Errors
    /// No configuration has the profile.
    pub fn check_profile(&self, paths: impl Iterator<Item = PathBuf>) -> Result<(), Error> {
        let Some(name) = self.typed.profile else { return Ok(()) };
        let SharedPlans { planner, .. } = &*self.shared.blocking_lock();
        let (files, values) = (&planner.options.config_files, &planner.options.config_values);
        let load_config = |place: Option<&Place>| {
            let jp = JpSettings::read(self.environment, place, None);
            config::load(self.environment, place, files, values, jp)
        };
        let current_folder_config = load_config(None)?;
        let Err(no_such_profile) = current_folder_config.profile(name) else { return Ok(()) };
        let mut checked_roots = HashSet::from([self.config_root(None)]);
        for place in paths.filter_map(|path| store::locate(path.as_os_str(), self.environment).ok()) {
            let is_new_root = checked_roots.insert(self.config_root(Some(&place)));
            // The settings of a conversation can define profiles, too. Unreadable settings are reported later.
            if !is_new_root && matches!(config::conversation_settings(self.environment, &place), Ok(None)) {
                continue;
            }
            // An invalid configuration is reported later, with each transcript that uses it.
            if load_config(Some(&place)).map_or(true, |config| config.profiles.contains_key(name)) {
                return Ok(());
            }
        }
        Err(no_such_profile.into())
    }

    fn config_root(&self, place: Option<&Place>) -> Option<PathBuf> {
        config::scope(self.environment, place).root().map(Path::to_path_buf)
    }

    /// Creates the state of a thread, with at most one worker per strategy. More workers would not help, because a
    /// batch starts as many threads as can work at the same time.
    #[must_use]
    pub fn thread_plans(&self, disk: &Arc<DiskQueue>) -> ThreadPlans {
        let sessions = Arc::new(self.launcher.sessions(1));
        ThreadPlans { sessions, disk: ThreadDiskQueue::new(disk), plans: RefCell::default() }
    }

    /// Plans the run of a transcript, or returns a cached plan for the same configuration.
    ///
    /// # Errors
    /// A strategy or profile cannot be used, or the configuration is invalid.
    pub async fn plan(&self, thread: &ThreadPlans, opened: &Opened) -> Result<Arc<RunSettings>, Error> {
        let (place, stream) = (&opened.place, &opened.stream);
        let jp = if self.uses_jp_settings {
            JpSettings::read(self.environment, Some(place), Some(stream))
        } else {
            JpSettings::default()
        };
        let scope = self.scopes.scope(self.environment, Some(place));
        // If a transcript's own files have settings, the user approves them for the transcript's folder, and the plan
        // depends on the folder. Otherwise, transcripts of several folders share a plan.
        let settings = config::conversation_settings(self.environment, place)?;
        let scope = if settings.is_none() && jp.has_same_effect(&JpSettings::default()) {
            scope.without_transcript_folder()
        } else {
            scope
        };
        let is_of_other_agent = stream.format().is_of_other_agent();
        let key = PlanKey { scope, jp, settings, is_of_other_agent };
        if let Some(run) = thread.plans.borrow().find(&key) {
            return Ok(run);
        }
        // Boxed, because the future is large, and most transcripts have a cached plan and would only move it.
        let run = Arc::new(Box::pin(self.plan_for_thread(&key, thread, opened)).await?);
        thread.plans.borrow_mut().insert(key, Arc::clone(&run));
        Ok(run)
    }

    /// Returns a plan with the processes of a thread. Only the first thread that needs it loads the configuration.
    async fn plan_for_thread(
        &self,
        key: &PlanKey,
        thread: &ThreadPlans,
        opened: &Opened,
    ) -> Result<RunSettings, Error> {
        let SharedPlans { planner, plans } = &mut *self.shared.lock().await;
        let mut run = match plans.find(key) {
            Some(run) => RunSettings::clone(&run),
            None => {
                let run = self.plan_with(key.jp.clone(), planner, opened).await?;
                plans.insert(key.clone(), Arc::new(run.clone()));
                run
            }
        };
        run.io.sessions = Arc::clone(&thread.sessions);
        run.io.disk = Some(thread.disk.clone());
        Ok(run)
    }

    async fn plan_with(
        &self,
        jp: JpSettings,
        planner: &mut Planner<'_>,
        opened: &Opened,
    ) -> Result<RunSettings, Error> {
        let config = planner.config_with(opened, jp)?;
        let (strategies, selection) = planner.prepare_strategies(&self.typed, &config).await?;
        let mut run = planner.run_settings(strategies, &config, selection, OnLowSaving::Warn);
        run.policy.skip_existing = true;
        run.policy.on_growth = self.on_growth;
        run.io.now = self.now;
        run.io.in_memory = self.in_memory;
        Ok(run)
    }
}
