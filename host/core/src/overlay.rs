//! Stored overlays: JP's `compaction`, `jp_compact_overlay` for policies that JP's grammar cannot express, and
//! `jp_compact_step_overlay` for ranges that begin or end inside a turn (docs/reference/store.md#overlays). The parser
//! is strict, as in JP: one malformed overlay makes the stream unreadable. Members of JP's later drafts are accepted
//! and kept, but not applied.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use jp_compact_schema::{ContentKind, Reasoning, RequestAction, ResponseAction, ToolHint};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Event, Kind};
use crate::position::Position;
use crate::turn::TurnRange;

#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    /// The index of the overlay's element in the stream.
    pub element: usize,
    /// The creation time. The newest overlay wins.
    pub stamp: Timestamp,
    /// The first turn, from 0. An overlay that starts after the last turn or after `to_turn` has no effect.
    pub from_turn: usize,
    /// The last turn, from 0, inclusive.
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
    /// The names of its members from JP's later drafts: `over`, `tool_overrides`, `source`. These members have no
    /// effect. An overlay with `over` has no effect at all.
    pub not_applied: Vec<&'static str>,
    /// Whether the raw events of its range have changed since it was made. A stale overlay has no effect. Only overlays
    /// of a transcript that another program writes can become stale.
    pub stale: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolPolicy {
    /// Strip the arguments, the content, or both, except for tools with an override.
    Strip {
        /// Whether to empty the arguments.
        request: bool,
        /// Whether to replace the content with a status line.
        response: bool,
        /// Exceptions from `request` and `response`, by tool name. A half without an exception follows `request` or
        /// `response`.
        overrides: BTreeMap<String, ToolHint>,
    },
    /// Omit the calls and their responses.
    Omit,
    /// Apply the policy of each listed call. Copies of the overlay share the list, because its texts can be long.
    Selective(Arc<[StoredCall]>),
}

/// One entry of a stored `selective` policy: the entry of the strategy's reply, with the call's id and half.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredCall {
    /// The number of the event when the overlay was made. With a `half`, it is informative only. Version 0.1.0 wrote
    /// entries without a `half`: these refer to the event with this number, if that event has the id.
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
    /// Whether both halves are omitted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omit: bool,
}

/// The half of a call that an entry refers to. Only the halves in the overlay's range and before the overlay are
/// counted, because later turns reuse ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Half {
    pub kind: HalfKind,
    /// The position among the halves of this kind with this id, from 0.
    pub nth: usize,
    /// The number of halves of this kind with this id.
    #[serde(rename = "of")]
    pub count: usize,
    /// The name of the tool. `None` for a response without a request.
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
struct StoredOverlay {
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
enum StoredToolCalls {
    Strip { request: bool, response: bool },
    Omit,
    Selective { calls: Vec<StoredCall> },
}

impl StoredOverlay {
    /// Returns the names of the members from JP's later drafts. In our own overlays, `tool_overrides` is not one of
    /// them.
    fn not_applied(&self, applied_by_jp: bool) -> Vec<&'static str> {
        let has = |value: &Option<Value>, name| value.as_ref().is_some_and(|value| value.get(name).is_some());
        let summary_source = self.summary.as_ref().and_then(|summary| summary.source.as_ref());
        let members = [
            ("over", self.over.is_some()),
            ("source", self.source.is_some() || summary_source.is_some()),
            ("over", has(&self.reasoning, "over")),
            ("tool_overrides", applied_by_jp && self.tool_overrides.is_some()),
            ("over", has(&self.tool_calls, "over")),
            ("tool_overrides", has(&self.tool_calls, "tool_overrides")),
        ];
        let mut names = Vec::new();
        for (name, is_present) in members {
            if is_present && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

fn parse_member<T: DeserializeOwned>(name: &str, value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("`{name}`: {error}"))
}

impl Overlay {
    /// Parses the overlay of `event`; `raw` holds its bytes.
    ///
    /// # Errors
    /// A phrase that describes the error.
    pub(crate) fn parse(element: usize, event: &Event, raw: &[u8]) -> Result<Self, String> {
        // Parsing a `Value` first, as JP does, makes the last of duplicate keys count.
        let value: Value = serde_json::from_slice(raw).map_err(|error| error.to_string())?;
        let stored: StoredOverlay = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let applied_by_jp = event.kind == Kind::Compaction;
        let not_applied = stored.not_applied(applied_by_jp);
        // Overlays of the other kinds have no steps, so the two members are ignored there.
        let parse_step = |name: &str, value: Option<Value>| {
            let value = value.filter(|_| event.kind == Kind::StepOverlay);
            value.map(|value| parse_member(name, value)).transpose()
        };
        let from_step = parse_step("from_step", stored.from_step)?;
        let to_step = parse_step("to_step", stored.to_step)?;
        let policy = stored.reasoning.map(|value| value.get("policy").unwrap_or(&value).clone());
        let reasoning = policy.map(|policy| parse_member("reasoning", policy)).transpose()?;
        let overrides = match stored.tool_overrides.filter(|_| !applied_by_jp) {
            Some(value) => parse_member("tool_overrides", value)?,
            None => BTreeMap::new(),
        };
        let policy = stored.tool_calls.map(|value| parse_member("tool_calls", value)).transpose()?;
        let tool_calls = match policy {
            None => None,
            Some(StoredToolCalls::Strip { request, response }) => {
                Some(ToolPolicy::Strip { request, response, overrides })
            }
            Some(StoredToolCalls::Omit) => Some(ToolPolicy::Omit),
            Some(StoredToolCalls::Selective { calls }) if !applied_by_jp => {
                Some(ToolPolicy::Selective(calls.into()))
            }
            Some(StoredToolCalls::Selective { .. }) => {
                return Err("`tool_calls`: a `compaction` does not support the policy `selective`".into());
            }
        };
        Ok(Self {
            element,
            // The index makes an element without a time `Unknown`, never an overlay.
            stamp: event.timestamp.unwrap_or(Timestamp::MIN),
            from_turn: stored.from_turn,
            to_turn: stored.to_turn,
            from_step,
            to_step,
            summary: stored.summary.map(|summary| summary.summary),
            reasoning,
            tool_calls,
            applied_by_jp,
            not_applied,
            stale: false,
        })
    }

