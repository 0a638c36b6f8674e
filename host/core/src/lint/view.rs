//! The rules that all providers share, checked on a view (G1 to G5). G6 concerns a request, so it is checked on request
//! bodies instead.

use super::{Rule, Violation};
use crate::event::Kind;
use crate::json::Span;
use crate::open;
use crate::overlay::{Overlay, ToolPolicy};
use crate::pairs::Pairs;
use crate::render::ViewPosition;
use crate::stream::Stream;
use crate::turn::TurnRange;
use crate::view::{Item, Part, View};

/// Checks the view of a stream with `overlays`.
#[must_use]
pub fn view(stream: &Stream, overlays: &[Overlay], view: &View) -> Vec<Violation> {
    view_of(stream, &Pairs::new(stream), overlays, view)
}

/// Same as [`view()`], with known pairs.
#[must_use]
pub fn view_of(stream: &Stream, pairs: &Pairs, overlays: &[Overlay], view: &View) -> Vec<Violation> {
    let mut shown = vec![false; stream.events().len()];
    view.items().iter().filter_map(|item| item.part.element()).for_each(|element| shown[element] = true);
    let partner = |element| pairs.partner(element).filter(|partner| shown[*partner]);
    let mut violations = paired(stream, view, partner);
    violations.extend(together(stream, view, partner));
    violations.extend(ranges(stream, overlays, pairs));
    violations.extend(summaries(stream, view));
    violations.extend(texts(stream, view));
    violations
}

fn place(stream: &Stream, item: &Item) -> ViewPosition {
    let event = item.part.element().and_then(|element| stream.events()[element].seq);
    ViewPosition { turn: Some(item.origin.turn()), event }
}

/// Checks G1.
fn paired(stream: &Stream, view: &View, partner: impl Fn(usize) -> Option<usize>) -> Vec<Violation> {
    let alone = view.items().iter().filter_map(|item| {
        let element = item.part.element().filter(|element| partner(*element).is_none())?;
        let event = &stream.events()[element];
        let id = || stream.text(event.id);
        let message = match event.kind {
            Kind::ToolRequest => format!("the tool request `{}` has no response", id()),
            Kind::ToolResponse { .. } => format!("the tool response `{}` has no request", id()),
            _ => return None,
        };
        Some(Violation::new(Rule::G1, place(stream, item), message))
    });
    alone.collect()
}

/// Checks G2: after the first response to a message, all its calls are answered before any other message.
fn together(stream: &Stream, view: &View, partner: impl Fn(usize) -> Option<usize>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut waiting: Vec<(usize, &Item)> = Vec::new();
    let mut answering = false;
    for item in view.items() {
        let element = item.part.element();
        let kind = match &item.part {
            Part::SummaryStart { .. } => continue,
            Part::SummaryRequest { .. } | Part::SummaryNote { .. } => Kind::ChatRequest,
            _ => element.map_or(Kind::Message, |element| stream.events()[element].kind),
        };
        if let (Kind::ToolResponse { .. }, Some(element)) = (kind, element) {
            let before = waiting.len();
            waiting.retain(|(call, _)| partner(element) != Some(*call));
            answering |= waiting.len() < before;
            continue;
        }
        if !kind.is_provider_visible() {
            continue;
        }
        if answering || kind == Kind::ChatRequest {
            violations.extend(waiting.drain(..).map(|(call, item)| {
                let id = stream.text(stream.events()[call].id);
                let message = format!("the response to `{id}` does not directly follow its message");
                Violation::new(Rule::G2, place(stream, item), message)
            }));
            answering = false;
        }
        if let (Kind::ToolRequest, Some(element)) = (kind, element)
            && partner(element).is_some()
        {
            waiting.push((element, item));
        }
    }
    violations
}

/// Checks G3.
fn ranges(stream: &Stream, overlays: &[Overlay], pairs: &Pairs) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, overlay) in (1..).zip(overlays) {
        let Some(range) = overlay.reach(stream.turns()) else { continue };
        let mut add = |turn, message| {
            let place = ViewPosition { turn: Some(turn), event: None };
            violations.push(Violation::new(Rule::G3, place, message));
        };
        if let Some((request, response)) = pairs.split_by(stream, range) {
            let message = format!(
                "overlay {number}, {range}, splits a tool call between turns {request} and {response}"
            );
            add(request, message);
        }
        // A selective policy may list answered calls of an open turn.
        let by_name = matches!(overlay.tool_calls, Some(ToolPolicy::Selective(_)))
            && overlay.summary.is_none()
            && overlay.reasoning.is_none();
        let last = stream.turns().saturating_sub(1);
        let is_open = || open::open(stream, pairs, overlay.summary.is_some()).is_some();
        if range.contains(last) && !by_name && !ends_closed(stream, pairs, range) && is_open() {
            add(last, format!("overlay {number}, {range}, covers turn {last}, which is still open"));
        }
    }
    violations
}

