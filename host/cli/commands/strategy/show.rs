//! `jp-compact strategy show`: prints the description of a strategy, which is executed unless the description is cached.

use clap::Parser;
use jp_compact_config as config;
use jp_compact_engine::compact::{self, Preparation, StrategyRunError};
use jp_compact_runtime::describe_cache::Descriptions;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Abilities;
use jp_compact_runtime::session::Starter;
use jp_compact_runtime::trust::grants;
use jp_compact_schema::Description;
use jp_compact_schema::document::StrategyShowReport;
use serde_json::Value;

use super::plugin::origin;
use crate::args::StrategyArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::{output, prompt};

/// Show the description of a strategy
///
/// The strategy is executed, unless its description is cached.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The name or path of the strategy
    name: String,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    discovery: StrategyArgs,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let registry = args.discovery.registry(environment)?;
    let trust = args.discovery.trust(environment)?;
    let starter = Starter {
        private_bytes_max: config::load_private_bytes_max(environment, &[], &[])?,
        ..Starter::new(registry.runner(), &environment.temp_dir)
    };
    let failed = |source: StrategyRunError| compact::Error::strategy(&args.name, source);
    let plugin = registry
        .find_to_run(&args.name, |plugin| trust.is_trusted(plugin))
        .map_err(|source| failed(source.into()))?;
    let preparation = Preparation {
        registry: &registry,
        trust: &trust,
        descriptions: &Descriptions::open(environment),
        starter: &starter,
        sandbox: args.discovery.sandbox(),
        abilities: Abilities::detect_with_limits(environment),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let described = runtime.block_on(preparation.describe(&plugin)).map_err(failed)?;
    let granted = grants::grants(&described.confined.cleared.permissions);
    if args.json {
        output::json_line(&StrategyShowReport {
            path: plugin.path.to_string_lossy().into_owned(),
            origin: origin(&plugin).to_owned(),
            executable_sha256: described.confined.cleared.sha256.clone(),
            granted: granted.iter().map(ToString::to_string).collect(),
            description: described.description,
        })?;
        return Ok(Exit::Done);
    }
    let description = &described.description;
    let mut text = EscapedLines::single(format_args!(
        "{} {}: {}",
        description.name, description.version, description.description
    ));
    let mut row = |label: &str, value: String| text.line(format_args!("  {label:<12} {value}"));
    row("executable", format!("{} ({})", plugin.path.display(), origin(&plugin)));
    row("sha256", described.confined.cleared.sha256.clone());
    if !plugin.bundled() {
        row("granted", prompt::permission_list(&granted));
    }
    for (label, value) in capabilities(description) {
        row(label, value);
    }
    for option in options(description) {
        row("option", option);
    }
    output::text(&text)?;
    Ok(Exit::Done)
}

/// Returns the members of the description that the host uses, as text. Empty lists are omitted.
fn capabilities(description: &Description) -> Vec<(&'static str, String)> {
    let members = serde_json::to_value(description).unwrap_or_default();
    let mut rows = Vec::new();
    for key in ["produces", "input", "scope", "determinism", "wants", "needs", "features"] {
        match &members[key] {
            Value::Null => {}
            Value::Array(items) if items.is_empty() => {}
            Value::Array(items) => {
                let items: Vec<_> = items.iter().filter_map(Value::as_str).collect();
                rows.push((key, items.join(", ")));
            }
            value => rows.push((key, plain(value))),
        }
    }
    rows
}

/// Returns the options of the strategy: name, allowed values, default, description.
fn options(description: &Description) -> Vec<String> {
    let schema = description.options_schema.as_ref();
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let mut options = Vec::new();
    for (name, property) in properties.into_iter().flatten() {
        let mut option = name.clone();
        if let Some(values) = property.get("enum").and_then(Value::as_array) {
            option += &format!("={}", values.iter().map(plain).collect::<Vec<_>>().join("|"));
        }
        if let Some(default) = property.get("default") {
            option += &format!(" [default: {}]", plain(default));
        }
        if let Some(help) = property.get("description").and_then(Value::as_str) {
            option += &format!("  {help}");
        }
        options.push(option);
    }
    options
}

/// Formats a JSON value, a string without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
