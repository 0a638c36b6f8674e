//! Tests of models over real connections to a server on loopback.

mod names;
mod notes;
mod windows;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jp_compact_schema::{Message, Role};
use serde_json::{Value, json};
use wiremock::matchers::{any, header, method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use super::*;

const KEY: &str = "sk-sekret-0123456789";
/// Longer than any test runs.
const NEVER: Duration = Duration::from_secs(3600);

fn environment(server: &MockServer) -> Environment {
    let address = |path: &str| server.uri() + path;
    let variables = BTreeMap::from([
        ("OPENAI_BASE_URL".to_owned(), address("/v1")),
        ("ANTHROPIC_BASE_URL".to_owned(), address("")),
        ("GOOGLE_GEMINI_BASE_URL".to_owned(), address("")),
        ("OLLAMA_HOST".to_owned(), address("")),
        ("OPENAI_API_KEY".to_owned(), KEY.to_owned()),
        ("ANTHROPIC_API_KEY".to_owned(), KEY.to_owned()),
        ("GEMINI_API_KEY".to_owned(), KEY.to_owned()),
    ]);
    Environment { variables: Variables::These(variables), ..Environment::bare("/") }
}

/// Models of this server, with retries without delay.
fn models_with(server: &MockServer, options: &LlmOptions) -> Models {
    let models = Models::open(Settings::default(), options, &environment(server)).unwrap();
    Models { backoff: Backoff { initial: Duration::ZERO, max: Duration::ZERO, ..BACKOFF }, ..models }
}

fn models(server: &MockServer) -> Models {
    models_with(server, &LlmOptions::default())
}

fn question(text: &str, max_tokens: Option<u64>) -> NeedRequest {
    let message = |role, content: &str| Message { role, content: content.into() };
    NeedRequest::LlmComplete {
        model: None,
        system: Some("be short".into()),
        messages: vec![
            message(Role::User, "hi"),
            message(Role::Assistant, "yes?"),
            message(Role::User, text),
        ],
        max_tokens,
        note: false,
    }
}

fn openai(text: &str, finish: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "id": "x", "object": "chat.completion", "created": 1, "model": "gpt-test-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35},
    }))
}

async fn respond_with(server: &MockServer, response: ResponseTemplate) {
    Mock::given(any()).respond_with(response).mount(server).await;
}

async fn received(server: &MockServer) -> Vec<Request> {
    server.received_requests().await.unwrap()
}

#[track_caller]
fn text(answer: &Answer) -> &str {
    let Answer::Ok(fields) = answer else { panic!("{answer:?}") };
    fields["text"].as_str().unwrap()
}

/// Checks for an error with this code. Its message must not contain the key.
#[track_caller]
fn check_error(answer: &Answer, code: &str, part: &str) {
    let Answer::Err(error) = answer else { panic!("{answer:?}") };
    assert!(error.code == code && error.message.contains(part), "{error:?}");
    assert!(!error.message.contains("sekret"), "{error:?}");
}

/// Checks that a provider receives the prompt in its own format and that its answer is parsed.
async fn check_provider(
    model: &str,
    address_path: &str,
    key_header: Option<&str>,
    body: Value,
    sent: &[(&str, Value)],
) {
    let server = MockServer::start().await;
    let mut mock = Mock::given(method("POST")).and(path(address_path));
    if let Some(name) = key_header {
        let value = if name == "authorization" { format!("Bearer {KEY}") } else { KEY.to_owned() };
        mock = mock.and(header(name, value));
    }
    mock.respond_with(ResponseTemplate::new(200).set_body_json(body)).expect(1).mount(&server).await;
    let answer = models(&server).answer(&question("what?", Some(77)), Some(model)).await;
    let Answer::Ok(fields) = &answer else { panic!("{answer:?}") };
    assert_eq!(fields["text"], "It was this.");
    assert!(fields["model"].as_str().unwrap().starts_with(model), "{answer:?}");
    assert_eq!(fields["usage"], json!({"input_tokens": 30, "output_tokens": 5}));
    let request: Value = serde_json::from_slice(&received(&server).await[0].body).unwrap();
    for (pointer, expect) in sent {
        assert_eq!(request.pointer(pointer), Some(expect), "{pointer} in {request}");
    }
}

#[tokio::test]
async fn openai_receives_its_own_format() {
    let body = json!({
        "id": "x", "object": "chat.completion", "created": 1, "model": "gpt-test-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "It was this."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35},
    });
    let sent = [
        ("/model", json!("gpt-test")),
        ("/max_tokens", json!(77)),
        ("/messages/0", json!({"role": "system", "content": "be short"})),
        ("/messages/3", json!({"role": "user", "content": "what?"})),
    ];
    check_provider("openai/gpt-test", "/v1/chat/completions", Some("authorization"), body, &sent).await;
}

