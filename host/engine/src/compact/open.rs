//! The reader of a transcript of any format. For formats other than JP's, it also reads the sidecar.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;

use bytes::Bytes;
use jp_compact_core::index::Unreadable;
use jp_compact_core::receipts::receipts;
use jp_compact_core::{Stream, TurnRange};
use jp_compact_runtime::environment::Environment;
use jp_compact_transcripts::sidecar::{RANGE_DIGEST, Sidecar};
use jp_compact_transcripts::{self as transcripts, Format, Transcript};
use serde_json::Value;

use super::error::Error;
use super::large::{BegunDigest, index_and_begin_digest};
use crate::digest;
use jp_compact_store::{self as store, ChunkIndexer, Place, SidecarContent, SidecarFile};

/// A transcript that was read.
#[derive(Debug)]
pub struct Opened {
    pub place: Place,
    /// The sidecar, if the format is not JP's.
    pub sidecar_file: Option<SidecarFile>,
    pub stream: Transcript,
    /// The beginning of the digest of the raw input of `stream`.
    pub(super) begun_digest: Option<BegunDigest>,
    /// `stream` has overlays that no file has, so a run cannot append to it.
    pub(super) in_memory: bool,
}

impl Opened {
    /// Makes a transcript from its parts.
    #[must_use]
    pub fn new(place: Place, sidecar_file: Option<SidecarFile>, stream: Transcript) -> Self {
        Self { place, sidecar_file, stream, begun_digest: None, in_memory: false }
    }
}

/// Finds and reads a transcript.
///
/// # Errors
/// The transcript does not exist, or cannot be read.
pub fn open(transcript: &OsStr, environment: &Environment) -> Result<Opened, Error> {
    open_as(transcript, None, environment)
}

/// Like [`open`], in the given format. Without a format, an `events.json` is JP's, and the format of any other file is
/// detected.
///
/// # Errors
/// Like [`open`].
pub fn open_as(
    transcript: &OsStr,
    format: Option<Format>,
    environment: &Environment,
) -> Result<Opened, Error> {
    open_with(transcript, format, environment, false)
}

/// Like [`open_as`], for a run that will append. If the transcript is large, the digest for the receipts is computed while
/// it is read.
///
/// # Errors
/// Like [`open`].
pub fn open_to_append(
    transcript: &OsStr,
    format: Option<Format>,
    environment: &Environment,
) -> Result<Opened, Error> {
    open_with(transcript, format, environment, true)
}

fn open_with(
    transcript: &OsStr,
    format: Option<Format>,
    environment: &Environment,
    needs_digest: bool,
) -> Result<Opened, Error> {
    let place = store::locate(transcript, environment)?;
    let unreadable = |source| Error::Unreadable { path: place.path().to_owned(), source };
    if store::is_sidecar_path(place.path()) && format.is_none() {
        return Err(Error::Sidecar { path: place.path().to_owned() });
    }
    if format.is_none_or(|format| format == Format::Jp) && store::is_events(&place) {
        let (mut indexer, mut begun_digest) = (ChunkIndexer::default(), None);
        let bytes = store::read_in_chunks(&place, |chunks| match needs_digest {
            true => begun_digest = Some(index_and_begin_digest(chunks, &mut indexer)),
            false => chunks.for_each(|chunk| {
                indexer.advance(chunk);
            }),
        })?;
        let stream =
            indexer.into_indexer().finish(bytes).and_then(Stream::from_index).map_err(unreadable)?.into();
        let stream = require_understood(stream, place.path())?;
        return Ok(Opened { begun_digest, ..Opened::new(place, None, stream) });
    }
    let stream = read_bytes(store::read(&place)?, format, place.path())?;
    if stream.format() == Format::Jp {
        return Ok(Opened::new(place, None, stream));
    }
    let sidecar_file = SidecarFile::for_place(&place)?;
    let stream = match sidecar_file.read()? {
        Some(SidecarContent { path, bytes, .. }) => {
            with_sidecar(stream, bytes).map_err(|source| Error::Unreadable { path, source })?
        }
        None => stream,
    };
    Ok(Opened::new(place, Some(sidecar_file), stream))
}

