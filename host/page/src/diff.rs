//! The page of `diff`: the effect of overlays on one conversation, its ribbon, the overlays, and the changed events
//! with their sizes and texts. Texts have a limit, so that the page of a conversation is not larger than the
//! conversation.

use jp_compact_diff::{EntrySize, SizedChange, SizedChanges, StreamedChanges};
use jp_compact_schema::document::{
    ChangeContent, ChangeKind, DiffChange, DiffHunk, DiffOverlay, DiffReport, ViewTokens,
};
use maud::{Markup, html};

use crate::Texts;
use crate::figure::{percent, whole};
use crate::frame::{Section, page, scrollable};
use crate::ribbon::{ELEMENTS_MAX, RibbonBlock, draw, legend};
use crate::text::{cut, grouped};

/// The maximum number of changes with a row.
const CHANGES_MAX: usize = 1_000;
/// The maximum number of characters of a change.
const CHANGE_CHARS: usize = 2_000;
/// The maximum size of the markup of all texts, in bytes.
const TEXT_BYTES: usize = 700_000;
const STATES: [&str; 7] = ["kept", "shortened", "replaced", "removed", "summarized", "added", "restored"];

/// The content of a page: the report, and the changes that it streams.
#[derive(Debug)]
pub struct DiffPage<'a> {
    /// The name of the conversation.
    pub name: &'a str,
    pub report: &'a DiffReport<StreamedChanges<'a>>,
    pub changes: &'a SizedChanges<'a>,
    /// All events of the conversation, including those without a change.
    pub entries: &'a [EntrySize],
}

/// A change with its index in the report.
type Numbered<'a> = (usize, &'a SizedChange, DiffChange);

/// Makes the page of a comparison.
#[must_use]
pub fn diff_page(content: &DiffPage<'_>, texts: Texts) -> String {
    let sections = [
        Section { id: "result", title: "Result", content: result(content, texts) },
        Section { id: "conversation", title: "The conversation", content: conversation(content.entries) },
        Section { id: "overlays", title: "Overlays", content: overlays(&content.report.overlays) },
        Section { id: "changes", title: "Changes", content: changes(content, texts) },
    ];
    page(&format!("Compaction of {}", content.name), &sections)
}

fn result(content: &DiffPage<'_>, texts: Texts) -> Markup {
    let report = content.report;
    let tokens = &report.tokens;
    html! {
        p.lead {
            @if report.dry_run { "The run would save " } @else { "The overlays save " }
            (percent("saved.percent", Some(report.saved.percent))) " of the tokens: "
            (whole("tokens.view_before", tokens.view_before)) " become " (whole("tokens.view_after", tokens.view_after)) "."
        }
        p {
            @for (index, (name, count)) in counts(report).into_iter().enumerate() {
                @if index > 0 { ", " }
                (whole(&format!("events.{name}"), count)) " " (name)
            }
            " events. " (crate::text::token_note(&report.estimator))
        }
        @if let Some(nothing) = &report.nothing { p { (nothing) } }
        @if !report.declines.is_empty() || !report.would.is_empty() {
            ul {
                @for decline in &report.declines {
                    // The reason is a text of the strategy.
                    li { code { (decline.strategy) } @if texts == Texts::Shown { ": " (decline.reason) } @else { " made no overlay" } }
                }
                @for would in &report.would { li { code { (would.strategy) } " would ask a model" } }
            }
        }
    }
}

fn counts(report: &DiffReport<StreamedChanges<'_>>) -> Vec<(&'static str, u64)> {
    let events = &report.events;
    let all = [
        ("kept", events.kept),
        ("shortened", events.shortened),
        ("replaced", events.replaced),
        ("removed", events.removed),
        ("summarized", events.summarized),
        ("added", events.added),
        ("restored", events.restored),
    ];
    all.into_iter().filter(|(name, count)| *count > 0 || *name == "kept").collect()
}

fn conversation(entries: &[EntrySize]) -> Markup {
    let block = |entry: &EntrySize| RibbonBlock {
        kind: content_name(entry.content),
        tokens: entry.tokens,
        state: entry.change.map_or("kept", ChangeKind::as_str),
    };
    let blocks: Vec<RibbonBlock> = entries.iter().map(block).collect();
    let changed = entries.iter().filter(|entry| entry.change.is_some()).count();
    let label = format!("{changed} of {} events are changed", entries.len());
    let used: Vec<&str> =
        STATES.into_iter().filter(|state| blocks.iter().any(|block| block.state == *state)).collect();
    html! {
        p { "One block for each event, as wide as its tokens before the change, or after it if the event is new." }
        (legend(&used))
        @match draw(&blocks, &[], &label) {
            Some(svg) => figure { (svg) figcaption { (label) "." } },
            None => p.muted {
                (label) "."
                @if entries.len() > ELEMENTS_MAX {
                    " A ribbon with more than " (grouped(ELEMENTS_MAX as u64)) " blocks is left out."
                }
            },
        }
    }
}

fn overlays(overlays: &[DiffOverlay]) -> Markup {
    if overlays.is_empty() {
        return html! { p { "No overlay changes an event." } };
    }
    let table = html! {
        table {
            thead {
                tr {
                    th.n { "overlay" } th { "turns" } th { "strategy" } th { "kinds" } th.n { "events" }
                    th.n { "tokens before" } th.n { "tokens after" }
                }
            }
            tbody {
                @for (index, overlay) in overlays.iter().enumerate() {
                    tr {
                        td.n { (overlay.number) }
                        td { (turns(overlay)) }
                        td { (overlay.strategy.as_deref().unwrap_or("unknown")) }
                        td { (overlay.kinds.join(", ")) }
                        td.n { (whole(&format!("overlays.{index}.events"), overlay.events as u64)) }
                        (tokens(&format!("overlays.{index}"), overlay.tokens))
                    }
                }
            }
        }
    };
    scrollable("Table of overlays", &table)
}

