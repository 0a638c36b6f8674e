//! `jp-compact strategy trust`: says that a plugin's bytes may run, and with which permissions.

use clap::Parser;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::Failure;
use jp_compact_engine::trust::{Grant, grants};
use serde_json::json;

use crate::args::Discovery;
use crate::commands::consent;
use crate::error::Report;
use crate::exit::Exit;
use crate::{escape, output};

/// Trust a plugin as it is now; any change of it ends that
///
/// Nothing is granted but what --grant names, and the interpreter of a script. With --trust-lock the trust is
/// written to that file, to be committed, instead of your own records.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  jp-compact strategy trust ./strip-all\n  \
                  jp-compact strategy trust plugins/summarize --grant llm,runtime:python --trust-lock plugins.lock")]
pub(crate) struct Args {
    /// Its path or its name; a path has a `/` in it
    plugin: String,
    /// What it may do: llm, network, subprocess, env:NAME, read:/path, runtime:python|node|sh
    #[arg(long = "grant", value_name = "PERMISSION,...", value_delimiter = ',')]
    grants: Vec<Grant>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    discovery: Discovery,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let failed = |source| Failure::of_strategy(&args.plugin, source);
    let plugin = args.discovery.registry(environment)?.find(&args.plugin)?;
    if plugin.bundled() {
        let text = format!("strategy `{}` is bundled, and trusted as it is", plugin.name);
        return Err(Report::new(Exit::Usage, text, None));
    }
    let mut trust = args.discovery.trust(environment)?;
    let candidate = trust.candidate(&plugin).map_err(failed)?;
    let record = trust.grant(&candidate, &args.grants).map_err(failed)?;
    let missing = grants::missing(&candidate.asked, &record.permissions);
    if args.json {
        output::json_line(&json!({
            "name": record.name,
            "path": record.path,
            "sha256": record.sha256,
            "permissions": record.permissions,
            "interpreter": record.interpreter.map(|path| path.to_string_lossy().into_owned()),
            "not_granted": missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Done);
    }
    let granted = consent::list(&grants::grants(&record.permissions));
    let mut text = format!(
        "strategy `{}` is trusted: {} (sha256 {}), with {granted}",
        record.name, record.path, record.sha256
    );
    if !missing.is_empty() {
        let asked = grants::line(&missing);
        text.push_str(&format!("\nit asks for {asked} too: `--grant {asked}` would grant that"));
    }
    output::people(&escape::text(&text));
    Ok(Exit::Done)
}
