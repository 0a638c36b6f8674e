//! Tests of the requests to providers for context windows.

use super::*;

/// Returns the settings of a user who names this provider.
fn naming(provider: &str) -> Settings {
    toml::from_str(&format!("[providers.{provider}]")).unwrap()
}

/// Returns models of this server with these settings and a separate home.
fn models_of(
    server: &MockServer,
    settings: Settings,
    options: &LlmOptions,
    home: &std::path::Path,
) -> Models {
    let environment = Environment { home: Some(home.to_owned()), ..environment(server) };
    Models::open(settings, options, &environment).unwrap()
}

/// Asks for the window of a model, and returns it.
async fn asked(models: &Models, model: &str, may_send: bool) -> Option<ContextWindow> {
    let model = model.parse().unwrap();
    models.ask_for_window(&model, may_send).await;
    models.context_window(&model)
}

fn reported(tokens: u64) -> Option<ContextWindow> {
    Some(WindowSource::Provider.window(tokens))
}

/// Checks the window that a server reports with these answers, by path.
async fn check_reported(
    model: &str,
    answers: &[(&str, Value)],
    expect: Option<ContextWindow>,
) -> Vec<Request> {
    let (server, home) = (MockServer::start().await, tempfile::tempdir().unwrap());
    for (at, body) in answers {
        let response = ResponseTemplate::new(200).set_body_json(body);
        Mock::given(path(*at)).respond_with(response).mount(&server).await;
    }
    let provider = model.split_once('/').unwrap().0;
    let models = models_of(&server, naming(provider), &LlmOptions::default(), home.path());
    assert_eq!(asked(&models, model, true).await, expect, "{answers:?}");
    received(&server).await
}

#[tokio::test]
async fn ollama_reports_the_configured_or_trained_window() {
    let show = |parameters: &str| {
        json!({"parameters": parameters, "model_info": {
            "general.architecture": "qwen3", "qwen3.block_count": 36, "qwen3.context_length": 40960,
        }})
    };
    let at = "/api/show";
    let sent = check_reported("ollama/qwen3:8b", &[(at, show(""))], reported(40960)).await;
    assert_eq!(sent.len(), 1);
    assert_eq!((&*sent[0].method.to_string(), sent[0].url.path()), ("POST", at));
    assert_eq!(sent[0].body_json::<Value>().unwrap(), json!({"model": "qwen3:8b"}));
    let parameters = "stop      \"<|im_end|>\"\nnum_ctx   8192\ntop_k 20";
    check_reported("ollama/qwen3:8b", &[(at, show(parameters))], reported(8192)).await;
    check_reported("ollama/qwen3:8b", &[(at, json!({"error": "model not found"}))], None).await;
}

#[tokio::test]
async fn list_of_models_reports_windows() {
    let list = |models: Value| [("/v1/models", json!({"object": "list", "data": models}))];
    let other = json!({"id": "other", "max_model_len": 7});
    let vllm = list(json!([other, {"id": "m", "max_model_len": 32768}]));
    let sent = check_reported("openai/m", &vllm, reported(32768)).await;
    assert_eq!((sent.len(), &*sent[0].method.to_string()), (1, "GET"));
    assert_eq!(sent[0].headers["authorization"], format!("Bearer {KEY}"));
    assert!(sent[0].body.is_empty());
    let routed = json!([other, {"id": "m", "context_length": 1_000_000,
        "top_provider": {"context_length": 200_000}}]);
    check_reported("openai/m", &list(routed), reported(200_000)).await;
    check_reported("openai/m", &list(json!([other, {"id": "x", "max_model_len": 9}])), None).await;
    // A server with one model serves it under any name. A window of 0 is unknown.
    check_reported("openai/m", &list(json!([other])), reported(7)).await;
    check_reported("openai/m", &list(json!([{"id": "m", "max_model_len": 0}])), None).await;
    check_reported("openai/m", &list(json!([{"id": "m", "max_model_len": "many"}])), None).await;
}

