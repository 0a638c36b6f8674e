//! The results of commands as text for people, and the colors of text on a terminal. They are a separate crate because
//! a crate may have 10,000 lines, and `host/cli` is almost full. A report must not print, and must escape foreign text.
//!
//! The interface is not stable.

pub mod automatic;
pub mod batch;
pub mod cache_cost;
pub mod diff;
pub mod eval;
pub mod lost_paths;
pub mod palette;
pub mod sent_tokens;
pub mod stats;
pub mod steps;
