//! The tokens of conversations by type and tool, as a document and as tables.

use std::collections::BTreeMap;
use std::path::Path;

use jp_compact_core::estimate::Estimator;
use jp_compact_core::stats::{Amount, SizeChange, Stats, stats};
use jp_compact_core::{Stream, Survey};
use jp_compact_schema::document::{self, StatsReport, StatsTotal};
use jp_compact_terminal::bar_chart::{self, Bar};
use jp_compact_terminal::lines::EscapedLines;
use jp_compact_terminal::numbers::counted;

use crate::sent_tokens::{SentTotals, counting_method};

/// Counts the tokens of a conversation.
#[must_use]
pub fn count(stream: &Stream, estimator: Estimator) -> (Stats, SentTotals) {
    let survey = Survey::with_estimator(stream, estimator);
    (stats(&survey), SentTotals::count(&survey))
}

/// Returns the counts of one conversation, as a document.
#[must_use]
pub fn document(
    (path, id): (&Path, Option<&str>),
    (stats, sent): &(Stats, SentTotals),
    estimator: Estimator,
) -> StatsReport {
    let tokens = sent.document(&stats.all);
    StatsReport {
        path: path.to_string_lossy().into_owned(),
        conversation_id: id.map(str::to_owned),
        estimator: estimator.name().to_owned(),
        turns: stats.turns,
        events: stats.events,
        overlays: stats.overlays,
        tokens,
        saved: tokens.saved_of_raw(),
        bytes: stats.all.bytes.into(),
        by_type: by_name(&stats.by_type),
        by_tool: by_name(&stats.by_tool),
    }
}

/// Returns the sums over conversations, as a document.
#[must_use]
pub fn total(transcripts: usize, (stats, sent): (&Stats, &SentTotals), estimator: Estimator) -> StatsTotal {
    let tokens = sent.document(&stats.all);
    StatsTotal {
        transcripts,
        estimator: estimator.name().to_owned(),
        turns: stats.turns,
        events: stats.events,
        overlays: stats.overlays,
        tokens,
        saved: tokens.saved_of_raw(),
        bytes: stats.all.bytes.into(),
        by_type: by_name(&stats.by_type),
        by_tool: by_name(&stats.by_tool),
    }
}

/// Returns the sizes by name, for a document.
#[must_use]
pub fn by_name(sizes: &BTreeMap<impl AsRef<str>, SizeChange>) -> BTreeMap<String, document::Sizes> {
    sizes.iter().map(|(name, sizes)| (name.as_ref().to_owned(), (*sizes).into())).collect()
}

/// Returns the counts as text, with a title.
pub fn text(
    title: &str,
    (stats, sent): &(Stats, SentTotals),
    estimator: Estimator,
    columns: Option<usize>,
) -> EscapedLines {
    let count = |number, noun| counted(usize::try_from(number).unwrap_or(usize::MAX), noun);
    let mut text = EscapedLines::single(format_args!(
        "{title}: {}, {}, {}",
        count(stats.turns, "turn"),
        count(stats.events, "event"),
        count(stats.overlays, "overlay"),
    ));
    sent.text(stats, estimator).iter().for_each(|line| text.line(line));
    tables(stats, estimator, columns, &mut text);
    text
}

/// Appends the tables by type, by tool, and in total.
pub fn tables(stats: &Stats, estimator: Estimator, columns: Option<usize>, text: &mut EscapedLines) {
    let by_type = stats.by_type.iter().map(|(name, sizes)| (*name, bar(sizes.tokens)));
    bar_chart::table(text, "tokens by type", by_type, columns);
    let by_tool = stats.by_tool.iter().map(|(name, sizes)| (name.as_str(), bar(sizes.tokens)));
    bar_chart::table(text, "tokens by tool", by_tool, columns);
    let label = format!("tokens, {}", counting_method(estimator.name()));
    bar_chart::table(text, "total", [(label.as_str(), bar(stats.all.tokens))].into_iter(), columns);
}

/// Appends the table by conversation.
pub fn by_conversation(conversations: &[(String, Stats)], columns: Option<usize>, text: &mut EscapedLines) {
    // All conversations of JP have files of one name. In a narrow terminal, only the end of a path is shown.
    let name = |path: &'_ String| path.strip_suffix("/events.json").unwrap_or(path).to_owned();
    let names: Vec<_> = conversations.iter().map(|(path, _)| name(path)).collect();
    let rows =
        names.iter().zip(conversations).map(|(name, (_, stats))| (name.as_str(), bar(stats.all.tokens)));
    bar_chart::table(text, "tokens by conversation", rows, columns);
}

fn bar(tokens: Amount) -> Bar {
    Bar { raw: tokens.before, view: tokens.after }
}