#[tokio::test]
async fn window_of_the_running_server_overrides_the_trained_one() {
    let trained = json!({"data": [{"id": "/m.gguf", "meta": {"n_ctx_train": 131_072}}]});
    let props = json!({"default_generation_settings": {"n_ctx": 4096}});
    check_reported("openai/m", &[("/v1/models", trained), ("/props", props)], reported(4096)).await;
    let list = |more: Value| json!({"data": [{"id": "a"}, more]});
    let loaded = list(json!({"id": "m", "max_context_length": 131_072, "loaded_context_length": 8192}));
    let studio = [("/v1/models", list(json!({"id": "m"}))), ("/api/v0/models", loaded)];
    check_reported("openai/m", &studio, reported(8192)).await;
}

#[tokio::test]
async fn gemini_and_anthropic_report_the_window_of_one_model() {
    let at = "/v1beta/models/gemma-9";
    let sent =
        check_reported("gemini/gemma-9", &[(at, json!({"inputTokenLimit": 9000}))], reported(9000)).await;
    assert_eq!(sent[0].headers["x-goog-api-key"], KEY);
    let at = "/v1/models/new-9";
    let sent =
        check_reported("anthropic/new-9", &[(at, json!({"max_input_tokens": 9000}))], reported(9000)).await;
    assert_eq!(
        (&sent[0].headers["x-api-key"], &sent[0].headers["anthropic-version"]),
        (&KEY.parse().unwrap(), &"2023-06-01".parse().unwrap())
    );
}

#[tokio::test]
async fn a_provider_is_asked_once() {
    let (server, home) = (MockServer::start().await, tempfile::tempdir().unwrap());
    let show = json!({"model_info": {"q.context_length": 40960}});
    respond_with(&server, ResponseTemplate::new(200).set_body_json(show)).await;
    let models = || models_of(&server, naming("ollama"), &LlmOptions::default(), home.path());
    // A dry run sends nothing.
    assert_eq!(asked(&models(), "ollama/q", false).await, None);
    assert_eq!(received(&server).await.len(), 0);
    let first = models();
    assert_eq!(asked(&first, "ollama/q", true).await, reported(40960));
    assert_eq!(asked(&first, "ollama/q", true).await, reported(40960));
    // The next run and a dry run after it send nothing.
    assert_eq!(asked(&models(), "ollama/q", true).await, reported(40960));
    assert_eq!(asked(&models(), "ollama/q", false).await, reported(40960));
    assert_eq!(received(&server).await.len(), 1);
}

#[tokio::test]
async fn only_a_provider_that_the_user_names_is_asked() {
    let (server, home) = (MockServer::start().await, tempfile::tempdir().unwrap());
    respond_with(&server, ResponseTemplate::new(200).set_body_json(json!({"max_input_tokens": 9}))).await;
    let model_of = |name: &str| -> Settings { toml::from_str(&format!("model = \"{name}\"")).unwrap() };
    let typed = |name: &str| LlmOptions { model: Some(name.parse().unwrap()), ..LlmOptions::default() };
    let replay = home.path().join("answers.json");
    std::fs::write(&replay, "{}").unwrap();
    let none = LlmOptions::default();
    let cases = [
        (Settings::default(), none.clone(), 0),
        (naming("openai"), none.clone(), 0),
        (model_of("openai/g"), typed("ollama/q"), 0),
        (naming("anthropic"), LlmOptions { context_window: Some(5), ..none.clone() }, 0),
        (naming("anthropic"), LlmOptions { replay: Some(replay), ..none.clone() }, 0),
        (naming("anthropic"), none.clone(), 1),
        (model_of("anthropic/c"), none.clone(), 1),
        (Settings::default(), typed("anthropic/c"), 1),
    ];
    for (settings, options, count) in cases {
        let home = tempfile::tempdir().unwrap();
        let before = received(&server).await.len();
        asked(&models_of(&server, settings, &options, home.path()), "anthropic/other", true).await;
        assert_eq!(received(&server).await.len() - before, count, "{options:?}");
    }
}

#[tokio::test]
async fn sends_no_request_for_a_window_in_the_built_in_table() {
    let (server, home) = (MockServer::start().await, tempfile::tempdir().unwrap());
    let models = models_of(&server, naming("openai"), &LlmOptions::default(), home.path());
    let window = Some(WindowSource::BuiltIn.window(128_000));
    assert_eq!(asked(&models, "openai/gpt-4o", true).await, window);
    assert_eq!(received(&server).await.len(), 0);
}

