//! What strategies need and the host does for them. Who answers is whoever the caller names; that a key is used
//! once, and how many rounds there are, is core's to say.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;

use jp_compact_core::estimate::Estimator;
use jp_compact_schema::{Answer, AnswerError, NeedRequest, Needs};
use serde_json::{Map, Value};

use crate::digest;

/// The answer while it is being found.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// Fulfils what strategies need.
pub trait Answers: Debug + Send + Sync {
    /// Answers one request; `model` is who is asked where the request names nobody. That it cannot is an answer
    /// too.
    fn answer<'a>(&'a self, request: &'a NeedRequest, model: Option<&'a str>) -> Answering<'a>;

    /// Why not all of these can be answered, where that is known before the first one is.
    fn foresee(&self, _requests: &BTreeMap<String, NeedRequest>) -> Option<AnswerError> {
        None
    }
}

/// There is no model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Answers for Nobody {
    fn answer<'a>(&'a self, _: &'a NeedRequest, _: Option<&'a str>) -> Answering<'a> {
        Box::pin(async { refused("llm_unavailable", "this host has no model") })
    }
}

/// Answers that were given before, by the hash of their request. What was never asked is not answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded(BTreeMap<String, Answer>);

impl Recorded {
    /// From a JSON object of hashes and answers.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text).map(Self)
    }

    /// As a JSON object.
    #[must_use]
    pub fn text(&self) -> String {
        // Strings and JSON: writing them cannot fail.
        serde_json::to_string_pretty(&self.0).unwrap_or_default() + "\n"
    }

    /// What was answered to a request.
    #[must_use]
    pub fn get(&self, request: &NeedRequest) -> Option<&Answer> {
        self.0.get(&key(request))
    }

    /// With one answer more.
    #[must_use]
    pub fn with(mut self, request: &NeedRequest, answer: Answer) -> Self {
        self.0.insert(key(request), answer);
        self
    }
}

impl Answers for Recorded {
    fn answer<'a>(&'a self, request: &'a NeedRequest, _: Option<&'a str>) -> Answering<'a> {
        let missing = || {
            let key = key(request);
            refused("llm_unavailable", &format!("no answer was recorded for the request {key}"))
        };
        let answer = self.get(request).cloned().unwrap_or_else(missing);
        Box::pin(async { answer })
    }
}

/// What a recorded answer is found by: SHA-256 of the request as this host writes it.
#[must_use]
pub fn key(request: &NeedRequest) -> String {
    digest::of_bytes(&serde_json::to_vec(request).unwrap_or_default())
}

fn refused(code: &str, message: &str) -> Answer {
    Answer::Err(AnswerError { code: code.to_owned(), message: message.to_owned() })
}

/// The grant that a request takes, if it takes one.
fn grant(request: &NeedRequest) -> Option<&'static str> {
    matches!(request, NeedRequest::LlmComplete { .. }).then_some("llm")
}

/// The first thing needed that was not granted.
pub(super) fn not_granted(needs: &Needs, granted: &[String]) -> Option<String> {
    let mut grants = needs.requests.values().filter_map(grant);
    grants.find(|grant| !granted.iter().any(|other| other == grant)).map(str::to_owned)
}

/// That a model gave no answer, if that is what an answer says.
pub(super) fn unanswered(request: &NeedRequest, answer: &Answer) -> Option<AnswerError> {
    match answer {
        Answer::Err(error) if grant(request) == Some("llm") => Some(error.clone()),
        _ => None,
    }
}

/// Answers one request: what the host can count is counted here, the rest is for `answers`. A model is not asked where
/// it is already known that not all requests of the round can be answered.
pub(super) async fn answer(
    request: &NeedRequest,
    answers: &dyn Answers,
    model: Option<&str>,
    foreseen: Option<&AnswerError>,
) -> Answer {
    if let (NeedRequest::LlmComplete { .. }, Some(error)) = (request, foreseen) {
        return Answer::Err(error.clone());
    }
    match request {
        NeedRequest::TokensCount { model: None, text } => {
            let tokens = Estimator::Characters.tokens(text);
            Answer::Ok(Map::from_iter([("tokens".to_owned(), Value::from(tokens))]))
        }
        NeedRequest::LlmComplete { .. } | NeedRequest::TokensCount { .. } => {
            answers.answer(request, model).await
        }
        _ => refused("need_unknown", "this host does not know what that is"),
    }
}
