//! `jp-compact strategy trust`: says that a plugin's bytes may run, and with which permissions. What it says of itself
//! is heard first, in a jail.

use clap::Parser;
use jp_compact_engine::compact::Preparation;
use jp_compact_engine::config;
use jp_compact_engine::describe_cache::Descriptions;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::{Failure, StrategyFailure};
use jp_compact_engine::jail::Abilities;
use jp_compact_engine::registry::Registry;
use jp_compact_engine::session::Starter;
use jp_compact_engine::trust::{Candidate, Grant, Said, Trust, grants};
use serde_json::json;

use crate::args::Discovery;
use crate::commands::consent;
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::Lines;
use crate::output;

/// Trust a plugin as it is now; any change of it ends that
///
/// It is started once, in a jail, to say what it is; where there is no jail it is not, and its manifest is all that is shown. Nothing is granted but what --grant names, and the interpreter of a script. With --trust-lock the trust is
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
    let registry = args.discovery.registry(environment)?;
    let plugin = registry.find(&args.plugin)?;
    if plugin.bundled() {
        let text = format!("strategy `{}` is bundled, and trusted as it is", plugin.name);
        return Err(Report::new(Exit::Usage, text, None));
    }
    let mut trust = args.discovery.trust(environment)?;
    let mut candidate = trust.candidate(&plugin).map_err(failed)?;
    introduce(args, &mut candidate, &registry, &trust, environment)?.map_err(failed)?;
    let record = trust.grant(&candidate, &args.grants).map_err(failed)?;
    let granted = grants::grants(&record.permissions);
    let missing = grants::missing(&candidate.asked, &record.permissions);
    let runs: Vec<_> = candidate.runs().iter().map(|runs| runs.real.to_string_lossy()).collect();
    if args.json {
        let words = |grants: &[Grant]| grants.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (description, not_described) = match &candidate.said {
            Said::Description(said) => (Some(said), None),
            Said::Nothing(why) => (None, Some(why.as_str())),
            Said::Unasked => (None, None),
        };
        output::json_line(&json!({
            "name": record.name,
            "path": record.path,
            "sha256": record.sha256,
            "manifest": plugin.manifest(),
            "description": description,
            "not_described": not_described,
            "runs": runs,
            "asked": words(&grants::grants(&candidate.asked)),
            "granted": words(&granted),
            "not_granted": words(&missing),
            "permissions": record.permissions,
            "interpreter": record.interpreter.map(|path| path.to_string_lossy().into_owned()),
        }))?;
        return Ok(Exit::Done);
    }
    let mut text = Lines::for_consent();
    text.line(format_args!("strategy `{}` is trusted", record.name));
    consent::facts(&candidate, &mut text);
    text.line(format_args!("  {:<8}  {}", "granted", consent::list(&granted)));
    if !missing.is_empty() {
        let all = candidate.command_with(&grants::with(record.permissions, &missing));
        let missing = grants::line(&missing);
        text.line(format_args!("it asks for {missing} too, which was not granted; grant it with"));
        text.line(format_args!("  {all}"));
    }
    output::people(&text);
    Ok(Exit::Done)
}

/// Has it say what it is, in a jail, before anything is written down.
fn introduce(
    args: &Args,
    candidate: &mut Candidate,
    registry: &Registry,
    trust: &Trust,
    environment: &Environment,
) -> Result<Result<(), StrategyFailure>, Report> {
    let (runner, temp_dir) = (registry.runner().to_owned(), environment.temp_dir.clone());
    let private_bytes_max = config::private_bytes_max(environment, &[], &[])?;
    let preparation = Preparation {
        registry,
        trust,
        descriptions: &Descriptions::open(environment),
        starter: &Starter { runner, temp_dir, private_bytes_max, spool: None },
        sandbox: args.discovery.sandbox(),
        abilities: Abilities::here(environment),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(preparation.introduce(candidate)))
}
