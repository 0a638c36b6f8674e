//! The client of providers. It sends prompts with `genai`, and requests about a model with `reqwest`. The result is an
//! answer, or an error that states whether a retry may help. Redirects are never followed, every wait has a limit, and
//! a key is never printed.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatRequest, ChatResponse, ReasoningEffort, StopReason};
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ServiceTarget, webc};
use jp_compact_runtime::environment::Variables;
use jp_compact_schema::{Message, Role, Usage};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::key;
use super::provider::Target;
use super::settings::ProviderKind;

/// The maximum length of a provider's error message.
const MESSAGE_CHARS_MAX: usize = 300;

/// The time limit for a request about a model.
const ABOUT_MODEL_TIMEOUT: Duration = Duration::from_secs(5);
/// The size limit of the answer. The longest lists of models have about 1 MiB.
const ABOUT_MODEL_BYTES_MAX: usize = 8 << 20;

/// The start of each name that the library gets. It takes the part before the first `::` as a namespace and does not
/// send it, and names of fine-tuned models contain `::`.
const NO_NAMESPACE: &str = "::";

/// The time limits for a provider.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    pub(super) connect: Duration,
    /// The time from the start of the request to the last byte received.
    pub(super) answer: Duration,
}

/// The prompt for a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prompt<'a> {
    pub(super) system: Option<&'a str>,
    pub(super) messages: &'a [Message],
    pub(super) max_tokens: Option<u64>,
}

/// The answer of a model, complete or not.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelAnswer {
    pub(super) text: String,
    /// The model name that the provider returned.
    pub(super) model: String,
    pub(super) usage: Option<Usage>,
    pub(super) end: AnswerEnd,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AnswerEnd {
    /// The answer is complete.
    Complete,
    /// The answer was cut off at the token limit.
    Truncated,
    /// The model or a content filter refused to answer.
    Refused(String),
}

/// The error of a request that got no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestError {
    pub(super) message: String,
    /// Whether a retry may help, and the delay that the provider asked for.
    pub(super) retry: Option<Option<Duration>>,
    /// Whether the provider may have done work and charged for it.
    pub(super) may_have_cost: bool,
}

/// The connections to providers. Created on demand, because most runs ask no model.
#[derive(Debug)]
pub(super) struct Client {
    timeouts: Timeouts,
    proxy: Option<(String, Option<String>)>,
    encrypted: OnceLock<Result<Connections, String>>,
    plain: OnceLock<Result<Connections, String>>,
}

/// The HTTP connections: in a client for models, and in a plain client for other requests.
#[derive(Debug)]
struct Connections {
    models: genai::Client,
    http: reqwest::Client,
}

impl Client {
    pub(super) fn new(timeouts: Timeouts, variables: &Variables) -> Self {
        let variable = |name: &str| variables.get(name).or_else(|| variables.get(&name.to_lowercase()));
        let proxy = variable("HTTPS_PROXY").map(|proxy| (proxy, variable("NO_PROXY")));
        Self { timeouts, proxy, encrypted: OnceLock::new(), plain: OnceLock::new() }
    }

    /// Sends one request.
    pub(super) async fn ask(
        &self,
        target: &Target,
        key: Option<&SecretString>,
        prompt: Prompt<'_>,
    ) -> Result<ModelAnswer, RequestError> {
        let client = &self.connections(target)?.models;
        let messages = prompt.messages.iter().map(|message| match message.role {
            Role::User => ChatMessage::user(&message.content),
            Role::Assistant => ChatMessage::assistant(&message.content),
        });
        let mut request = ChatRequest::from_messages(messages.collect());
        if let Some(system) = prompt.system {
            request = request.with_system(system);
        }
        let mut options = ChatOptions { reasoning_effort: neutral_effort(target), ..ChatOptions::default() };
        if let Some(max_tokens) = prompt.max_tokens {
            options = options.with_max_tokens(u32::try_from(max_tokens).unwrap_or(u32::MAX));
        }
        let answer = client
            .exec_chat(service_target(target, key), request, Some(&options))
            // The library logs bodies, and the body of a provider may quote the key.
            .with_subscriber(NoSubscriber::new())
            .await;
        answer.map(model_answer).map_err(|error| request_error(error, target, key))
    }

