//! How much of a transcript its reader understood. A reader counts while it reads: the text of the events that it found,
//! and the text of the records that it cannot place. Records that it knows and that no model was sent (snapshots,
//! progress, usage, side chains, rewound branches, system prompts) count as neither.

use std::fmt;

use super::Format;
use super::unsupported;
use crate::event::{Event, Kind};
use crate::stream::Stream;

/// Text and records, as far as a reader went.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Coverage {
    /// Bytes of text in events.
    pub(super) understood: u64,
    /// Bytes of text that is in no event, and should be.
    pub(super) lost: u64,
    /// Records that hold such text.
    pub(super) records: u64,
}

impl Coverage {
    /// Counts a record that the reader cannot place.
    pub(super) fn lose(&mut self, raw: &[u8]) {
        let text = text_in(raw);
        self.lost += text;
        self.records += u64::from(text > 0);
    }

    /// The part that was understood, in percent; all of nothing.
    fn percent(self) -> u64 {
        (self.understood * 100).checked_div(self.understood + self.lost).unwrap_or(100)
    }
}

/// Why a transcript is refused although its records can be read: too little of it was understood.
#[derive(Debug, Clone)]
pub struct NotUnderstood {
    format: Format,
    coverage: Coverage,
    /// The program that it looks like, if that is not the format's.
    program: Option<&'static str>,
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { format, coverage, program } = self;
        let Coverage { understood, lost, records } = *coverage;
        if understood + lost == 0 {
            write!(out, "it holds no message of a conversation in the format `{format}`")?;
        } else {
            write!(
                out,
                "of {} bytes of text, {understood} are in records that the reader of `{format}` understands ({} %); \
                 {records} {} unknown",
                understood + lost,
                coverage.percent(),
                if records == 1 { "record is" } else { "records are" },
            )?;
        }
        match program {
            Some(program) => write!(out, "; it looks like a transcript of {program}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for NotUnderstood {}

/// Whether enough of a transcript was understood. What has to be said of the rest, if it is much.
///
/// # Errors
/// Less than half of its text was understood, or there is no turn in it.
pub fn examine(stream: &Stream) -> Result<Option<String>, NotUnderstood> {
    let (coverage, is_empty) = match stream.foreign() {
        Some(foreign) => {
            let is_blank = stream.bytes().trim_ascii().is_empty();
            (foreign.coverage, stream.turns() == 0 && !is_blank)
        }
        // JP keeps elements that it does not know, and sends none of them: one of its own is enough.
        None => {
            let is_known = |event: &Event| event.kind != Kind::Unknown;
            let is_none = !stream.events().is_empty() && !stream.events().iter().any(is_known);
            (Coverage::default(), is_none)
        }
    };
    let Coverage { understood, lost, records } = coverage;
    if is_empty || understood < lost {
        let program = unsupported::program(stream.bytes());
        return Err(NotUnderstood { format: stream.format(), coverage, program });
    }
    let is_much = coverage.percent() < 90;
    Ok(is_much.then(|| {
        format!(
            "{lost} of {} bytes of text are in {records} {} that the reader of `{}` does not understand: they stay \
             in the file, and no overlay covers them",
            understood + lost,
            if records == 1 { "record" } else { "records" },
            stream.format(),
        )
    }))
}

/// Bytes of the texts in JSON, which may be broken off: the strings that hold a space or characters that are not ASCII.
/// Keys, ids, times, and names of kinds do not.
fn text_in(raw: &[u8]) -> u64 {
    let is_text = |bytes: &[u8]| bytes.iter().any(|byte| *byte == b' ' || !byte.is_ascii());
    let raw = raw.trim_ascii();
    if !matches!(raw.first(), Some(b'{' | b'[' | b'"')) {
        return if is_text(raw) { raw.len() as u64 } else { 0 };
    }
    let (mut at, mut text) = (0, 0);
    while let Some(open) = memchr::memchr(b'"', &raw[at..]) {
        let start = at + open + 1;
        let mut end = start;
        while let Some(stop) = memchr::memchr2(b'"', b'\\', &raw[end..]) {
            end += stop;
            if raw[end] == b'"' {
                break;
            }
            end = raw.len().min(end + 2);
        }
        if end >= raw.len() || raw[end] != b'"' {
            end = raw.len();
        }
        let string = &raw[start..end];
        let is_key = raw[raw.len().min(end + 1)..].trim_ascii_start().first() == Some(&b':');
        if !is_key && is_text(string) {
            text += string.len() as u64;
        }
        at = raw.len().min(end + 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: &str) {
        assert_eq!(text_in(raw.as_bytes()), expected.len() as u64, "{raw}");
    }

    #[test]
    fn text_is_what_has_words() {
        check(r#"{"id":"a1","a key":"two words","n":1}"#, "two words");
        check(r#"{"a":["ok","größe",{"b":"x y"}]}"#, "größex y");
        check(r#"{"a":"he said \"no \\"}"#, r#"he said \"no \\"#);
    }

    #[test]
    fn what_is_broken_off_counts_up_to_its_end() {
        check(r#"{"a":"two words"#, "two words");
        check(r#"{"a":"two words \"#, r"two words \");
        check("starting up", "starting up");
        check("\0\0", "");
        check("{", "");
    }
}
