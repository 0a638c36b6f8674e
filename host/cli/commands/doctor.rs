//! `jp-compact doctor`: reports how this machine can confine strategies. It lists the bundled strategies, the folders
//! that are searched for others, and the variables for model keys. It must not start a strategy or print a key.

use clap::Parser;
use jp_compact_config as config;
use jp_compact_llm::{LlmOptions, Models};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Abilities;
use jp_compact_runtime::process::{self, DEPTH_MAX, ENTRIES_MAX, TASKS_MAX};
use jp_compact_runtime::registry::Registry;
use jp_compact_schema::document::{DoctorFolder, DoctorLimits, DoctorReport, KeyReport, MissingReport};

use crate::args::StrategyArgs;
use crate::error::Report;
use crate::exit::Exit;
use crate::human::grouped;
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

/// The content of the report, as JSON or as text.
struct Facts<'a> {
    registry: &'a Registry,
    bundled: Vec<&'a str>,
    abilities: Abilities,
    private_bytes_max: u64,
    /// Whether the number of threads of a strategy is limited.
    threads_are_limited: bool,
    /// The variables for model keys: provider, name, and whether the variable is set.
    keys: Vec<(String, String, bool)>,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let registry = args.discovery.registry(environment)?;
    let abilities = Abilities::detect_with_limits(environment);
    let bundled = registry.plugins().iter().filter(|plugin| plugin.bundled());
    let models = Models::open(
        config::load_model_settings(environment, &[], &[])?,
        &LlmOptions::default(),
        environment,
    )?;
    let facts = Facts {
        registry: &registry,
        bundled: bundled.map(|plugin| plugin.name.as_str()).collect(),
        abilities,
        private_bytes_max: config::load_private_bytes_max(environment, &[], &[])?,
        threads_are_limited: process::are_bounded(),
        keys: models.key_variables(),
    };
    if args.json {
        output::json_line(&facts.document())?;
    } else {
        output::text(&facts.text())?;
    }
    Ok(Exit::Done)
}

impl Facts<'_> {
    fn document(&self) -> DoctorReport {
        let missing = self.abilities.missing().into_iter();
        let folders = self.registry.folders().iter().map(|folder| DoctorFolder {
            path: folder.path.to_string_lossy().into_owned(),
            origin: folder.origin.word().to_owned(),
            is_there: folder.path.is_dir(),
        });
        let keys = self.keys.iter().map(|(provider, variable, is_set)| KeyReport {
            provider: provider.clone(),
            variable: variable.clone(),
            is_set: *is_set,
        });
        DoctorReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            tier: self.abilities.tier().to_string(),
            landlock: self.abilities.landlock,
            seccomp: self.abilities.seccomp,
            missing: missing
                .map(|ability| MissingReport { feature: ability.what.into(), remedy: ability.remedy.into() })
                .collect(),
            limits: DoctorLimits {
                private_dir_bytes: self.private_bytes_max,
                private_dir_entries: ENTRIES_MAX,
                private_dir_depth: DEPTH_MAX as u64,
                threads: self.threads_are_limited.then_some(u64::from(TASKS_MAX)),
            },
            runner: self.registry.runner().to_string_lossy().into_owned(),
            bundled: self.bundled.iter().map(|name| (*name).to_owned()).collect(),
            folders: folders.collect(),
            keys: keys.collect(),
        }
    }

    fn text(&self) -> EscapedLines {
        let mut text = EscapedLines::single(format_args!("jp-compact {}", env!("CARGO_PKG_VERSION")));
        let mut row = |label: &str, value: String| text.line(format_args!("  {label:<9} {value}"));
        row("jail", self.abilities.tier().to_string());
        for ability in self.abilities.missing() {
            row("missing", format!("{}: {}", ability.what, ability.remedy));
        }
        row("limits", "512 MiB of memory, 64 open files, 64 MiB for each file".to_owned());
        row("limits", self.private_dir_limits());
        row("threads", self.thread_limit());
        row("runner", self.registry.runner().display().to_string());
        row("bundled", self.bundled.join(", "));
        for folder in self.registry.folders() {
            let note = if folder.path.is_dir() { "" } else { " (does not exist)" };
            row("searched", format!("{} ({}){note}", folder.path.display(), folder.origin.word()));
        }
        for (_, variable, is_set) in &self.keys {
            row("key", format!("{variable} ({})", if *is_set { "set" } else { "not set" }));
        }
        text
    }

    fn private_dir_limits(&self) -> String {
        let (bytes, entries) = (grouped(self.private_bytes_max), grouped(ENTRIES_MAX));
        format!("private directory: {bytes} bytes, {entries} files and folders, {DEPTH_MAX} levels")
    }

    fn thread_limit(&self) -> String {
        if self.threads_are_limited {
            return format!("at most {TASKS_MAX} for each strategy that is not bundled");
        }
        "not limited, because no control group is delegated to this user; `systemd-run --user --scope \
         --property=Delegate=yes jp-compact ...` starts jp-compact in one"
            .to_owned()
    }
}
