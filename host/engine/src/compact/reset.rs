//! Removes overlays and their receipts: the one edit beside appending. Raw events stay as they are, to the byte.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use jp_compact_core::formats::jp;
use jp_compact_core::source::{self, Reset};

use crate::environment::Environment;
use crate::failure::Failure;
use crate::store::{self, Current, ReplaceError, StoreError};

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
    if !dry_run {
        store::check_writable(&place)?;
    }
    let bytes = store::read(&place)?;
    let index = jp::index(bytes.clone())
        .map_err(|source| Failure::Unreadable { path: place.path().to_owned(), source })?;
    let report =
        |removed| ResetReport { path: place.path().to_owned(), id: place.id().map(str::to_owned), removed };
    let Some((pieces, removed)) = source::reset(&index, which) else {
        let Reset::One(number) = which else { return Ok(report(0)) };
        let overlays = index.overlays();
        return Err(Failure::NoSuchOverlay { path: place.path().to_owned(), number, overlays });
    };
    if removed > 0 && !dry_run {
        // A number means the overlay that was read: growth behind it is a conflict like any other change.
        let written = store::replace(&place, &bytes, bytes.len(), lock_wait, |current| match current {
            Current::Same => Ok(pieces),
            Current::Grown(_) => Err(StoreError::Changed { path: place.path().to_owned(), how: "grew" }),
        });
        written.map_err(|error| match error {
            ReplaceError::Store(error) | ReplaceError::Build(error) => Failure::Store(error),
        })?;
    }
    Ok(report(removed))
}
