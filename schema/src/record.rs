//! The records of `batch --ndjson` and their answers, one per line.
//!
//! The host parses records with these types. It does not serialize answers with them, because it copies the transcript
//! unparsed. The answer types are for readers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::document::{DeclineReport, ErrorReport, EvalReport, Saved, TokenCounts};
use crate::report::is_zero;

/// The names of the transcript formats.
pub const FORMATS: [&str; 18] = [
    "jp",
    "qwen-code",
    "kimi-cli",
    "cline",
    "claude-code",
    "codex",
    "opencode",
    "pi",
    "gemini-cli",
    "atif",
    "openhands",
    "swe-agent",
    "openai-responses",
    "anthropic",
    "gemini",
    "ollama",
    "j-cli",
    "openai-chat",
];

/// One transcript to compact, on one line. Unknown members are ignored. A member that is null counts as absent.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "generate", schemars(title = "batch-record", transform = crate::generate::one_source))]
pub struct BatchRecord<'a> {
    /// Any JSON value. The answer contains the same bytes.
    #[serde(borrow, default)]
    #[cfg_attr(feature = "generate", schemars(with = "Value"))]
    pub id: Option<&'a RawValue>,
    /// The transcript: its JSON document, an array of the lines of its file, or a string with the text of its file.
    #[serde(borrow, default)]
    #[cfg_attr(feature = "generate", schemars(schema_with = "crate::generate::transcript_or_null"))]
    pub transcript: Option<&'a RawValue>,
    /// The file of the transcript, instead of `transcript`. The path is relative to the current directory of the host.
    /// The file is never written.
    #[serde(borrow, default)]
    #[cfg_attr(feature = "generate", schemars(with = "Option<String>"))]
    pub path: Option<&'a RawValue>,
    /// The format. Required if it cannot be detected from the content.
    #[serde(borrow, default)]
    #[cfg_attr(feature = "generate", schemars(schema_with = "format_or_null"))]
    pub format: Option<&'a RawValue>,
}

/// The answer to one record, on one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[cfg_attr(feature = "generate", schemars(title = "batch-answer"))]
pub enum BatchAnswer {
    /// The transcript was compacted, or there was nothing to compact.
    Good(Box<GoodAnswer>),
    /// The record failed.
    Bad(BadAnswer),
}

/// The answer to a processed record. In a dry run it has neither `transcript` nor `view`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct GoodAnswer {
    /// The `id` of the record, or null if the record has none.
    pub id: Value,
    /// Always `true`.
    #[cfg_attr(feature = "generate", schemars(with = "bool", extend("const" = true)))]
    pub ok: True,
    /// The format of the transcript.
    #[cfg_attr(feature = "generate", schemars(schema_with = "format"))]
    pub format: String,
    /// With `--view`, the view that is sent to a model, in the form of the input. For a `path`, a string with the text of
    /// the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(schema_with = "crate::generate::transcript"))]
    pub view: Option<Value>,
    /// Without `--view`, the transcript in the form of the input. A transcript of JP has the overlays appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(schema_with = "crate::generate::transcript"))]
    pub transcript: Option<Value>,
    /// All overlays, for formats other than JP's. A sidecar file would contain the same values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(with = "Vec<serde_json::Map<String, Value>>"))]
    pub overlays: Option<Vec<Value>>,
    /// The results.
    #[serde(flatten)]
    pub report: RecordReport,
    /// With `--eval`, the evaluation of the strategies on the transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(with = "EvalReport"))]
    pub eval: Option<Box<EvalReport>>,
}

/// The results for a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct RecordReport {
    /// The estimator that counted the tokens, for example `pieces`.
    pub estimator: String,
    /// The size of the conversation. `jp` is null with `--view`.
    pub tokens: TokenCounts,
    /// The effect of the run.
    pub saved: Saved,
    /// The tokens that the view shows again, because a new policy replaces an older one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restored_tokens: u64,
    /// The number of new overlays.
    pub new_overlays: usize,
    /// The strategies that made no overlay, with their reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declines: Vec<DeclineReport>,
    /// The reason why no strategy was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
    /// Problems of the transcript that were ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The answer to a record that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct BadAnswer {
    /// The `id` of the record, or null if it was not found.
    pub id: Value,
    /// Always `false`.
    #[cfg_attr(feature = "generate", schemars(with = "bool", extend("const" = false)))]
    pub ok: False,
    /// The error.
    pub error: ErrorReport,
}

/// The constant `true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "bool", into = "bool")]
pub struct True;

/// The constant `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "bool", into = "bool")]
pub struct False;

impl TryFrom<bool> for True {
    type Error = &'static str;

    fn try_from(ok: bool) -> Result<Self, Self::Error> {
        if ok { Ok(Self) } else { Err("expected `true`") }
    }
}

impl From<True> for bool {
    fn from(_: True) -> Self {
        true
    }
}

impl TryFrom<bool> for False {
    type Error = &'static str;

    fn try_from(ok: bool) -> Result<Self, Self::Error> {
        if ok { Err("expected `false`") } else { Ok(Self) }
    }
}

impl From<False> for bool {
    fn from(_: False) -> Self {
        false
    }
}

#[cfg(feature = "generate")]
fn format(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": FORMATS })
}

#[cfg(feature = "generate")]
fn format_or_null(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let names = FORMATS.into_iter().map(Value::from).chain([Value::Null]);
    schemars::json_schema!({ "enum": names.collect::<Vec<_>>() })
}
