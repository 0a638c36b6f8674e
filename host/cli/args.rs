//! Command-line arguments that several commands share. This module only parses them; core and the engine interpret
//! them. It must not depend on a command.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ValueEnum};
use jiff::Timestamp;
use jp_compact_core::render::Provider;
use jp_compact_core::select::RequestedSelection;
use jp_compact_core::spec::Spec;
use jp_compact_core::{Bound, Overlap, bound};
use jp_compact_engine::compact::Sandbox;
use jp_compact_engine::plan::CommandLineChoice;
use jp_compact_llm::{self as llm, ModelName};
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::registry::{DiscoveryError, ExtraFolders, Registry};
use jp_compact_runtime::trust::{LockError, Trust, TrustOverrides};
use jp_compact_transcripts::Format;

use crate::tokens::TokenCounter;

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Verbosity {
    /// Show strategies' stderr; -vv also logs the host
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = "Global options")]
    pub(crate) verbose: u8,
    /// Print only errors
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Global options")]
    pub(crate) quiet: bool,
    /// Write stderr as text, or as one line of JSON for each message
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        value_name = "text|json",
        value_enum,
        default_value = "text",
        hide_possible_values = true
    )]
    pub(crate) log_format: LogFormat,
    /// Color the text for people
    ///
    /// `auto` colors text on a terminal. CLICOLOR_FORCE=1 also colors it without a terminal. NO_COLOR overrides both.
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        value_name = "auto|always|never",
        value_parser = ["auto", "always", "never"],
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: String,
}

/// The format of stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// The format of a transcript.
#[derive(Debug, Clone, Args)]
pub(crate) struct FormatArgs {
    /// Read the transcript in this format [default: detected]
    ///
    /// A file named events.json is read in JP's format, unless you name another format.
    #[arg(long, value_name = "FORMAT", value_parser = format_parser(), help_heading = "Input and output")]
    pub(crate) format: Option<Format>,
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::as_str)).try_map(|name| name.parse())
}

/// The token counter.
#[derive(Debug, Clone, Args)]
pub(crate) struct TokenArgs {
    /// Estimate tokens from pieces of text, or count them with o200k
    #[arg(
        long,
        help_heading = "Input and output",
        value_name = "estimate|exact",
        value_enum,
        default_value = "estimate",
        hide_possible_values = true
    )]
    pub(crate) tokens: TokenCounter,
}

/// The strategies to run, instead of the configured ones.
#[derive(Debug, Args)]
pub(crate) struct StrategyChoiceArgs {
    /// Run this strategy; repeat the option for several
    ///
    /// A path contains a `/`, such as ./strip-all. Options follow a colon: NAME:key=value,key=value or NAME:{"key":...}
    /// or NAME:@FILE. [default: the strategies of the profile]
    #[arg(help_heading = "Selection", short, long = "strategy", value_name = "NAME|PATH[:OPTIONS]")]
    pub(crate) strategies: Vec<Spec>,
    /// Run this profile [default: as configured, else `default`]
    ///
    /// `jp-compact config` lists the profiles.
    #[arg(help_heading = "Selection", short, long, value_name = "NAME", conflicts_with = "strategies")]
    profile: Option<String>,
}

/// Returns the strategies and turns that the user typed. `inline` is the value of `--compact`.
pub(crate) fn typed_options<'a>(
    choice: &'a StrategyChoiceArgs,
    selection: RequestedSelection,
    inline: Option<&'a str>,
) -> CommandLineChoice<'a> {
    CommandLineChoice {
        strategies: &choice.strategies,
        profile: choice.profile.as_deref(),
        inline,
        selection,
    }
}

