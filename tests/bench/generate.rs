//! Generator of JP conversations of any size from a seed. Layout, text sizes, and the shares of each event
//! kind are the same as in real conversations. A share counts the payload of an event on disk (message, reasoning,
//! arguments or content). Signatures on reasoning are added on top, in real sizes. Only one event is in
//! memory at a time. The generator must not read the clock: the same seed gives the same bytes.

#[path = "random_text.rs"]
pub(crate) mod random_text;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use jiff::{SignedDuration, Timestamp, civil, tz::TimeZone};
use random_text::{Random, code, encode, matches, prose};
use serde_json::{Value, json};

/// Shares in percent, as in real conversations.
pub(crate) const RESPONSES: usize = 65;
pub(crate) const ARGUMENTS: usize = 11;
pub(crate) const REASONING: usize = 10;
pub(crate) const USER: usize = 7;
pub(crate) const ASSISTANT: usize = 7;

/// Bytes of tool responses in a turn of a large conversation. Smaller conversations have smaller turns.
const TURN_BYTES: usize = 64 << 10;
/// Bytes that are reserved for the last message.
const LAST_BYTES: usize = 1 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamSize {
    /// Size of the stream.
    pub(crate) bytes: usize,
    /// Number of its elements.
    pub(crate) events: usize,
    /// Number of its turns.
    pub(crate) turns: usize,
}

/// Generates a conversation in `folder` whose stream has about `bytes` bytes.
pub(crate) fn conversation(seed: u64, bytes: usize, folder: &Path) -> io::Result<StreamSize> {
    let base = json!({
        "assistant": { "model": { "id": { "provider": "anthropic", "name": "test" } } },
        "conversation": { "title": { "generate": { "auto": false } }, "tools": { "*": { "run": "ask" } } },
    });
    fs::create_dir_all(folder)?;
    fs::write(folder.join("base_config.json"), format!("{base:#}\n"))?;
    // A large buffer: a file that was written in small pieces takes a fifth longer to read from the cache.
    let mut out = BufWriter::with_capacity(1 << 20, File::create(folder.join("events.json"))?);
    let written = stream(seed, bytes, &mut out)?;
    out.flush()?;
    Ok(written)
}

/// Writes a stream of about `bytes` bytes.
pub(crate) fn stream(seed: u64, bytes: usize, out: &mut impl Write) -> io::Result<StreamSize> {
    let mut generator = Generator {
        random: Random::new(seed),
        out,
        target_bytes: bytes,
        now: civil::date(2026, 3, 18)
            .at(11, 58, 1, 235_800_000)
            .to_zoned(TimeZone::UTC)
            .expect("the date is valid")
            .timestamp(),
        written: StreamSize { bytes: 0, events: 0, turns: 0 },
        payload: Payload::default(),
    };
    generator.write("[")?;
    while generator.remaining() > 0 {
        generator.write_turn()?;
    }
    generator.write("\n]\n")?;
    Ok(generator.written)
}

/// Payload bytes on disk so far, by event kind.
#[derive(Default)]
struct Payload {
    responses: usize,
    arguments: usize,
    reasoning: usize,
    user: usize,
    assistant: usize,
}

struct Generator<'a, W> {
    random: Random,
    out: &'a mut W,
    /// The intended size of the stream, in bytes.
    target_bytes: usize,
    now: Timestamp,
    written: StreamSize,
    payload: Payload,
}

