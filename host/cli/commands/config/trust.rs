//! `jp-compact config trust`: approves configured values that lead to a model and are not the user's own. The approval
//! must cover exactly the values that were shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use jp_compact_core::call::Call;
use jp_compact_engine::compact::{self as pipeline, Opened, Preparation};
use jp_compact_engine::config::{self, Config, Foreign, JpOwn};
use jp_compact_engine::consent::{self, Approvals};
use jp_compact_runtime::describe_cache::Descriptions;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::Abilities;
use jp_compact_runtime::session::Starter;
use jp_compact_runtime::trust::quoted;
use jp_compact_schema::document::{
    self, ApprovalsReport, ApprovedFolder, ApprovedValue, ConfigTrustReport, ValueRow,
};
use serde_json::json;

use super::approvals::failed;
use crate::args::{ConfigArgs, StrategyArgs};
use crate::error::Report;
use crate::exit::Exit;
use crate::interrupt::until_interrupted;
use crate::lines::EscapedLines;
use crate::{output, prompt};

/// Approve the model settings of a folder
///
/// The .jp-compact.toml of a repository, JP's files and a transcript may lead to a model only after you approve them. This command shows all of these settings: profiles, providers, models, instructions. It approves exactly these; any change ends the approval.
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
    let asks = asks(args, &config, &target.environment)?;
    let mut by_folder: BTreeMap<PathBuf, Vec<Foreign>> = BTreeMap::new();
    for foreign in config.foreign(|call| asks.get(&call.strategy).copied().unwrap_or(true)) {
        if let Some(folder) = target.approved_by(&config, &foreign) {
            by_folder.entry(folder.to_owned()).or_default().push(foreign);
        }
    }
    let mut open = Vec::new();
    for (folder, shown) in &by_folder {
        if !args.json {
            let mut text = as_text(folder, shown);
            text.line(of_the_users(&config));
            output::info("settings", &json!({ "folder": as_document(folder, shown) }), &text);
        }
        let mut is_approved = true;
        for foreign in shown {
            is_approved &= approvals.covers(folder, &foreign.subject).map_err(failed)?;
        }
        if !is_approved {
            open.push((folder, shown));
        }
    }
    if !open.is_empty() {
        settle(args, &target.path)?;
    }
    for (folder, shown) in &open {
        approvals.approve(folder, shown).map_err(failed)?;
    }
    let approved = by_folder.iter().map(|(folder, shown)| as_document(folder, shown)).collect();
    let document = ConfigTrustReport { approved, new: !open.is_empty() };
    if args.json {
        output::json_line(&document)?;
        return Ok(Exit::Done);
    }
    let shown_path = target.path.display();
    let text = match (by_folder.is_empty(), open.is_empty()) {
        (true, _) => EscapedLines::single(format_args!(
            "nothing to approve: no setting of {shown_path} leads to a model"
        )),
        (false, true) => EscapedLines::single("already approved"),
        (false, false) => {
            let path = quoted(&target.path);
            EscapedLines::single(format_args!(
                "approved; `jp-compact config untrust {path}` withdraws the approval"
            ))
        }
    };
    output::info("approved", &json!({ "report": document }), &text);
    Ok(Exit::Done)
}

/// The folder or conversation to approve.
struct Target {
    path: PathBuf,
    opened: Option<Opened>,
    environment: Environment,
}

impl Target {
    fn find(path: &OsString, environment: &Environment) -> Result<Self, Report> {
        let target = environment.cwd.join(path);
        let target = target.canonicalize().unwrap_or(target);
        if target.is_dir() && !target.join("events.json").exists() {
            let environment = Environment { cwd: target.clone(), ..environment.clone() };
            return Ok(Self { path: target, opened: None, environment });
        }
        let opened = pipeline::open(path, environment)?;
        let folder = opened.place.path().parent().map(Path::to_path_buf);
        let target = if target.exists() { target } else { folder.unwrap_or(target) };
        Ok(Self { path: target, opened: Some(opened), environment: environment.clone() })
    }

    fn config(&self, args: &Args) -> Result<Config, Report> {
        let place = self.opened.as_ref().map(|opened| &opened.place);
        let jp =
            JpOwn::read(&self.environment, place, self.opened.as_ref().map(|opened| opened.stream.stream()));
        Ok(config::load(&self.environment, place, &args.configured.files, &args.configured.sets, jp)?)
    }

    /// The folder that a value is approved for. None if the value has no effect here.
    fn approved_by<'a>(&self, config: &'a Config, foreign: &Foreign) -> Option<&'a Path> {
        match self.opened {
            Some(_) => config.scope().approved_by(&foreign.origin),
            None => config.scope().root(),
        }
    }
}

