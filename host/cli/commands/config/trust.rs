//! `jp-compact config trust`: approves settings that are not the user's own and that select a model, its prompt, or a
//! strategy with network access. The approval must cover exactly the shown values.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use jp_compact_config::call::Call;
use jp_compact_config::{self as config, Config, ForeignValue, JpSettings};
use jp_compact_engine::compact::{self, Opened, Preparation};
use jp_compact_engine::consent::Approvals;
use jp_compact_runtime::describe_cache::Descriptions;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Abilities;
use jp_compact_runtime::session::Starter;
use jp_compact_runtime::trust::quoted;
use jp_compact_schema::document::{
    ApprovalEntry, ApprovalsReport, ApprovedFolder, ApprovedValue, ConfigTrustReport, ValueRow,
};
use jp_compact_store::{self as store, StoreError};
use serde_json::json;

use super::approvals::approvals_report;
use crate::args::{ConfigArgs, StrategyArgs};
use crate::error::Report;
use crate::exit::Exit;
use crate::interrupt::until_interrupted;
use crate::lines::EscapedLines;
use crate::{output, prompt};

/// Approve the model settings of a folder
///
/// Some settings select a model or its prompt: profiles, providers, models, instructions. Others select a strategy that may use the network. If they come from a repository's .jp-compact.toml, from JP's files, or from a transcript, no model is called with them, and no such strategy runs, until you approve them. This command shows these settings and approves exactly the shown values. A changed value must be approved again.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact config trust\n  jp-compact config trust ~/project --yes\n  jp-compact config trust --list"
)]
pub(crate) struct Args {
    /// A folder in the workspace, or a conversation
    ///
    /// For a conversation, the settings of its own files are approved, too.
    #[arg(value_name = "DIR", default_value = ".")]
    path: OsString,
    /// Approve without asking, for CI
    #[arg(short, long)]
    yes: bool,
    /// List the folders with approvals
    #[arg(long, conflicts_with_all = ["path", "yes"])]
    list: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    discovery: StrategyArgs,
    #[command(flatten)]
    configured: ConfigArgs,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let approvals = Approvals::open(environment);
    if args.list {
        return list(args, &approvals);
    }
    let target = Target::find(&args.path, environment)?;
    let config = target.config(args)?;
    let mut document = ConfigTrustReport { approved: Vec::new(), new: false };
    let mut result = format!(
        "nothing to approve: no setting of a file in {} selects a model, its prompt, or a strategy that may use the \
         network",
        target.path.display()
    );
    if let Some((folder, values)) = foreign_values(args, &target, &config)? {
        document.approved.push(values_document(&folder, &values));
        document.new = !are_approved(&approvals, &folder, &values)?;
        if !args.json {
            let mut text = values_text(&folder, &values);
            text.line(default_model(&config));
            let fields = json!({ "folder": document.approved[0] });
            if args.yes || !document.new {
                output::info("settings", &fields, &text);
            } else {
                output::introduction("settings", &fields, &text);
            }
        }
        result = "already approved".to_owned();
        if document.new {
            confirm(args, &target.path)?;
            approvals.approve(&folder, &values).map_err(approvals_report)?;
            let folder = quoted(&folder);
            result = format!("approved; `jp-compact config untrust {folder}` withdraws the approval");
        }
    }
    if args.json {
        output::json_line(&document)?;
    } else {
        output::info("approved", &json!({ "report": document }), &EscapedLines::single(result));
    }
    Ok(Exit::Done)
}

/// Returns the values that are not the user's own, and the folder that they are approved for.
fn foreign_values(
    args: &Args,
    target: &Target,
    config: &Config,
) -> Result<Option<(PathBuf, Vec<ForeignValue>)>, Report> {
    let needs_consent = strategies_with_consent(args, config, &target.environment)?;
    let mut values = config.foreign(|call| needs_consent.get(&call.strategy).copied().unwrap_or(true));
    values.retain(|value| target.has_effect(config, value));
    let folder = target.approval_folder(config).filter(|_| !values.is_empty());
    Ok(folder.map(|folder| (folder.to_owned(), values)))
}

fn are_approved(approvals: &Approvals, folder: &Path, values: &[ForeignValue]) -> Result<bool, Report> {
    for value in values {
        if !approvals.covers(folder, &value.decision).map_err(approvals_report)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The folder or conversation to approve.
struct Target {
    path: PathBuf,
    /// `None` for a folder.
    conversation: Option<Opened>,
    /// If the target is a folder with its own configuration, that folder is the current folder of this environment.
    environment: Environment,
}

impl Target {
    fn find(path: &OsString, environment: &Environment) -> Result<Self, Report> {
        let target = environment.cwd.join(path);
        let target = target.canonicalize().unwrap_or(target);
        let inside = Environment { cwd: target.clone(), ..environment.clone() };
        if target.is_dir() && matches!(store::locate(path, environment), Err(StoreError::NoEvents { .. })) {
            return Ok(Self { path: target, conversation: None, environment: inside });
        }
        let has_config = target.is_dir() && config::scope(&inside, None).root() == Some(&*target);
        let conversation = compact::open(path, environment)?;
        let environment = if has_config { inside } else { environment.clone() };
        // An id is not a path, so the folder of the conversation is the target.
        let folder = conversation.place.path().parent().map(Path::to_path_buf);
        let target = if target.exists() { target } else { folder.unwrap_or(target) };
        Ok(Self { path: target, conversation: Some(conversation), environment })
    }

    fn config(&self, args: &Args) -> Result<Config, Report> {
        let place = self.conversation.as_ref().map(|conversation| &conversation.place);
        let stream = self.conversation.as_ref().map(|conversation| conversation.stream.stream());
        let jp = JpSettings::read(&self.environment, place, stream);
        Ok(config::load(&self.environment, place, &args.configured.files, &args.configured.sets, jp)?)
    }

    /// Returns the folder that all values are approved for.
    fn approval_folder<'a>(&self, config: &'a Config) -> Option<&'a Path> {
        match self.conversation {
            Some(_) => config.scope().approval_folder(),
            None => config.scope().root(),
        }
    }

    /// Returns whether a value has an effect here.
    fn has_effect(&self, config: &Config, value: &ForeignValue) -> bool {
        self.conversation.is_none() || config.scope().folder_to_approve(&value.origin).is_some()
    }
}

