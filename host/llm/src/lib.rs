//! Models for strategies. The host holds the keys and the budget, and strategies send requests to it. This crate
//! selects the model and its address and checks the answer. It must not interpret the content of an answer.
//!
//! The interface is not stable.

mod budget;
mod client;
mod context_window;
mod key;
mod model;
mod notes;
mod provider;
mod record;
mod retry;
pub mod settings;
#[cfg(test)]
mod tests;
mod window_cache;
mod window_lookup;
mod window_request;
mod windows;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jp_compact_core::estimate::Estimator;
use jp_compact_schema::{Answer, AnswerError, Completion, Message, NeedRequest, RemainingNeeds, Usage};
use tokio::sync::Semaphore;

pub use budget::{REQUESTS_MAX, TOKENS_MAX};
pub use context_window::{ContextWindow, WindowSource};
pub use model::{ModelName, NoModelName};
pub use record::RecordingError;
pub use settings::Settings;

use budget::{ANSWER_TOKENS_MAX, Budget};
use client::{AnswerEnd, Client, ModelAnswer, Prompt, Timeouts};
use jp_compact_runtime::digest;
use jp_compact_runtime::environment::{Environment, Variables};
use jp_compact_runtime::session::{self, AnswerFuture, Answers, Recorded};
use key::Keys;
use notes::NoteCache;
use record::Recording;
use retry::Backoff;
use window_cache::WindowCache;

/// The time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for a complete answer. Providers require streaming for an answer that takes longer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
const BACKOFF: Backoff =
    Backoff { retries: 3, initial: Duration::from_secs(1), max: Duration::from_secs(30) };
/// The maximum number of concurrent requests. Providers have limits too.
const CONCURRENT_REQUESTS_MAX: usize = 4;
/// The input divided by this number stays free in a window, up to half of the rest. It covers the error of an estimate.
const INPUT_MARGIN_SHARE: u64 = 8;
/// The output limit of a request that sets no limit, if a window bounds it. All current models allow it.
const OUTPUT_TOKENS_DEFAULT: u64 = 16_384;
/// The error code of a request that exceeds the budget.
pub const BUDGET_EXHAUSTED: &str = "budget_exhausted";
/// The error code of a request that exceeds the window that the user typed or configured.
pub const WINDOW_EXCEEDED: &str = "window_exceeded";
/// An example of the settings that configure a model.
pub const EXAMPLE: &str = "[llm]\n\
    model = \"anthropic/claude-haiku-4-5\"\n\
    providers.anthropic.api_key_env = \"ANTHROPIC_API_KEY\"";

/// Model options of the command line, in addition to the settings.
#[derive(Debug, Clone, Default)]
pub struct LlmOptions {
    /// The model. Overrides the settings.
    pub model: Option<ModelName>,
    /// The token limit of the run. Overrides the settings.
    pub budget_tokens: Option<u64>,
    /// The request limit of the run. Overrides the settings.
    pub budget_requests: Option<u64>,
    /// The file to record answers in.
    pub record: Option<PathBuf>,
    /// The file to replay answers from. No model is asked then.
    pub replay: Option<PathBuf>,
    /// An upper limit for the context window of every model, in tokens.
    pub context_window: Option<u64>,
    /// Disable notes, the cached answers about parts of a conversation.
    pub no_notes: bool,
}

/// The models of a run.
#[derive(Debug)]
pub struct Models {
    settings: Settings,
    variables: Variables,
    requested_model: Option<ModelName>,
    client: Client,
    backoff: Backoff,
    keys: Keys,
    budget: Budget,
    recording: Option<Recording>,
    replayed: Option<Recorded>,
    notes: NoteCache,
    window: Option<u64>,
    reported_windows: WindowCache,
    slots: Semaphore,
}

