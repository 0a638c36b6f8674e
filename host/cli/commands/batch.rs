//! `jp-compact batch`: folders of transcripts in one run, with a report and gates for CI.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use jp_compact_core::Bound;
use jp_compact_core::spec::Spec;
use jp_compact_engine::batch::{
    self, Ended, Files, Gates, How, Known, Lines, Out, Scope, Shard, Suite, Tally, Told, Written,
};
use jp_compact_engine::consent::Asker;
use jp_compact_engine::environment::Environment;
use jp_compact_schema::report::{AllTokens, GateReport, TranscriptReport};

use crate::args::{Providers, Running, from_bound, providers};
use crate::commands::{grouped, ndjson};
use crate::error::Report;
use crate::exit::Exit;
use crate::output;
use crate::planner::Planner;
use crate::progress::Bar;
use crate::setup::Setup;

/// Compact folders of transcripts in one run
///
/// Folders are searched for conversations, .gitignore minded; a PATH may also be a transcript or a pattern. Overlays go into each transcript, or with --out its view goes to another folder and the transcript stays as it is. What carries these overlays already is skipped. One transcript that fails is told and costs no other.
#[derive(Debug, Parser)]
#[command(
    mut_arg("json", |arg| arg.help("Print the report on stdout, as --report writes it")),
    after_help = "Examples:\n  jp-compact batch conversations/ --profile default --report report.json\n  jp-compact batch conversations/ --strategy strip-tools --out views/ --resume --report report.json\n  jp-compact batch . --dry-run --require-saving 30 --require-valid anthropic --junit junit.xml\n  jp-compact batch --ndjson --profile light < records.jsonl > answers.jsonl"
)]
pub(crate) struct Args {
    /// A folder that is searched, a transcript, or a pattern such as 'logs/**/events.json'
    #[arg(value_name = "PATH", required_unless_present = "ndjson")]
    paths: Vec<OsString>,
    /// A strategy to run, in the order given [default: those of the default profile]
    #[arg(short, long = "strategy", value_name = "NAME|PATH[:OPTIONS]")]
    pub(crate) strategies: Vec<Spec>,
    /// The profile to run [default: as configured, else `default`]
    #[arg(short, long, value_name = "NAME", conflicts_with = "strategies")]
    pub(crate) profile: Option<String>,
    /// First turn: a number from 0, -N from the end, a time ago (5h), or `last` [default: 0]
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
    /// How many threads work [default: one for each core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Write views below DIR, under the paths of their transcripts, which stay as they are
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write the report to FILE, as JSON; while it works, what is done is in FILE.part
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write the report to FILE, as JUnit has it
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// One of N parts, I from 0: all of them together are all transcripts, each once
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Shard>,
    /// Go on from what --report says was done, as long as the files are the same
    #[arg(long, requires = "report")]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    demands: Demands,
    #[command(flatten)]
    records: ndjson::Records,
}

/// What makes the command fail though every transcript was done.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Gates")]
struct Demands {
    /// At least PCT % of all tokens are not sent to a model any more
    #[arg(long, value_name = "PCT", value_parser = percent)]
    require_saving: Option<f64>,
    /// Every view keeps the rules of PROVIDER, as of `lint`
    #[arg(long, value_name = "PROVIDER", value_parser = providers())]
    require_valid: Option<Providers>,
    /// Every view has at most so many tokens
    #[arg(long, value_name = "TOKENS")]
    require_fit: Option<u64>,
    /// No view has more tokens than before
    #[arg(long)]
    forbid_growth: bool,
    /// Up to N transcripts may fail
    #[arg(long, value_name = "N")]
    max_failures: Option<u64>,
    /// Succeed where there is no transcript at all; otherwise that is exit 4, and 3 with a gate
    #[arg(long)]
    allow_empty: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse();
    number.ok().filter(|percent| (0.0..=100.0).contains(percent)).ok_or_else(|| "expected 0 to 100".into())
}

