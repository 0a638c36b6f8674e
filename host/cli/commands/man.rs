//! `jp-compact man [COMMAND]`: a manual page, made from the command line's own definition.

use clap::{CommandFactory as _, Parser};

use crate::args::Cli;
use crate::error::Report;
use crate::exit::Exit;
use crate::output;

/// Print a manual page
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  jp-compact man > ~/.local/share/man/man1/jp-compact.1")]
pub(crate) struct Args {
    /// The command that the page is of [default: jp-compact itself]
    command: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Report> {
    let mut cli = Cli::command();
    cli.build();
    let command = match &args.command {
        None => cli,
        Some(name) => cli.find_subcommand(name).cloned().ok_or_else(|| {
            let hint = "`jp-compact --help` lists the commands";
            Report::new(Exit::Usage, format!("there is no command `{name}`"), Some(hint))
        })?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    output::data(|out| out.write_all(&page))?;
    Ok(Exit::Done)
}
