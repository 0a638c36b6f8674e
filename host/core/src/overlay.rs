//! Overlays as they are stored: JP's `compaction`, and `jp_compact_overlay` for what JP's grammar cannot
//! say (JP-STREAM, "On disk" and "Overlays of our own grammar"). Read strictly, as JP reads its own: one
//! malformed overlay makes the stream unreadable. What JP's later drafts add is accepted, kept and not applied.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jp_compact_schema::{Reasoning, RequestAction, ResponseAction, ToolHint};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Event, Kind};
use crate::halves::Half;
use crate::turn::TurnRange;
use crate::validate::Compaction;

/// A stored overlay.
#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    /// Number of its element in the stream.
    pub element: usize,
    /// When it was made: the newest wins.
    pub stamp: Timestamp,
    /// First turn, 0-based, inclusive. May lie past the end, or behind `to_turn`: then it has no effect.
    pub from_turn: usize,
    /// Last turn, 0-based, inclusive.
    pub to_turn: usize,
    /// The text that stands for the range.
    pub summary: Option<String>,
    /// The policy for reasoning.
    pub reasoning: Option<Reasoning>,
    /// The policy for tool calls.
    pub tool_calls: Option<ToolPolicy>,
    /// Whether JP applies it: it is a `compaction`.
    pub applied_by_jp: bool,
    /// Members of JP's later drafts that are kept and not applied: `over`, `tool_overrides`, `source`. With `over` the
    /// whole overlay has no effect.
    pub not_applied: Vec<&'static str>,
    /// Whether it was made of other raw events than those that its range holds now, and has no effect. Only beside a
    /// transcript that somebody else writes.
    pub stale: bool,
}

/// A stored policy for tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolPolicy {
    /// Arguments and content are stripped, but for the tools that have a hint.
    Strip {
        /// Empty the arguments.
        request: bool,
        /// Replace the content by a status line.
        response: bool,
        /// By tool name: what replaces the two above. An absent half inherits.
        overrides: BTreeMap<String, ToolHint>,
    },
    /// Calls are left out.
    Omit,
    /// Only the calls listed.
    Selective(Vec<StoredCall>),
}

/// One entry of a stored `selective`: the payload's, with the call's id and the half that it was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredCall {
    /// The event's number in the stream when the overlay was made: a hint. An entry without a `half`, as 0.1.0 wrote
    /// it, means the event of this number, if that has the id.
    pub seq: u64,
    /// The call's id.
    pub id: String,
    /// The half of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<Half>,
    /// What becomes of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestAction>,
    /// What becomes of the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseAction>,
    /// Both halves are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omit: bool,
}

#[derive(Deserialize)]
struct Stored {
    from_turn: usize,
    to_turn: usize,
    #[serde(default)]
    summary: Option<StoredSummary>,
    #[serde(default)]
    reasoning: Option<Value>,
    #[serde(default)]
    tool_calls: Option<Value>,
    #[serde(default)]
    tool_overrides: Option<Value>,
    #[serde(default)]
    over: Option<Value>,
    #[serde(default)]
    source: Option<Value>,
}

#[derive(Deserialize)]
struct StoredSummary {
    summary: String,
    #[serde(default)]
    source: Option<Value>,
}

#[derive(Deserialize)]
#[serde(tag = "policy", rename_all = "snake_case")]
enum StoredTools {
    Strip { request: bool, response: bool },
    Omit,
    Selective { calls: Vec<StoredCall> },
}

