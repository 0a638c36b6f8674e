//! The output: data on stdout, and text for people on stderr. Except for the log of `main.rs`, no other file of this
//! crate may write to either. Text for people is [`EscapedLines`], which are escaped. [`data`] does not escape; it is
//! for programs. tests/walls/doors.rs lists its callers. A closed pipe is not an error.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use jp_compact_jp_plugin::{Connection, MessageLevel};
use jp_compact_runtime::environment::{Environment, Variables};
use jp_compact_schema::document::{Failure, LogLevel, LogLine};
use jp_compact_terminal::colors::{ColorMode, TABLE_HEADING, with_colored_labels};
use jp_compact_terminal::wrap::wrapped_to;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::escape;
use crate::lines::EscapedLines;

const BUFFER_BYTES: usize = 256 << 10;

/// Writes data to stdout and flushes it.
///
/// # Errors
/// The error of the system, except a closed pipe.
pub(crate) fn data(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, Stdout::new()?);
    unless_closed(write(&mut out).and_then(|()| out.flush()))
}

/// Returns the result of a write. A closed pipe is not an error.
pub(crate) fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Stdout as a file.
pub(crate) type DataFile = std::fs::File;

/// Returns stdout as a file, for output that is written by the system. `None` if JP reads the output.
///
/// # Errors
/// Stdout is closed.
pub(crate) fn data_file() -> io::Result<Option<DataFile>> {
    if JP.get().is_some() { Ok(None) } else { RawStdout::new().map(|stdout| Some(stdout.0)) }
}

