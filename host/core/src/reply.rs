//! What a strategy answered, from its whole output: any number of `progress` and `log`, then exactly one
//! terminal line (PROTOCOL.md, "Replies" and "Ends"). Anything else is a violation, and nothing is taken.

use jp_compact_schema::{Decline, ErrorReply, Log, Needs, Reply, ResultReply};

/// How much of an offending line is quoted, in bytes.
const QUOTE_BYTES_MAX: usize = 200;

/// A whole reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The terminal line.
    pub terminal: Terminal,
    /// The log lines before it.
    pub logs: Vec<Log>,
}

/// The line that ends a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Terminal {
    /// Payloads.
    Result(ResultReply),
    /// Nothing to do.
    Decline(Decline),
    /// The host is asked for something first.
    Needs(Needs),
    /// The strategy failed.
    Error(ErrorReply),
}

/// Why an output is no reply. Quotes are as the strategy wrote them: escape them before a terminal sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// It is not UTF-8 from this byte on.
    NotUtf8 {
        /// Offset of the byte.
        at: usize,
    },
    /// A line is no message.
    NotAMessage {
        /// Its number, from 1.
        line: usize,
        /// Its beginning.
        quote: String,
        /// What is wrong.
        why: String,
    },
    /// A message belongs to no request of ours.
    WrongId {
        /// The id that it carries.
        found: String,
        /// The id of the request.
        expected: String,
    },
    /// No terminal line.
    NoTerminal,
    /// A line behind the terminal one.
    AfterTerminal {
        /// Its beginning.
        quote: String,
    },
}

impl std::fmt::Display for Violation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotUtf8 { at } => write!(out, "its output is not UTF-8 at byte {at}"),
            Self::NotAMessage { line, quote, why } => {
                write!(out, "line {line} of its output is no message ({why}): {quote}")
            }
            Self::WrongId { found, expected } => {
                write!(out, "it answered the request `{found}`, and was asked `{expected}`")
            }
            Self::NoTerminal => write!(out, "it ended without a result, decline, needs or error"),
            Self::AfterTerminal { quote } => write!(out, "it went on after its answer: {quote}"),
        }
    }
}

impl std::error::Error for Violation {}

/// Reads a strategy's whole output as the reply to the request `id`.
///
/// # Errors
/// The first violation of the protocol.
pub fn read(output: &[u8], id: &str) -> Result<Answer, Violation> {
    let text = std::str::from_utf8(output).map_err(|error| Violation::NotUtf8 { at: error.valid_up_to() })?;
    let (mut terminal, mut logs) = (None, Vec::new());
    for (place, line) in text.lines().enumerate() {
        if line.trim_matches([' ', '\t', '\r']).is_empty() {
            continue;
        }
        if terminal.is_some() {
            return Err(Violation::AfterTerminal { quote: quote(line) });
        }
        let reply = Reply::parse(line).map_err(|error| Violation::NotAMessage {
            line: place + 1,
            quote: quote(line),
            why: error.to_string(),
        })?;
        if let Some(found) = reply.id()
            && found != id
        {
            return Err(Violation::WrongId { found: quote(found), expected: id.to_owned() });
        }
        match reply {
            Reply::Log(log) => logs.push(log),
            Reply::Result(result) => terminal = Some(Terminal::Result(result)),
            Reply::Decline(decline) => terminal = Some(Terminal::Decline(decline)),
            Reply::Needs(needs) => terminal = Some(Terminal::Needs(needs)),
            Reply::Error(error) => terminal = Some(Terminal::Error(error)),
            // Progress is shown while it comes; unknown messages are of a later version.
            _ => {}
        }
    }
    terminal.map(|terminal| Answer { terminal, logs }).ok_or(Violation::NoTerminal)
}

fn quote(line: &str) -> String {
    let end = line.floor_char_boundary(QUOTE_BYTES_MAX);
    if end < line.len() { format!("{}...", &line[..end]) } else { line.to_owned() }
}
