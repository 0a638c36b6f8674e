//! Text for people on a terminal. Every text from a transcript, a strategy, or a model must pass through this crate. It
//! depends on no other crate of the project. It must not read or write.
//!
//! The interface is not stable.
#![expect(missing_docs, reason = "the interface is not stable, so only unclear names need a comment")]

pub mod bar_chart;
pub mod colors;
pub mod escape;
pub mod lines;
pub mod numbers;
pub mod width;
pub mod wrap;
