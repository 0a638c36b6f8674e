//! The progress of strategies, models, and batches on a terminal. The lines disappear at the end. If stderr is not a
//! terminal, nothing must be written.

mod bars;
mod line;
mod narrow_terminal;

pub use bars::{BatchProgress, EvalBar};
use indicatif::ProgressDrawTarget;
pub use line::ProgressLine;
use narrow_terminal::NarrowTerminal;

/// The maximum number of redraws in a second.
const REDRAWS_PER_SECOND: u8 = 20;

/// Returns stderr as the target. The target is hidden if the progress is, or if stderr is not a terminal.
fn draw_target(hidden: bool) -> ProgressDrawTarget {
    match NarrowTerminal::stderr().filter(|_| !hidden) {
        Some(terminal) => ProgressDrawTarget::term_like_with_hz(Box::new(terminal), REDRAWS_PER_SECOND),
        None => ProgressDrawTarget::hidden(),
    }
}
