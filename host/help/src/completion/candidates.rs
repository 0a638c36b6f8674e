//! The candidates for arguments: conversations, sessions, strategies, profiles, schemas, and pages of the manual. They
//! are found by reading folders and the configuration. No strategy and no other program is executed.

use std::ffi::OsStr;
use std::sync::Arc;

use clap::{Arg, Command, ValueHint};
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use jp_compact_config::{self as config, JpSettings};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::registry::{ExtraFolders, Registry};
use jp_compact_schema::catalog;
use jp_compact_sessions as sessions;
use jp_compact_terminal::escape;

/// The maximum number of listed sessions, newest first. Each of them is opened to read its title.
const SESSIONS_MAX: usize = 40;

/// Adds the candidates to the arguments of a command and of its subcommands.
pub(super) fn add_to(command: Command, environment: &Environment) -> Command {
    let pages = crate::manual::names(&command);
    add_below(command, "", &Arc::new(environment.clone()), &Arc::new(pages))
}

/// Adds the candidates to a command. `path` has the names of the command and of the commands that contain it, without
/// the program's.
fn add_below(
    command: Command,
    path: &str,
    environment: &Arc<Environment>,
    pages: &Arc<Vec<String>>,
) -> Command {
    let command = command.mut_args(|arg| add_to_argument(path, arg, environment, pages));
    command.mut_subcommands(|command| {
        let path = format!("{path} {}", command.get_name());
        add_below(command, path.trim_start(), environment, pages)
    })
}

fn add_to_argument(command: &str, arg: Arg, environment: &Arc<Environment>, pages: &Arc<Vec<String>>) -> Arg {
    let environment = Arc::clone(environment);
    let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    match (command, arg.get_id().as_str(), value.as_deref().unwrap_or_default()) {
        (_, "transcript" | "transcripts" | "session" | "conversation", _) => {
            arg.add(completer(move || conversations(&environment), Paths::All))
        }
        (_, "strategies", _) => arg.add(completer(move || strategies(&environment), Paths::All)),
        (_, "plugin" | "path" | "name", _) if is_about_strategies(command) => {
            arg.add(completer(move || strategies(&environment), Paths::All))
        }
        (_, "profile" | "compact", _) => arg.add(completer(move || profiles(&environment), Paths::None)),
        ("schema", "name", _) => arg.add(ArgValueCandidates::new(schemas)),
        ("man", "page" | "command", _) => {
            let pages = Arc::clone(pages);
            arg.add(completer(move || pages.iter().map(CompletionCandidate::new).collect(), Paths::None))
        }
        (_, _, "DIR" | "FOLDER") => arg.add(paths(PathCompleter::dir())),
        (_, _, "FILE" | "PATH" | "DEST" | "OUT") => arg.add(paths(PathCompleter::any())),
        _ if arg.get_value_hint() == ValueHint::AnyPath => arg.add(paths(PathCompleter::any())),
        _ => arg,
    }
}

fn is_about_strategies(command: &str) -> bool {
    let subcommands = ["show", "trust", "untrust", "test", "run", "dev"];
    command.strip_prefix("strategy ").is_some_and(|subcommand| subcommands.contains(&subcommand))
}

/// Whether an argument can also be a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Paths {
    None,
    All,
}

/// Returns a completer for names, and for paths.
fn completer(
    names: impl Fn() -> Vec<CompletionCandidate> + Send + Sync + 'static,
    paths: Paths,
) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let typed = current.to_string_lossy();
        let mut found = names();
        found.retain(|candidate| candidate.get_value().to_string_lossy().starts_with(&*typed));
        if paths == Paths::All {
            found.extend(PathCompleter::any().complete(current));
        }
        found.retain(is_printable);
        found
    })
}

fn paths(completer: PathCompleter) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let mut found = completer.complete(current);
        found.retain(is_printable);
        found
    })
}

/// Returns whether a shell can print a candidate as it is. A cloned repository can contain other names.
pub(super) fn is_printable(candidate: &CompletionCandidate) -> bool {
    candidate.get_value().to_str().is_some_and(|value| escape::line(value) == value)
}

fn described(name: &str, help: Option<&str>) -> CompletionCandidate {
    // The title of a session is foreign text, and a shell prints it.
    let help = help.map(|help| escape::line(&help.chars().take(60).collect::<String>()));
    CompletionCandidate::new(name).help(help.map(Into::into))
}

fn conversations(environment: &Environment) -> Vec<CompletionCandidate> {
    let sessions = sessions::recorded_sessions(SESSIONS_MAX, environment);
    sessions.iter().map(|session| described(&session.id, session.title.as_deref())).collect()
}

fn strategies(environment: &Environment) -> Vec<CompletionCandidate> {
    let Ok(registry) = Registry::discover(environment, &ExtraFolders::default()) else { return Vec::new() };
    let plugins = registry.plugins().iter().filter(|plugin| !plugin.shadowed);
    plugins
        .map(|plugin| {
            let description = plugin.manifest().map(|manifest| manifest.description.as_str());
            described(plugin.name.as_str(), description)
        })
        .collect()
}

fn profiles(environment: &Environment) -> Vec<CompletionCandidate> {
    let jp = JpSettings::read(environment, None, None);
    let config = config::load(environment, None, &[], &[], jp);
    let names = config.map(|config| config.profiles.into_keys().collect::<Vec<_>>());
    names.unwrap_or_default().iter().map(CompletionCandidate::new).collect()
}

fn schemas() -> Vec<CompletionCandidate> {
    catalog::all().iter().map(|schema| described(schema.name, Some(schema.description))).collect()
}