impl Demands {
    fn gates(&self) -> Gates {
        Gates {
            require_saving: self.require_saving,
            require_valid: self.require_valid.as_ref().map(|providers| providers.0.clone()),
            require_fit: self.require_fit,
            forbid_growth: self.forbid_growth,
            max_failures: self.max_failures,
        }
    }
}

pub(crate) fn run(args: &Args, quiet: bool, environment: &Environment) -> Result<Exit, Report> {
    if args.records.ndjson {
        let wish = ndjson::Wish {
            args: &args.records,
            allow_empty: args.demands.allow_empty,
            strategies: &args.strategies,
            profile: args.profile.as_deref(),
            bounds: (
                args.from.or(args.keep_first.map(Bound::Turn)),
                args.to.or(args.keep_last.map(Bound::FromEnd)),
            ),
            running: &args.running,
        };
        return ndjson::run(&wish, quiet, environment);
    }
    check(args, environment)?;
    let began = Instant::now();
    let setup = Setup::open(&args.running, true, quiet, Asker::User, environment)?;
    let planner = Planner::open(args, setup, environment)?;
    let files = Files::gather(&args.paths, args.out.as_deref(), args.shard, environment);
    planner.check_profile(&files)?;
    let report = args.report.as_ref().map(|path| environment.cwd.join(path));
    let known = match report.as_deref().filter(|_| args.resume) {
        Some(path) => {
            let known = Known::read(path, args.running.dry_run);
            Some(known.map_err(|error| unwritten("resume from the report", path, &error))?)
        }
        None => None,
    };
    let mut lines = planner.lines(report.as_deref())?;
    let out = args.out.as_deref().map(|out| Out::new(out, environment));
    let gates = args.demands.gates();
    let how = How {
        files: &files,
        format: args.running.written.format,
        jobs: args.jobs.map_or_else(cores, NonZero::get),
        out: out.as_ref(),
        known: known.as_ref(),
        gates: &gates,
        lines: lines.is_some(),
        looks: lines.is_some() || gates.require_valid.is_some(),
        environment,
    };
    let mut teller = Teller {
        tally: Tally::new(files.faults().len() as u64),
        bar: Bar::new(quiet, files.len() as u64, files.bytes(), &planner.shared.progress),
        quiet,
        refused: 0,
        hints: BTreeSet::new(),
    };
    let (first, mut interrupts) = (files.len(), 0);
    for (number, fault) in files.faults().iter().enumerate() {
        let told = batch::fault(fault);
        if let Some(lines) = &mut lines {
            lines.add(first + number, &serde_json::to_vec(&told).unwrap_or_default())?;
        }
        teller.one(&told, false);
    }
    let ended = batch::run(&planner, &how, |told| {
        match told {
            Told::One { place, told, line, resumed } => {
                teller.bar.advance(files.bytes_of(place));
                teller.one(&told, resumed);
                if let Some(lines) = &mut lines {
                    lines.add(place, &line)?;
                }
            }
            Told::Interrupted => {
                interrupts += 1;
                if interrupts == 1 {
                    teller.say("interrupted: what is in hand is finished; once more ends it at once");
                }
            }
        }
        Ok(())
    });
    teller.bar.finish();
    let Teller { mut tally, refused, .. } = teller;
    tally.total.elapsed_ms = (began.elapsed().as_secs_f64() * 1e6).round() / 1e3;
    let scope = match args.demands.allow_empty {
        true => Scope::AllOrNothing,
        // Only where this shard has none is it looked for in the others.
        false if tally.total.transcripts == 0 && files.is_elsewhere(environment) => Scope::Shard,
        false => Scope::All,
    };
    let verdicts = tally.judge(&gates, scope);
    let complete = matches!(ended, Ok(Ended::Whole));
    let written = Written { total: &tally.total, gates: &verdicts, complete };
    write(args, environment, lines.as_mut(), &written, ended.as_ref().err())?;
    if !quiet {
        output::say(summary(&tally, &args.running));
    }
    ended.map_err(|error| {
        unwritten("write the report", report.as_deref().unwrap_or(Path::new("on stdout")), &error)
    })?;
    if !complete {
        return Err(interrupted(args));
    }
    if tally.total.transcripts == 0 && scope == Scope::All && gates.is_empty() {
        return Err(empty(args));
    }
    Ok(verdict(&tally, &verdicts, refused))
}

