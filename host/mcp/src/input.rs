//! A filter between stdin and the MCP library. The library silently drops a line that is too long or not JSON, so the
//! agent would wait forever for an answer. This filter replaces such a line with a request that the server answers with
//! an error. If the line has an id, the request has it, too. The filter must not buffer more than the longest valid
//! line.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, ReadBuf};

/// The size limit of a line. Calls are short: a path, a profile, a focus.
const LINE_BYTES_MAX: usize = 4 << 20;
/// The method of the request that replaces a refused line.
pub const REFUSED: &str = "jp-compact/refused";
/// A line that the library answers as an invalid request without an id.
const INVALID: &[u8] = b"{}\n";
/// The size limit of a key or an id.
const TOKEN_BYTES_MAX: usize = 64;

/// A reader that passes valid lines and replaces the others.
#[expect(missing_debug_implementations, reason = "the source may have none")]
pub struct FilteredInput<R> {
    source: R,
    chunk: Box<[u8]>,
    filter: LineFilter,
    /// The filtered bytes, and how many of them the library has read.
    filtered: Vec<u8>,
    position: usize,
    has_ended: bool,
}

impl<R> FilteredInput<R> {
    /// Creates a reader of the lines of `source`.
    #[must_use]
    pub fn new(source: R) -> Self {
        Self {
            source,
            chunk: vec![0; 64 << 10].into_boxed_slice(),
            filter: LineFilter::default(),
            filtered: Vec::new(),
            position: 0,
            has_ended: false,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for FilteredInput<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.position < this.filtered.len() {
                let length = out.remaining().min(this.filtered.len() - this.position);
                out.put_slice(&this.filtered[this.position..][..length]);
                this.position += length;
                return Poll::Ready(Ok(()));
            }
            (this.filtered, this.position) = (Vec::new(), 0);
            if this.has_ended {
                return Poll::Ready(Ok(()));
            }
            let mut chunk = ReadBuf::new(&mut this.chunk);
            ready!(Pin::new(&mut this.source).poll_read(context, &mut chunk))?;
            if chunk.filled().is_empty() {
                this.has_ended = true;
                this.filter.end(&mut this.filtered);
            } else {
                this.filter.push(chunk.filled(), &mut this.filtered);
            }
        }
    }
}

/// The state of the current line.
#[derive(Default)]
struct LineFilter {
    /// The line, unless it is too long.
    line: Vec<u8>,
    length: usize,
    /// Finds the id of a line that is too long or not JSON.
    scanner: IdScanner,
    /// The last replacement that was already written for this line.
    replacement: Replacement,
}

#[derive(Default, PartialEq)]
enum Replacement {
    #[default]
    Nothing,
    /// An invalid request without an id.
    Invalid,
    /// A refusal with the id of the line.
    Refused,
}

impl LineFilter {
    /// Filters the next bytes of the input, and appends the lines for the library to `out`.
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.length += part.len();
            if self.length <= LINE_BYTES_MAX {
                self.line.extend_from_slice(part);
            } else {
                // The first time, this is the buffered beginning of the line. Later it is empty.
                self.scanner.push(&std::mem::take(&mut self.line));
                self.scanner.push(part);
                // The line may never end, so it is refused now.
                self.refuse_long(out);
            }
            if part.ends_with(b"\n") {
                if self.length <= LINE_BYTES_MAX {
                    self.pass_or_refuse(out);
                }
                *self = Self::default();
            }
        }
    }

    /// Handles a last line without a line break.
    fn end(&mut self, out: &mut Vec<u8>) {
        if self.length > LINE_BYTES_MAX || self.line.trim_ascii().is_empty() {
            return;
        }
        self.line.push(b'\n');
        if is_json(&self.line) {
            out.append(&mut self.line);
        } else {
            out.extend_from_slice(INVALID);
        }
    }

    /// Passes or refuses a complete line.
    fn pass_or_refuse(&mut self, out: &mut Vec<u8>) {
        if self.line.trim_ascii().is_empty() || is_json(&self.line) {
            out.append(&mut self.line);
            return;
        }
        self.scanner.push(&self.line);
        match self.scanner.id() {
            Some(id) => refuse(&id, "the line is not JSON, or it is nested too deeply".into(), out),
            None => out.extend_from_slice(INVALID),
        }
    }

    /// Refuses a line that is too long. If its id is not known yet, refuses it without an id now, and again with the id
    /// when it is known.
    fn refuse_long(&mut self, out: &mut Vec<u8>) {
        if self.replacement == Replacement::Refused {
            return;
        }
        if let Some(id) = self.scanner.id() {
            refuse(&id, format!("the line is longer than {LINE_BYTES_MAX} bytes"), out);
            self.replacement = Replacement::Refused;
        } else if self.replacement == Replacement::Nothing {
            out.extend_from_slice(INVALID);
            self.replacement = Replacement::Invalid;
        }
    }
}

/// Returns whether the library will parse the line.
fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<Value>(line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)).is_ok()
}

