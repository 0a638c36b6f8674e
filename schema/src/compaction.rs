//! The compaction payload: what a strategy proposes for a range of turns. Types only.
//!
//! The spelling is JP's own (RFD 064, "The `Compaction` Type"), plus `selective`, which JP cannot read.
//! Payloads are read strictly: an unknown key here is refused, for a misspelt policy must not become a
//! silent no-op. Everywhere else in the protocol unknown keys are ignored.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::request::Range;
use crate::strict;

/// One overlay, without a timestamp: the host stamps it.
///
/// The host checks what no type can say: the range lies in the request's, at least one policy is present,
/// each is of a kind that `produces` names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// First turn of the range: 0-based, inclusive.
    pub from_turn: usize,
    /// Last turn of the range: 0-based, inclusive.
    pub to_turn: usize,
    /// Replaces every event of the range by one synthetic pair. Takes precedence over the other two.
    #[serde(default, deserialize_with = "strict::optional_object", skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// What becomes of reasoning in the range.
    #[serde(default, deserialize_with = "strict::optional_word", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// What becomes of tool calls in the range.
    #[serde(default, deserialize_with = "strict::optional_object", skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<ToolCalls>,
}

impl Payload {
    /// A payload for the range, still without a policy. Meant for struct update syntax.
    #[must_use]
    pub fn of(range: Range) -> Self {
        let Range { from_turn, to_turn } = range;
        Self { from_turn, to_turn, summary: None, reasoning: None, tool_calls: None }
    }
}

/// A summary, written when the compaction is made: not blank, no NUL, 256 KiB at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The text that stands for the range.
    pub summary: String,
}

/// The policy for reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// Every reasoning event of the range is left out of the view.
    Strip,
}

/// The policy for tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "policy", rename_all = "snake_case", from = "ToolCallsWire")]
pub enum ToolCalls {
    /// Arguments become `{}` (`request`), content becomes a status line (`response`). With both false every
    /// call of the range is kept, and older policies are shadowed.
    Strip {
        /// Empty the arguments.
        request: bool,
        /// Replace the content by `[compacted] <tool>: success` or `error`.
        response: bool,
    },
    /// Calls of the range are left out of the view, both halves.
    Omit,
    /// Only the calls listed, each by the `seq` of one of its events.
    Selective {
        /// Not empty; each `seq` once.
        calls: Vec<SelectiveCall>,
    },
}

/// [`ToolCalls`] as it is read: serde lets unknown keys pass in a unit variant, but not in an empty struct.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "policy", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "ToolCalls")]
enum ToolCallsWire {
    /// Arguments become `{}` (`request`), content becomes a status line (`response`). With both false every
    /// call of the range is kept, and older policies are shadowed.
    Strip {
        /// Empty the arguments.
        request: bool,
        /// Replace the content by `[compacted] <tool>: success` or `error`.
        response: bool,
    },
    /// Calls of the range are left out of the view, both halves.
    Omit {},
    /// Only the calls listed, each by the `seq` of one of its events.
    Selective {
        /// Not empty; each `seq` once.
        #[serde(deserialize_with = "strict::objects")]
        calls: Vec<SelectiveCall>,
    },
}

impl From<ToolCallsWire> for ToolCalls {
    fn from(wire: ToolCallsWire) -> Self {
        match wire {
            ToolCallsWire::Strip { request, response } => Self::Strip { request, response },
            ToolCallsWire::Omit {} => Self::Omit,
            ToolCallsWire::Selective { calls } => Self::Selective { calls },
        }
    }
}

/// What becomes of one tool event, or with `omit` of the whole call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectiveCall {
    /// The event's number in the stream, as the request gave it.
    pub seq: u64,
    /// For the `seq` of a tool request.
    #[serde(default, deserialize_with = "strict::optional_word", skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestAction>,
    /// For the `seq` of a tool response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseAction>,
    /// For the `seq` of either: both halves are left out of the view.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omit: bool,
}

/// What becomes of a tool request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RequestAction {
    /// Its arguments become `{}`.
    Strip,
}

/// What becomes of a tool response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResponseAction {
    /// Its content becomes the status line of `strip`.
    Strip,
    /// Its content becomes this text.
    Replace(String),
}

impl<'de> Deserialize<'de> for ResponseAction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ResponseActionVisitor)
    }
}

/// Not derived, for `{"strip":null}` would do as well.
struct ResponseActionVisitor;

impl<'de> Visitor<'de> for ResponseActionVisitor {
    type Value = ResponseAction;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"strip\" or {\"replace\": \"text\"}")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<ResponseAction, E> {
        match word {
            "strip" => Ok(ResponseAction::Strip),
            other => Err(E::unknown_variant(other, &["strip", "replace"])),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResponseAction, A::Error> {
        let Some((key, text)) = map.next_entry::<String, String>()? else {
            return Err(A::Error::missing_field("replace"));
        };
        if key != "replace" {
            return Err(A::Error::unknown_field(&key, &["replace"]));
        }
        match map.next_key::<String>()? {
            None => Ok(ResponseAction::Replace(text)),
            Some(key) => Err(A::Error::unknown_field(&key, &["replace"])),
        }
    }
}
