//! The host's answers to a `needs`. They are in `answers` of the next round.

use std::error::Error;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The answer to one request of a `needs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The host fulfilled the need. The fields depend on its kind: `text`, `model`, and `usage`, or `tokens`.
    Ok(Map<String, Value>),
    /// The host did not fulfill the need. The strategy decides whether it can continue.
    Err(AnswerError),
}

impl Answer {
    /// Deserializes the answer to the type of the need's kind.
    ///
    /// # Errors
    ///
    /// The host did not fulfill the need, or the answer does not have this type (code `answer_invalid`).
    pub fn as_type<T: DeserializeOwned>(&self) -> Result<T, AnswerError> {
        match self {
            Self::Ok(fields) => T::deserialize(fields)
                .map_err(|error| AnswerError { code: "answer_invalid".into(), message: error.to_string() }),
            Self::Err(error) => Err(error.clone()),
        }
    }
}

/// The reason why the host did not fulfill a need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct AnswerError {
    /// The code for programs: `llm_refused`, `llm_unavailable`, `budget_exhausted`, `need_unknown`, and others.
    pub code: String,
    /// The message for people.
    pub message: String,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl Error for AnswerError {}

/// The answer to `llm.complete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Completion {
    /// The model's text.
    pub text: String,
    /// The model that wrote the text.
    pub model: String,
    /// The tokens used, if the provider reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// The tokens that a completion used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Usage {
    /// The number of tokens that the model read.
    pub input_tokens: u64,
    /// The number of tokens that the model wrote.
    pub output_tokens: u64,
}

/// The answer to `tokens.count`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct TokenCount {
    /// The size of the text, in tokens.
    pub tokens: u64,
}
