//! `jp-compact strategy untrust`: takes trust back. The plugin need not be there any more.

use clap::Parser;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::Failure;
use serde_json::json;

use crate::args::Discovery;
use crate::error::Report;
use crate::exit::Exit;
use crate::output;

/// Take trust back
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Its path; or its name, for all that bear it. A path has a `/` in it
    plugin: String,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    discovery: Discovery,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let path = args.plugin.contains('/').then(|| environment.cwd.join(&args.plugin));
    // One that is gone is known by the path that it had.
    let real = path.map(|path| path.canonicalize().unwrap_or(path));
    let mut trust = args.discovery.trust(environment)?;
    let revoked = trust
        .revoke(real.as_deref(), &args.plugin)
        .map_err(|source| Failure::of_strategy(&args.plugin, source))?;
    if args.json {
        output::json_line(&json!({ "plugin": args.plugin, "revoked": revoked }))?;
        return Ok(Exit::Done);
    }
    let text = match revoked {
        0 => format!("`{}` was not trusted", args.plugin),
        1 => format!("`{}` is no longer trusted", args.plugin),
        many => format!("{many} plugins called `{}` are no longer trusted", args.plugin),
    };
    output::say(text);
    Ok(Exit::Done)
}
