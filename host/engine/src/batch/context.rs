//! The configuration of a batch, and the state of its threads. Both the threads (`run`) and the processing of one
//! transcript (`transcript`) use them. Nothing here starts any work.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::ErrorReport;
use jp_compact_transcripts::Format;
use tokio::sync::Notify;

use super::{FoundFiles, Gates, PreviousReport, ReportLines, ViewFolder};
use crate::compact::Opened;
use crate::disk_queue::DiskQueue;
use crate::plan;

/// Converts an error for the report. The caller provides it, because exit codes and hints belong to the command line.
pub type Describe = dyn Fn(plan::Error) -> ErrorReport + Sync;

/// The parameters of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchConfig<'a> {
    /// The transcripts.
    pub files: &'a FoundFiles,
    /// The format that the user typed.
    pub format: Option<Format>,
    /// The number of threads.
    pub jobs: usize,
    /// The folder for views.
    pub out: Option<&'a ViewFolder>,
    /// The results of an earlier run.
    pub previous: Option<&'a PreviousReport>,
    pub gates: &'a Gates,
    /// The lines of the report, if a report was requested. They contain digests.
    pub report_lines: Option<&'a ReportLines>,
    /// Whether the lint rules are checked.
    pub checks_lint: bool,
    /// The environment of the host.
    pub environment: &'a Environment,
    /// A request to stop immediately, like a second interrupt.
    pub shut_down: &'a Notify,
}

/// The state that threads share.
pub(super) struct Shared {
    /// The index of the next transcript.
    pub(super) next: AtomicUsize,
    pub(super) stop: AtomicBool,
    /// The resolved paths of conversations that have copies and whose processing has started. JP has up to two copies
    /// of a conversation.
    pub(super) copies: Mutex<HashSet<PathBuf>>,
    /// Waits for the disk.
    pub(super) disk: Arc<DiskQueue>,
}

impl Shared {
    /// Returns the index of the next transcript, unless the run is stopping.
    pub(super) fn take_next(&self, files: &FoundFiles) -> Option<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        (index < files.len()).then_some(index)
    }

    /// Returns whether a transcript is left.
    pub(super) fn has_next(&self, files: &FoundFiles) -> bool {
        self.next.load(Ordering::Relaxed) < files.len()
    }

    /// Returns whether to process this path of a conversation that has copies. Only one path of each conversation is
    /// processed.
    pub(super) fn claim(&self, files: &FoundFiles, index: usize, opened: &Opened) -> bool {
        let Ok(real_path) = opened.place.path().canonicalize() else { return true };
        !files.contains_other(index, &real_path)
            && self.copies.lock().unwrap_or_else(PoisonError::into_inner).insert(real_path)
    }
}
