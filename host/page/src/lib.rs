//! The HTML pages of `eval` and `diff`. A page is one file without scripts, and it loads nothing from the network,
//! because it contains private text and is stored with the artifacts of CI. All text is escaped, and a
//! Content-Security-Policy forbids scripts in case an escape is missing.
//!
//! The interface is not stable.

mod chart;
mod cost;
mod diff;
mod eval;
mod figure;
mod frame;
mod frontier;
mod lost;
mod ribbon;
mod ribbons;
mod rows;
mod text;

pub use diff::{DiffPage, diff_page};
pub use eval::eval_page;

/// Whether a page has texts of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    Shown,
    /// Only numbers, and names of strategies, tools, and files.
    Hidden,
}
