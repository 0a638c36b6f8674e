//! The command line. What a flag means to the domain is decided in core; here is only its spelling.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use jiff::Timestamp;
use jp_compact_core::formats::Format;
use jp_compact_core::render::Provider;
use jp_compact_core::spec::Spec;
use jp_compact_core::{Bound, Overlap, bound};
use jp_compact_engine::compact::Sandbox;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::Failure;
use jp_compact_engine::llm::{self, ModelName};
use jp_compact_engine::registry::{Registry, Wanted};
use jp_compact_engine::trust::{Trust, Word};

use crate::commands::{
    auto, batch, completions, config, doctor, fork, import, lint, man, mcp, print, query, schema, show,
    stats, strategy,
};
use crate::tokens::Tokens;

const EXAMPLES: &str = "\
Examples:
  jp-compact .jp/conversations/17738399468-review
      strips reasoning and tool calls, but for the last 3 turns
  jp-compact 17738399468 --strategy strip-tools:mode=omit --keep-last 1 --dry-run
  jp-compact print 17738399468 --compacted
      shows what a model is sent
  jp-compact 17738399468 --reset
      removes every overlay again";

/// Compact conversations with language models without destroying anything.
///
/// Appends overlays to a conversation: a model is sent less, and history stays as it is, byte for byte.
#[derive(Debug, Parser)]
#[command(
    name = "jp-compact",
    version,
    about,
    override_usage = "jp-compact [OPTIONS] <TRANSCRIPT>...\n       jp-compact <COMMAND>",
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\nExit codes:\n{}", crate::exit::table()),
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) compact: Compact,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

impl Cli {
    /// Reads a command line.
    ///
    /// # Errors
    /// A wrong one, or a text that was asked for.
    pub(crate) fn read(line: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches_from(line)?;
        if let Some(command) = matches.subcommand_name() {
            let own = Self::command();
            let stray = own.get_arguments().map(|argument| argument.get_id().as_str()).find(|id| {
                !["verbose", "quiet", "log_format"].contains(id)
                    && matches.value_source(id) == Some(ValueSource::CommandLine)
            });
            if let Some(stray) = stray {
                let what = stray.replace('_', "-");
                let message = format!(
                    "`{command}` is a command, and what stands before it ({what}) is not of that command\n\n\
                     hint: flags of a command follow it; a transcript that is called so is given as `./{command}`"
                );
                return Err(Self::command().error(ErrorKind::ArgumentConflict, message));
            }
        }
        Self::from_arg_matches(&matches)
    }
}

/// How much is said.
#[derive(Debug, Args)]
pub(crate) struct Verbosity {
    /// Say more on stderr: what strategies write there; twice, what the host does
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// What stderr is written in: text for people, or one line of JSON for each message
    #[arg(
        long,
        global = true,
        value_name = "text|json",
        value_enum,
        default_value = "text",
        hide_possible_values = true
    )]
    pub(crate) log_format: LogFormat,
}

/// What stderr is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Auto(Box<auto::Args>),
    Batch(Box<batch::Args>),
    Fork(Box<fork::Args>),
    Import(import::Args),
    Print(print::Args),
    Query(Box<query::Args>),
    Show(show::Args),
    Stats(stats::Args),
    Lint(lint::Args),
    Mcp(Box<mcp::Args>),
    Strategy(strategy::Args),
    Config(config::Args),
    Doctor(doctor::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// What compacts.
#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// A conversation folder, an events.json, a conversation's id, or another agent's transcript
    #[arg(value_name = "TRANSCRIPT")]
    pub(crate) transcripts: Vec<OsString>,
    /// A strategy to run, in the order given [default: those of the default profile]
    ///
    /// A path has a `/` in it, such as ./strip-all. Options follow a colon: NAME:key=value,key=value or NAME:{"key":...} or NAME:@FILE.
    #[arg(short, long = "strategy", value_name = "NAME|PATH[:OPTIONS]")]
    pub(crate) strategies: Vec<Spec>,
    /// The profile to run, as `jp-compact config` lists them [default: as configured, else `default`]
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["strategies", "compact"])]
    pub(crate) profile: Option<String>,
    /// A profile, or JP's inline form, whose turns count from 1: s:..-3, r+t, t=sreq:5..-3
    #[arg(long, value_name = "PROFILE|SPEC", num_args = 0..=1, require_equals = true, default_missing_value = "", hide_default_value = true, conflicts_with = "strategies")]
    pub(crate) compact: Option<String>,
    /// First turn: a number from 0, -N from the end, a time ago (5h), or `last` [default: 0]
    ///
    /// `last` is the turn after the newest compaction, and what --from means without a value.
    #[arg(long, value_name = "BOUND", num_args = 0..=1, default_missing_value = "last", value_parser = from_bound, allow_negative_numbers = true, conflicts_with = "keep_first")]
    pub(crate) from: Option<Bound>,
    /// Last turn, included: as --from
    #[arg(long, value_name = "BOUND", allow_negative_numbers = true, conflicts_with = "keep_last")]
    pub(crate) to: Option<Bound>,
    /// Keep the first N turns as they are [default: as configured, else 0]
    #[arg(long, value_name = "N")]
    pub(crate) keep_first: Option<usize>,
    /// Keep the last N turns as they are [default: as configured, else 3]
    #[arg(long, value_name = "N", visible_alias = "keep")]
    pub(crate) keep_last: Option<usize>,
    /// Remove every overlay, or the Nth as `show` lists it
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "all", value_parser = reset_number, conflicts_with_all = ["strategies", "profile", "compact", "from", "to", "keep_first", "keep_last", "focus", "model", "provider"])]
    pub(crate) reset: Option<ResetNumber>,
    #[command(flatten)]
    pub(crate) running: Running,
}

