//! The token counters: an estimate, or a tokenizer.

use clap::ValueEnum;
use jp_compact_core::estimate::Estimator;

use crate::exact_tokens::count_o200k;

/// The value of `--tokens`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum TokenCounter {
    #[default]
    Estimate,
    Exact,
}

impl TokenCounter {
    pub(crate) fn estimator(self) -> Estimator {
        match self {
            Self::Estimate => Estimator::Pieces,
            Self::Exact => Estimator::Exact(count_o200k),
        }
    }
}

/// Returns the word before a number of tokens. It marks an estimate, and is empty for an exact count.
pub(crate) fn estimate_prefix(estimator: Estimator) -> &'static str {
    match estimator {
        Estimator::Pieces => "about ",
        Estimator::Exact(_) => "",
    }
}
