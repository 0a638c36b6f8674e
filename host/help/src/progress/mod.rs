//! The progress of strategies, models, and batches on a terminal. The lines disappear at the end. If stderr is not a
//! terminal, nothing must be written.

mod bars;
mod line;

pub use bars::{BatchProgress, EvalBar};
use indicatif::ProgressDrawTarget;
pub use line::ProgressLine;

/// Returns stderr as the target, unless the progress is hidden. indicatif draws only on a terminal.
fn draw_target(hidden: bool) -> ProgressDrawTarget {
    if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}