/// Appends the request that replaces a line with this id.
fn refuse(id: &Value, reason: String, out: &mut Vec<u8>) {
    let line = json!({ "jsonrpc": "2.0", "id": id, "method": REFUSED, "params": { "reason": reason } });
    out.extend_from_slice(format!("{line}\n").as_bytes());
}

/// Finds the member `id` of an object that arrives in chunks of any size.
#[derive(Default)]
struct IdScanner {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The key of the current member of the object, as JSON.
    key: Vec<u8>,
    /// The beginning of the current key or value of the object, as JSON.
    token: Vec<u8>,
    id: Option<Vec<u8>>,
}

impl IdScanner {
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.in_string {
                self.push_to_token(*byte);
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.push_to_token(*byte);
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.end_member();
                    self.depth = self.depth.saturating_sub(1);
                }
                b':' if self.depth == 1 => self.key = std::mem::take(&mut self.token),
                b',' => self.end_member(),
                byte if byte.is_ascii_whitespace() => {}
                byte => self.push_to_token(*byte),
            }
        }
    }

    fn push_to_token(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() <= TOKEN_BYTES_MAX {
            self.token.push(byte);
        }
    }

    fn end_member(&mut self) {
        if self.depth != 1 {
            return;
        }
        let (key, token) = (std::mem::take(&mut self.key), std::mem::take(&mut self.token));
        if key == b"\"id\"" && self.id.is_none() && token.len() <= TOKEN_BYTES_MAX {
            self.id = Some(token);
        }
    }

    /// Returns the id, if it is a number or a string.
    fn id(&self) -> Option<Value> {
        let id: Value = serde_json::from_slice(self.id.as_deref()?).ok()?;
        (id.is_i64() || id.is_u64() || id.is_string()).then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the lines for the library, with chunks of several sizes. A refusal is shown as `refused ID`.
    #[track_caller]
    fn check(bytes: &[u8], expected: &[&str]) {
        for size in [1, 7, bytes.len()] {
            let (mut filter, mut out) = (LineFilter::default(), Vec::new());
            bytes.chunks(size).for_each(|chunk| filter.push(chunk, &mut out));
            filter.end(&mut out);
            let lines: Vec<String> = out
                .split_inclusive(|byte| *byte == b'\n')
                .map(|line| match serde_json::from_slice::<Value>(line) {
                    Ok(value) if value["method"] == REFUSED => format!("refused {}", value["id"]),
                    _ => String::from_utf8_lossy(line).trim_end().to_owned(),
                })
                .collect();
            assert_eq!(lines, expected, "in chunks of {size}");
        }
    }

    #[test]
    fn passes_json_lines_unchanged() {
        check(b"{\"id\":1}\n\n[2]\r\n", &["{\"id\":1}", "", "[2]"]);
        check(b"{\"id\":1}", &["{\"id\":1}"]);
    }

    #[test]
    fn rejects_invalid_json_by_its_id() {
        check(b"{\"id\":7,\"x\":}\n", &["refused 7"]);
        check(
            b"{\"params\":{\"id\":1},\"x\":[1,\"id\",2],\"id\" : \"a,\\\"}\" ,]\n",
            &["refused \"a,\\\"}\""],
        );
        check(b"\xff\x00nonsense\n{\"id\":1}\n", &["{}", "{\"id\":1}"]);
        check(b"{\"id\":[1],\n", &["{}"]);
        let deep = format!("{{\"id\":3,\"x\":{}{}}}\n", "[".repeat(1000), "]".repeat(1000));
        check(deep.as_bytes(), &["refused 3"]);
    }

    #[test]
    fn truncated_last_line_is_invalid() {
        check(b"{\"id\":7,\"x\":", &["{}"]);
    }

    #[test]
    fn rejects_long_lines_by_id_in_any_position() {
        let long = "a".repeat(LINE_BYTES_MAX + (128 << 10));
        let check = |line: String, expected: &[&str]| {
            let (mut filter, mut out) = (LineFilter::default(), Vec::new());
            line.as_bytes().chunks(64 << 10).for_each(|chunk| filter.push(chunk, &mut out));
            filter.end(&mut out);
            let out = String::from_utf8(out).unwrap();
            let replacements: Vec<_> =
                out.lines().map(|line| if line == "{}" { "invalid" } else { &line[..20] }).collect();
            assert_eq!(replacements, expected);
            assert!(filter.line.capacity() <= 2 * LINE_BYTES_MAX);
        };
        let refused = &"{\"jsonrpc\":\"2.0\",\"id\":1,"[..20];
        check(format!("{{\"id\":1,\"x\":\"{long}\"}}\n"), &[refused]);
        check(format!("{{\"x\":\"{long}\",\"id\":1}}\n"), &["invalid", refused]);
        check(format!("{{\"x\":\"{long}"), &["invalid"]);
        check(format!("{long}\n"), &["invalid"]);
    }
}
