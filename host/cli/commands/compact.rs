//! `jp-compact TRANSCRIPT...`: runs strategies and appends their overlays, or removes overlays.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use jp_compact_core::Bound;
use jp_compact_core::select::{Keep, Wanted};
use jp_compact_core::source::Reset;
use jp_compact_core::spec::{Options, Spec};
use jp_compact_engine::clock::Clock;
use jp_compact_engine::compact::{self, Changed, Outcome, Preparation, Run};
use jp_compact_engine::describe_cache::Descriptions;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::Failure;
use jp_compact_engine::jail::{Abilities, Tier};
use jp_compact_engine::session::{Sessions, Spool, Starter, Watch};
use jp_compact_engine::store;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::args::{Compact, ResetNumber};
use crate::commands::{change, consent, counted, grouped, misspelt, short, turns};
use crate::error::Report;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::tokens::about;
use crate::{escape, output};

/// What runs when nobody names a strategy.
const DEFAULT_STRATEGIES: [&str; 2] = ["strip-reasoning", "strip-tools"];
/// A shorter number is not meant for the id of a conversation: those count tenths of seconds since 1970.
const ID_DIGITS_MIN: usize = 6;
/// Workers of one strategy.
const WORKERS_MAX: usize = 4;
/// Transcripts in memory at once.
const TRANSCRIPTS_MAX: usize = 16;

pub(crate) fn run(args: &Compact, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    if args.transcripts.is_empty() {
        let hint = "give a conversation: `jp-compact .jp/conversations/17738399468-review`, or see `jp-compact --help`";
        return Err(Report::new(Exit::Usage, "there is no TRANSCRIPT to compact", Some(hint)));
    }
    check_meant(args, environment)?;
    if let Some(which) = args.reset {
        return each(args, quiet, |transcript| reset(args, which, transcript, environment));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        // Dropping the work kills the strategy that runs and removes what it left; a write is never cut in two.
        tokio::select! {
            exit = work(args, quiet, environment) => exit,
            _ = interrupt.recv() => Err(interrupted()),
            _ = terminate.recv() => Err(interrupted()),
        }
    })
}

/// Refuses what would do something else than was meant, before anything is done.
fn check_meant(args: &Compact, environment: &Environment) -> Result<(), Report> {
    let words = args.transcripts.iter().filter_map(|transcript| transcript.to_str());
    for (place, word) in words.enumerate() {
        if word == "-" {
            let hint = "`print -` and `show -` read it; what is compacted is a conversation in its folder";
            return Err(Report::new(Exit::Usage, "`-` is stdin, and stdin is only read", Some(hint)));
        }
        if environment.cwd.join(word).exists() {
            continue;
        }
        let is_number = word.len() < ID_DIGITS_MIN && word.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && !word.is_empty() && matches!(args.reset, Some(ResetNumber::All)) {
            let hint = format!("`--reset={word}` removes overlay {word} alone, `--reset` all of them");
            return Err(Report::new(Exit::Usage, format!("`{word}` is no TRANSCRIPT"), Some(&hint)));
        }
        if place == 0
            && let Some(command) = misspelt(word)
        {
            let hint = format!("`jp-compact {command}` is a command; nothing was compacted");
            let message = format!("`{word}` is neither a command nor a TRANSCRIPT");
            return Err(Report::new(Exit::Usage, message, Some(&hint)));
        }
    }
    Ok(())
}

fn interrupted() -> Report {
    Report::new(Exit::Interrupted, "interrupted", Some("what was reported is done, the rest is as it was"))
}

