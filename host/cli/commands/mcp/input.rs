//! A filter for the lines of an agent, in front of the MCP library. The library silently drops a line that is too long or is
//! not JSON, and then the agent would wait forever for an answer. This filter replaces such a line with a request that the
//! server answers with an error, under the id of the line if it has one. It must not buffer more than the longest valid
//! line.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, ReadBuf};

/// The limit of a line. Calls are short: a path, a profile, a focus.
const LINE_BYTES_MAX: usize = 4 << 20;
/// The method of the request that replaces a rejected line.
pub(super) const REFUSED: &str = "jp-compact/refused";
/// A line that the library answers as an invalid request without an id.
const INVALID: &[u8] = b"{}\n";
/// The limit of a key or an id.
const TOKEN_BYTES_MAX: usize = 64;

/// A reader that passes valid lines and replaces the others.
pub(super) struct FilteredInput<R> {
    from: R,
    chunk: Box<[u8]>,
    filter: LineFilter,
    ready: Vec<u8>,
    read: usize,
    has_ended: bool,
}

impl<R> FilteredInput<R> {
    pub(super) fn new(from: R) -> Self {
        let chunk = vec![0; 64 << 10].into_boxed_slice();
        Self { from, chunk, filter: LineFilter::default(), ready: Vec::new(), read: 0, has_ended: false }
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
            if this.read < this.ready.len() {
                let some = &this.ready[this.read..];
                let some = &some[..some.len().min(out.remaining())];
                out.put_slice(some);
                this.read += some.len();
                return Poll::Ready(Ok(()));
            }
            (this.ready, this.read) = (Vec::new(), 0);
            if this.has_ended {
                return Poll::Ready(Ok(()));
            }
            let mut chunk = ReadBuf::new(&mut this.chunk);
            ready!(Pin::new(&mut this.from).poll_read(context, &mut chunk))?;
            if chunk.filled().is_empty() {
                this.has_ended = true;
                this.filter.end(&mut this.ready);
            } else {
                this.filter.take(chunk.filled(), &mut this.ready);
            }
        }
    }
}

/// The current line.
#[derive(Default)]
struct LineFilter {
    line: Vec<u8>,
    bytes: usize,
    /// Searches the id of a line that is too long to buffer.
    scan: IdScanner,
    /// The refusal that was already written for this line.
    refusal: Refusal,
}

#[derive(Default, PartialEq)]
enum Refusal {
    #[default]
    Nothing,
    /// An invalid request without an id.
    Invalid,
    /// A refusal with the id of the line.
    Refused,
}

impl LineFilter {
    /// Filters bytes, and appends their replacement to `out`.
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let was = self.bytes;
            self.bytes += part.len();
            if self.bytes <= LINE_BYTES_MAX {
                self.line.extend_from_slice(part);
            } else {
                if was <= LINE_BYTES_MAX {
                    let held = std::mem::take(&mut self.line);
                    self.scan.take(&held);
                }
                self.scan.take(part);
                // The line may never end, so it is refused now.
                self.refuse_long(out);
            }
            if part.ends_with(b"\n") {
                if self.bytes <= LINE_BYTES_MAX {
                    self.pass(out);
                } else if self.refusal == Refusal::Nothing {
                    out.extend_from_slice(INVALID);
                }
                *self = Self::default();
            }
        }
    }

    /// Handles the end of the input after an unfinished line.
    fn end(&mut self, out: &mut Vec<u8>) {
        if self.bytes > LINE_BYTES_MAX || self.line.trim_ascii().is_empty() {
            return;
        }
        self.line.push(b'\n');
        if is_json(&self.line) {
            out.append(&mut self.line);
        } else {
            out.extend_from_slice(INVALID);
        }
    }

    /// Passes or refuses a whole line.
    fn pass(&mut self, out: &mut Vec<u8>) {
        if self.line.trim_ascii().is_empty() || is_json(&self.line) {
            out.append(&mut self.line);
            return;
        }
        self.scan.take(&self.line);
        match self.scan.id() {
            Some(id) => refuse(&id, "the line is not JSON, or it is nested too deeply".into(), out),
            None => out.extend_from_slice(INVALID),
        }
    }

    /// Refuses a long line, once without an id and once with it when it is known.
    fn refuse_long(&mut self, out: &mut Vec<u8>) {
        match self.scan.id().filter(|_| self.refusal != Refusal::Refused) {
            Some(id) => {
                refuse(&id, format!("the line is longer than {LINE_BYTES_MAX} bytes"), out);
                self.refusal = Refusal::Refused;
            }
            None if self.refusal == Refusal::Nothing => {
                out.extend_from_slice(INVALID);
                self.refusal = Refusal::Invalid;
            }
            None => {}
        }
    }
}

/// Whether the library will parse the line.
fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<Value>(line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)).is_ok()
}

fn refuse(id: &Value, what: String, out: &mut Vec<u8>) {
    let line = json!({ "jsonrpc": "2.0", "id": id, "method": REFUSED, "params": { "what": what } });
    out.extend_from_slice(format!("{line}\n").as_bytes());
}

/// Finds the member `id` of an object in chunks of any size.
#[derive(Default)]
struct IdScanner {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    key: Vec<u8>,
    token: Vec<u8>,
    id: Option<Vec<u8>>,
}

impl IdScanner {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.in_string {
                self.keep(*byte);
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
                    self.keep(*byte);
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.member_ends();
                    self.depth = self.depth.saturating_sub(1);
                }
                b':' if self.depth == 1 => self.key = std::mem::take(&mut self.token),
                b',' => self.member_ends(),
                byte if byte.is_ascii_whitespace() => {}
                byte => self.keep(*byte),
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() <= TOKEN_BYTES_MAX {
            self.token.push(byte);
        }
    }

    fn member_ends(&mut self) {
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

    /// Checks the lines that replace these bytes, in chunks of several sizes. A refused line is named by its id.
    #[track_caller]
    fn check(bytes: &[u8], expect: &[&str]) {
        for size in [1, 7, bytes.len()] {
            let (mut filter, mut out) = (LineFilter::default(), Vec::new());
            bytes.chunks(size).for_each(|piece| filter.take(piece, &mut out));
            filter.end(&mut out);
            let lines: Vec<String> = out
                .split_inclusive(|byte| *byte == b'\n')
                .map(|line| match serde_json::from_slice::<Value>(line) {
                    Ok(value) if value["method"] == REFUSED => format!("refused {}", value["id"]),
                    _ => String::from_utf8_lossy(line).trim_end().to_owned(),
                })
                .collect();
            assert_eq!(lines, expect, "in pieces of {size}");
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
        let check = |line: String, expect: &[&str]| {
            let (mut filter, mut out) = (LineFilter::default(), Vec::new());
            line.as_bytes().chunks(64 << 10).for_each(|piece| filter.take(piece, &mut out));
            filter.end(&mut out);
            let out = String::from_utf8(out).unwrap();
            let said: Vec<_> =
                out.lines().map(|line| if line == "{}" { "invalid" } else { &line[..20] }).collect();
            assert_eq!(said, expect);
            assert!(filter.line.capacity() <= 2 * LINE_BYTES_MAX);
        };
        let refused = &"{\"jsonrpc\":\"2.0\",\"id\":1,"[..20];
        check(format!("{{\"id\":1,\"x\":\"{long}\"}}\n"), &[refused]);
        check(format!("{{\"x\":\"{long}\",\"id\":1}}\n"), &["invalid", refused]);
        check(format!("{{\"x\":\"{long}"), &["invalid"]);
        check(format!("{long}\n"), &["invalid"]);
    }
}