impl Overlay {
    /// Reads the overlay that `event` is; `raw` are its bytes.
    ///
    /// # Errors
    /// A fragment that says what the overlay lacks.
    pub(crate) fn read(element: usize, event: &Event, raw: &[u8]) -> Result<Self, String> {
        // Through a `Value`, as JP does it: the last of two equal keys counts.
        let value: Value = serde_json::from_slice(raw).map_err(|error| error.to_string())?;
        let stored: Stored = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let ours = event.kind == Kind::Overlay;
        let mut not_applied = Vec::new();
        let mut note = |name, present: bool| {
            if present && !not_applied.contains(&name) {
                not_applied.push(name);
            }
        };
        note("over", stored.over.is_some());
        note("source", stored.source.is_some());
        let summary = stored.summary.map(|summary| {
            note("source", summary.source.is_some());
            summary.summary
        });
        let reasoning = match stored.reasoning {
            None => None,
            Some(value) => {
                note("over", value.get("over").is_some());
                let policy = value.get("policy").unwrap_or(&value).clone();
                Some(serde_json::from_value(policy).map_err(|error| format!("`reasoning`: {error}"))?)
            }
        };
        let mut overrides = BTreeMap::new();
        if let Some(value) = stored.tool_overrides {
            if ours {
                overrides =
                    serde_json::from_value(value).map_err(|error| format!("`tool_overrides`: {error}"))?;
            } else {
                note("tool_overrides", true);
            }
        }
        let tool_calls = match stored.tool_calls {
            None => None,
            Some(value) => {
                note("over", value.get("over").is_some());
                note("tool_overrides", value.get("tool_overrides").is_some());
                let tools =
                    serde_json::from_value(value).map_err(|error| format!("`tool_calls`: {error}"))?;
                Some(match tools {
                    StoredTools::Strip { request, response } => {
                        ToolPolicy::Strip { request, response, overrides }
                    }
                    StoredTools::Omit => ToolPolicy::Omit,
                    StoredTools::Selective { calls } if ours => ToolPolicy::Selective(calls),
                    StoredTools::Selective { .. } => {
                        return Err("`tool_calls`: a `compaction` knows no policy `selective`".into());
                    }
                })
            }
        };
        Ok(Self {
            element,
            // The index has checked that an overlay carries a time.
            stamp: event.timestamp.unwrap_or(Timestamp::MIN),
            from_turn: stored.from_turn,
            to_turn: stored.to_turn,
            summary,
            reasoning,
            tool_calls,
            applied_by_jp: !ours,
            not_applied,
            stale: false,
        })
    }

    /// What it covers of so many turns: its range, clamped to them. None where it has no effect.
    #[must_use]
    pub fn reach(&self, turns: usize) -> Option<TurnRange> {
        TurnRange::new(self.from_turn, self.to_turn.min(turns.checked_sub(1)?)).filter(|_| self.is_applied())
    }

    /// Whether it can have an effect in its range.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        !self.stale && !self.is_conditional()
    }

    /// Whether it is to have effect above a threshold alone (`over`), which no code of ours can tell.
    #[must_use]
    pub fn is_conditional(&self) -> bool {
        self.not_applied.contains(&"over")
    }

    /// Whether its range is this.
    #[must_use]
    pub fn covers_just(&self, range: TurnRange) -> bool {
        (self.from_turn, self.to_turn) == (range.from(), range.to())
    }

    /// Whether it would be made of this compaction.
    #[must_use]
    pub fn says_the_same(&self, made: &Compaction) -> bool {
        self.covers_just(made.range())
            && self.summary.as_deref() == made.summary()
            && self.reasoning == made.reasoning()
            && self.tool_calls.as_ref() == made.tool_calls()
    }

    /// Whether it has effect, and its range covers `turn`.
    #[must_use]
    pub fn covers(&self, turn: usize) -> bool {
        self.is_applied() && self.from_turn <= turn && turn <= self.to_turn
    }

    /// What it has an opinion on, in the order summary, reasoning, tool_calls.
    #[must_use]
    pub fn kinds(&self) -> Vec<&'static str> {
        let kinds = [
            ("summary", self.summary.is_some()),
            ("reasoning", self.reasoning.is_some()),
            ("tool_calls", self.tool_calls.is_some()),
        ];
        kinds.into_iter().filter_map(|(kind, present)| present.then_some(kind)).collect()
    }
}
