//! `describe`: the first request of the host, and the strategy's description of itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::strict;
use crate::version::PROTOCOL;

/// The constant `"describe"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DescribeTag {
    /// The only value.
    #[default]
    #[serde(rename = "describe")]
    Describe,
}

/// The host's request for a description. The strategy answers with one description on one line, and exits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct DescribeRequest {
    /// Always `"describe"`.
    #[cfg_attr(feature = "generate", schemars(with = "String", extend("const" = "describe")))]
    pub r#type: DescribeTag,
    /// The newest protocol version of the host.
    pub protocol: u32,
    /// The host.
    pub host: Host,
}

impl DescribeRequest {
    /// Creates the request, with the protocol version of this crate.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self { r#type: DescribeTag::Describe, protocol: PROTOCOL, host }
    }
}

/// The host. Its name and version are for diagnostics: a strategy must base decisions on `features` only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Host {
    /// The program's name.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// The optional parts of the protocol that the host supports: `events.file`, `needs.llm`, `needs.many`, `steps`,
    /// `worker`. Strategies ignore unknown features.
    #[serde(default)]
    pub features: Vec<String>,
}

/// The description of a strategy. The host caches it by the digest of the executable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Description {
    /// Always `"describe"`.
    #[cfg_attr(feature = "generate", schemars(with = "String", extend("const" = "describe")))]
    pub r#type: DescribeTag,
    /// All protocol versions that the strategy supports.
    pub protocols: Vec<u32>,
    /// The strategy's name. The rules for `name` in a manifest apply.
    pub name: String,
    /// The strategy's version. The host records it with every overlay.
    pub version: String,
    /// One sentence for `strategy list`.
    pub description: String,
    /// The kinds of policies that the strategy may propose. The host rejects other kinds.
    #[serde(deserialize_with = "strict::variants")]
    pub produces: Vec<ContentKind>,
    /// The amount of data that the host sends.
    #[serde(deserialize_with = "strict::variant")]
    pub input: Input,
    /// The turns that the host sends.
    #[serde(default, deserialize_with = "strict::variant")]
    pub scope: Scope,
    /// The optional members to send: `previous_summaries` and `digest` in the header, `hidden` in event lines. The host
    /// ignores unknown members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wants: Vec<String>,
    /// The optional parts of the protocol that the strategy supports: `worker`, `pipeline`, `events.file`,
    /// `needs.many`, `steps`. The host ignores unknown features.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Whether equal requests get equal replies.
    #[serde(default, deserialize_with = "strict::variant")]
    pub determinism: Determinism,
    /// The host services that the strategy requires: `llm`. The host never grants unknown ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// The JSON Schema (2020-12) of the options. The host validates the options and fills in the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options_schema: Option<Value>,
}

/// The feature of strategies that accept ranges with steps. For other strategies, the host rounds ranges to whole
/// turns.
pub const STEPS: &str = "steps";

/// The optional member of event lines that marks events that the view does not show unchanged.
pub const HIDDEN: &str = "hidden";

impl Description {
    /// Returns a description that produces nothing, with input `none` and the defaults of all optional fields. Set
    /// other values with struct update syntax.
    #[must_use]
    pub fn new(name: &str, version: &str, description: &str) -> Self {
        Self {
            r#type: DescribeTag::Describe,
            protocols: vec![PROTOCOL],
            name: name.to_owned(),
            version: version.to_owned(),
            description: description.to_owned(),
            produces: Vec::new(),
            input: Input::None,
            scope: Scope::default(),
            wants: Vec::new(),
            features: Vec::new(),
            determinism: Determinism::default(),
            needs: Vec::new(),
            options_schema: None,
        }
    }

    /// Returns whether the strategy has this feature.
    #[must_use]
    pub fn has_feature(&self, feature: &str) -> bool {
        self.features.iter().any(|listed| listed == feature)
    }

    /// Returns whether the strategy wants this optional member of a message.
    #[must_use]
    pub fn wants(&self, member: &str) -> bool {
        self.wants.iter().any(|wanted| wanted == member)
    }
}

/// A kind of policy. An unknown kind is an error, because the host could not apply it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentKind {
    /// Summaries. The host extends the range over existing summaries before it sends the request.
    Summary,
    /// Policies for reasoning. The host sends the range that the user selected.
    Reasoning,
    /// Policies for tool calls. The host sends the range that the user selected.
    ToolCalls,
}

impl ContentKind {
    /// Returns its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Reasoning => "reasoning",
            Self::ToolCalls => "tool_calls",
        }
    }
}

/// The amount of data that the host sends. An unknown value is an error, because the strategy would miss data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Input {
    /// Only the header, which includes the turn table.
    None,
    /// The header with an `outline`: the envelopes of the events, without their bodies.
    Outline,
    /// The header and then all events.
    Full,
}

/// The turns that the host sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// Only the turns of the range.
    #[default]
    Range,
    /// All turns. Turns outside the range are context and must not be compacted.
    Conversation,
}

/// Whether equal requests get equal replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Determinism {
    /// Equal requests get equal replies. The host may cache a reply, and may send a request twice as a check.
    Pure,
    /// Replies may differ. The host sends every request.
    #[default]
    Stochastic,
}
