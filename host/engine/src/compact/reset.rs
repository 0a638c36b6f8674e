//! The reset: the removal of overlays and their receipts. Removing and appending are the only edits of a transcript.
//! Raw events keep every byte.

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
    /// The number of removed overlays. A sidecar that cannot be parsed counts as one.
    pub removed: usize,
}

/// Removes the overlays that `target` names, and their receipts. Malformed overlays are removed as well. Without a
/// `format`, it is detected.
///
/// # Errors
/// The overlays cannot be read or removed, or the overlay does not exist. On any error except
/// [`StoreError::NotDurable`], nothing was removed.
pub fn reset(
    transcript: &OsStr,
    target: Reset,
    format: Option<Format>,
    dry_run: bool,
    lock_wait: Duration,
    environment: &Environment,
) -> Result<ResetReport, Error> {
    let place = store::locate(transcript, environment)?;
    let has_other_format = format.is_some_and(|format| format != Format::Jp);
    if has_other_format || !store::is_events(&place) {
        let sidecar_file = SidecarFile::for_place(&place)?;
        let content = sidecar_file.read()?;
        // The transcript itself is not parsed, because it may have become unreadable.
        if has_other_format || content.is_some() || !is_jp(&place)? {
            return reset_sidecar(&place, &sidecar_file, content, target, dry_run, lock_wait);
        }
    }
    store::check_writable(&place)?;
    let bytes = store::read(&place)?;
    let index = index::index(bytes.clone())
        .map_err(|source| Error::Unreadable { path: place.path().to_owned(), source })?;
    let report =
        |removed| ResetReport { path: place.path().to_owned(), id: place.id().map(str::to_owned), removed };
    let Some(Removal { pieces, overlays, receipts }) = source::reset(&index, target) else {
        let Reset::One(number) = target else { return Ok(report(0)) };
        let overlays = index.overlays();
        return Err(Error::NoSuchOverlay { path: place.path().to_owned(), number, overlays });
    };
    if overlays + receipts == 0 {
        return Ok(report(0));
    }
    if dry_run {
        store::rehearse(&place, &bytes, lock_wait, || pieces)?;
    } else {
        // The number refers to the overlays that were read. Growth is therefore a conflict like any other change.
        store::replace(&place, &bytes, bytes.len(), lock_wait, |current| match current {
            Current::Same => Ok(pieces.clone()),
            Current::Grown(_) => Err(StoreError::Changed { path: place.path().to_owned(), how: "grew" }),
        })
        .map_err(store_error)?;
    }
    Ok(report(overlays))
}

fn store_error(error: ReplaceError<StoreError>) -> StoreError {
    match error {
        ReplaceError::Store(error) | ReplaceError::Build(error) => error,
    }
}

/// Returns whether a file looks like JP's. An unknown format counts as JP's.
fn is_jp(place: &Place) -> Result<bool, Error> {
    Ok(transcripts::detect(&store::read(place)?).is_none_or(|format| format == Format::Jp))
}

/// Removes overlays from a sidecar. If none is left, removes the file. A sidecar that cannot be parsed can only be
/// removed as a whole.
fn reset_sidecar(
    place: &Place,
    sidecar_file: &SidecarFile,
    content: Option<SidecarContent>,
    target: Reset,
    dry_run: bool,
    lock_wait: Duration,
) -> Result<ResetReport, Error> {
    let report = |removed| ResetReport { path: place.path().to_owned(), id: None, removed };
    let unchanged = |overlays| match target {
        Reset::All => Ok(report(0)),
        Reset::One(number) => Err(Error::NoSuchOverlay { path: place.path().to_owned(), number, overlays }),
    };
    let Some(SidecarContent { path, bytes: old_bytes, .. }) = content else { return unchanged(0) };
    let (new_bytes, removed) = match Sidecar::read(old_bytes.clone()) {
        Ok(sidecar) => match sidecar.without(target) {
            Some(result) => result,
            None => return unchanged(sidecar.overlays()),
        },
        Err(_) if target == Reset::All => (Vec::new(), 1),
        Err(source) => return Err(Error::Unreadable { path, source }),
    };
    if dry_run {
        sidecar_file.rehearse(lock_wait, || new_bytes)?;
    } else {
        sidecar_file
            .replace(lock_wait, |current| match current.as_ref() == Some(&old_bytes) {
                true => Ok(Some(new_bytes).filter(|bytes| !bytes.is_empty())),
                false => Err(StoreError::Changed { path, how: "was changed" }),
            })
            .map_err(store_error)?;
    }
    Ok(report(removed))
}
