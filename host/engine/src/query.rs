//! One more turn of a conversation: a model reads the view and answers the user's text. Text and answer are appended.
//!
//! JP's system prompt is not used, because it describes tools that cannot be called here. A turn is appended completely
//! or not at all. An incomplete, refused, or blank answer is an error (exit code 18). The answer is printed before the
//! append, because it is already paid for. If the file has new overlays, the turn is still appended. If it has events
//! that the model has not seen, the turn is not appended (exit code 5).

use std::time::Duration;

use jp_compact_core::append::{self, NewTurn};
use jp_compact_core::projection::project;
use jp_compact_core::{Stream, render};
use jp_compact_runtime::session::Answers as _;
use jp_compact_schema::{Answer, AnswerError, Completion, NeedRequest};
use serde_json::Value;

use crate::compact::{self, Opened, StaleSnapshot};
use crate::consent::{self, Allowed, ConsentContext, ModelUseRequest};
use jp_compact_config::{Config, Provenance};
use jp_compact_llm::Models;
use jp_compact_store::{self as store, Current};

/// A turn cannot be added to a conversation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Run(#[from] compact::Error),
    #[error("failed to get a complete answer from a model")]
    NoAnswer(#[source] AnswerError),
}

const SYSTEM_PROMPT: &str = "You continue the conversation. You cannot call tools in this turn. Earlier calls and their results \
                      appear in the conversation as text, in brackets.";

/// Returns the model for the turn: the model on the command line, else the conversation's model, else the configured
/// model.
///
/// # Errors
/// The user has not allowed it.
pub fn allow(models: &Models, config: &Config, consent: &ConsentContext) -> Result<Allowed, compact::Error> {
    let (conversation_model, configured_model) = (config.conversation_model(), config.configured_model());
    let configured_models = [conversation_model.as_ref(), configured_model.as_ref()];
    Ok(consent::allow(
        models,
        consent,
        &ModelUseRequest { strategy: None, provenance: &Provenance::typed(), configured_models },
    )?)
}

/// Sends the user's request and the view of the transcript to a model.
///
/// # Errors
/// The transcript cannot be appended to, or the answer is missing or incomplete.
pub async fn ask(
    opened: &Opened,
    request: &str,
    models: &Models,
    allowed: &Allowed,
) -> Result<Completion, Error> {
    check(opened)?;
    let stream = &opened.stream;
    let need = NeedRequest::LlmComplete {
        model: None,
        system: Some(SYSTEM_PROMPT.into()),
        messages: render::render_as_texts(stream, &project(stream), request),
        max_tokens: None,
        note: false,
    };
    let fields = match models.answer(&need, allowed.model().map(|llm| &*llm.model)).await {
        Answer::Ok(fields) => fields,
        Answer::Err(error) => return Err(Error::NoAnswer(error)),
    };
    let completion: Completion = serde_json::from_value(Value::Object(fields))
        .map_err(|error| no_answer("llm_unavailable", error.to_string()))?;
    // No provider accepts a blank message in a later request.
    if completion.text.trim().is_empty() {
        return Err(no_answer("llm_refused", "the answer is blank".into()));
    }
    Ok(completion)
}

fn no_answer(code: &str, message: String) -> Error {
    Error::NoAnswer(AnswerError { code: code.into(), message })
}

/// Checks that a turn can be appended to a transcript, before any model is asked.
///
/// # Errors
/// The transcript cannot be appended to.
pub fn check(opened: &Opened) -> Result<(), compact::Error> {
    let Opened { place, stream, .. } = opened;
    compact::require_jp(opened, "continued")?;
    store::check_writable(place)?;
    append::check_loadable(stream)
        .map_err(|source| compact::Error::NotAppendable { path: place.path().to_owned(), source })
}

/// Appends the turn. New overlays in the file are accepted. New events are an error, because the model has not seen
/// them.
///
/// # Errors
/// Nothing was appended.
pub async fn append(opened: &Opened, turn: &NewTurn<'_>, lock_wait: Duration) -> Result<(), compact::Error> {
    let Opened { place, stream, .. } = opened;
    let build = |current| match current {
        Current::Same => Ok(append::append_turn(stream, turn)),
        Current::Grown(bytes) => {
            let grown = Stream::parse(bytes).map_err(StaleSnapshot::Unreadable)?;
            append::check_loadable(&grown).map_err(StaleSnapshot::NotAppendable)?;
            if grown.conversation_events() > stream.conversation_events() {
                return Err(StaleSnapshot::Unseen);
            }
            Ok(append::append_turn(&grown, turn))
        }
    };
    compact::replace(place, stream, lock_wait, None, build).await
}
