//! The records of `batch --ndjson` and their answers, a line each. The host reads a record as the type that is here. An
//! answer it writes around the transcript, which is never read as a value: of that the type is what a reader has.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The formats that transcripts may be in, by name.
pub const FORMATS: [&str; 15] = [
    "jp",
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

/// One transcript to be compacted: a line. Members that are not known are another's. A member that is null is not there.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[schemars(title = "batch-record", transform = one_source)]
pub struct BatchRecord<'a> {
    /// Any JSON; it comes back with the answer, as the bytes that it was.
    #[serde(borrow, default)]
    #[schemars(with = "Value")]
    pub id: Option<&'a RawValue>,
    /// The transcript: its JSON, an array of what are the lines of its file, or a string of the file's text.
    #[serde(borrow, default)]
    #[schemars(schema_with = "transcript_or_null")]
    pub transcript: Option<&'a RawValue>,
    /// In place of a transcript, the file that holds it, seen from the host's current folder. It is only read.
    #[serde(borrow, default)]
    #[schemars(with = "Option<String>")]
    pub path: Option<&'a RawValue>,
    /// What it is written in, where that cannot be told by what it holds.
    #[serde(borrow, default)]
    #[schemars(schema_with = "format_or_null")]
    pub format: Option<&'a RawValue>,
}

/// What a record is answered with: a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "batch-answer")]
pub enum BatchAnswer {
    /// It was compacted, or there was nothing to do.
    Good(Box<GoodAnswer>),
    /// Nothing was done.
    Bad(BadAnswer),
}

/// The answer to a record that was compacted. In a dry run it has neither `transcript` nor `view`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoodAnswer {
    /// That of the record; null where it had none.
    pub id: Value,
    /// That it is one.
    #[schemars(with = "bool", extend("const" = true))]
    pub ok: Good,
    /// What the transcript is written in.
    #[schemars(schema_with = "format")]
    pub format: String,
    /// With `--view` what a model is sent, in the form in which the transcript came; of a `path` the file's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "transcript")]
    pub view: Option<Value>,
    /// Without `--view` the transcript, in the form in which it came: JP's with its overlays appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "transcript")]
    pub transcript: Option<Value>,
    /// All overlays of a transcript that is not JP's, as they would lie beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    pub overlays: Option<Vec<Value>>,
    /// What was done.
    #[serde(flatten)]
    pub told: RecordReport,
}

/// What was done to a record's transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordReport {
    /// What it came to.
    pub saved: Saved,
    /// The strategies that made no overlay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declines: Vec<RecordDecline>,
    /// What is wrong with the transcript, and was passed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How much less a model is sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saved {
    /// What the view has, in tokens.
    pub tokens: SentTokens,
    /// Of the view's tokens before, how many percent are saved.
    pub percent: f64,
    /// How many overlays were made.
    pub overlays: usize,
}

/// How many tokens the view has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentTokens {
    /// As the transcript came.
    pub before: u64,
    /// With the overlays that were made.
    pub after: u64,
    /// Of a conversation of JP's, what JP itself sends of the `transcript`: it applies the overlays that its own grammar
    /// has. With `--view` it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jp: Option<JpTokens>,
}

/// How many tokens JP itself sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JpTokens {
    /// As the transcript came.
    pub before: u64,
    /// With the overlays that were made.
    pub after: u64,
}

/// A strategy that made no overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordDecline {
    /// Its name; null where there was nothing to ask any of them for.
    pub strategy: Option<String>,
    /// Why.
    pub reason: String,
}

/// The answer to a record that nothing was done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BadAnswer {
    /// That of the record, where it can be found; else null.
    pub id: Value,
    /// That it is none.
    #[schemars(with = "bool", extend("const" = false))]
    pub ok: Bad,
    /// Why.
    pub error: RecordError,
}

/// Why a record has no answer but this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordError {
    /// What kind of failure it is.
    pub code: Code,
    /// What failed, and why, for people.
    pub message: String,
    /// Whether the same record may go well another time.
    pub retryable: bool,
}

impl RecordError {
    /// The failure of this kind.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: code.is_retryable() }
    }
}

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Code {
    /// The line is no record.
    BadRecord,
    /// The line is longer than a record may be.
    RecordTooLarge,
    /// The transcript cannot be read, or its view would break a rule.
    TranscriptInvalid,
    /// A strategy reported an error.
    StrategyError,
    /// What a strategy says of itself is invalid.
    StrategyInvalid,
    /// A strategy is not there.
    StrategyNotFound,
    /// A strategy may not run.
    StrategyNotTrusted,
    /// A strategy crashed, was killed or could not start.
    StrategyCrashed,
    /// A strategy said what the protocol has no room for.
    ProtocolViolation,
    /// A strategy's protocol is too old.
    ProtocolTooOld,
    /// A strategy's protocol is too new.
    ProtocolTooNew,
    /// What a strategy proposed was refused.
    Refused,
    /// The options do not fit this transcript.
    Usage,
    /// Something else is at the transcript.
    Conflict,
    /// A strategy missed its deadline.
    Deadline,
    /// No model answered, or the budget is used up.
    ModelUnavailable,
    /// A bug in jp-compact.
    Bug,
}

impl Code {
    /// Whether the same record may go well another time.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Conflict | Self::Deadline | Self::ModelUnavailable | Self::StrategyCrashed)
    }
}

/// `true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "bool", into = "bool")]
pub struct Good;

/// `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "bool", into = "bool")]
pub struct Bad;

impl TryFrom<bool> for Good {
    type Error = &'static str;

    fn try_from(ok: bool) -> Result<Self, Self::Error> {
        if ok { Ok(Self) } else { Err("expected `true`") }
    }
}

impl From<Good> for bool {
    fn from(_: Good) -> Self {
        true
    }
}

impl TryFrom<bool> for Bad {
    type Error = &'static str;

    fn try_from(ok: bool) -> Result<Self, Self::Error> {
        if ok { Err("expected `false`") } else { Ok(Self) }
    }
}

impl From<Bad> for bool {
    fn from(_: Bad) -> Self {
        false
    }
}

fn transcript(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["array", "object", "string"] })
}

fn transcript_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["array", "object", "string", "null"] })
}

fn format(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": FORMATS })
}

fn format_or_null(_: &mut SchemaGenerator) -> Schema {
    let names = FORMATS.into_iter().map(Value::from).chain([Value::Null]);
    json_schema!({ "enum": names.collect::<Vec<_>>() })
}

/// Of `transcript` and `path` exactly one is there.
fn one_source(schema: &mut Schema) {
    let only = |one: &str, other: &str| {
        json_schema!({
            "required": [one],
            "properties": { one: { "not": { "type": "null" } }, other: { "type": "null" } },
        })
    };
    let either = [only("transcript", "path"), only("path", "transcript")].map(Value::from);
    schema.insert("oneOf".into(), Value::from(either.to_vec()));
}
