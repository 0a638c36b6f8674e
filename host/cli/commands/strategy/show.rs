//! `jp-compact strategy list|show`: which strategies there are, and what one says of itself.

use clap::{Parser, Subcommand};
use jp_compact_engine::compact::allow;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::Failure;
use jp_compact_engine::registry::{Plugin, Registry};
use jp_compact_engine::session::Starter;
use serde_json::{Value, json};

use crate::args::Discovery;
use crate::error::Report;
use crate::exit::Exit;
use crate::{escape, output};

/// List strategies, or show what one says of itself
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact strategy list\n  jp-compact strategy show strip-tools --json"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the strategies found; none is executed
    List {
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        discovery: Discovery,
    },
    /// Show what a strategy says of itself: it is executed
    Show {
        /// Its name
        name: String,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        discovery: Discovery,
    },
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    match &args.what {
        What::List { json, discovery } => {
            let registry = Registry::discover(environment, &discovery.plugin_dirs)?;
            list(&registry, *json)
        }
        What::Show { name, json, discovery } => {
            let registry = Registry::discover(environment, &discovery.plugin_dirs)?;
            show(&registry, name, *json, discovery, environment)
        }
    }
}

fn origin(plugin: &Plugin) -> &'static str {
    match (plugin.bundled, plugin.shadowed) {
        (true, _) => "bundled",
        (false, false) => "plugin",
        (false, true) => "shadowed",
    }
}

fn list(registry: &Registry, json: bool) -> Result<Exit, Report> {
    if json {
        let plugins: Vec<_> = registry
            .plugins()
            .iter()
            .map(|plugin| json!({ "name": plugin.name, "path": plugin.path.to_string_lossy(), "origin": origin(plugin) }))
            .collect();
        let folders: Vec<_> = registry.folders().iter().map(|folder| folder.to_string_lossy()).collect();
        output::json_line(&json!({ "strategies": plugins, "folders": folders }))?;
        return Ok(Exit::Done);
    }
    let width = registry.plugins().iter().map(|plugin| plugin.name.as_str().len()).max().unwrap_or(0);
    let mut text = String::new();
    for plugin in registry.plugins() {
        let (name, path) = (plugin.name.as_str(), plugin.path.display());
        text.push_str(&format!("{name:<width$}  {:<8}  {path}\n", origin(plugin)));
    }
    output::data(|out| out.write_all(escape::text(&text).as_bytes()))?;
    Ok(Exit::Done)
}

fn show(
    registry: &Registry,
    name: &str,
    json: bool,
    discovery: &Discovery,
    environment: &Environment,
) -> Result<Exit, Report> {
    let failed = |source| Failure::of_strategy(name, source);
    let plugin = registry.find(name)?;
    allow(plugin.bundled, discovery.sandbox(), &plugin.path).map_err(failed)?;
    let starter = Starter { runner: registry.runner().to_owned(), temp_dir: environment.temp_dir.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let described = runtime.block_on(starter.describe(plugin)).map_err(failed)?;
    let description = serde_json::to_value(&described.description).unwrap_or_default();
    if json {
        output::json_line(&json!({
            "path": plugin.path.to_string_lossy(),
            "origin": origin(plugin),
            "executable_sha256": described.executable_sha256,
            "description": description,
        }))?;
        return Ok(Exit::Done);
    }
    let said = &described.description;
    let mut text = format!("{} {}: {}\n", said.name, said.version, said.description);
    let mut row = |label: &str, value: String| text.push_str(&format!("  {label:<12} {value}\n"));
    row("executable", format!("{} ({})", plugin.path.display(), origin(plugin)));
    row("sha256", described.executable_sha256.clone());
    for key in ["produces", "input", "scope", "determinism", "wants", "needs", "features"] {
        match &description[key] {
            Value::Null => {}
            Value::String(word) => row(key, word.clone()),
            Value::Array(words) if words.is_empty() => {}
            Value::Array(words) => {
                row(key, words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "));
            }
            other => row(key, other.to_string()),
        }
    }
    let properties = said.options_schema.as_ref().and_then(|schema| schema.get("properties"));
    for (option, property) in properties.and_then(Value::as_object).into_iter().flatten() {
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut text = option.clone();
        if let Some(values) = property.get("enum").and_then(Value::as_array) {
            text += &format!("={}", values.iter().map(word).collect::<Vec<_>>().join("|"));
        }
        if let Some(default) = property.get("default") {
            text += &format!(" [default: {}]", word(default));
        }
        if let Some(what) = property.get("description").and_then(Value::as_str) {
            text += &format!("  {what}");
        }
        row("option", text);
    }
    output::data(|out| out.write_all(escape::text(&text).as_bytes()))?;
    Ok(Exit::Done)
}
