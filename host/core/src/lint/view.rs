//! The rules for views, which hold for all providers (G1 to G5). G6 is checked on request bodies only, because a view
//! ends with the assistant until the user writes again.

use super::{Rule, Violation};
use crate::event::Kind;
use crate::open;
use crate::overlay::{Overlay, ToolPolicy};
use crate::pairs::Pairs;
use crate::render::ViewPosition;
use crate::stream::Stream;
use crate::turn::TurnRange;
use crate::view::{Item, Part, View};
use jp_compact_json::Span;

/// Checks the view of a stream. `view` must be the projection of `stream` with `overlays`.
#[must_use]
pub fn check_view(stream: &Stream, overlays: &[Overlay], view: &View) -> Vec<Violation> {
    check_view_with_pairs(stream, &Pairs::new(stream), overlays, view)
}

/// Same as [`check_view()`], with pairs that the caller has computed.
#[must_use]
pub fn check_view_with_pairs(
    stream: &Stream,
    pairs: &Pairs,
    overlays: &[Overlay],
    view: &View,
) -> Vec<Violation> {
    let mut shown = vec![false; stream.events().len()];
    view.items().iter().filter_map(|item| item.part.element()).for_each(|element| shown[element] = true);
    let shown_partner = |element| pairs.partner(element).filter(|partner| shown[*partner]);
    let mut violations = check_pairs(stream, view, shown_partner);
    violations.extend(check_answers(stream, view, shown_partner));
    violations.extend(check_ranges(stream, overlays, pairs));
    violations.extend(check_summaries(stream, view));
    violations.extend(check_texts(stream, view));
    violations
}

fn position(stream: &Stream, item: &Item) -> ViewPosition {
    let event = item.part.element().and_then(|element| stream.events()[element].seq);
    ViewPosition { turn: Some(item.origin.turn()), event }
}

/// Checks G1: each tool request in the view has a response, and each response has a request. `partner` returns the other
/// half of a call if the view shows it.
fn check_pairs(stream: &Stream, view: &View, partner: impl Fn(usize) -> Option<usize>) -> Vec<Violation> {
    let violations = view.items().iter().filter_map(|item| {
        let element = item.part.element().filter(|element| partner(*element).is_none())?;
        let event = &stream.events()[element];
        let id = || stream.text(event.id);
        let message = match event.kind {
            Kind::ToolRequest => format!("the tool request `{}` has no response", id()),
            Kind::ToolResponse { .. } => format!("the tool response `{}` has no request", id()),
            _ => return None,
        };
        Some(Violation::new(Rule::G1, position(stream, item), message))
    });
    violations.collect()
}

/// Checks G2: if a call of a message is answered, all calls of the message are answered before the next message.
fn check_answers(stream: &Stream, view: &View, partner: impl Fn(usize) -> Option<usize>) -> Vec<Violation> {
    let mut violations = Vec::new();
    // The calls of the last message, if their responses come later in the view.
    let mut waiting: Vec<(usize, &Item)> = Vec::new();
    let mut has_response = false;
    for item in view.items() {
        let element = item.part.element();
        let kind = match &item.part {
            Part::SummaryStart { .. } => continue,
            Part::SummaryRequest { .. } | Part::SummaryNote { .. } => Kind::ChatRequest,
            _ => element.map_or(Kind::Message, |element| stream.events()[element].kind),
        };
        if let (Kind::ToolResponse { .. }, Some(element)) = (kind, element) {
            let previous_len = waiting.len();
            waiting.retain(|(call, _)| partner(element) != Some(*call));
            has_response |= waiting.len() < previous_len;
            continue;
        }
        if !kind.is_provider_visible() {
            continue;
        }
        if has_response || kind == Kind::ChatRequest {
            violations.extend(waiting.drain(..).map(|(call, item)| {
                let id = stream.text(stream.events()[call].id);
                let message =
                    format!("the response to `{id}` does not directly follow the message with the call");
                Violation::new(Rule::G2, position(stream, item), message)
            }));
            has_response = false;
        }
        if let (Kind::ToolRequest, Some(element)) = (kind, element)
            && partner(element).is_some()
        {
            waiting.push((element, item));
        }
    }
    violations
}