impl<W: Write> Generator<'_, W> {
    /// Returns the bytes that are left before the last message.
    fn remaining(&self) -> usize {
        self.target_bytes.saturating_sub(self.written.bytes + LAST_BYTES)
    }

    /// Returns the bytes that a kind lacks to reach its share, relative to the tool responses written so far.
    fn missing(&self, payload: usize, share: usize) -> usize {
        (self.payload.responses * share / RESPONSES).saturating_sub(payload).min(self.remaining())
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.written.bytes += text.len();
        self.out.write_all(text.as_bytes())
    }

    /// Writes one event with a timestamp after the last one.
    fn write_event(&mut self, wait_ms: usize, kind: &str, members: Value) -> io::Result<()> {
        let wait_us = self.random.below(wait_ms * 1000) as i64 + 3;
        self.now += SignedDuration::from_micros(wait_us);
        let mut event = json!({ "timestamp": timestamp(self.now), "type": kind });
        if let (Value::Object(event), Value::Object(mut members)) = (&mut event, members) {
            event.append(&mut members);
        }
        self.write(if self.written.events == 0 { "\n  " } else { ",\n  " })?;
        self.written.events += 1;
        let text = format!("{event:#}").replace('\n', "\n  ");
        self.write(&text)
    }

    /// Writes one turn: the user's request and everything up to the next one.
    fn write_turn(&mut self) -> io::Result<()> {
        self.written.turns += 1;
        self.write_config_change()?;
        self.write_event(600_000, "turn_start", json!({}))?;
        self.write_request()?;
        let turn_bytes = TURN_BYTES.min(self.target_bytes / 12);
        let end = self.payload.responses + turn_bytes / 2 + self.random.below(turn_bytes.max(1));
        while self.payload.responses < end && self.remaining() > 0 {
            self.write_reasoning()?;
            if self.random.percent(40) {
                let size = self.random.size(40, 3);
                self.write_message(size)?;
            }
            self.write_calls()?;
        }
        let size = self.missing(self.payload.assistant, ASSISTANT).max(200);
        self.write_message(size)
    }

    /// Writes a change of the configuration in some turns.
    fn write_config_change(&mut self) -> io::Result<()> {
        if !self.random.percent(10) {
            return Ok(());
        }
        let effort = self.random.pick(&["low", "medium", "high"]);
        let delta =
            json!({ "assistant": { "model": { "parameters": { "reasoning": { "effort": effort } } } } });
        self.write_event(1000, "config_delta", json!({ "delta": delta }))
    }

    /// Writes a short question or a long pasted text.
    fn write_request(&mut self) -> io::Result<()> {
        let missing = self.missing(self.payload.user, USER);
        let size = if self.random.percent(50) { self.random.size(40, 3) } else { missing.max(40) };
        let content = prose(&mut self.random, size, 80);
        self.payload.user += json_bytes(&content);
        self.write_event(1, "chat_request", json!({ "content": content }))
    }

    fn write_message(&mut self, size: usize) -> io::Result<()> {
        let message = prose(&mut self.random, size, 6);
        self.payload.assistant += json_bytes(&message);
        self.write_event(6000, "chat_response", json!({ "message": message }))
    }

    /// Writes signed reasoning if its share is not reached.
    fn write_reasoning(&mut self) -> io::Result<()> {
        let missing = self.missing(self.payload.reasoning, REASONING).min(self.remaining() / 8);
        if missing < 100 || self.random.percent(40) {
            return Ok(());
        }
        let size = self.random.size(100, 7).min(missing);
        let reasoning = prose(&mut self.random, size, 6);
        self.payload.reasoning += json_bytes(&reasoning);
        let bytes = 300 + reasoning.len() * (25 + self.random.below(35)) / 10;
        let signature = random_text::signature(&mut self.random, bytes);
        let metadata = json!({ "anthropic_thinking_signature": signature });
        self.write_event(9000, "chat_response", json!({ "reasoning": reasoning, "metadata": metadata }))
    }

    /// Writes one or more tool calls, then their responses.
    fn write_calls(&mut self) -> io::Result<()> {
        let count = if self.random.percent(60) { 1 } else { 2 + self.random.below(4) };
        let mut requests = Vec::with_capacity(count);
        for _ in 0..count {
            let id = random_text::call_id(&mut self.random);
            let (name, arguments) = self.tool_and_arguments();
            self.payload.arguments += arguments_bytes(&arguments);
            let request = json!({ "id": id, "name": name, "arguments": arguments });
            self.write_event(3000, "tool_call_request", request)?;
            requests.push((id, name));
        }
        for (id, name) in requests {
            if name == "fs_modify_file" && self.random.percent(50) {
                self.write_inquiry(&id, name)?;
            }
            let content = self.tool_output(name);
            self.payload.responses += content.len() + 2;
            let is_error = self.random.percent(4);
            let response = json!({ "id": id, "content": content, "is_error": is_error });
            self.write_event(300, "tool_call_response", response)?;
        }
        Ok(())
    }

    /// Returns a tool and its arguments. The arguments are large if their share is not reached.
    fn tool_and_arguments(&mut self) -> (&'static str, Value) {
        let missing = self.missing(self.payload.arguments, ARGUMENTS);
        let random = &mut self.random;
        let path = encode(random_text::path(random));
        let large = random.size(300, 6).min(missing) * 3 / 4;
        match random.below(6) {
            _ if large > 600 && random.percent(70) => {
                let (old, new) = (encode(code(random, large / 3)), encode(code(random, large * 2 / 3)));
                let patterns = json!([{ "old": old, "new": new }]);
                (
                    "fs_modify_file",
                    json!({ "path": path, "patterns": patterns, "replace_using_regex": false }),
                )
            }
            _ if large > 600 => {
                ("fs_create_file", json!({ "path": path, "content": encode(code(random, large)) }))
            }
            0 => ("cargo_check", json!({})),
            1 => ("cargo_test", json!({ "package": encode(random_text::name(random)) })),
            2 => {
                let start = random.below(800);
                ("fs_read_file", json!({ "path": path, "start_line": start, "end_line": start + 80 }))
            }
            3 => {
                let pattern = encode(format!("fn {}", random_text::name(random)));
                ("fs_grep_files", json!({ "pattern": pattern, "context": 3, "paths": [path] }))
            }
            _ => ("fs_read_file", json!({ "path": path })),
        }
    }

    /// Writes a tool's question for permission, and the answer.
    fn write_inquiry(&mut self, id: &str, name: &str) -> io::Result<()> {
        let id = format!("{id}.apply_changes");
        let patch = code(&mut self.random, 120).replace("```rs", "```diff");
        let question = json!({
            "text": format!("Do you want to apply the following patch?\n\n{patch}"),
            "answer_type": { "type": "boolean" },
            "default": true,
        });
        let source = json!({ "source": "tool", "name": name });
        self.write_event(
            200,
            "inquiry_request",
            json!({ "id": id, "source": source, "question": question }),
        )?;
        self.write_event(8000, "inquiry_response", json!({ "id": id, "answer": true }))
    }

    /// Returns a tool's output in base64.
    fn tool_output(&mut self, name: &str) -> String {
        let max_bytes = self.remaining().min(self.target_bytes / 12).max(48);
        let random = &mut self.random;
        let size = (random.size(48, 9) * 3 / 4).min(max_bytes);
        encode(match name {
            "fs_modify_file" | "fs_create_file" => {
                format!("File modified successfully: {}", random_text::path(random))
            }
            "fs_grep_files" => matches(random, size),
            "fs_read_file" => code(random, size),
            _ => prose(random, size, 6),
        })
    }
}

/// Formats a timestamp as JP does: trailing zeros trimmed, but at least one digit.
fn timestamp(time: Timestamp) -> String {
    let text = time.strftime("%Y-%m-%d %H:%M:%S.%6f").to_string();
    let trimmed = text.trim_end_matches('0');
    if trimmed.ends_with('.') { format!("{trimmed}0") } else { trimmed.to_owned() }
}

/// Returns the size of a JSON string, with quotes and escapes.
fn json_bytes(text: &str) -> usize {
    text.len() + 2 + text.bytes().filter(|byte| matches!(byte, b'"' | b'\\' | b'\n')).count()
}

/// Returns the size of arguments as they are laid out in a stream, four spaces deeper.
fn arguments_bytes(arguments: &Value) -> usize {
    let text = format!("{arguments:#}");
    text.len() + 4 * text.bytes().filter(|byte| *byte == b'\n').count()
}