async fn work(args: &Compact, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let registry = args.discovery.registry(environment)?;
    let mut trust = args.discovery.trust(environment)?;
    let descriptions = Descriptions::open(environment);
    let spool = Spool::make(&environment.temp_dir)?;
    let starter = Starter {
        runner: registry.runner().to_owned(),
        temp_dir: environment.temp_dir.clone(),
        spool: Some(Arc::new(spool)),
    };
    let abilities = Abilities::here(environment);
    let default =
        DEFAULT_STRATEGIES.map(|name| Spec { name: name.into(), options: Options::Pairs(Vec::new()) });
    let specs = if args.strategies.is_empty() { &default[..] } else { &args.strategies[..] };
    let strategies = loop {
        let preparation = Preparation {
            registry: &registry,
            trust: &trust,
            descriptions: &descriptions,
            starter: &starter,
            sandbox: args.discovery.sandbox(),
            abilities,
        };
        match compact::prepare(specs, &preparation, environment).await {
            Err(failure) => {
                let failure = consent::introduce(failure, &preparation).await;
                consent::settle(failure, &mut trust).await?;
            }
            Ok(strategies) => break strategies,
        }
    };
    let progress = Arc::new(Progress::new(quiet));
    // One transcript is one request for each strategy, and not worth a process that lives on.
    let workers_max = if args.transcripts.len() > 1 { workers_max() } else { 0 };
    let sessions = Sessions::new(starter, args.deadline)
        .with_workers(workers_max)
        .watched_by(Arc::clone(&progress) as Arc<dyn Watch>);
    let run = Run {
        strategies,
        sessions,
        wanted: Wanted {
            from: args.from.or(args.keep_first.map(Bound::Turn)),
            to: args.to.or(args.keep_last.map(Bound::FromEnd)),
            keep: Keep::DEFAULT,
        },
        hints: BTreeMap::new(),
        overlap: args.overlap,
        lock_wait: args.lock_timeout,
        now: args.now.map_or(Clock::System, Clock::Fixed).now(),
        dry_run: args.dry_run,
        estimator: args.tokens.estimator(),
    };
    let (run, environment) = (Arc::new(run), Arc::new(environment.clone()));
    let mut tally = Tally::default();
    let mut waiting = args.transcripts.iter();
    let mut running: VecDeque<Running<'_>> = VecDeque::new();
    loop {
        while running.len() < TRANSCRIPTS_MAX
            && let Some(transcript) = waiting.as_slice().first()
        {
            let path = store::locate(transcript, &environment).map(|place| place.path().to_owned()).ok();
            // Two runs on one transcript at once would not see each other's overlays.
            if path.is_some() && running.iter().any(|other| other.path == path) {
                break;
            }
            waiting.next();
            let work = (Arc::clone(&run), transcript.clone(), Arc::clone(&environment));
            let work = tokio::spawn(async move { compact::compact(&work.0, &work.1, &work.2).await });
            running.push_back(Running { transcript, path, work: Aborting(work) });
        }
        let Some(mut next) = running.pop_front() else { break };
        let done = (&mut next.work.0).await.map_err(|_| bug()).and_then(|done| done.map_err(Report::from));
        let done = done.map(|report| (as_json(&report, &run), as_text(&report, &run, &environment)));
        progress.suspend(|| tally.count(args, quiet, next.transcript, done))?;
    }
    run.sessions.close().await;
    Ok(tally.exit(args))
}

/// A transcript that is being worked on.
struct Running<'a> {
    transcript: &'a OsStr,
    path: Option<PathBuf>,
    work: Aborting,
}

/// Work that ends when nobody waits for it.
struct Aborting(JoinHandle<Result<compact::Report, Failure>>);

impl Drop for Aborting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn bug() -> Report {
    Report::new(Exit::Bug, "failed to finish a transcript: a bug in jp-compact", None)
}

/// As many as the machine can run at once, within reason.
fn workers_max() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(WORKERS_MAX)
}

fn reset(
    args: &Compact,
    which: ResetNumber,
    transcript: &std::ffi::OsStr,
    environment: &Environment,
) -> Result<(Value, String), Report> {
    let which = match which {
        ResetNumber::All => Reset::All,
        ResetNumber::One(number) => Reset::One(number),
    };
    let report = compact::reset(transcript, which, args.dry_run, args.lock_timeout, environment)?;
    let json = json!({
        "path": report.path.to_string_lossy(),
        "conversation_id": report.id,
        "dry_run": args.dry_run,
        "removed": report.removed,
    });
    let path = short(&report.path, environment);
    let would = if args.dry_run { "would be removed from" } else { "removed from" };
    let text = match report.removed {
        0 => format!("no overlay to remove in {path}"),
        removed => format!("{} {would} {path}", counted(removed, "overlay")),
    };
    Ok((json, escape::text(&text)))
}

fn each(
    args: &Compact,
    quiet: bool,
    mut one: impl FnMut(&std::ffi::OsStr) -> Result<(Value, String), Report>,
) -> Result<Exit, Report> {
    let mut tally = Tally::default();
    for transcript in &args.transcripts {
        tally.count(args, quiet, transcript, one(transcript))?;
    }
    Ok(tally.exit(args))
}

/// What became of several transcripts: all are tried.
#[derive(Default)]
struct Tally {
    failed: Vec<Exit>,
}

impl Tally {
    fn count(
        &mut self,
        args: &Compact,
        quiet: bool,
        transcript: &std::ffi::OsStr,
        done: Result<(Value, String), Report>,
    ) -> Result<(), Report> {
        match done {
            Ok((json, text)) => {
                if args.json {
                    output::json_line(&json)?;
                } else if !quiet {
                    output::people(&text);
                }
            }
            Err(report) => {
                if args.json {
                    output::json_line(&json!({ "path": transcript.to_string_lossy(), "error": report }))?;
                }
                output::failure(&report, &report.text());
                self.failed.push(report.exit);
            }
        }
        Ok(())
    }

