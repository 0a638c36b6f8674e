//! Trust decisions: which plugin may run, with which bytes and which permissions. The user trusts a SHA-256
//! digest. The digest is recorded in the state folder or in a lock file; `--trust-dir` trusts a whole folder.
//!
//! A trusted plugin never runs from its own path. It runs from a verified copy that has the trusted digest.
//! Whether a jail is available is not decided here.

mod candidate;
mod command;
mod error;
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
use crate::jail::is_of_system;
use crate::registry::{Plugin, PluginForm, PluginOrigin};
use known::Digests;
use lock::Lock;
use runs::Identity;
use state::State;
use store::CopyResult;

pub use candidate::{Candidate, DescribeOutcome};
pub use command::quoted;
pub use error::{Error, LockCause, LockError};
pub use grants::Grant;
pub use modes::{Insecure, Why};
pub use record::TrustRecord;
pub use runs::ExecutedFile;
pub use start::{Cleared, asked, file_in};

/// Trust options of the command line.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrustOverrides<'a> {
    /// `--trust-lock`.
    pub lock: Option<&'a Path>,
    /// `--trust-dir`.
    pub dirs: &'a [PathBuf],
}

/// The trust decisions of the user.
#[derive(Debug)]
pub struct Trust {
    digests: Digests,
    state: Option<State>,
    lock: Option<Lock>,
    /// Real paths of the `--trust-dir` folders.
    dirs: Vec<PathBuf>,
}

/// The trust status of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustStatus {
    /// The plugin came with the host.
    Bundled,
    /// The plugin may run with these permissions: a record or the lock file has its digest, or `--trust-dir` covers it.
    Trusted {
        /// The granted permissions.
        permissions: Permissions,
        /// The interpreter when trust was given. With a lock file or `--trust-dir`, the present interpreter.
        interpreter: Option<PathBuf>,
    },
    /// No record exists for this plugin.
    Untrusted,
    /// A record trusts other bytes at this path.
    Changed,
}

/// The digest of a plugin and its trust status.
#[derive(Debug, Clone)]
pub struct Judged {
    /// SHA-256 of the plugin and of the files that it runs outside the system folders.
    pub sha256: String,
    /// The trust status.
    pub standing: TrustStatus,
    identity: Identity,
}

impl Trust {
    /// Opens the trust records of the user and the lock file. Writes nothing.
    ///
    /// # Errors
    /// The given lock file cannot be read or is not valid.
    pub fn open(environment: &Environment, overrides: &TrustOverrides<'_>) -> Result<Self, LockError> {
        let state = environment.state().map(|state| State::open(state.join("trust")));
        let lock = overrides.lock.map(|path| {
            let path = environment.cwd.join(path);
            Lock::read(&path).map_err(|cause| LockError { path, cause: LockCause(cause) })
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
            dirs: overrides.dirs.iter().filter_map(real).collect(),
        })
    }

    /// Returns the digest and the trust status of a plugin. A known digest is not computed again.
    ///
    /// # Errors
    /// The plugin cannot be read, or its digest cannot cover everything that it runs.
    pub fn judge(&self, plugin: &Plugin) -> Result<Judged, Error> {
        let identity = self.identity(plugin)?;
        let standing = self.standing(plugin, &identity)?;
        Ok(Judged { sha256: identity.sha256.clone(), standing, identity })
    }

    fn identity(&self, plugin: &Plugin) -> Result<Identity, Error> {
        let read_error = unreadable(&plugin.real);
        let plugin_sha256 = self.digests.get(&plugin.real).map_err(&read_error)?;
        let runs = if plugin.bundled() { Vec::new() } else { executed_files(plugin, &plugin.real)? };
        Identity::new(plugin_sha256, runs, &self.digests).map_err(read_error)
    }

