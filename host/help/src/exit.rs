//! The exit codes. `--help` prints this table, and a test compares it with the README.

use jp_compact_schema::document::ErrorKind;

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// success; also nothing to do, and a dry run
    Done = 0,
    /// a bug in jp-compact
    Bug = 1,
    /// invalid usage or options
    Usage = 2,
    /// a gate was not met
    Gate = 3,
    /// the transcript cannot be read or written, or is invalid
    Transcript = 4,
    /// store conflict: locked, changed during the run, or two copies differ
    Conflict = 5,
    /// strategy not found, or ambiguous
    NotFound = 10,
    /// strategy not trusted or not confined, grant missing, or model or network not allowed
    NotTrusted = 11,
    /// manifest or description invalid
    BadDescription = 12,
    /// strategy crashed, was killed, or could not start
    Crashed = 13,
    /// strategy missed its deadline
    Deadline = 14,
    /// strategy violated the protocol
    Violation = 15,
    /// strategy reported an error
    Reported = 16,
    /// reply of the strategy rejected
    Refused = 17,
    /// model unavailable, request rejected by its provider, or budget exhausted
    Model = 18,
    /// some of several transcripts failed
    SomeFailed = 19,
    /// strategy's protocol is too old
    TooOld = 20,
    /// strategy's protocol is too new
    TooNew = 21,
    /// interrupted
    Interrupted = 130,
}

impl Exit {
    /// Every code, in order, with its description.
    pub const ALL: [(Self, &'static str); 19] = [
        (Self::Done, "success; also nothing to do, and a dry run"),
        (Self::Bug, "a bug in jp-compact"),
        (Self::Usage, "invalid usage or options"),
        (Self::Gate, "a gate was not met"),
        (Self::Transcript, "the transcript cannot be read or written, or is invalid"),
        (Self::Conflict, "store conflict: locked, changed during the run, or two copies differ"),
        (Self::NotFound, "strategy not found, or ambiguous"),
        (
            Self::NotTrusted,
            "strategy not trusted or not confined, grant missing, or model or network not allowed",
        ),
        (Self::BadDescription, "manifest or description invalid"),
        (Self::Crashed, "strategy crashed, was killed, or could not start"),
        (Self::Deadline, "strategy missed its deadline"),
        (Self::Violation, "strategy violated the protocol"),
        (Self::Reported, "strategy reported an error"),
        (Self::Refused, "reply of the strategy rejected"),
        (Self::Model, "model unavailable, request rejected by its provider, or budget exhausted"),
        (Self::SomeFailed, "some of several transcripts failed"),
        (Self::TooOld, "strategy's protocol is too old"),
        (Self::TooNew, "strategy's protocol is too new"),
        (Self::Interrupted, "interrupted"),
    ];

    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the kind of failure in a JSON document. A document about a success would be a bug.
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::Done | Self::Bug => ErrorKind::Bug,
            Self::Usage => ErrorKind::Usage,
            Self::Gate => ErrorKind::GateNotMet,
            Self::Transcript => ErrorKind::TranscriptInvalid,
            Self::Conflict => ErrorKind::Conflict,
            Self::NotFound => ErrorKind::StrategyNotFound,
            Self::NotTrusted => ErrorKind::StrategyNotTrusted,
            Self::BadDescription => ErrorKind::StrategyInvalid,
            Self::Crashed => ErrorKind::StrategyCrashed,
            Self::Deadline => ErrorKind::Deadline,
            Self::Violation => ErrorKind::ProtocolViolation,
            Self::Reported => ErrorKind::StrategyError,
            Self::Refused => ErrorKind::Refused,
            Self::Model => ErrorKind::ModelUnavailable,
            Self::SomeFailed => ErrorKind::SomeFailed,
            Self::TooOld => ErrorKind::ProtocolTooOld,
            Self::TooNew => ErrorKind::ProtocolTooNew,
            Self::Interrupted => ErrorKind::Interrupted,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Returns the table of codes at the end of `--help`.
pub fn table() -> String {
    let rows = Exit::ALL.iter().map(|(exit, description)| format!("  {:>3}  {description}", exit.code()));
    rows.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_of_each_failure_has_its_code() {
        for (exit, _) in Exit::ALL.into_iter().filter(|(exit, _)| *exit != Exit::Done) {
            assert_eq!(exit.kind().code(), exit.code(), "{exit:?}");
        }
        let codes = Exit::ALL.map(|(exit, _)| exit.code());
        assert!(ErrorKind::ALL.iter().all(|kind| codes.contains(&kind.code())));
    }
}
