//! What is started of a cleared plugin, and how far it is confined. Decides nothing: which of the two doors is
//! taken is for whoever allows the plugin to run.

use std::path::{Path, PathBuf};

use jp_compact_schema::Runtime;

use crate::environment::Environment;
use crate::failure::StrategyFailure;
use crate::jail::{Abilities, Confinement, Jail, Tier};
use crate::registry::Form;
use crate::trust::Cleared;

/// A plugin that may be started, and its jail.
///
/// Invariant: what was made with a jail keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confined {
    /// The plugin.
    pub cleared: Cleared,
    /// Its own program, or the runner for a shared library.
    pub(super) program: PathBuf,
    /// The arguments before the verb.
    args: Vec<String>,
    jail: Option<Jail>,
}

impl Confined {
    /// Without a jail. `runner` opens shared libraries.
    ///
    /// # Errors
    /// It is a library whose path is no text.
    pub fn contained(cleared: Cleared, runner: &Path) -> Result<Self, StrategyFailure> {
        let (program, args) = if cleared.is_dylib() {
            let library = cleared.program.to_str().ok_or_else(|| StrategyFailure::NoPlugin {
                path: cleared.program.clone(),
                what: "its path is not text".into(),
            })?;
            (runner.to_owned(), vec!["--dylib".to_owned(), library.to_owned()])
        } else {
            (cleared.program.clone(), cleared.args.clone())
        };
        Ok(Self { cleared, program, args, jail: None })
    }

    /// In a jail of this machine's, with what was granted.
    ///
    /// # Errors
    /// There is none for it; or as [`Confined::contained`].
    pub fn jailed(cleared: Cleared, abilities: Abilities, runner: &Path) -> Result<Self, StrategyFailure> {
        let confined = Self::contained(cleared, runner)?;
        let cleared = &confined.cleared;
        let own = cleared.folder.as_ref().unwrap_or(&cleared.program);
        // A bare script's interpreter is granted with the trust in it, a folder's by name.
        let is_granted =
            cleared.plugin.form == Form::Executable || cleared.permissions.runtime != Runtime::None;
        let interpreter = cleared.interpreter.as_deref().filter(|_| is_granted);
        let jail = Jail::new(abilities, own, &cleared.permissions, interpreter)
            .ok_or_else(|| StrategyFailure::NoJail { missing: abilities.missing() })?;
        let jail = if cleared.is_dylib() { jail.with_program(runner) } else { jail };
        let jail = if cleared.plugin.bundled() { jail.with_unbounded_threads() } else { jail };
        Ok(Self { jail: Some(jail), ..confined })
    }

    /// Lets files of this folder be opened by name.
    #[must_use]
    pub fn with_spool(self, folder: &Path) -> Self {
        Self { jail: self.jail.map(|jail| jail.with_spool(folder)), ..self }
    }

    /// How it is started.
    #[must_use]
    pub fn confinement(&self) -> Confinement<'_> {
        self.jail.as_ref().map_or(Confinement::Contained, Confinement::Isolated)
    }

    /// How far it is confined.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.confinement().tier()
    }

    /// Its arguments, the verb behind its own.
    pub(super) fn args<'a>(&'a self, verb: &'a str) -> Vec<&'a str> {
        self.args.iter().map(String::as_str).chain([verb]).collect()
    }

    /// The variables that were granted, as they are now.
    pub(super) fn env(&self) -> Vec<(String, String)> {
        let names = self.cleared.permissions.env.iter();
        names.filter_map(|name| Some((name.clone(), Environment::granted(name)?))).collect()
    }

    /// The file that a program which does not start is known by: where its copy lies would tell nobody.
    pub(super) fn known_as(&self, program: PathBuf) -> PathBuf {
        let is_copy = self.cleared.folder.is_none() && program == self.cleared.program;
        if is_copy { self.cleared.plugin.path.clone() } else { program }
    }
}