/// Returns for each strategy of the profiles whether it asks a model. A strategy that cannot describe itself may.
fn asks(args: &Args, config: &Config, environment: &Environment) -> Result<BTreeMap<String, bool>, Report> {
    let registry = args.discovery.registry(environment)?;
    let trust = args.discovery.trust(environment)?;
    let (files, sets) = (&args.configured.files, &args.configured.sets);
    let private_bytes_max = config::private_bytes_max(environment, files, sets)?;
    let preparation = Preparation {
        registry: &registry,
        trust: &trust,
        descriptions: &Descriptions::open(environment),
        starter: &Starter { private_bytes_max, ..Starter::new(registry.runner(), &environment.temp_dir) },
        sandbox: args.discovery.sandbox(),
        abilities: Abilities::here(environment),
    };
    let calls: Vec<&Call> = config.profiles.values().flat_map(|profile| &profile.calls).collect();
    until_interrupted(async {
        let mut asks = BTreeMap::new();
        for call in calls {
            if asks.contains_key(&call.strategy) {
                continue;
            }
            let described = match registry.find_to_run(&call.strategy, |plugin| trust.is_trusted(plugin)) {
                Ok(plugin) => preparation.describe(&plugin).await.ok(),
                Err(_) => None,
            };
            let needs = described.map(|described| described.description.needs);
            let asks_one = needs.is_none_or(|needs| needs.iter().any(|need| need == "llm"));
            asks.insert(call.strategy.clone(), asks_one);
        }
        Ok(asks)
    })
}

/// Asks the user for the approval, unless `--yes` gives it.
fn settle(args: &Args, target: &Path) -> Result<(), Report> {
    if args.yes {
        return Ok(());
    }
    let command = format!(
        "review the settings, then approve them with `jp-compact config trust {} --yes`",
        quoted(target)
    );
    let refused =
        |why: &str| Report::new(Exit::NotTrusted, format!("nothing was approved: {why}"), Some(&command));
    if !output::can_ask() {
        return Err(refused("stdin is not a terminal"));
    }
    let answer = until_interrupted(async { Ok(prompt::answer("Approve these settings? [y/N] ").await?) })?;
    if prompt::is_yes(&answer) { Ok(()) } else { Err(refused("the answer was not yes")) }
}

fn list(args: &Args, approvals: &Approvals) -> Result<Exit, Report> {
    let all = approvals.all().map_err(failed)?;
    if args.json {
        let document = |of: consent::Approval| document::ApprovalEntry { path: of.path, sha256: of.sha256 };
        output::json_line(&ApprovalsReport { approved: all.into_iter().map(document).collect() })?;
    } else {
        let mut text = EscapedLines::new();
        all.iter().for_each(|approval| text.line(&approval.path));
        output::text(&text)?;
    }
    Ok(Exit::Done)
}

/// The model for values that do not name one.
fn of_the_users(config: &Config) -> String {
    match config.configured_model().filter(|named| named.foreign.is_none()) {
        Some(named) => {
            format!(
                "  If a value names no model, the model is `{}`, from your own configuration.",
                named.model
            )
        }
        None => "  If a value names no model, the model is the one that you type or configure.".into(),
    }
}

fn as_document(folder: &Path, shown: &[Foreign]) -> ApprovedFolder {
    let values = shown.iter().map(|foreign| ApprovedValue {
        origin: foreign.origin.to_string(),
        rows: foreign.subject.rows().into_iter().map(|(label, text)| ValueRow { label, text }).collect(),
        sha256: foreign.subject.sha256(),
    });
    ApprovedFolder { path: folder.to_string_lossy().into_owned(), values: values.collect() }
}

/// The values, whole. Truncated lines would hide a part of the approved text.
fn as_text(folder: &Path, shown: &[Foreign]) -> EscapedLines {
    /// The characters of a line, so that it is not truncated even if each character is escaped.
    const CHARS_MAX: usize = 160;
    let mut text = EscapedLines::for_consent();
    text.line(format_args!("For conversations in {}:", folder.display()));
    for foreign in shown {
        text.line(format_args!("  {foreign}"));
        for (label, value) in foreign.subject.rows() {
            let is_short = !value.contains('\n') && value.chars().count() <= CHARS_MAX;
            if is_short {
                text.line(format_args!("    {label:<12}  {value}"));
                continue;
            }
            text.line(format_args!("    {label}"));
            for line in value.lines() {
                let characters: Vec<char> = line.chars().collect();
                let pieces = characters.chunks(CHARS_MAX).map(String::from_iter).collect::<Vec<_>>();
                text.quote("      ", &pieces.join("\n"));
            }
        }
    }
    text
}
