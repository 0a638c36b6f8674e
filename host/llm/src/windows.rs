//! The built-in table of context windows, and the families of models. Settings override both. A family is used for a
//! model that is not in the table, for example a newer one. It has the smallest window of its members, because a window
//! that is too large would make a request fail.
//!
//! As of November 2026. Sources: <https://platform.claude.com/docs/en/about-claude/models/overview>,
//! <https://ai.google.dev/gemini-api/docs/models>, <https://platform.openai.com/docs/models>. The windows do not
//! include optional extensions. Models for images, speech, and live sessions are not listed.

/// Provider, model name, and context window in tokens.
const WINDOWS: [(&str, &str, u64); 27] = [
    ("anthropic", "claude-haiku-4-5", 200_000),
    ("anthropic", "claude-opus-4", 200_000),
    ("anthropic", "claude-opus-4-1", 200_000),
    ("anthropic", "claude-opus-4-5", 200_000),
    ("anthropic", "claude-sonnet-4", 200_000),
    ("anthropic", "claude-sonnet-4-5", 200_000),
    ("gemini", "gemini-2.0-flash", 1_048_576),
    ("gemini", "gemini-2.5-flash", 1_048_576),
    ("gemini", "gemini-2.5-flash-lite", 1_048_576),
    ("gemini", "gemini-2.5-pro", 1_048_576),
    ("openai", "gpt-3.5-turbo", 16_385),
    ("openai", "gpt-4", 8_192),
    ("openai", "gpt-4-turbo", 128_000),
    ("openai", "gpt-4.1", 1_047_576),
    ("openai", "gpt-4.1-mini", 1_047_576),
    ("openai", "gpt-4.1-nano", 1_047_576),
    ("openai", "gpt-4o", 128_000),
    ("openai", "gpt-4o-mini", 128_000),
    ("openai", "gpt-5", 400_000),
    ("openai", "gpt-5-mini", 400_000),
    ("openai", "gpt-5-nano", 400_000),
    ("openai", "gpt-5.1", 400_000),
    ("openai", "o1", 200_000),
    ("openai", "o1-mini", 128_000),
    ("openai", "o3", 200_000),
    ("openai", "o3-mini", 200_000),
    ("openai", "o4-mini", 200_000),
];

/// The families, by the start of their models' names. A more specific family comes first, so that the small windows of
/// old models do not apply to newer ones.
const FAMILIES: [&str; 6] = ["claude-", "gemini-", "gpt-3.5-", "gpt-4-", "gpt-", "o"];

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

/// Returns the smallest window in the family of a model. The provider does not matter, because many providers offer the
/// models of others. In a name such as `anthropic/claude-opus-4-5`, only the last segment counts.
pub(super) fn smallest_of_family(name: &str) -> Option<u64> {
    let name = name.rsplit('/').next()?;
    // Amazon's names, such as `us.anthropic.claude-opus-4-5-v1:0`.
    let family = family(name.rsplit_once("anthropic.").map_or(name, |(_, name)| name))?;
    let members = WINDOWS.iter().filter(|(_, known, _)| self::family(known) == Some(family));
    members.map(|(_, _, tokens)| *tokens).min()
}

/// Returns the family of a model.
fn family(name: &str) -> Option<&'static str> {
    // The name of a family without its dash is the name of a model, such as `gpt-4`.
    let is_member = |family: &&&str| name.starts_with(**family) || name == family.trim_end_matches('-');
    let family = FAMILIES.iter().find(is_member)?;
    let is_other = *family == "o" && !name[1..].starts_with(|next: char| next.is_ascii_digit());
    (!is_other).then_some(family)
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

    #[test]
    fn unlisted_model_gets_the_smallest_window_of_its_family() {
        for (name, expect) in [
            ("claude-opus-9", Some(200_000)),
            ("anthropic/claude-opus-9", Some(200_000)),
            ("us.anthropic.claude-opus-9-v1:0", Some(200_000)),
            ("gemini-9-pro", Some(1_048_576)),
            ("gpt-9", Some(128_000)),
            ("gpt-4.9", Some(128_000)),
            ("gpt-4o-audio", Some(128_000)),
            ("gpt-4-0613", Some(8_192)),
            ("gpt-3.5-turbo-16k", Some(16_385)),
            ("o9-pro", Some(128_000)),
            ("o", None),
            ("orca-mini", None),
            ("claude", Some(200_000)),
            ("llama3.2:3b", None),
            ("", None),
        ] {
            assert_eq!(smallest_of_family(name), expect, "{name}");
        }
    }

    #[test]
    fn each_listed_model_is_in_a_family() {
        for (_, name, tokens) in WINDOWS {
            assert!(smallest_of_family(name).is_some_and(|smallest| smallest <= tokens), "{name}");
        }
        for family in FAMILIES {
            assert!(WINDOWS.iter().any(|(_, name, _)| super::family(name) == Some(family)), "{family}");
        }
    }
}