fn turns(overlay: &DiffOverlay) -> String {
    let place = |turn: usize, step: Option<usize>| match step {
        Some(step) => format!("{turn}.{step}"),
        None => turn.to_string(),
    };
    let from = place(overlay.from_turn, overlay.from_step);
    let to = place(overlay.to_turn, overlay.to_step);
    if from == to { from } else { format!("{from} to {to}") }
}

/// Returns two cells with the tokens in both views.
fn tokens(key: &str, tokens: ViewTokens) -> Markup {
    html! {
        td.n { (whole(&format!("{key}.tokens.view_before"), tokens.view_before)) }
        td.n { (whole(&format!("{key}.tokens.view_after"), tokens.view_after)) }
    }
}

/// Lists the changed events, grouped by the overlay that determines their form.
fn changes(content: &DiffPage<'_>, texts: Texts) -> Markup {
    let rows = largest(content.changes);
    let left_out = content.changes.changes.len() - rows.len();
    let mut groups: Vec<Option<usize>> = rows.iter().map(|(_, _, change)| change.overlay).collect();
    groups.sort_unstable();
    groups.dedup();
    let mut budget = TEXT_BYTES;
    html! {
        @if rows.is_empty() { p { "Both views show the same." } }
        @if left_out > 0 { p { (grouped(left_out as u64)) " smaller changes are left out." } }
        @for group in groups {
            @let in_group = rows.iter().filter(|(_, _, change)| change.overlay == group);
            @let name = group.map_or_else(|| "Without an overlay".to_owned(), |number| format!("Overlay {number}"));
            h3 { (name) }
            (scrollable(&name, &change_table(content.changes, in_group, texts, &mut budget)))
        }
        @if texts == Texts::Shown && budget == 0 {
            p.muted { "The page has no room for further texts. " code { "jp-compact diff --turn N" } " prints them." }
        }
    }
}

/// Returns the changes with the largest difference of tokens, in the order of the conversation.
fn largest<'a>(changes: &'a SizedChanges<'_>) -> Vec<Numbered<'a>> {
    let all = changes.changes.iter().enumerate();
    let mut rows: Vec<_> = all.map(|(index, change)| (index, change, changes.document(change))).collect();
    let difference = |change: &DiffChange| change.tokens.view_before.abs_diff(change.tokens.view_after);
    rows.sort_by_key(|(_, _, change)| std::cmp::Reverse(difference(change)));
    rows.truncate(CHANGES_MAX);
    rows.sort_by_key(|(index, _, _)| *index);
    rows
}

fn change_table<'a>(
    changes: &SizedChanges<'_>,
    rows: impl Iterator<Item = &'a Numbered<'a>>,
    texts: Texts,
    budget: &mut usize,
) -> Markup {
    html! {
        table {
            thead {
                tr { th { "change" } th { "turn" } th { "event" } th.n { "tokens before" } th.n { "tokens after" } }
            }
            tbody {
                @for (index, sized, change) in rows {
                    tr {
                        td { (change.change.as_str()) }
                        td { (change.turn) @if let Some(step) = change.step { "." (step) } }
                        td {
                            @let text = if texts == Texts::Shown { change_text(changes, sized, budget) } else { None };
                            @match text {
                                Some(text) => details { summary { (event_name(change)) } (text) },
                                None => (event_name(change)),
                            }
                        }
                        (tokens(&format!("changes.{index}"), change.tokens))
                    }
                }
            }
        }
    }
}

fn event_name(change: &DiffChange) -> Markup {
    html! {
        (content_name(change.content))
        @if let Some(tool) = &change.tool { " " code { (tool) } }
        @if change.is_error { " (failed)" }
    }
}

/// Returns the changed lines of an event. `None` if the page has no room for them.
fn change_text(changes: &SizedChanges<'_>, change: &SizedChange, budget: &mut usize) -> Option<Markup> {
    if *budget == 0 {
        return None;
    }
    let document = changes.document_with_hunks(change);
    let lines = hunk_lines(document.hunks.as_deref().unwrap_or_default());
    let shown = cut(&lines, CHANGE_CHARS);
    let markup = html! {
        pre {
            @for line in shown.shown.lines() {
                @match line.as_bytes().first() {
                    Some(b'-') => del { (line) },
                    Some(b'+') => ins { (line) },
                    _ => (line),
                }
                "\n"
            }
            @if shown.hidden > 0 { span.muted { "[" (grouped(shown.hidden as u64)) " more characters]" } }
        }
    };
    *budget = budget.saturating_sub(markup.0.len());
    (*budget > 0).then_some(markup)
}

/// Returns the lines of all hunks. A line with an ellipsis separates two hunks.
fn hunk_lines(hunks: &[DiffHunk]) -> String {
    let mut lines = String::new();
    for hunk in hunks {
        if !lines.is_empty() {
            lines.push_str(" \u{2026}\n");
        }
        for line in &hunk.lines {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    lines
}

fn content_name(content: ChangeContent) -> &'static str {
    match content {
        ChangeContent::User => "user",
        ChangeContent::Assistant => "assistant",
        ChangeContent::Reasoning => "reasoning",
        ChangeContent::ToolRequest => "tool call",
        ChangeContent::ToolResponse => "tool result",
        ChangeContent::Summary => "summary",
    }
}
