//! A fork: a copy of a stream with only its last turns. Events that stay keep their bytes. The ranges and seqs of
//! overlays are counted from the first turn that stays (RFD 064, "The `--compact` Flag on `fork`").
//!
//! Of the elements before the cut only config deltas stay, in place, so the configuration does not change.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::event::Kind;
use crate::halves::Halves;
use crate::json::{Scanner, Span};
use crate::overlay::{Overlay, ToolPolicy};
use crate::pairs::Pairs;
use crate::position::Position;
use crate::source::origin;
use crate::splice::{self, Element, Piece};
use crate::stream::Stream;
use crate::text;
use crate::turn::TurnRange;

#[derive(Debug, Clone, PartialEq)]
pub struct Fork {
    pub pieces: Vec<Piece>,
    /// The number of removed turns.
    pub cut: usize,
    /// The effect on each overlay, in order.
    pub overlays: Vec<ForkEffect>,
}

/// The effect of a fork on an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkEffect {
    /// All of its turns are copied, so it is copied unchanged.
    Kept,
    /// Some of its turns are copied. Its range is reduced to them.
    Clipped,
    /// None of its turns is copied, so it is removed.
    Removed,
    /// Some of its turns are copied. Its summary is removed, because it also describes other turns. Its other policies are
    /// kept for the copied turns.
    SummaryDropped,
}

/// Cuts a stream to its last turns. Without `last`, or if there are no more turns than that, the bytes do not change.
#[must_use]
pub fn fork(stream: &Stream, last: Option<usize>) -> Fork {
    let cut = last.map_or(0, |last| stream.turns().saturating_sub(last));
    if cut == 0 {
        let pieces = vec![Piece::Old(0..stream.bytes().len())];
        return Fork { pieces, cut, overlays: vec![ForkEffect::Kept; stream.overlays().len()] };
    }
    let events = stream.events();
    let is_selective = |overlay: &Overlay| matches!(overlay.tool_calls, Some(ToolPolicy::Selective(_)));
    let pairs = stream.overlays().iter().any(is_selective).then(|| Pairs::new(stream));
    let cutting = Cutting {
        stream,
        halves: pairs.as_ref().map(|pairs| Halves::new(stream, pairs)),
        cut,
        // Turn numbers only grow, so the removed numbered events precede all that stay.
        seqs: stream.numbered().filter(|(_, element)| events[*element].turn < cut).count() as u64,
    };
    let mut overlays = Vec::with_capacity(stream.overlays().len());
    let mut changed = HashMap::new();
    let mut stamped = HashSet::new();
    for overlay in stream.overlays() {
        let (effect, bytes) = cutting.overlay(overlay);
        overlays.push(effect);
        if let Some(bytes) = bytes {
            changed.insert(overlay.element, bytes);
            stamped.insert(origin(stream.index(), overlay.element));
        }
    }
    for (element, event) in events.iter().enumerate().filter(|(_, event)| event.kind == Kind::Receipt) {
        let Some((from, to)) = stream.value(event.span).and_then(|value| range(&value)) else { continue };
        if stamped.contains(&origin(stream.index(), element)) {
            changed.insert(element, cutting.element(event.span, from, to, |_| None));
        }
    }
    let elements = events.iter().enumerate().filter_map(|(element, event)| match event.kind {
        kind if kind.is_overlay() || kind == Kind::Receipt => {
            changed.remove(&element).map(|bytes| Element::Patched(element, event.span, bytes))
        }
        Kind::ConfigDelta => Some(Element::Old(element)),
        _ => (event.turn >= cut).then_some(Element::Old(element)),
    });
    Fork { pieces: splice::array(stream.index(), elements), cut, overlays }
}

/// A change to one member of an element.
enum Edit {
    Replace(String),
    Remove,
}

struct Cutting<'a> {
    stream: &'a Stream,
    /// Present if an overlay lists single calls.
    halves: Option<Halves<'a>>,
    cut: usize,
    /// Number of numbered events that are removed.
    seqs: u64,
}

