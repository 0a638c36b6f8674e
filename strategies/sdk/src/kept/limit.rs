//! The maximum size of the section with kept facts, which is appended to a summary.

use jp_compact_schema::version::SUMMARY_BYTES_MAX;

/// The limit of a summary divided by the limit of its section.
const LIMIT_DIVISOR: u64 = 10;

/// The maximum size of a section, in bytes. The bytes of a name count twice, because names have more tokens per byte
/// than prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionLimit {
    /// The limit of the whole section.
    pub bytes: usize,
    /// The limit of the facts that are not constraints.
    pub other_bytes: usize,
}

impl SectionLimit {
    /// Returns a tenth of a summary's limit. Four bytes count as one token.
    #[must_use]
    pub fn of_tokens(summary_tokens: u64) -> Self {
        let bytes = usize::try_from(summary_tokens / LIMIT_DIVISOR).unwrap_or(usize::MAX).saturating_mul(4);
        Self { bytes, other_bytes: bytes }
    }

    /// Returns a tenth of the largest summary that a host accepts. Facts that are not constraints take at most
    /// `other_bytes`.
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
