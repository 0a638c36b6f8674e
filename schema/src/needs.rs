//! `needs`: the tasks that a strategy delegates to the host.
//!
//! A strategy has no API key and no network, so the host asks models for it. The answers are in
//! [`answer`](crate::answer).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::strict;

/// The strategy needs answers to continue. The host gets them and sends the same request again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Needs {
    /// The request's id.
    pub id: String,
    /// The needs by key. The strategy chooses the keys, and must not reuse a key of an earlier round. With the feature
    /// `needs.many` it may.
    #[serde(deserialize_with = "strict::unique_objects")]
    pub requests: BTreeMap<String, NeedRequest>,
    /// Data that the host returns with the answers, at most 64 KiB, or 1 MiB with the feature `needs.many`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// An estimate of the needs of all later rounds. The host compares it with the budget before it asks a model, so
    /// that a run that is too expensive does not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<RemainingNeeds>,
}

/// An estimate of later needs of the kind `llm.complete`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct RemainingNeeds {
    /// The number of requests to models.
    pub requests: u64,
    /// The tokens of these requests and of their answers.
    pub tokens: u64,
}

/// One need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[cfg_attr(feature = "generate", schemars(transform = crate::generate::accept_unknown_kinds))]
#[non_exhaustive]
pub enum NeedRequest {
    /// A completion by a model. The answer has `text`, `model`, and `usage` if known.
    #[serde(rename = "llm.complete")]
    LlmComplete {
        /// The model. Default: the host's model (`context.llm`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The system prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        system: Option<String>,
        /// The conversation to complete, in order.
        #[serde(deserialize_with = "strict::objects")]
        messages: Vec<Message>,
        /// The maximum length of the text, in tokens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_tokens: Option<u64>,
        /// Whether the answer is a note: a text about a part of the conversation that a later request may need again.
        /// The host may keep it, and answer the same request with it later.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        note: bool,
    },
    /// The size of a text. The answer has `tokens`.
    #[serde(rename = "tokens.count")]
    TokensCount {
        /// The model that the tokens are counted for. Default: the host's estimator.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The text to count.
        text: String,
    },
    /// A need of an unknown kind. The host answers with the error `need_unknown`.
    #[serde(other)]
    Unknown,
}

/// One message to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Message {
    /// The author of the message.
    #[serde(deserialize_with = "strict::variant")]
    pub role: Role,
    /// The text of the message.
    pub content: String,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}
