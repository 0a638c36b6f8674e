//! `jp-compact strategy test`: whether a strategy keeps the rules of the protocol.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use jp_compact_core::spec;
use jp_compact_engine::config;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::{Failure, StrategyFailure};
use jp_compact_engine::jail::{Abilities, Confinement, Jail};
use jp_compact_engine::kit::{self, CHECKS, Check, Level, Outcome, Place, Subject, Verdict};
use jp_compact_engine::registry::{Registry, Wanted};
use jp_compact_engine::trust::{self, Grant, grants};
use serde_json::{Map, Value, json};

use crate::args::{SandboxWord, deadline};
use crate::commands::consent;
use crate::error::{self, Hint, Report};
use crate::exit::Exit;
use crate::lines::Lines;
use crate::output;

/// Check a strategy against every rule of the protocol: it is executed many times
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact strategy test ./strip-all\n  jp-compact strategy test plugins/keep-errors --level core\n  jp-compact strategy test ./strip-all --only P04"
)]
pub(crate) struct Args {
    /// An executable, a shared library, or a folder with a plugin.toml
    path: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Report this check alone, by its number
    #[arg(long, value_name = "ID", value_parser = check)]
    only: Option<&'static Check>,
    /// What every host relies on, or also what only odd requests bring to light
    #[arg(long, value_enum, default_value = "full")]
    level: LevelWord,
    /// Options that a user has to give, as a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = spec::whole)]
    options: Map<String, Value>,
    /// How long it may take for one request
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = deadline)]
    deadline: Duration,
    /// What it may do: network, subprocess, env:NAME, read:/path, runtime:python|node|sh; its manifest alone grants nothing
    #[arg(long = "grant", value_name = "PERMISSION,...", value_delimiter = ',')]
    grants: Vec<Grant>,
    /// Whether it needs a jail: `require` one, or run it `contained`, with your permissions [default: require]
    #[arg(long, value_name = "WHICH", value_enum)]
    sandbox: Option<SandboxWord>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LevelWord {
    Core,
    Full,
}

fn check(id: &str) -> Result<&'static Check, String> {
    let known = || CHECKS.iter().map(|check| check.id).collect::<Vec<_>>().join(", ");
    kit::find(id).ok_or_else(|| format!("the checks are {}", known()))
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let registry = Registry::discover(environment, &Wanted::default())?;
    let subject = subject(&args.path, &args.grants, &registry, environment)?;
    let jail = jail(&subject, args.sandbox, environment)?;
    let place = Place {
        runner: registry.runner(),
        temp_dir: &environment.temp_dir,
        private_bytes_max: config::private_bytes_max(environment, &[], &[])?,
        deadline: args.deadline,
        confinement: jail.as_ref().map_or(Confinement::Contained, Confinement::Isolated),
        env: &subject.env(),
    };
    let level = match (args.level, args.only) {
        (LevelWord::Core, None) => Level::Core,
        _ => Level::Full,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut outcomes = runtime.block_on(kit::test(&place, &subject, &args.options, level));
    outcomes.retain(|outcome| args.only.is_none_or(|only| only == outcome.check));
    let failed = outcomes.iter().any(|outcome| matches!(outcome.verdict, Verdict::Failed { .. }));
    if args.json {
        let path = args.path.to_string_lossy();
        output::json_line(&json!({ "path": path, "passed": !failed, "checks": outcomes }))?;
    } else {
        output::text(&table(&outcomes))?;
        if let Some(hint) = lacking(&subject, &failures(&outcomes), |words| command(&args.path, words)) {
            let mut text = Lines::new();
            hint.add_to(&mut text);
            output::people(&text);
        }
    }
    Ok(if failed { Exit::Violation } else { Exit::Done })
}

/// The jail for it; none where that was typed. Nobody trusted it, so there is no other way down.
pub(crate) fn jail(
    subject: &Subject,
    sandbox: Option<SandboxWord>,
    environment: &Environment,
) -> Result<Option<Jail>, Report> {
    if matches!(sandbox, Some(SandboxWord::Contained)) {
        return Ok(None);
    }
    let abilities = Abilities::here(environment);
    match subject.jail(abilities) {
        Some(jail) => Ok(Some(jail)),
        None => {
            let missing = abilities.missing();
            Err(Failure::of_strategy(&subject.name, StrategyFailure::NoJail { missing }).into())
        }
    }
}

/// The plugin at a path that was typed, with what was granted.
pub(crate) fn subject(
    path: &Path,
    grants: &[Grant],
    registry: &Registry,
    environment: &Environment,
) -> Result<Subject, Report> {
    let subject = at(path, registry, environment)?.granted(grants);
    let more = consent::grants_for(&subject)?;
    Ok(subject.granted(&more))
}

/// Which grants may be what it failed for, and the command that gives them; `words` are what failed.
pub(crate) fn lacking(subject: &Subject, words: &str, command: impl Fn(&str) -> String) -> Option<Hint> {
    let (asked, tried) = if words.is_empty() { return None } else { subject.lacks(words) };
    if asked.is_empty() && tried.is_none() {
        return None;
    }
    let more: Vec<_> = asked.iter().cloned().chain(tried.clone()).collect();
    let words = grants::line(&subject.all_with(&more));
    Some(error::lacking(&asked, tried.as_ref(), &command(&trust::quoted(Path::new(&words)))))
}

/// What the checks that failed were told.
fn failures(outcomes: &[Outcome]) -> String {
    let why = outcomes.iter().filter_map(|outcome| match &outcome.verdict {
        Verdict::Failed { why } => Some(why.as_str()),
        _ => None,
    });
    why.collect::<Vec<_>>().join("\n")
}

fn command(path: &Path, grants: &str) -> String {
    format!("jp-compact strategy test {} --grant {grants}", trust::quoted(path))
}

fn at(path: &Path, registry: &Registry, environment: &Environment) -> Result<Subject, Report> {
    Subject::at(&environment.cwd.join(path), registry.runner()).map_err(|why| {
        let exit = if why.starts_with("plugin.toml") { Exit::BadDescription } else { Exit::NotFound };
        let hint = "give an executable, a shared library, or a folder with a plugin.toml";
        let mut report = Report::new(exit, format!("{} is no strategy", path.display()), Some(hint));
        report.causes.push(why);
        report
    })
}

fn table(outcomes: &[Outcome]) -> Lines {
    let mut text = Lines::new();
    let mut counts = [0; 3];
    for Outcome { check, verdict } in outcomes {
        let (word, place) = match verdict {
            Verdict::Passed => ("ok", 0),
            Verdict::Failed { .. } => ("FAILED", 1),
            Verdict::Skipped { .. } => ("skipped", 2),
        };
        counts[place] += 1;
        text.line(format_args!("{}  {word:<7}  {}", check.id, check.expected));
        match verdict {
            Verdict::Failed { why } => {
                text.line(format_args!("              sent: {}", check.sent));
                text.labeled("              ", "              ", why);
            }
            Verdict::Skipped { why } => text.labeled("              ", "              ", why),
            Verdict::Passed => {}
        }
    }
    let [passed, failed, skipped] = counts;
    text.line(format_args!("{passed} passed, {failed} failed, {skipped} skipped"));
    text
}
