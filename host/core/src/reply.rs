//! The parser of a strategy's output: any number of `progress` and `log` messages, then exactly one terminal line
//! (PROTOCOL.md, "Replies"). Blank lines and unknown messages are ignored. Any other output rejects the whole reply.

use std::collections::BTreeMap;

use jp_compact_schema::version::{
    NEEDS_MANY_ROUNDS_MAX, NEEDS_MAX, NEEDS_ROUNDS_MAX, STATE_BYTES_MAX, STATE_MANY_BYTES_MAX,
};
use jp_compact_schema::{self as schema, Decline, ErrorReply, Log, Needs, Progress, Reply, ResultReply};

use crate::bounded::{Logs, truncate, truncate_diagnostics};
use jp_compact_json::Scanner;

/// The maximum number of bytes that an error quotes of a line, an id, or a key.
const QUOTE_BYTES_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteReply {
    pub terminal: Terminal,
    pub logs: Vec<Log>,
}

/// The line that ends a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Terminal {
    Result(ResultReply),
    /// There is nothing to do.
    Decline(Decline),
    /// The strategy needs answers from the host before it can continue.
    Needs(Needs),
    Error(ErrorReply),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyLine {
    /// A blank line, or a message of a later protocol version.
    Nothing,
    /// The host may show it on arrival. It is not kept.
    Progress(Progress),
    Log(Log),
    Terminal(Terminal),
}

/// The reason why an output is not a valid reply. Quotes are not escaped. The caller must escape them before it prints
/// them to a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyViolation {
    /// Not UTF-8 from this byte on.
    NotUtf8 {
        at: usize,
    },
    /// A line that is not a message.
    NotAMessage {
        /// Line number, from 1.
        line: usize,
        /// The start of the line.
        quote: String,
        reason: String,
    },
    /// A message for a different request.
    WrongId {
        /// The id in the message.
        found: String,
        /// The id of the request.
        expected: String,
    },
    NoTerminal,
    /// A line after the terminal line.
    AfterTerminal {
        /// The start of the line.
        quote: String,
    },
    /// More `needs` replies than allowed.
    TooManyRounds {
        max: u32,
    },
    /// More needs than allowed for one request.
    TooManyNeeds {
        /// The total over all rounds.
        found: usize,
    },
    /// A `needs` with a key of an earlier round.
    KeyUsedTwice {
        key: String,
    },
    StateTooLarge {
        bytes: usize,
        max: u64,
    },
}

impl std::fmt::Display for ReplyViolation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotUtf8 { at } => write!(out, "its output is not UTF-8 at byte {at}"),
            Self::NotAMessage { line, quote, reason } => {
                write!(out, "line {line} of its output is not a valid message ({reason}): {quote}")
            }
            Self::WrongId { found, expected } => {
                write!(out, "it replied to request `{found}`, but the request is `{expected}`")
            }
            Self::NoTerminal => write!(out, "its output ended without a result, decline, needs or error"),
            Self::AfterTerminal { quote } => {
                write!(out, "it sent another line after its terminal reply: {quote}")
            }
            Self::TooManyRounds { max } => write!(out, "it replied `needs` more than {max} times"),
            Self::TooManyNeeds { found } => {
                write!(out, "it has {found} needs for one request; at most {NEEDS_MAX} are allowed")
            }
            Self::KeyUsedTwice { key } => {
                write!(out, "its `needs` reuse the key `{key}` of an earlier round")
            }
            Self::StateTooLarge { bytes, max } => {
                write!(out, "its `state` has {bytes} bytes; at most {max} are allowed")
            }
        }
    }
}

impl std::error::Error for ReplyViolation {}

/// Parses a strategy's whole output as the reply to the request `id`.
///
/// # Errors
/// The first violation of the protocol.
pub fn read(output: &[u8], id: &str) -> Result<CompleteReply, ReplyViolation> {
    let text =
        std::str::from_utf8(output).map_err(|error| ReplyViolation::NotUtf8 { at: error.valid_up_to() })?;
    let (mut terminal, mut logs) = (None, Logs::default());
    for (number, text) in (1..).zip(text.lines()) {
        if terminal.is_some() && !is_blank(text) {
            return Err(after_terminal(text));
        }
        match line(text, number, id)? {
            ReplyLine::Log(log) => {
                logs.push(log);
            }
            ReplyLine::Terminal(reply) => terminal = Some(reply),
            ReplyLine::Nothing | ReplyLine::Progress(_) => {}
        }
    }
    let logs = logs.into_lines();
    terminal.map(|terminal| CompleteReply { terminal, logs }).ok_or(ReplyViolation::NoTerminal)
}

