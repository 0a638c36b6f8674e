//! Appends valid compactions to a stream as elements with time stamps. Each is followed by its receipt. All are spliced
//! in before the closing bracket, and every byte of history stays (docs/reference/store.md#append).

use jiff::{SignedDuration, Timestamp};
use jp_compact_schema::{Reasoning, StrategyName};
use serde_json::{Map, Value, json};

use crate::decode;
use crate::index;
use crate::overlay::{Overlay, ToolPolicy};
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
    /// SHA-256 of its executable, in hexadecimal.
    pub executable_sha256: String,
    pub options: Map<String, Value>,
    /// SHA-256 of the raw input that it received, in hexadecimal.
    pub input_sha256: String,
    /// The degree of its confinement.
    pub tier: String,
    /// The number of merges between the summary and the raw events, if the strategy reports it.
    pub merges: Option<u32>,
}

/// One overlay to append, with its origin.
#[derive(Debug, Clone)]
pub struct Entry {
    pub compaction: Compaction,
    pub receipt: Receipt,
}

/// An overlay that will be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// Its number in the list that `show` prints, from 1.
    pub number: usize,
    pub overlay: Overlay,
    /// Index in the list of entries.
    pub entry: usize,
}

/// The reason why a readable stream cannot be appended to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAppendable {
    /// An element has no `type` or `timestamp`. JP would move the conversation to its trash.
    Unloadable {
        /// Its index in the array.
        element: usize,
        /// Byte offset of its start.
        at: usize,
    },
    /// The newest overlay has the latest possible time.
    EndOfTime,
}

impl std::fmt::Display for NotAppendable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unloadable { element, at } => write!(
                out,
                "element {element} (byte {at}): `type` or `timestamp` is missing, so JP would move the \
                 conversation to its trash"
            ),
            Self::EndOfTime => {
                write!(out, "the newest overlay has the latest possible time, so none can be newer")
            }
        }
    }
}

impl std::error::Error for NotAppendable {}

/// Checks that JP can load a stream, so that it may be appended to.
///
/// # Errors
/// The element that JP would not load.
pub fn check(stream: &Stream) -> Result<(), NotAppendable> {
    match stream.index().unloadable {
        Some(element) => Err(NotAppendable::Unloadable { element, at: stream.events()[element].span.start }),
        None => Ok(()),
    }
}

/// Makes the overlays of entries, with time stamps. A compaction that JP can read only in part makes several overlays:
/// some that JP reads, for whole turns, and some that only we read, for steps and for policies of our own.
///
/// A stamp is max(now, newest overlay + 1 ns), and each next one adds 1 ns. Otherwise an old overlay would win after
/// the clock was set back.
///
/// # Errors
/// If the newest overlay has the latest possible time.
pub fn stamp(stream: &Stream, entries: &[Entry], now: Timestamp) -> Result<Vec<Made>, NotAppendable> {
    let mut newest = stream.overlays().iter().map(|overlay| overlay.stamp).max();
    let mut made: Vec<Made> = Vec::new();
    for (entry, Entry { compaction, .. }) in entries.iter().enumerate() {
        for overlay in overlays(stream, compaction) {
            let next = match newest {
                None => now,
                Some(newest) => {
                    let next = newest.checked_add(SignedDuration::from_nanos(1));
                    now.max(next.map_err(|_| NotAppendable::EndOfTime)?)
                }
            };
            newest = Some(next);
            let number = stream.overlays().len() + made.len() + 1;
            made.push(Made { number, overlay: Overlay { stamp: next, ..overlay }, entry });
        }
    }
    Ok(made)
}

/// Returns the overlays of a compaction without stamps. JP cannot read ranges with steps. Therefore, in its own
/// conversations, the whole turns of such a range are an overlay of their own, and JP still sends less.
#[must_use]
pub fn overlays(stream: &Stream, compaction: &Compaction) -> Vec<Overlay> {
    let range = compaction.range();
    let is_listed = matches!(compaction.tool_calls(), Some(ToolPolicy::Selective(_)));
    if !stream.is_jp() || is_listed || compaction.summary().is_some() {
        return parts(compaction, range);
    }
    range.pieces().into_iter().flat_map(|piece| parts(compaction, piece)).collect()
}

