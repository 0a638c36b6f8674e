//! A model server on loopback that implements OpenAI's chat API and records the requests.

use std::process::Command;

use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Respond, ResponseTemplate};

/// Returns the text of the model in a summary: the part before the section of facts.
pub(crate) fn without_facts(summary: &str) -> &str {
    summary.split_once("\n\n## Kept verbatim\n").map_or(summary, |(text, _)| text)
}

/// The server and its async runtime.
pub(crate) struct Model {
    server: MockServer,
    runtime: tokio::runtime::Runtime,
}

impl Model {
    /// Starts a server that answers every request with this text.
    pub(crate) fn with_answer(text: &str) -> Self {
        Self::with_response(Self::completion(text, "stop"))
    }

    /// Starts a server that sends this response to every request.
    pub(crate) fn with_response(response: ResponseTemplate) -> Self {
        Self::with_responder(response)
    }

    /// Starts a server that computes each response.
    pub(crate) fn with_responder(responder: impl Respond + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(MockServer::start());
        runtime.block_on(Mock::given(method("POST")).respond_with(responder).mount(&server));
        Self { server, runtime }
    }

    /// Returns a chat completion with this text and `finish_reason`.
    pub(crate) fn completion(text: &str, finish_reason: &str) -> ResponseTemplate {
        ResponseTemplate::new(200).set_body_json(json!({
            "id": "x", "object": "chat.completion", "created": 1, "model": "g",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish_reason}],
            "usage": {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35},
        }))
    }

    /// Sets the address of the server and a key in the environment of a command.
    pub(crate) fn configure<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("OPENAI_BASE_URL", self.server.uri()).env("OPENAI_API_KEY", "sk-0123456789")
    }

    /// Returns the prompts so far, without the requests that only ask about a model.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let requests = self.runtime.block_on(self.server.received_requests()).unwrap();
        let prompts = requests.iter().filter(|request| request.method == "POST");
        prompts.map(|request| request.body_json().unwrap()).collect()
    }
}
