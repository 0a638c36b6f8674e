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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_follows_from_the_name() {
        for (name, expect) in [
            ("claude-opus-9", "anthropic"),
            ("us.anthropic.claude-opus-9-v1:0", "anthropic"),
            ("gemini-9", "google"),
            ("gpt-9", "openai"),
            ("o9-mini", "openai"),
            ("orca-mini", "ollama"),
            ("anthropic/claude-opus-9", "openrouter"),
        ] {
            assert_eq!(infer(name), expect, "{name}");
        }
    }
}
