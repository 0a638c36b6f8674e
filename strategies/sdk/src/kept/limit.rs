//! The maximum size of a section.

use jp_compact_schema::version::SUMMARY_BYTES_MAX;

/// The section takes at most the limit of a summary divided by this.
const LIMIT_DIVISOR: u64 = 10;

/// The maximum size of a section, in bytes of prose. A name counts twice, because it has more tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionLimit {
    /// The limit of the whole section.
    pub bytes: usize,
    /// The limit of the facts that are not constraints.
    pub other_bytes: usize,
}

impl SectionLimit {
    /// Returns a tenth of the limit of a summary in tokens, with four bytes for each token.
    #[must_use]
    pub fn of_tokens(summary_tokens: u64) -> Self {
        let bytes = usize::try_from(summary_tokens / LIMIT_DIVISOR).unwrap_or(usize::MAX).saturating_mul(4);
        Self { bytes, other_bytes: bytes }
    }

    /// Returns a tenth of the greatest summary that a host accepts. The facts that are not constraints have this limit.
    #[must_use]
    pub fn of_greatest_summary(other_bytes: usize) -> Self {
        let bytes = usize::try_from(SUMMARY_BYTES_MAX / LIMIT_DIVISOR).unwrap_or(usize::MAX);
        Self { bytes, other_bytes }
    }

    /// Returns the tokens that a summary of at most `summary_tokens` reserves for its section.
    #[must_use]
    pub const fn reserved_tokens(summary_tokens: u64) -> u64 {
        summary_tokens / LIMIT_DIVISOR
    }
}