    fn exit(&self, args: &Compact) -> Exit {
        match self.failed.as_slice() {
            [] => Exit::Done,
            [exit] if args.transcripts.len() == 1 => *exit,
            failed => {
                let (failed, all) = (failed.len(), args.transcripts.len());
                output::people(&format!("{failed} of {all} transcripts failed"));
                Exit::SomeFailed
            }
        }
    }
}

/// One line of JSON: what was made, what was declined, what it saves.
fn as_json(report: &compact::Report, run: &Run) -> Value {
    let tier = run.strategies.iter().map(|ready| ready.described.confined.tier()).min();
    let mut overlays = Vec::new();
    let mut declines = Vec::new();
    for step in &report.steps {
        match &step.outcome {
            Outcome::Made(made) => overlays.extend(made.iter().map(|made| {
                json!({
                    "number": made.number,
                    "from_turn": made.overlay.from_turn,
                    "to_turn": made.overlay.to_turn,
                    "kinds": made.overlay.kinds(),
                    "strategy": step.strategy,
                    "version": step.version,
                    "applied_by_jp": made.overlay.applied_by_jp,
                })
            })),
            Outcome::Declined(reason) => {
                declines
                    .push(json!({ "strategy": step.strategy, "version": step.version, "reason": reason }));
            }
        }
    }
    let diagnostics: Vec<_> = report
        .steps
        .iter()
        .flat_map(|step| {
            step.diagnostics.iter().map(|found| json!({ "strategy": step.strategy, "found": found }))
        })
        .collect();
    json!({
        "path": report.path.to_string_lossy(),
        "conversation_id": report.id,
        "dry_run": run.dry_run,
        "overlays": overlays,
        "declines": declines,
        "diagnostics": diagnostics,
        "tokens": {
            "before": report.tokens_before,
            "after": report.tokens_after,
            "estimator": run.estimator.name(),
        },
        "turns": report.changed.iter().map(|Changed { turn, before, after }| {
            json!({ "turn": turn, "before": before, "after": after })
        }).collect::<Vec<_>>(),
        "tier": tier.map(Tier::as_str),
        "nothing": report.nothing.map(|nothing| nothing.to_string()),
        "notes": report.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// A level or a severity as people read it.
fn word(variant: &impl std::fmt::Debug) -> String {
    format!("{variant:?}").to_lowercase()
}

fn as_text(report: &compact::Report, run: &Run, environment: &Environment) -> String {
    let path = short(&report.path, environment);
    if let Some(nothing) = report.nothing {
        return escape::line(&format!("{path}: {nothing}"));
    }
    let made: usize = report
        .steps
        .iter()
        .map(|step| if let Outcome::Made(made) = &step.outcome { made.len() } else { 0 })
        .sum();
    let verb = if run.dry_run { "would be appended" } else { "appended" };
    let mut lines = vec![match made {
        0 => format!("{path}: nothing to append"),
        made => format!("{path}: {} {verb}", counted(made, "overlay")),
    }];
    for step in &report.steps {
        let name = format!("{} {}", step.strategy, step.version);
        match &step.outcome {
            Outcome::Declined(reason) => lines.push(format!("  -  {name}  declined: {reason}")),
            Outcome::Made(made) => lines.extend(made.iter().map(|made| {
                let (from, to) = (made.overlay.from_turn, made.overlay.to_turn);
                let kinds = made.overlay.kinds().join(", ");
                let theirs = if made.overlay.applied_by_jp { "" } else { " (not applied by JP itself)" };
                format!("  {}  {name}  {}: {kinds}{theirs}", made.number, turns(from, to))
            })),
        }
        lines.extend(step.logs.iter().map(|(level, text)| format!("     {name}: {}: {text}", word(level))));
        lines.extend(step.diagnostics.iter().map(|found| {
            let turn = found.turn.map_or(String::new(), |turn| format!(" in turn {turn}"));
            format!("     {name}: {}{turn}: {}", word(&found.severity), found.message)
        }));
    }
    lines.extend(report.notes.iter().map(|note| format!("  note: {note}")));
    if run.dry_run {
        lines.extend(report.changed.iter().map(|Changed { turn, before, after }| {
            format!("  turn {turn}: {} -> {} tokens", grouped(*before), grouped(*after))
        }));
    }
    let (before, after) = (report.tokens_before, report.tokens_after);
    lines.push(format!(
        "  a model is sent {}{} tokens, was {} ({}, {})",
        about(run.estimator),
        grouped(after),
        grouped(before),
        change(before, after),
        run.estimator.name()
    ));
    if made > 0 && after >= before {
        lines.push("  note: the view did not become smaller; `--reset` removes the overlays again".into());
    }
    lines.iter().map(|line| escape::line(line)).collect::<Vec<_>>().join("\n")
}
