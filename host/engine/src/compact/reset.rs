//! Removes overlays and their receipts: the one edit beside appending. Raw events stay as they are, to the byte.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use jp_compact_core::formats::{self, Format, jp};
use jp_compact_core::sidecar::Sidecar;
use jp_compact_core::source::{self, Removal, Reset};

use crate::environment::Environment;
use crate::failure::Failure;
use crate::store::{self, Beside, Current, Found, Place, ReplaceError, StoreError};

/// What a reset did.
#[derive(Debug)]
pub struct ResetReport {
    /// The file.
    pub path: PathBuf,
    /// The conversation's id, where it has one.
    pub id: Option<String>,
    /// How many overlays were removed.
    pub removed: usize,
}

/// Removes overlays and their receipts. Works on a stream whose overlays are malformed, too.
///
/// # Errors
/// Nothing was removed, and why.
pub fn reset(
    transcript: &OsStr,
    which: Reset,
    dry_run: bool,
    lock_wait: Duration,
    environment: &Environment,
) -> Result<ResetReport, Failure> {
    let place = store::locate(transcript, environment)?;
    if !store::is_events(&place) {
        let beside = Beside::of(&place)?;
        let file = beside.read()?;
        // Without a look at the transcript, which may be gone bad since.
        if file.is_some() || !is_jp(&place)? {
            return reset_beside(&place, &beside, file, which, dry_run, lock_wait);
        }
    }
    store::check_writable(&place)?;
    let bytes = store::read(&place)?;
    let index = jp::index(bytes.clone())
        .map_err(|source| Failure::Unreadable { path: place.path().to_owned(), source })?;
    let report =
        |removed| ResetReport { path: place.path().to_owned(), id: place.id().map(str::to_owned), removed };
    let Some(Removal { pieces, overlays, receipts }) = source::reset(&index, which) else {
        let Reset::One(number) = which else { return Ok(report(0)) };
        let overlays = index.overlays();
        return Err(Failure::NoSuchOverlay { path: place.path().to_owned(), number, overlays });
    };
    if overlays + receipts > 0 && dry_run {
        store::rehearse(&place, &bytes, lock_wait, &pieces)?;
    } else if overlays + receipts > 0 {
        // A number means the overlay that was read: growth behind it is a conflict like any other change.
        let written = store::replace(&place, &bytes, bytes.len(), lock_wait, |current| match current {
            Current::Same => Ok(pieces),
            Current::Grown(_) => Err(StoreError::Changed { path: place.path().to_owned(), how: "grew" }),
        });
        written.map_err(|error| match error {
            ReplaceError::Store(error) | ReplaceError::Build(error) => Failure::Store(error),
        })?;
    }
    Ok(report(overlays))
}

/// Whether a file looks like JP's. What looks like nothing is not told from it.
fn is_jp(place: &Place) -> Result<bool, Failure> {
    Ok(formats::detect(&store::read(place)?).is_none_or(|format| format == Format::Jp))
}

/// Removes overlays that lie beside a transcript; with the last of them goes the file. One that cannot be read can be
/// removed as a whole.
fn reset_beside(
    place: &Place,
    beside: &Beside,
    found: Option<Found>,
    which: Reset,
    dry_run: bool,
    lock_wait: Duration,
) -> Result<ResetReport, Failure> {
    let (path, file) = match found {
        Some(Found { path, bytes, .. }) => (path, Some(bytes)),
        None => (beside.path().to_owned(), None),
    };
    let report = |removed| ResetReport { path: place.path().to_owned(), id: None, removed };
    let none = |number, overlays| Failure::NoSuchOverlay { path: place.path().to_owned(), number, overlays };
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
                return Err(Failure::Unreadable { path, source });
            }
        },
    };
    let (bytes, removed) = made;
    if dry_run {
        beside.rehearse(lock_wait, &bytes)?;
    } else {
        let written = beside.replace(lock_wait, |now| match now == file {
            true => Ok(Some(bytes).filter(|bytes| !bytes.is_empty())),
            false => Err(StoreError::Changed { path, how: "was changed" }),
        });
        written.map_err(|error| match error {
            ReplaceError::Store(error) | ReplaceError::Build(error) => Failure::Store(error),
        })?;
    }
    Ok(report(removed))
}
