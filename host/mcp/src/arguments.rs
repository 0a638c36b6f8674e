//! The arguments of the tools. Agents read the doc comments of the fields as descriptions in the tools' schemas.

use std::num::NonZero;

use jp_compact_core::Bound;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

const TRANSCRIPT: &str = "The conversation: the path of its folder or file, or its id, such as 17738399468. A path is relative \
                          to the served folder, or absolute and inside it.";

/// The arguments of `compact`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompactArguments {
    #[schemars(description = TRANSCRIPT)]
    pub transcript: String,
    /// The profile decides which parts to remove. Built-in profiles: `agent` (removes reasoning, shortens results),
    /// `default` (removes reasoning and tool calls), `light` (removes reasoning), `micro` (removes large old results),
    /// `offline` (a list replaces turns), `heavy` and `auto-summarize` (a model summarizes turns), `collapse` (a model
    /// merges old turns and summaries). Default: as configured, else `agent` for agents' sessions, else `default`.
    pub profile: Option<String>,
    /// Run these installed strategies instead of a profile, each as `NAME` or `NAME:key=value,key=value`:
    /// `strip-tools`, `strip-reasoning`, `micro`, `trim`, `extract`, `digest`, `summarize`, `collapse`. A path, a file
    /// with options, and a model are refused.
    pub strategies: Option<Vec<String>>,
    /// Run JP's inline form instead of a profile, such as `s:..-3`, `r+t`, or `t=sreq:5..-3`: `r` strips reasoning, `t`
    /// tool calls, `s` summarizes. Its turns count from 1, as in JP.
    pub inline: Option<String>,
    /// The information that the summary must preserve: the current task, finished steps, next steps. Only for profiles
    /// with a summary: `heavy`, `auto-summarize`, `collapse`.
    pub focus: Option<String>,
    /// Report the effect only. Nothing is written and no model is called.
    pub dry_run: Option<bool>,
    /// Refuse a result that loses a constraint of the user: a sentence with never, always, must, don't, do not, only,
    /// or from now on.
    pub require_constraints: Option<bool>,
    /// The first turn or step: `4` is turn 4, `4.10` is step 10 of turn 4, `-3` is 3 turns before the last, `5h` is 5
    /// hours ago, `last` is after the last compaction. Turns and steps are numbered from 0. A step is one response of
    /// the model and the tool results that answer it.
    #[serde(default, deserialize_with = "bound")]
    #[schemars(with = "Option<String>")]
    pub from: Option<Bound>,
    /// The last turn or step, written like `from`.
    #[serde(default, deserialize_with = "bound")]
    #[schemars(with = "Option<String>")]
    pub to: Option<Bound>,
    /// Keep the first N turns unchanged.
    pub keep_first: Option<usize>,
    /// Keep the last N turns unchanged. Default: as configured or as the profile sets it, else 3.
    pub keep_last: Option<usize>,
    /// Keep only the newest N steps unchanged, in any turn. Use this inside a long turn. A call without a result, such
    /// as this one, is never compacted.
    pub keep_steps: Option<usize>,
    /// Keep only the newest steps that fit into N tokens unchanged.
    pub keep_tokens: Option<u64>,
}

/// The arguments of `fork`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkArguments {
    /// The session: its id, as `list` returns it.
    pub transcript: String,
    /// Also compact the copy with this profile, such as `default`, or with JP's inline form, such as `r+t`. Default: only
    /// the overlays that are already recorded.
    pub profile: Option<String>,
    /// The information that a summary must preserve. Only for profiles with a summary: `heavy`, `auto-summarize`,
    /// `collapse`.
    pub focus: Option<String>,
    /// Report the effect only. Nothing is written and no model is called.
    pub dry_run: Option<bool>,
    /// With `profile`, keep the last N turns unchanged. Default: as configured or as the profile sets it, else 3.
    pub keep_last: Option<usize>,
    /// With `profile`, keep only the newest N steps unchanged, in any turn.
    pub keep_steps: Option<usize>,
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

/// The arguments of `stats`, `show`, and `diff`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InspectArguments {
    #[schemars(description = TRANSCRIPT)]
    pub transcript: String,
}

/// The arguments of `print`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrintArguments {
    #[schemars(description = TRANSCRIPT)]
    pub transcript: String,
    /// Apply the overlays and print the view that a model receives. Default: print the whole history.
    pub compacted: Option<bool>,
    /// The first character to print. Default: 0. The result of a page has the `offset` of the next one.
    pub offset: Option<usize>,
    /// The maximum number of characters to print. Default: 100000.
    pub max_chars: Option<usize>,
    /// The printed form: `text` (the default), `json` (the decoded events that a provider receives), `source` (the form
    /// of the transcript), or a provider's name for the conversation of its request body.
    #[serde(rename = "as")]
    pub form: Option<String>,
}

/// The arguments of `reset`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetArguments {
    #[schemars(description = TRANSCRIPT)]
    pub transcript: String,
    /// The number of the overlay to remove, as listed by `show`. Default: all overlays.
    pub number: Option<NonZero<usize>>,
}

/// The arguments of `list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListArguments {
    /// The maximum number of sessions to list. Default: 20.
    pub max: Option<usize>,
}

/// The arguments of `search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchArguments {
    #[schemars(description = TRANSCRIPT)]
    pub transcript: String,
    /// The text to find in the raw events, ignoring the case of ASCII letters: a path, a name, a number, a command.
    pub query: String,
    /// The maximum number of events to return. Default: 20.
    pub max: Option<usize>,
}

/// The arguments of `expand`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpandArguments {
    #[schemars(description = TRANSCRIPT)]
    pub transcript: String,
    /// The number of the event, as `search` returns it.
    pub event: usize,
    /// The first character of the event's text. Default: 0.
    pub offset: Option<usize>,
    /// The maximum number of characters to return. Default: 100000.
    pub max_chars: Option<usize>,
}
