//! The inputs of a batch: its configuration, and the state that its threads share. The threads (`run`) and the work on
//! one transcript (`one`) both use them. Nothing here starts any work.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::ErrorReport;
use jp_compact_transcripts::Format;
use tokio::sync::Semaphore;

use super::{Files, Gates, Out, PreviousReport, ReportLines};
use crate::compact::Opened;
use crate::plan::{self, ThreadPlans};

/// Converts an error for the report. The caller knows exit codes and hints.
pub type Describe = dyn Fn(plan::Error) -> ErrorReport + Sync;

/// The parameters of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchConfig<'a> {
    /// The transcripts.
    pub files: &'a Files,
    /// The format that the user named.
    pub format: Option<Format>,
    /// The number of threads.
    pub jobs: usize,
    /// The folder for views.
    pub out: Option<&'a Out>,
    /// The results of an earlier run.
    pub previous: Option<&'a PreviousReport>,
    /// The gates.
    pub gates: &'a Gates,
    /// The lines of the report, with digests, if a report was requested.
    pub lines: Option<&'a ReportLines>,
    /// Whether the lint rules are checked.
    pub looks: bool,
    /// The environment of the host.
    pub environment: &'a Environment,
}

/// The state that threads share.
pub(super) struct Shared {
    pub(super) next: AtomicUsize,
    pub(super) stop: AtomicBool,
    /// Copies of conversations that are being processed. JP has up to two of each.
    pub(super) copies: Mutex<HashSet<PathBuf>>,
}

impl Shared {
    /// Returns the next transcript, unless the run is stopping.
    pub(super) fn next(&self, files: &Files) -> Option<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        (place < files.len()).then_some(place)
    }

    /// Returns whether no other thread processes the same conversation.
    pub(super) fn is_first(&self, files: &Files, place: usize, opened: &Opened) -> bool {
        let Ok(real) = opened.place.path().canonicalize() else { return true };
        !files.holds_other(place, &real)
            && self.copies.lock().unwrap_or_else(PoisonError::into_inner).insert(real)
    }
}

/// The state of a thread.
pub(super) struct Thread {
    pub(super) plans: ThreadPlans,
    pub(super) heavy: Semaphore,
}
