//! `jp-compact schema [NAME]`: prints the JSON Schemas of the strategy protocol and of the JSON documents.

use clap::Parser;
use jp_compact_help::hint_for;
use jp_compact_schema::catalog;

use crate::error::Report;
use crate::exit::Exit;
use crate::output;

/// Print a JSON Schema, or list the schemas
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact schema\n  jp-compact schema reply\n  jp-compact schema batch-report"
)]
pub(crate) struct Args {
    /// The schema to print [default: list the names]
    name: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Report> {
    match &args.name {
        None => {
            let names: String = catalog::all().iter().map(|schema| format!("{}\n", schema.name)).collect();
            output::data(|out| out.write_all(names.as_bytes()))?;
        }
        Some(name) => {
            let Some(text) = catalog::render(name) else {
                let names: Vec<_> = catalog::all().iter().map(|schema| schema.name).collect();
                let hint = hint_for(name, &names, "schemas", "jp-compact schema");
                return Err(Report::new(Exit::Usage, format!("unknown schema `{name}`"), Some(&hint)));
            };
            output::data(|out| out.write_all(text.as_bytes()))?;
        }
    }
    Ok(Exit::Done)
}
