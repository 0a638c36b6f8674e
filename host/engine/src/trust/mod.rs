//! Who may run, as which bytes, with which permissions. Trust is a digest that the user said yes to, in the state
//! folder, in a lock file, or for a whole folder; whoever is trusted runs from a copy that bears that digest.
//! Whether there is a jail to run it in is decided elsewhere.

mod candidate;
mod command;
pub mod grants;
mod known;
mod lock;
mod modes;
mod record;
mod runs;
mod shebang;
mod start;
mod state;
mod store;
mod tree;

use std::io;
use std::path::{Path, PathBuf};

use jp_compact_schema::{Permissions, Runtime, agree};

use crate::environment::Environment;
use crate::failure::{Failure, StrategyFailure};
use crate::jail::is_of_system;
use crate::registry::{Form, Origin, Plugin};
use known::Digests;
use lock::Lock;
use runs::Identity;
use state::State;
use store::Kept;

pub use candidate::{Candidate, Said, asked};
pub use command::quoted;
pub use grants::Grant;
pub use modes::{Insecure, Why};
pub use record::Record;
pub use runs::Runs;
pub use start::Cleared;

/// What the user said on the command line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Word<'a> {
    /// `--trust-lock`.
    pub lock: Option<&'a Path>,
    /// `--trust-dir`.
    pub dirs: &'a [PathBuf],
}

/// Everything that is trusted.
#[derive(Debug)]
pub struct Trust {
    digests: Digests,
    state: Option<State>,
    lock: Option<Lock>,
    /// Real paths.
    dirs: Vec<PathBuf>,
}

/// Whether a plugin is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It came with the host.
    Bundled,
    /// These permissions were granted to these very bytes.
    Trusted {
        /// What was granted.
        permissions: Permissions,
        /// The interpreter of the runtime, as it was found when trust was given.
        interpreter: Option<PathBuf>,
    },
    /// Nobody said anything of it.
    Untrusted,
    /// Other bytes at its path were trusted.
    Changed,
}

/// A plugin's bytes, and whether they are trusted.
#[derive(Debug, Clone)]
pub struct Judged {
    /// SHA-256 of its bytes, and of what it runs outside the system's folders.
    pub sha256: String,
    /// Whether they are trusted.
    pub standing: Standing,
    identity: Identity,
}

impl Trust {
    /// Opens the user's trust. Nothing is written by that.
    ///
    /// # Errors
    /// The lock file that was named is none.
    pub fn open(environment: &Environment, word: &Word<'_>) -> Result<Self, Failure> {
        let state = environment.state().map(|state| State::open(state.join("trust")));
        let lock = word.lock.map(|path| {
            let path = environment.cwd.join(path);
            Lock::read(&path).map_err(|what| Failure::TrustLock { path, what })
        });
        let real = |dir: &PathBuf| environment.cwd.join(dir).canonicalize().ok();
        Ok(Self {
            digests: Digests::new(
                state
                    .as_ref()
                    .filter(|state| state.insecure.is_none())
                    .map(|state| state.folder.join("digests")),
            ),
            state,
            lock: lock.transpose()?,
            dirs: word.dirs.iter().filter_map(real).collect(),
        })
    }

    /// Hashes a plugin, unless it is known, and looks whether those bytes are trusted.
    ///
    /// # Errors
    /// It cannot be read, or is nothing that could be trusted.
    pub fn judge(&self, plugin: &Plugin) -> Result<Judged, StrategyFailure> {
        let identity = self.identity(plugin)?;
        let standing = self.standing(plugin, &identity)?;
        Ok(Judged { sha256: identity.sha256.clone(), standing, identity })
    }

    fn identity(&self, plugin: &Plugin) -> Result<Identity, StrategyFailure> {
        let failed = unreadable(&plugin.real);
        let own = self.digests.of(&plugin.real).map_err(&failed)?;
        let runs = if plugin.bundled() { Vec::new() } else { runs_of(plugin, &plugin.real)? };
        Identity::of(own, runs, &self.digests).map_err(failed)
    }