/// In which form a transcript is written.
#[derive(Debug, Clone, Args)]
pub(crate) struct Written {
    /// The transcript's format [default: what it looks like; an events.json is JP's]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub(crate) format: Option<Format>,
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::as_str)).try_map(|name| name.parse())
}

impl Compact {
    /// What a profile does, to nothing yet.
    pub(crate) fn of(running: Running) -> Self {
        Self {
            transcripts: Vec::new(),
            strategies: Vec::new(),
            profile: None,
            compact: None,
            from: None,
            to: None,
            keep_first: None,
            keep_last: None,
            reset: None,
            running,
        }
    }
}

/// How tokens are counted.
#[derive(Debug, Clone, Args)]
pub(crate) struct Counting {
    /// How tokens are counted: characters / 4 by content type, or exactly, as o200k has them
    #[arg(
        long,
        value_name = "estimate|exact",
        value_enum,
        default_value = "estimate",
        hide_possible_values = true
    )]
    pub(crate) tokens: Tokens,
}

/// How transcripts are compacted, whichever command does it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Running {
    #[command(flatten)]
    pub(crate) written: Written,
    /// Run the strategies, append nothing; no model is asked
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Print one line of JSON for each transcript on stdout
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) discovery: Discovery,
    #[command(flatten)]
    pub(crate) configured: Configured,
    #[command(flatten)]
    pub(crate) models: Models,
    /// What a summary is to pay attention to: the option `focus` of every strategy that has one
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) focus: Option<String>,
    /// Which older summaries extend the range of a new one [default: as configured, else partial]
    #[arg(long, value_name = "partial|union")]
    pub(crate) overlap: Option<Overlap>,
    /// How long a strategy may take for one request [default: what its manifest says, else 60s]
    #[arg(long, value_name = "DURATION", value_parser = deadline)]
    pub(crate) deadline: Option<Duration>,
    /// How long to wait for a conversation that somebody else has locked
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) lock_timeout: Duration,
    /// Whose own rules decide too whether the view stays valid: as of `lint`
    #[arg(long, value_name = "PROVIDER", value_parser = providers())]
    pub(crate) provider: Option<Providers>,
    /// Append even what makes the view break a rule that it keeps
    #[arg(long)]
    pub(crate) allow_invalid: bool,
    #[command(flatten)]
    pub(crate) counting: Counting,
    /// The time that stamps overlays and that durations count from, instead of the clock's
    #[arg(long, value_name = "RFC3339")]
    pub(crate) now: Option<Timestamp>,
}

/// What is configured on the command line, on top of the files.
#[derive(Debug, Clone, Args)]
pub(crate) struct Configured {
    /// Another configuration file, on top of the user's and the workspace's
    #[arg(long = "config", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A value, on top of every file: conversation.compaction.keep_last=5
    ///
    /// The value is TOML, or else a text.
    #[arg(long = "set", value_name = "KEY=VALUE", visible_alias = "cfg")]
    pub(crate) sets: Vec<String>,
}