/// Writes one value as one line of JSON.
///
/// # Errors
/// See [`data`].
pub(crate) fn json_line(value: &impl Serialize) -> io::Result<()> {
    data(|out| {
        serde_json::to_writer(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// Returns the width of the terminal on stdout, if there is one.
pub(crate) fn columns() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(width.0.into())
}

/// Returns whether a person reads the messages on stderr.
pub(crate) fn is_terminal() -> bool {
    !IS_SERVER.load(Ordering::Relaxed) && !is_json() && io::stderr().is_terminal()
}

/// Writes a line of data without buffering.
///
/// # Errors
/// The error of the system. A closed pipe is an error here, so that the caller can stop writing.
pub(crate) fn line(bytes: &[u8]) -> io::Result<()> {
    Stdout::new()?.write_all(bytes)
}

/// Whether each message on stderr is a line of JSON.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Selects lines of JSON for stderr.
pub(crate) fn set_json() {
    IS_JSON.store(true, Ordering::Relaxed);
}

/// Returns whether each message on stderr is a line of JSON.
pub(crate) fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Writes a failure to stderr, as text or as JSON.
pub(crate) fn failure(failure: &Failure, text: &EscapedLines) {
    log(LogLevel::Error, "failed", failure, text);
}

/// Whether text for people on stderr is colored.
static STDERR_HAS_COLORS: AtomicBool = AtomicBool::new(false);
static STDOUT_HAS_COLORS: AtomicBool = AtomicBool::new(false);

/// Decides whether stdout and stderr are colored, each separately.
pub(crate) fn set_colors(mode: ColorMode) {
    let variable = |name: &str| Variables::OfProcess.get(name);
    STDERR_HAS_COLORS.store(mode.has_colors(io::stderr().is_terminal(), variable), Ordering::Relaxed);
    STDOUT_HAS_COLORS.store(mode.has_colors(stdout_is_terminal(), variable), Ordering::Relaxed);
}

pub(crate) fn has_colors_on_stdout() -> bool {
    STDOUT_HAS_COLORS.load(Ordering::Relaxed)
}

/// Writes a table to stdout, with its first line as the heading.
///
/// # Errors
/// See [`data`].
pub(crate) fn table(lines: &[String]) -> io::Result<()> {
    let mut table = EscapedLines::new();
    for (index, line) in lines.iter().enumerate() {
        if index == 0 && has_colors_on_stdout() {
            table.styled(TABLE_HEADING, line);
        } else {
            table.line(line);
        }
    }
    texts([table])
}

/// Whether [`info`] and [`warning`] print nothing.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses [`info`] and [`warning`]. Errors, important warnings, and introductions are still printed.
pub(crate) fn set_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Prints a warning, unless `--quiet` was given.
pub(crate) fn warning(text: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        important_warning(text);
    }
}

/// Returns whether no progress is drawn. A terminal of the type `dumb` cannot move its cursor.
pub(crate) fn hides_progress(quiet: bool, environment: &Environment) -> bool {
    quiet || is_json() || environment.variables.get("TERM").is_some_and(|name| name == "dumb")
}

/// Prints a warning even with `--quiet`, because the command did not do its work.
pub(crate) fn important_warning(text: &str) {
    let line = EscapedLines::single(format_args!("warning: {text}"));
    log(LogLevel::Warn, "warning", &json!({ "warning": text }), &line);
}

/// Writes a message about a result to stderr, unless `--quiet` was given. See [`log`].
pub(crate) fn info(message: &'static str, fields: &impl Serialize, text: &EscapedLines) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        log(LogLevel::Info, message, fields, text);
    }
}

/// Writes the text that precedes a question, even with `--quiet`. See [`log`].
pub(crate) fn introduction(message: &'static str, fields: &impl Serialize, text: &EscapedLines) {
    log(LogLevel::Info, message, fields, text);
}

/// Writes an error that has no [`Failure`] document to stderr. See [`log`].
pub(crate) fn error(message: &'static str, fields: &impl Serialize, text: &EscapedLines) {
    log(LogLevel::Error, message, fields, text);
}

/// Writes a message to stderr: `text` for people, or one line of JSON with `message` and the members of `fields`. The
/// message is constant; values belong in `fields`. A failure to write cannot be reported.
pub(crate) fn log(level: LogLevel, message: &'static str, fields: &impl Serialize, text: &EscapedLines) {
    if let Some(jp) = JP.get() {
        let level = match level {
            LogLevel::Error => MessageLevel::Error,
            LogLevel::Warn => MessageLevel::Warn,
            LogLevel::Info | LogLevel::Debug | LogLevel::Trace => MessageLevel::Info,
        };
        return jp.report(level, text.as_str());
    }
    if !is_json() {
        let columns = terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| width.0.into());
        let mut text = wrapped_to(text.as_str(), columns);
        if STDERR_HAS_COLORS.load(Ordering::Relaxed) {
            text = with_colored_labels(&text);
        }
        let _ = io::stderr().write_all(text.as_bytes());
        return;
    }
    let mut members = Map::new();
    members.insert("message".to_owned(), message.into());
    if let Ok(Value::Object(fields)) = serde_json::to_value(fields) {
        members.extend(fields);
    }
    if let Ok(line) = serde_json::to_string(&LogLine { level, fields: members }) {
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// Writes the text result of a command to stdout, wrapped to the width of the terminal.
///
/// # Errors
/// See [`data`].
pub(crate) fn text(lines: &EscapedLines) -> io::Result<()> {
    let columns = columns().filter(|_| JP.get().is_none());
    data(|out| out.write_all(wrapped_to(lines.as_str(), columns).as_bytes()))
}

/// Writes parts of a text result to stdout, each before the next part is computed. Their lines are not wrapped.
///
/// # Errors
/// See [`data`].
pub(crate) fn texts(parts: impl IntoIterator<Item = EscapedLines>) -> io::Result<()> {
    data(|out| parts.into_iter().try_for_each(|part| out.write_all(part.as_str().as_bytes())))
}

/// Stderr for logs. Each write is one event and becomes one escaped line, because events contain text of strategies.
pub(crate) struct EscapedStderr;

impl Write for EscapedStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let event = String::from_utf8_lossy(bytes);
        let line = escape::line(event.strip_suffix('\n').unwrap_or(&event));
        writeln!(io::stderr(), "{line}").map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}

pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether stdin and stdout carry a protocol.
static IS_SERVER: AtomicBool = AtomicBool::new(false);

/// Returns stdin and stdout for a protocol, and disables questions to the user.
pub(crate) fn protocol() -> (tokio::io::Stdin, tokio::io::Stdout) {
    IS_SERVER.store(true, Ordering::Relaxed);
    rmcp::transport::stdio()
}

/// The connection with JP, if JP runs this process as a plugin. It then replaces stdout and stderr, except for the log.
static JP: OnceLock<Connection> = OnceLock::new();

/// Returns the connection with JP, and disables questions to the user. From now on, all output except the log uses it.
///
/// # Errors
/// Stdout is closed.
pub(crate) fn connect_jp() -> io::Result<&'static Connection> {
    IS_SERVER.store(true, Ordering::Relaxed);
    let stdout = RawStdout::new()?;
    Ok(JP.get_or_init(|| Connection::new(Box::new(stdout))))
}

/// Prints the help or the version, with colors on a terminal. If printing fails, the failure cannot be printed either.
pub(crate) fn help(help: &clap::Error) {
    let _ = match JP.get() {
        Some(jp) => jp.print(help.render().to_string().as_bytes()),
        None => help.print(),
    };
}

/// Returns whether the program can ask the user: stdin and stderr are a terminal.
pub(crate) fn can_ask() -> bool {
    !IS_SERVER.load(Ordering::Relaxed) && stdin_is_terminal() && io::stderr().is_terminal()
}

/// Writes a question without a newline.
pub(crate) fn question(text: &'static str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// The destination of data: stdout, or the connection with JP.
enum Stdout {
    Raw(RawStdout),
    Jp(&'static Connection),
}

impl Stdout {
    fn new() -> io::Result<Self> {
        match JP.get() {
            Some(jp) => Ok(Self::Jp(jp)),
            None => RawStdout::new().map(Self::Raw),
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Raw(stdout) => stdout.write(bytes),
            Self::Jp(jp) => jp.print(bytes).map(|()| bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Stdout without the line buffer of the standard library, which splits large writes at newlines.
struct RawStdout(DataFile);

impl RawStdout {
    fn new() -> io::Result<Self> {
        use std::os::fd::AsFd as _;
        Ok(Self(DataFile::from(io::stdout().as_fd().try_clone_to_owned()?)))
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
