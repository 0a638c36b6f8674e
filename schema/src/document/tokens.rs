//! The sizes of a conversation: in the raw events, in the view before and after a command, and as JP sends it.

use serde::{Deserialize, Serialize};

/// The size of a conversation, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct TokenCounts {
    /// In the raw events.
    pub raw: u64,
    /// In the view before the command.
    pub view_before: u64,
    /// In the view after the command. For a command that only reads, the number is the same as in `view_before`.
    pub view_after: u64,
    /// JP's own numbers, for conversations of JP. JP applies only the overlays that its own format can express. Null
    /// for other formats, and if the result is not written to the conversation.
    pub jp: Option<JpTokens>,
}

/// The tokens that JP itself sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct JpTokens {
    /// In the raw events of JP's conversations.
    pub raw: u64,
    /// In the view that JP sent before the command.
    pub view_before: u64,
    /// In the view that JP sends after the command.
    pub view_after: u64,
}

/// The tokens of a view, or of a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct ViewTokens {
    /// Before the change.
    pub view_before: u64,
    /// After the change.
    pub view_after: u64,
}

/// The saving of a view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Saved {
    /// In tokens. Negative if the view is larger.
    pub tokens: i64,
    /// In percent of the number that `of` names.
    pub percent: f64,
    /// The number that the view is compared with.
    pub of: SavedOf,
}

/// The number that a view is compared with, as a key of `tokens`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SavedOf {
    /// The raw events: the effect of all overlays.
    Raw,
    /// The view before the command: the effect of this command.
    #[default]
    ViewBefore,
}

impl Saved {
    /// Compares two numbers of tokens.
    #[must_use]
    pub fn new(of: SavedOf, before: u64, after: u64) -> Self {
        let tokens = i64::try_from(i128::from(before) - i128::from(after)).unwrap_or(i64::MAX);
        let saved_share = if before == 0 { 0.0 } else { 1.0 - after as f64 / before as f64 };
        // Without the addition, an unchanged view would save -0.
        Self { tokens, percent: (saved_share * 1000.0).round() / 10.0 + 0.0, of }
    }
}

impl TokenCounts {
    /// Returns the effect of all overlays.
    #[must_use]
    pub fn saved_of_raw(&self) -> Saved {
        Saved::new(SavedOf::Raw, self.raw, self.view_after)
    }

    /// Returns the effect of the command.
    #[must_use]
    pub fn saved_of_view(&self) -> Saved {
        Saved::new(SavedOf::ViewBefore, self.view_before, self.view_after)
    }
}

/// The size of one kind of content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Sizes {
    /// In tokens.
    pub tokens: RawAndView,
    /// In bytes of decoded text.
    pub bytes: RawAndView,
}

/// The size in the raw events and in the view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct RawAndView {
    /// In the raw events.
    pub raw: u64,
    /// In the view after the command.
    pub view_after: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_compares_in_both_directions() {
        for (before, after, tokens, percent) in
            [(100, 60, 40, 40.0), (100, 150, -50, -50.0), (0, 0, 0, 0.0), (0, 9, -9, 0.0), (3, 2, 1, 33.3)]
        {
            let saved = Saved::new(SavedOf::Raw, before, after);
            assert_eq!((saved.tokens, saved.percent), (tokens, percent), "{before} {after}");
        }
        assert!(Saved::new(SavedOf::Raw, 5, 5).percent.is_sign_positive());
    }
}
