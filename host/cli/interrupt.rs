//! Interruptible work: SIGINT, SIGTERM, and JP's `shutdown` end it.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::error::Report;
use crate::exit::Exit;

/// The request of JP to end the work. It is kept until some work sees it.
pub(crate) static SHUTDOWN: Notify = Notify::const_new();

/// Interrupts the current work of this process, or else its next work.
pub(crate) fn shut_down() {
    SHUTDOWN.notify_one();
}

/// Runs work until it is done or interrupted. An interrupt drops the work: strategies are killed and their files
/// removed. A write in progress is always finished.
pub(crate) fn until_interrupted<T>(work: impl Future<Output = Result<T, Report>>) -> Result<T, Report> {
    let interrupted = || Report::new(Exit::Interrupted, "interrupted", None);
    let start_failure = |error| Report::of_system("failed to start the runtime", &error);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(start_failure)?;
    let result = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(start_failure)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(start_failure)?;
        tokio::select! {
            result = work => result,
            _ = interrupt.recv() => Err(interrupted()),
            _ = terminate.recv() => Err(interrupted()),
            () = SHUTDOWN.notified() => Err(interrupted()),
        }
    });
    // A name lookup cannot be canceled; a normal shutdown would wait for it.
    runtime.shutdown_background();
    result
}

/// Same as [`until_interrupted`], for work that appends to transcripts, unless it is a dry run.
pub(crate) fn append_until_interrupted<T>(
    dry_run: bool,
    work: impl Future<Output = Result<T, Report>>,
) -> Result<T, Report> {
    let hint = "a transcript without a report may be compacted, too; `jp-compact show` lists its overlays";
    until_interrupted(work).map_err(|report| match report.exit {
        Exit::Interrupted if !dry_run => report.with_hint(hint.to_owned()),
        _ => report,
    })
}
