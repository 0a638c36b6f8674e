//! Models, for strategies that need one: the host holds the keys and the budget, a strategy asks it. Which model
//! is meant, where it is, what it answered; what a strategy makes of that is the strategy's business.

mod budget;
mod client;
mod key;
mod model;
mod provider;
mod record;
mod retry;
pub mod settings;
#[cfg(test)]
mod tests;
mod windows;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jp_compact_core::estimate::Estimator;
use jp_compact_schema::{Answer, AnswerError, Completion, Message, NeedRequest, Usage};
use tokio::sync::Semaphore;

pub use budget::{REQUESTS_MAX, TOKENS_MAX};
pub use model::{ModelName, NoModelName};
pub use record::RecordError;
pub use settings::Settings;

use crate::environment::{Environment, Variables};
use crate::session::{Answering, Answers, Recorded};
use budget::Budget;
use client::{Answered, Client, End, Patience, Question};
use key::Keys;
use record::Recording;
use retry::Backoff;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an answer may take, whole: providers let none be written longer in one piece.
const WHOLE: Duration = Duration::from_secs(600);
const BACKOFF: Backoff =
    Backoff { retries: 3, first: Duration::from_secs(1), longest: Duration::from_secs(30) };
/// Questions under way at once. Providers limit them too.
const QUESTIONS_MAX: usize = 4;
/// The code of an answer that the budget did not allow.
pub const BUDGET_EXHAUSTED: &str = "budget_exhausted";
/// What makes a model known, as the user's settings would say it.
pub const EXAMPLE: &str = "[llm]\n\
    model = \"anthropic/claude-haiku-4-5\"\n\
    providers.anthropic.api_key_env = \"ANTHROPIC_API_KEY\"";

/// What was wished for a run, beside the settings.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// Which model; it goes before that of the settings.
    pub model: Option<ModelName>,
    /// How many tokens the run may use, in place of what is configured.
    pub budget_tokens: Option<u64>,
    /// How many requests the run may send, in place of what is configured.
    pub budget_requests: Option<u64>,
    /// Where answers are written.
    pub record: Option<PathBuf>,
    /// Where answers are taken from, and from nowhere else.
    pub replay: Option<PathBuf>,
}

/// The models of a run.
#[derive(Debug)]
pub struct Models {
    settings: Settings,
    variables: Variables,
    wish: Option<ModelName>,
    client: Client,
    backoff: Backoff,
    keys: Keys,
    budget: Budget,
    recording: Option<Recording>,
    replayed: Option<Recorded>,
    turns: Semaphore,
}

impl Models {
    /// The models that there are by these settings and wishes. Nobody is asked, and no key looked for.
    ///
    /// # Errors
    /// A file of answers cannot be read, or not be written.
    pub fn open(settings: Settings, wishes: &Wishes, environment: &Environment) -> Result<Self, RecordError> {
        let recording = wishes.record.as_ref().map(|path| Recording::open(&environment.cwd.join(path)));
        let replayed = wishes.replay.as_ref().map(|path| record::replay(&environment.cwd.join(path)));
        let recording = recording.transpose()?;
        let tokens = wishes.budget_tokens.or(settings.budget_tokens).unwrap_or(budget::TOKENS_MAX);
        let requests = wishes.budget_requests.or(settings.budget_requests).unwrap_or(budget::REQUESTS_MAX);
        // What was answered has to be recorded before it is asked again.
        let one_by_one = recording.is_some();
        let variables = environment.variables.clone();
        Ok(Self {
            client: Client::new(Patience { connect: CONNECT, whole: WHOLE }, &variables),
            settings,
            variables,
            wish: wishes.model.clone(),
            backoff: BACKOFF,
            keys: Keys::default(),
            budget: Budget::new(tokens, requests),
            recording,
            replayed: replayed.transpose()?,
            turns: Semaphore::new(if one_by_one { 1 } else { QUESTIONS_MAX }),
        })
    }

    /// The model that was wished for.
    #[must_use]
    pub fn wish(&self) -> Option<&ModelName> {
        self.wish.as_ref()
    }

    /// The window of a model, where it is known.
    #[must_use]
    pub fn context_window(&self, model: &ModelName) -> Option<u64> {
        model.context_window(&self.settings)
    }

    /// Whether answers come from a file, and no model has to be there.
    #[must_use]
    pub fn replays(&self) -> bool {
        self.replayed.is_some()
    }

    /// The variables that may hold a key, by provider, and whether they are set.
    #[must_use]
    pub fn key_variables(&self) -> Vec<(String, String, bool)> {
        let all = provider::key_variables(&self.settings).into_iter();
        all.map(|(provider, name)| {
            let is_set = self.variables.get(&name).is_some();
            (provider, name, is_set)
        })
        .collect()
    }

    async fn complete(&self, request: &NeedRequest, fallback: Option<&str>) -> Answer {
        let NeedRequest::LlmComplete { model, system, messages, max_tokens } = request else {
            return refused("need_unknown", "no model of this host counts tokens".into());
        };
        // Never closed.
        let _turn = self.turns.acquire().await;
        if let Some(answer) = self.recording.as_ref().and_then(|recording| recording.known(request)) {
            return answer;
        }
        let question = Question { system: system.as_deref(), messages, max_tokens: *max_tokens };
        let answer = match self.ask(model.as_deref(), fallback, question).await {
            Ok(completion) => match serde_json::to_value(completion) {
                Ok(serde_json::Value::Object(fields)) => Answer::Ok(fields),
                _ => refused("llm_unavailable", "the answer cannot be written as JSON".into()),
            },
            Err(error) => Answer::Err(error),
        };
        self.record(request, answer)
    }

