//! What is shipped of models' windows, as their providers' documentation had it in November 2026. Settings go
//! before it, and what is not here is unknown: a window that is too large would cost an answer.

/// Provider, name, and how many tokens it takes without anything being asked for beside.
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

/// The window of a model, also under a name that ends in the day of its release.
pub(super) fn shipped(provider: &str, name: &str) -> Option<u64> {
    let provider = if provider == "google" { "gemini" } else { provider };
    let is_it = |known: &str| {
        let rest = name.strip_prefix(known);
        rest.is_some_and(|rest| rest.is_empty() || is_day(rest))
    };
    WINDOWS.iter().find(|(of, known, _)| *of == provider && is_it(known)).map(|(_, _, tokens)| *tokens)
}

/// `-20251001` or `-2025-08-07`.
fn is_day(rest: &str) -> bool {
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    rest.starts_with("-20") && digits == 8 && rest.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(provider: &str, name: &str, expect: Option<u64>) {
        assert_eq!(shipped(provider, name), expect);
    }

    #[test]
    fn a_window_is_that_of_the_very_model() {
        check("openai", "gpt-5", Some(400_000));
        check("openai", "gpt-5-2025-08-07", Some(400_000));
        check("anthropic", "claude-haiku-4-5-20251001", Some(200_000));
        check("google", "gemini-2.5-pro", Some(1_048_576));
        check("openai", "gpt-5-chat-latest", None);
        check("openai", "gpt-5.9", None);
        check("mine", "gpt-5", None);
    }
}
