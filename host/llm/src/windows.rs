//! The built-in table of context windows, from the documentation of the providers in November 2026. Settings
//! override it. A model that is not listed has no known window, because a window that is too large would make a request
//! fail.

/// Provider, model name, and context window in tokens without optional extensions.
const WINDOWS: [(&str, &str, u64); 15] = [
    ("anthropic", "claude-haiku-4-5", 200_000),
    ("anthropic", "claude-opus-4-1", 200_000),
    ("anthropic", "claude-opus-4-5", 200_000),
    ("anthropic", "claude-sonnet-4-5", 200_000),
    ("gemini", "gemini-2.5-flash", 1_048_576),
    ("gemini", "gemini-2.5-flash-lite", 1_048_576),
    ("gemini", "gemini-2.5-pro", 1_048_576),
    ("openai", "gpt-4.1", 1_047_576),
    ("openai", "gpt-4.1-mini", 1_047_576),
    ("openai", "gpt-4o", 128_000),
    ("openai", "gpt-4o-mini", 128_000),
    ("openai", "gpt-5", 400_000),
    ("openai", "gpt-5-mini", 400_000),
    ("openai", "gpt-5-nano", 400_000),
    ("openai", "gpt-5.1", 400_000),
];

/// Returns the window of a model. The name may end in a release date.
pub(super) fn built_in(provider: &str, name: &str) -> Option<u64> {
    let provider = if provider == "google" { "gemini" } else { provider };
    let matches = |known: &str| {
        let rest = name.strip_prefix(known);
        rest.is_some_and(|rest| rest.is_empty() || is_day(rest))
    };
    let window = WINDOWS.iter().find(|(owner, known, _)| *owner == provider && matches(known));
    window.map(|(_, _, tokens)| *tokens)
}

/// Accepts `-20251001` and `-2025-08-07`.
fn is_day(rest: &str) -> bool {
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    rest.starts_with("-20") && digits == 8 && rest.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(provider: &str, name: &str, expect: Option<u64>) {
        assert_eq!(built_in(provider, name), expect);
    }

    #[test]
    fn finds_the_window_of_the_exact_model() {
        check("openai", "gpt-5", Some(400_000));
        check("openai", "gpt-5-2025-08-07", Some(400_000));
        check("anthropic", "claude-haiku-4-5-20251001", Some(200_000));
        check("google", "gemini-2.5-pro", Some(1_048_576));
        check("openai", "gpt-5-chat-latest", None);
        check("openai", "gpt-5.9", None);
        check("mine", "gpt-5", None);
    }
}
