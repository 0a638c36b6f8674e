//! The append of valid compactions to a stream. A compaction becomes one or more overlays with timestamps, or several
//! compactions share an overlay. Receipts follow each overlay. Overlays and receipts are inserted before the closing
//! bracket. No byte of the history changes (docs/reference/store.md#append).

use jiff::{SignedDuration, Timestamp};
use jp_compact_schema::{Reasoning, StrategyName};
use serde_json::{Map, Value, json};

use crate::decode;
use crate::index;
use crate::jp_policy;
use crate::overlay::{Overlay, ToolPolicy};
use crate::receipts;
use crate::splice::{self, Piece};
use crate::stream::Stream;
use crate::time;
use crate::turn::TurnRange;
use crate::validate::Compaction;

/// The origin of an overlay (ARCHITECTURE.md#invariants), stored after it as `jp_compact_receipt`.
#[derive(Debug, Clone, PartialEq)]
pub struct Receipt {
    pub strategy: StrategyName,
    /// The version in the strategy's description.
    pub version: String,
    /// SHA-256 of the strategy's executable, in hexadecimal.
    pub executable_sha256: String,
    pub options: Map<String, Value>,
    /// SHA-256 of the raw input that the strategy received, in hexadecimal.
    pub input_sha256: String,
    /// The tier of the jail that confined the strategy.
    pub tier: String,
    /// The greatest number of merges between the summary and the raw events, if the strategy reports it.
    pub merges: Option<u32>,
}

/// One compaction to append, with its origin.
#[derive(Debug, Clone)]
pub struct Entry {
    pub compaction: Compaction,
    pub receipt: Receipt,
}

/// An overlay with its timestamp, ready to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewOverlay {
    /// The number of the overlay in the list that `show` prints, from 1.
    pub number: usize,
    pub overlay: Overlay,
    /// The indexes of its entries. Several entries can share an overlay.
    pub entries: Vec<usize>,
}

/// The reason why a readable stream cannot be appended to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAppendable {
    /// An element has no `type` or `timestamp`, so JP would move the conversation to its trash.
    Unloadable {
        /// The index of the element in the array.
        element: usize,
        /// The byte offset at which the element starts.
        offset: usize,
    },
    /// The newest overlay has the latest possible time.
    EndOfTime,
}

impl std::fmt::Display for NotAppendable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unloadable { element, offset } => write!(
                out,
                "element {element} (byte {offset}): `type` or `timestamp` is missing, so JP would move the \
                 conversation to its trash"
            ),
            Self::EndOfTime => {
                write!(out, "no overlay can follow the newest one: its timestamp is the latest possible")
            }
        }
    }
}

impl std::error::Error for NotAppendable {}

/// Checks that JP can load a stream. Otherwise nothing may be appended to it.
///
/// # Errors
/// The error names the first element that JP would not load.
pub fn check_loadable(stream: &Stream) -> Result<(), NotAppendable> {
    match stream.index().unloadable {
        Some(element) => {
            Err(NotAppendable::Unloadable { element, offset: stream.events()[element].span.start })
        }
        None => Ok(()),
    }
}

/// Makes the overlays of entries, with timestamps. If JP can read all compactions, all have the same range, and no two
/// have a policy of the same kind, they share one overlay. If JP can read only a part of a compaction, the compaction
/// becomes several overlays. JP reads the overlays for whole turns. Only this program reads the overlays for steps and
/// for policies that JP lacks.
///
/// Each timestamp is at least 1 ns later than the previous overlay's, and not earlier than `now`. Otherwise an old
/// overlay would win after the clock was set back.
///
/// # Errors
/// If the newest overlay has the latest possible time.
pub fn stamped_overlays(
    stream: &Stream,
    entries: &[Entry],
    now: Timestamp,
) -> Result<Vec<NewOverlay>, NotAppendable> {
    let mut newest = stream.overlays().iter().map(|overlay| overlay.stamp).max();
    let mut stamped: Vec<NewOverlay> = Vec::new();
    for (overlay, entries) in unstamped_by_entry(stream, entries) {
        let stamp = match newest {
            None => now,
            Some(newest) => {
                let next = newest.checked_add(SignedDuration::from_nanos(1));
                now.max(next.map_err(|_| NotAppendable::EndOfTime)?)
            }
        };
        newest = Some(stamp);
        let number = stream.overlays().len() + stamped.len() + 1;
        stamped.push(NewOverlay { number, overlay: Overlay { stamp, ..overlay }, entries });
    }
    Ok(stamped)
}

/// Returns the overlays of all entries, without timestamps, each with the indexes of its entries.
fn unstamped_by_entry(stream: &Stream, entries: &[Entry]) -> Vec<(Overlay, Vec<usize>)> {
    let by_entry: Vec<_> =
        entries.iter().map(|entry| unstamped_overlays(stream, &entry.compaction)).collect();
    if let Some(shared) = shared_overlay(&by_entry) {
        return vec![(shared, (0..entries.len()).collect())];
    }
    let with_entry = |(entry, overlays): (usize, Vec<Overlay>)| {
        overlays.into_iter().map(move |overlay| (overlay, vec![entry]))
    };
    by_entry.into_iter().enumerate().flat_map(with_entry).collect()
}

