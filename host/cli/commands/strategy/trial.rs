//! The plugin of `strategy test` and `strategy run`: a path on the command line. It runs without being trusted, so it must
//! never run without a jail, unless the user asks for that.

use std::path::Path;

use jp_compact_conformance::{TestedPlugin, TestedPluginError};
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

/// Returns the jail, or `None` for `--sandbox contained`. If this machine has no jail, that is an error.
pub(super) fn jail(
    plugin: &TestedPlugin,
    sandbox: Option<SandboxArg>,
    environment: &Environment,
) -> Result<Option<Jail>, Report> {
    if matches!(sandbox, Some(SandboxArg::Contained)) {
        return Ok(None);
    }
    let abilities = Abilities::detect_with_limits(environment);
    match plugin.jail(abilities) {
        Some(jail) => Ok(Some(jail)),
        None => {
            let missing = abilities.missing();
            Err(compact::Error::strategy(&plugin.name, session::Error::NoJail { missing }).into())
        }
    }
}

/// Opens the plugin at a path, with the permissions that the user granted on the command line or grants when asked.
pub(super) fn open_plugin(
    path: &Path,
    grants: &[Grant],
    registry: &Registry,
    environment: &Environment,
) -> Result<TestedPlugin, Report> {
    let plugin = find_plugin(path, registry, environment)?.granted(grants);
    let additional = prompt::grants_for(&plugin)?;
    Ok(plugin.granted(&additional))
}

/// Returns the hint to grant the permissions whose lack may have caused a failure. `command_with` returns the command with
/// these grants.
pub(super) fn missing_grants_hint(
    plugin: &TestedPlugin,
    failure: &str,
    command_with: impl Fn(&str) -> String,
) -> Option<ErrorHint> {
    if failure.is_empty() {
        return None;
    }
    let (requested, attempted) = plugin.missing_permissions(failure);
    if requested.is_empty() && attempted.is_none() {
        return failure.contains("is not a valid message").then(|| ErrorHint::line(error::DEBUG_OUTPUT_HINT));
    }
    let missing: Vec<_> = requested.iter().cloned().chain(attempted.clone()).collect();
    let all_grants = grants::joined(&plugin.all_with(&missing));
    let command = command_with(&trust::quoted(Path::new(&all_grants)));
    Some(error::missing_permissions_hint(&requested, attempted.as_ref(), &command))
}

fn find_plugin(path: &Path, registry: &Registry, environment: &Environment) -> Result<TestedPlugin, Report> {
    TestedPlugin::at(&environment.cwd.join(path), registry.runner()).map_err(|error| {
        let exit = match error {
            TestedPluginError::Manifest(_) | TestedPluginError::NoCommand => Exit::BadDescription,
            _ => Exit::NotFound,
        };
        let hint = match &error {
            TestedPluginError::NotBuilt { command: Some(command), .. } => ErrorHint::with_command(
                "build it first:",
                &format!("(cd {} && {command})", trust::quoted(path)),
            ),
            TestedPluginError::NoInterpreter(_) => {
                ErrorHint::line("install it, or name another one in the first line")
            }
            _ => ErrorHint::line("give an executable, a shared library, or a folder with a plugin.toml"),
        };
        let mut report = Report::new(exit, format!("{} is not a strategy", path.display()), None);
        report.hint = Some(hint);
        report.causes.push(error.to_string());
        report
    })
}
