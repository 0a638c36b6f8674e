//! The expected ends of most modes of the hostile strategy: exit code and message. Other modes have tests of their own.
//! hostile.c implements the modes under the same names, except for `no-such-mode` and the executables that cannot be
//! started.

/// The end of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExpectedEnd {
    /// Its overlay is appended.
    Success,
    /// An error with this exit code and message. No byte of the transcript is changed.
    Failure(i32, &'static str),
}

/// The confinement of a strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    /// `--sandbox=contained`.
    Contained,
    /// `--sandbox=require` without permissions.
    Jailed,
    /// `--sandbox=require` with the permission `subprocess`.
    Granted,
}

/// The expected ends of one mode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) mode: &'static str,
    contained: ExpectedEnd,
    jailed: ExpectedEnd,
    granted: Option<ExpectedEnd>,
    /// The end for each of two conversations that a worker compacts. `None` if a worker cannot behave like this.
    worker: Option<ExpectedEnd>,
    /// The deadline in seconds.
    pub(crate) deadline: u64,
}

impl Row {
    pub(crate) fn end(&self, tier: Tier) -> Option<ExpectedEnd> {
        match tier {
            Tier::Contained => Some(self.contained),
            Tier::Jailed => Some(self.jailed),
            Tier::Granted => self.granted,
        }
    }

    pub(crate) fn worker(&self, tier: Tier) -> Option<ExpectedEnd> {
        // A worker that may not start processes fails like any other process.
        let denied = matches!(self.jailed, ExpectedEnd::Failure(13, "fork")) && tier == Tier::Jailed;
        self.worker.and_then(|worker| if denied { Some(self.jailed) } else { self.end(tier).map(|_| worker) })
    }

    const fn with_worker_end(self, end: ExpectedEnd) -> Self {
        Self { worker: Some(end), ..self }
    }

    const fn without_worker(self) -> Self {
        Self { worker: None, ..self }
    }
}

/// The deadline for modes that never end.
const SHORT: u64 = 2;
/// The deadline for modes that end by themselves, even on a busy machine.
const LONG: u64 = 30;

const fn fails(mode: &'static str, code: i32, message: &'static str) -> Row {
    let end = ExpectedEnd::Failure(code, message);
    let deadline = if code == 14 { SHORT } else { LONG };
    Row { mode, contained: end, jailed: end, granted: None, worker: Some(end), deadline }
}

const fn succeeds(mode: &'static str) -> Row {
    Row {
        mode,
        contained: ExpectedEnd::Success,
        jailed: ExpectedEnd::Success,
        granted: None,
        worker: Some(ExpectedEnd::Success),
        deadline: LONG,
    }
}

/// Returns the row of a mode that starts processes. In the jail it fails unless `subprocess` is granted.
const fn forks(mode: &'static str, contained: ExpectedEnd, granted: ExpectedEnd) -> Row {
    let jailed = ExpectedEnd::Failure(13, "fork");
    Row { mode, contained, jailed, granted: Some(granted), worker: None, deadline: LONG }
}

const HOLDS_PIPES: ExpectedEnd = ExpectedEnd::Failure(15, "a process it started kept its output open");
const OUTPUT_AFTER_ANSWER: &str = "it sent another line after its terminal reply";
const NO_MESSAGE: &str = "is not a valid message";
const TOO_MUCH_OUTPUT: &str = "it wrote more than 8388608 bytes to stdout";
const TIMED_OUT: &str = "it did not end within 2s";

