//! Tests of notes, which are answers that are kept for later runs.

use super::*;

/// Returns a question whose answer is a note.
fn note(text: &str) -> NeedRequest {
    match question(text, Some(60)) {
        NeedRequest::LlmComplete { model, system, messages, max_tokens, .. } => {
            NeedRequest::LlmComplete { model, system, messages, max_tokens, note: true }
        }
        other => other,
    }
}

/// Returns models with a separate home.
fn models_at(server: &MockServer, home: &std::path::Path, options: &LlmOptions) -> Models {
    let environment = Environment { home: Some(home.to_owned()), ..environment(server) };
    Models::open(Settings::default(), options, &environment).unwrap()
}

#[tokio::test]
async fn a_note_is_not_paid_for_again() {
    let (server, home) = (MockServer::start().await, tempfile::tempdir().unwrap());
    respond_with(&server, openai("a note", "stop")).await;
    let small = LlmOptions { budget_tokens: Some(100), ..LlmOptions::default() };
    let models = || models_at(&server, home.path(), &small);
    let first = models().answer(&note("what?"), Some("openai/g")).await;
    assert_eq!(models().answer(&note("what?"), Some("openai/g")).await, first);
    assert_eq!(received(&server).await.len(), 1);
    // A note needs no budget.
    let many = (0..9).map(|key| (key.to_string(), note("what?"))).collect();
    assert_eq!(models().check_budget(&many, None, Some("openai/g")), None);
    assert!(models().check_budget(&many, None, Some("openai/h")).is_some());
    // The remaining needs are not checked either, because an earlier run kept notes of this conversation.
    let remaining = Some(RemainingNeeds { requests: 1, tokens: 1_000 });
    assert_eq!(models().check_budget(&many, remaining, Some("openai/g")), None);
    // Another model, another text, and an answer that is not a note.
    models().answer(&note("what?"), Some("openai/h")).await;
    models().answer(&note("why?"), Some("openai/g")).await;
    models().answer(&question("what?", Some(60)), Some("openai/g")).await;
    assert_eq!(received(&server).await.len(), 4);
}

#[tokio::test]
async fn remaining_needs_must_fit_into_the_budget() {
    let (server, home) = (MockServer::start().await, tempfile::tempdir().unwrap());
    let options = LlmOptions { budget_tokens: Some(1_000), ..LlmOptions::default() };
    let models = models_at(&server, home.path(), &options);
    let requests = [("a".to_owned(), note("what?"))].into();
    let remaining = |requests, tokens| Some(RemainingNeeds { requests, tokens });
    assert_eq!(models.check_budget(&requests, remaining(9, 900), Some("openai/g")), None);
    let error = models.check_budget(&requests, remaining(9, 1_000), Some("openai/g")).unwrap();
    assert_eq!(error.code, BUDGET_EXHAUSTED);
    for requests_max in [500, u64::MAX] {
        assert!(models.check_budget(&requests, remaining(requests_max, 9), Some("openai/g")).is_some());
    }
}

#[tokio::test]
async fn without_notes_the_model_is_asked_again() {
    let (server, home) = (MockServer::start().await, tempfile::tempdir().unwrap());
    respond_with(&server, openai("a note", "stop")).await;
    let without = LlmOptions { no_notes: true, ..LlmOptions::default() };
    for options in [&without, &LlmOptions::default(), &without] {
        models_at(&server, home.path(), options).answer(&note("what?"), Some("openai/g")).await;
    }
    assert_eq!(received(&server).await.len(), 3);
}

#[tokio::test]
async fn used_note_is_recorded_and_replay_reads_no_note() {
    let (server, home) = (MockServer::start().await, tempfile::tempdir().unwrap());
    respond_with(&server, openai("a note", "stop")).await;
    models_at(&server, home.path(), &LlmOptions::default()).answer(&note("what?"), Some("openai/g")).await;
    let file = home.path().join("answers.json");
    let record = LlmOptions { record: Some(file.clone()), ..LlmOptions::default() };
    models_at(&server, home.path(), &record).answer(&note("what?"), Some("openai/g")).await;
    assert_eq!(received(&server).await.len(), 1);
    let replay = LlmOptions { replay: Some(file), ..LlmOptions::default() };
    let replaying = models_at(&server, home.path(), &replay);
    assert_eq!(text(&replaying.answer(&note("what?"), None).await), "a note");
    std::fs::write(home.path().join("answers.json"), "{}").unwrap();
    let missing = models_at(&server, home.path(), &replay).answer(&note("what?"), Some("openai/g")).await;
    check_error(&missing, "llm_unavailable", "no answer was recorded");
}
