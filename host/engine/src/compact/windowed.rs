//! Large transcripts that are printed compacted, without their texts in memory. In all cases that this module does not
//! cover, it opens nothing, and the caller reads the whole file.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use jp_compact_core::overlay::Overlay;
use jp_compact_core::projection::project;
use jp_compact_core::{Stream, TurnRange};
use jp_compact_runtime::environment::Environment;
use jp_compact_store::{self as store, LargeFile, LargeTranscript, Place, RangePart, SidecarFile};
use jp_compact_transcripts::sidecar::Sidecar;
use jp_compact_transcripts::{self as transcripts, Format, Transcript, WindowedFile};

use super::error::Error;
use super::open::{warnings, with_sidecar_by};
use crate::digest::RangeHash;

/// The maximum number of digests that are computed while the file is read.
const RANGES_MAX: usize = 16;

/// A large transcript that is printed without its texts in memory.
pub struct LargePrint {
    pub place: Place,
    pub transcript: LargeTranscript,
    pub warnings: Vec<String>,
}

/// Opens a large transcript to print it compacted, without its texts in memory, and returns its warnings. `None` if
/// [`open_as`](super::open_as) must open the transcript. `output` is the file to print into, if there is one.
///
/// # Errors
/// Like [`open`](super::open).
pub fn open_large(
    transcript: &OsStr,
    format: Option<Format>,
    output: Option<&File>,
    environment: &Environment,
) -> Result<Option<LargePrint>, Error> {
    let place = store::locate(transcript, environment)?;
    if format.is_some_and(|format| format != Format::Jp) || !store::is_events(&place) {
        let large = open_session(&place, format, output)?;
        return Ok(large.map(|(transcript, warnings)| LargePrint { place, transcript, warnings }));
    }
    let Some(read) = store::read_large(&place, output)? else { return Ok(None) };
    let large = read.map_err(|source| Error::Unreadable { path: place.path().to_owned(), source })?;
    let large = Some(large).filter(LargeTranscript::is_understood);
    Ok(large.map(|transcript| LargePrint { place, transcript, warnings: Vec::new() }))
}

/// Opens a transcript of another program, and returns its warnings.
///
/// # Errors
/// The file cannot be opened, or changes.
fn open_session(
    place: &Place,
    format: Option<Format>,
    output: Option<&File>,
) -> Result<Option<(LargeTranscript, Vec<String>)>, Error> {
    if store::is_sidecar_path(place.path()) && format.is_none() {
        return Ok(None);
    }
    let Some(file) = store::open_large(place, output)? else { return Ok(None) };
    let format = match format {
        Some(format) => Some(format),
        None => transcripts::detect_beginning(&file.beginning()?),
    };
    let Some(format) = format.filter(|format| *format != Format::Jp) else { return Ok(None) };
    let sidecar = SidecarFile::for_place(place)?.read()?.map(|content| Sidecar::read(content.bytes));
    let Ok(sidecar) = sidecar.transpose() else { return Ok(None) };
    let overlays = sidecar.as_ref().map(Sidecar::overlay_list).unwrap_or_default();
    // The records of a summary contain values of the records that it replaces.
    if overlays.iter().any(|overlay| overlay.summary.is_some()) {
        return Ok(None);
    }
    if overlays.iter().all(transcripts::can_be_condensed) {
        let (windows, hashes) = windows(&file, overlays);
        let condensed = transcripts::condense(format, file.size(), windows);
        let Some((stream, session)) = condensed else { return Ok(None) };
        let stream = with_overlays(stream, sidecar.clone(), |_, range| {
            let digest = hashes.borrow().digest(range, session.events());
            let inside = session.ranges().filter(|(turn, _)| range.contains(*turn));
            digest.map_or_else(|| digest_in_file(inside.map(|(_, range)| range), &file), Ok)
        });
        let Some(stream) = stream else { return Ok(None) };
        file.check_unchanged()?;
        if let Some(session) = session.compacted(stream.overlays()) {
            return Ok(Some((file.with_session(session), warnings(&stream))));
        }
    }
    let (windows, hashes) = windows(&file, overlays);
    let read = transcripts::read_in_windows(format, file.size(), windows);
    let Some(Ok(stream)) = read else { return Ok(None) };
    let events = stream.events().len();
    let stream = with_overlays(stream, sidecar, |stream, range| {
        let digest = hashes.borrow().digest(range, events);
        digest.map_or_else(|| digest_of_stream(stream, range, &file), Ok)
    });
    let Some(stream) = stream else { return Ok(None) };
    let pieces = transcripts::render(&stream, &project(&stream));
    if stream.index().kept().is_none_or(|kept| kept.has_missed()) {
        return Ok(None);
    }
    file.check_unchanged()?;
    Ok(Some((file.with_pieces(pieces), warnings(&stream))))
}

