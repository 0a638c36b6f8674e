//! The measures of a compaction: anchors, cut points, recall, controls, and cache cost. Everything here is a function of
//! its arguments. There must be no access to files, processes, or the clock.
//!
//! The interface is not stable.
#![expect(
    clippy::cast_possible_truncation,
    reason = "events and anchors of a session are numbered with 32 bits; a transcript has far fewer than 2^32"
)]

pub mod cache;
mod class;
pub mod constraint;
pub mod control;
pub mod cut;
pub mod event_text;
pub mod interval;
pub mod lost_paths;
pub mod prices;
pub mod prompt_cache;
pub mod recall;
pub mod scan;
pub mod session;

pub use class::Class;
pub use session::Session;
