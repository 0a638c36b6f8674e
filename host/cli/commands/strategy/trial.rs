//! A plugin at a typed path that runs without being trusted: its grants, its jail, and the grants that it lacks.

use std::path::Path;

use jp_compact_conformance::TestedPlugin;
use jp_compact_engine::compact;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::{Abilities, Jail};
use jp_compact_runtime::registry::Registry;
use jp_compact_runtime::session;
use jp_compact_runtime::trust::{self, Grant, grants};

use crate::args::SandboxArg;
use crate::error::{self, ErrorHint, Report};
use crate::exit::Exit;
use crate::prompt;

/// The jail, or None for `--sandbox contained`. The plugin is not trusted, so without a jail it does not run.
pub(super) fn jail(
    subject: &TestedPlugin,
    sandbox: Option<SandboxArg>,
    environment: &Environment,
) -> Result<Option<Jail>, Report> {
    if matches!(sandbox, Some(SandboxArg::Contained)) {
        return Ok(None);
    }
    let abilities = Abilities::here(environment);
    match subject.jail(abilities) {
        Some(jail) => Ok(Some(jail)),
        None => {
            let missing = abilities.missing();
            Err(compact::Error::strategy(&subject.name, session::Error::NoJail { missing }).into())
        }
    }
}

/// The plugin at a typed path, with its grants.
pub(super) fn subject(
    path: &Path,
    grants: &[Grant],
    registry: &Registry,
    environment: &Environment,
) -> Result<TestedPlugin, Report> {
    let subject = at(path, registry, environment)?.granted(grants);
    let more = prompt::grants_for(&subject)?;
    Ok(subject.granted(&more))
}

/// The hint to grant the permissions whose lack may have caused the failure `words`.
pub(super) fn lacking(
    subject: &TestedPlugin,
    words: &str,
    command: impl Fn(&str) -> String,
) -> Option<ErrorHint> {
    let (asked, tried) = if words.is_empty() { return None } else { subject.lacks(words) };
    if asked.is_empty() && tried.is_none() {
        return None;
    }
    let more: Vec<_> = asked.iter().cloned().chain(tried.clone()).collect();
    let words = grants::joined(&subject.all_with(&more));
    Some(error::lacking(&asked, tried.as_ref(), &command(&trust::quoted(Path::new(&words)))))
}

fn at(path: &Path, registry: &Registry, environment: &Environment) -> Result<TestedPlugin, Report> {
    TestedPlugin::at(&environment.cwd.join(path), registry.runner()).map_err(|why| {
        let exit = if why.starts_with("plugin.toml") { Exit::BadDescription } else { Exit::NotFound };
        let hint = "give an executable, a shared library, or a folder with a plugin.toml";
        let mut report = Report::new(exit, format!("{} is not a strategy", path.display()), Some(hint));
        report.causes.push(why);
        report
    })
}
