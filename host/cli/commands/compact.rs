//! `jp-compact TRANSCRIPT...`: runs strategies and appends their overlays, or removes overlays.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::PathBuf;

use jp_compact_core::select::Wanted;
use jp_compact_core::source::Reset;
use jp_compact_core::{Bound, inline};
use jp_compact_engine::compact::{self, OnLowSaving, Opened, Ready, Run};
use jp_compact_engine::config::{Config, Planned, Profile};
use jp_compact_engine::consent::Asker;
use jp_compact_engine::environment::Environment;
use jp_compact_engine::failure::Failure;
use jp_compact_engine::store;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::args::{Compact, ResetNumber, Running};
use crate::commands::{counted, short, until_interrupted};
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::Lines;
use crate::resolve;
use crate::setup::Setup;
use crate::tally::Tally;
use crate::told::{as_json, as_text};

/// A shorter number is not meant for the id of a conversation: those count tenths of seconds since 1970.
const ID_DIGITS_MIN: usize = 6;
/// Transcripts in memory at once.
const TRANSCRIPTS_MAX: usize = 16;

pub(crate) fn run(args: &Compact, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    if args.transcripts.is_empty() {
        let hint = "give a conversation: `jp-compact .jp/conversations/17738399468-review`, or see `jp-compact --help`";
        return Err(Report::new(Exit::Usage, "there is no TRANSCRIPT to compact", Some(hint)));
    }
    check_meant(args, environment)?;
    let transcripts = &args.transcripts;
    if let Some(exit) = resolve::refused(transcripts, args.running.json, quiet, environment)? {
        return Ok(exit);
    }
    if let Some(which) = args.reset {
        return each(args, quiet, |transcript| reset(&args.running, which, transcript, environment));
    }
    until_interrupted(work(args, quiet, environment))
}

/// Refuses a value that is given without its `=`, and would be taken for a transcript.
fn check_meant(args: &Compact, environment: &Environment) -> Result<(), Report> {
    for word in args.transcripts.iter().filter_map(|transcript| transcript.to_str()) {
        if environment.cwd.join(word).exists() {
            continue;
        }
        let is_number = word.len() < ID_DIGITS_MIN && word.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && !word.is_empty() && matches!(args.reset, Some(ResetNumber::All)) {
            let hint = format!("`--reset={word}` removes overlay {word} alone, `--reset` all of them");
            return Err(Report::new(Exit::Usage, format!("`{word}` is no TRANSCRIPT"), Some(&hint)));
        }
        // `--compact heavy` would run the default profile, and look for a conversation `heavy`.
        let is_name = || word.bytes().all(|byte| byte.is_ascii_alphabetic() || b"-_".contains(&byte));
        if args.compact.as_deref() == Some("") && (is_name() || inline::parse(word).is_ok()) {
            let hint = format!("`--compact={word}` runs a profile of that name or an inline form");
            return Err(Report::new(Exit::Usage, format!("`{word}` is no TRANSCRIPT"), Some(&hint)));
        }
    }
    Ok(())
}

async fn work(args: &Compact, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    let mut setup = Setup::open(&args.running, args.transcripts.len() > 1, quiet, Asker::User, environment)?;
    // What was typed is wrong for all transcripts or for none, and is found out before any is read.
    let typed = match args.strategies.as_slice() {
        [] => None,
        specs => Some(setup.prepare_typed(specs).await?),
    };
    let mut tally = Tally::new(args.running.json, quiet);
    let mut waiting = args.transcripts.iter();
    let mut begun: VecDeque<Begun<'_>> = VecDeque::new();
    loop {
        while begun.len() < TRANSCRIPTS_MAX
            && let Some(transcript) = waiting.as_slice().first()
        {
            let path = store::locate(transcript, environment).map(|place| place.path().to_owned()).ok();
            // Two runs on one transcript at once would not see each other's overlays.
            if path.is_some() && begun.iter().any(|other| other.path == path) {
                break;
            }
            waiting.next();
            let work = begin(args, &mut setup, typed.as_deref(), transcript).await;
            begun.push_back(Begun { transcript, path, work });
        }
        let Some(next) = begun.pop_front() else { break };
        let done = match next.work {
            Ok(work) => work.told(environment).await,
            Err(report) => Err(report),
        };
        setup.progress.suspend(|| tally.count(next.transcript, done))?;
    }
    setup.close().await;
    Ok(tally.exit())
}

/// Compacts one transcript as it is configured, and tells what came of it.
pub(crate) async fn one(
    args: &Compact,
    setup: &mut Setup<'_>,
    transcript: &OsStr,
    environment: &Environment,
) -> Result<(Value, Lines), Report> {
    begin(args, setup, None, transcript).await?.told(environment).await
}

/// A transcript that is being worked on, or why it is not.
struct Begun<'a> {
    transcript: &'a OsStr,
    path: Option<PathBuf>,
    work: Result<Aborting, Report>,
}