/// Maps each strategy of the profiles to whether it asks a model or may use the network. If a strategy cannot describe
/// itself, the value is true.
fn strategies_with_consent(
    args: &Args,
    config: &Config,
    environment: &Environment,
) -> Result<BTreeMap<String, bool>, Report> {
    let registry = args.discovery.registry(environment)?;
    let trust = args.discovery.trust(environment)?;
    let (files, sets) = (&args.configured.files, &args.configured.sets);
    let private_bytes_max = config::load_private_bytes_max(environment, files, sets)?;
    let preparation = Preparation {
        registry: &registry,
        trust: &trust,
        descriptions: &Descriptions::open(environment),
        starter: &Starter { private_bytes_max, ..Starter::new(registry.runner(), &environment.temp_dir) },
        sandbox: args.discovery.sandbox(),
        abilities: Abilities::detect_with_limits(environment),
    };
    let calls: Vec<&Call> = config.profiles.values().flat_map(|profile| &profile.calls).collect();
    until_interrupted(async {
        let mut needs_consent = BTreeMap::new();
        for call in calls {
            if needs_consent.contains_key(&call.strategy) {
                continue;
            }
            let described = match registry.find_to_run(&call.strategy, |plugin| trust.is_trusted(plugin)) {
                Ok(plugin) => preparation.describe(&plugin).await.ok(),
                Err(_) => None,
            };
            let needs = described.is_none_or(|described| compact::needs_consent(&described));
            needs_consent.insert(call.strategy.clone(), needs);
        }
        Ok(needs_consent)
    })
}

/// Asks the user for the approval, unless `--yes` gives it.
fn confirm(args: &Args, target: &Path) -> Result<(), Report> {
    if args.yes {
        return Ok(());
    }
    let hint = format!(
        "review the settings, then approve them with `jp-compact config trust {} --yes`",
        quoted(target)
    );
    let not_approved = |reason: &str| {
        Err(Report::new(Exit::NotTrusted, format!("nothing was approved: {reason}"), Some(&hint)))
    };
    if !output::can_ask() {
        return not_approved("stdin is not a terminal");
    }
    let answer = prompt::read_answer("Approve these settings? [y/N] ")?;
    if prompt::is_yes(&answer) { Ok(()) } else { not_approved("the answer was not yes") }
}

fn list(args: &Args, approvals: &Approvals) -> Result<Exit, Report> {
    let all = approvals.all().map_err(approvals_report)?;
    if args.json {
        let entries = all
            .into_iter()
            .map(|approval| ApprovalEntry { path: approval.path, sha256: approval.sha256 })
            .collect();
        output::json_line(&ApprovalsReport { approved: entries })?;
    } else {
        let mut text = EscapedLines::new();
        all.iter().for_each(|approval| text.line(&approval.path));
        output::text(&text)?;
    }
    Ok(Exit::Done)
}

/// Names the model of the settings that do not name one.
fn default_model(config: &Config) -> String {
    match config.configured_model().filter(|configured| configured.foreign.is_none()) {
        Some(configured) => {
            format!("  A setting without a model uses `{}`, from your own configuration.", configured.model)
        }
        None => "  A setting without a model uses the model of your command line or configuration.".into(),
    }
}

fn values_document(folder: &Path, values: &[ForeignValue]) -> ApprovedFolder {
    let values = values.iter().map(|value| ApprovedValue {
        origin: value.origin.to_string(),
        rows: value.decision.rows().into_iter().map(|(label, text)| ValueRow { label, text }).collect(),
        sha256: value.decision.sha256(),
    });
    ApprovedFolder { path: folder.to_string_lossy().into_owned(), values: values.collect() }
}

/// Returns the complete values. A truncated line would hide a part of the approved text.
fn values_text(folder: &Path, values: &[ForeignValue]) -> EscapedLines {
    /// The maximum number of characters in a line. Even a line whose characters are all escaped is not truncated.
    const CHARS_MAX: usize = 160;
    let mut text = EscapedLines::for_consent();
    text.line(format_args!("For conversations in {}:", folder.display()));
    for value in values {
        text.line(format_args!("  {value}"));
        for (label, content) in value.decision.rows() {
            let is_short = !content.contains('\n') && content.chars().count() <= CHARS_MAX;
            if is_short {
                text.line(format_args!("    {label:<12}  {content}"));
                continue;
            }
            text.line(format_args!("    {label}"));
            for line in content.lines() {
                let characters: Vec<char> = line.chars().collect();
                let pieces: Vec<_> = characters.chunks(CHARS_MAX).map(String::from_iter).collect();
                text.quote("      ", &pieces.join("\n"));
            }
        }
    }
    text
}