    fn standing(&self, plugin: &Plugin, identity: &Identity) -> Result<Standing, StrategyFailure> {
        if plugin.bundled() {
            return Ok(Standing::Bundled);
        }
        let written = self.written(plugin, &identity.sha256);
        let locked = self.lock.as_ref().is_some_and(|lock| lock.of(&plugin.real).is_some());
        // A folder that was vouched for trusts what nobody wrote of, with what it asks for. Where a lock file that
        // was typed names other bytes, two words contradict each other, and nothing runs. Nor does what lies elsewhere.
        if plugin.origin == Origin::TrustDir
            && !locked
            && identity.runs.iter().all(|runs| self.dirs.iter().any(|dir| runs.real.starts_with(dir)))
            && self.vouched(plugin).is_some()
            && !matches!(written, Ok(Standing::Trusted { .. }))
        {
            let (permissions, interpreter) = (asked(plugin), start::interpreter(plugin));
            return Ok(Standing::Trusted { permissions, interpreter });
        }
        written
    }

    /// What the lock file says, or the user's records.
    fn written(&self, plugin: &Plugin, sha256: &str) -> Result<Standing, StrategyFailure> {
        if let Some(entry) = self.lock.as_ref().and_then(|lock| lock.of(&plugin.real)) {
            let (permissions, interpreter) = (entry.permissions.clone(), start::interpreter(plugin));
            return Ok(if entry.sha256 == sha256 {
                Standing::Trusted { permissions, interpreter }
            } else {
                Standing::Changed
            });
        }
        let Some(state) = &self.state else { return Ok(Standing::Untrusted) };
        state.check()?;
        Ok(match state.records.of(&plugin.real).map_err(unreadable(&state.folder))? {
            None => Standing::Untrusted,
            Some(record) if record.sha256 == sha256 => {
                Standing::Trusted { permissions: record.permissions, interpreter: record.interpreter }
            }
            Some(_) => Standing::Changed,
        })
    }

    /// Whether a plugin is trusted as it is. One that cannot be read is not.
    #[must_use]
    pub fn is_trusted(&self, plugin: &Plugin) -> bool {
        self.judge(plugin).is_ok_and(|judged| matches!(judged.standing, Standing::Trusted { .. }))
    }

