//! The strategy's side of the protocol, over any reader and writer.
//!
//! This module must not use processes, file descriptors, or the environment, so strategies can be tested in memory.

use std::io::{self, BufRead as _, BufReader, Read, Write};

use jp_compact_schema::{CompactRequest, PROTOCOL, from_line};

use crate::exchange::{Exchange, MessageHead, write_message};
use crate::outcome::{StrategyError, terminal_reply};
use crate::strategy::Strategy;

/// The capacity of a pipe, so that waiting requests are read together.
const READ_BYTES: usize = 64 << 10;

/// The verb with which the host starts a strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Write the description, then exit.
    Describe,
    /// Reply to one request, then exit.
    Run,
    /// Reply to requests until the input ends.
    Worker,
}

impl Verb {
    /// Returns the verb with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "describe" => Some(Self::Describe),
            "run" => Some(Self::Run),
            "worker" => Some(Self::Worker),
            _ => None,
        }
    }
}

/// Performs a verb: reads requests from `input` and writes replies to `output`.
///
/// An invalid request and a failed strategy result in an `error` reply, and a worker continues. Remaining lines of an
/// answered request and messages of unknown types are ignored.
///
/// # Errors
///
/// Reading or writing failed, or a line is not a message.
pub fn converse(
    strategy: &impl Strategy,
    verb: Verb,
    input: impl Read,
    mut output: impl Write,
) -> io::Result<()> {
    if verb == Verb::Describe {
        return write_message(&mut output, &strategy.describe());
    }
    let mut input = BufReader::with_capacity(READ_BYTES, input);
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let Some((id, request)) = parse_request(&line)? else { continue };
        let outcome = request.and_then(|request| {
            strategy.compact(&request, &mut Exchange::open(&request, &mut input, &mut output)?)
        });
        write_message(&mut output, &terminal_reply(&id, outcome))?;
        if verb == Verb::Run {
            return Ok(());
        }
    }
}

/// Parses a line. Returns the id, and the request or the error to reply with. Returns `None` for other messages.
fn parse_request(line: &[u8]) -> io::Result<Option<(String, Result<CompactRequest, StrategyError>)>> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    // Most lines are valid requests. For any other line, the head determines the result.
    let error = match from_line::<CompactRequest>(line) {
        Ok(request) if request.protocol == PROTOCOL => return Ok(Some((request.id.clone(), Ok(request)))),
        Ok(_) => None,
        Err(error) => Some(error),
    };
    let head: MessageHead = from_line(line)?;
    if head.r#type != "compact" {
        return Ok(None);
    }
    let id = head.id.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the request has no id"))?;
    let error = match error {
        Some(error) if head.protocol == Some(PROTOCOL) => StrategyError::new("request_invalid", error),
        _ => {
            let message = format!("unsupported protocol version, this strategy supports {PROTOCOL}");
            StrategyError::new("protocol_unsupported", message)
        }
    };
    Ok(Some((id, Err(error))))
}