impl Cutting<'_> {
    /// Returns the effect on an overlay, and its bytes if it stays.
    fn overlay(&self, overlay: &Overlay) -> (ForkEffect, Option<Vec<u8>>) {
        let &Overlay { from_turn: from, to_turn: to, .. } = overlay;
        if to < self.cut {
            return (ForkEffect::Removed, None);
        }
        let (cuts, has_summary) = (from < self.cut, overlay.summary.is_some());
        let effect = match (cuts, has_summary) {
            (false, _) => ForkEffect::Kept,
            (true, false) => ForkEffect::Clipped,
            (true, true) => ForkEffect::SummaryDropped,
        };
        let span = self.stream.events()[overlay.element].span;
        let calls = match &overlay.tool_calls {
            Some(ToolPolicy::Selective(_)) => self.calls(overlay, span),
            _ => None,
        };
        let silent = calls.as_ref().is_some_and(|(_, left)| *left == 0);
        if cuts
            && overlay.kinds().len()
                == usize::from(effect == ForkEffect::SummaryDropped) + usize::from(silent)
        {
            // None of its policies concerns a turn that stays.
            return (if has_summary { ForkEffect::SummaryDropped } else { ForkEffect::Removed }, None);
        }
        let bytes = self.element(span, from, to, |name| match name {
            "summary" if effect == ForkEffect::SummaryDropped => Some(Edit::Remove),
            "tool_calls" => calls.as_ref().map(|(calls, _)| Edit::Replace(calls.clone())),
            _ => None,
        });
        (effect, Some(bytes))
    }

    /// Returns the `tool_calls` of a `selective` policy with only the calls that stay, and their number. Entries
    /// without effect are dropped, because they would have none in the fork either.
    fn calls(&self, overlay: &Overlay, span: Span) -> Option<(String, usize)> {
        let Some(ToolPolicy::Selective(stored)) = &overlay.tool_calls else { return None };
        let halves = self.halves.as_ref()?;
        let range = overlay.range()?;
        let start = if range.from() < self.cut { Position::turn(self.cut) } else { range.start() };
        let left = TurnRange::between(start, range.end())?;
        let mut policy = self.stream.value(span)?.get_mut("tool_calls")?.take();
        let mut entries = stored.iter();
        policy.get_mut("calls")?.as_array_mut()?.retain_mut(|call| {
            let Some(entry) = entries.next() else { return false };
            let Ok(element) = halves.find(overlay, entry) else { return false };
            let event = &self.stream.events()[element];
            let Some(seq) = event.seq.filter(|_| event.turn >= self.cut) else { return false };
            call["seq"] = seq.saturating_sub(self.seqs).into();
            if entry.half.is_some() {
                call["half"] = json!(halves.half(element, left, overlay.element));
            }
            true
        });
        let left = policy.get("calls")?.as_array()?.len();
        // JP indents by two levels here. Strings contain no raw newline.
        let text = serde_json::to_string_pretty(&policy).unwrap_or_default();
        Some((text.replace('\n', "\n    "), left))
    }

    /// Writes an overlay or a receipt with its range renumbered and with the edits that `edit` returns for other
    /// members. All other bytes stay.
    fn element(&self, element: Span, from: usize, to: usize, edit: impl Fn(&str) -> Option<Edit>) -> Vec<u8> {
        let bytes = self.stream.bytes();
        let mut members = Vec::new();
        // Cannot fail: the index has already scanned it.
        let _ = Scanner::at_byte(bytes, element.start).object(1, |scanner, key| {
            members.push((key, scanner.value(2)?));
            Ok(())
        });
        let opening = element.start..members.first().map_or(element.end, |(key, _)| key.start);
        let mut written = bytes[opening.clone()].to_vec();
        let mut behind = opening.end;
        for (key, value) in members {
            let between = &bytes[behind..key.start];
            behind = value.end;
            let edit = match &*text::unquote(key.slice(bytes)) {
                "from_turn" => Some(Edit::Replace(from.saturating_sub(self.cut).to_string())),
                "to_turn" => Some(Edit::Replace(to.saturating_sub(self.cut).to_string())),
                // The turn that it begins in is removed.
                "from_step" if from < self.cut => Some(Edit::Remove),
                name => edit(name),
            };
            if matches!(edit, Some(Edit::Remove)) {
                continue;
            }
            // The first remaining member takes the position of the original first.
            if written.len() > opening.len() {
                written.extend_from_slice(between);
            }
            match edit {
                Some(Edit::Replace(text)) => {
                    written.extend_from_slice(&bytes[key.start..value.start]);
                    written.extend_from_slice(text.as_bytes());
                }
                _ => written.extend_from_slice(&bytes[key.start..value.end]),
            }
        }
        written.extend_from_slice(&bytes[behind..element.end]);
        written
    }
}

/// Returns the range of an overlay or a receipt.
fn range(element: &Value) -> Option<(usize, usize)> {
    let bound = |name: &str| usize::try_from(element.get(name)?.as_u64()?).ok();
    Some((bound("from_turn")?, bound("to_turn")?))
}
