//! The exchange for one request: the events after its header, and the `progress` and `log` lines of the reply.
//!
//! The terminal line of the reply is not written here.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

use jp_compact_schema::{
    CompactRequest, EventLine, Events, EventsEnd, Level, Log, Progress, Reply, from_line,
};
use serde::Deserialize;

use crate::outcome::StrategyError;

/// Reads the events of a request, and writes `progress` and `log` lines.
pub struct Exchange<'a> {
    id: &'a str,
    source: EventInput<'a>,
    line: Vec<u8>,
    output: &'a mut dyn Write,
}

enum EventInput<'a> {
    Ended,
    Inline { input: &'a mut dyn BufRead, seen: u64 },
    File(BufReader<File>),
}

/// The fields that determine the type of a message.
#[derive(Deserialize)]
pub(crate) struct MessageHead {
    pub(crate) r#type: String,
    pub(crate) id: Option<String>,
    pub(crate) protocol: Option<u32>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn open(
        request: &'a CompactRequest,
        input: &'a mut dyn BufRead,
        output: &'a mut dyn Write,
    ) -> Result<Self, StrategyError> {
        let source = match &request.events {
            None => EventInput::Ended,
            Some(Events::Inline { .. }) => EventInput::Inline { input, seen: 0 },
            Some(Events::File { path, .. }) => EventInput::File(BufReader::new(File::open(path)?)),
            Some(other) => {
                return Err(StrategyError::internal(format_args!("unsupported mode of events: {other:?}")));
            }
        };
        Ok(Self { id: &request.id, source, line: Vec::new(), output })
    }

    /// Reads the next event. Returns `None` after the last one.
    ///
    /// # Errors
    ///
    /// The input ends before the line `events_end`, or a line is invalid.
    pub fn next_event(&mut self) -> Result<Option<EventLine>, StrategyError> {
        let next = self.read_event();
        if !matches!(next, Ok(Some(_))) {
            self.source = EventInput::Ended;
        }
        next
    }

    fn read_event(&mut self) -> Result<Option<EventLine>, StrategyError> {
        while self.read_line()? {
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            // Most lines are events. Other messages fail at the first key.
            let error = match from_line::<EventLine>(&self.line) {
                Ok(event) => {
                    self.count();
                    return Ok(Some(event));
                }
                Err(error) => error,
            };
            match from_line::<MessageHead>(&self.line).map(|head| head.r#type).as_deref() {
                Ok("event") | Err(_) => {
                    return Err(StrategyError::new(
                        "request_invalid",
                        format_args!("invalid event: {error}"),
                    ));
                }
                Ok("events_end") => return self.check_end().map(|()| None),
                Ok(_) => {}
            }
        }
        match self.source {
            EventInput::Inline { .. } => {
                Err(StrategyError::new("request_invalid", "the events ended before the line `events_end`"))
            }
            EventInput::Ended | EventInput::File(_) => Ok(None),
        }
    }

    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let bytes = match &mut self.source {
            EventInput::Ended => 0,
            EventInput::Inline { input, .. } => input.read_until(b'\n', &mut self.line)?,
            EventInput::File(file) => file.read_until(b'\n', &mut self.line)?,
        };
        Ok(bytes > 0)
    }

    fn count(&mut self) {
        if let EventInput::Inline { seen, .. } = &mut self.source {
            *seen += 1;
        }
    }

    fn check_end(&self) -> Result<(), StrategyError> {
        let end: EventsEnd =
            from_line(&self.line).map_err(|error| StrategyError::new("request_invalid", error))?;
        match self.source {
            EventInput::Inline { seen, .. } if end.id != self.id || end.count != seen => {
                let message = format!(
                    "`events_end` announces {} events of request {}, but {seen} events of request {} precede it",
                    end.count, end.id, self.id
                );
                Err(StrategyError::new("request_invalid", message))
            }
            _ => Ok(()),
        }
    }

    /// Reports the progress to the host.
    ///
    /// # Errors
    ///
    /// The host has closed the pipe. Return the error.
    pub fn progress(&mut self, done: u64, total: Option<u64>, message: &str) -> Result<(), StrategyError> {
        let message = (!message.is_empty()).then(|| message.to_owned());
        self.send(&Reply::Progress(Progress { id: self.id.to_owned(), done, total, message }))
    }

    /// Writes a line to the host's log.
    ///
    /// # Errors
    ///
    /// The host has closed the pipe. Return the error.
    pub fn log(&mut self, level: Level, message: &str) -> Result<(), StrategyError> {
        self.send(&Reply::Log(Log { id: self.id.to_owned(), level, message: message.to_owned() }))
    }

    fn send(&mut self, reply: &Reply) -> Result<(), StrategyError> {
        Ok(write_message(self.output, reply)?)
    }
}

/// Writes and flushes a line, because the strategy may wait for the host next.
pub(crate) fn write_message<T: serde::Serialize>(output: &mut dyn Write, message: &T) -> io::Result<()> {
    output.write_all(&jp_compact_schema::to_line(message)?)?;
    output.flush()
}
