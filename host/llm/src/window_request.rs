//! The requests that ask a provider for the context window of a model, and the readers of its answers. An answer in
//! another form counts as an answer without a window. A request must not contain any part of a conversation.

use serde_json::{Value, json};

use super::provider::{self, Target};
use super::settings::ProviderKind;

/// A request, and the reader of its answer.
pub(super) struct WindowRequest {
    pub(super) url: String,
    /// The body of a POST. `None` for a GET.
    pub(super) body: Option<Value>,
    read: fn(&Value, &str) -> Option<u64>,
}

impl WindowRequest {
    fn get(url: String, read: fn(&Value, &str) -> Option<u64>) -> Self {
        Self { url, body: None, read }
    }

    /// Returns the window in an answer.
    pub(super) fn window(&self, answer: &Value, name: &str) -> Option<u64> {
        (self.read)(answer, name)
    }
}

/// Returns the requests for a model. The first answer with a window applies. Returns no requests if the provider does
/// not report windows.
pub(super) fn requests(target: &Target) -> Vec<WindowRequest> {
    let (address, name) = (&target.address, target.model.name());
    match target.kind {
        ProviderKind::Ollama => vec![WindowRequest {
            url: format!("{address}api/show"),
            body: Some(json!({ "model": name })),
            read: ollama,
        }],
        ProviderKind::Gemini => {
            vec![WindowRequest::get(format!("{address}models/{name}"), |answer, _| {
                tokens(answer, "/inputTokenLimit")
            })]
        }
        ProviderKind::Anthropic => {
            vec![WindowRequest::get(format!("{address}models/{name}"), |answer, _| {
                tokens(answer, "/max_input_tokens")
            })]
        }
        // Its list of models has no windows.
        ProviderKind::Openai if provider::is_openai(address) => Vec::new(),
        ProviderKind::Openai => {
            let mut requests = vec![WindowRequest::get(format!("{address}models"), listed)];
            if let Some(root) = address.strip_suffix("v1/") {
                // llama.cpp and LM Studio report the window of the running model only at their own addresses.
                requests.push(WindowRequest::get(format!("{root}props"), |answer, _| {
                    tokens(answer, "/default_generation_settings/n_ctx")
                }));
                requests.push(WindowRequest::get(format!("{root}api/v0/models"), listed));
            }
            requests
        }
    }
}

/// Reads a positive number. Some servers report 0 for an unknown window.
fn tokens(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer)?.as_u64().filter(|tokens| *tokens > 0)
}

/// Reads an answer of Ollama's `/api/show`. The server uses the `num_ctx` of the model's own parameters, up to the
/// window that the model was trained for.
fn ollama(answer: &Value, _: &str) -> Option<u64> {
    let parameters = answer["parameters"].as_str().unwrap_or_default();
    let mut words = parameters.lines().map(str::split_whitespace);
    let configured = words.find_map(|mut words| match (words.next(), words.next()) {
        (Some("num_ctx"), Some(tokens)) => tokens.parse().ok().filter(|tokens: &u64| *tokens > 0),
        _ => None,
    });
    let info = answer["model_info"].as_object();
    let trained = info.and_then(|info| {
        let mut lengths = info.iter().filter(|(key, _)| key.ends_with(".context_length"));
        lengths.find_map(|(_, length)| length.as_u64().filter(|tokens| *tokens > 0))
    });
    configured.into_iter().chain(trained).min()
}

/// Reads a list of models. A server with a single model serves it under any name.
fn listed(answer: &Value, name: &str) -> Option<u64> {
    /// The window of the running model precedes the one that the model was trained for.
    const RUNNING: [&str; 3] = ["/max_model_len", "/loaded_context_length", "/meta/n_ctx"];
    const POSSIBLE: [&str; 5] = [
        "/context_length",
        "/top_provider/context_length",
        "/context_window",
        "/max_context_length",
        "/max_input_tokens",
    ];
    let models = answer["data"].as_array()?;
    let named = models.iter().find(|model| model["id"] == name);
    let model = match (named, models.as_slice()) {
        (Some(model), _) => model,
        (None, [model]) => model,
        _ => return None,
    };
    let smallest = |pointers: &[&str]| pointers.iter().filter_map(|pointer| tokens(model, pointer)).min();
    smallest(&RUNNING).or_else(|| smallest(&POSSIBLE))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jp_compact_runtime::environment::Variables;

    use super::*;
    use crate::settings::Settings;

    /// Checks the addresses of the requests for a model.
    #[track_caller]
    fn check(model: &str, settings: &str, expect: &[&str]) {
        let settings: Settings = toml::from_str(settings).unwrap();
        let variables = Variables::These(BTreeMap::new());
        let target = provider::target(&model.parse().unwrap(), &settings, &variables).unwrap();
        let urls: Vec<String> = requests(&target).into_iter().map(|request| request.url).collect();
        assert_eq!(urls, expect);
    }

    #[test]
    fn openai_is_not_asked() {
        check("openai/gpt-9", "", &[]);
        check("openai/gpt-9", "[providers.openai]\nbase_url = \"https://api.openai.com/v1/\"", &[]);
    }

    #[test]
    fn asks_other_addresses_only_if_the_url_ends_in_v1() {
        let lab = |url: &str| format!("[providers.lab]\nkind = \"openai\"\nbase_url = \"{url}\"");
        check(
            "lab/m",
            &lab("http://h/v1"),
            &["http://h/v1/models", "http://h/props", "http://h/api/v0/models"],
        );
        check("lab/m", &lab("http://h/api"), &["http://h/api/models"]);
    }
}
