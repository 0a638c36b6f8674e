//! `jp-compact strategy untrust`: revokes the trust in a plugin, even if the plugin no longer exists.

use clap::Parser;
use jp_compact_engine::compact;
use jp_compact_runtime::environment::{Environment, real_path};
use jp_compact_schema::document::StrategyUntrustReport;
use serde_json::json;

use crate::args::StrategyArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;

/// Revoke the trust in a plugin
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The path of a plugin, or the name of one or several plugins
    ///
    /// A path contains a `/`.
    plugin: String,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    discovery: StrategyArgs,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let path = args.plugin.contains('/').then(|| real_path(&environment.cwd.join(&args.plugin)));
    let mut trust = args.discovery.trust(environment)?;
    let revoked = trust
        .revoke(path.as_deref(), &args.plugin)
        .map_err(|source| compact::Error::strategy(&args.plugin, source))?;
    let document = StrategyUntrustReport { plugin: args.plugin.clone(), revoked };
    if args.json {
        output::json_line(&document)?;
        return Ok(Exit::Done);
    }
    let text = match revoked {
        0 => format!("`{}` was not trusted", args.plugin),
        1 => format!("revoked the trust in `{}`", args.plugin),
        count => format!("revoked the trust in {count} plugins named `{}`", args.plugin),
    };
    output::info("revoked", &json!({ "report": document }), &EscapedLines::single(text));
    Ok(Exit::Done)
}
