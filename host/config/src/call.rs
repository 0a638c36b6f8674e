//! Calls of strategies with their options, as a profile or an inline form describes them. Only this module maps the
//! policies of RFD 064 to the strategies that implement them.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use jp_compact_core::select::Selection;
use jp_compact_core::spec::{Options, Spec};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub strategy: String,
    /// Its options, without defaults.
    pub options: Map<String, Value>,
    /// The turns, if they differ from the turns of the run. Inline forms and JP's rules can select turns.
    pub range: Option<Selection>,
}

impl Call {
    /// Creates a call of a strategy without options.
    #[must_use]
    pub fn without_options(strategy: &str) -> Self {
        Self { strategy: strategy.to_owned(), options: Map::new(), range: None }
    }

    /// Returns the call for `reasoning = "strip"`.
    #[must_use]
    pub fn reasoning() -> Self {
        Self::without_options("strip-reasoning")
    }

    /// Returns the call for `tool_calls = "..."`.
    #[must_use]
    pub fn tools(mode: ToolsMode) -> Self {
        let mut call = Self::without_options("strip-tools");
        call.options.insert("mode".into(), mode.to_string().into());
        call
    }

    /// Returns the call for `summary = {...}`.
    #[must_use]
    pub fn summary(model: Option<&str>, instructions: Option<&str>) -> Self {
        let mut call = Self::without_options("summarize");
        for (key, value) in [("model", model), ("instructions", instructions)] {
            if let Some(value) = value {
                call.options.insert(key.into(), value.into());
            }
        }
        call
    }

    /// Returns the call with its own turns.
    #[must_use]
    pub fn with_range(self, range: Selection) -> Self {
        Self { range: Some(range), ..self }
    }

    /// Returns the call as if the user had typed it.
    #[must_use]
    pub fn spec(&self) -> Spec {
        Spec { name: self.strategy.clone(), options: Options::Object(self.options.clone()) }
    }
}

/// Returns the calls for RFD 064's policies. With a summary, the other two policies are ignored, because the summary
/// replaces everything in its range.
#[must_use]
pub fn calls_for_policies(reasoning: bool, tools: Option<ToolsMode>, summary: Option<Call>) -> Vec<Call> {
    if let Some(summary) = summary {
        return vec![summary];
    }
    let reasoning = reasoning.then(Call::reasoning);
    reasoning.into_iter().chain(tools.map(Call::tools)).collect()
}

/// The policy for tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolsMode {
    /// Strip arguments and content.
    Strip,
    /// Strip arguments.
    StripRequests,
    /// Strip content.
    StripResponses,
    /// Omit the calls.
    Omit,
}

impl FromStr for ToolsMode {
    type Err = String;

    /// Parses JP's names, including the short names.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "strip" | "s" => Ok(Self::Strip),
            "strip-requests" | "strip_requests" | "sreq" => Ok(Self::StripRequests),
            "strip-responses" | "strip_responses" | "sres" => Ok(Self::StripResponses),
            "omit" | "o" => Ok(Self::Omit),
            _ => {
                Err(format!("expected `strip`, `strip-requests`, `strip-responses` or `omit`, not `{text}`"))
            }
        }
    }
}

impl fmt::Display for ToolsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Strip => "strip",
            Self::StripRequests => "strip-requests",
            Self::StripResponses => "strip-responses",
            Self::Omit => "omit",
        })
    }
}