    /// What others could change of a plugin, if anything.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn insecure(&self, plugin: &Plugin) -> Result<Option<Insecure>, StrategyFailure> {
        if plugin.bundled() {
            return Ok(None);
        }
        let checked = runs_of(plugin, &plugin.real).and_then(|runs| self.check_modes(plugin, &runs));
        match checked {
            Err(StrategyFailure::Insecure(insecure)) => Ok(Some(insecure)),
            other => other.map(|()| None),
        }
    }

    /// The folder of `--trust-dir` that a plugin lies in.
    fn vouched(&self, plugin: &Plugin) -> Option<&Path> {
        self.dirs.iter().find(|dir| plugin.real.starts_with(dir)).map(PathBuf::as_path)
    }

    /// What can be started of a plugin that is trusted: its copy, verified. The bundled are started where they lie.
    ///
    /// # Errors
    /// It is not trusted, others could change it, or it is nothing that can be started or talked to.
    pub fn clear(&self, plugin: &Plugin) -> Result<Cleared, StrategyFailure> {
        check_manifest(plugin)?;
        let Judged { sha256, standing, identity } = self.judge(plugin)?;
        match standing {
            Standing::Bundled => Ok(start::bundled(plugin, sha256)),
            Standing::Trusted { permissions, interpreter } => {
                self.check_modes(plugin, &identity.runs)?;
                let copy = self.keep(plugin, &identity)?;
                let permissions = candidate::with_unasked(plugin, permissions);
                let cleared = start::copy(plugin, sha256, &copy, permissions, interpreter)?;
                Ok(Cleared { lock: self.lock_path(), ..cleared })
            }
            Standing::Untrusted | Standing::Changed => {
                self.check_modes(plugin, &identity.runs)?;
                let changed = standing == Standing::Changed;
                let candidate = self.candidate_of(plugin, identity, changed);
                Err(StrategyFailure::NotTrusted(Box::new(candidate)))
            }
        }
    }

    /// What the user is asked about when nobody asked yet.
    ///
    /// # Errors
    /// As [`Trust::clear`], but that it is not trusted.
    pub fn candidate(&self, plugin: &Plugin) -> Result<Candidate, StrategyFailure> {
        check_manifest(plugin)?;
        let Judged { standing, identity, .. } = self.judge(plugin)?;
        self.check_modes(plugin, &identity.runs)?;
        Ok(self.candidate_of(plugin, identity, standing == Standing::Changed))
    }

    fn candidate_of(&self, plugin: &Plugin, identity: Identity, changed: bool) -> Candidate {
        Candidate::new(plugin, identity, changed, self.lock_path())
    }

    fn lock_path(&self) -> Option<PathBuf> {
        self.lock.as_ref().map(|lock| lock.path.clone())
    }

    /// What can be started to hear what an untrusted plugin says of itself, with its interpreter at most. For a
    /// jail alone.
    ///
    /// # Errors
    /// It cannot be copied, or changed meanwhile.
    pub fn clear_to_describe(&self, candidate: &Candidate) -> Result<Cleared, StrategyFailure> {
        let plugin = &candidate.plugin;
        let copy = self.keep(plugin, &candidate.identity)?;
        // An interpreter of the machine's own at most, for nobody has said yes to another.
        let interpreter = start::interpreter(plugin).filter(|path| is_of_system(path));
        start::copy(plugin, candidate.sha256.clone(), &copy, candidate::unasked(plugin), interpreter)
    }

    /// Trusts the bytes that the candidate names, and keeps them. Returns what was granted: the interpreter of a
    /// bare script is, without being named.
    ///
    /// # Errors
    /// Other bytes are there by now, or trust cannot be written down.
    pub fn grant(&mut self, candidate: &Candidate, granted: &[Grant]) -> Result<Record, StrategyFailure> {
        let plugin = &candidate.plugin;
        let path = plugin.real.to_str().ok_or_else(|| StrategyFailure::NoPlugin {
            path: plugin.real.clone(),
            what: "its path is not text, and cannot be written down".into(),
        })?;
        let permissions = grants::with(candidate::unasked(plugin), granted);
        let identity = self.identity(plugin)?;
        self.check_modes(plugin, &identity.runs)?;
        if identity != candidate.identity {
            let candidate = self.candidate_of(plugin, identity, true);
            return Err(StrategyFailure::NotTrusted(Box::new(candidate)));
        }
        self.keep(plugin, &identity)?;
        let (name, sha256) = (plugin.name.clone(), candidate.sha256.clone());
        let record = Record::new(name, path.into(), sha256, permissions, start::interpreter(plugin));
        if let Some(lock) = &mut self.lock {
            let (name, sha256) = (record.name.clone(), record.sha256.clone());
            lock.put(name, &plugin.real, sha256, record.permissions.clone())
                .map_err(unwritable(&lock.path))?;
        } else {
            let state = self.state()?;
            state.records.write(&record).map_err(unwritable(&state.folder))?;
        }
        Ok(record)
    }

    /// Takes trust back from a real path, or from every plugin of a name. Returns how many were trusted.
    ///
    /// # Errors
    /// It cannot be taken back.
    pub fn revoke(&mut self, real: Option<&Path>, name: &str) -> Result<usize, StrategyFailure> {
        if let Some(lock) = &mut self.lock {
            return lock.remove(real, name).map_err(unwritable(&lock.path));
        }
        let state = self.state()?;
        let is_meant = |record: &&Record| match real {
            Some(real) => Path::new(&record.path) == real,
            None => record.name.as_str() == name,
        };
        let all = state.records.all().map_err(unreadable(&state.folder))?;
        let (meant, others): (Vec<_>, Vec<_>) = all.iter().partition(is_meant);
        for record in &meant {
            state.records.remove(record).map_err(unwritable(&state.folder))?;
            if !others.iter().any(|other| other.sha256 == record.sha256) {
                state.store.forget(&record.sha256).map_err(unwritable(&state.folder))?;
            }
        }
        Ok(meant.len())
    }

    /// The copy of a plugin, which starts what was hashed and nothing else.
    fn keep(&self, plugin: &Plugin, identity: &Identity) -> Result<PathBuf, StrategyFailure> {
        let state = self.state()?;
        let Identity { sha256, own, runs } = identity;
        let kept = state.store.keep(&plugin.real, sha256, own, &self.digests);
        match kept.map_err(unwritable(&state.folder))? {
            // What it runs was read from a file that could have been another by then.
            Kept::At(copy) if runs_of(plugin, &copy)? == *runs => Ok(copy),
            Kept::At(_) | Kept::Changed => {
                let candidate = self.candidate_of(plugin, identity.clone(), true);
                Err(StrategyFailure::NotTrusted(Box::new(candidate)))
            }
        }
    }

    fn state(&self) -> Result<&State, StrategyFailure> {
        let state = self.state.as_ref().ok_or(StrategyFailure::NoState)?;
        state.check()?;
        Ok(state)
    }

    fn check_modes(&self, plugin: &Plugin, runs: &[Runs]) -> Result<(), StrategyFailure> {
        let until = if plugin.origin == Origin::TrustDir { self.vouched(plugin) } else { None };
        let failed = unreadable(&plugin.real);
        let mut found = modes::check_up(&plugin.real, until).map_err(&failed)?;
        if plugin.manifest().is_some() && found.is_none() {
            for path in tree::Tree::of(&plugin.real).map_err(&failed)?.paths() {
                found = found.or(modes::check_one(&path).map_err(&failed)?);
            }
        }
        for Runs { named, .. } in runs {
            let until = until.filter(|until| named.starts_with(until));
            found = found.or(modes::check_way(named, until).map_err(unreadable(named))?);
        }
        found.map_or(Ok(()), |insecure| Err(StrategyFailure::Insecure(insecure)))
    }
}

