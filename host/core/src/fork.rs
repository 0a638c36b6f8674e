//! A fork: a copy of a stream with only its last turns. Copied events keep their bytes. The ranges and seqs of overlays
//! are renumbered from the first copied turn (RFD 064, "The `--compact` Flag on `fork`").
//!
//! Config deltas of removed turns are copied too, so the configuration does not change.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::event::Kind;
use crate::halves::Halves;
use crate::overlay::{Half, Overlay, ToolPolicy};
use crate::pairs::Pairs;
use crate::position::Position;
use crate::receipts;
use crate::source::overlay_key;
use crate::splice::{self, Element, Piece};
use crate::stream::Stream;
use crate::text;
use crate::turn::TurnRange;
use jp_compact_json::{Scanner, Span};

#[derive(Debug, Clone, PartialEq)]
pub struct Fork {
    pub pieces: Vec<Piece>,
    pub removed_turns: usize,
    /// The effect on each overlay, in order.
    pub effects: Vec<ForkEffect>,
}

/// The effect of a fork on an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkEffect {
    /// All of its turns are copied. It keeps all policies.
    Kept,
    /// Some of its turns are copied. Its range is reduced to them.
    Clipped,
    /// None of its turns is copied, or none of the calls that it selects. It is removed.
    Removed,
    /// Some of its turns are copied. Its summary is removed, because it also describes other turns. Its other policies are
    /// kept for the copied turns.
    SummaryDropped,
}

/// Copies the last turns of a stream. If `last` is `None`, or if the stream has at most `last` turns, the copy has the same
/// bytes.
#[must_use]
pub fn fork(stream: &Stream, last: Option<usize>) -> Fork {
    let removed_turns = last.map_or(0, |last| stream.turns().saturating_sub(last));
    if removed_turns == 0 {
        let pieces = vec![Piece::Old(0..stream.bytes().len())];
        return Fork { pieces, removed_turns, effects: vec![ForkEffect::Kept; stream.overlays().len()] };
    }
    let events = stream.events();
    let is_selective = |overlay: &Overlay| matches!(overlay.tool_calls, Some(ToolPolicy::Selective(_)));
    let pairs = stream.overlays().iter().any(is_selective).then(|| Pairs::new(stream));
    let forker = Forker {
        stream,
        listed: pairs.as_ref().map(|pairs| (pairs, Halves::new(stream, pairs))),
        removed_turns,
        // Turn numbers only grow, so the removed events precede the copied events.
        removed_seqs: stream.numbered().filter(|(_, element)| events[*element].turn < removed_turns).count()
            as u64,
    };
    let mut effects = Vec::with_capacity(stream.overlays().len());
    let mut rewritten = HashMap::new();
    let mut copied_effects = HashMap::new();
    for overlay in stream.overlays() {
        let (effect, bytes) = forker.fork_overlay(overlay);
        effects.push(effect);
        if let Some(bytes) = bytes {
            rewritten.insert(overlay.element, bytes);
            copied_effects.insert(overlay_key(stream.index(), overlay.element), effect);
        }
    }
    for (element, event) in events.iter().enumerate().filter(|(_, event)| event.kind == Kind::Receipt) {
        if let Some(effect) = copied_effects.get(&overlay_key(stream.index(), element))
            && let Some(bytes) = forker.fork_receipt(event.span, *effect)
        {
            rewritten.insert(element, bytes);
        }
    }
    let elements = events.iter().enumerate().filter_map(|(element, event)| match event.kind {
        kind if kind.is_overlay() || kind == Kind::Receipt => {
            rewritten.remove(&element).map(|bytes| Element::Patched(element, event.span, bytes))
        }
        Kind::ConfigDelta => Some(Element::Old(element)),
        _ => (event.turn >= removed_turns).then_some(Element::Old(element)),
    });
    Fork { pieces: splice::array(stream.index(), elements), removed_turns, effects }
}

/// A change to one member of an element.
enum Edit {
    Replace(String),
    Remove,
}

struct Forker<'a> {
    stream: &'a Stream,
    /// `Some` if an overlay lists single calls.
    listed: Option<(&'a Pairs, Halves<'a>)>,
    removed_turns: usize,
    /// The number of removed events that have a seq.
    removed_seqs: u64,
}

