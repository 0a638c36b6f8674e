//! The answers to the `needs` of strategies. The host estimates tokens itself; the caller provides the other answers.
//! The core crate enforces unique keys and the number of rounds.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;

use jp_compact_core::estimate::Estimator;
use jp_compact_schema::{Answer, AnswerError, NeedRequest, Needs, RemainingNeeds};
use serde_json::{Map, Value};

use crate::digest;

pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// A source of answers to the needs of strategies, such as models or a recording.
pub trait Answers: Debug + Send + Sync {
    /// Answers one request. `model` is used if the request names no model. A failure is an answer too.
    fn answer<'a>(&'a self, request: &'a NeedRequest, model: Option<&'a str>) -> AnswerFuture<'a>;

    /// Checks whether the budget is sufficient for these requests, and for the `remaining` ones of later rounds.
    /// Returns an error if some of them cannot be answered. `model` is used if a request names no model.
    fn check_budget(
        &self,
        _requests: &BTreeMap<String, NeedRequest>,
        _remaining: Option<RemainingNeeds>,
        _model: Option<&str>,
    ) -> Option<AnswerError> {
        None
    }
}

/// Returns whether some of the needs must be answered by a model.
pub(super) fn asks_model(needs: &Needs) -> bool {
    needs.requests.values().any(|request| matches!(request, NeedRequest::LlmComplete { .. }))
}

/// Returns the text for a person who waits for the answer of a model. `model` is used if the request names none.
pub(super) fn subject(request: &NeedRequest, model: Option<&str>) -> Option<String> {
    let NeedRequest::LlmComplete { model: own_model, max_tokens, .. } = request else { return None };
    let model = own_model.as_deref().or(model).unwrap_or("a model");
    let limit = max_tokens.map_or_else(String::new, |tokens| format!(", {tokens} tokens at most"));
    Some(format!("asking {model}{limit}"))
}

/// Answers every request with an error, for a host without models.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoModel;

impl Answers for NoModel {
    fn answer<'a>(&'a self, _: &'a NeedRequest, _: Option<&'a str>) -> AnswerFuture<'a> {
        Box::pin(async { error_answer("llm_unavailable", "this host has no model") })
    }
}

/// Recorded answers by the hash of their request. Other requests get an error.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded(BTreeMap<String, Answer>);

impl Recorded {
    /// Parses a JSON object that maps hashes to answers.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text).map(Self)
    }

    /// Formats the answers as a JSON object.
    #[must_use]
    pub fn text(&self) -> String {
        // Serialization of strings and JSON values cannot fail.
        serde_json::to_string_pretty(&self.0).unwrap_or_default() + "\n"
    }

    /// Returns the recorded answer to a request.
    #[must_use]
    pub fn get(&self, request: &NeedRequest) -> Option<&Answer> {
        self.0.get(&key(request))
    }

    /// Adds an answer.
    #[must_use]
    pub fn with(mut self, request: &NeedRequest, answer: Answer) -> Self {
        self.0.insert(key(request), answer);
        self
    }
}

impl Answers for Recorded {
    fn answer<'a>(&'a self, request: &'a NeedRequest, _: Option<&'a str>) -> AnswerFuture<'a> {
        let not_recorded = || {
            let key = key(request);
            error_answer("llm_unavailable", &format!("no answer was recorded for the request {key}"))
        };
        let answer = self.get(request).cloned().unwrap_or_else(not_recorded);
        Box::pin(async { answer })
    }
}

/// Returns the key of a recorded answer: SHA-256 of the request as this host serializes it.
#[must_use]
pub fn key(request: &NeedRequest) -> String {
    digest::of_bytes(&serde_json::to_vec(request).unwrap_or_default())
}

fn error_answer(code: &str, message: &str) -> Answer {
    Answer::Err(AnswerError { code: code.to_owned(), message: message.to_owned() })
}

/// Returns the permission that a request needs, if any.
fn required_grant(request: &NeedRequest) -> Option<&'static str> {
    matches!(request, NeedRequest::LlmComplete { .. }).then_some("llm")
}

/// Returns the first permission that is needed but not granted.
pub(super) fn not_granted(needs: &Needs, granted: &[String]) -> Option<String> {
    let mut grants = needs.requests.values().filter_map(required_grant);
    grants.find(|required_grant| !granted.iter().any(|other| other == required_grant)).map(str::to_owned)
}

/// Returns the error if this is the answer to a request for a model, and the model could not answer.
pub(super) fn unanswered(request: &NeedRequest, answer: &Answer) -> Option<AnswerError> {
    match answer {
        Answer::Err(error) if required_grant(request) == Some("llm") => Some(error.clone()),
        _ => None,
    }
}

/// Answers one request. The host estimates tokens itself if no model is named, and passes other requests to `answers`.
/// A `known_error` is the answer to each prompt, because some requests of the round cannot be answered.
pub(super) async fn answer(
    request: &NeedRequest,
    answers: &dyn Answers,
    model: Option<&str>,
    known_error: Option<&AnswerError>,
) -> Answer {
    if let (NeedRequest::LlmComplete { .. }, Some(error)) = (request, known_error) {
        return Answer::Err(error.clone());
    }
    match request {
        NeedRequest::TokensCount { model: None, text } => {
            let tokens = Estimator::Pieces.tokens(text);
            Answer::Ok(Map::from_iter([("tokens".to_owned(), Value::from(tokens))]))
        }
        NeedRequest::LlmComplete { .. } | NeedRequest::TokensCount { .. } => {
            answers.answer(request, model).await
        }
        _ => error_answer("need_unknown", "this host does not support this kind of request"),
    }
}
