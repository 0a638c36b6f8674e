//! The token counters: an estimate, or a tokenizer.

use clap::ValueEnum;
use jp_compact_core::estimate::Estimator;

use crate::exact_tokens::count_o200k;
pub(crate) use jp_compact_reports::sent_tokens::estimate_prefix;

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
