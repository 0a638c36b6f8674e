//! Sends one request to one provider with `genai`. The result is a text, or an error that states whether a
//! retry may help. Redirects are never followed, every wait has a limit, and a key is never printed.

use std::sync::OnceLock;
use std::time::Duration;

use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatRequest, ChatResponse, StopReason};
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ServiceTarget, webc};
use jp_compact_runtime::environment::Variables;
use jp_compact_schema::{Message, Role, Usage};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use secrecy::{ExposeSecret as _, SecretString};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::key;
use super::provider::Target;
use super::settings::ProviderKind;

/// The maximum length of a provider's error message.
const SAID_CHARS_MAX: usize = 300;

/// The time limits for a provider.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) connect: Duration,
    /// From the first byte sent to the last byte received.
    pub(super) whole: Duration,
}

/// The prompt for a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) system: Option<&'a str>,
    pub(super) messages: &'a [Message],
    pub(super) max_tokens: Option<u64>,
}

/// The answer of a model, complete or not.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answered {
    pub(super) text: String,
    /// The model name that the provider returned.
    pub(super) model: String,
    pub(super) usage: Option<Usage>,
    pub(super) end: AnswerEnd,
}

/// The way in which an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AnswerEnd {
    /// The answer is complete.
    Whole,
    /// The answer was cut off at the token limit.
    Cut,
    /// The model or a content filter refused to answer.
    Refused(String),
}

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) what: String,
    /// Whether a retry may help, and the delay that the provider asked for.
    pub(super) again: Option<Option<Duration>>,
    /// Whether the provider may have done work and charged for it.
    pub(super) may_have_cost: bool,
}

/// The connections to providers. Created on demand, because most runs ask no model.
#[derive(Debug)]
pub(super) struct Client {
    patience: Patience,
    proxy: Option<(String, Option<String>)>,
    encrypted: OnceLock<Result<genai::Client, String>>,
    plain: OnceLock<Result<genai::Client, String>>,
}

impl Client {
    pub(super) fn new(patience: Patience, variables: &Variables) -> Self {
        let either = |name: &str| variables.get(name).or_else(|| variables.get(&name.to_lowercase()));
        let proxy = either("HTTPS_PROXY").map(|proxy| (proxy, either("NO_PROXY")));
        Self { patience, proxy, encrypted: OnceLock::new(), plain: OnceLock::new() }
    }

    /// Sends one request.
    pub(super) async fn ask(
        &self,
        target: &Target,
        key: Option<&SecretString>,
        question: Question<'_>,
    ) -> Result<Answered, Fault> {
        let encrypted = target.address.starts_with("https:");
        let client = if encrypted { &self.encrypted } else { &self.plain };
        let client = client.get_or_init(|| self.build(encrypted)).as_ref();
        let client = client.map_err(|what| lasting(format!("failed to create the HTTP client: {what}")))?;
        let messages = question.messages.iter().map(|message| match message.role {
            Role::User => ChatMessage::user(&message.content),
            Role::Assistant => ChatMessage::assistant(&message.content),
        });
        let mut request = ChatRequest::from_messages(messages.collect());
        if let Some(system) = question.system {
            request = request.with_system(system);
        }
        let mut options = ChatOptions::default();
        if let Some(max_tokens) = question.max_tokens {
            options = options.with_max_tokens(u32::try_from(max_tokens).unwrap_or(u32::MAX));
        }
        let answer = client
            .exec_chat(service(target, key), request, Some(&options))
            // The library logs bodies, and the body of a provider may quote the key.
            .with_subscriber(NoSubscriber::new())
            .await;
        answer.map(answered).map_err(|error| fault(error, key))
    }

    fn build(&self, encrypted: bool) -> Result<genai::Client, String> {
        // Fails if another crate has installed it already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.patience.connect)
            .timeout(self.patience.whole)
            .user_agent(concat!("jp-compact/", env!("CARGO_PKG_VERSION")))
            .no_proxy();
        if encrypted {
            if let Some((proxy, except)) = &self.proxy {
                // The proxy URL may contain a password, and the error of the library quotes it.
                let proxy =
                    reqwest::Proxy::https(proxy).map_err(|_| "HTTPS_PROXY is not a valid URL".to_owned())?;
                let except = except.as_deref().and_then(reqwest::NoProxy::from_string);
                builder = builder.proxy(proxy.no_proxy(except));
            }
        } else {
            // Without certificates, a model on this machine can still be asked.
            let trusts_nobody = rustls::ClientConfig::builder()
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            builder = builder.tls_backend_preconfigured(trusts_nobody);
        }
        let client = builder.build().map_err(|error| causes(&error))?;
        genai::Client::builder().with_reqwest(client).build().map_err(|error| error.to_string())
    }
}

