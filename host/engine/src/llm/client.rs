//! One request to one provider, through `genai`: what comes back is a text, or a fault that says whether asking
//! again could help. Follows no redirect, waits for nobody without end, and says nothing of a key.

use std::sync::OnceLock;
use std::time::Duration;

use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatRequest, ChatResponse, StopReason};
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ServiceTarget, webc};
use jp_compact_schema::{Message, Role, Usage};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use secrecy::{ExposeSecret as _, SecretString};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::key;
use super::provider::Target;
use super::settings::Kind;
use crate::environment::Variables;

/// So much of what a provider says of an error is shown.
const SAID_CHARS_MAX: usize = 300;

/// How long a provider is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) connect: Duration,
    /// From the first byte sent to the last received.
    pub(super) whole: Duration,
}

/// What a model is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) system: Option<&'a str>,
    pub(super) messages: &'a [Message],
    pub(super) max_tokens: Option<u64>,
}

/// What a model answered, whole or not.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answered {
    pub(super) text: String,
    /// What the provider says it was.
    pub(super) model: String,
    pub(super) usage: Option<Usage>,
    pub(super) end: End,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// By itself.
    Whole,
    /// At the limit of tokens.
    Cut,
    /// The model, or who watches over it, would not.
    Refused(String),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) what: String,
    /// Whether asking again may help, and when the provider would like that.
    pub(super) again: Option<Option<Duration>>,
    /// Whether the provider may have worked, and charged for it.
    pub(super) may_have_cost: bool,
}

/// The connections to providers. Made when they are needed: most runs ask nobody.
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

    /// Asks once.
    pub(super) async fn ask(
        &self,
        target: &Target,
        key: Option<&SecretString>,
        question: Question<'_>,
    ) -> Result<Answered, Fault> {
        let encrypted = target.address.starts_with("https:");
        let client = if encrypted { &self.encrypted } else { &self.plain };
        let client = client.get_or_init(|| self.build(encrypted)).as_ref();
        let client = client.map_err(|what| lasting(format!("there is no client for the network: {what}")))?;
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
            // The library traces bodies, and a provider's may quote the key.
            .with_subscriber(NoSubscriber::new())
            .await;
        answer.map(answered).map_err(|error| fault(error, key))
    }

    fn build(&self, encrypted: bool) -> Result<genai::Client, String> {
        // That somebody else was first is as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.patience.connect)
            .timeout(self.patience.whole)
            .user_agent(concat!("jp-compact/", env!("CARGO_PKG_VERSION")))
            .no_proxy();
        if encrypted {
            if let Some((proxy, except)) = &self.proxy {
                // The address of a proxy may hold a password, and the library's error quotes it.
                let proxy =
                    reqwest::Proxy::https(proxy).map_err(|_| "HTTPS_PROXY is no address".to_owned())?;
                let except = except.as_deref().and_then(reqwest::NoProxy::from_string);
                builder = builder.proxy(proxy.no_proxy(except));
            }
        } else {
            // Without certificates on the machine a model on it can still be asked.
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
        Kind::Anthropic => AdapterKind::Anthropic,
        Kind::Openai => AdapterKind::OpenAI,
        Kind::Gemini => AdapterKind::Gemini,
        Kind::Ollama => AdapterKind::Ollama,
    };
    ServiceTarget {
        endpoint: Endpoint::from_owned(target.address.as_str()),
        // Where no key is needed the header is there and empty.
        auth: AuthData::Key(key.map_or_else(String::new, |key| key.expose_secret().to_owned())),
        model: ModelIden::new(kind, target.model.name()),
    }
}

fn answered(response: ChatResponse) -> Answered {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
    let (input, output) = (count(response.usage.prompt_tokens), count(response.usage.completion_tokens));
    let usage = input.zip(output).map(|(input_tokens, output_tokens)| Usage { input_tokens, output_tokens });
    // Nothing at all is what a provider says that does not count.
    let usage = usage.filter(|usage| usage.input_tokens > 0);
    let text = response.content.texts().concat();
    let end = match response.stop_reason {
        Some(StopReason::MaxTokens(_)) => End::Cut,
        Some(
            StopReason::ContentFilter(reason) | StopReason::Other(reason) | StopReason::ToolCall(reason),
        ) => End::Refused(format!("it stopped for `{reason}`")),
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) | None if text.trim().is_empty() => {
            End::Refused("its answer holds no text".into())
        }
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) | None => End::Whole,
    };
    Answered { text, model: response.provider_model_iden.model_name.to_string(), usage, end }
}

/// What an error of the library means. Its own words hold requests and answers, and are not used.
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
                | webc::Error::JsonValueExt(_) => charged("the provider's answer is no JSON".into()),
            }
        }
        genai::Error::ChatResponseGeneration { .. } => {
            charged("the provider's answer is not what it should be".into())
        }
        // Everything else happens before anything is sent.
        _ => lasting("the request cannot be put to this provider".into()),
    }
}

fn refused(status: StatusCode, body: &str, headers: &HeaderMap, key: Option<&SecretString>) -> Fault {
    let what = format!("the provider answered with HTTP {}", status.as_u16());
    if status.is_redirection() {
        return lasting(format!("{what}, a redirect, and none is followed"));
    }
    let said = match status {
        // It is about the key then, and quotes it.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Some("it does not take the key".to_owned()),
        _ => said(body).map(|said| key::scrubbed(&said, key)),
    };
    let what = said.map_or_else(|| what.clone(), |said| format!("{what}: {said}"));
    let may_pass = status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
        || status.is_server_error();
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let again = may_pass.then(|| seconds.map(Duration::from_secs));
    Fault { what, again, may_have_cost: false }
}

/// The sentence in a provider's error.
fn said(body: &str) -> Option<String> {
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
        return lasting("the request cannot be put to this provider".into());
    }
    let what = if error.is_connect() { "the provider cannot be reached" } else { "the connection broke" };
    // Before it was reached nothing was sent.
    Fault {
        what: format!("{what}: {}", causes(error)),
        again: Some(None),
        may_have_cost: !error.is_connect(),
    }
}

/// The innermost cause, which is the system's.
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
