//! Errors of the registry: a plugin folder cannot be searched, an executable of the host is missing, or no plugin runs
//! under a name.

use std::io;
use std::path::PathBuf;

/// The plugin folders cannot be searched, or an executable of the host is missing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// A folder of the command line, or the folder of the host's executable, cannot be searched.
    #[error("failed to search the plugin folder {}", path.display())]
    PluginDir { path: PathBuf, source: io::Error },
    /// An executable that belongs to the host is missing from its folder.
    #[error("`{missing}` is missing from {}, the folder of jp-compact", folder.display())]
    NotInstalled { missing: String, folder: PathBuf },
}

/// No plugin can run under a name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No plugin has this name.
    #[error("no plugin in {} has this name", list(folders))]
    NotFound {
        known: Vec<String>,
        folders: Vec<PathBuf>,
        /// Whether the current folder has a file or folder of this name. Only a name with a `/` is a path.
        is_in_cwd: bool,
    },
    /// A file has this name but is not executable.
    #[error("{} is not executable", path.display())]
    NotExecutable { path: PathBuf },
    /// A plugin has the name of a bundled strategy.
    #[error("{} has the name of the bundled strategy {}", plugin.display(), bundled.display())]
    ReservedName { plugin: PathBuf, bundled: PathBuf },
    /// The plugin is not trusted, and shadows a trusted plugin of the same name.
    #[error("{} is not trusted, and shadows the trusted {}", plugin.display(), trusted.display())]
    Shadows { plugin: PathBuf, trusted: PathBuf },
    /// The path does not lead to a plugin.
    #[error("{}: {reason}", path.display())]
    NoPlugin { path: PathBuf, reason: String },
}

fn list(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}