impl Models {
    /// Creates the models for these settings and options. Sends no request and looks up no key.
    ///
    /// # Errors
    /// A file of recorded answers cannot be read or written.
    pub fn open(
        settings: Settings,
        options: &LlmOptions,
        environment: &Environment,
    ) -> Result<Self, RecordingError> {
        let recording = options.record.as_ref().map(|path| Recording::open(&environment.cwd.join(path)));
        let replayed = options.replay.as_ref().map(|path| record::replay(&environment.cwd.join(path)));
        let recording = recording.transpose()?;
        let tokens = options.budget_tokens.or(settings.budget_tokens).unwrap_or(budget::TOKENS_MAX);
        let requests = options.budget_requests.or(settings.budget_requests).unwrap_or(budget::REQUESTS_MAX);
        // An answer must be recorded before the same request is sent again.
        let one_by_one = recording.is_some();
        let variables = environment.variables.clone();
        Ok(Self {
            client: Client::new(Timeouts { connect: CONNECT_TIMEOUT, answer: ANSWER_TIMEOUT }, &variables),
            settings,
            variables,
            requested_model: options.model.clone(),
            backoff: BACKOFF,
            keys: Keys::default(),
            budget: Budget::new(tokens, requests),
            recording,
            replayed: replayed.transpose()?,
            notes: if options.no_notes { NoteCache::disabled() } else { NoteCache::open(environment) },
            window: options.context_window,
            reported_windows: WindowCache::open(environment),
            slots: Semaphore::new(if one_by_one { 1 } else { CONCURRENT_REQUESTS_MAX }),
        })
    }

    /// Returns the model from the command line.
    #[must_use]
    pub fn requested_model(&self) -> Option<&ModelName> {
        self.requested_model.as_ref()
    }

    /// Returns the window that the user typed or configured for a model. No request may exceed it.
    fn window_max(&self, model: &ModelName) -> Option<u64> {
        self.window.into_iter().chain(self.settings.configured_window(model)).min()
    }

    /// Returns whether answers come from a file, so no model is needed.
    #[must_use]
    pub fn replays(&self) -> bool {
        self.replayed.is_some()
    }

    /// Returns the tokens that models read and wrote so far. A replayed answer or a stored note costs none.
    #[must_use]
    pub fn spent_tokens(&self) -> u64 {
        self.budget.spent()
    }

    /// Returns the variables that may hold a key: provider, variable, and whether it is set.
    #[must_use]
    pub fn key_variables(&self) -> Vec<(String, String, bool)> {
        let variables = provider::key_variables(&self.settings).into_iter();
        variables
            .map(|(provider, name)| {
                let is_set = self.variables.get(&name).is_some();
                (provider, name, is_set)
            })
            .collect()
    }

    async fn complete(&self, request: &NeedRequest, fallback: Option<&str>) -> Answer {
        let NeedRequest::LlmComplete { model, system, messages, max_tokens, .. } = request else {
            return error_answer("need_unknown", "this host has no model that counts tokens".into());
        };
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await;
        if let Some(answer) =
            self.recording.as_ref().and_then(|recording| recording.recorded_in_this_run(request))
        {
            return answer;
        }
        let note_key = self.note_key(request, fallback);
        if let Some(answer) = note_key.as_deref().and_then(|key| self.notes.get(key)) {
            tracing::info!("used a note");
            return self.record(request, answer);
        }
        let prompt = Prompt { system: system.as_deref(), messages, max_tokens: *max_tokens };
        let answer = match self.ask(model.as_deref(), fallback, prompt).await {
            Ok(completion) => match serde_json::to_value(completion) {
                Ok(serde_json::Value::Object(fields)) => Answer::Ok(fields),
                _ => error_answer("llm_unavailable", "failed to serialize the answer".into()),
            },
            Err(error) => Answer::Err(error),
        };
        if let (Some(key), Answer::Ok(_)) = (&note_key, &answer) {
            self.notes.put(key, &answer);
        }
        self.record(request, answer)
    }

    /// Returns the cache key of a request whose answer is a note: the hash of the request, the model, and the address. The
    /// address is included because another server may have another model with the same name.
    fn note_key(&self, request: &NeedRequest, fallback: Option<&str>) -> Option<String> {
        let NeedRequest::LlmComplete { model, note: true, .. } = request else { return None };
        let resolved = resolve(model.as_deref(), fallback).ok()?;
        let target = provider::target(&resolved, &self.settings, &self.variables).ok()?;
        let mut named = request.clone();
        if let NeedRequest::LlmComplete { model, .. } = &mut named {
            *model = Some(resolved.to_string());
        }
        Some(digest::of_bytes(format!("{} {}", session::key(&named), target.address).as_bytes()))
    }