    fn standing(&self, plugin: &Plugin, identity: &Identity) -> Result<TrustStatus, Error> {
        if plugin.bundled() {
            return Ok(TrustStatus::Bundled);
        }
        let recorded = self.recorded(plugin, &identity.sha256);
        let is_locked = self.lock.as_ref().is_some_and(|lock| lock.entry(&plugin.real).is_some());
        // `--trust-dir` trusts a plugin whose bytes no record trusts, and grants the permissions that the plugin asks
        // for. It does not override a lock file. If the lock file names other bytes, the two options contradict each
        // other, and the plugin does not run. A plugin that runs files outside the trusted folders is not covered
        // either.
        if matches!(plugin.origin, PluginOrigin::TrustDir | PluginOrigin::Path)
            && !is_locked
            && identity.runs.iter().all(|file| self.dirs.iter().any(|dir| file.real.starts_with(dir)))
            && self.trusted_dir(plugin).is_some()
            && !matches!(recorded, Ok(TrustStatus::Trusted { .. }))
        {
            let (permissions, interpreter) = (asked(plugin), start::interpreter(plugin));
            return Ok(TrustStatus::Trusted { permissions, interpreter });
        }
        recorded
    }

    /// Looks the plugin up in the lock file, then in the records of the user.
    fn recorded(&self, plugin: &Plugin, sha256: &str) -> Result<TrustStatus, Error> {
        if let Some(entry) = self.lock.as_ref().and_then(|lock| lock.entry(&plugin.real)) {
            let (permissions, interpreter) = (entry.permissions.clone(), start::interpreter(plugin));
            return Ok(if entry.sha256 == sha256 {
                TrustStatus::Trusted { permissions, interpreter }
            } else {
                TrustStatus::Changed
            });
        }
        let Some(state) = &self.state else { return Ok(TrustStatus::Untrusted) };
        state.check()?;
        Ok(match state.records.get(&plugin.real).map_err(unreadable(&state.folder))? {
            None => TrustStatus::Untrusted,
            Some(record) if record.sha256 == sha256 => {
                TrustStatus::Trusted { permissions: record.permissions, interpreter: record.interpreter }
            }
            Some(_) => TrustStatus::Changed,
        })
    }

    /// Returns whether the user trusts the plugin. False for a bundled plugin, and for one that cannot be read.
    #[must_use]
    pub fn is_trusted(&self, plugin: &Plugin) -> bool {
        self.judge(plugin).is_ok_and(|judged| matches!(judged.standing, TrustStatus::Trusted { .. }))
    }

    /// Returns the first file or folder of the plugin that another user could change.
    ///
    /// # Errors
    /// The permissions cannot be read.
    pub fn insecure(&self, plugin: &Plugin) -> Result<Option<Insecure>, Error> {
        if plugin.bundled() {
            return Ok(None);
        }
        let result = executed_files(plugin, &plugin.real).and_then(|files| self.check_modes(plugin, &files));
        match result {
            Err(Error::Insecure(insecure)) => Ok(Some(insecure)),
            other => other.map(|()| None),
        }
    }

    /// Returns the `--trust-dir` folder that contains the plugin.
    fn trusted_dir(&self, plugin: &Plugin) -> Option<&Path> {
        self.dirs.iter().find(|dir| plugin.real.starts_with(dir)).map(PathBuf::as_path)
    }

    /// Verifies a trusted plugin and returns how its copy is started. A bundled plugin is started from its own path.
    ///
    /// # Errors
    /// The plugin is not trusted, another user could change it, or its manifest cannot be used.
    pub fn clear(&self, plugin: &Plugin) -> Result<Cleared, Error> {
        check_manifest(plugin)?;
        let Judged { sha256, standing, identity } = self.judge(plugin)?;
        match standing {
            TrustStatus::Bundled => Ok(start::bundled(plugin, sha256)),
            TrustStatus::Trusted { permissions, interpreter } => {
                self.check_modes(plugin, &identity.runs)?;
                let copy = self.copy(plugin, &identity)?;
                let permissions = candidate::with_implicit(plugin, permissions);
                let cleared = start::copy(plugin, sha256, &copy, permissions, interpreter)
                    .map_err(bad_manifest(plugin))?;
                Ok(Cleared { lock: self.lock_path(), ..cleared })
            }
            TrustStatus::Untrusted | TrustStatus::Changed => {
                self.check_modes(plugin, &identity.runs)?;
                let is_changed = standing == TrustStatus::Changed;
                let candidate = self.candidate_of(plugin, identity, is_changed);
                Err(Error::NotTrusted(Box::new(candidate)))
            }
        }
    }