#[tokio::test]
async fn anthropic_receives_its_own_format() {
    let body = json!({
        "id": "x", "type": "message", "role": "assistant", "model": "claude-test-1",
        "content": [{"type": "text", "text": "It was this."}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 30, "output_tokens": 5},
    });
    let sent = [
        ("/model", json!("claude-test")),
        ("/max_tokens", json!(77)),
        ("/messages/1/role", json!("assistant")),
    ];
    check_provider("anthropic/claude-test", "/v1/messages", Some("x-api-key"), body, &sent).await;
}

#[tokio::test]
async fn gemini_receives_its_own_format() {
    let body = json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": "It was this."}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 5, "totalTokenCount": 35},
        "modelVersion": "gemini-test-1",
    });
    let sent = [("/generationConfig/maxOutputTokens", json!(77)), ("/contents/1/role", json!("model"))];
    let at = "/v1beta/models/gemini-test:generateContent";
    check_provider("gemini/gemini-test", at, Some("x-goog-api-key"), body, &sent).await;
}

#[tokio::test]
async fn ollama_receives_its_own_format() {
    let body = json!({
        "model": "qwen3:8b", "message": {"role": "assistant", "content": "It was this."}, "done": true,
        "done_reason": "stop", "prompt_eval_count": 30, "eval_count": 5,
    });
    let sent =
        [("/model", json!("qwen3:8b")), ("/stream", json!(false)), ("/options/num_predict", json!(77))];
    check_provider("ollama/qwen3:8b", "/api/chat", None, body, &sent).await;
}

/// Checks the result of an OpenAI answer that ends in this way.
async fn check_end(text: &str, finish: &str, code: &str) {
    let server = MockServer::start().await;
    respond_with(&server, openai(text, finish)).await;
    let answer = models(&server).answer(&question("what?", None), Some("openai/g")).await;
    check_error(&answer, code, "openai/g");
}

#[tokio::test]
async fn incomplete_answers_are_errors() {
    check_end("It was th", "length", "llm_truncated").await;
    check_end("I cannot", "content_filter", "llm_refused").await;
    check_end("half", "paused", "llm_refused").await;
    check_end(" ", "stop", "llm_refused").await;
}

#[tokio::test]
async fn retries_a_busy_provider() {
    let server = MockServer::start().await;
    for (status, retry_after) in [(429, Some("0")), (503, None), (500, Some("nonsense"))] {
        let mut response = ResponseTemplate::new(status);
        if let Some(retry_after) = retry_after {
            response = response.insert_header("retry-after", retry_after);
        }
        Mock::given(any()).respond_with(response).up_to_n_times(1).mount(&server).await;
    }
    respond_with(&server, openai("at last", "stop")).await;
    let answer = models(&server).answer(&question("what?", None), Some("openai/g")).await;
    assert_eq!(text(&answer), "at last");
    assert_eq!(received(&server).await.len(), 4);
}

#[tokio::test]
async fn retries_and_waits_are_limited() {
    for (retry_after, times) in [(None, 4), (Some("0"), 4), (Some("3600"), 1)] {
        let server = MockServer::start().await;
        let mut response = ResponseTemplate::new(429);
        if let Some(retry_after) = retry_after {
            response = response.insert_header("retry-after", retry_after);
        }
        respond_with(&server, response).await;
        let answer = models(&server).answer(&question("what?", None), Some("openai/g")).await;
        check_error(&answer, "llm_unavailable", "HTTP 429");
        assert_eq!(received(&server).await.len(), times, "{retry_after:?}");
    }
}

#[tokio::test]
async fn refused_connection_names_the_address_and_is_not_retried_on_this_machine() {
    let server = MockServer::start().await;
    // A port that was just released.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let variables = BTreeMap::from([("OPENAI_BASE_URL".to_owned(), format!("http://{closed}/v1"))]);
    let models = Models { variables: Variables::These(variables), ..models(&server) };
    let answer = models.answer(&question("what?", None), Some("openai/g")).await;
    check_error(
        &answer,
        "llm_unavailable",
        &format!("nothing answers at http://{closed}/v1/: is the server running?"),
    );
    let message = format!("{answer:?}");
    assert!(!message.contains("tries"), "{message}");
}

#[tokio::test]
async fn refused_connection_in_the_text_of_a_provider_is_not_a_refused_connection() {
    let server = MockServer::start().await;
    let body = json!({"error": {"message": "upstream worker: Connection refused"}});
    respond_with(&server, ResponseTemplate::new(500).set_body_json(body)).await;
    let answer = models(&server).answer(&question("what?", None), Some("openai/g")).await;
    check_error(&answer, "llm_unavailable", "HTTP 500: upstream worker: Connection refused, after 4 tries");
    assert_eq!(received(&server).await.len(), 4);
}

