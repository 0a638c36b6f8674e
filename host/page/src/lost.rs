//! The list of texts that the view no longer has although a later event used them: the text, its source, and its use.
//! Names come first, then commands, errors, and words, then passages (the class `quote`). The overlapping passages of
//! one use are one entry, because they would otherwise fill the list. A use or a constraint that is lost at several
//! cuts is one entry, too.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use jp_compact_eval::page::{PageConstraint, PageCut, PageEvent, PageRow, PageUse};
use jp_compact_schema::document::EvalReport;
use maud::{Markup, html};

use crate::Texts;
use crate::frame::scrollable;
use crate::ribbons::kind_name;
use crate::text::{block, grouped, inline};

/// The maximum number of lost texts in the list.
const LOST_MAX: usize = 150;
/// The maximum number of characters of a lost text in a line.
const LINE_CHARS: usize = 160;

/// The classes in the order of the list.
const ORDER: [&str; 7] = ["path", "number", "identifier", "command", "error", "word", "quote"];

/// An entry of the list.
struct Lost<'a> {
    cut: &'a PageCut,
    used: &'a PageUse,
    /// The number of further passages with this source and this use.
    further: usize,
}

/// Returns the lost uses of the rows, in order.
fn lost_uses<'a>(rows: impl Iterator<Item = (&'a PageCut, &'a PageRow)>) -> Vec<Lost<'a>> {
    let mut entries: Vec<Lost<'a>> = Vec::new();
    let mut indexes = HashMap::new();
    let mut seen = HashSet::new();
    for (cut, row) in rows {
        for used in row.uses.iter().filter(|used| !used.kept) {
            let events = (cut.transcript, used.source, used.use_event);
            if !seen.insert((events, used.class, used.text.as_str())) {
                continue;
            }
            // All passages of a source and a use have the same key.
            let key = if used.class == "quote" { "" } else { used.text.as_str() };
            match indexes.entry((events, used.class, key)) {
                Entry::Occupied(index) => {
                    let entry: &mut Lost<'_> = &mut entries[*index.get()];
                    entry.further += 1;
                }
                Entry::Vacant(slot) => {
                    slot.insert(entries.len());
                    entries.push(Lost { cut, used, further: 0 });
                }
            }
        }
    }
    entries.sort_by_key(|entry| ORDER.iter().position(|class| *class == entry.used.class));
    entries
}

pub(crate) fn section(report: &EvalReport, cuts: &[PageCut], best: usize, texts: Texts) -> Markup {
    let rows = || {
        cuts.iter().flat_map(move |cut| {
            cut.rows.iter().filter(move |row| row.row == best).map(move |row| (cut, row))
        })
    };
    let lost = lost_uses(rows());
    let count: usize = lost.iter().map(|entry| 1 + entry.further).sum();
    let table = html! {
        table {
            thead { tr { th { "class" } @if texts == Texts::Shown { th { "text" } } th { "source" } th { "used in" } } }
            tbody { @for entry in lost.iter().take(LOST_MAX) { (lost_row(entry, texts)) } }
        }
    };
    html! {
        @if count == 0 {
            p { "The view has all texts that were used later." }
        } @else {
            p {
                @if count == 1 { "1 use is lost." } @else { (grouped(count as u64)) " uses are lost." }
                @if lost.len() > LOST_MAX {
                    " The list has the first " (LOST_MAX) " of " (grouped(lost.len() as u64)) " entries."
                }
                @if lost.len() < count { " The overlapping passages of one use are one entry." }
                @if report.transcripts.len() > 1 { " The number of the transcript precedes the number of the event." }
            }
            (scrollable("Texts that the view no longer has", &table))
        }
        (constraints(rows(), texts))
    }
}

fn lost_row(entry: &Lost<'_>, texts: Texts) -> Markup {
    let Lost { cut, used, further } = *entry;
    html! {
        tr {
            td { (used.class) @if further > 0 { " and " (further) " more" } }
            @if texts == Texts::Shown { td.lost-text { (inline(&used.text, LINE_CHARS)) } }
            td { (event(cut, used.source, texts)) }
            td { (event(cut, used.use_event, texts)) }
        }
    }
}

/// Returns the position of an event. If the page has texts, a click on the position opens the text of the event.
fn event(cut: &PageCut, index: usize, texts: Texts) -> Markup {
    let Some(event) = cut.events.get(index) else { return html! {} };
    html! {
        @if texts == Texts::Shown && !event.excerpt.is_empty() {
            details { summary { (position(cut, index, event)) } (excerpt(event)) }
        } @else { (position(cut, index, event)) }
    }
}

fn position(cut: &PageCut, index: usize, event: &PageEvent) -> Markup {
    html! {
        (cut.transcript) "." (index) " " (kind_name(event.kind))
        @if let Some(tool) = &event.tool { " " (inline(tool, 40)) }
        ", turn " (event.turn) @if let Some(step) = event.step { "." (step) }
    }
}

fn excerpt(event: &PageEvent) -> Markup {
    let hidden = event.chars.saturating_sub(event.excerpt.chars().count());
    html! {
        (block(&event.excerpt))
        @if hidden > 0 { p.muted { (grouped(hidden as u64)) " more characters" } }
    }
}

/// Returns the lost constraints of the rows.
fn lost_constraints<'a>(
    rows: impl Iterator<Item = (&'a PageCut, &'a PageRow)>,
) -> Vec<(&'a PageCut, &'a PageConstraint)> {
    let lost =
        rows.flat_map(|(cut, row)| row.lost_constraints.iter().map(move |constraint| (cut, constraint)));
    let mut seen = HashSet::new();
    lost.filter(|(cut, lost)| seen.insert((cut.transcript, lost.source, lost.text.as_str()))).collect()
}

fn constraints<'a>(rows: impl Iterator<Item = (&'a PageCut, &'a PageRow)>, texts: Texts) -> Markup {
    let lost = lost_constraints(rows);
    html! {
        @if !lost.is_empty() {
            h3 { "Constraints of the user that the view no longer has: " (lost.len()) }
            @if texts == Texts::Shown {
                ul {
                    @for (cut, constraint) in lost.iter().take(LOST_MAX) {
                        li { (inline(&constraint.text, LINE_CHARS)) " " (event(cut, constraint.source, texts)) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(class: &'static str, text: &str, source: usize) -> PageUse {
        PageUse { class, text: text.to_owned(), source, use_event: 9, kept: false }
    }

    #[test]
    fn names_come_first_and_passages_of_one_use_are_one_entry() {
        let uses = vec![
            used("quote", "a b", 1),
            used("quote", "b c", 1),
            used("word", "parser", 1),
            used("quote", "x y", 2),
            used("path", "a.rs", 2),
        ];
        let cut = |cut| PageCut { transcript: 0, cut, events: Vec::new(), prefix: 0, rows: Vec::new() };
        let (first, second) = (cut(0), cut(1));
        let row = PageRow { uses, ..PageRow::default() };
        let entries = lost_uses([(&first, &row), (&second, &row)].into_iter());
        let found: Vec<_> = entries.iter().map(|entry| (entry.used.text.as_str(), entry.further)).collect();
        assert_eq!(found, [("a.rs", 0), ("parser", 0), ("a b", 1), ("x y", 0)]);
    }
}
