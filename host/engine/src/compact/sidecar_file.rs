//! Writes the overlays of another agent's transcript to its sidecar.

use std::time::Duration;

use jp_compact_core::TurnRange;
use jp_compact_core::append::{Entry, Made};
use jp_compact_runtime::digest::of_bytes;
use jp_compact_transcripts::Transcript;
use jp_compact_transcripts::sidecar::{self, Snapshot};

use super::anew;
use super::ask::Asking;
use super::error::{Error, StaleSnapshot};
use super::lock::under_lock;
use super::open::with_current_sidecar;
use crate::digest;
use jp_compact_store::SidecarFile;

/// Returns the sidecar with these overlays after the existing ones.
pub(super) fn file(stream: &Transcript, entries: &[Entry], made: &[Made]) -> Vec<u8> {
    let digest = |range: TurnRange| digest::of_range(stream, range);
    sidecar::with(stream.format(), stream.sidecar(), entries, made, &snapshot(stream), &digest)
}

/// Returns size and digest of the transcript as it was read.
pub(super) fn snapshot(stream: &Transcript) -> Snapshot {
    Snapshot { bytes: stream.bytes().len() as u64, sha256: of_bytes(stream.bytes()) }
}

/// Writes the overlays after those that other processes have added since the read.
pub(super) async fn write(
    sidecar_file: &SidecarFile,
    stream: &Transcript,
    asking: &Asking<'_>,
    mut made: Vec<Made>,
) -> Result<Vec<Made>, Error> {
    let attempt = || {
        sidecar_file.replace(Duration::ZERO, |now| {
            let before = stream.sidecar().map(sidecar::Sidecar::file);
            if now.as_ref() == before {
                return Ok(Some(file(stream, &asking.entries, &made)));
            }
            let grown = with_current_sidecar(stream, now).map_err(StaleSnapshot::Unreadable)?;
            made = anew(&grown, asking)?;
            Ok(Some(file(&grown, &asking.entries, &made)))
        })
    };
    under_lock(sidecar_file.path(), asking.run.limits.lock_wait, attempt).await?;
    Ok(made)
}