impl Forker<'_> {
    /// Returns the effect on an overlay, and its new bytes if it is copied.
    fn fork_overlay(&self, overlay: &Overlay) -> (ForkEffect, Option<Vec<u8>>) {
        let &Overlay { from_turn: from, to_turn: to, .. } = overlay;
        if to < self.removed_turns {
            return (ForkEffect::Removed, None);
        }
        let (is_clipped, has_summary) = (from < self.removed_turns, overlay.summary.is_some());
        let effect = match (is_clipped, has_summary) {
            (false, _) => ForkEffect::Kept,
            (true, false) => ForkEffect::Clipped,
            (true, true) => ForkEffect::SummaryDropped,
        };
        let span = self.stream.events()[overlay.element].span;
        let calls = match &overlay.tool_calls {
            Some(ToolPolicy::Selective(_)) => self.selective_calls(overlay, span),
            _ => None,
        };
        let no_calls_left = calls.as_ref().is_some_and(|(_, count)| *count == 0);
        let dropped = usize::from(effect == ForkEffect::SummaryDropped) + usize::from(no_calls_left);
        if is_clipped && overlay.policy_names().len() == dropped {
            // None of its policies applies to a copied turn.
            return (if has_summary { ForkEffect::SummaryDropped } else { ForkEffect::Removed }, None);
        }
        let bytes = self.rewrite(span, from, to, |name| match name {
            "summary" if effect == ForkEffect::SummaryDropped => Some(Edit::Remove),
            "tool_calls" => calls.as_ref().map(|(calls, _)| Edit::Replace(calls.clone())),
            _ => None,
        });
        (effect, Some(bytes))
    }

    /// Returns the `tool_calls` of a `selective` policy with only the copied calls, and their number. Entries
    /// that match no event are dropped, because they would match none in the fork either.
    fn selective_calls(&self, overlay: &Overlay, span: Span) -> Option<(String, usize)> {
        let Some(ToolPolicy::Selective(stored)) = &overlay.tool_calls else { return None };
        let (pairs, halves) = self.listed.as_ref()?;
        let is_copied = |element: usize| self.stream.events()[element].turn >= self.removed_turns;
        let range = overlay.range()?;
        let is_clipped = range.from() < self.removed_turns;
        let start = if is_clipped { Position::turn(self.removed_turns) } else { range.start() };
        let copied_range = TurnRange::between(start, range.end())?;
        let mut policy = self.stream.value(span)?.get_mut("tool_calls")?.take();
        let mut entries = stored.iter();
        policy.get_mut("calls")?.as_array_mut()?.retain_mut(|call| {
            let Some(entry) = entries.next() else { return false };
            let Ok(element) = halves.find(overlay, entry) else { return false };
            // `omit` also applies to the response, which can be copied without its request.
            let partner = pairs.partner(element).filter(|_| entry.omit && !is_copied(element));
            let element = partner.unwrap_or(element);
            let seq = self.stream.events()[element].seq.filter(|_| is_copied(element));
            let Some(seq) = seq else { return false };
            call["seq"] = seq.saturating_sub(self.removed_seqs).into();
            // The range can end before the response.
            if !self.stream.is_in(copied_range, element) {
                return false;
            }
            if entry.half.is_some() {
                let Some(half) = halves.half(element, copied_range, overlay.element) else { return false };
                // In the fork, a response whose request is not copied has no tool.
                let has_tool = pairs.partner(element).is_none_or(is_copied);
                call["half"] = json!(Half { tool: half.tool.filter(|_| has_tool), ..half });
            }
            true
        });
        let count = policy.get("calls")?.as_array()?.len();
        // JP indents by two levels here. Strings contain no raw newline.
        let text = serde_json::to_string_pretty(&policy).unwrap_or_default();
        Some((text.replace('\n', "\n    "), count))
    }

    /// Returns the new bytes of a receipt. `None` if its strategy made only the summary that was dropped.
    fn fork_receipt(&self, span: Span, effect: ForkEffect) -> Option<Vec<u8>> {
        let receipt = self.stream.value(span)?;
        let (from, to) = range_of(&receipt)?;
        let mut kinds =
            receipts::kinds(receipt.as_object()?).filter(|_| effect == ForkEffect::SummaryDropped);
        if let Some(kinds) = &mut kinds {
            kinds.retain(|kind| *kind != "summary");
            if kinds.is_empty() {
                return None;
            }
        }
        Some(self.rewrite(span, from, to, |name| match (name, &kinds) {
            (receipts::KINDS, Some(kinds)) => Some(Edit::Replace(json!(kinds).to_string())),
            // Only a summary has merges.
            ("merges", _) if effect == ForkEffect::SummaryDropped => Some(Edit::Remove),
            _ => None,
        }))
    }

    /// Writes an overlay or a receipt with a renumbered range, and with the edits that `edit_of` returns for its
    /// other members. All other bytes stay.
    fn rewrite(&self, span: Span, from: usize, to: usize, edit_of: impl Fn(&str) -> Option<Edit>) -> Vec<u8> {
        let bytes = self.stream.bytes();
        let mut members = Vec::new();
        // Cannot fail: the index has already scanned this element.
        let _ = Scanner::at_byte(bytes, span.start).object(1, |scanner, key| {
            members.push((key, scanner.value(2)?));
            Ok(())
        });
        let opening = span.start..members.first().map_or(span.end, |(key, _)| key.start);
        let mut written = bytes[opening.clone()].to_vec();
        let mut previous_end = opening.end;
        for (key, value) in members {
            let separator = &bytes[previous_end..key.start];
            previous_end = value.end;
            let edit = match &*text::unquote(key.slice(bytes)) {
                "from_turn" => Some(Edit::Replace(from.saturating_sub(self.removed_turns).to_string())),
                "to_turn" => Some(Edit::Replace(to.saturating_sub(self.removed_turns).to_string())),
                // The step belongs to a removed turn.
                "from_step" if from < self.removed_turns => Some(Edit::Remove),
                name => edit_of(name),
            };
            if matches!(edit, Some(Edit::Remove)) {
                continue;
            }
            // The first remaining member follows the opening brace without a separator.
            if written.len() > opening.len() {
                written.extend_from_slice(separator);
            }
            match edit {
                Some(Edit::Replace(text)) => {
                    written.extend_from_slice(&bytes[key.start..value.start]);
                    written.extend_from_slice(text.as_bytes());
                }
                _ => written.extend_from_slice(&bytes[key.start..value.end]),
            }
        }
        written.extend_from_slice(&bytes[previous_end..span.end]);
        written
    }
}

/// Returns the range of an overlay or a receipt.
fn range_of(element: &Value) -> Option<(usize, usize)> {
    let bound = |name: &str| usize::try_from(element.get(name)?.as_u64()?).ok();
    Some((bound("from_turn")?, bound("to_turn")?))
}