fn empty(args: &Args) -> Report {
    let paths: Vec<_> = args.paths.iter().map(|path| path.to_string_lossy()).collect();
    let message = format!("there is no transcript in {}", paths.join(", "));
    Report::new(Exit::Transcript, message, Some("`--allow-empty` succeeds where there is none"))
}

/// What is wrong whatever the transcripts are is one error, before any is looked at.
fn check(args: &Args, environment: &Environment) -> Result<(), Report> {
    let at = |path: &Path| environment.cwd.join(path);
    let wrong = |message: &str, hint: &str| Err(Report::new(Exit::Usage, message, Some(hint)));
    if args.paths.iter().any(|path| path == "-") {
        return wrong("`-` is stdin, and a batch has paths", "`batch --ndjson` reads records from stdin");
    }
    if args.report.is_some() && args.report.as_deref().map(at) == args.junit.as_deref().map(at) {
        return wrong("--report and --junit are one file", "give each a file of its own");
    }
    if let Some(out) = args.out.as_deref().and_then(|out| at(out).canonicalize().ok())
        && args.paths.iter().any(|path| at(Path::new(path)).canonicalize().is_ok_and(|path| path == out))
    {
        let hint = "views lie under the paths of their transcripts: give --out another folder";
        return wrong("--out is the folder that the transcripts are in", hint);
    }
    for path in [&args.report, &args.junit].into_iter().flatten().map(|path| at(path)) {
        if path.is_dir() {
            return Err(unwritten("write the report", &path, &io::ErrorKind::IsADirectory.into()));
        }
    }
    Ok(())
}

/// What it exits with: a gate goes before transcripts that failed. Where all of them were refused for want of the user's
/// consent, nothing is wrong with the transcripts.
fn verdict(tally: &Tally, verdicts: &[GateReport], refused: u64) -> Exit {
    let missed = verdicts.iter().filter(|gate| !gate.met);
    let mut exit = Exit::Done;
    for gate in missed {
        let GateReport { gate, wanted, found, .. } = gate;
        output::say(format_args!("gate {gate} is not met: wanted {wanted}, found {found}"));
        exit = Exit::Gate;
    }
    let allowed = verdicts.iter().any(|gate| gate.gate == batch::Gate::MaxFailures.as_str());
    match tally.total.failed {
        0 => exit,
        _ if exit != Exit::Done || allowed => exit,
        failed if failed == refused => Exit::NotTrusted,
        _ => Exit::SomeFailed,
    }
}

fn interrupted(args: &Args) -> Report {
    let hint = match &args.report {
        Some(_) => "the same command with --resume goes on; what is done stays done",
        None => "the same command goes on: what is done is skipped",
    };
    Report::new(Exit::Interrupted, "interrupted", Some(hint))
}

/// Writes all that was asked for.
fn write(
    args: &Args,
    environment: &Environment,
    lines: Option<&mut Lines>,
    written: &Written<'_>,
    failed: Option<&io::Error>,
) -> Result<(), Report> {
    let Some(lines) = lines.filter(|_| failed.is_none()) else { return Ok(()) };
    if args.running.json {
        output::data(|out| lines.write(written, out))?;
    }
    if let Some(path) = &args.junit {
        let suite = Suite { total: written.total, gates: written.gates };
        let path = environment.cwd.join(path);
        let done = lines.put(&path, |lines, out| batch::write_junit(lines, &suite, out));
        done.map_err(|error| unwritten("write the JUnit report", &path, &error))?;
    }
    if let Some(path) = &args.report {
        let path = environment.cwd.join(path);
        lines.finish(written, &path).map_err(|error| unwritten("write the report", &path, &error))?;
    }
    Ok(())
}

