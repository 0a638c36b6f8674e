//! The files of a configuration: where they are looked for, and how they are read. Nothing here knows what
//! stands in them.

use std::io;
use std::path::{Path, PathBuf};

use super::origin::{Source, Wrong};
use crate::environment::Environment;
use crate::small_file::{self, CONFIGURATION};
use crate::{store, trust};

/// The name of a workspace's file.
const OF_A_WORKSPACE: &str = ".jp-compact.toml";
const OF_THE_USER: &str = "config.toml";

/// The files that there are.
pub(super) struct Found {
    /// Each with its text, in order.
    pub(super) layers: Vec<(Source, String)>,
    /// The files that were skipped.
    pub(super) warnings: Vec<String>,
}

/// Every file that there is: the user's, that of the folder `root`, those that were typed.
pub(super) fn layers(
    environment: &Environment,
    root: Option<&Path>,
    files: &[PathBuf],
) -> Result<Found, Box<Wrong>> {
    let user = environment.config().map(|folder| Source::User(folder.join(OF_THE_USER)));
    let workspace = root.map(|root| Source::Workspace(root.join(OF_A_WORKSPACE)));
    let (mut layers, mut warnings) = (Vec::new(), Vec::new());
    for source in user.into_iter().chain(workspace) {
        if let Source::Workspace(path) = &source
            && let Some(owner) = trust::other_owner(path)
        {
            warnings.push(format!(
                "{} is skipped, because uid {owner} owns it, neither root nor you: if you want it, type its name, \
                 `--config {}`",
                path.display(),
                trust::quoted(path)
            ));
            continue;
        }
        let read = match &source {
            // People keep their own elsewhere, and link it.
            Source::User(path) if path.exists() => small_file::read_through_links(path, CONFIGURATION),
            Source::Workspace(path) if path.exists() => store::read_small(path, CONFIGURATION, environment),
            _ => continue,
        };
        let read = read.and_then(|bytes| bytes.map(small_file::text).transpose());
        if let Some(text) = read.map_err(|error| unreadable(&source, &error))? {
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
    Ok(Found { layers, warnings })
}

/// The nearest folder, from the current one upward, that is a workspace or holds a `.jp-compact.toml`.
pub(super) fn around(environment: &Environment) -> Option<PathBuf> {
    let is_root = |folder: &&Path| folder.join(".jp").is_dir() || folder.join(OF_A_WORKSPACE).exists();
    environment.cwd.ancestors().find(is_root).map(Path::to_path_buf)
}

fn unreadable(source: &Source, error: &io::Error) -> Box<Wrong> {
    Box::new(Wrong::of(source, error.to_string()))
}
