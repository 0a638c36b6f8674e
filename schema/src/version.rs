//! The protocol's version and limits, and the choice of a common version.
//!
//! This module only defines the limits. The host enforces them.

use std::error::Error;
use std::fmt;

/// The protocol version that this crate implements.
pub const PROTOCOL: u32 = 1;

/// The environment variable that the host sets for a strategy, to [`PROTOCOL`].
pub const ENV_PROTOCOL: &str = "JP_COMPACT_PROTOCOL";

/// The time limit for `describe`.
pub const DESCRIBE_DEADLINE_MS: u64 = 2_000;

/// The default time limit for one round of `compact`.
pub const COMPACT_DEADLINE_MS: u64 = 60_000;

/// The maximum size of the reply to one request, including `progress` and `log`.
pub const RESULT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The maximum size of a summary, in UTF-8.
pub const SUMMARY_BYTES_MAX: u64 = 256 * 1024;

/// The maximum number of compactions in one reply.
pub const COMPACTIONS_MAX: usize = 1_024;

/// The number of diagnostics of one reply that the host keeps. It only counts the others.
pub const DIAGNOSTICS_MAX: usize = 1_000;

/// The number of log lines of one reply that the host keeps. It only counts the others.
pub const LOGS_MAX: usize = 1_000;

/// The maximum size of a message, hint, reason, or code, in UTF-8. The host truncates longer ones.
pub const TEXT_BYTES_MAX: usize = 4 * 1024;

/// The maximum size of the `version` of a description, in UTF-8.
pub const VERSION_BYTES_MAX: usize = 128;

/// The maximum size of the `state` of a `needs`, in UTF-8.
pub const STATE_BYTES_MAX: u64 = 64 * 1024;

/// The maximum size of the `state` of a `needs` with the feature `needs.many`, in UTF-8.
pub const STATE_MANY_BYTES_MAX: u64 = 1024 * 1024;

/// The maximum size of events that are always sent inline. Larger ones are sent in a file to a strategy with the
/// feature `events.file`.
pub const EVENTS_INLINE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The maximum number of `needs` replies to one `compact` request.
pub const NEEDS_ROUNDS_MAX: u32 = 8;

/// The maximum number of entries in `requests`, in all `needs` replies to one `compact` request. Each entry can cost
/// the user money.
pub const NEEDS_MAX: usize = 256;

/// The maximum number of `needs` replies to one `compact` request with the feature `needs.many`. Most requests end
/// earlier, at the user's budget for models.
pub const NEEDS_MANY_ROUNDS_MAX: u32 = 4_096;

/// The exit status of a strategy that was not started by a host, or that does not know the verb.
pub const EXIT_USAGE: u8 = 64;

/// The host and the strategy have no common protocol version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// All versions of the strategy are older than the host's. The strategy needs an update.
    StrategyTooOld {
        /// The newest version of the strategy, or `None` if it lists no version.
        newest: Option<u32>,
    },
    /// The strategy no longer supports the host's version. The host needs an update.
    StrategyTooNew {
        /// The oldest version of the strategy that is newer than the host's.
        oldest: u32,
    },
}

impl Mismatch {
    /// Returns the next step for the user.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::StrategyTooOld { .. } => "update the strategy, or use an older jp-compact",
            Self::StrategyTooNew { .. } => "update jp-compact, or use an older version of the strategy",
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StrategyTooOld { newest: Some(newest) } => {
                write!(
                    f,
                    "the strategy is too old: it supports protocol {newest} at most, this host uses {PROTOCOL}"
                )
            }
            Self::StrategyTooOld { newest: None } => {
                write!(f, "the strategy lists no protocol, this host uses {PROTOCOL}")
            }
            Self::StrategyTooNew { oldest } => {
                write!(
                    f,
                    "the strategy is too new: it supports protocol {oldest} at least, this host uses {PROTOCOL}"
                )
            }
        }
    }
}

impl Error for Mismatch {}

/// Chooses the version for a strategy that lists `protocols`.
///
/// # Errors
///
/// The two sides have no common version. The error names the side that is too old.
pub fn agree(protocols: &[u32]) -> Result<u32, Mismatch> {
    if protocols.contains(&PROTOCOL) {
        return Ok(PROTOCOL);
    }
    match protocols.iter().copied().filter(|&version| version > PROTOCOL).min() {
        Some(oldest) => Err(Mismatch::StrategyTooNew { oldest }),
        None => Err(Mismatch::StrategyTooOld { newest: protocols.iter().copied().max() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_the_common_version() {
        assert_eq!(agree(&[1]), Ok(1));
        assert_eq!(agree(&[0, 1, 2]), Ok(1));
    }

    #[test]
    fn strategy_with_only_older_versions_is_too_old() {
        assert_eq!(agree(&[0]), Err(Mismatch::StrategyTooOld { newest: Some(0) }));
        assert_eq!(agree(&[]), Err(Mismatch::StrategyTooOld { newest: None }));
    }

    #[test]
    fn strategy_with_a_newer_but_no_common_version_is_too_new() {
        assert_eq!(agree(&[3, 2]), Err(Mismatch::StrategyTooNew { oldest: 2 }));
        assert_eq!(agree(&[0, 2]), Err(Mismatch::StrategyTooNew { oldest: 2 }));
    }

    #[test]
    fn mismatch_reports_both_versions_and_a_hint() {
        let mismatch = Mismatch::StrategyTooNew { oldest: 2 };
        assert_eq!(
            mismatch.to_string(),
            "the strategy is too new: it supports protocol 2 at least, this host uses 1"
        );
        assert!(mismatch.hint().starts_with("update jp-compact"));
    }
}
