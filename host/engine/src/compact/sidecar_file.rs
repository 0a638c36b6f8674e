//! The append of overlays to the sidecar of another program's transcript.

use std::time::Duration;

use jp_compact_core::TurnRange;
use jp_compact_core::append::{Entry, NewOverlay};
use jp_compact_runtime::digest::of_bytes;
use jp_compact_transcripts::Transcript;
use jp_compact_transcripts::sidecar::{self, Sidecar, Snapshot};

use super::ask::ProposalCollector;
use super::error::{Error, StaleSnapshot};
use super::lock::under_lock;
use super::open::with_current_sidecar;
use super::recheck::recheck;
use super::{Opened, RunReport};
use crate::digest;
use jp_compact_store::SidecarFile;

/// Returns the sidecar with these overlays after its existing overlays.
pub(super) fn to_bytes(stream: &Transcript, entries: &[Entry], new_overlays: &[NewOverlay]) -> Vec<u8> {
    let digest = |range: TurnRange| digest::of_range(stream, range);
    sidecar::with(stream.format(), stream.sidecar(), entries, new_overlays, &snapshot(stream), &digest)
}

/// Returns the size and the digest of the transcript as it was read.
fn snapshot(stream: &Transcript) -> Snapshot {
    Snapshot { bytes: stream.bytes().len() as u64, sha256: of_bytes(stream.bytes()) }
}

/// Writes the new overlays after the existing overlays. If another process changed the sidecar since it was read, the
/// new overlays are checked and stamped again.
pub(super) async fn write(
    sidecar_file: &SidecarFile,
    opened: &Opened,
    collector: &mut ProposalCollector<'_>,
    report: &mut RunReport,
    new_overlays: &mut Vec<NewOverlay>,
) -> Result<(), Error> {
    let (stream, lock_wait) = (&opened.stream, collector.run.limits.lock_wait);
    let attempt = || {
        sidecar_file.replace(Duration::ZERO, |current| {
            if current.as_ref() == stream.sidecar().map(Sidecar::file) {
                return Ok(Some(to_bytes(stream, &collector.entries, new_overlays)));
            }
            let changed = with_current_sidecar(stream, current).map_err(StaleSnapshot::Unreadable)?;
            *new_overlays = recheck(opened, &changed, collector, report)?;
            Ok(Some(to_bytes(&changed, &collector.entries, new_overlays)))
        })
    };
    under_lock(opened.place.path(), lock_wait, attempt).await
}
