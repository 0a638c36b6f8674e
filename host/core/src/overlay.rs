//! Stored overlays: JP's `compaction`, `jp_compact_overlay` for policies that JP's grammar cannot express, and
//! `jp_compact_step_overlay` for ranges that begin or end inside a turn (docs/reference/store.md#overlays). Parsing is strict, as in JP: one malformed overlay makes the stream unreadable.
//! Members of JP's later drafts are accepted and kept, but not applied.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jp_compact_schema::{Reasoning, RequestAction, ResponseAction, ToolHint};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Event, Kind};
use crate::position::Position;
use crate::turn::TurnRange;

#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    /// Index of its element in the stream.
    pub element: usize,
    /// The creation time. The newest overlay wins.
    pub stamp: Timestamp,
    /// First turn, from 0, inclusive. An overlay past the end, or with `from_turn` after `to_turn`, has no effect.
    pub from_turn: usize,
    /// Last turn, from 0, inclusive.
    pub to_turn: usize,
    /// The first step in `from_turn`. `None` for the whole turn.
    pub from_step: Option<usize>,
    /// The last step in `to_turn`, inclusive. `None` for the whole turn.
    pub to_step: Option<usize>,
    /// The text that replaces the range.
    pub summary: Option<String>,
    pub reasoning: Option<Reasoning>,
    pub tool_calls: Option<ToolPolicy>,
    /// Whether JP applies it, because it is a `compaction`.
    pub applied_by_jp: bool,
    /// Members of JP's later drafts that are kept but not applied: `over`, `tool_overrides`, `source`. With `over` the
    /// whole overlay has no effect.
    pub not_applied: Vec<&'static str>,
    /// Whether it was made of other raw events than its range has now. A stale overlay has no effect. Only overlays in
    /// the sidecar of a transcript that another program writes become stale.
    pub stale: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolPolicy {
    /// Strip arguments and content, except for tools with an override.
    Strip {
        /// Whether to empty the arguments.
        request: bool,
        /// Whether to replace the content by a status line.
        response: bool,
        /// Replacements for `request` and `response`, by tool name. An absent half inherits.
        overrides: BTreeMap<String, ToolHint>,
    },
    /// Leave out the calls.
    Omit,
    /// Apply to the listed calls only.
    Selective(Vec<StoredCall>),
}

/// One entry of a stored `selective`: the payload's entry, with the call's id and half.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredCall {
    /// The event's number in the stream when the overlay was made. A hint only, except for entries without a `half`,
    /// which 0.1.0 wrote: these mean the event of this number if it has the id.
    pub seq: u64,
    /// The call's id.
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<Half>,
    /// The policy for the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestAction>,
    /// The policy for the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseAction>,
    /// Whether both halves are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omit: bool,
}

/// The half of a call that an entry was made for. Only events in the overlay's turns and stored before the overlay
/// count, because later turns reuse ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Half {
    pub kind: HalfKind,
    /// Its position among the halves of this kind with this id, from 0.
    pub nth: usize,
    /// The number of these halves.
    pub of: usize,
    /// The tool. `None` for a response without a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HalfKind {
    Request,
    Response,
}

#[derive(Deserialize)]
struct Stored {
    from_turn: usize,
    to_turn: usize,
    #[serde(default)]
    from_step: Option<Value>,
    #[serde(default)]
    to_step: Option<Value>,
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
    /// Parses the overlay of `event`; `raw` holds its bytes.
    ///
    /// # Errors
    /// A fragment that describes the error.
    pub(crate) fn read(element: usize, event: &Event, raw: &[u8]) -> Result<Self, String> {
        // Parsing a `Value` first, as JP does, makes the last of duplicate keys count.
        let value: Value = serde_json::from_slice(raw).map_err(|error| error.to_string())?;
        let stored: Stored = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let ours = event.kind != Kind::Compaction;
        let stepped = event.kind == Kind::StepOverlay;
        // Another type of overlay has no steps, so the members are not read there.
        let step = |name: &str, value: Option<Value>| match value.filter(|_| stepped) {
            None => Ok(None),
            Some(value) => serde_json::from_value(value).map_err(|error| format!("`{name}`: {error}")),
        };
        let (from_step, to_step) = (step("from_step", stored.from_step)?, step("to_step", stored.to_step)?);
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
                        return Err(
                            "`tool_calls`: a `compaction` does not support the policy `selective`".into()
                        );
                    }
                })
            }
        };
        Ok(Self {
            element,
            // The index has checked that overlays have a time.
            stamp: event.timestamp.unwrap_or(Timestamp::MIN),
            from_turn: stored.from_turn,
            to_turn: stored.to_turn,
            from_step,
            to_step,
            summary,
            reasoning,
            tool_calls,
            applied_by_jp: !ours,
            not_applied,
            stale: false,
        })
    }

    /// Returns its range, clamped to `turns`. `None` if it has no effect.
    #[must_use]
    pub fn reach(&self, turns: usize) -> Option<TurnRange> {
        let last = turns.checked_sub(1)?;
        let to_step = self.to_step.filter(|_| self.to_turn <= last);
        let to = Position { turn: self.to_turn.min(last), step: to_step };
        TurnRange::between(self.start(), to).filter(|_| self.is_applied())
    }

    fn start(&self) -> Position {
        Position { turn: self.from_turn, step: self.from_step }
    }

    /// Returns its range as it is stored. `None` if it ends before it begins.
    #[must_use]
    pub fn range(&self) -> Option<TurnRange> {
        TurnRange::between(self.start(), Position { turn: self.to_turn, step: self.to_step })
    }

    /// Returns whether it begins or ends inside a turn.
    #[must_use]
    pub fn is_stepped(&self) -> bool {
        self.from_step.is_some() || self.to_step.is_some()
    }

    /// Returns whether it can have an effect in its range.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        !self.stale && !self.is_conditional()
    }

    /// Returns whether it has effect only above a threshold (`over`), which this crate cannot evaluate.
    #[must_use]
    pub fn is_conditional(&self) -> bool {
        self.not_applied.contains(&"over")
    }

    /// Returns whether its range equals `range`.
    #[must_use]
    pub fn covers_just(&self, range: TurnRange) -> bool {
        self.range() == Some(range)
    }

    /// Returns whether it has the same range and the same policies as `other`.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        (self.range(), &self.summary, self.reasoning, &self.tool_calls)
            == (other.range(), &other.summary, other.reasoning, &other.tool_calls)
    }

    /// Returns the kinds for which it has a policy, in the order summary, reasoning, tool_calls.
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
