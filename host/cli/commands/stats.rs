//! `jp-compact stats`: counts the tokens of conversations by type and tool, raw and in the view.

use std::ffi::{OsStr, OsString};

use clap::Parser;
use jp_compact_core::estimate::Estimator;
use jp_compact_core::stats::Stats;
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::StatsReport;
use jp_compact_transcripts::Format;

use crate::args::{FormatArgs, TokenArgs};
use crate::error::Report;
use crate::exit::Exit;
use crate::human::{counted, relative_path};
use crate::input::{InputTranscript, find_transcripts, no_transcript, read_as};
use crate::lines::EscapedLines;
use crate::output;
use crate::transcript_results::TranscriptResults;
use jp_compact_reports::sent_tokens::SentTotals;
use jp_compact_reports::stats;

/// Count tokens by conversation, by content type, and by tool
///
/// Shows the tokens of the raw events and of the view. The full part of a bar is in the view; overlays hide the light part. If JP itself applies fewer overlays, the tokens that JP sends are shown, too. For several conversations, the tables show the sums.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact stats 17738399468\n  jp-compact stats .jp/conversations/*\n  jp-compact stats events.json --json | jq .by_tool"
)]
pub(crate) struct Args {
    /// A conversation folder, events.json, id, another agent's file, or -
    ///
    /// Any other folder is searched for transcripts. `-` reads stdin.
    #[arg(value_name = "PATH", required = true)]
    transcripts: Vec<OsString>,
    #[command(flatten)]
    input: FormatArgs,
    /// Print one line of JSON for each conversation
    ///
    /// For several conversations, the last line is the `total`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    counting: TokenArgs,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let estimator = args.counting.tokens.estimator(environment)?;
    // `quiet`, because the text is printed below: one table of all conversations that could be read.
    let mut results = TranscriptResults::new("counted the tokens", args.json, true);
    let mut conversations: Vec<(String, Stats)> = Vec::new();
    let mut sent_totals = SentTotals::default();
    let transcripts = find_transcripts(&args.transcripts, environment);
    if transcripts.is_empty() {
        return Err(no_transcript(&args.transcripts));
    }
    for transcript in &transcripts {
        match read_sums(transcript, args.input.format, estimator, environment) {
            Ok((read, sums)) => {
                let document = stats::document((&read.path, read.id.as_deref()), &sums, estimator);
                results.print(transcript, Ok((document, EscapedLines::new())))?;
                let (stats, sent) = sums;
                sent_totals.add(&sent);
                conversations.push((relative_path(&read.path, environment), stats));
            }
            Err(report) => results.print(transcript, Err::<(StatsReport, _), _>(report))?,
        }
    }
    let are_several = transcripts.len() > 1;
    let total: Stats = conversations.iter().map(|(_, stats)| stats).sum();
    if args.json && are_several {
        output::json_line(&stats::total(conversations.len(), (&total, &sent_totals), estimator))?;
    } else if !args.json && !conversations.is_empty() {
        let sums = (total, sent_totals);
        let columns = output::columns();
        let text = match conversations.as_slice() {
            [(path, _)] if !are_several => stats::text(path, &sums, estimator, columns),
            conversations => {
                let title = counted(conversations.len(), "conversation");
                let mut text = stats::text(&title, &sums, estimator, columns);
                stats::by_conversation(conversations, columns, &mut text);
                text
            }
        };
        output::text(&text)?;
    }
    Ok(results.exit())
}

/// Reads a transcript and counts its tokens.
fn read_sums(
    transcript: &OsStr,
    format: Option<Format>,
    estimator: Estimator,
    environment: &Environment,
) -> Result<(InputTranscript, (Stats, SentTotals)), Report> {
    let read = read_as(transcript, format, environment)?;
    let sums = stats::count(&read.stream, estimator);
    Ok((read, sums))
}