    /// Records the answer of a model. Refusals and truncated answers are recorded, because the model would repeat them.
    /// Other errors are not recorded, because they may be temporary.
    fn record(&self, request: &NeedRequest, answer: Answer) -> Answer {
        let is_temporary = match &answer {
            Answer::Ok(_) => false,
            Answer::Err(error) => !is_of_model(&error.code),
        };
        let Some(recording) = self.recording.as_ref().filter(|_| !is_temporary) else { return answer };
        match recording.add(request, &answer) {
            Ok(()) => answer,
            Err(error) => error_answer("llm_unavailable", format!("failed to record the answer: {error}")),
        }
    }

    async fn ask(
        &self,
        requested: Option<&str>,
        default_model: Option<&str>,
        prompt: Prompt<'_>,
    ) -> Result<Completion, AnswerError> {
        let model = resolve(requested, default_model)?;
        if prompt.messages.is_empty() {
            return Err(unavailable("the request has no message".into()));
        }
        let target = provider::target(&model, &self.settings, &self.variables).map_err(unavailable)?;
        let input = input_tokens(prompt.system, prompt.messages);
        let prompt = self.within_window(&model, input, prompt)?;
        let reserve = || async { self.budget.reserve(input, prompt.max_tokens).await.map_err(exhausted) };
        let mut reserved = reserve().await?;
        let key = self.keys.get(&target, &self.variables).await.map_err(unavailable)?;
        let mut retry = 0;
        let answer = loop {
            self.budget.count_request().map_err(exhausted)?;
            let prompt = Prompt { max_tokens: reserved.max_tokens, ..prompt };
            let error = match self.client.ask(&target, key.as_ref(), prompt).await {
                Ok(answer) => break answer,
                Err(error) => error,
            };
            if error.may_have_cost {
                self.budget.spend(input);
            }
            let delay = error.retry.and_then(|retry_after| self.backoff.delay_before(retry, retry_after));
            let Some(delay) = delay else {
                let tries = if retry == 0 { String::new() } else { format!(", after {} tries", retry + 1) };
                return Err(unavailable(format!("{model}: {}{tries}", error.message)));
            };
            tracing::info!(%model, error = error.message, ?delay, "retrying the request");
            tokio::time::sleep(delay).await;
            retry += 1;
            if error.may_have_cost {
                // The budget is smaller now, so the old reservation could exceed it.
                drop(reserved);
                reserved = reserve().await?;
            }
        };
        let usage = answer.usage.unwrap_or_else(|| Usage {
            input_tokens: input,
            output_tokens: Estimator::Pieces.tokens(&answer.text),
        });
        self.budget.spend(usage.input_tokens.saturating_add(usage.output_tokens));
        tracing::info!(%model, input = usage.input_tokens, output = usage.output_tokens, "answered");
        completion(&model, answer, prompt.max_tokens.is_none() && reserved.max_tokens.is_some())
    }

    /// Limits the output to the room that the input leaves in a window that the user typed or configured. The input is
    /// an estimate, so a margin stays free: a provider refuses a request whose input and output exceed its window.
    fn within_window<'q>(
        &self,
        model: &ModelName,
        input: u64,
        prompt: Prompt<'q>,
    ) -> Result<Prompt<'q>, AnswerError> {
        let Some(window) = self.window_max(model) else { return Ok(prompt) };
        let Some(left) = window.checked_sub(input).filter(|left| *left > 0) else {
            let message =
                format!("{model}: the request has about {input} tokens, more than its window of {window}");
            return Err(AnswerError { code: WINDOW_EXCEEDED.into(), message });
        };
        let room = left - (input / INPUT_MARGIN_SHARE).min(left / 2);
        let unlimited_output = (room < ANSWER_TOKENS_MAX).then_some(OUTPUT_TOKENS_DEFAULT);
        let max_tokens = prompt.max_tokens.or(unlimited_output).map(|max_tokens| max_tokens.min(room));
        Ok(Prompt { max_tokens, ..prompt })
    }
}

fn unavailable(message: String) -> AnswerError {
    AnswerError { code: "llm_unavailable".into(), message }
}

