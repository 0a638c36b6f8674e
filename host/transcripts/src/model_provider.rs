//! The provider of a model, inferred from its name. Most programs store only the name of a model.

/// Returns the provider that probably offers a model with this name.
pub(crate) fn infer(model: &str) -> &'static str {
    match model {
        _ if model.contains('/') => "openrouter",
        _ if model.starts_with("claude") || model.contains("anthropic.claude") => "anthropic",
        _ if model.starts_with("gemini") => "google",
        _ if ["gpt", "codex", "chatgpt"].iter().any(|name| model.starts_with(name)) => "openai",
        _ if model
            .strip_prefix('o')
            .is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit())) =>
        {
            "openai"
        }
        _ => "ollama",
    }
}
