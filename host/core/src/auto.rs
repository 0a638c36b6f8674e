//! The trigger of automatic compaction (RFD D17, "Trigger"; J-CLI's absolute threshold). It counts the tokens of the
//! view, so that compacted events do not trigger a compaction again.

use crate::survey::Survey;

/// The conditions for automatic compaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trigger {
    /// The maximum number of tokens in the view.
    pub threshold: Threshold,
    /// The conversation must have more turns than this.
    pub min_turns: usize,
}

/// The threshold, in one of two forms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// An absolute number, independent of the model.
    Tokens(u64),
    /// A part of the model's context window, 0 to 1. If the window is unknown, compaction is never due.
    Ratio(f64, Option<u64>),
}

impl Threshold {
    /// Returns the number of tokens, if it is known.
    #[must_use]
    pub fn tokens(self) -> Option<u64> {
        match self {
            Self::Tokens(tokens) => Some(tokens),
            // Windows are far below 2^52. Truncation loses less than one token.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a window times a ratio between 0 and 1"
            )]
            Self::Ratio(ratio, window) => Some((window? as f64 * ratio.clamp(0.0, 1.0)) as u64),
        }
    }
}

/// The result of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoVerdict {
    /// The view is larger than allowed.
    Due { view: u64, threshold: u64 },
    /// The view is small enough.
    Small { view: u64, threshold: u64 },
    /// There are too few turns.
    Short {
        turns: usize,
        /// More turns than this are needed.
        min_turns: usize,
    },
    /// The model's context window is unknown.
    UnknownWindow,
}

/// Checks whether compaction is due.
#[must_use]
pub fn verdict(survey: &Survey<'_>, trigger: Trigger) -> AutoVerdict {
    let (turns, min_turns) = (survey.stream.turns(), trigger.min_turns);
    let Some(threshold) = trigger.threshold.tokens() else { return AutoVerdict::UnknownWindow };
    let view = survey.estimate.view_tokens(&survey.view);
    if turns <= min_turns {
        AutoVerdict::Short { turns, min_turns }
    } else if view > threshold {
        AutoVerdict::Due { view, threshold }
    } else {
        AutoVerdict::Small { view, threshold }
    }
}
