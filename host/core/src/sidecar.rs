//! The overlays of a transcript that somebody else writes: they lie beside it, in a file of ours (TRANSCRIPTS), in the
//! stream's own grammar. Each receipt there has one member more: the digest of the raw events of its range, for others
//! rewind and edit.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use crate::append::{self, Entry, Made};
use crate::formats::Format;
use crate::formats::jp::{self, Index, Unreadable};
use crate::json::{Malformed, Scanner, Span};
use crate::source::{self, Removal, Reset};
use crate::splice;
use crate::stream::Stream;
use crate::text;
use crate::turn::TurnRange;

/// What stands before and behind a transcript's name: a name that is hidden, and that no agent takes for a session of
/// its own. (Gemini CLI removes every `session-*.json` that is not one.)
pub const AROUND: (&str, &str) = (".", ".jp-compact");
/// What stood behind the name in version 0.1.0: such a file is read, and moved when it is next written.
pub const OLD_SUFFIX: &str = ".jp-compact.json";
/// The member of a receipt that bears the digest of its range.
pub const RANGE_DIGEST: &str = "range_xxh3";
/// The member that says what the file is, and its version.
const VERSION: &str = "jp_compact_sidecar";
/// An array that has nothing in it yet, as it is written.
const EMPTY: &[u8] = b"[\n]";

/// A transcript as it was when overlays were made of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Snapshot {
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

/// The overlays beside a transcript.
#[derive(Debug, Clone)]
pub struct Sidecar {
    file: Bytes,
    format: Format,
    snapshot: Snapshot,
    index: Index,
}

#[derive(Deserialize)]
struct Head {
    jp_compact_sidecar: u64,
    format: String,
    source: Snapshot,
}

impl Sidecar {
    /// Reads one.
    ///
    /// # Errors
    /// When the bytes are none, or an overlay is malformed.
    pub fn read(file: Bytes) -> Result<Self, Unreadable> {
        let wrong = |Malformed { at, what }| Unreadable { at, element: None, what: what.into() };
        let none = |what: String| Unreadable { at: 0, element: None, what };
        let mut overlays = Span::default();
        let mut scanner = Scanner::at_byte(&file, 0);
        scanner
            .object(0, |scanner, key| {
                let value = scanner.value(1)?;
                if text::unquote(key.of(&file)) == "overlays" {
                    overlays = value;
                }
                Ok(())
            })
            .map_err(wrong)?;
        let head: Head = serde_json::from_slice(&file)
            .map_err(|error| none(format!("these are no overlays of a transcript: {error}")))?;
        if head.jp_compact_sidecar != 1 {
            let version = head.jp_compact_sidecar;
            return Err(none(format!(
                "`{VERSION}` is {version}, and 1 is what can be read: a newer version wrote it"
            )));
        }
        let format = head.format.parse().map_err(none)?;
        let moved = |wrong: Unreadable| Unreadable { at: wrong.at + overlays.start, ..wrong };
        let index = jp::index(file.slice(overlays.start..overlays.end)).map_err(moved)?;
        Stream::from_index(index.clone()).map_err(moved)?;
        Ok(Self { file, format, snapshot: head.source, index })
    }

    /// The bytes that it was read from.
    #[must_use]
    pub fn file(&self) -> &Bytes {
        &self.file
    }

    /// The format that the transcript was in.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The transcript when overlays were last made of it.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// How many overlays there are.
    #[must_use]
    pub fn overlays(&self) -> usize {
        self.index.overlays()
    }

    /// The file without some overlays, and how many those are; an empty one where none is left. None when there is no
    /// overlay of that number.
    #[must_use]
    pub fn without(&self, which: Reset) -> Option<(Vec<u8>, usize)> {
        let Removal { pieces, overlays, .. } = source::reset(&self.index, which)?;
        if overlays == self.index.overlays() {
            return Some((Vec::new(), overlays));
        }
        Some((write(self.format, &self.snapshot, &splice::concat(&pieces, &self.index.bytes)), overlays))
    }
}

/// The file with overlays behind those that a transcript has. `digest` is of the raw events of a range.
#[must_use]
pub fn with(
    stream: &Stream,
    entries: &[Entry],
    made: &[Made],
    snapshot: &Snapshot,
    digest: &dyn Fn(TurnRange) -> String,
) -> Vec<u8> {
    let mut elements = append::elements(entries, made);
    for (receipt, made) in elements.iter_mut().skip(1).step_by(2).zip(made) {
        if let Some(range) = TurnRange::new(made.overlay.from_turn, made.overlay.to_turn) {
            receipt.insert(RANGE_DIGEST.into(), digest(range).into());
        }
    }
    let empty = jp::index(Bytes::from_static(EMPTY)).ok();
    let index = stream.sidecar().map(|sidecar| &sidecar.index).or(empty.as_ref());
    let overlays = index.map(|index| splice::concat(&splice::behind(index, &elements), &index.bytes));
    write(stream.format(), snapshot, &overlays.unwrap_or_default())
}

fn write(format: Format, snapshot: &Snapshot, overlays: &[u8]) -> Vec<u8> {
    let source = json!({ "bytes": snapshot.bytes, "sha256": snapshot.sha256 });
    let head =
        format!("{{\n\"{VERSION}\": 1,\n\"format\": \"{format}\",\n\"source\": {source},\n\"overlays\": ");
    [head.as_bytes(), overlays, b"\n}\n"].concat()
}