/// Returns the warnings about a transcript: parts that the reader skipped or does not understand, and overlays that are
/// not applied.
#[must_use]
pub fn warnings(stream: &Transcript) -> Vec<String> {
    let mut warnings = stream.warnings().to_vec();
    warnings.extend(transcripts::examine(stream).ok().flatten());
    let stale_overlays = stream.overlays().iter().filter(|overlay| overlay.stale).count();
    if stale_overlays > 0 {
        let (overlays_are, their_range) =
            if stale_overlays == 1 { ("overlay is", "its range") } else { ("overlays are", "their ranges") };
        warnings.push(format!(
            "{stale_overlays} {overlays_are} not applied, because events in {their_range} have changed; `jp-compact show` \
             lists the overlays"
        ));
    }
    warnings
}

/// Rejects a transcript that is not JP's.
pub(crate) fn require_jp(opened: &Opened, verb: &'static str) -> Result<(), Error> {
    match opened.stream.format() {
        Format::Jp => Ok(()),
        format => Err(Error::NotJp { path: opened.place.path().to_owned(), format, verb }),
    }
}

/// Reads the bytes of `path`, in the given or the detected format.
///
/// # Errors
/// The format is unknown, or the bytes do not have the given format.
pub fn read_bytes(bytes: Bytes, format: Option<Format>, path: &Path) -> Result<Transcript, Error> {
    let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
    let starts_like_jp = bytes.trim_ascii_start().first().is_none_or(|first| *first == b'[');
    let format = match format.or_else(|| transcripts::detect(&bytes)) {
        Some(format) => format,
        None => {
            let source = transcripts::malformed(&bytes);
            // For a truncated array, JP's reader gives the best error.
            if source.is_none() || !starts_like_jp {
                let program = transcripts::program(&bytes);
                return Err(Error::NoFormat { path: path.to_owned(), source, program });
            }
            Format::Jp
        }
    };
    require_understood(transcripts::read(format, bytes).map_err(unreadable)?, path)
}

/// Rejects a transcript if its reader understands too few of the events. This applies to an explicit format too,
/// because a wrong format must not lose a conversation.
fn require_understood(stream: Transcript, path: &Path) -> Result<Transcript, Error> {
    match transcripts::examine(&stream) {
        Ok(_) => Ok(stream),
        Err(source) => Err(Error::NotUnderstood { path: path.to_owned(), source }),
    }
}

/// Adds the overlays of the sidecar `file` to a transcript. An overlay has no effect if the events in its range have
/// changed. That happens if an agent rewinds its log or takes another branch, or if a user edits the file.
///
/// # Errors
/// The file is not a sidecar, or an overlay is malformed.
pub fn with_sidecar(stream: Transcript, file: Bytes) -> Result<Transcript, Unreadable> {
    with_sidecar_by(stream, Sidecar::read(file)?, digest::of_range)
}

/// Like [`with_sidecar`], with another function for the digest of a range.
pub(super) fn with_sidecar_by(
    stream: Transcript,
    sidecar: Sidecar,
    mut digest_of: impl FnMut(&Stream, TurnRange) -> String,
) -> Result<Transcript, Unreadable> {
    let mut stream = stream.with_sidecar(sidecar)?;
    let mut digests: HashMap<TurnRange, String> = HashMap::new();
    let mut stale_overlays = Vec::new();
    for (index, (overlay, receipts)) in stream.overlays().iter().zip(receipts(&stream)).enumerate() {
        let recorded = receipts.first().and_then(|receipt| receipt.get(RANGE_DIGEST)).and_then(Value::as_str);
        let is_current = overlay.range().filter(|range| range.to() < stream.turns()).is_some_and(|range| {
            let current = digests.entry(range).or_insert_with(|| digest_of(&stream, range));
            recorded == Some(current.as_str())
        });
        if !is_current {
            stale_overlays.push(index);
        }
    }
    for index in stale_overlays {
        stream.mark_stale(index);
    }
    Ok(stream)
}

/// Returns the same transcript with the overlays of `file`, its current sidecar, in place of its old overlays.
pub(super) fn with_current_sidecar(
    stream: &Transcript,
    file: Option<Bytes>,
) -> Result<Transcript, Unreadable> {
    let without_overlays = transcripts::read(stream.format(), stream.bytes().clone())?;
    match file {
        Some(file) => with_sidecar(without_overlays, file),
        None => Ok(without_overlays),
    }
}
