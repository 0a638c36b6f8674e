//! The records of `batch --ndjson`: one line of JSON in, one line of JSON out. Ids and inline JSON transcripts are
//! returned byte for byte. They must never be serialized again.

use bytes::Bytes;
use jp_compact_schema::record::BatchRecord;
use serde_json::value::RawValue;

use jp_compact_core::text;
use jp_compact_json::Scanner;

use crate::format::Format;
use crate::readers;

/// The number of items that the detection of a list's format reads.
const SAMPLE_ITEMS: usize = 40;

#[derive(Debug, Clone)]
pub struct Record {
    /// The id as JSON, `null` if there is none.
    pub id: Bytes,
    pub input: RecordInput,
    /// The format, if the record names one.
    pub format: Option<Format>,
}

#[derive(Debug, Clone)]
pub enum RecordInput {
    /// Inline JSON: an array, an object, or a string.
    Given(Bytes),
    Path(String),
}

/// A line that is not a valid record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRecord {
    /// The id as JSON, `null` if none can be found.
    pub id: Bytes,
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordForm {
    /// One JSON value that is the file.
    Value,
    /// An array of the file's lines.
    Lines,
    /// A string with the file's text.
    Text,
}

/// Parses a line. Unknown members are ignored, because they belong to another program.
///
/// # Errors
/// The line is not a valid record. The error carries the id if it can be found.
pub fn read(line: &Bytes) -> Result<Record, BadRecord> {
    let text = std::str::from_utf8(line).map_err(|error| {
        let what = format!("the line is not UTF-8: byte {}", error.valid_up_to());
        let lossy = String::from_utf8_lossy(line);
        let id = parse_record(&lossy)
            .ok()
            .and_then(|record| record.id.map(|id| Bytes::copy_from_slice(id.get().as_bytes())));
        BadRecord { id: id.unwrap_or_else(|| find_id(lossy.as_bytes())), what }
    })?;
    let record = parse_record(text).map_err(|what| BadRecord { id: find_id(line), what })?;
    let slice_of_line = |raw: &RawValue| line.slice_ref(raw.get().as_bytes());
    let id = record.id.map_or_else(null_id, slice_of_line);
    let bad_record = |what: String| BadRecord { id: id.clone(), what };
    let string = |raw: &RawValue, member: &str| {
        serde_json::from_str::<String>(raw.get())
            .map_err(|_| bad_record(format!("`{member}` is not a string")))
    };
    let format = match record.format {
        Some(format) => {
            let name = string(format, "format")?;
            Some(name.parse().map_err(|what| bad_record(format!("`format`: {what}")))?)
        }
        None => None,
    };
    let input = match (record.transcript, record.path) {
        (Some(raw), None) if matches!(raw.get().as_bytes().first(), Some(b'[' | b'{' | b'"')) => {
            RecordInput::Given(slice_of_line(raw))
        }
        (Some(_), None) => {
            return Err(bad_record("`transcript` is not an array, an object, or a string".into()));
        }
        (None, Some(path)) => RecordInput::Path(string(path, "path")?),
        (Some(_), Some(_)) => return Err(bad_record("the record has both `transcript` and `path`".into())),
        (None, None) => return Err(bad_record("the record has neither `transcript` nor `path`".into())),
    };
    Ok(Record { id, input, format })
}

fn parse_record(text: &str) -> Result<BatchRecord<'_>, String> {
    if !text.trim_start().starts_with('{') {
        return Err("the line is not a JSON object".into());
    }
    serde_json::from_str(text).map_err(|error| format!("the line is not a valid record: {error}"))
}

fn null_id() -> Bytes {
    Bytes::from_static(b"null")
}

/// Returns the id of a record that may be cut off or malformed, `null` without a complete id.
#[must_use]
pub fn find_id(line: &[u8]) -> Bytes {
    let mut id = None;
    // The parser of the whole line reports the error.
    let _ = Scanner::at_byte(line, 0).object(0, |scanner, key| {
        let value = scanner.value(1)?;
        // A number at the end of the bytes may be incomplete.
        if id.is_none() && text::unquote(key.slice(line)) == "id" && scanner.peek().is_some() {
            id = Some(Bytes::copy_from_slice(value.slice(line)));
        }
        Ok(())
    });
    id.unwrap_or_else(null_id)
}

