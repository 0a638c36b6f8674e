//! The results of commands as text for people, and the colors of text on a terminal. They are a separate crate because
//! the command line has almost 10,000 lines. A report must not print, and must escape each text of a transcript.
//!
//! The interface is not stable.

pub mod batch;
pub mod cache_cost;
pub mod diff;
pub mod eval;
pub mod lost_paths;
pub mod palette;
pub mod sent_tokens;
pub mod stats;
pub mod steps;
