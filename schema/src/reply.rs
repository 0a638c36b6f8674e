//! What a strategy answers: any number of `progress` and `log`, then exactly one terminal line. Types, and
//! how one line becomes one of them. Whether a payload fits the request is not decided here.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;

use crate::compaction::Payload;
use crate::line::from_line;
use crate::needs::Needs;
use crate::open;
use crate::strict;
use crate::version::COMPACTIONS_MAX;

/// One line from a strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(transform = open::by_type)]
#[non_exhaustive]
pub enum Reply {
    /// The host shows it, if someone watches, and reads on.
    Progress(Progress),
    /// The host logs it and reads on.
    Log(Log),
    /// Terminal. The host validates every payload; all of them are appended, or none.
    Result(ResultReply),
    /// Terminal. The host reports the reason and appends nothing; that is no failure.
    Decline(Decline),
    /// Terminal for this round. The host gets the answers and sends the request again.
    Needs(Needs),
    /// Terminal. The host appends nothing and fails with the strategy's own words.
    Error(ErrorReply),
    /// A message that is newer than this host. The host ignores it and reads on.
    #[serde(other)]
    Unknown,
}

impl Reply {
    /// Reads one line, with or without its line end.
    ///
    /// # Errors
    ///
    /// The line is no JSON object, has no `type`, or is a known message that is malformed.
    pub fn parse(line: &str) -> serde_json::Result<Self> {
        let line = line.as_bytes();
        // Twice over the line instead of through serde's buffer for tagged enums: the buffer takes an array
        // for an object, and a number for a variant's name.
        Ok(match from_line::<Head>(line)?.r#type.as_str() {
            "progress" => Self::Progress(from_line(line)?),
            "log" => Self::Log(from_line(line)?),
            "result" => Self::Result(from_line(line)?),
            "decline" => Self::Decline(from_line(line)?),
            "needs" => Self::Needs(from_line(line)?),
            "error" => Self::Error(from_line(line)?),
            _ => Self::Unknown,
        })
    }

    /// The id that the line echoes; none for a message that this host does not know.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Progress(progress) => Some(&progress.id),
            Self::Log(log) => Some(&log.id),
            Self::Result(result) => Some(&result.id),
            Self::Decline(decline) => Some(&decline.id),
            Self::Needs(needs) => Some(&needs.id),
            Self::Error(error) => Some(&error.id),
            Self::Unknown => None,
        }
    }

    /// Whether this is the one line that ends a reply.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Result(_) | Self::Decline(_) | Self::Needs(_) | Self::Error(_))
    }
}

impl<'de> Deserialize<'de> for Reply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let line = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(line.get()).map_err(de::Error::custom)
    }
}

#[derive(Deserialize)]
struct Head {
    r#type: String,
}

/// How far the strategy is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// The request's id.
    pub id: String,
    /// Steps done.
    pub done: u64,
    /// Steps in all, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// What is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A line for the host's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    /// The request's id.
    pub id: String,
    /// How much it matters.
    #[serde(deserialize_with = "strict::word")]
    pub level: Level,
    /// What there is to say.
    pub message: String,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Every step.
    Trace,
    /// For the strategy's author.
    Debug,
    /// For whoever asked for more.
    Info,
    /// For everyone.
    Warn,
    /// For everyone, though the reply goes on.
    Error,
}

/// What the strategy proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultReply {
    /// The request's id.
    pub id: String,
    /// The compactions, each an overlay of its own. A strategy that has none declines.
    #[serde(deserialize_with = "strict::objects")]
    #[schemars(length(max = COMPACTIONS_MAX))]
    pub compactions: Vec<Payload>,
    /// What the user should know about the conversation.
    #[serde(default, deserialize_with = "strict::objects", skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}

/// Something that the strategy noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    /// How bad it is.
    #[serde(deserialize_with = "strict::word")]
    pub severity: Severity,
    /// For programs, in `snake_case`.
    pub code: String,
    /// For people.
    pub message: String,
    /// The turn that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<usize>,
    /// The event that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Probably not what the user wants.
    Warning,
    /// Wrong, though the result stands.
    Error,
}

/// There is nothing to compact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decline {
    /// The request's id.
    pub id: String,
    /// Why, in a few words for people.
    pub reason: String,
}

/// The code of an error that the host takes for a payload which it refused itself: what a model wrote cannot be used.
pub const ANSWER_REFUSED: &str = "answer_refused";

/// The strategy failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReply {
    /// The request's id.
    pub id: String,
    /// For programs: `options_invalid`, `internal`, or one of the strategy's own, in `snake_case`.
    pub code: String,
    /// For people.
    pub message: String,
    /// Whether the same request may succeed later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transient: bool,
    /// What the user can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
