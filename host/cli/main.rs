//! The `jp-compact` executable: parses the command line, runs one command, and reports its result. Domain rules must
//! not be here; they are in core and the engine. Only this crate and the progress of `help` write to a terminal.

mod args;
mod automatic;
mod commands;
mod compaction;
mod error;
mod give_back;
mod html_file;
mod human;
mod input;
mod interrupt;
mod jp;
mod output;
mod prices;
mod prompt;
mod reports;
mod resolve;
mod selection;
mod session_fork;
mod session_source;
mod setup;
mod tokens;
mod transcript_results;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use jp_compact_help::{completion, exit, typed_color, with_layout};
use jp_compact_runtime::environment::Environment;
use jp_compact_terminal::{escape, lines};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use args::{LogFormat, Verbosity};
use commands::Cli;
use error::Report;
use exit::Exit;
use lines::EscapedLines;

/// A batch makes many small allocations on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = std::panic::catch_unwind(run);
    outcome.unwrap_or(Exit::Bug).into()
}

fn run() -> Exit {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.len() == 1 {
        return jp::serve(run_arguments);
    }
    output::set_colors(typed_color(&arguments));
    if let Some(exit) = answer_shell(&arguments) {
        return exit;
    }
    run_arguments(arguments)
}

/// Runs a command line. The first argument is the name of the program.
fn run_arguments(arguments: Vec<OsString>) -> Exit {
    let cli = match Cli::read(arguments.iter().cloned()) {
        Ok(cli) => cli,
        Err(error) => {
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
                print_help(&arguments, &error);
                return Exit::Done;
            }
            return report_usage_error(&error, &arguments);
        }
    };
    configure_stderr(&cli.verbosity);
    let json = cli.json;
    jp_compact_runtime::process::inherit_orphans();
    let outcome = dispatch(cli);
    for warning in jp_compact_runtime::process::left_behind() {
        output::warning(&warning);
    }
    match outcome {
        Ok(exit) => exit,
        Err(report) if is_hook(&arguments) => report_in_hook(&report),
        Err(report) => {
            let failure = report.failure(None);
            if json && !report.is_printed {
                // If this write fails, the report on stderr still follows.
                let _ = output::json_line(&failure);
            }
            output::failure(&failure, &report.text());
            report.exit
        }
    }
}

/// Answers a shell that asks for completions.
fn answer_shell(arguments: &[OsString]) -> Option<Exit> {
    if arguments.get(1)? != "--" {
        return None;
    }
    let environment = Environment::of_process().ok()?;
    let answer = completion::answer(arguments, &environment, Cli::command)?;
    // After an error, the shell shows no message, and completes nothing.
    Some(match answer.and_then(|answer| output::data(|out| out.write_all(&answer))) {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Bug,
    })
}

/// Prints the version, or the help in its layout. The layout is made only now, because parsing does not need it.
fn print_help(arguments: &[OsString], plain: &clap::Error) {
    if plain.kind() == ErrorKind::DisplayVersion {
        return output::help(plain);
    }
    let command = with_layout(Cli::command(), arguments);
    let laid_out = command.try_get_matches_from(arguments).err();
    output::help(laid_out.as_ref().unwrap_or(plain));
}

/// Reports a command line that cannot be parsed. Without parsed options, this function searches the raw arguments for
/// `--json` and `--log-format`.
fn report_usage_error(error: &clap::Error, arguments: &[OsString]) -> Exit {
    // clap calls a hint a tip.
    let rendered = error.render().to_string().replace("\n  tip: ", "\nhint: ");
    let report = error::usage_error(&rendered);
    if is_hook(arguments) {
        return report_in_hook(&report);
    }
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let failure = report.failure(None);
    if has("--json") {
        // If this write fails, the report on stderr still follows.
        let _ = output::json_line(&failure);
    }
    let is_json = |pair: &[OsString]| pair[0] == "--log-format" && pair[1] == "json";
    if has("--log-format=json") || arguments.windows(2).any(is_json) {
        output::set_json();
    }
    // Arguments may contain foreign text, so the message is escaped.
    output::failure(&failure, &EscapedLines::from_host(&rendered));
    Exit::Usage
}

/// Returns whether a command line, which may be invalid, runs `auto` as a hook.
fn is_hook(arguments: &[OsString]) -> bool {
    ["auto", "--hook"].iter().all(|word| arguments.iter().any(|argument| argument == word))
}

/// Reports a failure to an agent. Another exit code than 0 is an answer: 2 forbids what the agent was about to do.
fn report_in_hook(report: &Report) -> Exit {
    output::important_warning(&format!("hook: {}", report.message));
    Exit::Done
}

fn dispatch(cli: Cli) -> Result<Exit, Report> {
    let environment = Environment::of_process().map_err(|error| {
        let mut report = Report::new(Exit::Usage, "failed to get the current folder", None);
        report.causes.push(error.to_string());
        report
    })?;
    commands::run(cli, &environment)
}

/// Applies `--quiet`, `--log-format`, and `--verbose`.
fn configure_stderr(verbosity: &Verbosity) {
    if verbosity.quiet {
        output::set_quiet();
    }
    let json = verbosity.log_format == LogFormat::Json;
    if json {
        output::set_json();
    }
    let level = match verbosity.verbose {
        0 => return,
        1 => tracing::Level::INFO,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    let subscriber =
        tracing_subscriber::fmt().with_max_level(level).with_ansi(false).without_time().with_target(false);
    // `rmcp` logs every message, and messages contain transcripts.
    let filter = Targets::new().with_default(level).with_target("rmcp", LevelFilter::OFF);
    if json {
        subscriber.json().with_writer(std::io::stderr).finish().with(filter).init();
    } else {
        // Any event may contain text of a strategy.
        subscriber.with_writer(|| output::EscapedStderr).finish().with(filter).init();
    }
}
