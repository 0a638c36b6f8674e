//! Sessions that are read in windows: each is written back like the whole session, for windows of any size.

use std::convert::Infallible;

use jp_compact_core::overlay::{Overlay, ToolPolicy};
use jp_compact_core::projection::project_with_overlays;
use jp_compact_core::splice::{Piece, concat};
use jp_compact_schema::Reasoning;
use jp_compact_transcripts::{self as transcripts, Format, Transcript, WindowedFile};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::check::overlay;
use crate::samples;

/// The result of a read: the file for each list of overlays, the warnings, and whether the session is understood.
#[derive(Debug, PartialEq)]
struct Written {
    files: Vec<Vec<u8>>,
    warnings: Vec<String>,
    is_understood: bool,
}

/// Reads in windows. Each read returns at most as many bytes as the next size; the last size repeats. `None` if the
/// whole file must be read.
fn read_in_windows(file: &[u8], sizes: &[usize]) -> Option<Transcript> {
    transcripts::read_in_windows(Format::ClaudeCode, file.len(), windows(file, sizes)).unwrap().ok()
}

fn windows(file: &[u8], sizes: &[usize]) -> Box<dyn WindowedFile> {
    Box::new(Windows { file: file.to_vec(), offset: 0, sizes: sizes.to_vec() })
}

struct Windows {
    file: Vec<u8>,
    offset: usize,
    sizes: Vec<usize>,
}

impl WindowedFile for Windows {
    fn read_next(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let size = if self.sizes.len() > 1 { self.sizes.remove(0) } else { self.sizes[0] };
        let rest = &self.file[self.offset..];
        let bytes = size.min(rest.len()).min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        self.offset += bytes;
        Some(bytes)
    }

    fn on_event(&mut self, _turn: usize, _bytes: &[u8]) {}
}

/// Returns the file that is written from a session's log and some overlays, and the warnings. `None` if that fails.
fn condensed(file: &[u8], sizes: &[usize], overlays: &[Overlay]) -> Option<(Vec<u8>, Vec<String>)> {
    let (stream, session) = transcripts::condense(Format::ClaudeCode, file.len(), windows(file, sizes))?;
    transcripts::examine(&stream).ok()?;
    let (turns, events) = (session.turns(), session.ranges().map(|(_, range)| range).collect::<Vec<_>>());
    let whole = transcripts::read(Format::ClaudeCode, file.to_vec().into()).unwrap();
    assert_eq!((stream.turns(), turns), (whole.turns(), whole.turns()));
    let in_file = |range: &std::ops::Range<usize>| range.end <= file.len();
    assert_eq!(
        events.into_iter().filter(in_file).collect::<Vec<_>>(),
        whole
            .events()
            .iter()
            .map(|event| event.span.start..event.span.end)
            .filter(in_file)
            .collect::<Vec<_>>()
    );
    let mut written = Vec::new();
    let write = |pieces: &[Piece]| -> Result<(), Infallible> {
        pieces.iter().for_each(|piece| written.extend_from_slice(piece.bytes(file)));
        Ok(())
    };
    session.compacted(overlays)?.write(write).unwrap();
    Some((written, stream.warnings().to_vec()))
}

fn has_missed(stream: &Transcript) -> bool {
    stream.index().kept().unwrap().has_missed()
}

fn written(stream: &Transcript, file: &[u8]) -> Written {
    let overlays = overlays(stream.turns());
    let files = overlays
        .iter()
        .map(|overlays| concat(&transcripts::render(stream, &project_with_overlays(stream, overlays)), file));
    let (files, warnings) = (files.collect(), stream.warnings().to_vec());
    Written { files, warnings, is_understood: transcripts::examine(stream).is_ok() }
}