/// Whether a manifest, where there is one, can be followed. Nothing has been started by then.
fn check_manifest(plugin: &Plugin) -> Result<(), StrategyFailure> {
    match &plugin.form {
        Form::Broken(what) => {
            Err(StrategyFailure::BadManifest { path: plugin.path.clone(), what: what.clone() })
        }
        Form::Folder(manifest) => agree(&manifest.protocols).map(drop).map_err(StrategyFailure::Version),
        Form::Executable | Form::Dylib => Ok(()),
    }
}

/// The reason why a folder of the host's own counts for nothing: others could write there.
pub(crate) fn insecure_folder(folder: &Path) -> io::Result<Option<Insecure>> {
    modes::check_one(folder)
}

/// What it executes outside the system's folders.
fn runs_of(plugin: &Plugin, root: &Path) -> Result<Vec<Runs>, StrategyFailure> {
    runs::of(plugin, root).map_err(|what| StrategyFailure::NotCovered { path: plugin.path.clone(), what })
}

/// The owner of a file that is neither root's nor the user's.
pub(crate) fn other_owner(path: &Path) -> Option<u32> {
    modes::other_owner(path)
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> StrategyFailure {
    move |source| StrategyFailure::Unreadable { path: path.to_owned(), source }
}

fn unwritable(path: &Path) -> impl Fn(io::Error) -> StrategyFailure {
    move |source| StrategyFailure::Unwritable { path: path.to_owned(), source }
}

/// The interpreter of a script, where it is one, links resolved.
#[must_use]
pub fn interpreter(script: &Path) -> Option<PathBuf> {
    shebang::interpreter(script)
}

/// The runtime that an interpreter is of.
#[must_use]
pub fn runtime(interpreter: &Path) -> Runtime {
    shebang::runtime(interpreter)
}
