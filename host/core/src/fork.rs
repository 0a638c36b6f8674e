//! A stream cut to its last turns, for a copy of it: the bytes of the events that stay, and the overlays with their
//! ranges and seqs counted from the first of them (RFD 064, "The `--compact` Flag on `fork`").
//!
//! Of what stands before the cut only config deltas stay, in their place, so that the configuration is the same.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::event::Kind;
use crate::halves::Halves;
use crate::json::{Scanner, Span};
use crate::overlay::{Overlay, ToolPolicy};
use crate::pairs::Pairs;
use crate::splice::{self, Element, Piece};
use crate::stream::Stream;
use crate::text;
use crate::turn::TurnRange;

/// A stream cut to its last turns.
#[derive(Debug, Clone, PartialEq)]
pub struct Fork {
    /// Its bytes.
    pub pieces: Vec<Piece>,
    /// How many turns are left out.
    pub cut: usize,
    /// What became of each overlay, in their order.
    pub overlays: Vec<Fate>,
}

/// What becomes of an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It stays: all its turns do.
    Kept,
    /// It stays for those of its turns that do.
    Clipped,
    /// It goes with its turns.
    Gone,
    /// Its summary goes, for it tells of turns that go. What else it says stays for the turns that do.
    Cut,
}

/// Cuts a stream to its last turns. As many as there are, or none said, are the very bytes.
#[must_use]
pub fn fork(stream: &Stream, last: Option<usize>) -> Fork {
    let cut = last.map_or(0, |last| stream.turns().saturating_sub(last));
    if cut == 0 {
        let pieces = vec![Piece::Old(0..stream.bytes().len())];
        return Fork { pieces, cut, overlays: vec![Fate::Kept; stream.overlays().len()] };
    }
    let events = stream.events();
    let is_selective = |overlay: &Overlay| matches!(overlay.tool_calls, Some(ToolPolicy::Selective(_)));
    let pairs = stream.overlays().iter().any(is_selective).then(|| Pairs::of(stream));
    let cutting = Cutting {
        stream,
        halves: pairs.as_ref().map(|pairs| Halves::of(stream, pairs)),
        cut,
        // The numbered events that go come before all that stay, for turns only grow.
        seqs: stream.numbered().filter(|(_, element)| events[*element].turn < cut).count() as u64,
    };
    let mut overlays = Vec::with_capacity(stream.overlays().len());
    let mut changed = HashMap::new();
    let mut stamped = HashSet::new();
    for overlay in stream.overlays() {
        let (fate, bytes) = cutting.overlay(overlay);
        overlays.push(fate);
        if let Some(bytes) = bytes {
            changed.insert(overlay.element, bytes);
            stamped.insert((overlay.stamp, overlay.from_turn, overlay.to_turn));
        }
    }
    for (element, event) in events.iter().enumerate().filter(|(_, event)| event.kind == Kind::Receipt) {
        let range = stream.value(event.span).and_then(|value| range(&value));
        let Some(((from, to), at)) = range.zip(event.timestamp) else { continue };
        if stamped.contains(&(at, from, to)) {
            changed.insert(element, cutting.element(event.span, from, to, |_| None));
        }
    }
    let elements = events.iter().enumerate().filter_map(|(element, event)| match event.kind {
        Kind::Compaction | Kind::Overlay | Kind::Receipt => {
            changed.remove(&element).map(|bytes| Element::Patched(element, event.span, bytes))
        }
        Kind::ConfigDelta => Some(Element::Old(element)),
        _ => (event.turn >= cut).then_some(Element::Old(element)),
    });
    Fork { pieces: splice::array(stream.index(), elements), cut, overlays }
}

/// What becomes of one member of an element.
enum Edit {
    Replace(String),
    Remove,
}

struct Cutting<'a> {
    stream: &'a Stream,
    /// Present where an overlay lists single calls.
    halves: Option<Halves<'a>>,
    cut: usize,
    /// How many numbered events go.
    seqs: u64,
}

impl Cutting<'_> {
    /// What becomes of an overlay, and its bytes where it stays.
    fn overlay(&self, overlay: &Overlay) -> (Fate, Option<Vec<u8>>) {
        let &Overlay { from_turn: from, to_turn: to, .. } = overlay;
        if to < self.cut {
            return (Fate::Gone, None);
        }
        let (cuts, has_summary) = (from < self.cut, overlay.summary.is_some());
        let fate = match (cuts, has_summary) {
            (false, _) => Fate::Kept,
            (true, false) => Fate::Clipped,
            (true, true) => Fate::Cut,
        };
        let span = self.stream.events()[overlay.element].span;
        let calls = match &overlay.tool_calls {
            Some(ToolPolicy::Selective(_)) => self.calls(overlay, span),
            _ => None,
        };
        let silent = calls.as_ref().is_some_and(|(_, left)| *left == 0);
        if cuts && overlay.kinds().len() == usize::from(fate == Fate::Cut) + usize::from(silent) {
            // Nothing that it says is about a turn that stays.
            return (if has_summary { Fate::Cut } else { Fate::Gone }, None);
        }
        let bytes = self.element(span, from, to, |name| match name {
            "summary" if fate == Fate::Cut => Some(Edit::Remove),
            "tool_calls" => calls.as_ref().map(|(calls, _)| Edit::Replace(calls.clone())),
            _ => None,
        });
        (fate, Some(bytes))
    }

    /// The `tool_calls` of a `selective` with the calls that stay, and how many those are. An entry without effect goes:
    /// it would have none in the fork either.
    fn calls(&self, overlay: &Overlay, span: Span) -> Option<(String, usize)> {
        let Some(ToolPolicy::Selective(stored)) = &overlay.tool_calls else { return None };
        let halves = self.halves.as_ref()?;
        let left = TurnRange::new(overlay.from_turn.max(self.cut), overlay.to_turn)?;
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
        // Two deep in JP's layout; a string holds no raw newline.
        let text = serde_json::to_string_pretty(&policy).unwrap_or_default();
        Some((text.replace('\n', "\n    "), left))
    }

    /// The bytes of an overlay or a receipt with its range in new numbers, and what `edit` says of other members.
    /// All else is the same bytes.
    fn element(&self, element: Span, from: usize, to: usize, edit: impl Fn(&str) -> Option<Edit>) -> Vec<u8> {
        let bytes = self.stream.bytes();
        let mut members = Vec::new();
        // The index has passed over it already.
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
            let edit = match &*text::unquote(key.of(bytes)) {
                "from_turn" => Some(Edit::Replace(from.saturating_sub(self.cut).to_string())),
                "to_turn" => Some(Edit::Replace(to.saturating_sub(self.cut).to_string())),
                name => edit(name),
            };
            if matches!(edit, Some(Edit::Remove)) {
                continue;
            }
            // The first that is left stands where the first stood.
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

/// The range that an element bears.
fn range(element: &Value) -> Option<(usize, usize)> {
    let bound = |name: &str| usize::try_from(element.get(name)?.as_u64()?).ok();
    Some((bound("from_turn")?, bound("to_turn")?))
}