fn overlays(turns: usize) -> Vec<Vec<Overlay>> {
    let last = turns.saturating_sub(1);
    let strip =
        |request, response| Some(ToolPolicy::Strip { request, response, overrides: Default::default() });
    let with = |tool_calls, reasoning| Overlay { tool_calls, reasoning, ..overlay(0, last) };
    vec![
        vec![],
        vec![with(strip(true, true), Some(Reasoning::Strip))],
        vec![with(strip(false, true), None)],
        vec![Overlay { tool_calls: Some(ToolPolicy::Omit), ..overlay(last / 2, last / 2) }],
        vec![
            with(strip(true, false), None),
            Overlay { tool_calls: Some(ToolPolicy::Omit), ..overlay(last / 2, last) },
        ],
        vec![Overlay { reasoning: Some(Reasoning::Strip), ..overlay(last / 2, last / 2) }],
        vec![
            Overlay { reasoning: Some(Reasoning::Strip), ..overlay(0, last / 2) },
            Overlay { from_step: Some(1), tool_calls: Some(ToolPolicy::Omit), ..overlay(last / 2, last) },
        ],
    ]
}

/// Compares reads in windows, with and without a log, with a whole read. Returns whether both were possible.
#[track_caller]
fn check(file: &[u8], sizes: &[usize]) -> bool {
    let is_logged = check_condensed(file, sizes);
    check_windows(file, sizes) && is_logged
}

/// Compares the files that are written from the log and from the whole file. Returns whether the log was enough.
#[track_caller]
fn check_condensed(file: &[u8], sizes: &[usize]) -> bool {
    let Ok(whole) = transcripts::read(Format::ClaudeCode, file.to_vec().into()) else {
        assert_eq!(condensed(file, sizes, &[]), None);
        return false;
    };
    let expected = written(&whole, file);
    for (overlays, expected_file) in overlays(whole.turns()).iter().zip(expected.files) {
        if !overlays.iter().all(transcripts::can_be_condensed) {
            continue;
        }
        let Some((actual, warnings)) = condensed(file, sizes, overlays) else { return false };
        let [actual, expected_file] =
            [actual, expected_file].map(|file| String::from_utf8_lossy(&file).into_owned());
        assert!(actual == expected_file, "{overlays:#?}\n{actual}\n{expected_file}");
        assert_eq!(warnings, expected.warnings);
    }
    true
}

/// Compares a read in windows with a whole read. Returns whether the file was read in windows.
#[track_caller]
fn check_windows(file: &[u8], sizes: &[usize]) -> bool {
    let whole = transcripts::read(Format::ClaudeCode, file.to_vec().into());
    let Some(stream) = read_in_windows(file, sizes) else { return false };
    let actual = written(&stream, file);
    if has_missed(&stream) || !actual.is_understood {
        return false;
    }
    let expected = written(&whole.unwrap(), file);
    if actual != expected {
        let text = |written: &Written| {
            written.files.iter().map(|file| String::from_utf8_lossy(file).into_owned()).collect::<Vec<_>>()
        };
        panic!(
            "{:#?}\n{:#?}\n{:?}\n{:?}",
            text(&actual),
            text(&expected),
            actual.warnings,
            expected.warnings
        );
    }
    true
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[a-z\"\\\\\n\u{e9}\u{1f600}]{0,12}",
        2 => "[a-zA-Z0-9+/\u{e9}\\\\\" ]{200,900}",
        1 => "[ \n\u{2003}]{0,40}",
        1 => Just("[image]".to_owned()),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just("Edit".to_owned()), 2 => "[a-z_\"\u{e9}]{1,30}", 1 => "[a-z]{40,120}"]
}

