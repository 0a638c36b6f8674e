//! Which strategies there are, and where. Finding one never executes it. The bundled ones lie beside the
//! host's own executable and are never looked for on PATH; the order of the others is that of [`folders`].

mod folders;
mod plugin;

use std::path::{Path, PathBuf};

use jp_compact_schema::StrategyName;

use crate::environment::Environment;
use crate::failure::{Failure, StrategyFailure};
use crate::trust::Trust;

pub use folders::{Folder, Wanted};
pub use plugin::{Form, MANIFEST_FILE, Origin, Plugin};

/// The executable that starts all others.
const RUNNER: &str = "compact-runner";

/// What was found, in the order of discovery.
#[derive(Debug, Clone)]
pub struct Registry {
    plugins: Vec<Plugin>,
    runner: PathBuf,
    folders: Vec<Folder>,
    cwd: PathBuf,
}

impl Registry {
    /// Searches every folder of discovery, in order.
    ///
    /// # Errors
    /// A folder that the user named cannot be searched, or the host was installed without its runner.
    pub fn discover(environment: &Environment, wanted: &Wanted<'_>) -> Result<Self, Failure> {
        let home = environment.exe.as_deref().and_then(Path::parent).unwrap_or(Path::new("/"));
        let folders = folders::of(environment, wanted, home);
        let mut plugins = Vec::new();
        for folder in &folders {
            match plugin::in_folder(folder) {
                Ok(found) => plugins.extend(found),
                Err(source) if folder.origin.is_named_by_hand() || folder.origin == Origin::Bundled => {
                    return Err(Failure::PluginDir { path: folder.path.clone(), source });
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(folder = %folder.path.display(), %error, "failed to search a folder");
                }
            }
        }
        let runner = home.join(RUNNER);
        if !plugin::is_executable(&runner) {
            return Err(Failure::NotInstalled { missing: RUNNER.into(), folder: home.to_owned() });
        }
        mark_shadowed(&mut plugins);
        Ok(Self { plugins, runner, folders, cwd: environment.cwd.clone() })
    }

    /// Everything found, shadowed ones too.
    #[must_use]
    pub fn plugins(&self) -> &[Plugin] {
        &self.plugins
    }

    /// The folders searched, in order.
    #[must_use]
    pub fn folders(&self) -> &[Folder] {
        &self.folders
    }

    /// The executable that starts strategies.
    #[must_use]
    pub fn runner(&self) -> &Path {
        &self.runner
    }

    /// The plugin that is meant by a name, or by a path: whatever has a `/` in it.
    ///
    /// # Errors
    /// There is none, or one bears the name of a bundled strategy: those cannot be replaced.
    pub fn find(&self, name: &str) -> Result<Plugin, Failure> {
        let failed = |source| Failure::of_strategy(name, source);
        let found = if name.contains('/') {
            plugin::at(&self.cwd.join(name).components().collect::<PathBuf>(), Origin::Path)
                .map_err(failed)?
        } else {
            self.bearers(name).next().cloned().ok_or_else(|| failed(self.not_found(name)))?
        };
        let bundled = self.bearers(found.name.as_str()).find(|other| other.bundled());
        let taken = bundled.filter(|bundled| !found.bundled() && !found.is_same_file(bundled));
        match taken.map(|bundled| bundled.path.clone()) {
            Some(bundled) => Err(failed(StrategyFailure::ReservedName { plugin: found.path, bundled })),
            None => Ok(found),
        }
    }

    /// The plugin that runs under a name.
    ///
    /// # Errors
    /// As [`Registry::find`]; and it is not trusted, but hides one that is.
    pub fn find_to_run(&self, name: &str, trust: &Trust) -> Result<Plugin, Failure> {
        let found = self.find(name)?;
        if name.contains('/') || found.bundled() {
            return Ok(found);
        }
        let mut hidden = self.bearers(name).filter(|other| other.shadowed).peekable();
        if hidden.peek().is_none() || trust.is_trusted(&found) {
            return Ok(found);
        }
        match hidden.find(|other| trust.is_trusted(other)) {
            None => Ok(found),
            Some(trusted) => {
                let source =
                    StrategyFailure::Hides { plugin: found.path.clone(), trusted: trusted.path.clone() };
                Err(Failure::of_strategy(name, source))
            }
        }
    }

    fn bearers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Plugin> {
        self.plugins.iter().filter(move |plugin| plugin.name.as_str() == name)
    }

    /// Why there is none: a file would be the strategy, were it executable; or nothing would.
    fn not_found(&self, name: &str) -> StrategyFailure {
        let others = self.folders.iter().filter(|folder| folder.origin != Origin::Bundled);
        if let Some(path) = others.into_iter().find_map(|folder| plugin::not_executable(&folder.path, name)) {
            return StrategyFailure::NotExecutable { path };
        }
        let mut known: Vec<_> = self.plugins.iter().map(|plugin| format!("`{}`", plugin.name)).collect();
        known.sort();
        known.dedup();
        let searched = self.folders.iter().filter(|folder| folder.path.is_dir());
        StrategyFailure::NotFound { known, folders: searched.map(|folder| folder.path.clone()).collect() }
    }
}

/// Marks all but the first of each name; one file reached twice is one plugin.
fn mark_shadowed(plugins: &mut Vec<Plugin>) {
    let mut seen: Vec<(StrategyName, Plugin)> = Vec::new();
    plugins.retain_mut(|plugin| {
        let mut same_name = seen.iter().filter(|(name, _)| *name == plugin.name).peekable();
        plugin.shadowed = same_name.peek().is_some();
        if same_name.any(|(_, other)| other.is_same_file(plugin)) {
            return false;
        }
        seen.push((plugin.name.clone(), plugin.clone()));
        true
    });
}
