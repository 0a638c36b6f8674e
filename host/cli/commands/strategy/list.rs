//! `jp-compact strategy list`: lists all strategies with their manifests or cached descriptions. It must not execute a
//! strategy.

use std::path::Path;

use clap::Parser;
use jp_compact_help::strategies::{self, StrategyLine};
use jp_compact_runtime::describe_cache::Descriptions;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::registry::{Plugin, PluginForm};
use jp_compact_runtime::trust::Trust;
use jp_compact_schema::document::{FolderReport, StrategyListReport, StrategyRow};

use super::plugin::{origin, trust_status};
use crate::args::StrategyArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::human::relative_path;
use crate::output;

/// List the strategies, without executing them
///
/// "not described yet" marks a plugin that was not executed yet. `jp-compact strategy show NAME` executes it and caches its description.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    discovery: StrategyArgs,
}

/// A line of the list.
struct Row<'a> {
    plugin: &'a Plugin,
    trust_status: &'static str,
    sha256: Option<String>,
    version: Option<String>,
    description: Option<String>,
    /// Whether the strategy was executed to describe itself. `description` can also be from its manifest.
    is_described: bool,
    problem: Option<&'a str>,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let registry = args.discovery.registry(environment)?;
    let trust = args.discovery.trust(environment)?;
    let descriptions = Descriptions::open(environment);
    let rows: Vec<_> =
        registry.plugins().iter().map(|plugin| Row::new(plugin, &trust, &descriptions)).collect();
    if args.json {
        let folders = registry
            .folders()
            .iter()
            .map(|folder| FolderReport {
                path: folder.path.to_string_lossy().into_owned(),
                origin: folder.origin.word().to_owned(),
            })
            .collect();
        let strategies = rows.iter().map(Row::document).collect();
        output::json_line(&StrategyListReport { strategies, folders })?;
        return Ok(Exit::Done);
    }
    let mut lines: Vec<StrategyLine> = rows.iter().map(|row| row.line(environment)).collect();
    let is_listed = |path: &Path| rows.iter().any(|row| row.plugin.real == path);
    for record in trust.records().into_iter().filter(|record| !is_listed(Path::new(&record.path))) {
        let path = Path::new(&record.path);
        lines.push(StrategyLine {
            name: record.name.as_str().to_owned(),
            origin: "path".to_owned(),
            trust: match registry.find(&record.path) {
                Ok(plugin) => trust_status(&plugin, &trust).0.to_owned(),
                Err(_) => if path.exists() { "unreadable" } else { "missing" }.to_owned(),
            },
            description: "trusted by its path".to_owned(),
            path: Some(relative_path(path, environment)),
        });
    }
    output::table(&strategies::table(&lines, output::columns()))?;
    Ok(Exit::Done)
}

impl<'a> Row<'a> {
    fn new(plugin: &'a Plugin, trust: &Trust, descriptions: &Descriptions) -> Self {
        let (trust_status, sha256) = trust_status(plugin, trust);
        let cached = sha256.as_deref().and_then(|sha256| descriptions.get(sha256));
        let is_described = cached.is_some();
        let (version, description) = match (plugin.manifest(), cached) {
            (Some(manifest), _) => (Some(manifest.version.clone()), Some(manifest.description.clone())),
            (None, Some(cached)) => (Some(cached.description.version), Some(cached.description.description)),
            (None, None) => {
                let known =
                    plugin.bundled().then(|| strategies::bundled_description(plugin.name.as_str())).flatten();
                (None, known.map(str::to_owned))
            }
        };
        let problem = match &plugin.form {
            PluginForm::Broken(problem) => Some(problem.as_str()),
            PluginForm::Executable | PluginForm::Dylib | PluginForm::Folder(_) => None,
        };
        Self { plugin, trust_status, sha256, version, description, is_described, problem }
    }

    fn line(&self, environment: &Environment) -> StrategyLine {
        let description = match (self.problem, &self.description) {
            (Some(problem), _) => format!("broken: {}", problem.lines().next().unwrap_or_default()),
            (None, Some(description)) if self.is_described || self.plugin.bundled() => description.clone(),
            (None, Some(description)) => format!("{description} (its manifest; not described yet)"),
            (None, None) => "not described yet".into(),
        };
        let path = (!self.plugin.bundled()).then(|| relative_path(&self.plugin.path, environment));
        StrategyLine {
            name: self.plugin.name.as_str().to_owned(),
            origin: origin(self.plugin).to_owned(),
            trust: self.trust_status.to_owned(),
            description,
            path,
        }
    }

    fn document(&self) -> StrategyRow {
        StrategyRow {
            name: self.plugin.name.as_str().to_owned(),
            path: self.plugin.path.to_string_lossy().into_owned(),
            origin: origin(self.plugin).to_owned(),
            found_in: self.plugin.origin.word().to_owned(),
            shadowed: self.plugin.shadowed,
            trust: self.trust_status.to_owned(),
            sha256: self.sha256.clone(),
            version: self.version.clone(),
            description: self.description.clone(),
            described: self.is_described,
            problem: self.problem.map(str::to_owned),
        }
    }
}
