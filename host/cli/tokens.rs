//! The token counters: an estimate, or a tokenizer.

use clap::ValueEnum;
use jp_compact_core::estimate::Estimator;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::registry::DiscoveryError;

use jp_compact_engine::exact_tokens;
pub(crate) use jp_compact_reports::sent_tokens::estimate_prefix;

/// The value of `--tokens`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum TokenCounter {
    #[default]
    Estimate,
    Exact,
}

impl TokenCounter {
    /// Returns the estimator.
    ///
    /// # Errors
    /// The tokenizer is not installed.
    pub(crate) fn estimator(self, environment: &Environment) -> Result<Estimator, DiscoveryError> {
        match self {
            Self::Estimate => Ok(Estimator::Pieces),
            Self::Exact => {
                exact_tokens::prepare(environment)?;
                Ok(Estimator::Exact(exact_tokens::count_o200k))
            }
        }
    }
}