/// Splits a compaction into overlays for a range: first the part that JP reads, then the part that only we read.
fn parts(compaction: &Compaction, range: TurnRange) -> Vec<Overlay> {
    let ours = |policy: &ToolPolicy| match policy {
        ToolPolicy::Strip { overrides, .. } => !overrides.is_empty(),
        ToolPolicy::Omit => false,
        ToolPolicy::Selective(_) => true,
    };
    let (theirs, own) = match compaction.tool_calls() {
        Some(policy) if ours(policy) && !range.is_stepped() => (None, Some(policy)),
        policy => (policy, None),
    };
    let overlay =
        |summary: Option<&str>, reasoning, tool_calls: Option<&ToolPolicy>, applied_by_jp| Overlay {
            element: usize::MAX,
            stamp: Timestamp::MIN,
            from_turn: range.from(),
            to_turn: range.to(),
            from_step: range.start().step,
            to_step: range.end().step,
            summary: summary.map(str::to_owned),
            reasoning,
            tool_calls: tool_calls.cloned(),
            applied_by_jp,
            not_applied: Vec::new(),
            stale: false,
        };
    let jps = overlay(compaction.summary(), compaction.reasoning(), theirs, !range.is_stepped());
    let mut parts = Vec::new();
    if !jps.kinds().is_empty() {
        parts.push(jps);
    }
    if own.is_some() {
        parts.push(overlay(None, None, own, false));
    }
    parts
}

/// Appends overlays to the stream, each with its receipt.
#[must_use]
pub fn append(stream: &Stream, entries: &[Entry], made: &[Made]) -> Vec<Piece> {
    splice::append_elements(stream.index(), &elements(entries, made))
}

/// Returns overlays in their stored form, each followed by its receipt.
pub fn elements(entries: &[Entry], made: &[Made]) -> Vec<Map<String, Value>> {
    let stored = |made: &Made| [element(&made.overlay), receipt(&made.overlay, &entries[made.entry].receipt)];
    made.iter().flat_map(stored).collect()
}

/// A turn of a conversation with a model.
#[derive(Debug, Clone, Copy)]
pub struct Held<'a> {
    /// The user's message.
    pub request: &'a str,
    pub asked: Timestamp,
    /// The model's answer.
    pub response: &'a str,
    pub answered: Timestamp,
}

/// Appends a turn to the stream.
#[must_use]
pub fn turn(stream: &Stream, held: &Held<'_>) -> Vec<Piece> {
    let elements = [
        decode::head(held.asked, "turn_start"),
        decode::synthetic(held.asked, "chat_request", "content", held.request),
        decode::synthetic(held.answered, "chat_response", "message", held.response),
    ];
    let mut pieces = splice::append_elements(stream.index(), &elements);
    if stream.bytes()[stream.body_end()..].starts_with(b"]") && stream.events().is_empty() {
        // `[]` becomes an array in JP's layout.
        pieces.insert(pieces.len() - 1, Piece::New(b"\n".to_vec()));
    }
    pieces
}

/// Returns an overlay in its stored form, with members in JP's order.
fn element(overlay: &Overlay) -> Map<String, Value> {
    let kind = match overlay.applied_by_jp {
        true => "compaction",
        false if overlay.is_stepped() => index::STEP_OVERLAY,
        false => index::OVERLAY,
    };
    let mut element = ranged(overlay, kind);
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
            element.insert("tool_calls".into(), json!({ "policy": "selective", "calls": calls }));
        }
        None => {}
    }
    element
}

fn receipt(overlay: &Overlay, receipt: &Receipt) -> Map<String, Value> {
    let mut element = ranged(overlay, "jp_compact_receipt");
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

fn ranged(overlay: &Overlay, kind: &str) -> Map<String, Value> {
    // JP writes `type` first for overlays, and the time first for events. With this order its rewrite keeps the bytes.
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

/// Returns the ranges of the summaries. Later compactions of the same run must include these completely.
#[must_use]
pub fn summarized(entries: &[Entry]) -> Vec<TurnRange> {
    let summaries = entries.iter().filter(|entry| entry.compaction.summary().is_some());
    summaries.map(|entry| entry.compaction.range()).collect()
}
