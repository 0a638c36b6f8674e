//! What the host answered to a `needs`, as it stands in `answers` of the next round. Types only.

use std::error::Error;
use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The answer to one request of a `needs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was fulfilled. The fields are those of the request's kind: `text`, `model`, `usage`, or `tokens`.
    Ok(Map<String, Value>),
    /// It was not. The strategy decides whether it can go on without.
    Err(AnswerError),
}

impl Answer {
    /// The answer as the type that belongs to the request's kind.
    ///
    /// # Errors
    ///
    /// The host could not fulfil the request, or (code `answer_invalid`) the answer is not of that type.
    pub fn as_type<T: DeserializeOwned>(&self) -> Result<T, AnswerError> {
        match self {
            Self::Ok(fields) => T::deserialize(fields)
                .map_err(|error| AnswerError { code: "answer_invalid".into(), message: error.to_string() }),
            Self::Err(error) => Err(error.clone()),
        }
    }
}

/// Why a request of a `needs` was not fulfilled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerError {
    /// For programs: `llm_refused`, `llm_unavailable`, `budget_exhausted`, `need_unknown`, ...
    pub code: String,
    /// For people.
    pub message: String,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl Error for AnswerError {}

/// What `llm.complete` is answered with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Completion {
    /// The model's text.
    pub text: String,
    /// The model that wrote it.
    pub model: String,
    /// What it cost, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// What a completion cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
}

/// What `tokens.count` is answered with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// The size of the text.
    pub tokens: u64,
}
