//! `jp-compact man [COMMAND]`: prints a manual page that is generated from the arguments.

use clap::{Command, Parser};

use crate::error::Report;
use crate::exit::Exit;
use crate::output;

/// Print a manual page
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  jp-compact man > ~/.local/share/man/man1/jp-compact.1")]
pub(crate) struct Args {
    /// The command to describe [default: jp-compact itself]
    command: Option<String>,
}

pub(crate) fn run(args: &Args, mut cli: Command) -> Result<Exit, Report> {
    cli.build();
    let command = match &args.command {
        None => cli,
        Some(name) => cli.find_subcommand(name).cloned().ok_or_else(|| {
            let hint = "`jp-compact --help` lists the commands";
            Report::new(Exit::Usage, format!("unknown command `{name}`"), Some(hint))
        })?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    output::data(|out| out.write_all(&page))?;
    Ok(Exit::Done)
}