pub(crate) fn unwritten(doing: &str, path: &Path, error: &io::Error) -> Report {
    let mut report = Report::new(Exit::Transcript, format!("failed to {doing} {}", path.display()), None);
    report.causes.push(error.to_string());
    report
}

fn summary(tally: &Tally, running: &Running) -> String {
    let total = &tally.total;
    let tokens = total.size.all.tokens;
    let would = if running.dry_run { " (a dry run)" } else { "" };
    let mut parts = Vec::new();
    let resumed = total.resumed;
    for (count, what) in [
        (total.compacted, "compacted"),
        (total.unchanged, "with nothing to do"),
        (total.skipped, "skipped"),
        (total.failed, "failed"),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", grouped(count)));
        }
    }
    if resumed > 0 {
        parts.push(format!("{} of them before", grouped(resumed)));
    }
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    let many = if total.transcripts == 1 { "transcript" } else { "transcripts" };
    let sent = if tokens.before == 0 { String::new() } else { sent(tokens) };
    format!("{} {many}{parts}{would}{sent}; {:.1} s", grouped(total.transcripts), total.elapsed_ms / 1e3)
}

/// Who sends how much.
fn sent(AllTokens { before, after, jp }: AllTokens) -> String {
    let of = |after, before| {
        let percent = batch::saved_percent(before, after);
        let change = if after == before { "unchanged".to_owned() } else { format!("{:+.1} %", -percent) };
        format!("{} of {} tokens ({change})", grouped(after), grouped(before))
    };
    match jp {
        None => format!("; the views have {}", of(after, before)),
        Some(jp) if jp.before < before => {
            let (sends, views) = (of(jp.after, jp.before), of(after, before));
            format!("; JP sends a model {sends} of its own conversations, all views have {views}")
        }
        Some(jp) if jp.after == after => format!("; JP sends a model {}", of(after, before)),
        Some(jp) => {
            let (sends, views) = (of(jp.after, jp.before), of(after, before));
            format!(
                "; JP sends a model {sends}, jp-compact's own views have {views}: JP does not apply every overlay"
            )
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// More are not printed; the report has all.
const HINTS_MAX: usize = 8;

/// Tells people what they have to know of single transcripts, and counts all.
struct Teller {
    tally: Tally,
    bar: Bar,
    quiet: bool,
    /// Transcripts that were refused for want of the user's consent.
    refused: u64,
    /// What to do about them, each once.
    hints: BTreeSet<String>,
}

impl Teller {
    fn say(&self, line: impl std::fmt::Display) {
        self.bar.suspend(|| output::say(line));
    }

    fn one(&mut self, told: &TranscriptReport, resumed: bool) {
        self.tally.add(told, resumed);
        if let Some(error) = &told.error {
            let causes: String = error.causes.iter().map(|cause| format!(": {cause}")).collect();
            self.say(format_args!("failed: {}: {}{causes}", told.path, error.message));
            if error.code == Exit::NotTrusted.code() {
                self.refused += 1;
                let hint = error.hint.iter().map(|hint| hint.replace("\n  ", " ")).collect::<String>();
                if self.hints.len() < HINTS_MAX && self.hints.insert(hint.clone()) {
                    self.say(format_args!("hint: {hint}"));
                }
            }
        }
        if !self.quiet {
            for warning in &told.warnings {
                self.say(format_args!("warning: {}: {warning}", told.path));
            }
            for miss in &told.gates {
                self.say(format_args!("gate {}: {}: {}", miss.gate, told.path, miss.found));
            }
        }
    }
}