/// Which model strategies ask that need one.
#[derive(Debug, Clone, Args)]
pub(crate) struct Models {
    /// The model that is asked, in place of the configured one and of the conversation's own
    #[arg(long, value_name = "PROVIDER/NAME")]
    model: Option<ModelName>,
    /// The most tokens that models may read and write in this run [default: as configured, else 2000000]
    ///
    /// A run is everything that one command does: a whole batch, and all calls of a server.
    #[arg(long, value_name = "N")]
    llm_budget_tokens: Option<u64>,
    /// The most requests that models may be sent in this run [default: as configured, else 500]
    #[arg(long, value_name = "N")]
    llm_budget_requests: Option<u64>,
    /// Write models' answers to FILE, by the hash of their requests
    #[arg(long, value_name = "FILE", conflicts_with = "llm_replay")]
    llm_record: Option<PathBuf>,
    /// Take models' answers from FILE, which --llm-record wrote, and ask nobody
    #[arg(long, value_name = "FILE", conflicts_with_all = ["llm_budget_tokens", "llm_budget_requests"])]
    llm_replay: Option<PathBuf>,
}

impl Models {
    /// The models that there are.
    pub(crate) fn open(
        &self,
        settings: llm::Settings,
        environment: &Environment,
    ) -> Result<llm::Models, Failure> {
        let wishes = llm::Wishes {
            model: self.model.clone(),
            budget_tokens: self.llm_budget_tokens,
            budget_requests: self.llm_budget_requests,
            record: self.llm_record.clone(),
            replay: self.llm_replay.clone(),
        };
        llm::Models::open(settings, &wishes, environment).map_err(Failure::Record)
    }
}

/// Where strategies are, and how far they are trusted.
#[derive(Debug, Clone, Args)]
pub(crate) struct Discovery {
    /// Another folder with strategies: executables, named by their files' stems, or folders with a plugin.toml
    #[arg(long = "plugin-dir", value_name = "DIR")]
    plugin_dirs: Vec<PathBuf>,
    /// As --plugin-dir, and trust what is in it: for whoever built it himself
    #[arg(long = "trust-dir", value_name = "DIR")]
    trust_dirs: Vec<PathBuf>,
    /// Trust what this file says: `strategy trust` writes it, and it can be committed
    #[arg(long, value_name = "FILE")]
    trust_lock: Option<PathBuf>,
    /// Whether strategies need a jail: `require` one, or run them `contained`, with your permissions
    ///
    /// Without this all run in a jail. Where the machine has none, bundled strategies run contained, others not.
    #[arg(long, value_name = "WHICH", value_enum)]
    sandbox: Option<SandboxWord>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SandboxWord {
    Require,
    Contained,
}

impl Discovery {
    /// The strategies that there are.
    pub(crate) fn registry(&self, environment: &Environment) -> Result<Registry, Failure> {
        let wanted = Wanted { trust_dirs: &self.trust_dirs, plugin_dirs: &self.plugin_dirs };
        Registry::discover(environment, &wanted)
    }

    /// What is trusted.
    pub(crate) fn trust(&self, environment: &Environment) -> Result<Trust, Failure> {
        Trust::open(environment, &Word { lock: self.trust_lock.as_deref(), dirs: &self.trust_dirs })
    }

    /// What was said about jails.
    pub(crate) fn sandbox(&self) -> Sandbox {
        match self.sandbox {
            None => Sandbox::Unsaid,
            Some(SandboxWord::Require) => Sandbox::Require,
            Some(SandboxWord::Contained) => Sandbox::Contained,
        }
    }
}

/// The providers that one word means.
#[derive(Debug, Clone)]
pub(crate) struct Providers(pub(crate) Vec<Provider>);

/// Reads the name of a provider, or `all`.
pub(crate) fn providers() -> impl TypedValueParser<Value = Providers> {
    let names = Provider::ALL.map(Provider::as_str).into_iter().chain(["all"]);
    PossibleValuesParser::new(names).try_map(|text| match text.as_str() {
        "all" => Ok(Providers(Provider::ALL.to_vec())),
        name => name.parse().map(|provider| Providers(vec![provider])),
    })
}

/// Which overlays `--reset` means.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ResetNumber {
    All,
    One(usize),
}

fn reset_number(text: &str) -> Result<ResetNumber, String> {
    match text.parse() {
        _ if text == "all" => Ok(ResetNumber::All),
        Ok(number) if number > 0 => Ok(ResetNumber::One(number)),
        _ => Err("overlays are numbered from 1; without a number all are removed".into()),
    }
}

pub(crate) fn from_bound(text: &str) -> Result<Bound, String> {
    text.parse().map_err(|error| format!("{error}\n\nhint: `--from last {text}` if that is the conversation"))
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = bound::duration(text).and_then(|duration| Duration::try_from(duration).ok());
    duration.ok_or_else(|| "expected a duration such as 90s or 5m".into())
}

pub(crate) fn deadline(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("expected a duration such as 90s or 5m".into()),
        duration => Ok(duration),
    }
}
