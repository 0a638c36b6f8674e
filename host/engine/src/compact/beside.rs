//! Overlays of a transcript that somebody else writes: made for the file beside it.

use std::time::Duration;

use jp_compact_core::append::{Entry, Made};
use jp_compact_core::sidecar::{self, Snapshot};
use jp_compact_core::{Stream, TurnRange};

use super::anew;
use super::ask::Asking;
use super::lock::under_lock;
use super::open::again;
use crate::digest;
use crate::failure::{Failure, Overtaken};
use crate::store::Beside;

/// The file with these overlays behind those that there are.
pub(super) fn file(stream: &Stream, entries: &[Entry], made: &[Made]) -> Vec<u8> {
    let digest = |range: TurnRange| digest::of_range(stream, range);
    sidecar::with(stream, entries, made, &snapshot(stream), &digest)
}

/// A transcript as it was read.
pub(super) fn snapshot(stream: &Stream) -> Snapshot {
    Snapshot { bytes: stream.bytes().len() as u64, sha256: digest::of_bytes(stream.bytes()) }
}

/// Writes them, behind those that others may have made meanwhile.
pub(super) async fn write(
    beside: &Beside,
    stream: &Stream,
    asking: &Asking<'_>,
    mut made: Vec<Made>,
) -> Result<Vec<Made>, Failure> {
    let attempt = || {
        beside.replace(Duration::ZERO, |now| {
            let before = stream.sidecar().map(sidecar::Sidecar::file);
            if now.as_ref() == before {
                return Ok(Some(file(stream, &asking.entries, &made)));
            }
            let grown = again(stream, now).map_err(Overtaken::Unreadable)?;
            made = anew(&grown, asking)?;
            Ok(Some(file(&grown, &asking.entries, &made)))
        })
    };
    under_lock(beside.path(), asking.run.lock_wait, attempt).await?;
    Ok(made)
}
