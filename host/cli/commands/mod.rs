//! The commands. Each is one file or folder with its arguments and a function `run`. Only this file uses the commands;
//! a command must not use another one.

mod auto;
mod batch;
mod compact;
mod completions;
mod config;
mod diff;
mod doctor;
mod eval;
mod fork;
mod import;
mod init;
mod lint;
mod list;
mod man;
mod mcp;
mod print;
mod query;
mod resume;
mod schema;
mod show;
mod stats;
mod strategy;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use jp_compact_help::deferred::{Deferred, parse, position_of_value};
use jp_compact_help::{COMMANDS_OF_CONVERSATION, with_layout};
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::EvalReport;

use crate::args::Verbosity;
use crate::error::Report;
use crate::exit::{self, Exit};

const EXAMPLES: &str = "\
Examples:
  jp-compact .jp/conversations/17738399468-review
      strips reasoning and tool calls, except in the last 3 turns
  jp-compact 17738399468 --strategy strip-tools:mode=omit --keep-last 1 --dry-run
      reports the effect of omitting all tool calls, except in the last turn
  jp-compact print 17738399468 --compacted
      prints the view that a model receives
  jp-compact 17738399468 --reset
      removes all overlays";

/// Compact conversations with language models without losing anything
///
/// jp-compact appends overlays to a conversation. A model then receives a smaller view. The history stays unchanged,
/// byte for byte.
#[derive(Debug, Parser)]
#[command(
    name = "jp-compact",
    version,
    about,
    override_usage = "jp-compact [OPTIONS] <TRANSCRIPT>...\n       jp-compact <COMMAND>",
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\nExit codes:\n{}", exit::table()),
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) compact: compact::Args,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
    /// Whether the command prints a JSON document on stdout.
    #[arg(skip)]
    pub(crate) json: bool,
}

impl Cli {
    /// Parses a command line.
    ///
    /// # Errors
    /// The command line is invalid, or requests the help or the version.
    pub(crate) fn read(arguments: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let matches = parse::<Self>(&arguments.collect::<Vec<_>>())?;
        let cli = Self::from_arg_matches(&matches)?;
        Ok(Self { json: wants_json(&matches), ..cli })
    }
}

/// Returns the name of the command of a command line, if it can be parsed and has one.
pub(crate) fn name(arguments: &[OsString]) -> Option<String> {
    parse::<Cli>(arguments).ok()?.subcommand_name().map(str::to_owned)
}

/// Returns the flag of a command line that makes its command read stdin, if there is one.
pub(crate) fn stdin_flag(arguments: &[OsString]) -> Option<&'static str> {
    let matches = parse::<Cli>(arguments).ok()?;
    let (_, matches) = matches.subcommand()?;
    let is_set = |flag: &&str| matches.try_get_one(flag).ok().flatten() == Some(&true);
    ["hook", "ndjson"].into_iter().find(is_set)
}

/// Returns the position of the first argument `text` that names a conversation. The value of another option does not.
pub(crate) fn position_of_conversation(arguments: &[OsString], text: &str) -> Option<usize> {
    position_of_value::<Cli>(arguments, text, &["transcript", "transcripts", "conversation"])
}

/// Returns the position at which the conversation of a command line is missing. `None` if none is missing. `arguments`
/// begin with the name of the program.
pub(crate) fn missing_conversation(arguments: &[OsString]) -> Option<usize> {
    match Cli::read(arguments.iter().cloned()) {
        Ok(cli) => (cli.command.is_none() && !cli.compact.has_transcript()).then_some(1),
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
            let matches = Cli::command().ignore_errors(true).try_get_matches_from(arguments).ok()?;
            let command = matches.subcommand_name().filter(|name| COMMANDS_OF_CONVERSATION.contains(name))?;
            arguments.iter().position(|argument| argument == command).map(|position| position + 1)
        }
        Err(_) => None,
    }
}

/// Returns whether a command line writes data for a program to stdout.
pub(crate) fn writes_data(arguments: &[OsString]) -> bool {
    Cli::read(arguments.iter().cloned()).is_ok_and(|cli| {
        let is_data = match &cli.command {
            Some(Command::Print(_) | Command::Schema(_) | Command::Completions(_) | Command::Man(_)) => true,
            Some(Command::Config(args)) => args.writes_data(),
            _ => false,
        };
        cli.json || is_data
    }) || arguments.iter().any(|argument| argument == "--json")
}

/// Returns the help of a program with another name.
pub(crate) fn help_of(name: &'static str, usage: &'static str, introduction: &'static str) -> String {
    let command = with_layout(Cli::command(), &[OsString::from(name), "-h".into()]);
    let command = command.bin_name(name).override_usage(usage).before_help(introduction).after_help("");
    command.term_width(100).render_help().to_string()
}