/// Returns the windows of a file, and the digests that are computed while it is read.
fn windows(file: &LargeFile, overlays: &[Overlay]) -> (Box<dyn WindowedFile>, Rc<RefCell<Hashes>>) {
    let hashes = Rc::new(RefCell::new(Hashes::new(overlays)));
    (Box::new(Windows { read: file.reader(), hashes: Rc::clone(&hashes) }), hashes)
}

/// Adds the overlays of a sidecar. `None` if the transcript is not understood, or if a digest cannot be computed.
fn with_overlays(
    stream: Transcript,
    sidecar: Option<Sidecar>,
    digest: impl Fn(&Stream, TurnRange) -> io::Result<String>,
) -> Option<Transcript> {
    transcripts::examine(&stream).ok()?;
    let Some(sidecar) = sidecar else { return Some(stream) };
    let mut failed = false;
    let stream = with_sidecar_by(stream, sidecar, |stream, range| {
        let digest = digest(stream, range);
        failed |= digest.is_err();
        digest.unwrap_or_default()
    });
    stream.ok().filter(|_| !failed)
}

/// The windows of a file, with the digests of ranges.
struct Windows<R> {
    read: R,
    hashes: Rc<RefCell<Hashes>>,
}

impl<R: FnMut(&mut [u8]) -> Option<usize>> WindowedFile for Windows<R> {
    fn read_next(&mut self, buffer: &mut [u8]) -> Option<usize> {
        (self.read)(buffer)
    }

    fn on_event(&mut self, turn: usize, bytes: &[u8]) {
        self.hashes.borrow_mut().add(turn, bytes);
    }
}

/// The digests of whole turns, computed while the file is read.
struct Hashes {
    ranges: Vec<(TurnRange, RangeHash)>,
    events: usize,
}

impl Hashes {
    fn new(overlays: &[Overlay]) -> Self {
        let mut ranges: Vec<(TurnRange, RangeHash)> = Vec::new();
        for range in overlays.iter().filter_map(Overlay::range).filter(|range| !range.has_steps()) {
            if ranges.len() < RANGES_MAX && ranges.iter().all(|(other, _)| *other != range) {
                ranges.push((range, RangeHash::default()));
            }
        }
        Self { ranges, events: 0 }
    }

    fn add(&mut self, turn: usize, event: &[u8]) {
        self.events += 1;
        for (_, hash) in self.ranges.iter_mut().filter(|(range, _)| range.contains(turn)) {
            hash.add(event);
            hash.end_event();
        }
    }

    /// Returns the digest of a range of a stream with `events` events. `None` if it is not known, or if the reader has
    /// removed events.
    fn digest(&self, range: TurnRange, events: usize) -> Option<String> {
        let (_, hash) =
            self.ranges.iter().find(|(other, _)| *other == range).filter(|_| events == self.events)?;
        Some(hash.digest())
    }
}

/// Returns the digest of a range of events, from their bytes in the file.
fn digest_of_stream(stream: &Stream, range: TurnRange, file: &LargeFile) -> io::Result<String> {
    let events = stream.events().iter().enumerate().filter(|(_, event)| event.seq.is_some());
    let inside = events.filter(|(element, _)| stream.is_in(range, *element));
    digest_in_file(inside.map(|(_, event)| event.span.start..event.span.end), file)
}

/// Returns the digest of events at these ranges of the file.
fn digest_in_file(events: impl Iterator<Item = Range<usize>>, file: &LargeFile) -> io::Result<String> {
    let mut hash = RangeHash::default();
    file.read_ranges(events, |part| match part {
        RangePart::Bytes(bytes) => hash.add(bytes),
        RangePart::End => hash.end_event(),
    })?;
    Ok(hash.digest())
}
