//! The compaction payload, which a strategy proposes for a range of turns.
//!
//! The spelling follows JP (RFD 064, "The `Compaction` Type"). `selective` is an addition that JP cannot read.
//! Payloads are parsed strictly: an unknown key is an error, because a misspelled policy must not become a silent
//! no-op. Everywhere else in the protocol, unknown keys are ignored.

use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::range::Range;
use crate::strict;

/// One proposed compaction. The host adds the timestamp.
///
/// The host also checks the rules that a schema cannot express: the range is inside the range of the request, at
/// least one policy is present, and each policy is of a kind that `produces` lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// The first turn of the range, 0-based.
    pub from_turn: usize,
    /// The last turn of the range, 0-based and inclusive.
    pub to_turn: usize,
    /// The first step in `from_turn`. Absent for the whole turn. Only with the feature `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<usize>,
    /// The last step in `to_turn`, inclusive. Absent for the whole turn. Only with the feature `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_step: Option<usize>,
    /// Replaces every event of the range with one synthetic request and response, or with one message if the range
    /// begins at a step. Overrides the other two policies.
    #[serde(default, deserialize_with = "strict::optional_object", skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The policy for reasoning in the range.
    #[serde(default, deserialize_with = "strict::optional_variant", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// The policy for tool calls in the range.
    #[serde(default, deserialize_with = "strict::optional_object", skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<ToolCalls>,
}

impl Payload {
    /// Returns a payload without a policy. Add policies with struct update syntax.
    #[must_use]
    pub fn new(range: Range) -> Self {
        let Range { from_turn, to_turn, from_step, to_step } = range;
        Self { from_turn, to_turn, from_step, to_step, summary: None, reasoning: None, tool_calls: None }
    }
}

/// A summary. The text must not be blank or contain NUL, and has at most 256 KiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The text that replaces the range.
    pub summary: String,
}

/// The policy for reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// Removes every reasoning event of the range from the view.
    Strip,
}

/// The policy for tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(tag = "policy", rename_all = "snake_case", from = "ToolCallsWire")]
pub enum ToolCalls {
    /// Replaces arguments with `{}` (`request`) and content with a status line (`response`). With both false, every
    /// call of the range is kept, and older policies no longer apply to the range.
    Strip {
        /// Replace the arguments with `{}`.
        request: bool,
        /// Replace the content with `[compacted] <tool>: success` or `error`.
        response: bool,
    },
    /// Removes the tool calls of the range from the view: requests and responses.
    Omit,
    /// Applies to the listed calls only. Each is named by the `seq` of one of its events.
    Selective {
        /// The calls. At least one, and each `seq` at most once.
        calls: Vec<SelectiveCall>,
    },
}

/// [`ToolCalls`] for parsing: serde accepts unknown keys in a unit variant, but not in an empty struct variant.
#[derive(Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(tag = "policy", rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "generate", schemars(rename = "ToolCalls"))]
enum ToolCallsWire {
    /// Replaces arguments with `{}` (`request`) and content with a status line (`response`). With both false, every
    /// call of the range is kept, and older policies no longer apply to the range.
    Strip {
        /// Replace the arguments with `{}`.
        request: bool,
        /// Replace the content with `[compacted] <tool>: success` or `error`.
        response: bool,
    },
    /// Removes the tool calls of the range from the view: requests and responses.
    Omit {},
    /// Applies to the listed calls only. Each is named by the `seq` of one of its events.
    Selective {
        /// The calls. At least one, and each `seq` at most once.
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

/// The action for one tool event, or with `omit` for the whole call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SelectiveCall {
    /// The event's number in the stream, taken from the request.
    pub seq: u64,
    /// The action if `seq` is a tool request.
    #[serde(default, deserialize_with = "strict::optional_variant", skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestAction>,
    /// The action if `seq` is a tool response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseAction>,
    /// Removes both the request and the response from the view. `seq` may be either of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omit: bool,
}

/// The action for a tool request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RequestAction {
    /// Replaces its arguments with `{}`.
    Strip,
    /// Shows its arguments, even if an older overlay strips them.
    Keep,
}

/// The action for a tool response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ResponseAction {
    /// Replaces its content with the status line of the policy `strip`.
    Strip,
    /// Shows its content, even if an older overlay strips or replaces it.
    Keep,
    /// Replaces its content with this text.
    Replace(String),
}

impl<'de> Deserialize<'de> for ResponseAction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ResponseActionVisitor)
    }
}

/// Not derived, because serde would also accept `{"strip":null}`.
struct ResponseActionVisitor;

impl<'de> Visitor<'de> for ResponseActionVisitor {
    type Value = ResponseAction;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"strip\", \"keep\", or {\"replace\": \"text\"}")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<ResponseAction, E> {
        match name {
            "strip" => Ok(ResponseAction::Strip),
            "keep" => Ok(ResponseAction::Keep),
            other => Err(E::unknown_variant(other, &["strip", "keep", "replace"])),
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