/// Returns whether the innermost command has the flag `--json`. `mcp` ignores the flag, because clients get text and
/// JSON.
fn wants_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some(("mcp", _)) => false,
        Some((_, matches)) => wants_json(matches),
        None => matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or_default(),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Auto(Deferred<auto::Args>),
    Batch(Deferred<batch::Args>),
    Diff(Deferred<diff::Args>),
    Eval(Deferred<eval::Args>),
    List(Deferred<list::Args>),
    Fork(Deferred<fork::Args>),
    Resume(Deferred<resume::Args>),
    Import(Deferred<import::Args>),
    Init(Deferred<init::Args>),
    Print(Deferred<print::Args>),
    Query(Deferred<query::Args>),
    Show(Deferred<show::Args>),
    Stats(Deferred<stats::Args>),
    Lint(Deferred<lint::Args>),
    Mcp(Deferred<mcp::Args>),
    Strategy(Deferred<strategy::Args>),
    Config(Deferred<config::Args>),
    Doctor(Deferred<doctor::Args>),
    Schema(Deferred<schema::Args>),
    Completions(Deferred<completions::Args>),
    Man(Deferred<man::Args>),
}

/// Runs the command of a command line.
pub(crate) fn run(cli: Cli, environment: &Environment) -> Result<Exit, Report> {
    let quiet = cli.verbosity.quiet;
    match cli.command {
        None => compact::run(&cli.compact, quiet, environment, command_names),
        Some(Command::Auto(args)) => auto::run(&args, quiet, environment, command_names),
        Some(Command::Batch(args)) => batch::run(&args, quiet, environment),
        Some(Command::Diff(args)) => diff::run(&args, quiet, environment),
        Some(Command::Eval(args)) => eval::run(&args, quiet, environment),
        Some(Command::List(args)) => list::run(&args, environment),
        Some(Command::Fork(args)) => fork::run(&args, quiet, environment),
        Some(Command::Resume(args)) => resume::run(&args, quiet, environment),
        Some(Command::Import(args)) => import::run(&args, quiet, environment),
        Some(Command::Print(args)) => print::run(&args, environment),
        Some(Command::Query(args)) => query::run(&args, quiet, environment),
        Some(Command::Show(args)) => show::run(&args, environment),
        Some(Command::Stats(args)) => stats::run(&args, environment),
        Some(Command::Lint(args)) => lint::run(&args, environment),
        Some(Command::Mcp(args)) => mcp::run(args.into_inner(), quiet, environment),
        Some(Command::Strategy(args)) if args.dev().is_some() => show_while_developing(&args, environment),
        Some(Command::Init(args)) => {
            init::run(&args, environment, |paths, rows| measure(paths, rows, quiet, environment))
        }
        Some(Command::Strategy(args)) => strategy::run(&args, cli.verbosity.verbose > 0, environment),
        Some(Command::Config(args)) => config::run(&args, environment),
        Some(Command::Doctor(args)) => doctor::run(&args, environment),
        Some(Command::Schema(args)) => schema::run(&args),
        Some(Command::Completions(args)) => completions::run(&args),
        Some(Command::Man(args)) => man::run(&args, Cli::command(), environment),
    }
}

/// Runs `strategy dev`, which shows the output of `diff`.
fn show_while_developing(args: &strategy::Args, environment: &Environment) -> Result<Exit, Report> {
    let Some(dev) = args.dev() else { return Err(Report::bug()) };
    let arguments = dev.diff_arguments(environment);
    dev.watch(environment, || match Cli::read(arguments.iter().cloned()).map(|cli| cli.command) {
        Ok(Some(Command::Diff(args))) => diff::run(&args, true, environment).map(drop),
        _ => Err(Report::bug()),
    })?;
    Ok(Exit::Done)
}

/// Evaluates strategies for `init`.
fn measure(
    paths: &[OsString],
    rows: &[&str],
    quiet: bool,
    environment: &Environment,
) -> Result<EvalReport, Report> {
    let rows = rows.iter().flat_map(|row| ["--strategy".into(), OsString::from(row)]);
    let arguments =
        ["jp-compact", "eval"].map(OsString::from).into_iter().chain(rows).chain(paths.iter().cloned());
    match Cli::read(arguments).map(|cli| cli.command) {
        Ok(Some(Command::Eval(args))) => eval::measure(&args, quiet, environment),
        _ => Err(Report::bug()),
    }
}

fn command_names() -> Vec<String> {
    Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
}