/// Checks G3: no overlay splits a tool call or covers the open turn.
fn check_ranges(stream: &Stream, overlays: &[Overlay], pairs: &Pairs) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, overlay) in (1..).zip(overlays) {
        let Some(range) = overlay.effective_range(stream.turns()) else { continue };
        let mut report = |turn, message| {
            let position = ViewPosition { turn: Some(turn), event: None };
            violations.push(Violation::new(Rule::G3, position, message));
        };
        if let Some((request, response)) = pairs.split_by(stream, range) {
            let message = format!(
                "overlay {number} ({range}) splits a tool call between turns {request} and {response}"
            );
            report(request, message);
        }
        // A selective policy may list answered calls of an open turn.
        let is_selective = matches!(overlay.tool_calls, Some(ToolPolicy::Selective(_)))
            && overlay.summary.is_none()
            && overlay.reasoning.is_none();
        let last = stream.turns().saturating_sub(1);
        let covers_open_part =
            range.contains(last) && !is_selective && !ends_with_closed_step(stream, pairs, range);
        let open_reason = || open::open_reason(stream, pairs, overlay.summary.is_some());
        if let Some(reason) = covers_open_part.then(open_reason).flatten() {
            report(last, format!("overlay {number} ({range}) covers turn {last}, which is open: {reason}"));
        }
    }
    violations
}

/// Returns whether a range ends with a closed step of the last turn. Closed steps of an open turn may be compacted.
fn ends_with_closed_step(stream: &Stream, pairs: &Pairs, range: TurnRange) -> bool {
    range.end().step.is_some_and(|step| step < open::closed_steps(stream, pairs))
}

/// Checks G4: the synthetic messages of a summary are a pair at the start of a turn.
fn check_summaries(stream: &Stream, view: &View) -> Vec<Violation> {
    let mut violations = Vec::new();
    // The turn of the last item so far that a provider receives.
    let mut visible_turn = None;
    for (index, item) in view.items().iter().enumerate() {
        if let Part::SummaryRequest { .. } = item.part {
            let next = view.items().get(index + 1).map(|next| &next.part);
            let is_pair = matches!(next, Some(Part::SummaryResponse { .. }));
            if !is_pair || visible_turn == Some(item.turn) {
                let message = "a summary is not at the start of a turn";
                violations.push(Violation::new(Rule::G4, position(stream, item), message));
            }
        }
        let is_visible = match item.part.element() {
            Some(element) => stream.events()[element].kind.is_provider_visible(),
            None => !matches!(item.part, Part::SummaryStart { .. }),
        };
        if is_visible {
            visible_turn = Some(item.turn);
        }
    }
    violations
}

/// Checks G5: no text is blank. An empty tool response is valid, but compaction must not make a response empty.
fn check_texts(stream: &Stream, view: &View) -> Vec<Violation> {
    let violations = view.items().iter().filter_map(|item| {
        let (subject, is_blank) = match &item.part {
            Part::Kept(element) | Part::Short(element) => {
                let event = &stream.events()[*element];
                match event.kind {
                    Kind::ChatRequest => ("the request", is_stored_blank(stream, event.body)),
                    Kind::Message => ("the message", is_stored_blank(stream, event.body)),
                    _ => return None,
                }
            }
            Part::Replaced(element, text) => {
                let original = || stream.stored_text(stream.events()[*element].body);
                ("the tool's response", text.trim().is_empty() && !original().trim().is_empty())
            }
            Part::SummaryResponse { text, .. } | Part::SummaryNote { text, .. } => {
                ("the summary", text.trim().is_empty())
            }
            _ => return None,
        };
        is_blank.then(|| Violation::new(Rule::G5, position(stream, item), format!("{subject} is blank")))
    });
    violations.collect()
}

/// Returns whether a stored text is blank. Usually the first byte decides, so the text is not decoded.
fn is_stored_blank(stream: &Stream, body: Span) -> bool {
    match stream.bytes_at(body).get(1) {
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
        let request = r#"{"type":"chat_request","timestamp":"2026-04-02 09:00:00.0","content":"q"}"#;
        let stream = Stream::parse(format!("[{request}]").into()).unwrap();
        let origin = |part: &Part| match part {
            Part::Kept(_) => ItemOrigin::Kept(0),
            _ => ItemOrigin::Summary { from: 0, to: 0, from_step: None, to_step: None },
        };
        let items = items.iter().cloned();
        let items = items.map(|(turn, part)| Item { turn, origin: origin(&part), part }).collect();
        let violations = check_view(&stream, &[], &View { items });
        let rules: Vec<_> = violations.iter().map(|violation| violation.rule).collect();
        assert_eq!(rules, expected);
    }

    #[test]
    fn g4_rejects_pairs_inside_a_turn() {
        let timestamp = Timestamp::UNIX_EPOCH;
        let (kept, start) = (Part::Kept(0), Part::SummaryStart { timestamp });
        let (request, response) =
            (Part::SummaryRequest { timestamp }, Part::SummaryResponse { timestamp, text: "S".into() });
        let pair = |turn| [(turn, start.clone()), (turn, request.clone()), (turn, response.clone())];
        check(&[&pair(0)[..], &[(1, kept.clone())], &pair(2)].concat(), &[]);
        check(&[&[(0, kept.clone())][..], &pair(0)].concat(), &[Rule::G4]);
        check(&[(0, start), (0, request), (0, kept)], &[Rule::G4]);
    }
}
