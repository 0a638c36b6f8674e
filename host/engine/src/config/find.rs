//! The files of a configuration: where they are looked for, and how they are read. Nothing here knows what
//! stands in them.

use std::io;
use std::path::{Path, PathBuf};

use super::origin::{Source, Wrong};
use crate::environment::Environment;
use crate::small_file::{self, CONFIGURATION};
use crate::store::{self, Place};

/// The name of a workspace's file.
const OF_A_WORKSPACE: &str = ".jp-compact.toml";
const OF_THE_USER: &str = "config.toml";

/// Every file that there is, in order, with its text.
pub(super) fn layers(
    environment: &Environment,
    place: Option<&Place>,
    files: &[PathBuf],
) -> Result<Vec<(Source, String)>, Box<Wrong>> {
    let workspace = root(environment, place).map(|root| Source::Workspace(root.join(OF_A_WORKSPACE)));
    gather(environment, workspace, files)
}

/// The same without a workspace's.
pub(super) fn layers_of_the_user(
    environment: &Environment,
    files: &[PathBuf],
) -> Result<Vec<(Source, String)>, Box<Wrong>> {
    gather(environment, None, files)
}

fn gather(
    environment: &Environment,
    workspace: Option<Source>,
    files: &[PathBuf],
) -> Result<Vec<(Source, String)>, Box<Wrong>> {
    let user = environment.config().map(|folder| Source::User(folder.join(OF_THE_USER)));
    let mut layers = Vec::new();
    for source in user.into_iter().chain(workspace) {
        let read = match &source {
            // People keep their own elsewhere, and link it.
            Source::User(path) if path.exists() => small_file::read_through_links(path, CONFIGURATION),
            Source::Workspace(path) if path.exists() => small_file::read(path, CONFIGURATION),
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
    Ok(layers)
}

/// The folder whose `.jp-compact.toml` counts: the workspace of the transcript, where it is in one; else the
/// nearest folder, from the current one upward, that is a workspace or holds such a file.
pub(super) fn root(environment: &Environment, place: Option<&Place>) -> Option<PathBuf> {
    place.and_then(|place| store::workspace_root(place, environment)).or_else(|| {
        let is_root = |folder: &&Path| folder.join(".jp").is_dir() || folder.join(OF_A_WORKSPACE).exists();
        environment.cwd.ancestors().find(is_root).map(Path::to_path_buf)
    })
}

fn unreadable(source: &Source, error: &io::Error) -> Box<Wrong> {
    Box::new(Wrong::of(source, error.to_string()))
}
