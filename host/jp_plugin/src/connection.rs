//! The output of a command as messages to JP. Bytes for stdout become `print`. Messages for people become `print`, or
//! `log` if stdout carries data. Errors become the reason of `exit`. If the exit code is 0, they are messages for
//! people.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::message::PluginMessage;

/// The longest text of one `print`. JP reads a line at a time.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The importance of a message for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageLevel {
    Error,
    Warn,
    Info,
}

/// The connection with JP. All threads share it.
pub struct Connection {
    state: Mutex<State>,
}

struct State {
    out: Box<dyn Write + Send>,
    /// Bytes for stdout that end inside of a character.
    partial: Vec<u8>,
    /// The errors so far.
    reasons: Vec<String>,
    /// Whether a program reads stdout.
    is_data: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Creates a connection that writes its messages to `out`.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        let state = State { out, partial: Vec::new(), reasons: Vec::new(), is_data: false };
        Self { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that stdout carries data for a program. Messages for people must then not be part of it.
    pub fn set_data(&self) {
        self.state().is_data = true;
    }

    /// Sends a message.
    ///
    /// # Errors
    /// JP has closed the pipe.
    pub fn send(&self, message: &PluginMessage) -> io::Result<()> {
        self.state().send(message)
    }

    /// Sends bytes for stdout. A character may be split between two calls. Bytes that are not UTF-8 are replaced,
    /// because a message is JSON.
    ///
    /// # Errors
    /// JP has closed the pipe.
    pub fn print(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.partial.extend_from_slice(bytes);
        let whole = state.partial.len() - incomplete_suffix(&state.partial);
        let bytes: Vec<u8> = state.partial.drain(..whole).collect();
        state.print(&String::from_utf8_lossy(&bytes))
    }

    /// Sends a message for people, or keeps it as a reason if it is an error.
    pub fn report(&self, level: MessageLevel, text: &str) {
        let mut state = self.state();
        if level == MessageLevel::Error {
            let reason = text.trim_end();
            state.reasons.push(reason.strip_prefix("error: ").unwrap_or(reason).to_owned());
            return;
        }
        // If JP is gone, the message has no reader.
        let _ = state.send_to_people(if level == MessageLevel::Warn { "warn" } else { "info" }, text);
    }

    /// Ends the command.
    ///
    /// # Errors
    /// JP has closed the pipe.
    pub fn exit(&self, code: u8) -> io::Result<()> {
        let mut state = self.state();
        let rest = std::mem::take(&mut state.partial);
        state.print(&String::from_utf8_lossy(&rest))?;
        let reasons = std::mem::take(&mut state.reasons).join("\n");
        let reason = Some(reasons).filter(|reasons| !reasons.is_empty());
        if code == 0
            && let Some(reason) = &reason
        {
            state.send_to_people("error", &format!("{reason}\n"))?;
        }
        state.send(&PluginMessage::Exit { code, reason: reason.filter(|_| code != 0) })
    }
}

impl State {
    fn send(&mut self, message: &PluginMessage) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.out.write_all(&line)?;
        self.out.flush()
    }

    /// Prints a message for people, or logs it if stdout carries data.
    fn send_to_people(&mut self, level: &'static str, text: &str) -> io::Result<()> {
        if self.is_data {
            self.send(&PluginMessage::Log { level, message: text.trim_end().to_owned() })
        } else {
            self.print(text)
        }
    }

    fn print(&mut self, text: &str) -> io::Result<()> {
        let mut rest = text;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(TEXT_BYTES_MAX));
            rest = after;
            self.send(&PluginMessage::Print { text: part.to_owned(), channel: "content", format: "plain" })?;
        }
        Ok(())
    }
}

/// Returns the number of bytes at the end that begin a character without ending it.
fn incomplete_suffix(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes.get(bytes.len().saturating_sub(3)..).unwrap_or_default()) {
        Ok(_) => 0,
        // The limit of three bytes may have split an earlier character, so only the end is checked.
        Err(_) => {
            (1..=bytes.len().min(3)).find(|length| is_beginning(&bytes[bytes.len() - length..])).unwrap_or(0)
        }
    }
}

/// Returns whether these bytes are the beginning of a longer character.
fn is_beginning(bytes: &[u8]) -> bool {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return false,
    };
    bytes.len() < length && bytes[1..].iter().all(|byte| (0x80..0xc0).contains(byte))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;

    /// A pipe whose bytes a test reads.
    #[derive(Clone, Default)]
    struct Pipe(Arc<Mutex<Vec<u8>>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the messages of a connection after `act`.
    fn messages(act: impl FnOnce(&Connection)) -> Vec<Value> {
        let pipe = Pipe::default();
        act(&Connection::new(Box::new(pipe.clone())));
        let bytes = pipe.0.lock().unwrap().clone();
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    fn texts(messages: &[Value]) -> String {
        messages.iter().filter_map(|message| message["text"].as_str()).collect()
    }

    #[test]
    fn split_characters_arrive_whole() {
        let text = "aä€😀 z";
        for size in 1..=text.len() {
            let messages = messages(|connection| {
                text.as_bytes().chunks(size).for_each(|chunk| connection.print(chunk).unwrap());
                connection.exit(0).unwrap();
            });
            assert_eq!(texts(&messages), text, "chunks of {size} bytes");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        let messages = messages(|connection| {
            connection.print(b"a\xff\xfeb\xe2\x82").unwrap();
            connection.exit(0).unwrap();
        });
        assert_eq!(texts(&messages), "a\u{fffd}\u{fffd}b\u{fffd}");
    }

    #[test]
    fn long_text_is_split_into_messages() {
        let text = "ä".repeat(TEXT_BYTES_MAX);
        let messages = messages(|connection| connection.print(text.as_bytes()).unwrap());
        assert!(messages.len() >= 2);
        assert_eq!(texts(&messages), text);
    }

    #[test]
    fn errors_are_the_reason_of_a_failed_exit() {
        let messages = messages(|connection| {
            connection.report(MessageLevel::Error, "error: one\n");
            connection.report(MessageLevel::Info, "done\n");
            connection.exit(4).unwrap();
        });
        assert_eq!(messages[0]["text"], "done\n");
        assert_eq!(messages[1], serde_json::json!({"type": "exit", "code": 4, "reason": "one"}));
    }

    #[test]
    fn messages_are_logged_if_stdout_is_data() {
        let messages = messages(|connection| {
            connection.set_data();
            connection.report(MessageLevel::Warn, "warning: old\n");
            connection.exit(0).unwrap();
        });
        assert_eq!(
            messages[0],
            serde_json::json!({"type": "log", "level": "warn", "message": "warning: old"})
        );
        assert_eq!(messages[1], serde_json::json!({"type": "exit", "code": 0}));
    }

    #[test]
    fn errors_of_a_successful_exit_are_printed_or_logged() {
        let exit = |is_data: bool| {
            messages(|connection| {
                if is_data {
                    connection.set_data();
                }
                connection.report(MessageLevel::Error, "failed: a.json: it is empty\n");
                connection.exit(0).unwrap();
            })
        };
        let printed = exit(false);
        assert_eq!(texts(&printed), "failed: a.json: it is empty\n");
        let logged = exit(true);
        assert_eq!(
            logged[0],
            serde_json::json!({"type": "log", "level": "error", "message": "failed: a.json: it is empty"})
        );
        for messages in [printed, logged] {
            assert_eq!(messages[1..], [serde_json::json!({"type": "exit", "code": 0})]);
        }
    }
}