/// Parses one line of the reply to the request `id`. `number` counts lines from 1.
///
/// # Errors
/// The violation of the protocol.
pub fn line(text: &str, number: usize, id: &str) -> Result<ReplyLine, ReplyViolation> {
    if is_blank(text) {
        return Ok(ReplyLine::Nothing);
    }
    let not_a_message = |reason| ReplyViolation::NotAMessage { line: number, quote: quote(text), reason };
    let reply = Reply::parse(text).map_err(|error| not_a_message(error.to_string()))?;
    // The parser skips unknown members unread. They must be valid by the same JSON rules as the rest.
    Scanner::at_byte(text.as_bytes(), 0).value(0).map_err(|error| not_a_message(error.message.to_owned()))?;
    if let Some(found) = reply.id()
        && found != id
    {
        return Err(ReplyViolation::WrongId { found: quote(found), expected: id.to_owned() });
    }
    Ok(match reply {
        Reply::Progress(mut progress) => {
            progress.message.iter_mut().for_each(truncate);
            ReplyLine::Progress(progress)
        }
        Reply::Log(mut log) => {
            truncate(&mut log.message);
            ReplyLine::Log(log)
        }
        Reply::Result(mut result) => {
            truncate_diagnostics(&mut result.diagnostics);
            ReplyLine::Terminal(Terminal::Result(result))
        }
        Reply::Decline(mut decline) => {
            truncate(&mut decline.reason);
            ReplyLine::Terminal(Terminal::Decline(decline))
        }
        Reply::Needs(needs) => ReplyLine::Terminal(Terminal::Needs(needs)),
        Reply::Error(mut error) => {
            [&mut error.code, &mut error.message].into_iter().chain(&mut error.hint).for_each(truncate);
            ReplyLine::Terminal(Terminal::Error(error))
        }
        _ => ReplyLine::Nothing,
    })
}

/// Returns whether a line contains only white space.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.trim_matches([' ', '\t', '\r', '\n']).is_empty()
}

/// Returns the violation for a line after the terminal line.
#[must_use]
pub fn after_terminal(text: &str) -> ReplyViolation {
    ReplyViolation::AfterTerminal { quote: quote(text) }
}

/// Checks a `needs` against the earlier rounds, and the size of its `state`. With the feature `needs.many`, keys may be
/// reused, needs have no maximum, and the other limits are higher: the budget for models bounds the rounds.
///
/// # Errors
/// The violation of the protocol.
pub fn check_needs(
    needs: &Needs,
    rounds_before: u32,
    answers: &BTreeMap<String, schema::Answer>,
    many: bool,
) -> Result<(), ReplyViolation> {
    let max = if many { NEEDS_MANY_ROUNDS_MAX } else { NEEDS_ROUNDS_MAX };
    if rounds_before >= max {
        return Err(ReplyViolation::TooManyRounds { max });
    }
    if !many {
        if let Some(key) = needs.requests.keys().find(|key| answers.contains_key(*key)) {
            return Err(ReplyViolation::KeyUsedTwice { key: quote(key) });
        }
        let found = answers.len() + needs.requests.len();
        if found > NEEDS_MAX {
            return Err(ReplyViolation::TooManyNeeds { found });
        }
    }
    let max = if many { STATE_MANY_BYTES_MAX } else { STATE_BYTES_MAX };
    match needs.state.as_ref().map(String::len) {
        Some(bytes) if bytes as u64 > max => Err(ReplyViolation::StateTooLarge { bytes, max }),
        _ => Ok(()),
    }
}

fn quote(line: &str) -> String {
    let end = line.floor_char_boundary(QUOTE_BYTES_MAX);
    if end < line.len() { format!("{}...", &line[..end]) } else { line.to_owned() }
}
