//! The ribbons of a page, for the last cut of each of the first transcripts. The ribbon of the recommended row is
//! visible. The ribbons of the other rows open on demand.

use jp_compact_eval::page::{PageCut, PageEventKind, PageRow, Shown};
use jp_compact_schema::document::EvalReport;
use maud::{Markup, html};

use crate::ribbon::{ELEMENTS_MAX, RibbonArc, RibbonBlock, draw, legend};
use crate::rows::label;
use crate::text::grouped;
use jp_compact_eval::is_fixed_control;

/// The maximum number of transcripts with ribbons.
const TRANSCRIPTS_MAX: usize = 3;
/// The maximum number of blocks and arcs of a page. Each takes about 130 bytes.
const PAGE_ELEMENTS_MAX: usize = 9_000;

pub(crate) fn section(report: &EvalReport, cuts: &[PageCut], best: usize) -> Markup {
    let mut left = PAGE_ELEMENTS_MAX;
    let last_cuts = last_cuts(cuts);
    let hidden = last_cuts.len().saturating_sub(TRANSCRIPTS_MAX);
    html! {
        p {
            "One block for each event before the cut and after it, as wide as its tokens. An arc leads from a later use of a "
            "path, number, identifier, or other text to the event that has it. A red arc leads to a text that the view no "
            "longer has."
        }
        (legend(&["kept", "shortened", "removed", "summarized", "future"]))
        @for cut in last_cuts.into_iter().take(TRANSCRIPTS_MAX) {
            h3 { (report.transcripts.get(cut.transcript).map_or("", |transcript| transcript.path.as_str())) }
            @let (first, others): (Vec<_>, Vec<_>) = shown_rows(report, cut).partition(|row| row.row == best);
            @for row in first { (ribbon(report, cut, row, &mut left)) }
            @for row in others {
                details { summary { (row.row) " " (label(report, row.row)) } (ribbon(report, cut, row, &mut left)) }
            }
        }
        @if hidden > 0 {
            p.muted {
                (hidden) @if hidden == 1 { " more transcript has" } @else { " more transcripts have" }
                " no ribbon on this page."
            }
        }
    }
}

/// Returns the last cut of each transcript.
fn last_cuts(cuts: &[PageCut]) -> Vec<&PageCut> {
    let mut last: Vec<&PageCut> = Vec::new();
    for cut in cuts {
        match last.last_mut() {
            Some(previous) if previous.transcript == cut.transcript => *previous = cut,
            _ => last.push(cut),
        }
    }
    last
}

fn shown_rows<'a>(report: &'a EvalReport, cut: &'a PageCut) -> impl Iterator<Item = &'a PageRow> {
    cut.rows.iter().filter(|row| report.strategies.get(row.row).is_some_and(|row| !is_fixed_control(row)))
}

fn ribbon(report: &EvalReport, cut: &PageCut, row: &PageRow, left: &mut usize) -> Markup {
    let arcs: Vec<RibbonArc> = row
        .uses
        .iter()
        .map(|used| RibbonArc { source: used.source, later_use: used.use_event, is_lost: !used.kept })
        .collect();
    let blocks = blocks(cut, row);
    let lost = arcs.iter().filter(|arc| arc.is_lost).count();
    let name = label(report, row.row);
    let summary = format!(
        "{name}: {} of {} events are changed, {lost} of {} later uses are lost",
        row.shown.iter().filter(|shown| **shown != Shown::Kept).count(),
        cut.prefix,
        arcs.len(),
    );
    let elements = blocks.len() + arcs.len();
    if elements > *left || elements > ELEMENTS_MAX {
        return html! { p.muted { (summary) ". The ribbon has " (elements) " parts, too many for a page." } };
    }
    *left -= elements;
    html! {
        figure {
            @if let Some(svg) = draw(&blocks, &arcs, &summary) { (svg) }
            figcaption {
                code { (name) } ": " (grouped(row.tokens_before)) " tokens before the cut become "
                (grouped(row.tokens_after)) "; " (lost) " of " (arcs.len()) " later uses are lost."
            }
        }
    }
}

/// Returns the events of the prefix with their states, and the events after the cut.
fn blocks(cut: &PageCut, row: &PageRow) -> Vec<RibbonBlock> {
    let state = |index: usize| match row.shown.get(index) {
        _ if index >= cut.prefix => "future",
        Some(shown) => state_name(*shown),
        None => "kept",
    };
    let events = cut.events.iter().enumerate();
    events
        .map(|(index, event)| RibbonBlock {
            kind: kind_name(event.kind),
            tokens: event.tokens,
            state: state(index),
        })
        .collect()
}

/// Returns the state of an event in the view: the word in the legend, and the class in `style.css`.
fn state_name(shown: Shown) -> &'static str {
    match shown {
        Shown::Kept => "kept",
        Shown::Shortened(_) => "shortened",
        Shown::Removed => "removed",
        Shown::Summarized => "summarized",
    }
}

pub(crate) fn kind_name(kind: PageEventKind) -> &'static str {
    match kind {
        PageEventKind::User => "user",
        PageEventKind::Assistant => "assistant",
        PageEventKind::Reasoning => "reasoning",
        PageEventKind::Call => "tool call",
        PageEventKind::Result => "tool result",
    }
}