/// Work that ends when nobody waits for it.
struct Aborting(JoinHandle<(Run, Result<compact::Report, Failure>)>);

impl Aborting {
    async fn told(mut self, environment: &Environment) -> Result<(Value, Lines), Report> {
        let (run, done) = (&mut self.0).await.map_err(|_| bug())?;
        let report = done?;
        Ok((as_json(&report, &run), as_text(&report, &run, environment)))
    }
}

impl Drop for Aborting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads a transcript, finds out what is configured for it, and begins.
async fn begin(
    args: &Compact,
    setup: &mut Setup<'_>,
    typed: Option<&[Ready]>,
    transcript: &OsStr,
) -> Result<Aborting, Report> {
    let opened = setup.read(transcript)?;
    let config = setup.config(&opened)?;
    let (strategies, profile) = match typed {
        Some(strategies) => (strategies.to_vec(), None),
        None => {
            setup.warn(&config);
            let (profile, form) = (args.profile.as_deref(), args.compact.as_deref());
            configured(Asked { profile, form, bounds: typed_bounds(args) }, setup, &config).await?
        }
    };
    setup.check_focus(&strategies)?;
    let (from, to) = typed_bounds(args);
    let wanted = Wanted { from, to, keep: config.keep(profile) };
    let run = setup.run(strategies, &config, wanted, OnLowSaving::Warn);
    Ok(Aborting(tokio::spawn(finish(run, opened))))
}

async fn finish(run: Run, opened: Opened) -> (Run, Result<compact::Report, Failure>) {
    let done = compact::compact(&run, &opened).await;
    (run, done)
}

/// The two ends that were typed.
fn typed_bounds(args: &Compact) -> (Option<Bound>, Option<Bound>) {
    (args.from.or(args.keep_first.map(Bound::Turn)), args.to.or(args.keep_last.map(Bound::FromEnd)))
}

/// What was asked for that is no strategy.
pub(crate) struct Asked<'a> {
    pub(crate) profile: Option<&'a str>,
    /// The value of `--compact`.
    pub(crate) form: Option<&'a str>,
    /// The two ends that were typed.
    pub(crate) bounds: (Option<Bound>, Option<Bound>),
}

/// The strategies of a profile, or of an inline form.
pub(crate) async fn configured<'a>(
    asked: Asked<'_>,
    setup: &mut Setup<'_>,
    config: &'a Config,
) -> Result<(Vec<Ready>, Option<&'a Profile>), Report> {
    let mut planned = match (asked.profile, asked.form) {
        (None, Some(text)) => named(text, config)?,
        (Some(name), _) => config.named(name)?,
        (None, None) => config.by_default()?,
    };
    let (from, to) = asked.bounds;
    if (from.is_some() || to.is_some())
        && planned.profile.is_none()
        && planned.calls.iter().any(|call| call.range.is_some())
    {
        let hint = "leave the turns out behind the `:`, or --from, --to and --keep-* out";
        return Err(Report::new(Exit::Usage, "the inline form brings its own turns", Some(hint)));
    }
    // What is typed replaces an end of the turns that a rule of JP's brings, as it does one that is configured.
    for range in planned.calls.iter_mut().filter_map(|call| call.range.as_mut()) {
        (range.from, range.to) = (from.or(range.from), to.or(range.to));
    }
    Ok((setup.prepare_calls(&planned).await?, planned.profile))
}

/// What the value of `--compact` stands for: nothing for the default profile, a profile's name before an inline form
/// that is written like it.
pub(crate) fn named<'a>(text: &str, config: &'a Config) -> Result<Planned<'a>, Report> {
    if text.is_empty() {
        return Ok(config.by_default()?);
    }
    if config.profiles.contains_key(text) {
        return Ok(config.named(text)?);
    }
    let calls = inline::parse(text).map_err(|what| {
        let known: Vec<_> = config.profiles.keys().map(String::as_str).collect();
        let message = format!("`--compact={text}` names no profile and is no inline form: {what}");
        let hint = format!("the profiles are {}; an inline form is `r+t`, or `s:..-3`", known.join(", "));
        Report::new(Exit::Usage, message, Some(&hint))
    })?;
    Ok(Planned::typed(calls))
}

pub(crate) fn bug() -> Report {
    Report::new(Exit::Bug, "failed to finish a transcript: a bug in jp-compact", None)
}

/// Removes overlays of one transcript, and tells how many.
pub(crate) fn reset(
    args: &Running,
    which: ResetNumber,
    transcript: &OsStr,
    environment: &Environment,
) -> Result<(Value, Lines), Report> {
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
    Ok((json, Lines::of(text)))
}

fn each(
    args: &Compact,
    quiet: bool,
    mut one: impl FnMut(&OsStr) -> Result<(Value, Lines), Report>,
) -> Result<Exit, Report> {
    let mut tally = Tally::new(args.running.json, quiet);
    for transcript in &args.transcripts {
        tally.count(transcript, one(transcript))?;
    }
    Ok(tally.exit())
}
