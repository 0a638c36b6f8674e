//! Interruptible work: SIGINT and SIGTERM end it.

use crate::error::Report;
use crate::exit::Exit;

/// Runs work until it is done or interrupted. An interrupt drops the work: strategies are killed and their files
/// removed. A write in progress is always finished.
pub(crate) fn until_interrupted<T>(work: impl Future<Output = Result<T, Report>>) -> Result<T, Report> {
    let interrupted = || {
        let hint = "the reported transcripts are done; the others are unchanged";
        Report::new(Exit::Interrupted, "interrupted", Some(hint))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            result = work => result,
            _ = interrupt.recv() => Err(interrupted()),
            _ = terminate.recv() => Err(interrupted()),
        }
    });
    // A name lookup cannot be cancelled; a normal shutdown would wait for it.
    runtime.shutdown_background();
    result
}