#[tokio::test]
async fn provider_errors_are_final_and_hide_the_key() {
    for (status, part) in [(401, "it rejected the key"), (400, "no model [key] known"), (404, "no model")] {
        let server = MockServer::start().await;
        let body = json!({"error": {"message": format!("no model {KEY} known"), "code": "x"}});
        respond_with(&server, ResponseTemplate::new(status).set_body_json(body)).await;
        let answer = models(&server).answer(&question("what?", None), Some("openai/g")).await;
        check_error(&answer, "llm_unavailable", part);
        assert_eq!(received(&server).await.len(), 1);
    }
}

#[tokio::test]
async fn request_without_a_key_has_no_rejected_key() {
    let server = MockServer::start().await;
    let body = json!({"error": {"message": "Country, region, or territory not supported"}});
    respond_with(&server, ResponseTemplate::new(403).set_body_json(body)).await;
    let variables = BTreeMap::from([("OPENAI_BASE_URL".to_owned(), server.uri())]);
    let models = Models { variables: Variables::These(variables), ..models(&server) };
    let answer = models.answer(&question("what?", None), Some("openai/g")).await;
    check_error(&answer, "llm_unavailable", "HTTP 403: Country, region, or territory not supported");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let server = MockServer::start().await;
    let elsewhere = MockServer::start().await;
    respond_with(&server, ResponseTemplate::new(307).insert_header("location", elsewhere.uri())).await;
    let answer = models(&server).answer(&question("what?", None), Some("openai/g")).await;
    check_error(&answer, "llm_unavailable", "redirects are not followed");
    assert_eq!((received(&server).await.len(), received(&elsewhere).await.len()), (1, 0));
}

#[tokio::test]
async fn https_is_never_downgraded() {
    let server = MockServer::start().await;
    respond_with(&server, openai("yes", "stop")).await;
    let address = server.uri().replace("http:", "https:");
    let variables = BTreeMap::from([("OPENAI_BASE_URL".to_owned(), address)]);
    let models = Models { variables: Variables::These(variables), ..models(&server) };
    let answer = models.answer(&question("what?", None), Some("openai/g")).await;
    check_error(&answer, "llm_unavailable", "openai/g: ");
    assert_eq!(received(&server).await.len(), 0);
}

#[tokio::test]
async fn a_silent_provider_times_out_without_retry() {
    let server = MockServer::start().await;
    respond_with(&server, openai("too late", "stop").set_delay(NEVER)).await;
    let variables = environment(&server).variables;
    let client = Client::new(Timeouts { connect: NEVER, answer: Duration::from_millis(100) }, &variables);
    let models = Models { client, ..models(&server) };
    let answer = models.answer(&question("what?", None), Some("openai/g")).await;
    check_error(&answer, "llm_unavailable", "did not answer in time");
    assert_eq!(received(&server).await.len(), 1, "a request that may have cost money is not repeated");
}

#[tokio::test]
async fn invalid_answers_are_errors() {
    for response in [
        ResponseTemplate::new(200).set_body_raw("{\"choices\":", "application/json"),
        ResponseTemplate::new(200).set_body_string("<html>"),
    ] {
        let server = MockServer::start().await;
        respond_with(&server, response).await;
        let answer = models(&server).answer(&question("what?", None), Some("openai/g")).await;
        check_error(&answer, "llm_unavailable", "is not valid JSON");
    }
}

#[tokio::test]
async fn the_model_of_the_request_comes_first() {
    let server = MockServer::start().await;
    respond_with(&server, openai("yes", "stop")).await;
    let models = models(&server);
    let NeedRequest::LlmComplete { system, messages, max_tokens, .. } = question("a", None) else {
        panic!("it asks a model")
    };
    let named = NeedRequest::LlmComplete {
        model: Some("openai/other".into()),
        system,
        messages,
        max_tokens,
        note: false,
    };
    models.answer(&named, Some("openai/g")).await;
    models.answer(&question("a", None), Some("openai/g")).await;
    check_error(
        &models.answer(&question("a", None), None).await,
        "llm_unavailable",
        "no model is configured",
    );
    check_error(&models.answer(&question("a", None), Some("g")).await, "llm_unavailable", "`provider/name`");
    let bodies = received(&server).await.into_iter().map(|request| request.body_json::<Value>().unwrap());
    assert_eq!(bodies.map(|body| body["model"].clone()).collect::<Vec<_>>(), ["other", "g"]);
}