    /// What a model itself said is recorded, also that it would not: it would be said again. That there was none
    /// may pass.
    fn record(&self, request: &NeedRequest, answer: Answer) -> Answer {
        let passes = match &answer {
            Answer::Ok(_) => false,
            Answer::Err(error) => !is_of_model(&error.code),
        };
        let Some(recording) = self.recording.as_ref().filter(|_| !passes) else { return answer };
        match recording.put(request, &answer) {
            Ok(()) => answer,
            Err(error) => refused("llm_unavailable", format!("the answer could not be recorded: {error}")),
        }
    }

    async fn ask(
        &self,
        named: Option<&str>,
        host_s_own: Option<&str>,
        question: Question<'_>,
    ) -> Result<Completion, AnswerError> {
        let unavailable = |message| AnswerError { code: "llm_unavailable".into(), message };
        let parse = |name: &str| name.parse().map_err(|error: NoModelName| unavailable(error.to_string()));
        let named: Option<ModelName> = named.map(parse).transpose()?;
        let host_s_own: Option<ModelName> = host_s_own.map(parse).transpose()?;
        let model = match (named, host_s_own) {
            // Who reads the conversation is not for a strategy to say.
            (Some(named), Some(own)) if named.provider() != own.provider() => {
                return Err(unavailable(format!(
                    "the strategy asks for `{named}`, of another provider than `{own}`; `--model {named}` allows it"
                )));
            }
            (named, own) => named.or(own).ok_or_else(|| unavailable("no model is configured".into()))?,
        };
        if question.messages.is_empty() {
            return Err(unavailable("the request holds no message".into()));
        }
        let target = provider::target(&model, &self.settings, &self.variables).map_err(unavailable)?;
        let input = input_tokens(question.system, question.messages);
        let reserved = self.budget.reserve(input, question.max_tokens).await.map_err(exhausted)?;
        let max_tokens = reserved.max_tokens;
        let key = self.keys.get(&target, &self.variables).await.map_err(unavailable)?;
        let bounded = Question { max_tokens, ..question };
        let mut retry = 0;
        let answered = loop {
            self.budget.request().map_err(exhausted)?;
            let fault = match self.client.ask(&target, key.as_ref(), bounded).await {
                Ok(answered) => break answered,
                Err(fault) => fault,
            };
            if fault.may_have_cost {
                self.budget.spend(input);
            }
            let wait = fault.again.and_then(|wish| self.backoff.before(retry, wish));
            let Some(wait) = wait else {
                let tries = if retry == 0 { String::new() } else { format!(", after {} tries", retry + 1) };
                return Err(unavailable(format!("{model}: {}{tries}", fault.what)));
            };
            tracing::info!(%model, what = fault.what, ?wait, "asks again");
            tokio::time::sleep(wait).await;
            retry += 1;
        };
        let used = answered.usage.unwrap_or_else(|| Usage {
            input_tokens: input,
            output_tokens: Estimator::Characters.tokens(&answered.text),
        });
        self.budget.spend(used.input_tokens.saturating_add(used.output_tokens));
        tracing::info!(%model, input = used.input_tokens, output = used.output_tokens, "answered");
        whole(&model, answered, question.max_tokens.is_none() && max_tokens.is_some())
    }
}

/// What a model reads, by estimate.
fn input_tokens(system: Option<&str>, messages: &[Message]) -> u64 {
    let texts = messages.iter().map(|message| message.content.as_str());
    texts.chain(system).map(|text| Estimator::Characters.tokens(text)).sum()
}

fn exhausted(message: String) -> AnswerError {
    AnswerError { code: BUDGET_EXHAUSTED.into(), message }
}

/// An answer that is whole, or what became of it. `by_budget`: the limit of tokens was the budget's.
fn whole(model: &ModelName, answered: Answered, by_budget: bool) -> Result<Completion, AnswerError> {
    let failed = |code: &str, message: String| Err(AnswerError { code: code.into(), message });
    match answered.end {
        End::Whole => Ok(Completion {
            text: answered.text,
            model: format!("{}/{}", model.provider(), answered.model),
            usage: answered.usage,
        }),
        End::Cut if by_budget => {
            failed(BUDGET_EXHAUSTED, format!("{model}: the budget ended before its answer did"))
        }
        End::Cut => {
            failed("llm_truncated", format!("{model}: its answer was cut off at the limit of tokens"))
        }
        End::Refused(why) => failed("llm_refused", format!("{model}: {why}")),
    }
}

/// Whether it was the model that gave no whole answer. Everything else is for want of one.
#[must_use]
pub fn is_of_model(code: &str) -> bool {
    ["llm_refused", "llm_truncated"].contains(&code)
}

fn refused(code: &str, message: String) -> Answer {
    Answer::Err(AnswerError { code: code.to_owned(), message })
}

impl Answers for Models {
    fn answer<'a>(&'a self, request: &'a NeedRequest, model: Option<&'a str>) -> Answering<'a> {
        match &self.replayed {
            Some(replayed) => replayed.answer(request, model),
            None => Box::pin(self.complete(request, model)),
        }
    }

    fn foresee(&self, requests: &BTreeMap<String, NeedRequest>) -> Option<AnswerError> {
        if self.replays() {
            return None;
        }
        let of_models = requests.values().filter_map(|request| match request {
            NeedRequest::LlmComplete { system, messages, max_tokens, .. } => {
                Some(input_tokens(system.as_deref(), messages).saturating_add(max_tokens.unwrap_or(0)))
            }
            _ => None,
        });
        let (count, tokens) =
            of_models.fold((0, 0_u64), |(count, sum), tokens| (count + 1, sum.saturating_add(tokens)));
        // The last answer before may have used it up; without a question it does not matter.
        let found = if count == 0 { Ok(()) } else { self.budget.foresee(count, tokens) };
        found.err().map(exhausted)
    }
}
