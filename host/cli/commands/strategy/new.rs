//! `jp-compact strategy new`: creates the folder of a new strategy from a template.

use std::io::ErrorKind;

use clap::{Parser, ValueEnum};
use jp_compact_conformance::{Language, create};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::registry::{ExtraFolders, Registry};
use jp_compact_schema::StrategyName;
use serde_json::json;

use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;

/// Create a strategy from a template
///
/// The template passes `jp-compact strategy test` unchanged.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact strategy new my-strategy --lang python\n  jp-compact strategy new my-strategy --lang sh"
)]
pub(crate) struct Args {
    /// The name of the strategy and of its folder
    #[arg(value_parser = parse_name)]
    name: StrategyName,
    /// The language of the strategy
    #[arg(long, value_enum, value_name = "rust|python|sh|node|c")]
    lang: LanguageArg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LanguageArg {
    Rust,
    Python,
    Sh,
    Node,
    C,
}

fn parse_name(text: &str) -> Result<StrategyName, String> {
    StrategyName::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let registry = Registry::discover(environment, &ExtraFolders::default())?;
    let name = &args.name;
    if let Some(plugin) = registry.plugins().iter().find(|plugin| plugin.name == *name) {
        let message = format!("a strategy `{name}` already exists: {}", plugin.path.display());
        return Err(Report::new(Exit::NotFound, message, Some("choose another name")));
    }
    let language = match args.lang {
        LanguageArg::Rust => Language::Rust,
        LanguageArg::Python => Language::Python,
        LanguageArg::Sh => Language::Sh,
        LanguageArg::Node => Language::Node,
        LanguageArg::C => Language::C,
    };
    create(&environment.cwd.join(name.as_str()), name, language).map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            let hint = "choose another name, or remove the folder first";
            return Report::new(Exit::Usage, format!("{name} already exists"), Some(hint));
        }
        let mut report = Report::new(Exit::Usage, format!("failed to create the folder {name}"), None);
        report.causes.push(error.to_string());
        report
    })?;
    let source = language.source(name);
    let build = language.build(name).map_or_else(String::new, |line| format!("  (cd {name} && {line})\n"));
    let text = EscapedLines::from_host(&format!(
        "created {name}: {name}/{source} strips the output of tool calls until you change it. Next steps:\n{build}  \
         jp-compact strategy test {name}\n  jp-compact --strategy ./{name} CONVERSATION"
    ));
    output::info("created", &json!({ "name": name, "source": source, "build": language.build(name) }), &text);
    Ok(Exit::Done)
}
