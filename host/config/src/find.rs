//! The files of a configuration, found and read. This module must not interpret their content.

use std::io;
use std::path::{Path, PathBuf};

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::small_file::{self, CONFIGURATION};
use jp_compact_runtime::trust;

use super::origin::{ConfigError, Source};
use jp_compact_store as store;

/// The name of a workspace file.
const WORKSPACE_FILE: &str = ".jp-compact.toml";
const USER_FILE: &str = "config.toml";

/// The existing configuration files.
pub(super) struct ConfigFiles {
    /// Each file with its text. Later files override earlier files.
    pub(super) layers: Vec<(Source, String)>,
    /// The files that were skipped, with the reason.
    pub(super) warnings: Vec<String>,
}

/// Reads the user's file, the workspace file in `root`, and the files from the command line.
pub(super) fn read_files(
    environment: &Environment,
    root: Option<&Path>,
    files: &[PathBuf],
) -> Result<ConfigFiles, Box<ConfigError>> {
    let user = environment.config().map(|folder| Source::User(folder.join(USER_FILE)));
    let workspace = root.map(|root| Source::Workspace(root.join(WORKSPACE_FILE)));
    let (mut layers, mut warnings) = (Vec::new(), Vec::new());
    for source in user.into_iter().chain(workspace) {
        if let Source::Workspace(path) = &source
            && let Some(owner) = trust::other_owner(path)
        {
            warnings.push(other_owner_warning(path, owner));
            continue;
        }
        let bytes = match &source {
            // The user's file may be a symbolic link.
            Source::User(path) if path.exists() => small_file::read_through_links(path, CONFIGURATION),
            Source::Workspace(path) if path.exists() => store::read_small(path, CONFIGURATION, environment),
            _ => continue,
        };
        let text = bytes.and_then(|bytes| bytes.map(small_file::text).transpose());
        if let Some(text) = text.map_err(|error| unreadable(&source, &error))? {
            layers.push((source, text));
        }
    }
    for file in files {
        let path = environment.cwd.join(file);
        let source = Source::File(path.clone());
        let text = small_file::read_named(&path, CONFIGURATION).and_then(small_file::text);
        let text = text.map_err(|error| unreadable(&source, &error))?;
        layers.push((source, text));
    }
    Ok(ConfigFiles { layers, warnings })
}

/// Returns the nearest folder that is a workspace or contains a `.jp-compact.toml`: the current folder or one of its
/// parents.
pub(super) fn nearest_root(environment: &Environment) -> Option<PathBuf> {
    let is_root = |folder: &&Path| folder.join(".jp").is_dir() || folder.join(WORKSPACE_FILE).exists();
    environment.cwd.ancestors().find(is_root).map(Path::to_path_buf)
}

/// Returns the warning about a file that another user owns.
pub(super) fn other_owner_warning(path: &Path, owner: u32) -> String {
    format!(
        "skipped {}: it is owned by uid {owner}, neither root nor you; to use it, pass `--config {}`",
        path.display(),
        trust::quoted(path)
    )
}

pub(super) fn unreadable(source: &Source, error: &io::Error) -> Box<ConfigError> {
    Box::new(ConfigError::new(source, error.to_string()))
}
