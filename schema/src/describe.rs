//! `describe`: what the host asks first, and how a strategy presents itself. Types only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::strict;
use crate::version::PROTOCOL;

/// The constant `"describe"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DescribeTag {
    /// The one value.
    #[default]
    #[serde(rename = "describe")]
    Describe,
}

/// The host's question. One line; the strategy answers with one [`Description`] and exits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DescribeRequest {
    /// Always `"describe"`.
    #[schemars(with = "String", extend("const" = "describe"))]
    pub r#type: DescribeTag,
    /// The newest version that the host speaks.
    pub protocol: u32,
    /// Who asks.
    pub host: Host,
}

impl DescribeRequest {
    /// The question of this host, in this crate's version.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self { r#type: DescribeTag::Describe, protocol: PROTOCOL, host }
    }
}

/// The asking host. For diagnostics: no strategy decides by name or version, only by `features`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The program's name.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// What the host can do beyond the core of the protocol: `events.file`, `needs.llm`, `worker`. Unknown
    /// ones are ignored.
    #[serde(default)]
    pub features: Vec<String>,
}

/// A strategy's answer. The host keeps it under the digest of the executable, and asks no more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Description {
    /// Always `"describe"`.
    #[schemars(with = "String", extend("const" = "describe"))]
    pub r#type: DescribeTag,
    /// Every version that the strategy speaks.
    pub protocols: Vec<u32>,
    /// The strategy's name, in the grammar of a manifest's `name`.
    pub name: String,
    /// The strategy's version. Part of the origin of every overlay.
    pub version: String,
    /// One sentence for `strategy list`.
    pub description: String,
    /// The kinds of policy it may propose. A payload of another kind is refused.
    #[serde(deserialize_with = "strict::words")]
    pub produces: Vec<ContentKind>,
    /// How much of the conversation it wants to be sent.
    #[serde(deserialize_with = "strict::word")]
    pub input: Input,
    /// Which turns it wants to be sent.
    #[serde(default, deserialize_with = "strict::word")]
    pub scope: Scope,
    /// Extras in the header: `previous_summaries`, `digest`. Unknown ones are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wants: Vec<String>,
    /// What it can do beyond the core of the protocol: `worker`, `pipeline`, `events.file`. Unknown ones are
    /// ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Whether equal requests get equal answers.
    #[serde(default, deserialize_with = "strict::word")]
    pub determinism: Determinism,
    /// What it will ask the host for: `llm`. An unknown one is never granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// JSON Schema 2020-12 of its options. The host checks against it, and fills in its defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options_schema: Option<Value>,
}

impl Description {
    /// A description with everything optional left at its default: no content kind, input `none`, scope
    /// `range`, stochastic, no feature, no option. Meant for struct update syntax.
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

    /// Whether the strategy has this feature.
    #[must_use]
    pub fn has_feature(&self, feature: &str) -> bool {
        self.features.iter().any(|own| own == feature)
    }

    /// Whether the strategy wants this extra in the header.
    #[must_use]
    pub fn wants(&self, extra: &str) -> bool {
        self.wants.iter().any(|own| own == extra)
    }
}

/// A kind of policy. An unknown one is an error: the host could not tell what it would apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentKind {
    /// The host extends the range over existing summaries before it asks.
    Summary,
    /// The host asks for the very range that the user wants.
    Reasoning,
    /// The host asks for the very range that the user wants.
    ToolCalls,
}

/// How much of the conversation is sent. An unknown one is an error: the strategy would starve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Input {
    /// The host sends the header alone; the turn table is in it.
    None,
    /// The host adds `outline` to the header: each event's envelope, no bodies.
    Outline,
    /// The host sends the events themselves after the header.
    Full,
}

/// Which turns are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// The host sends the turns of the range.
    #[default]
    Range,
    /// The host sends every turn; what lies outside the range is context alone.
    Conversation,
}

/// Whether equal requests get equal answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Determinism {
    /// The host may keep an answer, and may ask twice to check.
    Pure,
    /// The host asks each time.
    #[default]
    Stochastic,
}
