//! `jp-compact stats`: counts the tokens of conversations by type and tool, raw and in the view.

use std::ffi::{OsStr, OsString};

use clap::Parser;
use jp_compact_core::estimate::Estimator;
use jp_compact_core::stats::Stats;
use jp_compact_engine::batch::Files;
use jp_compact_runtime::environment::Environment;
use jp_compact_transcripts::Format;

use crate::args::{FormatArgs, TokenArgs};
use crate::error::Report;
use crate::exit::Exit;
use crate::human::{counted, short};
use crate::input::{InputTranscript, read_as};
use crate::lines::EscapedLines;
use crate::output;
use crate::reports::sent_tokens::SentTotals;
use crate::reports::stats;
use crate::transcript_results::TranscriptResults;

/// Count tokens by conversation, by content type, and by tool
///
/// Shows the tokens of the raw events and of the view. In a bar, the full part is in the view and the light part is hidden by overlays. If JP itself applies fewer overlays, its number is shown, too. Several conversations are added up.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact stats 17738399468\n  jp-compact stats .jp/conversations/*\n  jp-compact stats events.json --json | jq .by_tool"
)]
pub(crate) struct Args {
    /// A conversation folder, events.json, id, other transcript, or -
    ///
    /// Also another agent's transcript, or a folder to search for transcripts; `-` reads stdin.
    #[arg(value_name = "PATH", required = true)]
    transcripts: Vec<OsString>,
    #[command(flatten)]
    input: FormatArgs,
    /// Print one line of JSON for each conversation
    ///
    /// Several conversations have a last line with the `total`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    counting: TokenArgs,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let estimator = args.counting.tokens.estimator();
    // The text is printed below: one table of all conversations that could be read.
    let mut results = TranscriptResults::new("counted the tokens", args.json, true);
    let mut found: Vec<(String, Stats)> = Vec::new();
    let mut sent = SentTotals::default();
    let transcripts = transcripts(&args.transcripts, environment);
    for transcript in &transcripts {
        let one = read_sums(transcript, args.input.format, estimator, environment);
        let reported =
            one.as_ref().map(|(read, of)| (stats::document(read, of, estimator), EscapedLines::new()));
        results.print(transcript, reported.map_err(Clone::clone))?;
        if let Ok((read, (stats, of_one))) = one {
            sent.add(&of_one);
            found.push((short(&read.path, environment), stats));
        }
    }
    let several = transcripts.len() > 1;
    let total: Stats = found.iter().map(|(_, stats)| stats).sum();
    if args.json && several {
        output::json_line(&stats::total(found.len(), (&total, &sent), estimator))?;
    } else if !args.json && !found.is_empty() {
        let text = match found.as_slice() {
            [(path, _)] if !several => stats::text(path, &(total, sent), estimator),
            all => {
                let mut text = stats::text(&counted(all.len(), "conversation"), &(total, sent), estimator);
                stats::by_conversation(all, &mut text);
                text
            }
        };
        output::text(&text)?;
    }
    Ok(results.exit())
}

/// The given transcripts. A folder that is not a conversation is searched in the same way as by `batch`.
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

fn read_sums(
    transcript: &OsStr,
    format: Option<Format>,
    estimator: Estimator,
    environment: &Environment,
) -> Result<(InputTranscript, (Stats, SentTotals)), Report> {
    let read = read_as(transcript, format, environment)?;
    let sums = stats::sums(&read, estimator);
    Ok((read, sums))
}