/// One row per mode.
pub(crate) const TABLE: [Row; 54] = [
    succeeds("answers"),
    // Modes that do not end.
    fails("hangs", 14, TIMED_OUT),
    fails("ignores-sigterm", 14, TIMED_OUT),
    fails("reads-no-further", 14, TIMED_OUT),
    fails("half-a-json-and-hangs", 14, TIMED_OUT),
    fails("floods-stderr-for-ever", 14, TIMED_OUT),
    fails("hangs-in-describe", 14, TIMED_OUT).without_worker(),
    // Modes that start processes. The host accepts the last answer of a worker before it can see the remaining
    // processes.
    forks("forks-2000", HOLDS_PIPES, HOLDS_PIPES).with_worker_end(ExpectedEnd::Success),
    forks("leaves-a-grandchild-on-the-pipes", HOLDS_PIPES, HOLDS_PIPES).with_worker_end(ExpectedEnd::Success),
    forks("escapes-with-setsid", ExpectedEnd::Success, ExpectedEnd::Success)
        .with_worker_end(ExpectedEnd::Success),
    forks("escapes-with-setsid-and-the-pipes", HOLDS_PIPES, HOLDS_PIPES)
        .with_worker_end(ExpectedEnd::Success),
    // Modes that use too many resources.
    fails("takes-all-memory", 13, "it ended with signal 6 without an answer"),
    fails("nests-folders", 15, "it put folders nested more than 64 levels deep into its private directory"),
    fails("makes-many-files", 15, "it put more than 16384 files and folders into its private directory"),
    fails("floods-stdout", 15, TOO_MUCH_OUTPUT),
    fails("floods-in-describe", 15, TOO_MUCH_OUTPUT).without_worker(),
    succeeds("floods-stderr"),
    // Modes with an unusual order of reading and writing.
    succeeds("never-reads").without_worker(),
    succeeds("answers-before-reading").without_worker(),
    succeeds("answers-before-the-events"),
    succeeds("closes-stdin-early"),
    succeeds("drips"),
    succeeds("no-newline-at-the-end"),
    // Modes that fail.
    fails("exit-1", 13, "last words"),
    fails("writes-nothing", 15, "without a result, decline, needs or error"),
    fails("a-result-then-exit-1", 13, "it answered, but then ended with exit code 1")
        .with_worker_end(ExpectedEnd::Success),
    fails("a-result-then-a-signal", 13, "it answered, but then ended with signal 9")
        .with_worker_end(ExpectedEnd::Success),
    fails("reports-an-error", 16, "not like this (mine)"),
    // Modes that write invalid replies.
    fails("half-a-json", 15, NO_MESSAGE),
    fails("two-results", 15, OUTPUT_AFTER_ANSWER),
    fails("a-log-line-first", 15, NO_MESSAGE),
    fails("a-wrong-id", 15, "it replied to request `c999`, but the request is `c"),
    fails("invalid-utf-8", 15, "is not UTF-8 at byte"),
    fails("a-bom", 15, NO_MESSAGE),
    fails("nul", 15, NO_MESSAGE),
    fails("deep-nesting", 15, NO_MESSAGE),
    fails("deep-nesting-unclosed", 15, NO_MESSAGE),
    fails("a-huge-number", 15, NO_MESSAGE),
    fails("a-number-beyond-64-bits", 15, NO_MESSAGE),
    fails("duplicate-keys", 15, NO_MESSAGE),
    fails("a-timestamp-of-its-own", 15, "unknown field `timestamp`"),
    fails("a-summary-of-10-mb", 15, TOO_MUCH_OUTPUT),
    // Modes that propose invalid compactions.
    fails("a-range-inverted", 17, "the turn range ends at 0, before its start 1"),
    fails("a-range-out-of-bounds", 17, "turns 0-2"),
    fails("the-greatest-range", 17, "turns 0-1844"),
    fails("beyond-its-kinds", 17, "reasoning"),
    fails("an-empty-summary", 17, "blank"),
    fails("nul-in-a-summary", 17, "NUL"),
    fails("a-summary-of-1-mb", 17, "1048576 bytes"),
    // Executables that cannot be started.
    fails("without-a-shebang", 13, "Exec format error").without_worker(),
    fails("of-another-architecture", 13, "Exec format error").without_worker(),
    fails("without-its-interpreter", 13, "No such file or directory").without_worker(),
    fails("without-the-run-bit", 10, "is not executable").without_worker(),
    // A mode that hostile.c does not have.
    fails("no-such-mode", 13, "no mode `no-such-mode`"),
];