#[tokio::test]
async fn a_strategy_cannot_choose_another_provider() {
    let server = MockServer::start().await;
    respond_with(&server, openai("yes", "stop")).await;
    let NeedRequest::LlmComplete { system, messages, max_tokens, .. } = question("a", None) else {
        panic!("it asks a model")
    };
    let named = NeedRequest::LlmComplete {
        model: Some("openai/g".into()),
        system,
        messages,
        max_tokens,
        note: false,
    };
    let answer = models(&server).answer(&named, Some("ollama/q")).await;
    check_error(&answer, "llm_unavailable", "from another provider than `ollama/q`");
    assert_eq!(received(&server).await.len(), 0);
}

#[tokio::test]
async fn the_budget_covers_the_whole_run() {
    let server = MockServer::start().await;
    respond_with(&server, openai("yes", "stop")).await;
    let options = LlmOptions { budget_tokens: Some(100), ..LlmOptions::default() };
    let models = models_with(&server, &options);
    // The server reports 35 tokens per answer.
    text(&models.answer(&question("what?", Some(60)), Some("openai/g")).await);
    check_error(
        &models.answer(&question("what?", Some(61)), Some("openai/g")).await,
        "budget_exhausted",
        "has 65 left",
    );
    text(&models.answer(&question("what?", None), Some("openai/g")).await);
    let bodies: Vec<Value> =
        received(&server).await.iter().map(|request| request.body_json().unwrap()).collect();
    assert_eq!(bodies.len(), 2);
    // The budget limits a request without its own limit: 65 are left, and the prompt needs about 9.
    assert_eq!(bodies[1]["max_tokens"], 56);
}

#[tokio::test]
async fn retries_of_lost_connections_stay_within_the_budget() {
    let server = MockServer::start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let lost = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lost);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            // Reads a part of the request, and closes the connection.
            let _ = stream.unwrap().read(&mut [0; 16]);
        }
    });
    let variables = BTreeMap::from([("OPENAI_BASE_URL".to_owned(), address)]);
    let options = LlmOptions { budget_tokens: Some(100), ..LlmOptions::default() };
    let models = Models { variables: Variables::These(variables), ..models_with(&server, &options) };
    // An attempt needs about 89 tokens, and a lost one costs the prompt of about 9.
    let answer = models.answer(&question("what?", Some(80)), Some("openai/g")).await;
    check_error(&answer, "budget_exhausted", "has 82 left");
    assert_eq!(lost.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn reports_an_answer_that_the_budget_cut_off() {
    let server = MockServer::start().await;
    respond_with(&server, openai("half of", "length")).await;
    let options = LlmOptions { budget_tokens: Some(100), ..LlmOptions::default() };
    let answer = models_with(&server, &options).answer(&question("what?", None), Some("openai/g")).await;
    check_error(&answer, "budget_exhausted", "the budget was used up before the answer was complete");
}

#[tokio::test]
async fn recorded_answers_are_replayed_without_requests() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answers.json");
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(openai("first", "stop")).up_to_n_times(1).mount(&server).await;
    Mock::given(any()).respond_with(openai("half", "length")).up_to_n_times(1).mount(&server).await;
    respond_with(&server, ResponseTemplate::new(400)).await;
    let recording = models_with(&server, &LlmOptions { record: Some(file.clone()), ..LlmOptions::default() });
    let requests = [question("a", None), question("a", None), question("b", None), question("c", None)];
    let mut recorded = Vec::new();
    for request in &requests {
        recorded.push(recording.answer(request, Some("openai/g")).await);
    }
    assert_eq!(recorded[0], recorded[1]);
    assert_eq!(received(&server).await.len(), 3, "the same request is not sent again");
    let replaying = models_with(&server, &LlmOptions { replay: Some(file.clone()), ..LlmOptions::default() });
    assert!(replaying.replays() && !recording.replays());
    for (request, answer) in requests[..3].iter().zip(&recorded) {
        assert_eq!(replaying.answer(request, None).await, *answer);
    }
    let missing = replaying.answer(&requests[3], Some("openai/g")).await;
    check_error(&missing, "llm_unavailable", &jp_compact_runtime::session::key(&requests[3]));
    assert_eq!(received(&server).await.len(), 3);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("sekret"));
}

#[tokio::test]
async fn sends_nothing_without_a_key() {
    let environment = Environment::bare("/");
    let models = Models::open(Settings::default(), &LlmOptions::default(), &environment).unwrap();
    let answer = models.answer(&question("a", None), Some("anthropic/c")).await;
    check_error(
        &answer,
        "llm_unavailable",
        "failed to find a key for `anthropic`: set ANTHROPIC_API_KEY, or",
    );
}

#[test]
fn the_shown_example_is_valid() {
    let document: BTreeMap<String, Settings> = toml::from_str(EXAMPLE).unwrap();
    let settings = &document["llm"];
    let model = settings.model.as_ref().unwrap();
    assert!(settings.providers.contains_key(model.provider()));
    assert_eq!(EXAMPLE.lines().count(), 3);
}