/// Returns whether a range ends with a closed step of the last turn. These may be compacted in an open turn.
fn ends_closed(stream: &Stream, pairs: &Pairs, range: TurnRange) -> bool {
    range.end().step.is_some_and(|step| step < open::closed_steps(stream, pairs))
}

/// Checks G4.
fn summaries(stream: &Stream, view: &View) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut spoken = None;
    for (at, item) in view.items().iter().enumerate() {
        if let Part::SummaryRequest { .. } = item.part {
            let behind = view.items().get(at + 1).map(|next| &next.part);
            let whole = matches!(behind, Some(Part::SummaryResponse { .. }));
            if !whole || spoken == Some(item.turn) {
                let message = "a summary is not at the start of a turn";
                violations.push(Violation::new(Rule::G4, place(stream, item), message));
            }
        }
        let is_visible = match item.part.element() {
            Some(element) => stream.events()[element].kind.is_provider_visible(),
            None => !matches!(item.part, Part::SummaryStart { .. }),
        };
        if is_visible {
            spoken = Some(item.turn);
        }
    }
    violations
}

/// Checks G5. An empty tool response is valid, but compaction must not empty one.
fn texts(stream: &Stream, view: &View) -> Vec<Violation> {
    let blank = view.items().iter().filter_map(|item| {
        let what = match &item.part {
            Part::Kept(element) | Part::Short(element) => {
                let event = &stream.events()[*element];
                let what = match event.kind {
                    Kind::ChatRequest => "the request",
                    Kind::Message => "the message",
                    _ => return None,
                };
                is_blank(stream, event.body).then_some(what)?
            }
            Part::Replaced(element, text) => {
                let was = || stream.stored_text(stream.events()[*element].body);
                (text.trim().is_empty() && !was().trim().is_empty()).then_some("the tool's response")?
            }
            Part::SummaryResponse { text, .. } | Part::SummaryNote { text, .. } => {
                text.trim().is_empty().then_some("the summary")?
            }
            _ => return None,
        };
        Some(Violation::new(Rule::G5, place(stream, item), format!("{what} is blank")))
    });
    blank.collect()
}

/// Returns whether a stored text is blank. Usually the first byte decides.
fn is_blank(stream: &Stream, body: Span) -> bool {
    match stream.at(body).get(1) {
        Some(first) if first.is_ascii_graphic() && !matches!(first, b'"' | b'\\') => false,
        _ => stream.text(body).trim().is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::view::ItemOrigin;

    #[track_caller]
    fn check(items: &[(usize, Part)], expected: &[Rule]) {
        let ask = r#"{"type":"chat_request","timestamp":"2026-04-02 09:00:00.0","content":"q"}"#;
        let stream = Stream::parse(format!("[{ask}]").into()).unwrap();
        let origin = |part: &Part| match part {
            Part::Kept(_) => ItemOrigin::Kept(0),
            _ => ItemOrigin::Summary { from: 0, to: 0, from_step: None, to_step: None },
        };
        let items = items.iter().cloned();
        let items = items.map(|(turn, part)| Item { turn, origin: origin(&part), part }).collect();
        let found = view(&stream, &[], &View { items });
        assert_eq!(found.iter().map(|found| found.rule).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn g4_rejects_pairs_inside_a_turn() {
        let at = Timestamp::UNIX_EPOCH;
        let (ask, start) = (Part::Kept(0), Part::SummaryStart { at });
        let (request, response) =
            (Part::SummaryRequest { at }, Part::SummaryResponse { at, text: "S".into() });
        let pair = |turn| [(turn, start.clone()), (turn, request.clone()), (turn, response.clone())];
        check(&[&pair(0)[..], &[(1, ask.clone())], &pair(2)].concat(), &[]);
        check(&[&[(0, ask.clone())][..], &pair(0)].concat(), &[Rule::G4]);
        check(&[(0, start), (0, request), (0, ask)], &[Rule::G4]);
    }
}