/// Options of all commands that compact.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) input: FormatArgs,
    /// Run the strategies, but append nothing and call no model
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Print one line of JSON for each transcript on stdout
    #[arg(long, help_heading = "Input and output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) discovery: StrategyArgs,
    #[command(flatten)]
    pub(crate) configured: ConfigArgs,
    #[command(flatten)]
    pub(crate) models: ModelArgs,
    /// Name what a summary must preserve
    ///
    /// Sets the option `focus` of every strategy that has one.
    #[arg(long, help_heading = "Strategies", value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) focus: Option<String>,
    /// Extend the range of a new summary over overlapping older ones
    ///
    /// `partial` extends it over summaries that it overlaps in part, `union` over every summary that it overlaps.
    /// [default: as configured, else partial]
    #[arg(long, help_heading = "Strategies", value_name = "partial|union")]
    pub(crate) overlap: Option<Overlap>,
    /// Limit the time of one request to a strategy
    ///
    /// [default: the manifest's, else 60s] A limit of more than 2 s is also the limit of `describe`.
    #[arg(long, help_heading = "Strategies", value_name = "DURATION", value_parser = deadline)]
    pub(crate) deadline: Option<Duration>,
    /// Wait this long for the lock of a conversation
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) lock_timeout: Duration,
    /// Also validate the result against this provider's rules
    ///
    /// `jp-compact lint` lists the violations of a transcript.
    #[arg(long, help_heading = "Validation", value_name = "PROVIDER", value_parser = providers())]
    pub(crate) provider: Option<Providers>,
    /// Append overlays even if the view then violates a rule
    #[arg(long, help_heading = "Validation")]
    pub(crate) allow_invalid: bool,
    /// Refuse a result that loses a constraint of the user
    ///
    /// A constraint is a sentence of the user with never, always, must, don't, do not, only, or from now on. It is kept
    /// if one event of the view has the whole sentence. The exit code of a refused result is 3.
    #[arg(long, help_heading = "Validation")]
    pub(crate) require_constraints: bool,
    #[command(flatten)]
    pub(crate) counting: TokenArgs,
    /// Read the prices of cached input from FILE
    ///
    /// A dry run, `auto`, and `query` report what a compaction costs in the provider's prompt cache.
    /// docs/reference/evidence.md describes the file.
    #[arg(long, help_heading = "Input and output", value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Use the prices of the provider's longer cache
    ///
    /// For example Anthropic's cache of one hour. A token written to it costs 2.0 input tokens, instead of 1.25.
    #[arg(long, help_heading = "Input and output")]
    pub(crate) long_cache: bool,
    /// Use this time instead of the system clock
    ///
    /// New overlays get this timestamp, or a later one if an existing overlay is newer. Bounds such as `5h` count back
    /// from it.
    #[arg(long, help_heading = "Input and output", value_name = "RFC3339")]
    pub(crate) now: Option<Timestamp>,
}

/// Configuration from the command line. It overrides every file.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigArgs {
    /// Read another configuration file; it overrides the other files
    #[arg(long = "config", help_heading = "Configuration", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Set one configuration key
    ///
    /// For example: conversation.compaction.keep_last=5. A VALUE that is not TOML is read as a string.
    #[arg(long = "set", help_heading = "Configuration", value_name = "KEY=VALUE", visible_alias = "cfg")]
    pub(crate) sets: Vec<String>,
}

/// Models for the strategies that need one, and their budget.
#[derive(Debug, Clone, Args)]
pub(crate) struct ModelArgs {
    /// Call this model instead of the configured one
    ///
    /// It also replaces the model of the conversation.
    #[arg(long, help_heading = "Models", value_name = "PROVIDER/NAME")]
    model: Option<ModelName>,
    /// Limit the input and output tokens of models in this run
    ///
    /// A run is one command, such as a whole batch, or all calls of one MCP server. [default: as configured, else
    /// 2000000]
    #[arg(long, help_heading = "Models", value_name = "N")]
    llm_budget_tokens: Option<u64>,
    /// Limit the number of requests to models in this run
    ///
    /// [default: as configured, else 500]
    #[arg(long, help_heading = "Models", value_name = "N")]
    llm_budget_requests: Option<u64>,
    /// Assume a context window of N tokens
    ///
    /// `auto` compares the conversation with this window. The input and the output of each request to a model together
    /// fit into this window, or into the model's own window if that is smaller. [default: the window of --model, else
    /// of the conversation's model, else of the configured model]
    #[arg(long, help_heading = "Models", value_name = "N")]
    pub(crate) context_window: Option<u64>,
    /// Do not reuse or store models' notes on parts of a conversation
    #[arg(long, help_heading = "Models")]
    no_notes: bool,
    /// Record the answers of models in FILE, by request hash
    #[arg(long, help_heading = "Models", value_name = "FILE", conflicts_with = "llm_replay")]
    llm_record: Option<PathBuf>,
    /// Replay the answers that --llm-record wrote, and call no model
    #[arg(long, help_heading = "Models", value_name = "FILE", conflicts_with_all = ["llm_budget_tokens", "llm_budget_requests"])]
    llm_replay: Option<PathBuf>,
}

