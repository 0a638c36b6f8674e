//! `jp-compact stats`: where the tokens of conversations are, and how many of them a model is sent.

use std::ffi::{OsStr, OsString};

use clap::Parser;
use jp_compact_core::Survey;
use jp_compact_core::estimate::Estimator;
use jp_compact_core::formats::Format;
use jp_compact_core::stats::{Stats, stats};
use jp_compact_engine::batch::Files;
use jp_compact_engine::environment::Environment;
use serde_json::{Value, json};

use crate::args::{Counting, Written};
use crate::bars;
use crate::commands::{Read, counted, read_as, short};
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::Lines;
use crate::output;
use crate::sent::Sent;
use crate::tally::Tally;

/// Show where the tokens are: by conversation, by content type, by tool
///
/// Of the raw events, and of the view that overlays make of them: a bar is full where the view shows something, and light where
/// overlays leave it out. What JP itself sends is named where JP applies fewer overlays. Several conversations are added up.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact stats 17738399468\n  jp-compact stats .jp/conversations/*\n  jp-compact stats events.json --json | jq .stats.by_tool"
)]
pub(crate) struct Args {
    /// A conversation folder, an events.json, a conversation's id, another agent's transcript, - for stdin, or a folder that is searched for those
    #[arg(value_name = "PATH", required = true)]
    transcripts: Vec<OsString>,
    #[command(flatten)]
    written: Written,
    /// Print one line of JSON for each conversation, and for several a last one with the `total`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    counting: Counting,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let estimator = args.counting.tokens.estimator();
    // What is for people is shown below: one table of all that could be read.
    let mut tally = Tally::new(args.json, true);
    let mut found: Vec<(String, Stats)> = Vec::new();
    let mut sent = Sent::default();
    let transcripts = transcripts(&args.transcripts, environment);
    for transcript in &transcripts {
        let one = of(transcript, args.written.format, estimator, environment);
        let told = one.as_ref().map(|(read, of)| (as_json(read, of, estimator), Lines::new()));
        tally.count(transcript, told.map_err(Clone::clone))?;
        if let Ok((read, (stats, of_one))) = one {
            sent.add(&of_one);
            found.push((short(&read.path, environment), stats));
        }
    }
    let several = transcripts.len() > 1;
    let total: Stats = found.iter().map(|(_, stats)| stats).sum();
    if args.json && several {
        let tokens = sent.json(&total.all, estimator);
        let estimator = estimator.name();
        let line =
            json!({ "transcripts": found.len(), "estimator": estimator, "tokens": tokens, "total": total });
        output::json_line(&line)?;
    } else if !args.json && !found.is_empty() {
        let text = match found.as_slice() {
            [(path, _)] if !several => as_text(path, &(total, sent), estimator),
            all => {
                let mut text = as_text(&counted(all.len(), "conversation"), &(total, sent), estimator);
                let rows = all.iter().map(|(path, stats)| (path.as_str(), stats.all.tokens));
                bars::table(&mut text, "tokens by conversation", rows);
                text
            }
        };
        output::text(&text)?;
    }
    Ok(tally.exit())
}

/// The transcripts that were given; of a folder that is none those in it, as `batch` finds them.
fn transcripts(given: &[OsString], environment: &Environment) -> Vec<OsString> {
    let in_folder = |path: &OsString| {
        let folder = environment.cwd.join(path);
        let is_one = !path.is_empty() && folder.is_dir() && !folder.join("events.json").exists();
        is_one.then(|| Files::gather(std::slice::from_ref(path), None, None, environment))
    };
    let mut all = Vec::new();
    for path in given {
        match in_folder(path) {
            Some(files) if files.is_empty() && files.faults().is_empty() => all.push(path.clone()),
            Some(files) => {
                all.extend(files.faults().iter().map(|fault| fault.path.clone().into()));
                all.extend(files.transcripts(environment).map(OsString::from));
            }
            None => all.push(path.clone()),
        }
    }
    all
}

fn of(
    transcript: &OsStr,
    format: Option<Format>,
    estimator: Estimator,
    environment: &Environment,
) -> Result<(Read, (Stats, Sent)), Report> {
    let read = read_as(transcript, format, environment)?;
    let sums = sums(&read, estimator);
    Ok((read, sums))
}

/// What there is of a conversation, and what is sent of it.
pub(crate) fn sums(read: &Read, estimator: Estimator) -> (Stats, Sent) {
    let survey = Survey::with(&read.stream, estimator);
    (stats(&survey), Sent::of(&survey))
}

/// One conversation's, as a line of JSON.
pub(crate) fn as_json(read: &Read, (stats, sent): &(Stats, Sent), estimator: Estimator) -> Value {
    json!({
        "path": read.path.to_string_lossy(),
        "conversation_id": read.id,
        "estimator": estimator.name(),
        "tokens": sent.json(&stats.all, estimator),
        "stats": stats,
    })
}

/// What was read, and its tables.
pub(crate) fn as_text(what: &str, (stats, sent): &(Stats, Sent), estimator: Estimator) -> Lines {
    let count = |number, what| counted(usize::try_from(number).unwrap_or(usize::MAX), what);
    let mut text = Lines::of(format_args!(
        "{what}: {}, {}, {}",
        count(stats.turns, "turn"),
        count(stats.events, "event"),
        count(stats.overlays, "overlay"),
    ));
    sent.text(stats, estimator).iter().for_each(|line| text.line(line));
    tables(stats, estimator, &mut text);
    text
}

/// The tables of what there is, by type, by tool and in all.
pub(crate) fn tables(stats: &Stats, estimator: Estimator, text: &mut Lines) {
    let by_type = stats.by_type.iter().map(|(name, sizes)| (*name, sizes.tokens));
    bars::table(text, "tokens by type", by_type);
    let by_tool = stats.by_tool.iter().map(|(name, sizes)| (name.as_str(), sizes.tokens));
    bars::table(text, "tokens by tool", by_tool);
    let all = format!("tokens, by {}", estimator.name());
    bars::table(text, "in all", [(all.as_str(), stats.all.tokens)].into_iter());
}
