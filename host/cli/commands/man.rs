//! `jp-compact man [COMMAND]`: prints a manual page, or writes all pages. They are generated from the arguments.

use std::path::PathBuf;

use clap::{Command, Parser};
use jp_compact_help::{hint_for, manual, with_long_layout};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::private_file;
use serde_json::json;

use crate::error::Report;
use crate::exit::Exit;
use crate::human::counted;
use crate::lines::EscapedLines;
use crate::output;

/// Print a manual page, or write all pages
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact man | man -l -\n  jp-compact man strategy test\n  jp-compact man --dir ~/.local/share/man/man1"
)]
pub(crate) struct Args {
    /// The command to describe [default: jp-compact itself]
    command: Vec<String>,
    /// Write all pages to this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, cli: Command, environment: &Environment) -> Result<Exit, Report> {
    let cli = with_long_layout(cli);
    let Some(folder) = &args.dir else { return print(args, cli) };
    let pages = manual::all_pages(cli)?;
    for (name, page) in &pages {
        let path = environment.cwd.join(folder).join(name);
        private_file::write(&path, page, 0o644)
            .map_err(|error| Report::of_system(&format!("failed to write {}", path.display()), &error))?;
    }
    let text = format_args!("wrote {} to {}", counted(pages.len(), "page"), folder.display());
    output::info("wrote the pages", &json!({ "pages": pages.len() }), &EscapedLines::single(text));
    Ok(Exit::Done)
}

fn print(args: &Args, cli: Command) -> Result<Exit, Report> {
    let (name, names) = (args.command.join(" "), manual::names(&cli));
    let page =
        manual::page(cli, Some(name.as_str()).filter(|name| !name.is_empty())).ok_or_else(|| {
            let hint = hint_for(&name.replace(' ', "-"), &names, "commands", "jp-compact --help");
            Report::new(Exit::Usage, format!("there is no manual page for `{name}`"), Some(&hint))
        })??;
    output::data(|out| out.write_all(&page))?;
    Ok(Exit::Done)
}
