//! The arguments of the tools. The doc comments become the descriptions in the tools' schemas, which agents read.

use std::num::NonZero;

use rmcp::schemars::JsonSchema;
use serde::Deserialize;

use crate::reports::conversation::PrintForm;

const TRANSCRIPT: &str = "The conversation: the path of its folder or file, or its id, such as 17738399468. A path is relative \
                          to the served folder, or absolute and inside it.";

/// `compact`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Compact {
    #[schemars(description = TRANSCRIPT)]
    pub(super) transcript: String,
    /// The profile decides which parts to remove. Built-in profiles: `default` (removes reasoning and tool calls), `light` (removes reasoning), `micro` (removes large old tool results), `offline` (replaces turns with a list, without a model), `heavy` and `auto-summarize` (replace turns with a summary by a model), and `collapse` (merges the oldest turns and earlier summaries into one summary by a model). Default: the configured profile.
    pub(super) profile: Option<String>,
    /// The information that the summary must preserve: the current task, finished steps, next steps. Only for profiles with a summary: `heavy`, `auto-summarize`, `collapse`.
    pub(super) focus: Option<String>,
    /// Report the effect only. Nothing is written and no model is called.
    pub(super) dry_run: Option<bool>,
}

/// `stats` and `show`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Look {
    #[schemars(description = TRANSCRIPT)]
    pub(super) transcript: String,
}

/// `print`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Print {
    #[schemars(description = TRANSCRIPT)]
    pub(super) transcript: String,
    /// Apply the overlays and print the view that a model receives. Default: print the whole history.
    pub(super) compacted: Option<bool>,
    /// The printed form: `text` (the default), `json` (the decoded events that a provider receives), `source` (the form of the transcript), or a provider's name for the conversation of its request body.
    #[schemars(extend("enum" = PrintForm::names().collect::<Vec<_>>()))]
    #[serde(rename = "as")]
    pub(super) form: Option<String>,
}

/// `reset`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Reset {
    #[schemars(description = TRANSCRIPT)]
    pub(super) transcript: String,
    /// The number of the overlay to remove, as listed by `show`. Default: all overlays.
    pub(super) number: Option<NonZero<usize>>,
}
