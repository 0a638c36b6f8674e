//! `jp-compact strategy run`: sends one request to a strategy and prints the exchange. It must not append anything.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use jp_compact_config as config;
use jp_compact_conformance::{CheckSetup, Rejection, Speaker, TestedPlugin, rehearse};
use jp_compact_core::select::Selection;
use jp_compact_core::spec::Options;
use jp_compact_core::{Bound, Survey, spec};
use jp_compact_engine::compact::{self, StrategyRunError};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Confinement;
use jp_compact_runtime::registry::{ExtraFolders, Registry};
use jp_compact_runtime::session::{self, describe_deadline};
use jp_compact_runtime::trust::{self, Grant};
use jp_compact_schema::version::COMPACT_DEADLINE_MS;
use serde_json::json;

use super::trial;
use crate::args::{SandboxArg, deadline};
use crate::error::Report;
use crate::exit::Exit;
use crate::input::read;
use crate::interrupt::until_interrupted;
use crate::lines::EscapedLines;
use crate::output;

/// Send one request to a strategy and print the exchange
///
/// Nothing is appended. If the strategy asks a model, it receives a fixed answer.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  jp-compact strategy run ./strip-all 17738399468 --keep-last 1")]
pub(crate) struct Args {
    /// An executable, a shared library, or a folder with a plugin.toml
    path: PathBuf,
    /// A conversation folder, events.json, id, another agent's file, or -
    transcript: OsString,
    /// Pass options to the strategy, as a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = parse_options)]
    options: Options,
    /// Request all turns except the last N
    #[arg(long, value_name = "N", default_value_t = 3)]
    keep_last: usize,
    /// Write the whole exchange to FILE as lines of JSON; FILE must not exist
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Limit the time of the request [default: 60s]
    ///
    /// A limit of more than 2 s is also the limit of `describe`.
    #[arg(long, value_name = "DURATION", value_parser = deadline)]
    deadline: Option<Duration>,
    /// Grant a permission; the manifest alone grants nothing
    ///
    /// Permissions: network, subprocess, env:NAME, read:/path, runtime:python|node|sh
    #[arg(long = "grant", value_name = "PERMISSION,...", value_delimiter = ',')]
    grants: Vec<Grant>,
    /// Require a jail, or run with your permissions [default: require]
    #[arg(long, value_name = "MODE", value_enum)]
    sandbox: Option<SandboxArg>,
}

fn parse_options(text: &str) -> Result<Options, String> {
    spec::parse_object(text).map(Options::Object)
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let registry = Registry::discover(environment, &ExtraFolders::default())?;
    let plugin = trial::open_plugin(&args.path, &args.grants, &registry, environment)?;
    let read = read(&args.transcript, environment)?;
    let survey = Survey::new(&read.stream);
    let jail = trial::jail(&plugin, args.sandbox, environment)?;
    let setup = CheckSetup {
        runner: registry.runner(),
        temp_dir: &environment.temp_dir,
        private_bytes_max: config::load_private_bytes_max(environment, &[], &[])?,
        deadline: args.deadline.unwrap_or(Duration::from_millis(COMPACT_DEADLINE_MS)),
        describe_deadline: describe_deadline(args.deadline),
        confinement: jail.as_ref().map_or(Confinement::Contained, Confinement::Isolated),
        env: &plugin.env(),
    };
    let selection = Selection { to: Some(Bound::FromEnd(args.keep_last)), ..Selection::default() };
    let rehearsal =
        async { Ok(rehearse(&setup, &plugin, &survey, selection, &args.options, environment).await) };
    let rehearsal = match until_interrupted(rehearsal)? {
        Ok(rehearsal) => rehearsal,
        Err(Rejection::NoTurns) => {
            output::info("no turn to compact", &json!({}), &EscapedLines::single("no turn to compact"));
            return Ok(Exit::Done);
        }
        Err(rejection) => return Err(rejected(args, &plugin, "", rejection)),
    };
    let mut exchange = EscapedLines::new();
    let mut stderr = EscapedLines::new();
    for (speaker, line) in &rehearsal.exchanged {
        match speaker {
            Speaker::Host => exchange.line(format_args!("> {line}")),
            Speaker::Strategy => exchange.line(format_args!("< {line}")),
            Speaker::Stderr => stderr.quote("", line),
        }
    }
    output::texts([exchange])?;
    if !stderr.is_empty() {
        output::info("stderr of the strategy", &json!({ "text": stderr.as_str() }), &stderr);
    }
    if let Some(file) = &args.record {
        rehearsal.record(&environment.cwd.join(file)).map_err(|error| {
            let hint = "--record needs a FILE that does not exist yet, in an existing folder";
            let message = format!("failed to write {}", file.display());
            let mut report = Report::new(Exit::Usage, message, Some(hint));
            report.causes.push(error.to_string());
            report
        })?;
    }
    let verdict =
        rehearsal.verdict.map_err(|rejection| rejected(args, &plugin, stderr.as_str(), rejection))?;
    output::info("accepted", &json!({ "verdict": verdict.to_string() }), &EscapedLines::single(verdict));
    Ok(Exit::Done)
}

/// Returns the report of a rejected reply. Most exit codes are the same as in a run that appends.
fn rejected(args: &Args, plugin: &TestedPlugin, stderr: &str, rejection: Rejection) -> Report {
    let (check, reason) = match rejection {
        Rejection::Broken { check, why } => (check, why),
        Rejection::Version(mismatch) => {
            return compact::Error::strategy(&plugin.name, session::Error::Version(mismatch)).into();
        }
        Rejection::BadOptions { reason } => {
            return compact::Error::strategy(&plugin.name, StrategyRunError::BadOptions { reason }).into();
        }
        Rejection::NoTurns => ("P01", "no turn to compact".to_owned()),
    };
    let exit = match check {
        "S01" | "R02" => Exit::Crashed,
        "R01" => Exit::Deadline,
        "R11" => Exit::Reported,
        _ if check.starts_with('D') => Exit::BadDescription,
        _ if check.starts_with('P') => Exit::Refused,
        _ => Exit::Violation,
    };
    let path = trust::quoted(&args.path);
    let hint = format!("`jp-compact strategy test {path} --only {check} -v` prints the rule");
    let rejected = if check.starts_with('D') { "description" } else { "reply" };
    let message = format!("the host would reject the {rejected} of {}", args.path.display());
    let mut report = Report::new(exit, message, Some(&hint));
    let command_with = |grants: &str| {
        let transcript = trust::quoted(Path::new(&args.transcript));
        format!("jp-compact strategy run {path} {transcript} --grant {grants}")
    };
    let failure = format!("{reason}\n{stderr}");
    if let Some(hint) = trial::missing_grants_hint(plugin, &failure, command_with) {
        report.hint = Some(hint);
    }
    report.causes.push(reason);
    report
}
