//! `jp-compact config trust`: approves the values of a folder that are not the user's own and that lead to a model. They
//! are shown first, and the approval is of just what was shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use jp_compact_core::call::Call;
use jp_compact_engine::compact::{self as pipeline, Opened, Preparation};
use jp_compact_engine::config::{self, Config, Foreign, JpOwn};
use jp_compact_engine::consent::{Approvals, RecordError};
use jp_compact_engine::describe_cache::Descriptions;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::jail::Abilities;
use jp_compact_engine::session::Starter;
use jp_compact_engine::trust::quoted;
use serde_json::{Value, json};

use crate::args::{Configured, Discovery};
use crate::commands::{consent, until_interrupted};
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::Lines;
use crate::output;

/// Approve what a folder's configuration asks of a model
///
/// A repository's .jp-compact.toml, JP's own files and a transcript may lead to a model only after they are approved. Everything that leads there is shown: profiles, providers, models, instructions. The approval is of just that: any change of it ends the approval.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact config trust\n  jp-compact config trust ~/project --yes\n  jp-compact config trust --list"
)]
pub(crate) struct Args {
    /// A folder in the workspace; or a conversation, whose own files are shown too
    #[arg(value_name = "DIR", default_value = ".")]
    path: OsString,
    /// Approve without a question, in CI
    #[arg(short, long)]
    yes: bool,
    /// List the folders that something is approved for
    #[arg(long, conflicts_with_all = ["path", "yes"])]
    list: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    discovery: Discovery,
    #[command(flatten)]
    configured: Configured,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let approvals = Approvals::open(environment);
    if args.list {
        return list(args, &approvals);
    }
    let place = Place::of(&args.path, environment)?;
    let config = place.config(args)?;
    let asks = asks(args, &config, &place.environment)?;
    let mut by_folder: BTreeMap<PathBuf, Vec<Foreign>> = BTreeMap::new();
    for foreign in config.foreign(|call| asks.get(&call.strategy).copied().unwrap_or(true)) {
        if let Some(folder) = place.approved_by(&config, &foreign) {
            by_folder.entry(folder.to_owned()).or_default().push(foreign);
        }
    }
    let mut open = Vec::new();
    for (folder, shown) in &by_folder {
        if !args.json {
            output::people(&as_text(folder, shown));
            output::say(of_the_users(&config));
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
        settle(args, &place.target)?;
    }
    for (folder, shown) in &open {
        approvals.approve(folder, shown).map_err(failed)?;
    }
    if args.json {
        let folders = by_folder.iter().map(|(folder, shown)| as_json(folder, shown));
        output::json_line(&json!({ "approved": folders.collect::<Vec<_>>(), "new": !open.is_empty() }))?;
        return Ok(Exit::Done);
    }
    let target = place.target.display();
    output::people(&match (by_folder.is_empty(), open.is_empty()) {
        (true, _) => {
            Lines::of(format_args!("nothing in {target} leads to a model: there is nothing to approve"))
        }
        (false, true) => Lines::of("this was approved before"),
        (false, false) => {
            let target = quoted(&place.target);
            Lines::of(format_args!("approved; `jp-compact config untrust {target}` withdraws it"))
        }
    });
    Ok(Exit::Done)
}

/// What is approved: a folder, or a conversation in one.
struct Place {
    target: PathBuf,
    opened: Option<Opened>,
    environment: Environment,
}

impl Place {
    fn of(path: &OsString, environment: &Environment) -> Result<Self, Report> {
        let target = environment.cwd.join(path);
        let target = target.canonicalize().unwrap_or(target);
        if target.is_dir() && !target.join("events.json").exists() {
            let environment = Environment { cwd: target.clone(), ..environment.clone() };
            return Ok(Self { target, opened: None, environment });
        }
        let opened = pipeline::open(path, environment)?;
        let folder = opened.place.path().parent().map(Path::to_path_buf);
        let target = if target.exists() { target } else { folder.unwrap_or(target) };
        Ok(Self { target, opened: Some(opened), environment: environment.clone() })
    }

