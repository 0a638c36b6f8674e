//! The conversion of results into the data of the page: the events of a cut, their state in a view,
//! and the later uses.

use jp_compact_core::View;
use jp_compact_core::view::Part;
use jp_compact_evidence::event_text::{TextRole, element_text};
use jp_compact_evidence::session::SeenView;

use crate::page::{EXCERPT_CHARS, PageConstraint, PageEvent, PageEventKind, PageRow, PageUse, Shown};
use crate::subject::{Subject, SubjectCut};

/// Returns the events of a transcript.
pub(crate) fn events(subject: &Subject<'_>) -> Vec<PageEvent> {
    let session = &subject.session;
    let page_event = |(number, event): (usize, &jp_compact_evidence::session::SessionEvent)| {
        let text = element_text(session.stream, event.element);
        let kind = match event.role {
            TextRole::User => PageEventKind::User,
            TextRole::Assistant => PageEventKind::Assistant,
            TextRole::Reasoning => PageEventKind::Reasoning,
            TextRole::Call => PageEventKind::Call,
            TextRole::Result => PageEventKind::Result,
        };
        PageEvent {
            turn: event.turn,
            step: event.step,
            kind,
            tool: session.tool(number),
            tokens: subject.event_tokens[number],
            excerpt: text.chars().take(EXCERPT_CHARS).collect(),
            chars: event.chars,
        }
    };
    session.events.iter().enumerate().map(page_event).collect()
}

/// Returns the row of a control that shows the first events of a prefix.
pub(crate) fn control_row(subject: &Subject<'_>, cut: &SubjectCut, shown: usize, seen: &SeenView) -> PageRow {
    let state = |event| if event < shown { Shown::Kept } else { Shown::Removed };
    let states = (0..cut.cut.events).map(state).collect();
    row(subject, cut, states, seen, subject.tokens_between(0, shown))
}

pub(crate) fn strategy_row(
    subject: &Subject<'_>,
    cut: &SubjectCut,
    view: &View,
    seen: &SeenView,
    tokens_after: u64,
) -> PageRow {
    let session = &subject.session;
    let mut states = vec![Shown::Removed; cut.cut.events];
    let summaries: Vec<_> = view.items().iter().filter_map(|item| item.origin.summarized()).collect();
    for (event, state) in states.iter_mut().enumerate() {
        let element = session.events[event].element;
        if summaries.iter().any(|range| session.stream.is_in(*range, element)) {
            *state = Shown::Summarized;
        }
    }
    for item in view.items() {
        let Some(event) = item.part.element().and_then(|element| session.event_of(element)) else { continue };
        states[event] = match &item.part {
            Part::Emptied(_) => Shown::Shortened(0),
            Part::Replaced(_, text) => Shown::Shortened(subject.estimator.tokens(text)),
            _ => Shown::Kept,
        };
    }
    row(subject, cut, states, seen, tokens_after)
}

fn row(
    subject: &Subject<'_>,
    cut: &SubjectCut,
    shown: Vec<Shown>,
    seen: &SeenView,
    tokens_after: u64,
) -> PageRow {
    let session = &subject.session;
    let mut uses: Vec<PageUse> = Vec::with_capacity(cut.at_risk.len());
    for (anchor, text) in cut.at_risk.iter().zip(&cut.texts) {
        uses.push(PageUse {
            class: session.class(anchor.id).as_str(),
            text: text.clone(),
            source: anchor.source,
            use_event: anchor.use_event,
            kept: seen.contains(anchor.id),
        });
    }
    uses.sort_by_key(|anchor| (anchor.use_event, anchor.source));
    let in_prefix = session.constraints.iter().filter(|constraint| constraint.event < cut.cut.events);
    let lost = in_prefix.filter(|constraint| !seen.has_constraint(constraint));
    PageRow {
        row: 0,
        shown,
        tokens_before: subject.tokens_between(0, cut.cut.events),
        tokens_after,
        uses,
        lost_constraints: lost
            .map(|constraint| PageConstraint { text: constraint.text.clone(), source: constraint.event })
            .collect(),
    }
}