    /// Sends a request about a model, without any part of a conversation. Returns the JSON answer. With a `body`, the
    /// request is a POST.
    pub(super) async fn ask_about_model(
        &self,
        target: &Target,
        key: Option<&SecretString>,
        url: &str,
        body: Option<&Value>,
    ) -> Result<Value, RequestError> {
        let http = &self.connections(target)?.http;
        let mut request = match body {
            Some(body) => http.post(url).header(CONTENT_TYPE, "application/json").body(body.to_string()),
            None => http.get(url),
        };
        request = request.timeout(self.timeouts.answer.min(ABOUT_MODEL_TIMEOUT));
        if let Some(key) = key.map(SecretString::expose_secret) {
            request = match target.kind {
                ProviderKind::Anthropic => request.header("x-api-key", key),
                ProviderKind::Gemini => request.header("x-goog-api-key", key),
                ProviderKind::Openai | ProviderKind::Ollama => request.bearer_auth(key),
            };
        }
        if target.kind == ProviderKind::Anthropic {
            request = request.header("anthropic-version", "2023-06-01");
        }
        let answer = async {
            let failed = |error: reqwest::Error| connection_error(&error.without_url(), target);
            let mut response = request.send().await.map_err(failed)?;
            let (status, headers) = (response.status(), response.headers().clone());
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(failed)? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() > ABOUT_MODEL_BYTES_MAX {
                    return Err(final_error("the provider's answer is too long".into()));
                }
            }
            if !status.is_success() {
                return Err(status_error(status, &String::from_utf8_lossy(&bytes), &headers, key));
            }
            serde_json::from_slice(&bytes)
                .map_err(|_| final_error("the provider's answer is not valid JSON".into()))
        };
        // The libraries log headers, and a header may contain the key.
        answer.with_subscriber(NoSubscriber::new()).await
    }

    /// Returns the connections for an address, and creates them on first use.
    fn connections(&self, target: &Target) -> Result<&Connections, RequestError> {
        let encrypted = target.address.starts_with("https:");
        let connections = if encrypted { &self.encrypted } else { &self.plain };
        let connections = connections.get_or_init(|| self.build(encrypted)).as_ref();
        connections.map_err(|error| final_error(format!("failed to create the HTTP client: {error}")))
    }

    fn build(&self, encrypted: bool) -> Result<Connections, String> {
        // Fails if another crate has already installed a TLS provider, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.timeouts.connect)
            .timeout(self.timeouts.answer)
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
            let without_certificates = rustls::ClientConfig::builder()
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            builder = builder.tls_backend_preconfigured(without_certificates);
        }
        let http = builder.build().map_err(|error| innermost_cause(&error).to_string())?;
        let models = genai::Client::builder().with_reqwest(http.clone()).build();
        Ok(Connections { models: models.map_err(|error| error.to_string())?, http })
    }
}

fn service_target(target: &Target, key: Option<&SecretString>) -> ServiceTarget {
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
        model: ModelIden::new(kind, format!("{NO_NAMESPACE}{}", target.model.name())),
    }
}

/// Returns an effort that adds nothing to the request. Without one, the library takes the end of names such as
/// `mistral-medium` and `gpt-5.1-codex-max` as the effort, and asks the model with the rest of the name.
fn neutral_effort(target: &Target) -> Option<ReasoningEffort> {
    match target.kind {
        ProviderKind::Openai => Some(ReasoningEffort::Budget(0)),
        ProviderKind::Gemini => Some(ReasoningEffort::Zero),
        // `Zero` disables the thinking of some models, so other names get no effort.
        ProviderKind::Anthropic => {
            ReasoningEffort::from_model_name(target.model.name()).0.map(|_| ReasoningEffort::Zero)
        }
        ProviderKind::Ollama => None,
    }
}

fn model_answer(response: ChatResponse) -> ModelAnswer {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
    let (input, output) = (count(response.usage.prompt_tokens), count(response.usage.completion_tokens));
    let usage = input.zip(output).map(|(input_tokens, output_tokens)| Usage { input_tokens, output_tokens });
    // Providers that do not count tokens return zero.
    let usage = usage.filter(|usage| usage.input_tokens > 0);
    let text = response.content.texts().concat();
    let end = match response.stop_reason {
        Some(StopReason::MaxTokens(_)) => AnswerEnd::Truncated,
        Some(
            StopReason::ContentFilter(reason) | StopReason::Other(reason) | StopReason::ToolCall(reason),
        ) => AnswerEnd::Refused(format!("the model stopped with the reason `{reason}`")),
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) | None if text.trim().is_empty() => {
            AnswerEnd::Refused("the answer has no text".into())
        }
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) | None => AnswerEnd::Complete,
    };
    // Without a name in the answer, the library returns the name that it was given.
    let model = response.provider_model_iden.model_name.as_str();
    let model = model.strip_prefix(NO_NAMESPACE).unwrap_or(model).to_owned();
    ModelAnswer { text, model, usage, end }
}

