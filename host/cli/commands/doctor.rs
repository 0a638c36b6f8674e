//! `jp-compact doctor`: reports how this machine can confine strategies, which strategies are installed, and which
//! variables for model keys are set. It must not start a strategy or print a key.

use clap::Parser;
use jp_compact_engine::config;
use jp_compact_llm::{LlmOptions, Models, Settings};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Abilities;
use jp_compact_runtime::process::{self, DEPTH_MAX, ENTRIES_MAX, TASKS_MAX};
use jp_compact_schema::document::{DoctorFolder, DoctorLimits, DoctorReport, KeyReport, MissingReport};

use crate::args::StrategyArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;

/// Report how this machine confines strategies, and what is missing
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    discovery: StrategyArgs,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let registry = args.discovery.registry(environment)?;
    let abilities = Abilities::here(environment);
    let (tier, missing) = (abilities.tier(), abilities.missing());
    let bundled: Vec<_> = registry.plugins().iter().filter(|plugin| plugin.bundled()).collect();
    let models = Models::open(Settings::default(), &LlmOptions::default(), environment)?;
    let keys = models.key_variables();
    let private_bytes_max = config::private_bytes_max(environment, &[], &[])?;
    let are_bounded = process::are_bounded();
    if args.json {
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        output::json_line(&DoctorReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            tier: tier.to_string(),
            landlock: abilities.landlock,
            seccomp: abilities.seccomp,
            missing: missing
                .iter()
                .map(|lack| MissingReport { what: lack.what.into(), remedy: lack.remedy.into() })
                .collect(),
            limits: DoctorLimits {
                private_dir_bytes: private_bytes_max,
                private_dir_entries: ENTRIES_MAX,
                private_dir_depth: DEPTH_MAX as u64,
                threads: are_bounded.then_some(u64::from(TASKS_MAX)),
            },
            runner: text(registry.runner()),
            bundled: bundled.iter().map(|plugin| plugin.name.as_str().to_owned()).collect(),
            folders: registry
                .folders()
                .iter()
                .map(|found| DoctorFolder {
                    path: text(&found.path),
                    origin: found.origin.word().to_owned(),
                    is_there: found.path.is_dir(),
                })
                .collect(),
            keys: keys
                .into_iter()
                .map(|(provider, variable, is_set)| KeyReport { provider, variable, is_set })
                .collect(),
        })?;
        return Ok(Exit::Done);
    }
    let names: Vec<_> = bundled.iter().map(|plugin| plugin.name.as_str()).collect();
    let limits = format!(
        "512 MiB of memory, 64 open files of 64 MiB each; {private_bytes_max} bytes, {ENTRIES_MAX} files and \
         folders, {DEPTH_MAX} levels in the private directory"
    );
    let threads = if are_bounded {
        format!("at most {TASKS_MAX} for each strategy that is not bundled")
    } else {
        "not limited, because no control group is delegated to this user; `systemd-run --user --scope \
         --property=Delegate=yes jp-compact ...` starts jp-compact in one"
            .to_owned()
    };
    let mut text = EscapedLines::single(format_args!("jp-compact {}", env!("CARGO_PKG_VERSION")));
    let mut row = |label: &str, value: String| text.line(format_args!("  {label:<9} {value}"));
    row("jail", tier.to_string());
    for lack in &missing {
        row("missing", format!("{}: {}", lack.what, lack.remedy));
    }
    row("limits", limits);
    row("threads", threads);
    row("runner", registry.runner().display().to_string());
    row("bundled", names.join(", "));
    for folder in registry.folders() {
        let gone = if folder.path.is_dir() { "" } else { " (does not exist)" };
        row("searched", format!("{} ({}){gone}", folder.path.display(), folder.origin.word()));
    }
    for (_, name, is_set) in &keys {
        row("key", format!("{name} ({})", if *is_set { "set" } else { "not set" }));
    }
    output::text(&text)?;
    Ok(Exit::Done)
}
