//! Reads a transcript, whoever wrote it, and the overlays that lie beside it where it is not JP's.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;

use bytes::Bytes;
use jp_compact_core::formats::jp::{Indexer, Unreadable};
use jp_compact_core::formats::{self, Format};
use jp_compact_core::receipts::receipts;
use jp_compact_core::sidecar::{RANGE_DIGEST, Sidecar};
use jp_compact_core::{Stream, TurnRange};
use serde_json::Value;

use crate::digest;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::store::{self, Beside, Found, Place};

/// A transcript that was read.
#[derive(Debug)]
pub struct Opened {
    /// Where it is.
    pub place: Place,
    /// Where its overlays are, when it is not JP's.
    pub beside: Option<Beside>,
    /// What it holds.
    pub stream: Stream,
}

/// Finds and reads a transcript.
///
/// # Errors
/// There is none, or it is no stream.
pub fn open(transcript: &OsStr, environment: &Environment) -> Result<Opened, Failure> {
    open_as(transcript, None, environment)
}

/// The same, in a format that somebody names. Otherwise an `events.json` is JP's, and anything else what it looks like.
///
/// # Errors
/// As [`open`].
pub fn open_as(
    transcript: &OsStr,
    format: Option<Format>,
    environment: &Environment,
) -> Result<Opened, Failure> {
    let place = store::locate(transcript, environment)?;
    let unreadable = |source| Failure::Unreadable { path: place.path().to_owned(), source };
    if store::is_beside(place.path()) && format.is_none() {
        return Err(Failure::OfAnother { path: place.path().to_owned() });
    }
    if format.is_none_or(|format| format == Format::Jp) && store::is_events(&place) {
        let mut indexer = Indexer::default();
        let bytes = store::read_seen(&place, |bytes| indexer.advance(bytes))?;
        let stream = indexer.finish(bytes).and_then(Stream::from_index).map_err(unreadable)?;
        let stream = understood(stream, place.path())?;
        return Ok(Opened { place, beside: None, stream });
    }
    let stream = of_bytes(store::read(&place)?, format, place.path())?;
    if stream.format() == Format::Jp {
        return Ok(Opened { place, beside: None, stream });
    }
    let beside = Beside::of(&place)?;
    let stream = match beside.read()? {
        Some(Found { path, bytes, .. }) => {
            with_beside(stream, bytes).map_err(|source| Failure::Unreadable { path, source })?
        }
        None => stream,
    };
    Ok(Opened { place, beside: Some(beside), stream })
}

/// What has to be said of a transcript before anything is done with it: what was passed over, and what is not applied.
#[must_use]
pub fn warnings(stream: &Stream) -> Vec<String> {
    let mut warnings = stream.warnings().to_vec();
    warnings.extend(formats::examine(stream).ok().flatten());
    let stale = stream.overlays().iter().filter(|overlay| overlay.stale).count();
    if stale > 0 {
        let were = if stale == 1 { "overlay is" } else { "overlays are" };
        warnings.push(format!(
            "{stale} {were} not applied: the events in the range have changed since; `jp-compact show` lists them"
        ));
    }
    warnings
}

/// Refuses what is not JP's.
pub(crate) fn only_jp(opened: &Opened, verb: &'static str) -> Result<(), Failure> {
    match opened.stream.format() {
        Format::Jp => Ok(()),
        format => Err(Failure::NotJp { path: opened.place.path().to_owned(), format, verb }),
    }
}

/// Reads bytes that came from `path`, in the format that is named or the one that they look like.
///
/// # Errors
/// They are of no known format, or not of the one that was named.
pub fn of_bytes(bytes: Bytes, format: Option<Format>, path: &Path) -> Result<Stream, Failure> {
    let unreadable = |source| Failure::Unreadable { path: path.to_owned(), source };
    let looks_like_jp = || bytes.trim_ascii_start().first().is_none_or(|first| *first == b'[');
    let format = match format.or_else(|| formats::detect(&bytes)) {
        Some(format) => format,
        None => {
            let source = formats::malformed(&bytes);
            // JP's reader says best where an array is broken off.
            if source.is_none() || !looks_like_jp() {
                let program = formats::program(&bytes);
                return Err(Failure::NoFormat { path: path.to_owned(), source, program });
            }
            Format::Jp
        }
    };
    understood(formats::read(format, bytes).map_err(unreadable)?, path)
}

/// Refuses a transcript of which too little was understood, also where its format was named: a wrong name must not
/// lose a conversation.
fn understood(stream: Stream, path: &Path) -> Result<Stream, Failure> {
    match formats::examine(&stream) {
        Ok(_) => Ok(stream),
        Err(source) => Err(Failure::NotUnderstood { path: path.to_owned(), source }),
    }
}

/// A stream with the overlays that lie beside its transcript. Those that were made of other events than their range
/// holds now have no effect: an agent has rewound its log, taken another branch, or somebody has edited it.
///
/// # Errors
/// The file is none of ours, or an overlay is malformed.
pub fn with_beside(stream: Stream, file: Bytes) -> Result<Stream, Unreadable> {
    let mut stream = stream.with_sidecar(Sidecar::read(file)?)?;
    let mut digests: HashMap<TurnRange, String> = HashMap::new();
    let mut stale = Vec::new();
    for (place, (overlay, receipt)) in stream.overlays().iter().zip(receipts(&stream)).enumerate() {
        let made_of = receipt.as_ref().and_then(|receipt| receipt.get(RANGE_DIGEST)).and_then(Value::as_str);
        let range = TurnRange::new(overlay.from_turn, overlay.to_turn);
        let holds = range.filter(|range| range.to() < stream.turns()).is_some_and(|range| {
            let now = digests.entry(range).or_insert_with(|| digest::of_range(&stream, range));
            made_of == Some(&**now)
        });
        if !holds {
            stale.push(place);
        }
    }
    stale.into_iter().for_each(|place| stream.mark_stale(place));
    Ok(stream)
}

/// The same transcript with what lies beside it now.
pub(super) fn again(stream: &Stream, file: Option<Bytes>) -> Result<Stream, Unreadable> {
    let bare = formats::read(stream.format(), stream.bytes().clone())?;
    match file {
        Some(file) => with_beside(bare, file),
        None => Ok(bare),
    }
}
