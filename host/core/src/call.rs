//! What a profile and an inline form come to: strategies to call, each with its options. Which strategy stands
//! for which word of RFD 064 is said here, and nowhere else in the host.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::select::Wanted;
use crate::spec::{Options, Spec};

/// A strategy to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub strategy: String,
    /// Its options, settled.
    pub options: Map<String, Value>,
    /// The turns, where the call brings its own and does not take those of the run: an inline form, or one of
    /// JP's rules.
    pub range: Option<Wanted>,
}

impl Call {
    /// A strategy by its name, without options.
    #[must_use]
    pub fn named(strategy: &str) -> Self {
        Self { strategy: strategy.to_owned(), options: Map::new(), range: None }
    }

    /// What `reasoning = "strip"` means.
    #[must_use]
    pub fn reasoning() -> Self {
        Self::named("strip-reasoning")
    }

    /// What `tool_calls = "..."` means.
    #[must_use]
    pub fn tools(mode: ToolsMode) -> Self {
        let mut call = Self::named("strip-tools");
        call.options.insert("mode".into(), mode.to_string().into());
        call
    }

    /// What `summary = {...}` means.
    #[must_use]
    pub fn summary(model: Option<&str>, instructions: Option<&str>) -> Self {
        let mut call = Self::named("summarize");
        for (key, value) in [("model", model), ("instructions", instructions)] {
            if let Some(value) = value {
                call.options.insert(key.into(), value.into());
            }
        }
        call
    }

    /// The same for these turns.
    #[must_use]
    pub fn over(self, range: Wanted) -> Self {
        Self { range: Some(range), ..self }
    }

    /// The same as if it had been typed.
    #[must_use]
    pub fn spec(&self) -> Spec {
        Spec { name: self.strategy.clone(), options: Options::Whole(self.options.clone()) }
    }
}

/// The calls of RFD 064's policies. A summary replaces everything in its range, so that the other two are
/// ignored beside one.
#[must_use]
pub fn of_policies(reasoning: bool, tools: Option<ToolsMode>, summary: Option<Call>) -> Vec<Call> {
    if let Some(summary) = summary {
        return vec![summary];
    }
    let reasoning = reasoning.then(Call::reasoning);
    reasoning.into_iter().chain(tools.map(Call::tools)).collect()
}

/// What becomes of tool calls, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolsMode {
    /// Arguments and content go.
    Strip,
    /// Arguments go.
    StripRequests,
    /// Content goes.
    StripResponses,
    /// The calls go.
    Omit,
}

impl FromStr for ToolsMode {
    type Err = String;

    /// Reads JP's words for it, the short ones too.
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
