//! `jp-compact completions SHELL`: prints a completion script.

use clap::Parser;
use jp_compact_help::completion::Shell;

use crate::error::Report;
use crate::exit::Exit;
use crate::output;

/// Print a completion script for a shell
///
/// The script asks jp-compact for the candidates: commands, options, conversations, sessions, strategies, profiles, formats, schemas, and pages of the manual. jp-compact must be in PATH.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  source <(jp-compact completions bash)    # a line in ~/.bashrc\n  source <(jp-compact completions zsh)     # a line in ~/.zshrc, after compinit\n  jp-compact completions fish > ~/.config/fish/completions/jp-compact.fish"
)]
pub(crate) struct Args {
    /// The shell of the script; Elvish and PowerShell are untested
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Report> {
    let script = args.shell.script()?;
    output::data(|out| out.write_all(&script))?;
    Ok(Exit::Done)
}
