//! The registry of strategies. It finds them, and must never execute one. Bundled strategies are in the folder of the
//! host's executable, and PATH is never searched. `folders.rs` defines the order of all folders.

mod error;
mod folders;
mod plugin;

use std::path::{Path, PathBuf};

use jp_compact_schema::StrategyName;

use crate::environment::Environment;

pub use error::{DiscoveryError, Error};
pub use folders::{ExtraFolders, Folder};
pub use plugin::{MANIFEST_FILE, Plugin, PluginForm, PluginOrigin};

/// The executable that starts all strategies.
const RUNNER: &str = "compact-runner";

/// Returns the path of an executable that belongs to the host.
///
/// # Errors
/// It is missing from the installation.
pub fn companion(environment: &Environment, name: &str) -> Result<PathBuf, DiscoveryError> {
    let home = home(environment);
    let program = home.join(name);
    if plugin::is_executable(&program) {
        return Ok(program);
    }
    Err(DiscoveryError::NotInstalled { missing: name.into(), folder: home.to_owned() })
}

/// Returns the folder of the host's executable.
fn home(environment: &Environment) -> &Path {
    environment.exe.as_deref().and_then(Path::parent).unwrap_or(Path::new("/"))
}

/// All plugins in the order in which they were found.
#[derive(Debug, Clone)]
pub struct Registry {
    plugins: Vec<Plugin>,
    runner: PathBuf,
    folders: Vec<Folder>,
    cwd: PathBuf,
}

impl Registry {
    /// Searches all plugin folders in order.
    ///
    /// # Errors
    /// A folder of the command line or the folder of the host's executable cannot be searched, or the runner is missing
    /// from the installation.
    pub fn discover(environment: &Environment, wanted: &ExtraFolders<'_>) -> Result<Self, DiscoveryError> {
        let folders = folders::list(environment, wanted, home(environment));
        let mut plugins = Vec::new();
        for folder in &folders {
            match plugin::in_folder(&folder.path, folder.origin) {
                Ok(found) => plugins.extend(found),
                Err(source)
                    if folder.origin.is_from_command_line() || folder.origin == PluginOrigin::Bundled =>
                {
                    return Err(DiscoveryError::PluginDir { path: folder.path.clone(), source });
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(folder = %folder.path.display(), %error, "failed to search a plugin folder");
                }
            }
        }
        let runner = companion(environment, RUNNER)?;
        mark_shadowed(&mut plugins);
        Ok(Self { plugins, runner, folders, cwd: environment.cwd.clone() })
    }

    /// Returns all plugins, including shadowed ones.
    #[must_use]
    pub fn plugins(&self) -> &[Plugin] {
        &self.plugins
    }

    /// Returns the searched folders in order.
    #[must_use]
    pub fn folders(&self) -> &[Folder] {
        &self.folders
    }

    /// Returns the path of `compact-runner`.
    #[must_use]
    pub fn runner(&self) -> &Path {
        &self.runner
    }

    /// Finds a plugin by name, or by path if the argument contains a `/`.
    ///
    /// # Errors
    /// The plugin does not exist, or it has the name of a bundled strategy. Bundled strategies cannot be replaced.
    pub fn find(&self, name: &str) -> Result<Plugin, Error> {
        let plugin = if name.contains('/') {
            plugin::at(&self.cwd.join(name).components().collect::<PathBuf>(), PluginOrigin::Path)?
        } else {
            self.plugins_named(name).next().cloned().ok_or_else(|| self.not_found(name))?
        };
        let bundled = self.plugins_named(plugin.name.as_str()).find(|other| other.bundled());
        let reserved = bundled.filter(|bundled| !plugin.bundled() && !plugin.is_same_file(bundled));
        match reserved.map(|bundled| bundled.path.clone()) {
            Some(bundled) => Err(Error::ReservedName { plugin: plugin.path, bundled }),
            None => Ok(plugin),
        }
    }

    /// Returns the plugin that runs under a name.
    ///
    /// # Errors
    /// The same as [`Registry::find`], or an untrusted plugin shadows a trusted one.
    pub fn find_to_run(&self, name: &str, is_trusted: impl Fn(&Plugin) -> bool) -> Result<Plugin, Error> {
        let plugin = self.find(name)?;
        if name.contains('/') || plugin.bundled() {
            return Ok(plugin);
        }
        let mut shadowed_plugins = self.plugins_named(name).filter(|other| other.shadowed).peekable();
        if shadowed_plugins.peek().is_none() || is_trusted(&plugin) {
            return Ok(plugin);
        }
        match shadowed_plugins.find(|other| is_trusted(other)) {
            None => Ok(plugin),
            Some(trusted) => Err(Error::Shadows { plugin: plugin.path, trusted: trusted.path.clone() }),
        }
    }

    /// Returns all plugins with this name, in order.
    fn plugins_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Plugin> {
        self.plugins.iter().filter(move |plugin| plugin.name.as_str() == name)
    }

    /// Returns the error for an unknown name. If a file has this name but is not executable, the error names the file.
    fn not_found(&self, name: &str) -> Error {
        let plugin_folders = self.folders.iter().filter(|folder| folder.origin != PluginOrigin::Bundled);
        if let Some(path) =
            plugin_folders.into_iter().find_map(|folder| plugin::not_executable(&folder.path, name))
        {
            return Error::NotExecutable { path };
        }
        let mut known: Vec<_> = self.plugins.iter().map(|plugin| format!("`{}`", plugin.name)).collect();
        known.sort();
        known.dedup();
        let existing = self.folders.iter().filter(|folder| folder.path.is_dir());
        let folders = existing.map(|folder| folder.path.clone()).collect();
        Error::NotFound { known, folders, is_in_cwd: self.cwd.join(name).exists() }
    }
}

/// Marks all but the first plugin of each name. A file that is found twice is listed once.
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
