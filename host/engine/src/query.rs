//! One more turn of a conversation: a model is asked what the user says on the view, and what it answers is
//! appended behind the history, whole or not at all.

use std::time::Duration;

use jp_compact_core::append::{self, Held};
use jp_compact_core::projection::project;
use jp_compact_core::{Stream, render};
use jp_compact_schema::{Answer, AnswerError, Completion, NeedRequest};
use serde_json::Value;

use crate::compact::{self, Opened};
use crate::config::{Config, Lead};
use crate::consent::{self, Allowed, Consent, Wants};
use crate::failure::{Failure, Overtaken};
use crate::llm::Models;
use crate::session::Answers as _;
use crate::store::{self, Current};

/// What a model is told of its part.
const SYSTEM: &str = "You continue the conversation. No tools can be called in this turn: earlier calls and their answers \
                      stand in it as text, in brackets.";

/// The model that holds a conversation: the one that was typed, its own, or the one that is configured.
///
/// # Errors
/// It may not be asked.
pub fn allow(models: &Models, config: &Config, consent: &Consent) -> Result<Allowed, Failure> {
    let (own, configured) = (config.conversation_model(), config.configured_model());
    let named = [own.as_ref(), configured.as_ref()];
    consent::allow(models, consent, &Wants { strategy: None, lead: &Lead::typed(), named })
}

/// Asks a model what the user says, on the view of a transcript that can be appended to.
///
/// # Errors
/// The transcript cannot be appended to, or no whole answer came.
pub async fn ask(
    opened: &Opened,
    request: &str,
    models: &Models,
    allowed: &Allowed,
) -> Result<Completion, Failure> {
    check(opened)?;
    let stream = &opened.stream;
    let need = NeedRequest::LlmComplete {
        model: None,
        system: Some(SYSTEM.into()),
        messages: render::spoken(stream, &project(stream), request),
        max_tokens: None,
    };
    let failed = |code: &str, message: String| Failure::NoAnswer(AnswerError { code: code.into(), message });
    match models.answer(&need, allowed.model().map(|llm| &*llm.model)).await {
        Answer::Err(error) => Err(Failure::NoAnswer(error)),
        Answer::Ok(fields) => {
            let completion: Completion = serde_json::from_value(Value::Object(fields))
                .map_err(|error| failed("llm_unavailable", error.to_string()))?;
            // A blank message is one that no provider takes back.
            match completion.text.trim() {
                "" => Err(failed("llm_refused", "its answer is blank".into())),
                _ => Ok(completion),
            }
        }
    }
}

/// Checks that a turn can be appended to a transcript, before any model is asked.
///
/// # Errors
/// It cannot be appended to.
pub fn check(opened: &Opened) -> Result<(), Failure> {
    let Opened { place, stream, .. } = opened;
    compact::only_jp(opened, "continued")?;
    store::check_writable(place)?;
    append::check(stream).map_err(|source| Failure::NotAppendable { path: place.path().to_owned(), source })
}

/// Appends the turn that was held. Overlays that others appended meanwhile do no harm; what the model should have
/// seen does.
///
/// # Errors
/// Nothing was appended, and why.
pub async fn append(opened: &Opened, held: &Held<'_>, lock_wait: Duration) -> Result<(), Failure> {
    let Opened { place, stream, .. } = opened;
    let build = |current| match current {
        Current::Same => Ok(append::turn(stream, held)),
        Current::Grown(bytes) => {
            let grown = Stream::parse(bytes).map_err(Overtaken::Unreadable)?;
            append::check(&grown).map_err(Overtaken::NotAppendable)?;
            if grown.conversation_events() > stream.conversation_events() {
                return Err(Overtaken::Unseen);
            }
            Ok(append::turn(&grown, held))
        }
    };
    compact::replace(place, stream, lock_wait, build).await
}