#[tokio::test]
async fn window_of_the_family_is_used_after_a_failed_request() {
    for response in [
        ResponseTemplate::new(500),
        ResponseTemplate::new(401),
        ResponseTemplate::new(200).set_body_string("<html>"),
        ResponseTemplate::new(307).insert_header("location", "/v1/models"),
    ] {
        let (server, home) = (MockServer::start().await, tempfile::tempdir().unwrap());
        Mock::given(any()).respond_with(response).up_to_n_times(1).mount(&server).await;
        let list = json!({"data": [{"id": "gpt-9", "max_model_len": 5}]});
        respond_with(&server, ResponseTemplate::new(200).set_body_json(list)).await;
        let models = || models_of(&server, naming("openai"), &LlmOptions::default(), home.path());
        let first = models();
        for _ in 0..2 {
            let window = asked(&first, "openai/gpt-9", true).await;
            assert_eq!(window, Some(WindowSource::Family.window(128_000)));
        }
        assert_eq!(received(&server).await.len(), 1);
        assert_eq!(asked(&models(), "openai/gpt-9", true).await, reported(5));
    }
}

#[tokio::test]
async fn long_and_late_answers_are_ignored() {
    let (server, home) = (MockServer::start().await, tempfile::tempdir().unwrap());
    let list = json!({"data": [{"id": "m", "max_model_len": 5}]});
    let long = ResponseTemplate::new(200).set_body_string(list.to_string() + &" ".repeat(9 << 20));
    Mock::given(any()).respond_with(long).up_to_n_times(1).mount(&server).await;
    respond_with(&server, ResponseTemplate::new(200).set_delay(NEVER)).await;
    let models = models_of(&server, naming("openai"), &LlmOptions::default(), home.path());
    assert_eq!(asked(&models, "openai/m", true).await, None);
    let client =
        Client::new(Timeouts { connect: NEVER, answer: Duration::from_millis(100) }, &models.variables);
    assert_eq!(asked(&Models { client, ..models }, "openai/n", true).await, None);
    assert_eq!(received(&server).await.len(), 2);
}

#[tokio::test]
async fn a_typed_window_bounds_each_request() {
    let server = MockServer::start().await;
    respond_with(&server, openai("yes", "stop")).await;
    let typed = LlmOptions { context_window: Some(50), ..LlmOptions::default() };
    let models = models_with(&server, &typed);
    text(&models.answer(&question("what?", Some(60)), Some("openai/g")).await);
    text(&models.answer(&question("what?", None), Some("openai/g")).await);
    text(&models.answer(&question("what?", Some(7)), Some("openai/g")).await);
    let limits: Vec<Value> = received(&server)
        .await
        .iter()
        .map(|request| request.body_json::<Value>().unwrap()["max_tokens"].clone())
        .collect();
    // The prompt has about 9 tokens. An eighth of its size stays free as a margin.
    assert_eq!(limits, [40, 40, 7]);
    let long = question(&"x".repeat(200), Some(60));
    check_error(
        &models.answer(&long, Some("openai/g")).await,
        "window_exceeded",
        "more than its window of 50",
    );
    assert_eq!(received(&server).await.len(), 3);
    let model = |name: &str| name.parse().unwrap();
    assert_eq!(models.context_window(&model("openai/gpt-4o")), Some(WindowSource::Typed.window(50)));
    let wide = LlmOptions { context_window: Some(1_000_000), ..LlmOptions::default() };
    let models = models_with(&server, &wide);
    assert_eq!(models.context_window(&model("openai/gpt-4o")), Some(WindowSource::BuiltIn.window(128_000)));
    // The user's own value overrides the family.
    assert_eq!(models.context_window(&model("openai/gpt-9")), Some(WindowSource::Typed.window(1_000_000)));
}

#[tokio::test]
async fn a_large_window_sets_no_limit_that_a_model_refuses() {
    let server = MockServer::start().await;
    respond_with(&server, openai("yes", "stop")).await;
    for (window, limit) in [(100_000, json!(16_384)), (1_000_000, Value::Null)] {
        let typed = LlmOptions { context_window: Some(window), ..LlmOptions::default() };
        let models = models_with(&server, &typed);
        text(&models.answer(&question("what?", None), Some("openai/g")).await);
        let request = received(&server).await.pop().unwrap();
        assert_eq!(request.body_json::<Value>().unwrap()["max_tokens"], limit, "{window}");
    }
}