    fn config(&self, args: &Args) -> Result<Config, Report> {
        let place = self.opened.as_ref().map(|opened| &opened.place);
        let jp = JpOwn::read(&self.environment, place, self.opened.as_ref().map(|opened| &opened.stream));
        Ok(config::load(&self.environment, place, &args.configured.files, &args.configured.sets, jp)?)
    }

    /// The folder that a value is approved for. None: it counts for nothing here.
    fn approved_by<'a>(&self, config: &'a Config, foreign: &Foreign) -> Option<&'a Path> {
        match self.opened {
            Some(_) => config.scope().approved_by(&foreign.origin),
            None => config.scope().root(),
        }
    }
}

/// Which strategies of the profiles ask a model. One that cannot be asked what it needs may be one.
fn asks(args: &Args, config: &Config, environment: &Environment) -> Result<BTreeMap<String, bool>, Report> {
    let registry = args.discovery.registry(environment)?;
    let trust = args.discovery.trust(environment)?;
    let (runner, temp_dir) = (registry.runner().to_owned(), environment.temp_dir.clone());
    let (files, sets) = (&args.configured.files, &args.configured.sets);
    let private_bytes_max = config::private_bytes_max(environment, files, sets)?;
    let preparation = Preparation {
        registry: &registry,
        trust: &trust,
        descriptions: &Descriptions::open(environment),
        starter: &Starter { runner, temp_dir, private_bytes_max, spool: None },
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
            let described = match registry.find_to_run(&call.strategy, &trust) {
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

/// Asks whether it is approved, where the user can be asked and did not say so before.
fn settle(args: &Args, target: &Path) -> Result<(), Report> {
    if args.yes {
        return Ok(());
    }
    let command =
        format!("look at what is asked; `jp-compact config trust {} --yes` approves it", quoted(target));
    let refused =
        |why: &str| Report::new(Exit::NotTrusted, format!("nothing was approved: {why}"), Some(&command));
    if !output::can_ask() {
        return Err(refused("there is no terminal to ask on"));
    }
    let answer = until_interrupted(consent::answer("Approve this? [y/N] "))?;
    if consent::is_yes(&answer) { Ok(()) } else { Err(refused("the answer was not `yes`")) }
}

fn list(args: &Args, approvals: &Approvals) -> Result<Exit, Report> {
    let all = approvals.all().map_err(failed)?;
    if args.json {
        let rows = all.iter().map(|approval| json!({ "path": approval.path, "sha256": approval.sha256 }));
        output::json_line(&json!({ "approved": rows.collect::<Vec<_>>() }))?;
    } else {
        let mut text = Lines::new();
        all.iter().for_each(|approval| text.line(&approval.path));
        output::text(&text)?;
    }
    Ok(Exit::Done)
}

/// The model that is asked where none of the values names one.
fn of_the_users(config: &Config) -> String {
    match config.configured_model().filter(|named| named.foreign.is_none()) {
        Some(named) => {
            format!("  Where no model is named, `{}` is asked, of your own configuration.", named.model)
        }
        None => "  Where no model is named, the one is asked that you type or configure.".into(),
    }
}

pub(super) fn failed(error: RecordError) -> Report {
    let mut report = Report::new(Exit::NotTrusted, "failed to use the approvals", Some(&error.hint()));
    report.causes.push(error.to_string());
    report
}

fn as_json(folder: &Path, shown: &[Foreign]) -> Value {
    let values = shown.iter().map(|foreign| {
        let rows =
            foreign.subject.rows().into_iter().map(|(label, text)| json!({ "label": label, "text": text }));
        json!({
            "origin": foreign.origin.to_string(),
            "rows": rows.collect::<Vec<_>>(),
            "sha256": foreign.subject.sha256(),
        })
    });
    json!({ "path": folder.to_string_lossy(), "values": values.collect::<Vec<_>>() })
}

/// All that is asked, whole: a line that is cut would hide what is approved.
fn as_text(folder: &Path, shown: &[Foreign]) -> Lines {
    /// As many as fit into a line where each of them is escaped.
    const CHARS_MAX: usize = 160;
    let mut text = Lines::for_consent();
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