/// Converts an error of the library. Its text contains requests and answers and must not be used.
fn request_error(error: genai::Error, target: &Target, key: Option<&SecretString>) -> RequestError {
    match error {
        genai::Error::WebModelCall { webc_error, .. } | genai::Error::WebAdapterCall { webc_error, .. } => {
            match webc_error {
                webc::Error::ResponseFailedStatus { status, body, headers } => {
                    status_error(status, &body, &headers, key)
                }
                webc::Error::Reqwest(error) => connection_error(&error.without_url(), target),
                webc::Error::ResponseFailedNotJson { .. }
                | webc::Error::ResponseFailedInvalidJson { .. }
                | webc::Error::JsonValueExt(_) => {
                    charged_error("the provider's answer is not valid JSON".into())
                }
            }
        }
        genai::Error::ChatResponseGeneration { .. }
        | genai::Error::NoChatResponse { .. }
        | genai::Error::InvalidJsonResponseElement { .. } => {
            charged_error("the provider's answer has an unexpected form".into())
        }
        // All other errors occur before anything is sent.
        error => unbuilt_request(build_cause(&error).as_deref()),
    }
}

/// Returns the error of a request that was not sent.
fn unbuilt_request(cause: Option<&str>) -> RequestError {
    let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
    final_error(format!("failed to build the request for this provider{cause}"))
}

/// Returns the cause of a request that cannot be built, if its text quotes neither the conversation nor a key.
fn build_cause(error: &genai::Error) -> Option<String> {
    use genai::Error as E;
    let text = match error {
        E::ChatReqHasNoMessages { .. }
        | E::LastChatMessageIsNotUser { .. }
        | E::MessageRoleNotSupported { .. }
        | E::MessageContentTypeNotSupported { .. }
        | E::JsonModeWithoutInstruction
        | E::RequiresApiKey { .. }
        | E::NoAuthResolver { .. }
        | E::NoAuthData { .. }
        | E::AdapterNotSupported { .. }
        | E::CacheBreakpointNoEligibleContent { .. }
        | E::ClientBuildFail { .. } => error.to_string(),
        E::SerdeJson(error) => format!("invalid JSON at line {}, column {}", error.line(), error.column()),
        _ => return None,
    };
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn status_error(
    status: StatusCode,
    body: &str,
    headers: &HeaderMap,
    key: Option<&SecretString>,
) -> RequestError {
    let message = format!("the provider answered with HTTP {}", status.as_u16());
    if status.is_redirection() {
        return final_error(format!("{message}; redirects are not followed"));
    }
    let provider_message = match status {
        // The error is about the key and quotes it.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if key.is_some() => {
            Some("it rejected the key".to_owned())
        }
        _ => provider_message(body).map(|message| key::without_key(&message, key)),
    };
    let message = match provider_message {
        Some(detail) => format!("{message}: {detail}"),
        None => message,
    };
    let is_temporary = status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
        || status.is_server_error();
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let retry = is_temporary.then(|| seconds.map(Duration::from_secs));
    RequestError { message, retry, may_have_cost: false }
}

/// Returns the message in a provider's error.
fn provider_message(body: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    let error = body.get("error").or_else(|| body.get(0)?.get("error"))?;
    let text = error.get("message").unwrap_or(error).as_str()?;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(line.chars().take(MESSAGE_CHARS_MAX).collect())
}

/// Converts an error of the connection, or of a request that was not sent.
fn connection_error(error: &reqwest::Error, target: &Target) -> RequestError {
    if error.is_timeout() && !error.is_connect() {
        return charged_error("the provider did not answer in time".into());
    }
    let cause = innermost_cause(error);
    if error.is_builder() {
        return unbuilt_request(Some(&cause.to_string()));
    }
    let io_error = cause.downcast_ref::<io::Error>();
    if io_error.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        return refused_error(target);
    }
    let failure =
        if error.is_connect() { "the provider cannot be reached" } else { "the connection was lost" };
    // Nothing was sent before the connection was established.
    RequestError {
        message: format!("{failure}: {cause}"),
        retry: Some(None),
        may_have_cost: !error.is_connect(),
    }
}

/// Returns the error of an address without a server. If the address is on this machine, a retry does not help.
fn refused_error(target: &Target) -> RequestError {
    let message = format!("nothing answers at {}: is the server running?", target.address);
    let host = reqwest::Url::parse(&target.address).ok().and_then(|url| url.host_str().map(str::to_owned));
    let is_local =
        host.is_some_and(|host| host == "localhost" || host == "[::1]" || host.starts_with("127."));
    RequestError { message, retry: if is_local { None } else { Some(None) }, may_have_cost: false }
}

/// Returns the innermost cause, which is the error of the system.
fn innermost_cause<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> &'e (dyn std::error::Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

fn final_error(message: String) -> RequestError {
    RequestError { message, retry: None, may_have_cost: false }
}

fn charged_error(message: String) -> RequestError {
    RequestError { message, retry: None, may_have_cost: true }
}
