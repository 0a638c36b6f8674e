//! When a conversation is due for compaction without being asked (RFD D17, "Trigger"; J-CLI's absolute
//! threshold). The estimate is of the view: what was compacted already does not count twice.

use crate::survey::Survey;

/// When compaction is due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trigger {
    /// Above how many tokens of the view.
    pub threshold: Threshold,
    /// A conversation has to have more turns than so many.
    pub min_turns: usize,
}

/// How many tokens are too many.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// So many, whatever the model.
    Tokens(u64),
    /// This part of the model's context window, 0 to 1; without a window nothing is ever due.
    Ratio(f64, Option<u64>),
}

impl Threshold {
    /// In tokens, where that can be told.
    #[must_use]
    pub fn tokens(self) -> Option<u64> {
        match self {
            Self::Tokens(tokens) => Some(tokens),
            // Windows are far below 2^52; what is cut off is less than a token.
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

/// Whether compaction is due, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The view is larger than allowed.
    Due {
        /// Its tokens.
        view: u64,
        /// How many are allowed.
        threshold: u64,
    },
    /// The view is small enough.
    Small {
        /// Its tokens.
        view: u64,
        /// How many are allowed.
        threshold: u64,
    },
    /// There are too few turns.
    Short {
        /// How many there are.
        turns: usize,
        /// How many it takes more than.
        min_turns: usize,
    },
    /// Nobody knows how many tokens the model takes.
    UnknownWindow,
}

/// Whether a conversation is due.
#[must_use]
pub fn verdict(survey: &Survey<'_>, trigger: Trigger) -> Verdict {
    let (turns, min_turns) = (survey.stream.turns(), trigger.min_turns);
    let Some(threshold) = trigger.threshold.tokens() else { return Verdict::UnknownWindow };
    let view = survey.estimate.view_tokens(&survey.view);
    if turns <= min_turns {
        Verdict::Short { turns, min_turns }
    } else if view > threshold {
        Verdict::Due { view, threshold }
    } else {
        Verdict::Small { view, threshold }
    }
}