fn service(target: &Target, key: Option<&SecretString>) -> ServiceTarget {
    let kind = match target.kind {
        ProviderKind::Anthropic => AdapterKind::Anthropic,
        ProviderKind::Openai => AdapterKind::OpenAI,
        ProviderKind::Gemini => AdapterKind::Gemini,
        ProviderKind::Ollama => AdapterKind::Ollama,
    };
    ServiceTarget {
        endpoint: Endpoint::from_owned(target.address.as_str()),
        // If no key is needed, the header is present and empty.
        auth: AuthData::Key(key.map_or_else(String::new, |key| key.expose_secret().to_owned())),
        model: ModelIden::new(kind, target.model.name()),
    }
}

fn answered(response: ChatResponse) -> Answered {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
    let (input, output) = (count(response.usage.prompt_tokens), count(response.usage.completion_tokens));
    let usage = input.zip(output).map(|(input_tokens, output_tokens)| Usage { input_tokens, output_tokens });
    // Providers that do not count tokens return zero.
    let usage = usage.filter(|usage| usage.input_tokens > 0);
    let text = response.content.texts().concat();
    let end = match response.stop_reason {
        Some(StopReason::MaxTokens(_)) => AnswerEnd::Cut,
        Some(
            StopReason::ContentFilter(reason) | StopReason::Other(reason) | StopReason::ToolCall(reason),
        ) => AnswerEnd::Refused(format!("it stopped for `{reason}`")),
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) | None if text.trim().is_empty() => {
            AnswerEnd::Refused("its answer has no text".into())
        }
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) | None => AnswerEnd::Whole,
    };
    Answered { text, model: response.provider_model_iden.model_name.to_string(), usage, end }
}

/// Converts an error of the library. Its text contains requests and answers and must not be used.
fn fault(error: genai::Error, key: Option<&SecretString>) -> Fault {
    match error {
        genai::Error::WebModelCall { webc_error, .. } | genai::Error::WebAdapterCall { webc_error, .. } => {
            match webc_error {
                webc::Error::ResponseFailedStatus { status, body, headers } => {
                    refused(status, &body, &headers, key)
                }
                webc::Error::Reqwest(error) => broken(&error.without_url()),
                webc::Error::ResponseFailedNotJson { .. }
                | webc::Error::ResponseFailedInvalidJson { .. }
                | webc::Error::JsonValueExt(_) => charged("the provider's answer is not valid JSON".into()),
            }
        }
        genai::Error::ChatResponseGeneration { .. } => {
            charged("the provider's answer has an unexpected form".into())
        }
        // All other errors occur before anything is sent.
        _ => lasting("failed to build the request for this provider".into()),
    }
}

fn refused(status: StatusCode, body: &str, headers: &HeaderMap, key: Option<&SecretString>) -> Fault {
    let what = format!("the provider answered with HTTP {}", status.as_u16());
    if status.is_redirection() {
        return lasting(format!("{what}; redirects are not followed"));
    }
    let provider_message = match status {
        // The error is about the key and quotes it.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Some("it rejected the key".to_owned()),
        _ => provider_message(body).map(|message| key::scrubbed(&message, key)),
    };
    let what = provider_message.map_or_else(|| what.clone(), |message| format!("{what}: {message}"));
    let may_pass = status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
        || status.is_server_error();
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let again = may_pass.then(|| seconds.map(Duration::from_secs));
    Fault { what, again, may_have_cost: false }
}

/// Returns the message in a provider's error.
fn provider_message(body: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    let error = body.get("error").or_else(|| body.get(0)?.get("error"))?;
    let text = error.get("message").unwrap_or(error).as_str()?;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(line.chars().take(SAID_CHARS_MAX).collect())
}

fn broken(error: &reqwest::Error) -> Fault {
    if error.is_timeout() && !error.is_connect() {
        return charged("the provider did not answer in time".into());
    }
    if error.is_builder() {
        return lasting("failed to build the request for this provider".into());
    }
    let what = if error.is_connect() { "the provider cannot be reached" } else { "the connection was lost" };
    // Nothing was sent before the connection was established.
    Fault {
        what: format!("{what}: {}", causes(error)),
        again: Some(None),
        may_have_cost: !error.is_connect(),
    }
}

/// Returns the innermost cause, which is the error of the system.
fn causes(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

fn lasting(what: String) -> Fault {
    Fault { what, again: None, may_have_cost: false }
}

fn charged(what: String) -> Fault {
    Fault { what, again: None, may_have_cost: true }
}