    /// Returns the range in which the overlay has an effect, in a stream of `turns` turns. `None` without an effect.
    #[must_use]
    pub fn effective_range(&self, turns: usize) -> Option<TurnRange> {
        let last = turns.checked_sub(1)?;
        let to_step = self.to_step.filter(|_| self.to_turn <= last);
        let end = Position { turn: self.to_turn.min(last), step: to_step };
        TurnRange::between(self.start(), end).filter(|_| self.is_applied())
    }

    fn start(&self) -> Position {
        Position { turn: self.from_turn, step: self.from_step }
    }

    /// Returns the range that is stored, even beyond the stream. `None` if it ends before it begins.
    #[must_use]
    pub fn range(&self) -> Option<TurnRange> {
        TurnRange::between(self.start(), Position { turn: self.to_turn, step: self.to_step })
    }

    /// Returns whether the range begins or ends inside a turn.
    #[must_use]
    pub fn has_steps(&self) -> bool {
        self.from_step.is_some() || self.to_step.is_some()
    }

    /// Returns whether the overlay is neither stale nor conditional.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        !self.stale && !self.is_conditional()
    }

    /// Returns whether the overlay applies only above a threshold (`over`). This crate cannot evaluate thresholds.
    #[must_use]
    pub fn is_conditional(&self) -> bool {
        self.not_applied.contains(&"over")
    }

    /// Returns whether the stored range equals `range`.
    #[must_use]
    pub fn has_range(&self, range: TurnRange) -> bool {
        self.range() == Some(range)
    }

    /// Returns whether both overlays have the same range and the same policies.
    #[must_use]
    pub fn has_same_effect(&self, other: &Self) -> bool {
        (self.range(), &self.summary, self.reasoning, &self.tool_calls)
            == (other.range(), &other.summary, other.reasoning, &other.tool_calls)
    }

    /// Returns the overlay with only these kinds of policies.
    #[must_use]
    pub fn with_kinds(&self, kinds: &[&str]) -> Self {
        let has = |kind: ContentKind| kinds.contains(&kind.name());
        Self {
            summary: self.summary.clone().filter(|_| has(ContentKind::Summary)),
            reasoning: self.reasoning.filter(|_| has(ContentKind::Reasoning)),
            tool_calls: self.tool_calls.clone().filter(|_| has(ContentKind::ToolCalls)),
            not_applied: self.not_applied.clone(),
            ..*self
        }
    }

    /// Returns the names of the policies of the overlay, in a fixed order.
    #[must_use]
    pub fn policy_names(&self) -> Vec<&'static str> {
        let policies = [
            ("summary", self.summary.is_some()),
            ("reasoning", self.reasoning.is_some()),
            ("tool_calls", self.tool_calls.is_some()),
        ];
        policies.into_iter().filter_map(|(name, is_present)| is_present.then_some(name)).collect()
    }
}