    /// Returns a plugin that is not trusted yet, with the facts that the user needs for a decision.
    ///
    /// # Errors
    /// The same as [`Trust::clear`], except that the plugin does not have to be trusted.
    pub fn candidate(&self, plugin: &Plugin) -> Result<Candidate, Error> {
        check_manifest(plugin)?;
        let Judged { standing, identity, .. } = self.judge(plugin)?;
        self.check_modes(plugin, &identity.runs)?;
        Ok(self.candidate_of(plugin, identity, standing == TrustStatus::Changed))
    }

    fn candidate_of(&self, plugin: &Plugin, identity: Identity, changed: bool) -> Candidate {
        Candidate::new(plugin, identity, changed, self.lock_path())
    }

    fn lock_path(&self) -> Option<PathBuf> {
        self.lock.as_ref().map(|lock| lock.path.clone())
    }

    /// Prepares an untrusted plugin so that it can describe itself. The result must only run in a jail.
    ///
    /// # Errors
    /// The plugin cannot be copied, or it changed in the meantime.
    pub fn clear_to_describe(&self, candidate: &Candidate) -> Result<Cleared, Error> {
        let plugin = &candidate.plugin;
        let copy = self.copy(plugin, &candidate.identity)?;
        // The user has not approved any interpreter outside the system folders.
        let interpreter = start::interpreter(plugin).filter(|path| is_of_system(path));
        start::copy(plugin, candidate.sha256.clone(), &copy, candidate::implicit(plugin), interpreter)
            .map_err(bad_manifest(plugin))
    }

