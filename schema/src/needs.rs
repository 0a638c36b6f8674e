//! `needs`: what a strategy asks the host to do for it, for it holds no key and opens no socket. Types only;
//! the answers are in [`answer`](crate::answer).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{open, strict};

/// The strategy cannot go on without answers. The host gets them, then sends the same request again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Needs {
    /// The request's id.
    pub id: String,
    /// What is needed, by a key of the strategy's choice that no earlier round has used.
    #[serde(deserialize_with = "strict::unique_objects")]
    pub requests: BTreeMap<String, NeedRequest>,
    /// Anything that the strategy wants back with the answers, 64 KiB at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// One thing that is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(transform = open::by_kind)]
#[non_exhaustive]
pub enum NeedRequest {
    /// The host asks a model, and answers with `text`, `model`, and `usage` where it is known.
    #[serde(rename = "llm.complete")]
    LlmComplete {
        /// Which model; without it the host's (`context.llm`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The system prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        system: Option<String>,
        /// The conversation to complete, in order.
        #[serde(deserialize_with = "strict::objects")]
        messages: Vec<Message>,
        /// The longest text wanted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_tokens: Option<u64>,
    },
    /// The host counts, and answers with `tokens`.
    #[serde(rename = "tokens.count")]
    TokensCount {
        /// For which model; without it the host's estimator counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// What to count.
        text: String,
    },
    /// A kind that is newer than this host. The host answers with the error `need_unknown`.
    #[serde(other)]
    Unknown,
}

/// One message to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Who says it.
    #[serde(deserialize_with = "strict::word")]
    pub role: Role,
    /// What is said.
    pub content: String,
}

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The one who asks.
    User,
    /// The model.
    Assistant,
}
