//! `jp-compact strategy new`: the folder of a strategy to begin with.

use std::io::ErrorKind;

use clap::{Parser, ValueEnum};
use jp_compact_engine::environment::Environment;
use jp_compact_engine::kit::{Language, create};
use jp_compact_engine::registry::{Registry, Wanted};
use jp_compact_schema::StrategyName;

use crate::error::Report;
use crate::exit::Exit;
use crate::lines::Lines;
use crate::output;

/// Write the folder of a strategy to begin with; it passes `strategy test` as it is
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  jp-compact strategy new my-strategy --lang python")]
pub(crate) struct Args {
    /// Its name, and the folder's
    #[arg(value_parser = name)]
    name: StrategyName,
    /// The language
    #[arg(long, value_enum)]
    lang: Word,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Word {
    Rust,
    Python,
    Sh,
    Node,
    C,
}

fn name(text: &str) -> Result<StrategyName, String> {
    StrategyName::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let registry = Registry::discover(environment, &Wanted::default())?;
    let name = &args.name;
    if registry.plugins().iter().any(|plugin| plugin.name == *name) {
        let what = format!("a bundled strategy is called `{name}`");
        return Err(Report::new(Exit::NotFound, what, Some("take another name")));
    }
    let language = match args.lang {
        Word::Rust => Language::Rust,
        Word::Python => Language::Python,
        Word::Sh => Language::Sh,
        Word::Node => Language::Node,
        Word::C => Language::C,
    };
    create(&environment.cwd.join(name.as_str()), name, language).map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            let hint = "take another name, or remove it first";
            return Report::new(Exit::Usage, format!("{name} is there already"), Some(hint));
        }
        let mut report = Report::new(Exit::Usage, format!("failed to write the folder {name}"), None);
        report.causes.push(error.to_string());
        report
    })?;
    let source = language.source(name);
    let build = language.build(name).map_or_else(String::new, |line| format!("  (cd {name} && {line})\n"));
    output::people(&Lines::of_host(&format!(
        "{name} is there: {name}/{source} strips the output of tool calls until you change it. Next:\n{build}  \
         jp-compact strategy test {name}\n  jp-compact --strategy ./{name} CONVERSATION"
    )));
    Ok(Exit::Done)
}
