//! `jp-compact completions SHELL`: prints a completion script.

use clap::{Command, Parser};
use clap_complete::Shell;

use crate::error::Report;
use crate::exit::Exit;
use crate::output;

/// Print a completion script for a shell
#[derive(Debug, Parser)]
#[command(
    after_help = "Example:\n  jp-compact completions bash > ~/.local/share/bash-completion/completions/jp-compact"
)]
pub(crate) struct Args {
    /// The shell to complete commands in
    shell: Shell,
}

pub(crate) fn run(args: &Args, mut cli: Command) -> Result<Exit, Report> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "jp-compact", &mut script);
    output::data(|out| out.write_all(&script))?;
    Ok(Exit::Done)
}
