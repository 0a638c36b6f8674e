//! What a strategy answered, from its whole output: any number of `progress` and `log`, then exactly one
//! terminal line (PROTOCOL.md, "Replies" and "Ends"). Anything else is a violation, and nothing is taken.

use std::collections::BTreeMap;

use jp_compact_schema::version::{NEEDS_MAX, NEEDS_ROUNDS_MAX, STATE_BYTES_MAX};
use jp_compact_schema::{self as schema, Decline, ErrorReply, Log, Needs, Progress, Reply, ResultReply};

use crate::bounded::{Logs, cut, cut_diagnostics};
use crate::json::Scanner;

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

/// What one line of an output is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Blank, or a message of a later version.
    Nothing,
    /// How far the strategy is. Shown while it comes, if somebody watches.
    Progress(Progress),
    /// A line for the log.
    Log(Log),
    /// The line that ends the reply.
    Terminal(Terminal),
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
    /// One `needs` too many.
    TooManyRounds,
    /// More things needed than one request may cost.
    TooManyNeeds {
        /// How many, over all rounds.
        found: usize,
    },
    /// A `needs` with a key that an earlier round has used.
    KeyUsedTwice {
        /// The key.
        key: String,
    },
    /// The `state` of a `needs` is too large.
    StateTooLarge {
        /// Its size.
        bytes: usize,
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
            Self::TooManyRounds => write!(out, "it answered `needs` more than {NEEDS_ROUNDS_MAX} times"),
            Self::TooManyNeeds { found } => {
                write!(out, "it needs {found} things for one request, {NEEDS_MAX} are allowed")
            }
            Self::KeyUsedTwice { key } => write!(out, "it needs `{key}`, a key that it has used before"),
            Self::StateTooLarge { bytes } => {
                write!(out, "its `state` has {bytes} bytes, {STATE_BYTES_MAX} are allowed")
            }
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
    let (mut terminal, mut logs) = (None, Logs::default());
    for (place, text) in text.lines().enumerate() {
        if terminal.is_some() && !is_blank(text) {
            return Err(after_terminal(text));
        }
        match line(text, place + 1, id)? {
            Line::Log(log) => {
                logs.push(log);
            }
            Line::Terminal(line) => terminal = Some(line),
            Line::Nothing | Line::Progress(_) => {}
        }
    }
    let logs = logs.into_lines();
    terminal.map(|terminal| Answer { terminal, logs }).ok_or(Violation::NoTerminal)
}

/// Reads one line of the reply to the request `id`: its text, and its number from 1.
///
/// # Errors
/// It violates the protocol.
pub fn line(text: &str, number: usize, id: &str) -> Result<Line, Violation> {
    if is_blank(text) {
        return Ok(Line::Nothing);
    }
    let no_message = |why| Violation::NotAMessage { line: number, quote: quote(text), why };
    let reply = Reply::parse(text).map_err(|error| no_message(error.to_string()))?;
    // What is passed over unread, below a key that nobody knows, is held to the same JSON as what is read.
    Scanner::at_byte(text.as_bytes(), 0).value(0).map_err(|wrong| no_message(wrong.what.to_owned()))?;
    if let Some(found) = reply.id()
        && found != id
    {
        return Err(Violation::WrongId { found: quote(found), expected: id.to_owned() });
    }
    Ok(match reply {
        Reply::Progress(mut progress) => {
            progress.message.iter_mut().for_each(cut);
            Line::Progress(progress)
        }
        Reply::Log(mut log) => {
            cut(&mut log.message);
            Line::Log(log)
        }
        Reply::Result(mut result) => {
            cut_diagnostics(&mut result.diagnostics);
            Line::Terminal(Terminal::Result(result))
        }
        Reply::Decline(mut decline) => {
            cut(&mut decline.reason);
            Line::Terminal(Terminal::Decline(decline))
        }
        Reply::Needs(needs) => Line::Terminal(Terminal::Needs(needs)),
        Reply::Error(mut error) => {
            [&mut error.code, &mut error.message].into_iter().chain(&mut error.hint).for_each(cut);
            Line::Terminal(Terminal::Error(error))
        }
        _ => Line::Nothing,
    })
}

/// Whether a line is nothing at all.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.trim_matches([' ', '\t', '\r', '\n']).is_empty()
}

/// The violation of a line behind the terminal one.
#[must_use]
pub fn after_terminal(text: &str) -> Violation {
    Violation::AfterTerminal { quote: quote(text) }
}

/// Checks a `needs` against the rounds before it: how many there were, and what they were answered.
///
/// # Errors
/// It violates the protocol.
pub fn check_needs(
    needs: &Needs,
    rounds_before: u32,
    answers: &BTreeMap<String, schema::Answer>,
) -> Result<(), Violation> {
    if rounds_before >= NEEDS_ROUNDS_MAX {
        return Err(Violation::TooManyRounds);
    }
    if let Some(key) = needs.requests.keys().find(|key| answers.contains_key(*key)) {
        return Err(Violation::KeyUsedTwice { key: quote(key) });
    }
    let found = answers.len() + needs.requests.len();
    if found > NEEDS_MAX {
        return Err(Violation::TooManyNeeds { found });
    }
    match needs.state.as_ref().map(String::len) {
        Some(bytes) if bytes as u64 > STATE_BYTES_MAX => Err(Violation::StateTooLarge { bytes }),
        _ => Ok(()),
    }
}

fn quote(line: &str) -> String {
    let end = line.floor_char_boundary(QUOTE_BYTES_MAX);
    if end < line.len() { format!("{}...", &line[..end]) } else { line.to_owned() }
}
