//! `jp-compact completions SHELL`: a script for the shell.

use clap::{CommandFactory as _, Parser};
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::Report;
use crate::exit::Exit;
use crate::output;

/// Print a completion script for a shell
#[derive(Debug, Parser)]
#[command(
    after_help = "Example:\n  jp-compact completions bash > ~/.local/share/bash-completion/completions/jp-compact"
)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Report> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "jp-compact", &mut script);
    output::data(|out| out.write_all(&script))?;
    Ok(Exit::Done)
}