/// Returns one overlay with the policies of all entries, as in RFD 064. `by_entry` has the overlays of each entry.
/// `None` if their ranges differ, if JP cannot read one of them, or if two have a policy for the same kind of content.
fn shared_overlay(by_entry: &[Vec<Overlay>]) -> Option<Overlay> {
    let mut shared: Option<Overlay> = None;
    for overlays in by_entry {
        let [overlay] = overlays.as_slice() else { return None };
        if !overlay.applied_by_jp {
            return None;
        }
        shared = Some(match shared {
            None => overlay.clone(),
            Some(shared) => {
                let has_common_kind =
                    overlay.policy_names().iter().any(|name| shared.policy_names().contains(name));
                if has_common_kind || shared.range() != overlay.range() {
                    return None;
                }
                Overlay {
                    summary: shared.summary.or_else(|| overlay.summary.clone()),
                    reasoning: shared.reasoning.or(overlay.reasoning),
                    tool_calls: shared.tool_calls.or_else(|| overlay.tool_calls.clone()),
                    ..overlay.clone()
                }
            }
        });
    }
    shared
}

/// Returns the overlays of a compaction, without timestamps. JP cannot read ranges with steps. Therefore, in JP's own
/// conversations, the whole turns of such a range get a separate overlay, which JP can apply. A summary or a selection
/// of calls stays in one overlay. A policy with hints also gets overlays for the part of it that JP can apply.
#[must_use]
pub fn unstamped_overlays(stream: &Stream, compaction: &Compaction) -> Vec<Overlay> {
    let range = compaction.range();
    let is_selective = matches!(compaction.tool_calls(), Some(ToolPolicy::Selective(_)));
    if !stream.is_jp() || is_selective || compaction.summary().is_some() {
        return overlays_of_range(stream, compaction, range);
    }
    range.pieces().into_iter().flat_map(|piece| overlays_of_range(stream, compaction, piece)).collect()
}

/// Returns a compaction's overlays for one range: first the overlays that JP can read, then the overlay that it cannot.
fn overlays_of_range(stream: &Stream, compaction: &Compaction, range: TurnRange) -> Vec<Overlay> {
    // JP applies no overlay of a range with steps, so the policies of such a range stay together.
    let is_split = !range.has_steps() && compaction.tool_calls().is_some_and(is_unknown_to_jp);
    let empty = Overlay {
        element: usize::MAX,
        stamp: Timestamp::MIN,
        from_turn: range.from(),
        to_turn: range.to(),
        from_step: range.start().step,
        to_step: range.end().step,
        summary: None,
        reasoning: None,
        tool_calls: None,
        applied_by_jp: false,
        not_applied: Vec::new(),
        stale: false,
    };
    let mut first = Overlay {
        summary: compaction.summary().map(str::to_owned),
        reasoning: compaction.reasoning(),
        tool_calls: compaction.tool_calls().filter(|_| !is_split).cloned(),
        applied_by_jp: !range.has_steps(),
        ..empty.clone()
    };
    let mut parts = Vec::new();
    if is_split && stream.is_jp() {
        parts = parts_for_jp(stream, compaction, range);
    }
    if let [(part, policy)] = &parts[..]
        && *part == range
    {
        first.tool_calls = Some(policy.clone());
        parts.clear();
    }
    let parts = parts.into_iter().map(|(part, policy)| Overlay {
        from_turn: part.from(),
        to_turn: part.to(),
        tool_calls: Some(policy),
        applied_by_jp: true,
        ..empty.clone()
    });
    let mut overlays: Vec<Overlay> = [first].into_iter().chain(parts).collect();
    overlays.retain(|overlay| !overlay.policy_names().is_empty());
    overlays.extend(is_split.then(|| Overlay { tool_calls: compaction.tool_calls().cloned(), ..empty }));
    overlays
}

/// Returns the parts of a policy with hints that JP can apply.
fn parts_for_jp(stream: &Stream, compaction: &Compaction, range: TurnRange) -> Vec<(TurnRange, ToolPolicy)> {
    match compaction.tool_calls() {
        Some(ToolPolicy::Strip { request, response, overrides }) => {
            jp_policy::readable_parts(stream, range, (*request, *response), overrides)
        }
        _ => Vec::new(),
    }
}

fn is_unknown_to_jp(policy: &ToolPolicy) -> bool {
    match policy {
        ToolPolicy::Strip { overrides, .. } => !overrides.is_empty(),
        ToolPolicy::Omit => false,
        ToolPolicy::Selective(_) => true,
    }
}

/// Appends overlays to the stream, each with its receipts.
#[must_use]
pub fn append(stream: &Stream, entries: &[Entry], stamped: &[NewOverlay]) -> Vec<Piece> {
    let elements: Vec<_> = stamped.iter().flat_map(|new_overlay| elements(entries, new_overlay)).collect();
    splice::append_elements(stream.index(), &elements)
}

