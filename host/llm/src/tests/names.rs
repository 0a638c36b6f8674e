//! Model names. A provider receives exactly the name that the user typed.

use super::*;

/// Checks that each provider receives this name, without a setting for reasoning.
async fn check_name(name: &str, providers: &[&str]) {
    for provider in providers {
        let server = MockServer::start().await;
        let body = match *provider {
            "openai" => {
                json!({"choices": [{"index": 0, "message": {"content": "yes"}, "finish_reason": "stop"}]})
            }
            "anthropic" => json!({"content": [{"type": "text", "text": "yes"}], "stop_reason": "end_turn"}),
            "gemini" => {
                json!({"candidates": [{"content": {"parts": [{"text": "yes"}]}, "finishReason": "STOP"}]})
            }
            _ => json!({"message": {"content": "yes"}, "done": true, "done_reason": "stop"}),
        };
        respond_with(&server, ResponseTemplate::new(200).set_body_json(body)).await;
        let model = format!("{provider}/{name}");
        let answer = models(&server).answer(&question("what?", Some(77)), Some(&model)).await;
        assert_eq!(text(&answer), "yes", "{model}");
        let Answer::Ok(fields) = &answer else { panic!("{answer:?}") };
        assert_eq!(fields["model"], json!(model));
        let request = &received(&server).await[0];
        let body: Value = request.body_json().unwrap();
        if *provider == "gemini" {
            assert_eq!(request.url.path(), format!("/v1beta/models/{name}:generateContent"));
        } else {
            assert_eq!(body["model"], json!(name), "{model}");
        }
        for setting in
            ["/reasoning_effort", "/thinking", "/output_config", "/generationConfig/thinkingConfig", "/think"]
        {
            assert_eq!(body.pointer(setting), None, "{setting} for {model}");
        }
    }
}

#[tokio::test]
async fn end_of_a_name_is_no_reasoning_effort() {
    for end in ["none", "zero", "minimal", "low", "medium", "high", "xhigh", "max"] {
        check_name(&format!("mistral-{end}"), &["openai", "anthropic", "gemini", "ollama"]).await;
    }
    check_name("gpt-5.1-codex-max", &["openai"]).await;
    check_name("claude-opus-4-8-high", &["anthropic"]).await;
    check_name("gemini-3-pro-high", &["gemini"]).await;
}

#[tokio::test]
async fn current_models_keep_their_own_reasoning() {
    check_name("claude-sonnet-5", &["anthropic"]).await;
    check_name("gpt-5.1", &["openai"]).await;
    check_name("gemini-2.5-flash", &["gemini"]).await;
    check_name("gemini-3-pro", &["gemini"]).await;
    check_name("qwen3:8b", &["ollama"]).await;
}

#[tokio::test]
async fn name_has_no_namespace() {
    for name in ["ft:gpt-4o:acme::x1", "openai::gpt-5", "a::b::c-high"] {
        check_name(name, &["openai", "anthropic", "ollama"]).await;
    }
}
