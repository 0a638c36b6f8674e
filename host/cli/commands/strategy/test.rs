//! `jp-compact strategy test`: checks a strategy against the protocol.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use jp_compact_config as config;
use jp_compact_conformance::{
    self as conformance, CHECKS, Check, CheckLevel, CheckOutcome, CheckSetup, CheckVerdict,
};
use jp_compact_core::spec;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Confinement;
use jp_compact_runtime::registry::{ExtraFolders, Registry};
use jp_compact_runtime::session::describe_deadline;
use jp_compact_runtime::trust::{self, Grant};
use jp_compact_schema::document::StrategyTestReport;
use jp_compact_schema::version::COMPACT_DEADLINE_MS;
use serde_json::{Map, Value, json};

use super::trial::{jail, missing_grants_hint, open_plugin};
use crate::args::{SandboxArg, deadline};
use crate::error::Report;
use crate::exit::Exit;
use crate::interrupt::until_interrupted;
use crate::lines::EscapedLines;
use crate::output;

/// Check a strategy against the rules of the protocol
///
/// The strategy is executed many times. Failures are printed first; `-v` also prints the other checks.
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
    /// Report only the check with this ID
    #[arg(long, value_name = "ID", value_parser = parse_check)]
    only: Option<&'static Check>,
    /// Check the core rules only, or unusual requests as well
    #[arg(long, value_enum, default_value = "full")]
    level: LevelArg,
    /// Pass options to the strategy, as a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = spec::parse_object)]
    options: Map<String, Value>,
    /// Limit the time of one request [default: 60s]
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

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LevelArg {
    Core,
    Full,
}

fn parse_check(id: &str) -> Result<&'static Check, String> {
    conformance::find(id).ok_or_else(|| {
        let ids: Vec<_> = CHECKS.iter().map(|check| check.id).collect();
        format!("expected one of {}", ids.join(", "))
    })
}

pub(crate) fn run(args: &Args, verbose: bool, environment: &Environment) -> Result<Exit, Report> {
    let registry = Registry::discover(environment, &ExtraFolders::default())?;
    let plugin = open_plugin(&args.path, &args.grants, &registry, environment)?;
    let jail = jail(&plugin, args.sandbox, environment)?;
    let setup = CheckSetup {
        runner: registry.runner(),
        temp_dir: &environment.temp_dir,
        private_bytes_max: config::load_private_bytes_max(environment, &[], &[])?,
        deadline: args.deadline.unwrap_or(Duration::from_millis(COMPACT_DEADLINE_MS)),
        describe_deadline: describe_deadline(args.deadline),
        confinement: jail.as_ref().map_or(Confinement::Contained, Confinement::Isolated),
        env: &plugin.env(),
    };
    // The check of `--only` may be in either level.
    let level = match (args.level, args.only) {
        (LevelArg::Core, None) => CheckLevel::Core,
        _ => CheckLevel::Full,
    };
    let test = async { Ok(conformance::test(&setup, &plugin, &args.options, level).await) };
    let mut outcomes = until_interrupted(test)?;
    outcomes.retain(|outcome| args.only.is_none_or(|only| only == outcome.check));
    let failed = outcomes.iter().any(|outcome| matches!(outcome.verdict, CheckVerdict::Failed { .. }));
    if args.json {
        let path = args.path.to_string_lossy().into_owned();
        let checks = outcomes.iter().map(CheckOutcome::document).collect();
        output::json_line(&StrategyTestReport { path, passed: !failed, checks })?;
    } else {
        output::text(&table(&outcomes, verbose))?;
        let command_with =
            |grants: &str| format!("jp-compact strategy test {} --grant {grants}", trust::quoted(&args.path));
        if let Some(hint) = missing_grants_hint(&plugin, &conformance::failures(&outcomes), command_with) {
            let mut text = EscapedLines::new();
            hint.add_to(&mut text);
            output::info("hint", &json!({ "hint": hint.text() }), &text);
        }
    }
    Ok(if failed { Exit::Violation } else { Exit::Done })
}

/// Returns the failures and the counts. With `-v`, returns all checks and the counts.
fn table(outcomes: &[CheckOutcome], verbose: bool) -> EscapedLines {
    let is_failure = |outcome: &&CheckOutcome| matches!(outcome.verdict, CheckVerdict::Failed { .. });
    let is_success = |outcome: &&CheckOutcome| !is_failure(outcome);
    let mut text = EscapedLines::new();
    outcomes.iter().filter(is_failure).for_each(|outcome| add_outcome(outcome, &mut text));
    if verbose {
        outcomes.iter().filter(is_success).for_each(|outcome| add_outcome(outcome, &mut text));
    }
    let failed = outcomes.iter().filter(is_failure).count();
    let skipped =
        outcomes.iter().filter(|outcome| matches!(outcome.verdict, CheckVerdict::Skipped { .. })).count();
    let passed = outcomes.len() - failed - skipped;
    let advice = if verbose { "" } else { "; `-v` lists all checks" };
    text.line(format_args!("{passed} passed, {failed} failed, {skipped} skipped{advice}"));
    text
}

fn add_outcome(CheckOutcome { check, verdict }: &CheckOutcome, text: &mut EscapedLines) {
    const INDENT: &str = "              ";
    let label = match verdict {
        CheckVerdict::Passed => "ok",
        CheckVerdict::Failed { .. } => "FAILED",
        CheckVerdict::Skipped { .. } => "skipped",
    };
    text.line(format_args!("{}  {label:<7}  {}", check.id, check.expected));
    match verdict {
        CheckVerdict::Failed { why } => {
            text.line(format_args!("{INDENT}sent: {}", check.sent));
            text.labeled(INDENT, INDENT, why);
        }
        CheckVerdict::Skipped { why } => text.labeled(INDENT, INDENT, why),
        CheckVerdict::Passed => {}
    }
}
