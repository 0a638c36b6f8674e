//! What has to come of every behaviour that a strategy may have: its exit code, and what is said of it. The
//! behaviours themselves are in hostile.c, under the same names.

/// The end of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// Its overlay is appended.
    Good,
    /// An error with this code, which says this; no byte is changed.
    Bad(i32, &'static str),
}

/// How a strategy is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    /// `--sandbox=contained`.
    Contained,
    /// In the jail, with nothing granted.
    Jailed,
    /// In the jail, with `subprocess` granted.
    Granted,
}

/// What comes of one behaviour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) mode: &'static str,
    contained: End,
    jailed: End,
    granted: Option<End>,
    /// Of each of two conversations, where that is another end for a process that serves many; none where such a
    /// process cannot behave so.
    worker: Option<End>,
    /// In seconds.
    pub(crate) deadline: u64,
}

impl Row {
    pub(crate) fn end(&self, tier: Tier) -> Option<End> {
        match tier {
            Tier::Contained => Some(self.contained),
            Tier::Jailed => Some(self.jailed),
            Tier::Granted => self.granted,
        }
    }

    pub(crate) fn worker(&self, tier: Tier) -> Option<End> {
        // One that may start nothing fails like any other process.
        let denied = matches!(self.jailed, End::Bad(13, "fork")) && tier == Tier::Jailed;
        self.worker.and_then(|worker| if denied { Some(self.jailed) } else { self.end(tier).map(|_| worker) })
    }

    const fn worker_ends(self, end: End) -> Self {
        Self { worker: Some(end), ..self }
    }

    const fn never_a_worker(self) -> Self {
        Self { worker: None, ..self }
    }
}

/// For what would go on for ever.
const SHORT: u64 = 2;
/// For what ends by itself, be the machine as busy as it likes.
const LONG: u64 = 30;

const fn bad(mode: &'static str, code: i32, says: &'static str) -> Row {
    let end = End::Bad(code, says);
    let deadline = if code == 14 { SHORT } else { LONG };
    Row { mode, contained: end, jailed: end, granted: None, worker: Some(end), deadline }
}

const fn good(mode: &'static str) -> Row {
    Row {
        mode,
        contained: End::Good,
        jailed: End::Good,
        granted: None,
        worker: Some(End::Good),
        deadline: LONG,
    }
}

/// One that starts processes. In the jail it gets nowhere unless that was granted.
const fn forking(mode: &'static str, contained: End, granted: End) -> Row {
    let jailed = End::Bad(13, "fork");
    Row { mode, contained, jailed, granted: Some(granted), worker: None, deadline: LONG }
}

const ON_THE_PIPES: End = End::Bad(15, "a process it started kept its output open");
const TWICE: &str = "it went on after its answer";
const NO_MESSAGE: &str = "is no message";
const CAPPED: &str = "it wrote more than 8388608 bytes to stdout";
const LATE: &str = "it did not end within 2s";

/// One behaviour a row.
pub(crate) const TABLE: [Row; 54] = [
    good("answers"),
    // That do not end.
    bad("hangs", 14, LATE),
    bad("ignores-sigterm", 14, LATE),
    bad("reads-no-further", 14, LATE),
    bad("half-a-json-and-hangs", 14, LATE),
    bad("floods-stderr-for-ever", 14, LATE),
    bad("hangs-in-describe", 14, LATE).never_a_worker(),
    // That start others. A worker's last answer was taken before it could be seen what it leaves.
    forking("forks-2000", ON_THE_PIPES, ON_THE_PIPES).worker_ends(End::Good),
    forking("leaves-a-grandchild-on-the-pipes", ON_THE_PIPES, ON_THE_PIPES).worker_ends(End::Good),
    forking("escapes-with-setsid", End::Good, End::Good).worker_ends(End::Good),
    forking("escapes-with-setsid-and-the-pipes", ON_THE_PIPES, ON_THE_PIPES).worker_ends(End::Good),
    // That take more than there is.
    bad("takes-all-memory", 13, "it ended with signal 6 and no answer"),
    bad("nests-folders", 15, "it put folders nested more than 64 deep into its private directory"),
    bad("makes-many-files", 15, "it put more than 16384 files and folders into its private directory"),
    bad("floods-stdout", 15, CAPPED),
    bad("floods-in-describe", 15, CAPPED).never_a_worker(),
    good("floods-stderr"),
    // That do things in another order.
    good("never-reads").never_a_worker(),
    good("answers-before-reading").never_a_worker(),
    good("answers-before-the-events"),
    good("closes-stdin-early"),
    good("drips"),
    good("no-newline-at-the-end"),
    // That fail.
    bad("exit-1", 13, "last words"),
    bad("writes-nothing", 15, "without a result, decline, needs or error"),
    bad("a-result-then-exit-1", 13, "it answered, and then ended with exit code 1").worker_ends(End::Good),
    bad("a-result-then-a-signal", 13, "it answered, and then ended with signal 9").worker_ends(End::Good),
    bad("reports-an-error", 16, "not like this (mine)"),
    // That write what is no reply.
    bad("half-a-json", 15, NO_MESSAGE),
    bad("two-results", 15, TWICE),
    bad("a-log-line-first", 15, NO_MESSAGE),
    bad("a-wrong-id", 15, "it answered the request `c999`, and was asked `c"),
    bad("invalid-utf-8", 15, "is not UTF-8 at byte"),
    bad("a-bom", 15, NO_MESSAGE),
    bad("nul", 15, NO_MESSAGE),
    bad("deep-nesting", 15, NO_MESSAGE),
    bad("deep-nesting-unclosed", 15, NO_MESSAGE),
    bad("a-huge-number", 15, NO_MESSAGE),
    bad("a-number-beyond-64-bits", 15, NO_MESSAGE),
    bad("duplicate-keys", 15, NO_MESSAGE),
    bad("a-timestamp-of-its-own", 15, "unknown field `timestamp`"),
    bad("a-summary-of-10-mb", 15, CAPPED),
    // That propose what cannot be.
    bad("a-range-inverted", 17, "turn range ends at 0, before it starts at 1"),
    bad("a-range-out-of-bounds", 17, "turns 0-2"),
    bad("the-greatest-range", 17, "turns 0-1844"),
    bad("beyond-its-kinds", 17, "reasoning"),
    bad("an-empty-summary", 17, "blank"),
    bad("nul-in-a-summary", 17, "NUL"),
    bad("a-summary-of-1-mb", 17, "1048576 bytes"),
    // Whose file is not what it seems.
    bad("without-a-shebang", 13, "Exec format error").never_a_worker(),
    bad("of-another-architecture", 13, "Exec format error").never_a_worker(),
    bad("without-its-interpreter", 13, "No such file or directory").never_a_worker(),
    bad("without-the-run-bit", 10, "is not executable").never_a_worker(),
    bad("no-such-mode", 13, "no mode `no-such-mode`"),
];
