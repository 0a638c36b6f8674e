//! The names that strategies may bear. A checked type, and its grammar.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The grammar of a name, as a regular expression.
pub const NAME_PATTERN: &str = "^(?!jp-)[a-z][a-z0-9]*(-[a-z0-9]+)*$";

/// The longest name.
pub const NAME_BYTES_MAX: usize = 64;

/// The name of a strategy: lower-case words joined by single hyphens, 64 bytes at most, and not in `jp-`,
/// for JP starts every executable of that prefix itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StrategyName(
    // Invariant: matches NAME_PATTERN, NAME_BYTES_MAX at most.
    String,
);

impl StrategyName {
    /// Takes a name, if it is one.
    ///
    /// # Errors
    ///
    /// The text breaks the grammar; the error says how.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let refuse = |reason| NameError { name: name.chars().take(NAME_BYTES_MAX).collect(), reason };
        if name.len() > NAME_BYTES_MAX {
            return Err(refuse("is longer than 64 bytes"));
        }
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(refuse("does not begin with a lower-case letter"));
        }
        if name.starts_with("jp-") {
            return Err(refuse("begins with `jp-`, which is JP's own"));
        }
        let word = |word: &str| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        if !name.split('-').all(word) {
            return Err(refuse("is not lower-case letters and digits joined by single hyphens"));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as text.
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

impl JsonSchema for StrategyName {
    fn schema_name() -> Cow<'static, str> {
        "StrategyName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The name of a strategy: lower-case words joined by single hyphens.",
            "type": "string",
            "pattern": NAME_PATTERN,
            "maxLength": NAME_BYTES_MAX,
        })
    }
}

/// A text that is no name.
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
    fn takes(name: &str) {
        assert_eq!(StrategyName::parse(name).unwrap().as_str(), name);
    }

    #[track_caller]
    fn refuses(name: &str, reason: &str) {
        let error = StrategyName::parse(name).unwrap_err().to_string();
        assert!(error.ends_with(reason), "{error}");
    }

    #[test]
    fn words_joined_by_hyphens_are_names() {
        takes("a");
        takes("strip-tools");
        takes("v2-a1-9");
        takes("jp");
        takes("jpeg-drop");
        takes(&"a".repeat(64));
    }

    #[test]
    fn anything_else_is_none() {
        refuses("", "does not begin with a lower-case letter");
        refuses("9a", "does not begin with a lower-case letter");
        refuses("-a", "does not begin with a lower-case letter");
        refuses("A", "does not begin with a lower-case letter");
        refuses("jp-x", "is JP's own");
        refuses("a-", "joined by single hyphens");
        refuses("a--b", "joined by single hyphens");
        refuses("a_b", "joined by single hyphens");
        refuses("a/b", "joined by single hyphens");
        refuses("a\n", "joined by single hyphens");
        refuses("\u{e9}", "does not begin with a lower-case letter");
        refuses(&"a".repeat(65), "is longer than 64 bytes");
    }
}
