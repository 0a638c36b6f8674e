//! A model: a server on loopback that speaks as OpenAI's does, and counts who asks.

use std::process::Command;

use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// A server, and what runs it.
pub(crate) struct Model {
    server: MockServer,
    runtime: tokio::runtime::Runtime,
}

impl Model {
    /// One that says this to everybody.
    pub(crate) fn saying(text: &str) -> Self {
        Self::answering(Self::says(text, "stop"))
    }

    pub(crate) fn answering(response: ResponseTemplate) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(MockServer::start());
        runtime.block_on(Mock::given(any()).respond_with(response).mount(&server));
        Self { server, runtime }
    }

    /// An answer that ends so.
    pub(crate) fn says(text: &str, finish: &str) -> ResponseTemplate {
        ResponseTemplate::new(200).set_body_json(json!({
            "id": "x", "object": "chat.completion", "created": 1, "model": "g",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
            "usage": {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35},
        }))
    }

    /// Gives a command the address and a key.
    pub(crate) fn of<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("OPENAI_BASE_URL", self.server.uri()).env("OPENAI_API_KEY", "sk-0123456789")
    }

    /// The bodies of all requests so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        let requests = self.runtime.block_on(self.server.received_requests()).unwrap();
        requests.iter().map(|request| request.body_json().unwrap()).collect()
    }
}