/// Returns an inline transcript as a file, with its form and, if known, its format.
///
/// # Errors
/// The string or array cannot be decoded.
pub fn file(raw: &Bytes, format: Option<Format>) -> Result<(Bytes, RecordForm, Option<Format>), String> {
    match raw.first() {
        Some(b'"') => {
            let text: String = serde_json::from_slice(raw)
                .map_err(|error| format!("`transcript` is not a valid string: {error}"))?;
            Ok((text.into(), RecordForm::Text, format))
        }
        Some(b'[') => read_array(raw, format),
        _ => Ok((raw.clone(), RecordForm::Value, format)),
    }
}

/// Decides whether an array is a file or the lines of a file.
fn read_array(raw: &Bytes, format: Option<Format>) -> Result<(Bytes, RecordForm, Option<Format>), String> {
    let items: Vec<&RawValue> =
        serde_json::from_slice(raw).map_err(|error| format!("`transcript` is not a valid array: {error}"))?;
    let as_value = |format| Ok((raw.clone(), RecordForm::Value, format));
    let as_lines = |format| Ok((join_lines(&items), RecordForm::Lines, format));
    let sample = join_lines(&items[..items.len().min(SAMPLE_ITEMS)]);
    // If an item is a whole JP transcript, the items are not the lines of one transcript.
    let line_format = readers::detect(&sample).filter(|format| *format != Format::Jp);
    // One line of these formats identifies the format. An array of lines does not: each line has a type and a
    // timestamp, or a role, so the array resembles other formats.
    let has_distinct_lines = |format| match format {
        Format::ClaudeCode
        | Format::Codex
        | Format::Pi
        | Format::GeminiCli
        | Format::QwenCode
        | Format::KimiCli => true,
        Format::JCli => readers::is_surely_j_cli(&sample),
        _ => false,
    };
    if let Some(format) = format {
        let is_expected = line_format == Some(format);
        return match readers::detect(raw) {
            found if is_expected && (has_distinct_lines(format) || found != Some(format)) => {
                as_lines(Some(format))
            }
            _ => as_value(Some(format)),
        };
    }
    if line_format.is_some_and(has_distinct_lines) {
        return as_lines(line_format);
    }
    match (readers::detect(raw), line_format) {
        (None, Some(_)) => as_lines(line_format),
        (found, _) => as_value(found),
    }
}

fn join_lines(items: &[&RawValue]) -> Bytes {
    let mut lines = Vec::with_capacity(items.iter().map(|item| item.get().len() + 1).sum());
    for item in items {
        lines.extend_from_slice(item.get().as_bytes());
        lines.push(b'\n');
    }
    lines.into()
}

/// Appends a file as JSON of the given form, on one line. A file that is already on one line keeps its layout, except
/// for new values.
///
/// # Errors
/// The file is not UTF-8.
pub fn embed(file: &[u8], form: RecordForm, out: &mut Vec<u8>) -> Result<(), std::str::Utf8Error> {
    match form {
        RecordForm::Value => write_on_one_line(file, out),
        RecordForm::Text => {
            let text = std::str::from_utf8(file)?;
            serde_json::to_writer(out, text).expect("a string always serializes into memory");
        }
        RecordForm::Lines => {
            out.push(b'[');
            let lines = file.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
            for (index, line) in lines.enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(line);
            }
            out.push(b']');
        }
    }
    Ok(())
}

/// Appends JSON without its line breaks and indentation. Strings are not affected, because they contain no raw
/// breaks.
pub fn write_on_one_line(json: &[u8], out: &mut Vec<u8>) {
    for (index, line) in json.split(|byte| *byte == b'\n').enumerate() {
        let line = if index == 0 { line } else { line.trim_ascii_start() };
        out.extend_from_slice(line);
    }
}
