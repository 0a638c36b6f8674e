//! A sidecar: the file with the overlays of a transcript that another program owns
//! (docs/reference/store.md#sidecar). It is next to the transcript and uses the grammar of JP's stream. Each receipt
//! has one more member, the digest of the raw events of its range, because the owner may rewind or edit the
//! transcript. This module never changes the transcript.

use bytes::Bytes;
use jp_compact_core::append::{self, Entry, NewOverlay};
use jp_compact_core::index::{self, Index, Unreadable};
use jp_compact_core::overlay::Overlay;
use jp_compact_core::source::{self, Removal, Reset};
use jp_compact_core::splice;
use jp_compact_core::stream::Stream;
use jp_compact_core::text;
use jp_compact_core::turn::TurnRange;
use jp_compact_json::{Malformed, Scanner, Span};
use serde::Deserialize;
use serde_json::json;

use crate::format::Format;

/// The prefix and suffix that are added to a transcript's file name. The result is a hidden file that no agent treats
/// as its own session. (Gemini CLI removes every `session-*.json` that is not a session.)
pub const AROUND: (&str, &str) = (".", ".jp-compact");
/// The suffix of version 0.1.0. A file with this suffix is read, and gets the new name at the next write.
pub const OLD_SUFFIX: &str = ".jp-compact.json";
/// The member of a receipt that holds the digest of its range.
pub const RANGE_DIGEST: &str = "range_xxh3";
/// The member that identifies a sidecar and holds its version.
const VERSION: &str = "jp_compact_sidecar";
/// An empty array of overlays, as it is written.
const EMPTY: &[u8] = b"[\n]";

/// The state of a transcript at the time when overlays were made from it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Snapshot {
    pub bytes: u64,
    /// In hexadecimal.
    pub sha256: String,
}

#[derive(Debug, Clone)]
pub struct Sidecar {
    file: Bytes,
    format: Format,
    snapshot: Snapshot,
    index: Index,
    overlays: Vec<Overlay>,
}

#[derive(Deserialize)]
struct SidecarHeader {
    jp_compact_sidecar: u64,
    format: String,
    source: Snapshot,
}

impl Sidecar {
    /// Parses a sidecar.
    ///
    /// # Errors
    /// The bytes are not a sidecar, or an overlay is malformed.
    pub fn read(file: Bytes) -> Result<Self, Unreadable> {
        let unreadable =
            |Malformed { offset, message }| Unreadable { offset, element: None, reason: message.into() };
        let invalid_head = |reason: String| Unreadable { offset: 0, element: None, reason };
        let mut overlays = Span::default();
        let mut scanner = Scanner::at_byte(&file, 0);
        scanner
            .object(0, |scanner, key| {
                let value = scanner.value(1)?;
                if text::unquote(key.slice(&file)) == "overlays" {
                    overlays = value;
                }
                Ok(())
            })
            .map_err(unreadable)?;
        let head: SidecarHeader = serde_json::from_slice(&file)
            .map_err(|error| invalid_head(format!("not a sidecar file: {error}")))?;
        if head.jp_compact_sidecar != 1 {
            let version = head.jp_compact_sidecar;
            return Err(invalid_head(format!(
                "version {version} of `{VERSION}` is not supported: update jp-compact"
            )));
        }
        let format = head.format.parse().map_err(invalid_head)?;
        let in_file = |error: Unreadable| Unreadable { offset: error.offset + overlays.start, ..error };
        let index = index::index(file.slice(overlays.start..overlays.end)).map_err(in_file)?;
        let stream = Stream::from_index(index.clone()).map_err(in_file)?;
        let overlays = stream.overlays().to_vec();
        Ok(Self { file, format, snapshot: head.source, index, overlays })
    }

    #[must_use]
    pub fn file(&self) -> &Bytes {
        &self.file
    }

    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the state of the transcript when overlays were last made from it.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the overlays. Stale overlays are not marked.
    #[must_use]
    pub fn overlay_list(&self) -> &[Overlay] {
        &self.overlays
    }

    #[must_use]
    pub fn overlays(&self) -> usize {
        self.index.overlays()
    }

    /// Returns the file without some overlays, and the number of removed overlays. The file is empty if no overlay is
    /// left. Returns `None` if `reset` names an overlay that does not exist.
    #[must_use]
    pub fn without(&self, reset: Reset) -> Option<(Vec<u8>, usize)> {
        let Removal { pieces, overlays, .. } = source::reset(&self.index, reset)?;
        if overlays == self.index.overlays() {
            return Some((Vec::new(), overlays));
        }
        Some((to_bytes(self.format, &self.snapshot, &splice::concat(&pieces, self.index.bytes())), overlays))
    }
}

/// Returns the file with new overlays after the existing overlays. `digest` returns the digest of the raw events of a
/// range.
#[must_use]
pub fn with(
    format: Format,
    current: Option<&Sidecar>,
    entries: &[Entry],
    made: &[NewOverlay],
    snapshot: &Snapshot,
    digest: &dyn Fn(TurnRange) -> String,
) -> Vec<u8> {
    let mut elements = Vec::new();
    for new_overlay in made {
        let digest = new_overlay.overlay.range().map(digest);
        for (position, mut element) in append::elements(entries, new_overlay).into_iter().enumerate() {
            // The receipts follow the overlay.
            if let Some(digest) = digest.as_deref().filter(|_| position > 0) {
                element.insert(RANGE_DIGEST.into(), digest.into());
            }
            elements.push(element);
        }
    }
    let empty = index::index(Bytes::from_static(EMPTY)).ok();
    let index = current.map(|sidecar| &sidecar.index).or(empty.as_ref());
    let overlays =
        index.map(|index| splice::concat(&splice::append_elements(index, &elements), index.bytes()));
    to_bytes(format, snapshot, &overlays.unwrap_or_default())
}

fn to_bytes(format: Format, snapshot: &Snapshot, overlays: &[u8]) -> Vec<u8> {
    let source = json!({ "bytes": snapshot.bytes, "sha256": snapshot.sha256 });
    let head =
        format!("{{\n\"{VERSION}\": 1,\n\"format\": \"{format}\",\n\"source\": {source},\n\"overlays\": ");
    [head.as_bytes(), overlays, b"\n}\n"].concat()
}
