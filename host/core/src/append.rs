//! Valid compactions as elements of a stream: stamped, each with its receipt behind it, spliced in before the
//! closing bracket. Every byte of history stays (JP-STREAM, "Two copies, locks, writes").

use jiff::{SignedDuration, Timestamp};
use jp_compact_schema::{Reasoning, StrategyName};
use serde_json::{Map, Value, json};

use crate::decode;
use crate::overlay::{Overlay, ToolPolicy};
use crate::splice::{self, Piece};
use crate::stream::Stream;
use crate::time;
use crate::turn::TurnRange;
use crate::validate::Compaction;

/// Where an overlay comes from (ARCHITECTURE.md, invariant 8). Stored behind it as `jp_compact_receipt`.
#[derive(Debug, Clone, PartialEq)]
pub struct Receipt {
    /// The strategy's name.
    pub strategy: StrategyName,
    /// Its version, as it describes itself.
    pub version: String,
    /// SHA-256 of its executable, in hexadecimal.
    pub executable_sha256: String,
    /// The options that it was given.
    pub options: Map<String, Value>,
    /// SHA-256 of the raw input that it saw, in hexadecimal.
    pub input_sha256: String,
    /// How far it was confined.
    pub tier: String,
}

/// One overlay to append, and its origin.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What was validated.
    pub compaction: Compaction,
    /// Where it comes from.
    pub receipt: Receipt,
}

/// An overlay as it is going to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// Its number, counted from 1 as `show` lists it.
    pub number: usize,
    /// The overlay.
    pub overlay: Overlay,
    /// Its place in the list of entries.
    pub entry: usize,
}

/// Why nothing can be appended to a stream that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAppendable {
    /// An element without `type` or `timestamp`: JP would move the conversation to its trash.
    Unloadable {
        /// Its number in the array, from 0.
        element: usize,
        /// Its first byte.
        at: usize,
    },
    /// The newest overlay bears the last time there is.
    EndOfTime,
}

impl std::fmt::Display for NotAppendable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unloadable { element, at } => write!(
                out,
                "element {element} (byte {at}): an element without `type` or `timestamp`, for which JP would move the \
                 conversation to its trash"
            ),
            Self::EndOfTime => {
                write!(out, "the newest overlay bears the last time there is, none can be newer")
            }
        }
    }
}

impl std::error::Error for NotAppendable {}

/// Checks that a stream may be appended to.
///
/// # Errors
/// When it holds an element for which JP would not load it.
pub fn check(stream: &Stream) -> Result<(), NotAppendable> {
    match stream.index().unloadable {
        Some(element) => Err(NotAppendable::Unloadable { element, at: stream.events()[element].span.start }),
        None => Ok(()),
    }
}

/// The overlays that entries make, stamped. A compaction of which JP can read a part makes two: what JP can
/// read goes into one of its own.
///
/// Stamps are max(now, newest overlay + 1 ns), each next one + 1 ns: a clock that runs backwards must not let
/// an old overlay win.
///
/// # Errors
/// At the end of time.
pub fn stamp(stream: &Stream, entries: &[Entry], now: Timestamp) -> Result<Vec<Made>, NotAppendable> {
    let mut newest = stream.overlays().iter().map(|overlay| overlay.stamp).max();
    let mut made: Vec<Made> = Vec::new();
    for (entry, Entry { compaction, .. }) in entries.iter().enumerate() {
        for overlay in parts(compaction) {
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

/// A compaction as overlays without a stamp: what JP reads, then what only we read.
fn parts(compaction: &Compaction) -> Vec<Overlay> {
    let ours = |policy: &ToolPolicy| match policy {
        ToolPolicy::Strip { overrides, .. } => !overrides.is_empty(),
        ToolPolicy::Omit => false,
        ToolPolicy::Selective(_) => true,
    };
    let (theirs, own) = match compaction.tool_calls() {
        Some(policy) if ours(policy) => (None, Some(policy)),
        policy => (policy, None),
    };
    let range = compaction.range();
    let overlay =
        |summary: Option<&str>, reasoning, tool_calls: Option<&ToolPolicy>, applied_by_jp| Overlay {
            element: usize::MAX,
            stamp: Timestamp::MIN,
            from_turn: range.from(),
            to_turn: range.to(),
            summary: summary.map(str::to_owned),
            reasoning,
            tool_calls: tool_calls.cloned(),
            applied_by_jp,
            not_applied: Vec::new(),
            stale: false,
        };
    let jps = overlay(compaction.summary(), compaction.reasoning(), theirs, true);
    let mut parts = Vec::new();
    if !jps.kinds().is_empty() {
        parts.push(jps);
    }
    if own.is_some() {
        parts.push(overlay(None, None, own, false));
    }
    parts
}

/// The pieces of the stream with overlays behind it, each with its receipt.
#[must_use]
pub fn append(stream: &Stream, entries: &[Entry], made: &[Made]) -> Vec<Piece> {
    splice::behind(stream.index(), &elements(entries, made))
}

/// Overlays as they are stored, each with its receipt behind it.
pub(crate) fn elements(entries: &[Entry], made: &[Made]) -> Vec<Map<String, Value>> {
    let stored = |made: &Made| [element(&made.overlay), receipt(&made.overlay, &entries[made.entry].receipt)];
    made.iter().flat_map(stored).collect()
}

/// A turn that was held with a model.
#[derive(Debug, Clone, Copy)]
pub struct Held<'a> {
    /// What the user said.
    pub request: &'a str,
    /// When.
    pub asked: Timestamp,
    /// What the model answered.
    pub response: &'a str,
    /// When.
    pub answered: Timestamp,
}

/// The pieces of the stream with a turn behind it.
#[must_use]
pub fn turn(stream: &Stream, held: &Held<'_>) -> Vec<Piece> {
    let elements = [
        decode::head(held.asked, "turn_start"),
        decode::synthetic(held.asked, "chat_request", "content", held.request),
        decode::synthetic(held.answered, "chat_response", "message", held.response),
    ];
    let mut pieces = splice::behind(stream.index(), &elements);
    if stream.bytes()[stream.body_end()..].starts_with(b"]") && stream.events().is_empty() {
        // What was `[]` becomes an array in JP's layout.
        pieces.insert(pieces.len() - 1, Piece::New(b"\n".to_vec()));
    }
    pieces
}

/// An overlay as it is stored, in JP's order of members.
fn element(overlay: &Overlay) -> Map<String, Value> {
    let kind = if overlay.applied_by_jp { "compaction" } else { "jp_compact_overlay" };
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
    element
}

fn ranged(overlay: &Overlay, kind: &str) -> Map<String, Value> {
    // JP writes the type of an overlay first, and the time of an event: in this order its rewrite keeps the bytes.
    let mut element = Map::new();
    element.insert("type".into(), kind.into());
    element.insert("timestamp".into(), time::format(overlay.stamp).into());
    element.insert("from_turn".into(), overlay.from_turn.into());
    element.insert("to_turn".into(), overlay.to_turn.into());
    element
}

/// The ranges of the summaries among compactions: those that later ones of the same run are closed over.
#[must_use]
pub fn summarised(entries: &[Entry]) -> Vec<TurnRange> {
    let summaries = entries.iter().filter(|entry| entry.compaction.summary().is_some());
    summaries.map(|entry| entry.compaction.range()).collect()
}