/// Returns an overlay in its stored form, and then its receipts: one for each strategy.
pub fn elements(entries: &[Entry], new_overlay: &NewOverlay) -> Vec<Map<String, Value>> {
    let overlay = &new_overlay.overlay;
    let mut by_receipt: Vec<(&Receipt, Vec<&'static str>)> = Vec::new();
    for entry in &new_overlay.entries {
        let Entry { compaction, receipt } = &entries[*entry];
        let kinds = compaction.kinds();
        match by_receipt.iter_mut().find(|(other, _)| *other == receipt) {
            Some((_, others)) => others.extend(kinds),
            None => by_receipt.push((receipt, kinds)),
        }
    }
    let is_shared = by_receipt.len() > 1;
    let mut elements = vec![overlay_element(overlay)];
    for (receipt, kinds) in by_receipt {
        let mut element = receipt_element(overlay, receipt);
        if is_shared {
            if !kinds.contains(&"summary") {
                element.remove("merges");
            }
            element.insert(receipts::KINDS.into(), kinds.into());
        }
        elements.push(element);
    }
    elements
}

/// A user's message to a model, and the model's answer.
#[derive(Debug, Clone, Copy)]
pub struct NewTurn<'a> {
    pub request: &'a str,
    /// The time of the request.
    pub asked_at: Timestamp,
    pub response: &'a str,
    /// The time of the response.
    pub answered_at: Timestamp,
}

#[must_use]
pub fn append_turn(stream: &Stream, exchange: &NewTurn<'_>) -> Vec<Piece> {
    let elements = [
        decode::head(exchange.asked_at, "turn_start"),
        decode::synthetic(exchange.asked_at, "chat_request", "content", exchange.request),
        decode::synthetic(exchange.answered_at, "chat_response", "message", exchange.response),
    ];
    let mut pieces = splice::append_elements(stream.index(), &elements);
    if stream.bytes()[stream.body_end()..].starts_with(b"]") && stream.events().is_empty() {
        // `[]` becomes an array in JP's layout.
        pieces.insert(pieces.len() - 1, Piece::New(b"\n".to_vec()));
    }
    pieces
}

/// Returns an overlay in its stored form, with members in JP's order.
fn overlay_element(overlay: &Overlay) -> Map<String, Value> {
    let kind = match overlay.applied_by_jp {
        true => "compaction",
        false if overlay.has_steps() => index::STEP_OVERLAY,
        false => index::OVERLAY,
    };
    let mut element = element_header(overlay, kind);
    if let Some(summary) = &overlay.summary {
        element.insert("summary".into(), json!({ "summary": summary }));
    }
    if let Some(Reasoning::Strip) = overlay.reasoning {
        element.insert("reasoning".into(), "strip".into());
    }
    match &overlay.tool_calls {
        Some(ToolPolicy::Strip { request, response, overrides }) => {
            let policy = json!({ "policy": "strip", "request": request, "response": response });
            element.insert("tool_calls".into(), policy);
            if !overrides.is_empty() {
                element.insert("tool_overrides".into(), json!(overrides));
            }
        }
        Some(ToolPolicy::Omit) => {
            element.insert("tool_calls".into(), json!({ "policy": "omit" }));
        }
        Some(ToolPolicy::Selective(calls)) => {
            element.insert("tool_calls".into(), json!({ "policy": "selective", "calls": calls[..] }));
        }
        None => {}
    }
    element
}

fn receipt_element(overlay: &Overlay, receipt: &Receipt) -> Map<String, Value> {
    let mut element = element_header(overlay, "jp_compact_receipt");
    element.insert("strategy".into(), receipt.strategy.as_str().into());
    element.insert("version".into(), receipt.version.as_str().into());
    element.insert("executable_sha256".into(), receipt.executable_sha256.as_str().into());
    element.insert("options".into(), Value::Object(receipt.options.clone()));
    element.insert("input_sha256".into(), receipt.input_sha256.as_str().into());
    element.insert("tier".into(), receipt.tier.as_str().into());
    if let Some(merges) = receipt.merges.filter(|_| overlay.summary.is_some()) {
        element.insert("merges".into(), merges.into());
    }
    element
}

/// Returns the members that an overlay and its receipt share: type, time, and range.
fn element_header(overlay: &Overlay, kind: &str) -> Map<String, Value> {
    // JP writes `type` first in overlays, and the time first in events. With this order JP's next save keeps the bytes.
    let mut element = Map::new();
    element.insert("type".into(), kind.into());
    element.insert("timestamp".into(), time::format(overlay.stamp).into());
    element.insert("from_turn".into(), overlay.from_turn.into());
    element.insert("to_turn".into(), overlay.to_turn.into());
    for (name, step) in [("from_step", overlay.from_step), ("to_step", overlay.to_step)] {
        if let Some(step) = step {
            element.insert(name.into(), step.into());
        }
    }
    element
}

/// Returns the ranges of all summaries. A later summary of the same run must not split any of them.
#[must_use]
pub fn summary_ranges(entries: &[Entry]) -> Vec<TurnRange> {
    let summaries = entries.iter().filter(|entry| entry.compaction.summary().is_some());
    summaries.map(|entry| entry.compaction.range()).collect()
}
