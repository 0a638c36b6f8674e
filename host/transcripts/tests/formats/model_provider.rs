//! The provider of a model, inferred from its name.

use jp_compact_transcripts::{self as transcripts, Format};

#[test]
fn provider_follows_from_the_name() {
    for (name, expected) in [
        ("claude-opus-9", "anthropic"),
        ("us.anthropic.claude-opus-9-v1:0", "anthropic"),
        ("gemini-9", "google"),
        ("gpt-9", "openai"),
        ("o9-mini", "openai"),
        ("orca-mini", "ollama"),
        ("anthropic/claude-opus-9", "openrouter"),
    ] {
        let body = serde_json::json!({"model": name, "messages": [{"role": "user", "content": "hi"}]});
        let stream = transcripts::read(Format::OpenaiChat, body.to_string().into()).unwrap();
        assert_eq!(stream.model(), Some((expected, name)));
    }
}
