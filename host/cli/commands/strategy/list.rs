//! `jp-compact strategy list`: lists all strategies with their manifests or cached descriptions. It must not execute a
//! strategy.

use clap::Parser;
use jp_compact_runtime::describe_cache::Descriptions;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::registry::{Plugin, PluginForm};
use jp_compact_schema::document::{FolderReport, StrategyListReport, StrategyRow};

use super::plugin::{origin, standing};
use crate::args::StrategyArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;

/// List the strategies, without executing them
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
    trust: &'static str,
    sha256: Option<String>,
    version: Option<String>,
    description: Option<String>,
    /// Whether the description is from the strategy itself, not from its manifest.
    described: bool,
    problem: Option<&'a str>,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let registry = args.discovery.registry(environment)?;
    let trust = args.discovery.trust(environment)?;
    let descriptions = Descriptions::open(environment);
    let rows: Vec<_> = registry
        .plugins()
        .iter()
        .map(|plugin| {
            let (trust, sha256) = standing(plugin, &trust);
            row(plugin, trust, sha256, &descriptions)
        })
        .collect();
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
    let width = rows.iter().map(|row| row.plugin.name.as_str().len()).max().unwrap_or(0);
    let mut text = EscapedLines::new();
    rows.iter().for_each(|row| text.line(row.text(width)));
    output::text(&text)?;
    Ok(Exit::Done)
}

fn row<'a>(
    plugin: &'a Plugin,
    trust: &'static str,
    sha256: Option<String>,
    descriptions: &Descriptions,
) -> Row<'a> {
    let said = sha256.as_deref().and_then(|sha256| descriptions.get(sha256)).map(|known| known.description);
    let described = said.is_some();
    let manifest = plugin.manifest().map(|manifest| (&manifest.version, &manifest.description));
    let said = said.as_ref().map(|said| (&said.version, &said.description));
    let (version, description) = manifest.or(said).map(|(one, other)| (one.clone(), other.clone())).unzip();
    let problem = if let PluginForm::Broken(what) = &plugin.form { Some(what.as_str()) } else { None };
    Row { plugin, trust, sha256, version, description, described, problem }
}

impl Row<'_> {
    fn text(&self, width: usize) -> String {
        let (name, path) = (self.plugin.name.as_str(), self.plugin.path.display());
        let said = match (self.problem, &self.description) {
            (Some(problem), _) => format!("broken: {}", problem.lines().next().unwrap_or_default()),
            (None, Some(description)) if self.described => description.clone(),
            (None, Some(description)) => format!("{description} (its manifest; not described yet)"),
            (None, None) => "not described yet".into(),
        };
        format!("{name:<width$}  {:<11}  {:<9}  {said}  ({path})", origin(self.plugin), self.trust)
    }

    fn document(&self) -> StrategyRow {
        StrategyRow {
            name: self.plugin.name.as_str().to_owned(),
            path: self.plugin.path.to_string_lossy().into_owned(),
            origin: origin(self.plugin).to_owned(),
            found_in: self.plugin.origin.word().to_owned(),
            shadowed: self.plugin.shadowed,
            trust: self.trust.to_owned(),
            sha256: self.sha256.clone(),
            version: self.version.clone(),
            description: self.description.clone(),
            described: self.described,
            problem: self.problem.map(str::to_owned),
        }
    }
}
