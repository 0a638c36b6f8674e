//! Removes overlays and their receipts. This and appending are the only edits. Raw events keep every byte.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use jp_compact_core::index;
use jp_compact_core::source::{self, Removal, Reset};
use jp_compact_runtime::environment::Environment;
use jp_compact_transcripts::sidecar::Sidecar;
use jp_compact_transcripts::{self as transcripts, Format};

use super::error::Error;
use jp_compact_store::{
    self as store, Current, Place, ReplaceError, SidecarContent, SidecarFile, StoreError,
};

/// The result of a reset.
#[derive(Debug)]
pub struct ResetReport {
    pub path: PathBuf,
    /// The conversation's id, if it has one.
    pub id: Option<String>,
    /// The number of removed overlays.
    pub removed: usize,
}

/// Removes overlays and their receipts, even if the overlays are malformed.
///
/// # Errors
/// Nothing was removed.
pub fn reset(
    transcript: &OsStr,
    which: Reset,
    dry_run: bool,
    lock_wait: Duration,
    environment: &Environment,
) -> Result<ResetReport, Error> {
    let place = store::locate(transcript, environment)?;
    if !store::is_events(&place) {
        let sidecar_file = SidecarFile::for_place(&place)?;
        let file = sidecar_file.read()?;
        // The transcript itself is not parsed, because it may have become unreadable.
        if file.is_some() || !is_jp(&place)? {
            return reset_sidecar(&place, &sidecar_file, file, which, dry_run, lock_wait);
        }
    }
    store::check_writable(&place)?;
    let bytes = store::read(&place)?;
    let index = index::index(bytes.clone())
        .map_err(|source| Error::Unreadable { path: place.path().to_owned(), source })?;
    let report =
        |removed| ResetReport { path: place.path().to_owned(), id: place.id().map(str::to_owned), removed };
    let Some(Removal { pieces, overlays, receipts }) = source::reset(&index, which) else {
        let Reset::One(number) = which else { return Ok(report(0)) };
        let overlays = index.overlays();
        return Err(Error::NoSuchOverlay { path: place.path().to_owned(), number, overlays });
    };
    if overlays + receipts > 0 && dry_run {
        store::rehearse(&place, &bytes, lock_wait, || pieces)?;
    } else if overlays + receipts > 0 {
        // The number refers to the overlays that were read. Growth is therefore a conflict like any other change.
        let written = store::replace(&place, &bytes, bytes.len(), lock_wait, |current| match current {
            Current::Same => Ok(pieces),
            Current::Grown(_) => Err(StoreError::Changed { path: place.path().to_owned(), how: "grew" }),
        });
        written.map_err(|error| match error {
            ReplaceError::Store(error) | ReplaceError::Build(error) => Error::Store(error),
        })?;
    }
    Ok(report(overlays))
}

/// Returns whether a file looks like JP's. An unknown format counts as JP's.
fn is_jp(place: &Place) -> Result<bool, Error> {
    Ok(transcripts::detect(&store::read(place)?).is_none_or(|format| format == Format::Jp))
}

/// Removes overlays from a sidecar, and the file with the last overlay. A sidecar that cannot be read can only be
/// removed as a whole.
fn reset_sidecar(
    place: &Place,
    sidecar_file: &SidecarFile,
    found: Option<SidecarContent>,
    which: Reset,
    dry_run: bool,
    lock_wait: Duration,
) -> Result<ResetReport, Error> {
    let (path, file) = match found {
        Some(SidecarContent { path, bytes, .. }) => (path, Some(bytes)),
        None => (sidecar_file.path().to_owned(), None),
    };
    let report = |removed| ResetReport { path: place.path().to_owned(), id: None, removed };
    let none = |number, overlays| Error::NoSuchOverlay { path: place.path().to_owned(), number, overlays };
    let made = match (&file, which) {
        (None, Reset::All) => return Ok(report(0)),
        (None, Reset::One(number)) => return Err(none(number, 0)),
        (Some(file), which) => match (Sidecar::read(file.clone()), which) {
            (Ok(sidecar), which) => match (sidecar.without(which), which) {
                (Some(made), _) => made,
                (None, Reset::One(number)) => return Err(none(number, sidecar.overlays())),
                (None, Reset::All) => return Ok(report(0)),
            },
            (Err(_), Reset::All) => (Vec::new(), 1),
            (Err(source), Reset::One(_)) => {
                return Err(Error::Unreadable { path, source });
            }
        },
    };
    let (bytes, removed) = made;
    if dry_run {
        sidecar_file.rehearse(lock_wait, || bytes)?;
    } else {
        let written = sidecar_file.replace(lock_wait, |now| match now == file {
            true => Ok(Some(bytes).filter(|bytes| !bytes.is_empty())),
            false => Err(StoreError::Changed { path, how: "was changed" }),
        });
        written.map_err(|error| match error {
            ReplaceError::Store(error) | ReplaceError::Build(error) => Error::Store(error),
        })?;
    }
    Ok(report(removed))
}
