//! The `jp-compact` executable: reads the command line, calls one command, reports. No rule of the domain is
//! here, and nothing but this crate writes to a terminal.

mod args;
mod bars;
mod commands;
mod error;
mod escape;
mod exit;
mod jp;
mod lines;
mod output;
mod planner;
mod progress;
mod resolve;
mod sent;
mod setup;
mod tally;
mod tokens;
mod told;

use std::process::ExitCode;

use clap::error::ErrorKind;
use jp_compact_engine::environment::Environment;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use args::{Cli, Command, LogFormat, Verbosity};
use error::Report;
use exit::Exit;
use lines::Lines;

/// A batch makes and drops many small things on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = std::panic::catch_unwind(run);
    outcome.unwrap_or(Exit::Bug).into()
}

fn run() -> Exit {
    if std::env::args_os().len() == 1 {
        return jp::serve();
    }
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
                // Nothing can be said when even printing fails.
                let _ = error.print();
                return Exit::Done;
            }
            // A script may pass on what others wrote.
            output::people(&Lines::of_host(&error.render().to_string()));
            return Exit::Usage;
        }
    };
    log(&cli.verbosity);
    jp_compact_engine::process::inherit_orphans();
    let outcome = dispatch(cli);
    for what in jp_compact_engine::process::left_behind() {
        output::warning(&what);
    }
    match outcome {
        Ok(exit) => exit,
        Err(report) => {
            output::failure(&report, &report.text());
            report.exit
        }
    }
}

fn dispatch(cli: Cli) -> Result<Exit, Report> {
    let environment = Environment::of_process().map_err(|error| {
        let mut report = Report::new(Exit::Usage, "failed to find the current folder", None);
        report.causes.push(error.to_string());
        report
    })?;
    match cli.command {
        None => commands::compact::run(&cli.compact, cli.verbosity.quiet, &environment),
        Some(Command::Auto(args)) => commands::auto::run(&args, cli.verbosity.quiet, &environment),
        Some(Command::Batch(args)) => commands::batch::run(&args, cli.verbosity.quiet, &environment),
        Some(Command::Fork(args)) => commands::fork::run(&args, cli.verbosity.quiet, &environment),
        Some(Command::Import(args)) => commands::import::run(&args, cli.verbosity.quiet, &environment),
        Some(Command::Print(args)) => commands::print::run(&args, &environment),
        Some(Command::Query(args)) => commands::query::run(&args, cli.verbosity.quiet, &environment),
        Some(Command::Show(args)) => commands::show::run(&args, &environment),
        Some(Command::Stats(args)) => commands::stats::run(&args, &environment),
        Some(Command::Lint(args)) => commands::lint::run(&args, &environment),
        Some(Command::Mcp(args)) => commands::mcp::run(*args, cli.verbosity.quiet, &environment),
        Some(Command::Strategy(args)) => commands::strategy::run(&args, &environment),
        Some(Command::Config(args)) => commands::config::run(&args, &environment),
        Some(Command::Doctor(args)) => commands::doctor::run(&args, &environment),
        Some(Command::Schema(args)) => commands::schema::run(&args),
        Some(Command::Completions(args)) => commands::completions::run(&args),
        Some(Command::Man(args)) => commands::man::run(&args),
    }
}

/// Sends the libraries' traces to stderr, when they were asked for. Payloads and events are at `trace` alone.
fn log(verbosity: &Verbosity) {
    if verbosity.quiet {
        output::be_quiet();
    }
    let json = verbosity.log_format == LogFormat::Json;
    if json {
        output::speak_json();
    }
    let level = match verbosity.verbose {
        0 => return,
        1 => tracing::Level::INFO,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    let log =
        tracing_subscriber::fmt().with_max_level(level).with_ansi(false).without_time().with_target(false);
    // It tells every message, and messages hold transcripts.
    let all = Targets::new().with_default(level).with_target("rmcp", LevelFilter::OFF);
    if json {
        log.json().with_writer(std::io::stderr).finish().with(all).init();
    } else {
        // What a strategy wrote may be in any of them.
        log.with_writer(|| output::Escaped).finish().with(all).init();
    }
}
