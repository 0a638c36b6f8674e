//! Model names. Some providers use the name in the path of a request, and the name may come from a transcript or a
//! repository. A text that could change the address must be rejected.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longer than the names of all providers.
const BYTES_MAX: usize = 256;

/// A model as `provider/name`. Only the first slash separates the parts, because a name may contain more.
///
/// Invariant: see `is_provider` and `is_name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModelName {
    provider: String,
    name: String,
}

/// The text is not a model name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoModelName(String);

impl ModelName {
    /// Returns the provider, as in `[llm.providers.NAME]`.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Returns the name that the provider uses.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Accepts ASCII letters, digits, `-`, `_`, and `.`. The first character must be a letter or digit.
fn is_provider(text: &str) -> bool {
    !text.starts_with(['-', '_', '.']) && is_segment(text, b"-_.")
}

/// Accepts segments of ASCII letters, digits, and `-_.:@+`, joined by `/`. Rejects `..` and every character
/// with a meaning in a URL (`?`, `#`, `%`, `\`, spaces, controls).
fn is_name(text: &str) -> bool {
    !text.contains("..") && text.split('/').all(|segment| segment != "." && is_segment(segment, b"-_.:@+"))
}

fn is_segment(text: &str, punctuation: &[u8]) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || punctuation.contains(&byte))
}

impl FromStr for ModelName {
    type Err = NoModelName;

    fn from_str(text: &str) -> Result<Self, NoModelName> {
        match text.split_once('/') {
            Some((provider, name)) if text.len() <= BYTES_MAX && is_provider(provider) && is_name(name) => {
                Ok(Self { provider: provider.to_owned(), name: name.to_owned() })
            }
            _ => Err(NoModelName(text.chars().take(BYTES_MAX).collect())),
        }
    }
}

impl TryFrom<String> for ModelName {
    type Error = NoModelName;

    fn try_from(text: String) -> Result<Self, NoModelName> {
        text.parse()
    }
}

impl From<ModelName> for String {
    fn from(model: ModelName) -> Self {
        model.to_string()
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.name)
    }
}

impl fmt::Display for NoModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected a model as `provider/name`, such as `anthropic/claude-haiku-4-5`, not `{}`",
            self.0
        )
    }
}

impl std::error::Error for NoModelName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<(&str, &str)>) {
        let parsed = text.parse::<ModelName>().ok();
        assert_eq!(parsed.as_ref().map(|model| (model.provider(), model.name())), expect);
        assert_eq!(parsed.map(|model| model.to_string()), expect.map(|_| text.to_owned()));
    }

    #[test]
    fn splits_provider_and_name() {
        check("anthropic/claude-haiku-4-5", Some(("anthropic", "claude-haiku-4-5")));
        check("openrouter/qwen/qwen3:8b", Some(("openrouter", "qwen/qwen3:8b")));
        check("cloudflare/@cf/meta/llama-3.1", Some(("cloudflare", "@cf/meta/llama-3.1")));
        check("openai/ft:gpt-4o:acme::x1", Some(("openai", "ft:gpt-4o:acme::x1")));
        for text in ["gpt-5", "/gpt-5", "openai/", "", "open ai/gpt-5", "openai/gpt\n5"] {
            check(text, None);
        }
    }

    #[test]
    fn rejects_names_that_an_address_would_read_differently() {
        for name in [
            "../../../evil",
            "a/../b",
            "..",
            ".",
            "a/./b",
            "a//b",
            "a/",
            "/a",
            "a..b",
            "a?x=1",
            "a#b",
            "a%2e",
        ] {
            check(&format!("gemini/{name}"), None);
        }
        for name in
            ["a\\b", "a b", "a\tb", "a\0b", "a\u{7f}", "a\u{202e}b", "a\u{2215}b", "a;b", "a&b", "\"a"]
        {
            check(&format!("gemini/{name}"), None);
        }
        for provider in ["..", "a:b", "a?", "a@b", "https:"] {
            check(&format!("{provider}/gpt-5"), None);
        }
        check(&format!("openai/{}", "g".repeat(BYTES_MAX)), None);
    }
}
