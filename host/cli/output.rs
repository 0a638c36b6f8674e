//! Where text goes: data to stdout, text for people to stderr. The only file of the project that writes to
//! either. A reader that went away is no error. Text for people is [`Lines`], so that none of it can be printed without
//! being escaped; [`data`] is for programs, and tests/walls.rs lists who writes it.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::json;

use crate::escape;
use crate::lines::Lines;

/// How much of an output is gathered before it is written.
const BUFFER_BYTES: usize = 256 << 10;

/// Writes data to stdout and flushes it.
///
/// # Errors
/// What the system reports, but for a closed pipe.
pub(crate) fn data(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, RawStdout::new()?);
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes one value as one line of JSON.
///
/// # Errors
/// As [`data`].
pub(crate) fn json_line(value: &impl Serialize) -> io::Result<()> {
    data(|out| {
        serde_json::to_writer(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// Writes a line of data at once. A reader that went away is told to whoever writes many.
///
/// # Errors
/// What the system reports.
pub(crate) fn line(bytes: &[u8]) -> io::Result<()> {
    RawStdout::new()?.write_all(bytes)
}

/// Whether what is for people is written for programs instead: one line of JSON a message.
static SPEAKS_JSON: AtomicBool = AtomicBool::new(false);

/// From now on stderr is lines of JSON.
pub(crate) fn speak_json() {
    SPEAKS_JSON.store(true, Ordering::Relaxed);
}

/// Whether stderr is lines of JSON.
pub(crate) fn is_for_programs() -> bool {
    SPEAKS_JSON.load(Ordering::Relaxed)
}

/// Writes a failure for people: its text, or for programs all of it.
pub(crate) fn failure(report: &impl Serialize, text: &Lines) {
    if is_for_programs() {
        let _ = writeln!(io::stderr(), "{}", json!({ "level": "ERROR", "error": report }));
    } else {
        people(text);
    }
}

/// Whether only errors are said.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// From now on only errors are said.
pub(crate) fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Says what somebody should know of a transcript who has not asked.
pub(crate) fn warning(text: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        people(&Lines::of(format_args!("warning: {text}")));
    }
}

/// Writes lines for people to stderr. Nothing can be said when even that fails.
pub(crate) fn people(lines: &Lines) {
    if is_for_programs() {
        let line = json!({ "level": "INFO", "fields": { "message": lines.as_str().trim_end() } });
        let _ = writeln!(io::stderr(), "{line}");
        return;
    }
    let _ = io::stderr().write_all(lines.as_str().as_bytes());
}

/// Writes one line for people to stderr.
pub(crate) fn say(line: impl std::fmt::Display) {
    people(&Lines::of(line));
}

/// Writes lines for people to stdout: what a command was asked for.
///
/// # Errors
/// As [`data`].
pub(crate) fn text(lines: &Lines) -> io::Result<()> {
    data(|out| out.write_all(lines.as_str().as_bytes()))
}

/// Stderr for logs, which hold what strategies wrote: each write is one event, and becomes one escaped line.
pub(crate) struct Escaped;

impl Write for Escaped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let event = String::from_utf8_lossy(bytes);
        let line = escape::line(event.strip_suffix('\n').unwrap_or(&event));
        writeln!(io::stderr(), "{line}").map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether somebody sits in front of stdin.
pub(crate) fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Whether stdin and stdout are a program's, who is asked nothing.
static SERVES: AtomicBool = AtomicBool::new(false);

/// Stdin and stdout for a protocol. Whoever speaks it is asked nothing from now on.
pub(crate) fn protocol() -> (tokio::io::Stdin, tokio::io::Stdout) {
    SERVES.store(true, Ordering::Relaxed);
    rmcp::transport::stdio()
}

/// Whether somebody can be asked: sits in front of stdin, and sees what is written to stderr.
pub(crate) fn can_ask() -> bool {
    !SERVES.load(Ordering::Relaxed) && stdin_is_terminal() && io::stderr().is_terminal()
}

/// Writes a question of the host, without a newline after it.
pub(crate) fn question(text: &'static str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Stdout without the line buffer of the standard library, which would cut large writes at newlines.
struct RawStdout(std::fs::File);

impl RawStdout {
    fn new() -> io::Result<Self> {
        use std::os::fd::AsFd as _;
        Ok(Self(std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }
}

impl Write for RawStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
