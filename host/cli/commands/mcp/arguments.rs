//! The arguments of the tools. Agents read the doc comments of the fields as descriptions in the tools' schemas.

use std::num::NonZero;

use jp_compact_core::Bound;
use jp_compact_core::select::RequestedSelection;
use rmcp::schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::error::Report;
use crate::exit::Exit;
use crate::reports::conversation::PrintForm;
use crate::selection::{KeptTurns, SelectionArgs};

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
    /// Refuse a result that loses a constraint of the user: a sentence with never, always, must, don't, do not, only, or from now on.
    pub(super) require_constraints: Option<bool>,
    /// The first turn or step: `4` is turn 4, `4.10` is step 10 of turn 4, `-3` is 3 turns before the last, `5h` is 5 hours ago, `last` is after the last compaction. Turns and steps are numbered from 0. A step is one response of the model and the tool results that answer it.
    #[serde(default, deserialize_with = "bound")]
    #[schemars(with = "Option<String>")]
    pub(super) from: Option<Bound>,
    /// The last turn or step, written like `from`.
    #[serde(default, deserialize_with = "bound")]
    #[schemars(with = "Option<String>")]
    pub(super) to: Option<Bound>,
    /// Keep the first N turns unchanged.
    pub(super) keep_first: Option<usize>,
    /// Keep the last N turns unchanged. Default: as configured, else 3.
    pub(super) keep_last: Option<usize>,
    /// Keep only the newest N steps unchanged, wherever turns begin. Use this inside a long turn. A call without a result, such as this one, is never compacted.
    pub(super) keep_steps: Option<usize>,
    /// Keep only the newest steps that fit into N tokens unchanged.
    pub(super) keep_tokens: Option<u64>,
}

impl Compact {
    /// Returns the selected turns and steps. The rules are the same as on the command line.
    pub(super) fn selection(&self) -> Result<RequestedSelection, Report> {
        let &Self { from, to, keep_first, keep_last, keep_steps, keep_tokens, .. } = self;
        let (keep_first, keep_last) = (keep_first.map(KeptTurns::Count), keep_last.map(KeptTurns::Count));
        let typed = SelectionArgs { from, to, keep_first, keep_last, keep_steps, keep_tokens };
        match typed.contradiction() {
            None => Ok(typed.selection()),
            Some((bound, keep)) => {
                let message = format!("`{bound}` and `{keep}` select the same side of the range");
                Err(Report::new(Exit::Usage, message, Some("give only one of them")))
            }
        }
    }
}

/// Deserializes a bound. A model may send a turn as a number, but a fraction such as 4.10 would lose the step.
fn bound<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bound>, D::Error> {
    let text = match Option::<Value>::deserialize(deserializer)? {
        None => return Ok(None),
        Some(Value::String(text)) => text,
        Some(Value::Number(number)) if !number.is_f64() => number.to_string(),
        Some(other) => {
            let message =
                format!("{other} is not a turn or a step: write a step as a string, such as \"4.10\"");
            return Err(D::Error::custom(message));
        }
    };
    // A model may send an empty string for an argument that it does not use.
    let text = text.trim();
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(D::Error::custom) }
}

/// `stats` and `show`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
pub(super) struct Inspect {
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
