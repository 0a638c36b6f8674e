//! `jp-compact strategy trust`: trusts the bytes of a plugin and grants permissions. The plugin describes itself first, in a
//! jail; without a jail it must not start.

use clap::Parser;
use jp_compact_config as config;
use jp_compact_engine::compact::{self, Preparation, StrategyRunError};
use jp_compact_runtime::describe_cache::Descriptions;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Abilities;
use jp_compact_runtime::registry::Registry;
use jp_compact_runtime::session::Starter;
use jp_compact_runtime::trust::{Candidate, DescribeOutcome, Grant, Trust, grants};
use jp_compact_schema::Description;
use jp_compact_schema::document::StrategyTrustReport;
use serde_json::json;

use crate::args::StrategyArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::{output, prompt};

/// Trust a plugin until it changes
///
/// The plugin is started once in a jail to describe itself. Without a jail it is not started, and only its manifest is
/// shown. The interpreter of a script and the permissions of --grant are granted. Without --grant, you are asked at a
/// terminal whether to grant the requested permissions. With --trust-lock, the trust is written to that file instead of
/// your own records, so that you can commit it.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  jp-compact strategy trust ./strip-all\n  \
                  jp-compact strategy trust plugins/summarize --grant llm,runtime:python --trust-lock plugins.lock")]
pub(crate) struct Args {
    /// The path or name of the plugin; a path contains a `/`
    plugin: String,
    /// Grant a permission
    ///
    /// Permissions: llm, network, subprocess, env:NAME, read:/path, runtime:python|node|sh
    #[arg(long = "grant", value_name = "PERMISSION,...", value_delimiter = ',')]
    grants: Vec<Grant>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    discovery: StrategyArgs,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let failed = |source: StrategyRunError| compact::Error::strategy(&args.plugin, source);
    let registry = args.discovery.registry(environment)?;
    let plugin = registry.find(&args.plugin).map_err(|source| failed(source.into()))?;
    if plugin.bundled() {
        let message = format!("strategy `{}` is bundled and always trusted", plugin.name);
        return Err(Report::new(Exit::Usage, message, None));
    }
    let mut trust = args.discovery.trust(environment)?;
    let mut candidate = trust.candidate(&plugin).map_err(|source| failed(source.into()))?;
    describe(args, &mut candidate, &registry, &trust, environment)?.map_err(failed)?;
    let grants = typed_or_confirmed_grants(args, &candidate)?;
    let record = trust.grant(&candidate, &grants).map_err(|source| failed(source.into()))?;
    let granted = grants::grants(&record.permissions);
    let missing = grants::missing(&candidate.asked, &record.permissions);
    if args.json {
        let texts = |grants: &[Grant]| grants.iter().map(ToString::to_string).collect::<Vec<_>>();
        let runs = candidate.runs().iter().map(|file| file.real.to_string_lossy().into_owned()).collect();
        let (description, not_described) = match &candidate.outcome {
            DescribeOutcome::Description(description) => (Some(Description::clone(description)), None),
            DescribeOutcome::Failed(reason) => (None, Some(reason.clone())),
            DescribeOutcome::NotAsked => (None, None),
        };
        output::json_line(&StrategyTrustReport {
            name: record.name.as_str().to_owned(),
            path: record.path,
            sha256: record.sha256,
            manifest: plugin.manifest().cloned(),
            description,
            not_described,
            runs,
            asked: texts(&grants::grants(&candidate.asked)),
            granted: texts(&granted),
            not_granted: texts(&missing),
            permissions: record.permissions,
            interpreter: record.interpreter.map(|path| path.to_string_lossy().into_owned()),
        })?;
        return Ok(Exit::Done);
    }
    let mut text = EscapedLines::for_consent();
    text.line(format_args!("strategy `{}` is trusted", record.name));
    prompt::add_facts(&candidate, &mut text);
    text.line(format_args!("  {:<8}  {}", "granted", prompt::permission_list(&granted)));
    if !missing.is_empty() {
        let command = candidate.command_with(&grants::add(record.permissions.clone(), &missing));
        let missing = grants::joined(&missing);
        text.line(format_args!("it also asks for {missing}, which is not granted; grant it with"));
        text.line(format_args!("  {command}"));
    }
    let fields = json!({ "name": record.name, "path": record.path, "sha256": record.sha256 });
    output::info("trusted", &fields, &text);
    Ok(Exit::Done)
}

/// Returns the typed grants. If none were typed, the user is asked for the permissions that the plugin requests.
fn typed_or_confirmed_grants(args: &Args, candidate: &Candidate) -> Result<Vec<Grant>, Report> {
    let questions = candidate.questions();
    if !args.grants.is_empty() || questions.is_empty() || args.json || !output::can_ask() {
        return Ok(args.grants.clone());
    }
    let mut text = EscapedLines::for_consent();
    text.line(format_args!("Strategy `{}` asks for permissions.", candidate.plugin.name));
    prompt::add_facts(candidate, &mut text);
    output::introduction("asks for permissions", &json!({ "name": candidate.plugin.name }), &text);
    let answer = prompt::read_answer("Grant them? [y/N] ")?;
    Ok(if prompt::is_yes(&answer) { questions } else { Vec::new() })
}

/// Lets the plugin describe itself in a jail, before the trust is recorded. The inner error is a failure of the plugin.
fn describe(
    args: &Args,
    candidate: &mut Candidate,
    registry: &Registry,
    trust: &Trust,
    environment: &Environment,
) -> Result<Result<(), StrategyRunError>, Report> {
    let private_bytes_max = config::load_private_bytes_max(environment, &[], &[])?;
    let preparation = Preparation {
        registry,
        trust,
        descriptions: &Descriptions::open(environment),
        starter: &Starter { private_bytes_max, ..Starter::new(registry.runner(), &environment.temp_dir) },
        sandbox: args.discovery.sandbox(),
        abilities: Abilities::detect_with_limits(environment),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(preparation.describe_candidate(candidate)))
}
