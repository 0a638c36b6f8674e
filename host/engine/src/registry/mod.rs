//! Which strategies there are, and where. Finding one never executes it. The bundled ones lie beside the
//! host's own executable and are never looked for on PATH; others come from folders that the user names.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jp_compact_schema::StrategyName;

use crate::environment::Environment;
use crate::failure::{Failure, StrategyFailure};

/// What a bundled strategy's executable is called before its name.
const BUNDLED_PREFIX: &str = "compact-strategy-";
/// The executable that starts all others.
const RUNNER: &str = "compact-runner";

/// An executable that is a strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// The strategy's name: the file's stem, `_` as `-`.
    pub name: StrategyName,
    /// The executable.
    pub path: PathBuf,
    /// Whether it came with the host.
    pub bundled: bool,
    /// Whether another of that name runs in its place.
    pub shadowed: bool,
}

/// What was found, in the order of discovery.
#[derive(Debug, Clone)]
pub struct Registry {
    plugins: Vec<Plugin>,
    runner: PathBuf,
    folders: Vec<PathBuf>,
}

impl Registry {
    /// Searches the folders given, in their order, then the host's own.
    ///
    /// # Errors
    /// A folder cannot be searched, or the host was installed without its runner.
    pub fn discover(environment: &Environment, plugin_dirs: &[PathBuf]) -> Result<Self, Failure> {
        let mut plugins = Vec::new();
        for folder in plugin_dirs {
            let folder = environment.cwd.join(folder);
            let found =
                executables(&folder).map_err(|source| Failure::PluginDir { path: folder.clone(), source })?;
            plugins.extend(found.into_iter().filter_map(|path| {
                Some(Plugin { name: name_of(&path)?, path, bundled: false, shadowed: false })
            }));
        }
        let home = environment.exe.as_deref().and_then(Path::parent).unwrap_or(Path::new("/"));
        let own = executables(home).map_err(|source| Failure::PluginDir { path: home.to_owned(), source })?;
        plugins.extend(own.into_iter().filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_prefix(BUNDLED_PREFIX)?;
            Some(Plugin { name: StrategyName::parse(name).ok()?, path, bundled: true, shadowed: false })
        }));
        let runner = home.join(RUNNER);
        if !is_executable(&runner) {
            return Err(Failure::NotInstalled { missing: RUNNER.into(), folder: home.to_owned() });
        }
        mark_shadowed(&mut plugins);
        let folders = plugin_dirs.iter().map(|folder| environment.cwd.join(folder));
        Ok(Self { plugins, runner, folders: folders.chain([home.to_owned()]).collect() })
    }

    /// Everything found, shadowed ones too.
    #[must_use]
    pub fn plugins(&self) -> &[Plugin] {
        &self.plugins
    }

    /// The folders searched, in order.
    #[must_use]
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The executable that starts strategies.
    #[must_use]
    pub fn runner(&self) -> &Path {
        &self.runner
    }

    /// The plugin that runs under a name.
    ///
    /// # Errors
    /// There is none, or one bears the name of a bundled strategy: those cannot be replaced.
    pub fn find(&self, name: &str) -> Result<&Plugin, Failure> {
        let failed = |source| Failure::of_strategy(name, source);
        let mut bearers = self.plugins.iter().filter(|plugin| plugin.name.as_str() == name);
        let Some(first) = bearers.next() else {
            let mut known: Vec<_> = self.plugins.iter().map(|plugin| format!("`{}`", plugin.name)).collect();
            known.sort();
            known.dedup();
            return Err(failed(match self.not_executable(name) {
                Some(path) => StrategyFailure::NotExecutable { path },
                None => StrategyFailure::NotFound { known, folders: self.folders.clone() },
            }));
        };
        match bearers.find(|other| other.bundled && !first.bundled) {
            Some(bundled) => Err(failed(StrategyFailure::ReservedName {
                plugin: first.path.clone(),
                bundled: bundled.path.clone(),
            })),
            None => Ok(first),
        }
    }

    /// A file in the user's folders that would be the strategy, were it executable.
    fn not_executable(&self, name: &str) -> Option<PathBuf> {
        let (_own, given) = self.folders.split_last()?;
        let files = given.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        files
            .map(|file| file.path())
            .find(|path| name_of(path).is_some_and(|own| own.as_str() == name) && path.is_file())
    }
}

/// The name of the strategy that a file is, by the file's own.
fn name_of(path: &Path) -> Option<StrategyName> {
    StrategyName::parse(&path.file_stem()?.to_str()?.replace('_', "-")).ok()
}

/// Marks all but the first of each name; one file reached twice is one plugin.
fn mark_shadowed(plugins: &mut Vec<Plugin>) {
    let mut seen: Vec<(StrategyName, PathBuf)> = Vec::new();
    plugins.retain_mut(|plugin| {
        let real = plugin.path.canonicalize().unwrap_or_else(|_| plugin.path.clone());
        if seen.iter().any(|(name, path)| *name == plugin.name && *path == real) {
            return false;
        }
        plugin.shadowed = seen.iter().any(|(name, _)| *name == plugin.name);
        seen.push((plugin.name.clone(), real));
        true
    });
}

/// The executable files of a folder, by name.
fn executables(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if is_executable(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