    /// Records trust for the bytes of the candidate, and copies them. Returns the record. Permissions that need no
    /// question are granted, too.
    ///
    /// # Errors
    /// The bytes have changed, or the record cannot be written.
    pub fn grant(&mut self, candidate: &Candidate, granted: &[Grant]) -> Result<TrustRecord, Error> {
        let plugin = &candidate.plugin;
        let path = plugin.real.to_str().ok_or_else(|| Error::PathNotText { path: plugin.real.clone() })?;
        let permissions = grants::add(candidate::implicit(plugin), granted);
        let identity = self.identity(plugin)?;
        self.check_modes(plugin, &identity.runs)?;
        if identity != candidate.identity {
            let candidate = self.candidate_of(plugin, identity, true);
            return Err(Error::NotTrusted(Box::new(candidate)));
        }
        self.copy(plugin, &identity)?;
        let (name, sha256) = (plugin.name.clone(), candidate.sha256.clone());
        let record = TrustRecord::new(name, path.into(), sha256, permissions, start::interpreter(plugin));
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

    /// Returns the records in the state folder of the user. Invalid records are left out.
    #[must_use]
    pub fn records(&self) -> Vec<TrustRecord> {
        let records = self.state.as_ref().map(|state| state.records.all().unwrap_or_default());
        records.unwrap_or_default()
    }

    /// Removes trust from a real path, or from every plugin with this name. Returns the number of removed records.
    ///
    /// # Errors
    /// A record cannot be removed.
    pub fn revoke(&mut self, real: Option<&Path>, name: &str) -> Result<usize, Error> {
        if let Some(lock) = &mut self.lock {
            return lock.remove(real, name).map_err(unwritable(&lock.path));
        }
        let state = self.state()?;
        let is_selected = |record: &&TrustRecord| match real {
            Some(real) => Path::new(&record.path) == real,
            None => record.name.as_str() == name,
        };
        let records = state.records.all().map_err(unreadable(&state.folder))?;
        let (selected, others): (Vec<_>, Vec<_>) = records.iter().partition(is_selected);
        for record in &selected {
            state.records.remove(record).map_err(unwritable(&state.folder))?;
            if !others.iter().any(|other| other.sha256 == record.sha256) {
                state.store.forget(&record.sha256).map_err(unwritable(&state.folder))?;
            }
        }
        Ok(selected.len())
    }

    /// Copies the plugin if necessary and returns the path of the verified copy.
    fn copy(&self, plugin: &Plugin, identity: &Identity) -> Result<PathBuf, Error> {
        let state = self.state()?;
        let Identity { sha256, plugin_sha256, runs } = identity;
        let copied = state.store.copy(&plugin.real, sha256, plugin_sha256, &self.digests);
        match copied.map_err(unwritable(&state.folder))? {
            // The list of executed files was read before the copy was made. The copy must have the same list.
            CopyResult::Verified(copy) if executed_files(plugin, &copy)? == *runs => Ok(copy),
            CopyResult::Verified(_) | CopyResult::Changed => {
                let candidate = self.candidate_of(plugin, identity.clone(), true);
                Err(Error::NotTrusted(Box::new(candidate)))
            }
        }
    }

    fn state(&self) -> Result<&State, Error> {
        let state = self.state.as_ref().ok_or(Error::NoState)?;
        state.check()?;
        Ok(state)
    }

    fn check_modes(&self, plugin: &Plugin, runs: &[ExecutedFile]) -> Result<(), Error> {
        let trusted_dir =
            if plugin.origin == PluginOrigin::TrustDir { self.trusted_dir(plugin) } else { None };
        let read_error = unreadable(&plugin.real);
        let mut insecure = modes::check_ancestors(&plugin.real, trusted_dir).map_err(&read_error)?;
        if plugin.manifest().is_some() && insecure.is_none() {
            for path in tree::PluginTree::read(&plugin.real).map_err(&read_error)?.paths() {
                insecure = insecure.or(modes::check_one(&path).map_err(&read_error)?);
            }
        }
        for ExecutedFile { path, .. } in runs {
            let trusted_dir = trusted_dir.filter(|dir| path.starts_with(dir));
            insecure = insecure.or(modes::check_resolution(path, trusted_dir).map_err(unreadable(path))?);
        }
        insecure.map_or(Ok(()), |insecure| Err(Error::Insecure(insecure)))
    }
}

/// Rejects an invalid manifest before anything is started.
fn check_manifest(plugin: &Plugin) -> Result<(), Error> {
    match &plugin.form {
        PluginForm::Broken(reason) => {
            Err(Error::BadManifest { path: plugin.path.clone(), reason: reason.clone() })
        }
        PluginForm::Folder(manifest) => {
            grants::check(&manifest.permissions).map_err(bad_manifest(plugin))?;
            agree(&manifest.protocols).map(drop).map_err(Error::Version)
        }
        PluginForm::Executable | PluginForm::Dylib => Ok(()),
    }
}

/// Returns why a folder of the host must be ignored: another user could write to it.
pub fn insecure_folder(folder: &Path) -> io::Result<Option<Insecure>> {
    modes::check_one(folder)
}

/// Returns the files outside the system folders that the plugin executes.
fn executed_files(plugin: &Plugin, root: &Path) -> Result<Vec<ExecutedFile>, Error> {
    runs::resolve(plugin, root).map_err(|reason| Error::NotCovered { path: plugin.path.clone(), reason })
}

/// Returns the owner if it is neither root nor the user.
#[must_use]
pub fn other_owner(path: &Path) -> Option<u32> {
    modes::other_owner(path)
}

fn bad_manifest(plugin: &Plugin) -> impl Fn(String) -> Error {
    |reason| Error::BadManifest { path: plugin.path.clone(), reason }
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::Unreadable { path: path.to_owned(), source }
}

fn unwritable(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::Unwritable { path: path.to_owned(), source }
}

/// Returns the interpreter of a script with symbolic links resolved.
#[must_use]
pub fn interpreter(script: &Path) -> Option<PathBuf> {
    shebang::interpreter(script)
}

/// Returns the runtime of an interpreter, judged by its file name.
#[must_use]
pub fn runtime(interpreter: &Path) -> Runtime {
    shebang::runtime(interpreter)
}
