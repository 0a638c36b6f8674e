//! `jp-compact print`: prints a conversation, whole or with its overlays applied.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jp_compact_runtime::environment::Environment;
use jp_compact_store as store;

use crate::args::FormatArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::input::{open_large, read_as};
use crate::output;
use crate::reports::conversation::{PrintForm, printed};

/// Print a conversation, whole or as a model receives it
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact print 17738399468 --compacted | less\n  jp-compact print events.json --compacted --as source > smaller.json\n  jp-compact print 17738399468 --compacted --as anthropic > body.json\n  jq '.[].type' < events.json; jp-compact print - --json < events.json"
)]
pub(crate) struct Args {
    /// A conversation folder, events.json, id, another agent's file, or -
    ///
    /// `-` reads stdin.
    transcript: OsString,
    #[command(flatten)]
    input: FormatArgs,
    /// Apply the overlays and print the view that a model receives
    #[arg(long)]
    compacted: bool,
    /// Print in this form
    ///
    /// `text` is for people. `json` has the decoded events that a provider receives. `source` is the form of the transcript. A provider's name prints the conversation in the form of that provider's request body, and repairs it. A transcript that is already such a body keeps its form, and is not repaired.
    #[arg(long = "as", value_name = "FORM", value_parser = forms(), default_value = "text")]
    form: PrintForm,
    /// Leave out the message `[Continue]` that ends a provider's request after a text of the assistant
    #[arg(long)]
    no_continue: bool,
    /// Write to FILE instead of stdout; FILE must not exist
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print in the form `json`; short for --as json
    #[arg(long, conflicts_with = "form")]
    json: bool,
}

fn forms() -> impl TypedValueParser<Value = PrintForm> {
    PossibleValuesParser::new(PrintForm::names()).try_map(|text| text.parse())
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    if let (true, PrintForm::Source) = (args.compacted, args.form)
        && let Some(exit) = print_large(args, environment)?
    {
        return Ok(exit);
    }
    let read = read_as(&args.transcript, args.input.format, environment)?;
    let form = if args.json { PrintForm::Json } else { args.form };
    let printed = printed(&read, args.compacted, args.no_continue, form)?;
    match &args.output {
        Some(path) => {
            let path = environment.cwd.join(path);
            store::write_new(&path, Some(&read.path), &printed.pieces, read.stream.bytes())?;
        }
        None => output::data(|out| printed.write(&read, out))?,
    }
    if let Some(warning) = printed.warning {
        output::warning(&warning);
    }
    Ok(Exit::Done)
}

/// Prints a large transcript compacted, without its bytes in memory. `None` if it must be read completely.
fn print_large(args: &Args, environment: &Environment) -> Result<Option<Exit>, Report> {
    let open = |output| open_large(&args.transcript, args.input.format, output, environment);
    if let Some(path) = &args.output {
        let Some(large) = open(None)? else { return Ok(None) };
        large.write_new(&environment.cwd.join(path))?;
        return Ok(Some(Exit::Done));
    }
    let Some(stdout) = output::data_file()? else { return Ok(None) };
    let Some(large) = open(Some(&stdout))? else { return Ok(None) };
    let written = large.write_compacted(&stdout);
    large.check_unchanged()?;
    output::unless_closed(written)?;
    Ok(Some(Exit::Done))
}
