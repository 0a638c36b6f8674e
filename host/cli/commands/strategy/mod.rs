//! `jp-compact strategy ...`: which strategies there are, what each says of itself, which are trusted. One file for
//! each.

mod list;
mod new;
mod run;
mod show;
mod test;
mod trust;
mod untrust;

use clap::{Parser, Subcommand};
use jp_compact_engine::environment::Environment;
use jp_compact_engine::registry::Plugin;
use jp_compact_engine::trust::{Standing, Trust};

use crate::error::Report;
use crate::exit::Exit;

/// List strategies, show what one says of itself, trust one, write and test one
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact strategy list\n  jp-compact strategy show strip-tools --json"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    List(list::Args),
    Show(show::Args),
    Trust(trust::Args),
    Untrust(untrust::Args),
    Test(test::Args),
    New(new::Args),
    Run(run::Args),
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    match &args.what {
        What::List(args) => list::run(args, environment),
        What::Show(args) => show::run(args, environment),
        What::Trust(args) => trust::run(args, environment),
        What::Untrust(args) => untrust::run(args, environment),
        What::Test(args) => test::run(args, environment),
        What::New(args) => new::run(args, environment),
        What::Run(args) => run::run(args, environment),
    }
}

/// How a plugin was found, in one word.
fn origin(plugin: &Plugin) -> &'static str {
    if plugin.shadowed { "shadowed" } else { plugin.origin.word() }
}

/// Whether a plugin is trusted, in one word, and the digest of its bytes.
fn standing(plugin: &Plugin, trust: &Trust) -> (&'static str, Option<String>) {
    let Ok(judged) = trust.judge(plugin) else { return ("unreadable", None) };
    let word = match (judged.standing, trust.insecure(plugin)) {
        (_, Ok(Some(_)) | Err(_)) => "insecure",
        (Standing::Bundled | Standing::Trusted { .. }, Ok(None)) => "trusted",
        (Standing::Untrusted, Ok(None)) => "untrusted",
        (Standing::Changed, Ok(None)) => "changed",
    };
    (word, Some(judged.sha256))
}
