//! One request while it is being answered: the events that follow its header, and the lines that may precede
//! its answer. The answer itself is not written here.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

use jp_compact_schema::{
    CompactRequest, EventLine, Events, EventsEnd, Level, Log, Progress, Reply, from_line,
};
use serde::Deserialize;

use crate::outcome::StrategyError;

/// A request's events, and its `progress` and `log`.
pub struct Exchange<'a> {
    id: &'a str,
    source: Source<'a>,
    line: Vec<u8>,
    output: &'a mut dyn Write,
}

enum Source<'a> {
    Ended,
    Inline { input: &'a mut dyn BufRead, seen: u64 },
    File(BufReader<File>),
}

/// What every message has.
#[derive(Deserialize)]
pub(crate) struct Head {
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
            None => Source::Ended,
            Some(Events::Inline { .. }) => Source::Inline { input, seen: 0 },
            Some(Events::File { path, .. }) => Source::File(BufReader::new(File::open(path)?)),
            Some(other) => return Err(StrategyError::internal(format_args!("events come as {other:?}"))),
        };
        Ok(Self { id: &request.id, source, line: Vec::new(), output })
    }

    /// The next event, if there is one.
    ///
    /// # Errors
    ///
    /// The events end before their end line, or a line is no message.
    pub fn next_event(&mut self) -> Result<Option<EventLine>, StrategyError> {
        let next = self.read_event();
        if !matches!(next, Ok(Some(_))) {
            self.source = Source::Ended;
        }
        next
    }

    fn read_event(&mut self) -> Result<Option<EventLine>, StrategyError> {
        while self.read_line()? {
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            // Most lines are events; what is none fails at its first key.
            let error = match from_line::<EventLine>(&self.line) {
                Ok(event) => {
                    self.count();
                    return Ok(Some(event));
                }
                Err(error) => error,
            };
            match from_line::<Head>(&self.line).map(|head| head.r#type).as_deref() {
                Ok("event") | Err(_) => {
                    return Err(StrategyError::new("request_invalid", format_args!("an event: {error}")));
                }
                Ok("events_end") => return self.check_end().map(|()| None),
                Ok(_) => {}
            }
        }
        match self.source {
            Source::Inline { .. } => {
                Err(StrategyError::new("request_invalid", "the events ended before their end line"))
            }
            Source::Ended | Source::File(_) => Ok(None),
        }
    }

    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let bytes = match &mut self.source {
            Source::Ended => 0,
            Source::Inline { input, .. } => input.read_until(b'\n', &mut self.line)?,
            Source::File(file) => file.read_until(b'\n', &mut self.line)?,
        };
        Ok(bytes > 0)
    }

    fn count(&mut self) {
        if let Source::Inline { seen, .. } = &mut self.source {
            *seen += 1;
        }
    }

    fn check_end(&self) -> Result<(), StrategyError> {
        let end: EventsEnd =
            from_line(&self.line).map_err(|error| StrategyError::new("request_invalid", error))?;
        match self.source {
            Source::Inline { seen, .. } if end.id != self.id || end.count != seen => {
                let message = format!(
                    "{seen} events of request {} came, the end line says {} of {}",
                    self.id, end.count, end.id
                );
                Err(StrategyError::new("request_invalid", message))
            }
            _ => Ok(()),
        }
    }

    /// Tells whoever watches how far the strategy is.
    ///
    /// # Errors
    ///
    /// The host has gone. Pass it on.
    pub fn progress(&mut self, done: u64, total: Option<u64>, message: &str) -> Result<(), StrategyError> {
        let message = (!message.is_empty()).then(|| message.to_owned());
        self.say(&Reply::Progress(Progress { id: self.id.to_owned(), done, total, message }))
    }

    /// Writes a line into the host's log.
    ///
    /// # Errors
    ///
    /// The host has gone. Pass it on.
    pub fn log(&mut self, level: Level, message: &str) -> Result<(), StrategyError> {
        self.say(&Reply::Log(Log { id: self.id.to_owned(), level, message: message.to_owned() }))
    }

    fn say(&mut self, reply: &Reply) -> Result<(), StrategyError> {
        Ok(write(self.output, reply)?)
    }
}

/// Writes a line, and sees that it leaves: the next thing may be to wait for the host.
pub(crate) fn write<T: serde::Serialize>(output: &mut dyn Write, message: &T) -> io::Result<()> {
    output.write_all(&jp_compact_schema::to_line(message)?)?;
    output.flush()
}
