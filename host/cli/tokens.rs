//! The token counters: an estimate, or a tokenizer. Only this executable contains the tables of the tokenizer.

use clap::ValueEnum;
use jp_compact_core::estimate::Estimator;

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
            Self::Exact => Estimator::Exact(|text| bpe_openai::o200k_base().count(text) as u64),
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