/// Returns the model to ask: the one that the strategy requests, or the default model of the host.
fn resolve(requested: Option<&str>, default_model: Option<&str>) -> Result<ModelName, AnswerError> {
    let parse = |name: &str| name.parse().map_err(|error: NoModelName| unavailable(error.to_string()));
    let requested: Option<ModelName> = requested.map(parse).transpose()?;
    let default_model: Option<ModelName> = default_model.map(parse).transpose()?;
    match (requested, default_model) {
        // A strategy must not decide which provider reads the conversation.
        (Some(requested), Some(default)) if requested.provider() != default.provider() => {
            Err(unavailable(format!(
                "the strategy asks for `{requested}` from another provider than `{default}`; `--model {requested}` allows it"
            )))
        }
        (requested, default) => {
            requested.or(default).ok_or_else(|| unavailable("no model is configured".into()))
        }
    }
}

/// Estimates the number of input tokens.
fn input_tokens(system: Option<&str>, messages: &[Message]) -> u64 {
    let texts = messages.iter().map(|message| message.content.as_str());
    texts.chain(system).map(|text| Estimator::Pieces.tokens(text)).sum()
}

fn exhausted(message: String) -> AnswerError {
    AnswerError { code: BUDGET_EXHAUSTED.into(), message }
}

/// Returns a complete answer, or an error for an incomplete one. `is_budget_limit` states that the budget set the
/// token limit.
fn completion(
    model: &ModelName,
    answer: ModelAnswer,
    is_budget_limit: bool,
) -> Result<Completion, AnswerError> {
    let failed = |code: &str, message: String| Err(AnswerError { code: code.into(), message });
    match answer.end {
        AnswerEnd::Complete => Ok(Completion {
            text: answer.text,
            model: format!("{}/{}", model.provider(), answer.model),
            usage: answer.usage,
        }),
        AnswerEnd::Truncated if is_budget_limit => failed(
            BUDGET_EXHAUSTED,
            format!("{model}: the budget was used up before the answer was complete"),
        ),
        AnswerEnd::Truncated => {
            failed("llm_truncated", format!("{model}: the answer was cut off at the token limit"))
        }
        AnswerEnd::Refused(reason) => failed("llm_refused", format!("{model}: {reason}")),
    }
}

/// Returns whether the error came from the model itself: it refused to answer, or reached the token limit.
#[must_use]
pub fn is_of_model(code: &str) -> bool {
    ["llm_refused", "llm_truncated"].contains(&code)
}

fn error_answer(code: &str, message: String) -> Answer {
    Answer::Err(AnswerError { code: code.to_owned(), message })
}

impl Answers for Models {
    fn answer<'a>(&'a self, request: &'a NeedRequest, model: Option<&'a str>) -> AnswerFuture<'a> {
        match &self.replayed {
            Some(replayed) => replayed.answer(request, model),
            None => Box::pin(self.complete(request, model)),
        }
    }

    fn check_budget(
        &self,
        requests: &BTreeMap<String, NeedRequest>,
        remaining: Option<RemainingNeeds>,
        model: Option<&str>,
    ) -> Option<AnswerError> {
        if self.replays() {
            return None;
        }
        // A stored note costs nothing.
        let costs =
            |request: &&NeedRequest| self.note_key(request, model).is_none_or(|key| !self.notes.has(&key));
        let token_counts = requests.values().filter(costs).filter_map(|request| match request {
            NeedRequest::LlmComplete { system, messages, max_tokens, .. } => {
                Some(input_tokens(system.as_deref(), messages).saturating_add(max_tokens.unwrap_or(0)))
            }
            _ => None,
        });
        let (mut count, mut tokens) =
            token_counts.fold((0_u64, 0_u64), |(count, sum), tokens| (count + 1, sum.saturating_add(tokens)));
        // A stored note shows that an earlier run read this conversation, so most later requests have stored notes, too.
        let has_no_stored_note = requests.values().filter(costs).count() == requests.len();
        if let Some(remaining) = remaining.filter(|_| has_no_stored_note) {
            count = count.saturating_add(remaining.requests);
            tokens = tokens.saturating_add(remaining.tokens);
        }
        // The previous answer may have used up the budget. This is an error only if there are further requests.
        let result = if count == 0 { Ok(()) } else { self.budget.check(count, tokens) };
        result.err().map(exhausted)
    }
}
