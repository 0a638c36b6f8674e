//! The validated name of a strategy, and the rules for names.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The regular expression that a name matches.
pub const NAME_PATTERN: &str = "^(?!jp-)[a-z][a-z0-9]*(-[a-z0-9]+)*$";

/// The maximum length of a name.
pub const NAME_BYTES_MAX: usize = 64;

/// The name of a strategy: lower-case words joined by single hyphens, 64 bytes at most. It must not begin with `jp-`,
/// because JP runs every executable with that prefix as a subcommand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StrategyName(
    // Invariant: matches NAME_PATTERN, and has at most NAME_BYTES_MAX bytes.
    String,
);

impl StrategyName {
    /// Parses a name.
    ///
    /// # Errors
    ///
    /// The text breaks a rule for names. The error names the rule.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let error = |reason| NameError { name: name.chars().take(NAME_BYTES_MAX).collect(), reason };
        if name.len() > NAME_BYTES_MAX {
            return Err(error("is longer than 64 bytes"));
        }
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(error("does not begin with a lower-case letter"));
        }
        if name.starts_with("jp-") {
            return Err(error("begins with `jp-`, which is reserved for JP"));
        }
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        if !name.split('-').all(is_word) {
            return Err(error("does not consist of lower-case letters and digits joined by single hyphens"));
        }
        Ok(Self(name.to_owned()))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StrategyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for StrategyName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::parse(&name)
    }
}

impl From<StrategyName> for String {
    fn from(name: StrategyName) -> Self {
        name.0
    }
}

/// An invalid name, and the rule that it breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError {
    name: String,
    reason: &'static str,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "strategy name {:?} {}", self.name, self.reason)
    }
}

impl Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn accepts(name: &str) {
        assert_eq!(StrategyName::parse(name).unwrap().as_str(), name);
    }

    #[track_caller]
    fn rejects(name: &str, reason: &str) {
        let error = StrategyName::parse(name).unwrap_err().to_string();
        assert!(error.ends_with(reason), "{error}");
    }

    #[test]
    fn accepts_words_joined_by_hyphens() {
        accepts("a");
        accepts("strip-tools");
        accepts("v2-a1-9");
        accepts("jp");
        accepts("jpeg-drop");
        accepts(&"a".repeat(64));
    }

    #[test]
    fn rejects_other_names() {
        rejects("", "does not begin with a lower-case letter");
        rejects("9a", "does not begin with a lower-case letter");
        rejects("-a", "does not begin with a lower-case letter");
        rejects("A", "does not begin with a lower-case letter");
        rejects("jp-x", "is reserved for JP");
        rejects("a-", "joined by single hyphens");
        rejects("a--b", "joined by single hyphens");
        rejects("a_b", "joined by single hyphens");
        rejects("a/b", "joined by single hyphens");
        rejects("a\n", "joined by single hyphens");
        rejects("\u{e9}", "does not begin with a lower-case letter");
        rejects(&"a".repeat(65), "is longer than 64 bytes");
    }
}