/// A block of a message of the assistant (`true`) or of the user.
fn block() -> impl Strategy<Value = (bool, Value)> {
    let id = "toolu_[a-c]";
    prop_oneof![
        3 => text().prop_map(|text| (true, json!({"type": "text", "text": text}))),
        3 => (text(), text()).prop_map(|(text, signature)| {
            (true, json!({"type": "thinking", "thinking": text, "signature": signature}))
        }),
        3 => (id, name(), text()).prop_map(|(id, name, text)| {
            (true, json!({"type": "tool_use", "id": id, "name": name, "input": {"a": text}}))
        }),
        1 => (id, name()).prop_map(|(id, name)| {
            (true, json!({"name": name, "type": "tool_use", "id": id, "input": {}}))
        }),
        4 => (id, text(), any::<bool>()).prop_map(|(id, text, is_error)| {
            (false, json!({"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error}))
        }),
        1 => (id, text()).prop_map(|(id, text)| {
            let image = json!({"type": "image", "source": {"data": text}});
            let blocks = json!([{"type": "text", "text": text}, image]);
            (false, json!({"type": "tool_result", "tool_use_id": id, "content": blocks}))
        }),
        1 => id.prop_map(|id| (false, json!({"type": "tool_result", "tool_use_id": id}))),
        2 => text().prop_map(|text| (false, json!({"type": "text", "text": text}))),
        1 => text().prop_map(|data| (true, json!({"type": "redacted_thinking", "data": data}))),
        1 => text().prop_map(|text| (true, json!({"type": "new_block", "text": text}))),
    ]
}

/// The choices for one line.
#[derive(Debug, Clone)]
struct LineChoice {
    blocks: Vec<(bool, Value)>,
    text: String,
    form: u32,
    /// The distance to the parent.
    parent: usize,
    break_bytes: &'static str,
    half: String,
}

fn line() -> impl Strategy<Value = LineChoice> {
    let parent = prop_oneof![12 => Just(1_usize), 1 => 0..6_usize];
    let break_bytes = prop_oneof![8 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\n\n"), 1 => Just(" \n")];
    let half = prop_oneof![20 => Just(""), 1 => Just("\\ud800")];
    (prop::collection::vec(block(), 1..4), text(), 0..24_u32, parent, break_bytes, half).prop_map(
        |(blocks, text, form, parent, break_bytes, half)| LineChoice {
            blocks,
            text,
            form,
            parent,
            break_bytes,
            half: half.into(),
        },
    )
}

fn session(lines: &[LineChoice], ends_with_break: bool) -> Vec<u8> {
    let mut file = String::new();
    for (number, line) in lines.iter().enumerate() {
        let is_assistant = line.blocks[0].0;
        let blocks = line.blocks.iter().filter(|(other, _)| *other == is_assistant).map(|(_, block)| block);
        let blocks: Vec<&Value> = blocks.collect();
        let role = if is_assistant { "assistant" } else { "user" };
        let parent = number.checked_sub(line.parent).map(|parent| format!("u{parent}"));
        let mut record = json!({
            "parentUuid": parent, "isSidechain": line.form == 20, "sessionId": "s", "type": role,
            "message": {"id": format!("m{}", number / 2), "role": role, "content": blocks, "model": "claude-9"},
            "uuid": format!("u{number}"), "timestamp": format!("2026-03-01T09:00:{:02}.000Z", number % 60),
        });
        match line.form {
            0..4 => record["toolUseResult"] = json!({"originalFile": line.text, "structuredPatch": []}),
            4..6 => record["toolUseResult"] = line.text.clone().into(),
            6..12 => {
                record["type"] = "user".into();
                record["message"] = json!({"role": "user", "content": line.text});
            }
            12 => record = json!({"type": "summary", "summary": line.text, "leafUuid": "u1"}),
            13 => record = json!({"type": "unknown-record", "text": line.text}),
            14 => {
                record["type"] = "attachment".into();
                record["attachment"] = json!({"type": "file", "content": {"file": {"content": line.text}}});
            }
            15 => record["isMeta"] = true.into(),
            16 => {
                record["type"] = "system".into();
                record["compactMetadata"] = json!({"preservedSegment": {"headUuid": "u1", "tailUuid": "u3"}});
                record.as_object_mut().unwrap().remove("message");
            }
            _ => {}
        }
        let text = record.to_string().replacen("claude-9", &format!("claude-9{}", line.half), 1);
        file.push_str(&text);
        file.push_str(line.break_bytes);
    }
    let mut file = file.into_bytes();
    while !ends_with_break && file.last().is_some_and(u8::is_ascii_whitespace) {
        file.pop();
    }
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn windows_do_not_change_the_written_session(
        lines in prop::collection::vec(line(), 1..24), ends_with_break in any::<bool>(),
        sizes in prop::collection::vec(1..2_000_usize, 1..4),
    ) {
        check(&session(&lines, ends_with_break), &sizes);
    }

    #[test]
    fn damaged_session_is_read_as_a_whole_or_in_the_same_way(
        lines in prop::collection::vec(line(), 1..10), sizes in prop::collection::vec(1..2_000_usize, 1..4),
        at in any::<prop::sample::Index>(), byte in prop_oneof![Just(b'"'), Just(b'}'), Just(b'\n'), Just(0xFF), any::<u8>()],
    ) {
        let mut file = session(&lines, true);
        let at = at.index(file.len());
        file[at] = byte;
        check(&file, &sizes);
    }
}

#[test]
fn samples_are_read_in_windows() {
    let samples = samples::project_samples(Format::ClaudeCode).into_iter();
    for sample in samples.chain(samples::program_samples("claude-code")) {
        for size in [1, 700, 1 << 20] {
            let is_whole = transcripts::read(Format::ClaudeCode, sample.bytes.clone().into())
                .is_ok_and(|stream| stream.warnings().is_empty());
            assert!(check(&sample.bytes, &[size]) || !is_whole, "{}", sample.name);
        }
    }
}

#[test]
fn file_that_ends_at_any_byte_is_read_in_the_same_way() {
    let sample = samples::project_samples(Format::ClaudeCode).remove(0);
    for end in 0..=sample.bytes.len().min(4_000) {
        check(&sample.bytes[..end], &[300]);
    }
}

#[test]
fn long_lines_and_results_stay_in_the_file() {
    let result = |number: usize, text: String| LineChoice {
        blocks: vec![(false, json!({"type": "tool_result", "tool_use_id": "a", "content": text}))],
        text: "\u{e9}".repeat(number % 3 * 100_000),
        form: 0,
        parent: 1,
        break_bytes: "\n",
        half: String::new(),
    };
    let call = LineChoice {
        blocks: vec![(true, json!({"type": "tool_use", "id": "a", "name": "Edit", "input": {"a": "b"}}))],
        form: 23,
        ..result(0, String::new())
    };
    let lines: Vec<LineChoice> = (0..40)
        .map(
            |number| if number % 2 == 0 { call.clone() } else { result(number, "\u{1f600}\\".repeat(9_000)) },
        )
        .collect();
    assert!(check(&session(&lines, true), &[usize::MAX]));
}

#[test]
fn short_file_is_an_error() {
    let file = samples::project_samples(Format::ClaudeCode).remove(0).bytes;
    let read = transcripts::read_in_windows(Format::ClaudeCode, file.len() + 1, windows(&file, &[100]));
    read.unwrap().unwrap_err();
}

#[test]
fn other_formats_are_not_read_in_windows() {
    assert!(transcripts::read_in_windows(Format::Codex, 0, windows(b"", &[1])).is_none());
}

#[test]
fn beginning_must_have_enough_lines() {
    let line = "{\"type\":\"user\",\"uuid\":\"u1\",\"parentUuid\":null,\"sessionId\":\"s\"}\n";
    assert_eq!(transcripts::detect_beginning(line.repeat(40).as_bytes()), Some(Format::ClaudeCode));
    assert_eq!(transcripts::detect_beginning(line.repeat(39).as_bytes()), None);
    let cut = &line.repeat(40)[..line.len() * 40 - 1];
    assert_eq!(transcripts::detect_beginning(cut.as_bytes()), None);
    assert_eq!(transcripts::detect_beginning(format!("[\n{}", line.repeat(40)).as_bytes()), None);
}
