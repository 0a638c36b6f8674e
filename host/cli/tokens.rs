//! How tokens are counted: by an estimate, or by a tokenizer whose tables only this executable carries.

use clap::ValueEnum;
use jp_compact_core::estimate::Estimator;

/// What `--tokens` says.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum Tokens {
    #[default]
    Estimate,
    Exact,
}

impl Tokens {
    /// How tokens are counted.
    pub(crate) fn estimator(self) -> Estimator {
        match self {
            Self::Estimate => Estimator::Characters,
            Self::Exact => Estimator::Exact(|text| bpe_openai::o200k_base().count(text) as u64),
        }
    }
}

/// A number of tokens as people read it: an estimate says that it is one.
pub(crate) fn about(estimator: Estimator) -> &'static str {
    match estimator {
        Estimator::Characters => "about ",
        Estimator::Exact(_) => "",
    }
}
