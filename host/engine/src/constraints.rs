//! The constraints that a view lost: sentences in which the user sets a rule (PROTOCOL.md, "Kept verbatim"). A constraint is
//! kept if one event of the view has the whole sentence.

use std::collections::HashSet;

use jp_compact_core::decode;
use jp_compact_core::event::Kind;
use jp_compact_core::stream::Stream;
use jp_compact_core::turn::TurnRange;
use jp_compact_core::view::View;
use jp_compact_evidence::constraint::Sentences;
use jp_compact_schema::{SUMMARY_REQUEST, constraints};
use serde_json::Value;

/// A constraint that a view lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostConstraint {
    /// The turn of the user's message.
    pub turn: usize,
    pub sentence: String,
}

/// The range of an overlay of a result, and whether the overlay has a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactedRange {
    pub range: TurnRange,
    pub is_summarized: bool,
}

/// Returns the constraints that are in the ranges but not in the new view, in order. A constraint that the old view
/// also lacks counts only if it is in the range of a new summary.
#[must_use]
pub fn lost_constraints(
    stream: &Stream,
    ranges: &[CompactedRange],
    (old_view, new_view): (&View, &View),
) -> Vec<LostConstraint> {
    let (mut candidates, mut known): (Vec<(LostConstraint, bool)>, _) = (Vec::new(), HashSet::new());
    for (element, event) in stream.events().iter().enumerate() {
        let compacted = || ranges.iter().filter(|compacted| stream.is_in(compacted.range, element));
        if compacted().next().is_none() {
            continue;
        }
        let is_summarized = compacted().any(|compacted| compacted.is_summarized);
        let text = match event.kind {
            Kind::ChatRequest => message_of_user(stream, element),
            Kind::Message => copied_summary(stream, element),
            _ => None,
        };
        let Some(message) = text else { continue };
        for sentence in constraints(&message) {
            if known.insert(sentence.to_owned()) {
                let constraint = LostConstraint { turn: event.turn, sentence: sentence.to_owned() };
                candidates.push((constraint, is_summarized));
            }
        }
    }
    // The sentences differ, so their numbers are their positions.
    let (sentences, _) = Sentences::new(candidates.iter().map(|(constraint, _)| &*constraint.sentence));
    let is_kept = kept_sentences(&sentences, candidates.len(), stream, new_view);
    if is_kept.iter().all(|kept| *kept) {
        return Vec::new();
    }
    let was_kept = kept_sentences(&sentences, candidates.len(), stream, old_view);
    let kept = is_kept.into_iter().zip(was_kept);
    // A sentence that the old view lacks is lost only if it is in the range of a new summary.
    let lost = candidates
        .into_iter()
        .zip(kept)
        .filter(|((_, is_summarized), (is_kept, was_kept))| !is_kept && (*is_summarized || *was_kept));
    lost.map(|((constraint, _), _)| constraint).collect()
}

/// Returns the text of a message that the user wrote, or that replaces steps in a copy of a compacted transcript. An
/// attachment does not count.
fn message_of_user(stream: &Stream, element: usize) -> Option<String> {
    let event = decode::raw(stream, element)?;
    let is_attachment = event.get("metadata").is_some_and(|metadata| metadata.get("attachment").is_some());
    let content = event.get("content")?.as_str()?;
    (!is_attachment).then(|| content.to_owned())
}

/// Returns the text of an answer if it is the summary of turns in a copy of a compacted transcript. It represents
/// messages of the user that the copy lacks.
fn copied_summary(stream: &Stream, element: usize) -> Option<String> {
    let request = element.checked_sub(1)?;
    let is_request = stream.events().get(request)?.kind == Kind::ChatRequest;
    if !is_request || message_of_user(stream, request)? != SUMMARY_REQUEST {
        return None;
    }
    Some(decode::raw(stream, element)?.get("message")?.as_str()?.to_owned())
}

/// Returns which sentences an event of a view has.
fn kept_sentences(sentences: &Sentences, count: usize, stream: &Stream, view: &View) -> Vec<bool> {
    let mut kept = vec![false; count];
    if kept.is_empty() {
        return kept;
    }
    for item in view.items() {
        let Some(event) = item.part.event(stream) else { continue };
        event.values().for_each(|value| {
            visit_texts(value, &mut |text| {
                sentences.for_each_in(text, |sentence| kept[sentence as usize] = true);
            });
        });
    }
    kept
}

fn visit_texts(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(values) => values.iter().for_each(|value| visit_texts(value, visit)),
        Value::Object(members) => members.values().for_each(|value| visit_texts(value, visit)),
        _ => {}
    }
}
