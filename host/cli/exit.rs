//! What the process exits with. One enum, one line of doc each: `--help` and the README's table are made from
//! and held to it.

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// done; also nothing to do, and a dry run
    Done = 0,
    /// a bug in jp-compact
    Bug = 1,
    /// wrong usage or options
    Usage = 2,
    /// a gate asked for on the command line was not met
    Gate = 3,
    /// the transcript cannot be read or written, or is invalid
    Transcript = 4,
    /// store conflict: locked, changed underneath, or two copies that disagree
    Conflict = 5,
    /// strategy not found, or ambiguous
    NotFound = 10,
    /// strategy not trusted or not confined, a grant is missing, or a model may not be asked
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
    /// strategy's payload was refused
    Refused = 17,
    /// model unavailable, refused, or over budget
    Model = 18,
    /// several transcripts: some failed
    SomeFailed = 19,
    /// strategy's protocol is too old
    TooOld = 20,
    /// strategy's protocol is too new
    TooNew = 21,
    /// interrupted
    Interrupted = 130,
}

impl Exit {
    /// Every code, in order, with its line.
    pub(crate) const ALL: [(Self, &'static str); 19] = [
        (Self::Done, "done; also nothing to do, and a dry run"),
        (Self::Bug, "a bug in jp-compact"),
        (Self::Usage, "wrong usage or options"),
        (Self::Gate, "a gate asked for on the command line was not met"),
        (Self::Transcript, "the transcript cannot be read or written, or is invalid"),
        (Self::Conflict, "store conflict: locked, changed underneath, or two copies that disagree"),
        (Self::NotFound, "strategy not found, or ambiguous"),
        (
            Self::NotTrusted,
            "strategy not trusted or not confined, a grant is missing, or a model may not be asked",
        ),
        (Self::BadDescription, "manifest or description invalid"),
        (Self::Crashed, "strategy crashed, was killed, or could not start"),
        (Self::Deadline, "strategy missed its deadline"),
        (Self::Violation, "strategy violated the protocol"),
        (Self::Reported, "strategy reported an error"),
        (Self::Refused, "strategy's payload was refused"),
        (Self::Model, "model unavailable, refused, or over budget"),
        (Self::SomeFailed, "several transcripts: some failed"),
        (Self::TooOld, "strategy's protocol is too old"),
        (Self::TooNew, "strategy's protocol is too new"),
        (Self::Interrupted, "interrupted"),
    ];

    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The table of codes, as `--help` ends with it.
pub(crate) fn table() -> String {
    let rows = Exit::ALL.iter().map(|(exit, what)| format!("  {:>3}  {what}", exit.code()));
    rows.collect::<Vec<_>>().join("\n")
}
