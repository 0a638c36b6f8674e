//! The program, arguments, and confinement of a plugin that may run. This module decides nothing. The caller
//! chooses between a jail and none.

use std::path::{Path, PathBuf};

use jp_compact_schema::Runtime;

use super::error::Error;
use crate::environment::Environment;
use crate::jail::{Abilities, Confinement, Jail, Tier};
use crate::process::Stderr;
use crate::registry::PluginForm;
use crate::trust::Cleared;

/// A plugin that may be started, with its jail.
///
/// Invariant: a value that was created with a jail keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confined {
    /// The plugin with its permissions.
    pub cleared: Cleared,
    /// The program of the plugin, or the runner for a shared library.
    pub(super) program: PathBuf,
    /// The arguments before the verb.
    args: Vec<String>,
    jail: Option<Jail>,
}

impl Confined {
    /// Confines a plugin without a jail. `runner` loads shared libraries.
    ///
    /// # Errors
    /// The path of a shared library is not UTF-8.
    pub fn contained(cleared: Cleared, runner: &Path) -> Result<Self, Error> {
        let (program, args) = if cleared.is_dylib() {
            let library = cleared
                .program
                .to_str()
                .ok_or_else(|| Error::PathNotText { path: cleared.program.clone() })?;
            (runner.to_owned(), vec!["--dylib".to_owned(), library.to_owned()])
        } else {
            (cleared.program.clone(), cleared.args.clone())
        };
        Ok(Self { cleared, program, args, jail: None })
    }

    /// Confines a plugin in a jail with its granted permissions.
    ///
    /// # Errors
    /// This machine has no jail. Also the errors of [`Confined::contained`].
    pub fn jailed(cleared: Cleared, abilities: Abilities, runner: &Path) -> Result<Self, Error> {
        let confined = Self::contained(cleared, runner)?;
        let cleared = &confined.cleared;
        let plugin = cleared.folder.as_ref().unwrap_or(&cleared.program);
        // Trust includes the interpreter of a script without a manifest. A plugin folder needs a grant.
        let is_granted =
            cleared.plugin.form == PluginForm::Executable || cleared.permissions.runtime != Runtime::None;
        let interpreter = cleared.interpreter.as_deref().filter(|_| is_granted);
        let jail = Jail::new(abilities, plugin, &cleared.permissions, interpreter)
            .ok_or_else(|| Error::NoJail { missing: abilities.missing() })?;
        let jail = if cleared.is_dylib() { jail.with_program(runner) } else { jail };
        let jail = if cleared.plugin.bundled() { jail.with_unbounded_threads() } else { jail };
        Ok(Self { jail: Some(jail), ..confined })
    }

    /// Allows opening files in this folder by name.
    #[must_use]
    pub fn with_spool(self, folder: &Path) -> Self {
        Self { jail: self.jail.map(|jail| jail.with_spool(folder)), ..self }
    }

    /// Returns the confinement for the process.
    #[must_use]
    pub fn confinement(&self) -> Confinement<'_> {
        self.jail.as_ref().map_or(Confinement::Contained, Confinement::Isolated)
    }

    /// Returns the tier of the confinement.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.confinement().tier()
    }

    /// Returns the arguments, with the verb at the end.
    pub(super) fn args<'a>(&'a self, verb: &'a str) -> Vec<&'a str> {
        self.args.iter().map(String::as_str).chain([verb]).collect()
    }

    /// Returns the current values of the granted variables.
    pub(super) fn env(&self) -> Vec<(String, String)> {
        let names = self.cleared.permissions.env.iter();
        names.filter_map(|name| Some((name.clone(), Environment::granted(name)?))).collect()
    }

    /// Returns the path of the copy that runs, and the path of the plugin.
    pub(super) fn copy_and_original(&self) -> (PathBuf, &Path) {
        let plugin = &self.cleared.plugin;
        let name = plugin.real.file_name().unwrap_or_default();
        let is_copy = |path: &&PathBuf| path.file_name() == Some(name) && **path != plugin.real;
        let argument = self.args.iter().map(PathBuf::from).find(|path| is_copy(&path));
        let program = Some(&self.program).filter(is_copy).cloned();
        let copy = self.cleared.folder.clone().or(program).or(argument);
        (copy.unwrap_or_else(|| plugin.real.clone()), &plugin.path)
    }

    /// Replaces the path of the copy in the strategy's stderr. The author knows only the original.
    pub(super) fn show_original_path(&self, stderr: &mut Stderr) {
        let (copy, original) = self.copy_and_original();
        stderr.replace_path(&copy, original);
    }

    /// Returns the path for error messages. The path of the copy would mean nothing to the user.
    pub(super) fn display_path(&self, program: PathBuf) -> PathBuf {
        let is_copy = self.cleared.folder.is_none() && program == self.cleared.program;
        if is_copy { self.cleared.plugin.path.clone() } else { program }
    }
}