impl ModelArgs {
    /// Returns the arguments with the recorded answers of this file.
    pub(crate) fn with_answers(&self, file: PathBuf) -> Self {
        Self { llm_record: None, llm_replay: Some(file), ..self.clone() }
    }

    /// Opens the models with these arguments. The settings apply where an argument is missing.
    pub(crate) fn open(
        &self,
        settings: llm::Settings,
        environment: &Environment,
    ) -> Result<llm::Models, llm::RecordingError> {
        let options = llm::LlmOptions {
            model: self.model.clone(),
            budget_tokens: self.llm_budget_tokens,
            budget_requests: self.llm_budget_requests,
            record: self.llm_record.clone(),
            replay: self.llm_replay.clone(),
            context_window: self.context_window,
            no_notes: self.no_notes,
        };
        llm::Models::open(settings, &options, environment)
    }
}

/// The folders, trust, and confinement of strategies.
#[derive(Debug, Clone, Args)]
pub(crate) struct StrategyArgs {
    /// Search another folder for strategies
    ///
    /// A strategy is an executable or a shared library, named after its file stem, or a folder with a plugin.toml.
    #[arg(long = "plugin-dir", help_heading = "Strategies", value_name = "DIR")]
    plugin_dirs: Vec<PathBuf>,
    /// Like --plugin-dir, but also trust its contents
    ///
    /// It also grants the permissions that the plugins request. Use it only for directories that you built yourself.
    #[arg(long = "trust-dir", help_heading = "Strategies", value_name = "DIR")]
    trust_dirs: Vec<PathBuf>,
    /// Trust the plugins that this lock file lists
    ///
    /// `jp-compact strategy trust --trust-lock FILE` writes it. You can commit it.
    #[arg(long, help_heading = "Strategies", value_name = "FILE")]
    trust_lock: Option<PathBuf>,
    /// Require a jail, or run strategies with your permissions
    ///
    /// `require` runs strategies only in a jail. `contained` runs them with your permissions. Without this option,
    /// strategies run in a jail; on a machine that has none, bundled strategies run with your permissions, and other
    /// strategies do not run.
    #[arg(long, help_heading = "Strategies", value_name = "MODE", value_enum)]
    sandbox: Option<SandboxArg>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SandboxArg {
    Require,
    Contained,
}

impl StrategyArgs {
    /// Finds the strategies.
    pub(crate) fn registry(&self, environment: &Environment) -> Result<Registry, DiscoveryError> {
        let folders = ExtraFolders { trust_dirs: &self.trust_dirs, plugin_dirs: &self.plugin_dirs };
        Registry::discover(environment, &folders)
    }

    /// Opens the trust records.
    pub(crate) fn trust(&self, environment: &Environment) -> Result<Trust, LockError> {
        Trust::open(environment, &TrustOverrides { lock: self.trust_lock.as_deref(), dirs: &self.trust_dirs })
    }

    pub(crate) fn sandbox(&self) -> Sandbox {
        match self.sandbox {
            None => Sandbox::Unspecified,
            Some(SandboxArg::Require) => Sandbox::Require,
            Some(SandboxArg::Contained) => Sandbox::Contained,
        }
    }
}

/// One provider, or all.
#[derive(Debug, Clone)]
pub(crate) struct Providers(pub(crate) Vec<Provider>);

/// Returns a parser for the name of a provider, or `all`.
pub(crate) fn providers() -> impl TypedValueParser<Value = Providers> {
    let names = Provider::ALL.map(Provider::as_str).into_iter().chain(["all"]);
    PossibleValuesParser::new(names).try_map(|text| match text.as_str() {
        "all" => Ok(Providers(Provider::ALL.to_vec())),
        name => name.parse().map(|provider| Providers(vec![provider])),
    })
}

/// Parses the value of `--from`. The option may have no value, so clap may take the next argument, such as the
/// conversation, for the value.
pub(crate) fn parse_from(text: &str) -> Result<Bound, String> {
    text.parse().map_err(|error| {
        format!("{error}\n\nhint: if `{text}` is the conversation, write `--from last {text}`")
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = bound::duration(text).and_then(|duration| Duration::try_from(duration).ok());
    duration.ok_or_else(|| "expected a duration such as 90s or 5m".into())
}

pub(crate) fn deadline(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("expected a duration longer than 0s, such as 90s or 5m".into()),
        duration => Ok(duration),
    }
}
