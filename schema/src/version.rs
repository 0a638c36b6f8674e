//! The protocol's number and its limits, and how two sides find a common version. Constants and one
//! function; who enforces a limit is the host's affair.

use std::error::Error;
use std::fmt;

/// The version that this crate speaks.
pub const PROTOCOL: u32 = 1;

/// The environment variable by which a host says that it speaks; its value is [`PROTOCOL`].
pub const ENV_PROTOCOL: &str = "JP_COMPACT_PROTOCOL";

/// How long `describe` may take.
pub const DESCRIBE_DEADLINE_MS: u64 = 2_000;

/// How long one round of `compact` may take, unless the user says otherwise.
pub const COMPACT_DEADLINE_MS: u64 = 60_000;

/// The whole reply to one request: every line of it, `progress` and `log` too.
pub const RESULT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// One summary's text, in UTF-8.
pub const SUMMARY_BYTES_MAX: u64 = 256 * 1024;

/// The compactions of one reply.
pub const COMPACTIONS_MAX: usize = 1_024;

/// The diagnostics of one reply that the host keeps; the rest are counted.
pub const DIAGNOSTICS_MAX: usize = 1_000;

/// The log lines of one reply that the host keeps; the rest are counted.
pub const LOGS_MAX: usize = 1_000;

/// One text for people (a message, a hint, a reason, a code) in UTF-8; a longer one is cut.
pub const TEXT_BYTES_MAX: usize = 4 * 1024;

/// The `version` of a description, in UTF-8.
pub const VERSION_BYTES_MAX: usize = 128;

/// The `state` of a `needs`, in UTF-8.
pub const STATE_BYTES_MAX: u64 = 64 * 1024;

/// Events up to this size are sent inline, also to a strategy with the feature `events.file`.
pub const EVENTS_INLINE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// How often a strategy may answer one request with `needs`.
pub const NEEDS_ROUNDS_MAX: u32 = 8;

/// How many things a strategy may need for one request, over all rounds: each may cost the user money.
pub const NEEDS_MAX: usize = 256;

/// The exit status of a strategy that no host has started, or that does not know the verb.
pub const EXIT_USAGE: u8 = 64;

/// No version is common to host and strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// Every version of the strategy's is older than the host's: the strategy needs an update.
    StrategyTooOld {
        /// The newest version that the strategy speaks; `None` when it names no version at all.
        newest: Option<u32>,
    },
    /// The strategy no longer speaks a version this old: the host needs an update.
    StrategyTooNew {
        /// The oldest version of the strategy's that is newer than the host's.
        oldest: u32,
    },
}

impl Mismatch {
    /// What the user can do about it.
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
                    "the strategy is too old: it speaks protocol {newest} at most, this host {PROTOCOL}"
                )
            }
            Self::StrategyTooOld { newest: None } => {
                write!(f, "the strategy names no protocol, this host speaks {PROTOCOL}")
            }
            Self::StrategyTooNew { oldest } => {
                write!(
                    f,
                    "the strategy is too new: it speaks protocol {oldest} at least, this host {PROTOCOL}"
                )
            }
        }
    }
}

impl Error for Mismatch {}

/// The version to speak with a strategy that names `protocols`.
///
/// # Errors
///
/// There is no common version; the error says which side is behind.
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
    fn the_common_version_is_chosen() {
        assert_eq!(agree(&[1]), Ok(1));
        assert_eq!(agree(&[0, 1, 2]), Ok(1));
    }

    #[test]
    fn a_strategy_left_behind_is_too_old() {
        assert_eq!(agree(&[0]), Err(Mismatch::StrategyTooOld { newest: Some(0) }));
        assert_eq!(agree(&[]), Err(Mismatch::StrategyTooOld { newest: None }));
    }

    #[test]
    fn a_strategy_ahead_is_too_new_also_when_it_speaks_an_older_one() {
        assert_eq!(agree(&[3, 2]), Err(Mismatch::StrategyTooNew { oldest: 2 }));
        assert_eq!(agree(&[0, 2]), Err(Mismatch::StrategyTooNew { oldest: 2 }));
    }

    #[test]
    fn a_mismatch_names_both_sides_and_a_remedy() {
        let mismatch = Mismatch::StrategyTooNew { oldest: 2 };
        assert_eq!(
            mismatch.to_string(),
            "the strategy is too new: it speaks protocol 2 at least, this host 1"
        );
        assert!(mismatch.hint().starts_with("update jp-compact"));
    }
}
