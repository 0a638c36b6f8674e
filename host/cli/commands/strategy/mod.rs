//! `jp-compact strategy ...`: lists, describes, trusts, creates and tests strategies, with one file for each command.

pub(crate) mod dev;
mod list;
mod new;
mod plugin;
mod run;
mod show;
mod test;
mod trial;
mod trust;
mod untrust;

use clap::{Parser, Subcommand};
use jp_compact_runtime::environment::Environment;

use crate::error::Report;
use crate::exit::Exit;

/// List, trust, create and test strategies
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact strategy list\n  jp-compact strategy show strip-tools --json"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Args),
    Show(show::Args),
    Trust(trust::Args),
    Untrust(untrust::Args),
    Test(test::Args),
    New(new::Args),
    Run(run::Args),
    Dev(dev::Args),
}

impl Args {
    /// Returns the arguments of `strategy dev`. That command needs `diff`, so it is run by `commands`.
    pub(crate) fn dev(&self) -> Option<&dev::Args> {
        match &self.command {
            Command::Dev(args) => Some(args),
            _ => None,
        }
    }
}

pub(crate) fn run(args: &Args, verbose: bool, environment: &Environment) -> Result<Exit, Report> {
    match &args.command {
        Command::List(args) => list::run(args, environment),
        Command::Show(args) => show::run(args, environment),
        Command::Trust(args) => trust::run(args, environment),
        Command::Untrust(args) => untrust::run(args, environment),
        Command::Test(args) => test::run(args, verbose, environment),
        Command::New(args) => new::run(args, environment),
        Command::Run(args) => run::run(args, environment),
        Command::Dev(_) => Err(Report::bug()),
    }
}
